//! The studies of `pumice-lab`, for its commands and its tests.

pub mod study;

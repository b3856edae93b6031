//! The studies of `pumice-lab`, for its commands and its tests.

pub mod hostile;
pub mod pairs;
pub mod study;

//! Flash: chips behind a trait, a translation layer over them, and a drive in a file or on a
//! device.

pub mod chip;
pub mod device;
pub mod ftl;

//! How a pass goes through an array, whatever it does to the stripes: schedule, course, lost
//! connections, observer. What is done to a batch is a `Work`: see
//! [`crate::scrub`].

mod course;
mod observer;
mod retry;
mod schedule;

pub use observer::{Observer, Progress, StopReason};
pub use retry::RECONNECT;

pub(crate) use course::{Course, Work};
pub(crate) use schedule::Schedule;

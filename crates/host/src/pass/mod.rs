//! A pass over an array, independent of the work on its stripes: schedule, course, lost
//! connections, observer. The work on a batch is a `Work`: see [`crate::scrub`].

mod course;
mod observer;
mod retry;
mod schedule;

pub use observer::{Observer, Progress, StopReason};
pub use retry::{RECONNECT, Retry};

pub(crate) use course::{Course, Work};
pub(crate) use schedule::Schedule;

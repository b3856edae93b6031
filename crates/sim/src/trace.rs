//! Traces: requests of a foreground load, read in a stream from files of several formats.

mod blkparse;
mod blocks;
mod csv;
mod detect;
mod devices;
mod error;
mod events;
mod fields;
mod fio;
pub(crate) mod input;
mod kept;
mod line;
mod msr;
mod reader;
mod spc;

pub(crate) use blocks::read as read_csv;
pub use detect::Format;
pub use devices::Devices;
pub use error::TraceError;
pub(crate) use kept::Kept;
pub(crate) use line::leaps;
pub use reader::TraceReader;

use pumice_pacer::Nanos;

/// Read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Data comes from the drive.
    Read,
    /// Data goes to the drive.
    Write,
}

/// One foreground request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Time of its arrival, in nanoseconds since the first request of the trace.
    pub at: Nanos,
    /// Its device: an index into [`Devices`].
    pub device: u32,
    /// Read or write.
    pub op: Op,
    /// Bytes from the start of the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Response time in nanoseconds, where the trace has it.
    pub response: Option<Nanos>,
}

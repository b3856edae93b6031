//! Errors of devices.

use std::fmt;
use std::io;

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Opening the device.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making writes durable.
    Flush,
    /// Making a range unreadable.
    Mark,
    /// Zeroing a range.
    Zero,
    /// Zeroing a range and releasing its space.
    Discard,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Mark => "mark",
            Self::Zero => "zeroing",
            Self::Discard => "discard",
        })
    }
}

/// Writes that were answered, and that no flush covered, may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a node was started again before its drives had flushed writes that were answered")]
pub struct LostWrites;

/// A failed operation: the device, the place and the cause.
#[derive(Debug, thiserror::Error)]
pub struct IoError {
    device: String,
    operation: Operation,
    offset: u64,
    length: u64,
    source: io::Error,
}

impl IoError {
    /// An operation that failed at `offset` (bytes), over `length` bytes.
    #[must_use]
    pub fn new(device: &str, operation: Operation, offset: u64, length: usize, source: io::Error) -> Self {
        Self { device: device.to_owned(), operation, offset, length: length as u64, source }
    }

    pub(crate) fn open(device: &str, source: io::Error) -> Self {
        Self::new(device, Operation::Open, 0, 0, source)
    }

    /// The device's name.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns whether the failure is a lack of room for records beside the medium.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.source.kind() == io::ErrorKind::StorageFull
    }

    /// Returns whether it tells of writes that were answered and may be lost.
    #[must_use]
    pub fn is_lost_writes(&self) -> bool {
        let Some(source) = self.source.get_ref() else { return false };
        source.is::<LostWrites>()
    }

    /// An integrity check of these bytes failed (EILSEQ in Linux). A repeated read fails in the
    /// same way.
    #[must_use]
    pub fn protection(device: &str, operation: Operation, offset: u64, length: usize) -> Self {
        Self::new(device, operation, offset, length, io::Error::from_raw_os_error(libc::EILSEQ))
    }

    /// Returns whether an integrity check failed. Such an error is also a [media
    /// error](Self::is_media_error).
    #[must_use]
    pub fn is_protection_error(&self) -> bool {
        self.source.raw_os_error() == Some(libc::EILSEQ)
    }

    /// The same as a system error: EIO if the medium itself failed for these bytes.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        if self.is_media_error() { io::Error::from_raw_os_error(libc::EIO) } else { io::Error::other(self) }
    }

    /// Returns whether the medium itself failed for these bytes: others may still be readable.
    #[must_use]
    pub fn is_media_error(&self) -> bool {
        matches!(
            self.source.raw_os_error(),
            Some(libc::EIO | libc::EILSEQ | libc::ENODATA | libc::EREMOTEIO | libc::EBADE)
        )
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, operation, offset, length, source } = self;
        match operation {
            Operation::Open => write!(f, "{device}: {source}"),
            Operation::Flush => write!(f, "{device}: flush: {source}"),
            _ => write!(f, "{device}: {operation} of {length} bytes at {offset}: {source}"),
        }
    }
}

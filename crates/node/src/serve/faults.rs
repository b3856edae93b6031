//! The statuses of commands whose medium failed.

use pumice_blockdev::IoError;
use pumice_nvme::spec::Status;

/// The cause of a command's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: Status,
    /// The block that is the cause, if there is one.
    pub(super) lba: Option<u64>,
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self { status, lba: None }
    }
}

/// The status of a read that failed. Unreadable sectors and a drive that fails as a whole have
/// different statuses: a host may rebuild the sectors, but must not take the failed drive for
/// damage. A block that differs from its tag will differ again, so the host is told not to retry.
pub(super) fn read_fault(error: &IoError) -> Status {
    if error.is_protection_error() {
        Status::READ_ERROR.dnr()
    } else if error.is_media_error() {
        Status::READ_ERROR
    } else {
        Status::INTERNAL
    }
}

/// The status of a flush that failed. One that tells of lost writes would succeed if the host's
/// system tried it once more, and nobody would hear of them: it must not.
pub(super) fn flush_fault(error: &IoError) -> Status {
    if error.is_lost_writes() { Status::WRITE_FAULT.dnr() } else { write_fault(error) }
}

/// The status of a write that failed.
pub(super) fn write_fault(error: &IoError) -> Status {
    if error.is_full() { Status::CAPACITY.dnr() } else { Status::WRITE_FAULT }
}

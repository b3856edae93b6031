//! What a command ends with whose medium failed.

use pumice_blockdev::IoError;
use pumice_nvme::spec::Status;

/// Why a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: Status,
    /// The block because of which, if it was one.
    pub(super) lba: Option<u64>,
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self { status, lba: None }
    }
}

/// The status of a read that failed: sectors that the medium refuses are told from a drive that
/// fails as a whole, for a host may rebuild the first and must not take the second for damage. A
/// block that does not fit its tag does not fit it at the second try either: the host is told not
/// to try.
pub(super) fn read_fault(error: &IoError) -> Status {
    if error.is_protection_error() {
        Status::READ_ERROR.dnr()
    } else if error.is_media_error() {
        Status::READ_ERROR
    } else {
        Status::INTERNAL
    }
}

/// The status of a write that failed.
pub(super) fn write_fault(error: &IoError) -> Status {
    if error.is_full() { Status::CAPACITY.dnr() } else { Status::WRITE_FAULT }
}

//! Commands that have ended.

use super::budget::Held;
use crate::pace::Foreground;
use pumice_buffer::AlignedBuffer;
use pumice_nvme::controller::Op;
use pumice_nvme::spec::Status;

/// Whose command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    /// The connection on its core.
    pub(super) connection: usize,
    /// Its slot.
    pub(super) slot: u16,
}

/// A command that is done.
pub(super) struct Done {
    pub(super) ticket: Ticket,
    pub(super) status: Status,
    pub(super) result: u64,
    /// It changed, or was to change, the medium.
    pub(super) wrote: bool,
    /// What a command of the parity command set gives to the host.
    pub(super) answer: Option<Vec<u8>>,
    /// What was read; the first `len` bytes of it count.
    pub(super) read: Option<AlignedBuffer>,
    /// Bytes of the command.
    pub(super) len: usize,
    /// What was asked for, when its turn began, and for how many bytes of the drive.
    pub(super) op: Op,
    pub(super) began: u64,
    pub(super) bytes: u64,
    /// Bytes that its connection holds for it.
    pub(super) flown: u64,
    /// The same, in its host's account.
    pub(super) held: Option<Held>,
    /// The drive that it was for, by index, and when it came in.
    pub(super) foreground: Option<(usize, Foreground)>,
}

impl Done {
    /// The foreground request that it was: its drive, and its bytes.
    pub(super) fn foreground(&self) -> Option<(usize, Foreground, u64)> {
        self.foreground.map(|(index, request)| (index, request, self.len as u64))
    }

    /// What goes to the host.
    pub(super) fn data(&self) -> Option<&[u8]> {
        match &self.answer {
            Some(answer) => Some(answer),
            None => Some(&self.read.as_deref()?[..self.len]),
        }
    }
}

//! Commands that have ended.

use super::budget::Held;
use super::outgoing::Buffer;
use crate::pace::Foreground;
use pumice_base::buffer::SharedBuffer;
use pumice_nvme::controller::Op;
use pumice_nvme::spec::Status;

/// Bytes of data that are copied, at most.
const COPIED: u32 = 4096;

/// The connection and the slot of a command.
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
    /// The block that caused the failure, if there is one.
    pub(super) lba: Option<u64>,
    pub(super) result: u64,
    /// It changed, or was to change, the medium.
    pub(super) wrote: bool,
    /// The answer of a command of the parity command set.
    pub(super) answer: Option<Vec<u8>>,
    /// The data that were read.
    pub(super) read: Option<SharedBuffer>,
    /// Bytes of the command.
    pub(super) len: usize,
    /// The operation, the time at which its turn began, and its bytes of the drive.
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

    /// Bytes that go to the host.
    pub(super) fn bytes_for_host(&self) -> u32 {
        // A command moves 1 MiB at most.
        self.data().map_or(0, |data| data.len() as u32)
    }

    /// Returns whether the data are sent from where they lie. To copy a few is cheaper than to send
    /// them apart; the command was counted with a page more than its data, which is what a copy
    /// takes.
    pub(super) fn is_worth_keeping(&self) -> bool {
        self.bytes_for_host() > COPIED
    }

    /// The data, and how many bytes of the buffer they are.
    pub(super) fn take_data(&mut self) -> Option<(usize, Buffer)> {
        if let Some(answer) = self.answer.take() {
            return Some((answer.len(), Buffer::Bytes(answer)));
        }
        self.read.take().map(|pages| (pages.len(), Buffer::Pages(pages)))
    }

    /// The data for the host.
    pub(super) fn data(&self) -> Option<&[u8]> {
        match &self.answer {
            Some(answer) => Some(answer),
            None => self.read.as_deref(),
        }
    }
}

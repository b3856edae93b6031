//! Updates, and the paths that their sums take: `docs/design/offload.md`, *Updates*.

use super::leases::Active;
use super::peers::{MAX_MOVE, PeerLinks};
use crate::LocalNode;
use crate::engine::Permit;
use crate::update::{self, Failed};
use pumice_nvme::spec::Sqe;
use pumice_offload::wire::{self, UpdateWords, opcode};
use pumice_offload::{
    DriveId, ErrorKind, MAX_PATHS, MAX_STRETCH_BYTES, MemoryAddress, NodeError, PathId, PeerRange, SumTo,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a sum that is sent together with others, at most: a window.
const MOST_TOGETHER: u64 = 64 << 10;

/// The paths of all controllers.
#[derive(Debug, Default)]
pub(super) struct Paths(Mutex<BTreeMap<(u16, PathId), PeerRange>>);

impl Paths {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u16, PathId), PeerRange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names a range for a controller.
    pub(super) fn set(
        &self,
        cntlid: u16,
        number: u32,
        descriptor: &[u8],
        peers: &PeerLinks,
    ) -> Result<(), NodeError> {
        let transfer =
            wire::decode_transfer(descriptor).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
        if transfer.from != (MemoryAddress { drive: DriveId(0), offset: 0 }) {
            return Err(NodeError::invalid("from", "a path has none"));
        }
        let Some(path) = u16::try_from(number).ok().filter(|path| *path != u16::MAX) else {
            return Err(NodeError::invalid("path", format!("{number} is not the number of a path")));
        };
        peers.find(&transfer.peer)?;
        let key = (cntlid, PathId(path));
        let mut paths = self.lock();
        let others = paths.range((cntlid, PathId(0))..=(cntlid, PathId(u16::MAX)));
        if others.filter(|(known, _)| **known != key).count() >= MAX_PATHS {
            return Err(NodeError::new(ErrorKind::Busy, format!("there are already {MAX_PATHS} paths")));
        }
        let (peer, to, len, grant) = (transfer.peer, transfer.to, transfer.len, transfer.grant);
        paths.insert(key, PeerRange { peer, to, len, grant });
        Ok(())
    }

    /// Forgets the paths of controllers that have ended.
    pub(super) fn sweep(&self, stands: impl Fn(u16) -> bool) {
        self.lock().retain(|(cntlid, _), _| stands(*cntlid));
    }

    fn get(&self, cntlid: u16, path: PathId) -> Result<PeerRange, NodeError> {
        let none = || NodeError::invalid("path", format!("path {} is not set", path.0));
        self.lock().get(&(cntlid, path)).cloned().ok_or_else(none)
    }
}

fn quad(sqe: &Sqe, low: usize) -> u64 {
    u64::from(sqe.dword(low)) | u64::from(sqe.dword(low + 1)) << 32
}

/// The bytes that an update, a store or a tagged write changes, at most, and the number of their
/// drive.
pub(super) fn changed(sqe: &Sqe) -> Option<(u32, Range<u64>)> {
    let at = quad(sqe, 10);
    let len = match sqe.opcode() {
        opcode::STORE | opcode::TAGGED_WRITE => u64::from(sqe.dword(12)),
        opcode::UPDATE if at > 0 => 4096 + u64::from(sqe.dword(13)),
        _ => return None,
    };
    Some((sqe.nsid(), at..at.saturating_add(len)))
}

/// Returns whether a command copies and folds memory, and no more of it than the largest write:
/// then its core carries it out at once, because handing it to a thread takes longer. `in_memory`
/// says whether all drives are. Such a command ends with a status alone.
pub(super) fn is_short(sqe: &Sqe, data: &[u8], in_memory: bool) -> bool {
    match sqe.opcode() {
        opcode::MEMORY_WRITE => true,
        opcode::STORE => in_memory && u64::from(sqe.dword(12)) <= MAX_MOVE,
        opcode::UPDATE if in_memory => {
            let Ok((update, _)) = wire::decode_update(words(sqe), data) else { return true };
            let sends = update.sums.iter().any(|sum| sum.to != SumTo::Slot);
            // A stretch is read by several threads.
            !sends
                && update.segment.is_none()
                && u64::from(update.len) * (1 + update.sources.len() as u64) <= MAX_MOVE
        }
        _ => false,
    }
}

/// Returns whether a command is short, and ends with data: bytes of local memory.
pub(super) fn is_short_read(sqe: &Sqe) -> bool {
    sqe.opcode() == opcode::MEMORY_READ
}

/// Returns whether a command sends sums of a few blocks to peers and does nothing that has to
/// follow: then it is carried out together with others like it. A record is written when the sums
/// are there.
pub(super) fn sends(sqe: &Sqe, data: &[u8]) -> bool {
    if sqe.opcode() != opcode::UPDATE || u64::from(sqe.dword(13)) > MOST_TOGETHER {
        return false;
    }
    let Ok((update, _)) = wire::decode_update(words(sqe), data) else { return false };
    let sends = update.sums.iter().any(|sum| sum.to != SumTo::Slot);
    sends && update.record.is_none() && update.segment.is_none()
}

fn words(sqe: &Sqe) -> UpdateWords {
    UpdateWords {
        drive: DriveId(sqe.nsid()),
        slot: quad(sqe, 2),
        record_at: quad(sqe, 10),
        len: sqe.dword(13),
    }
}

/// Sends bytes to a range of a peer's memory, or has them sent later.
pub(super) type SendTo<'a> = dyn Fn(PeerRange, u64, &[u8]) -> Result<(), NodeError> + 'a;

/// Carries out an update. Returns what the completion says.
pub(super) fn update(
    node: &LocalNode,
    (cntlid, sqe, data): (u16, &Sqe, &[u8]),
    memory: &Active<'_>,
    (paths, send_to): (&Paths, &SendTo<'_>),
    permit: &dyn Permit,
) -> Result<u64, Failed> {
    let (update, data) =
        wire::decode_update(words(sqe), data).map_err(|e| NodeError::invalid(e.field, e.to_string()))?;
    let send = |path, offset, bytes: &[u8]| send_to(paths.get(cntlid, path)?, offset, bytes);
    let [first, second] = update::carry_out(node, &update, data, memory, &send, permit)?;
    Ok(u64::from(first) | u64::from(second) << 32)
}

/// Carries out a store.
pub(super) fn store(
    node: &LocalNode,
    sqe: &Sqe,
    memory: &Active<'_>,
    permit: &dyn Permit,
) -> Result<(), Failed> {
    let (len, flags) = (u64::from(sqe.dword(12)), sqe.dword(13));
    if len == 0 || len > u64::from(MAX_STRETCH_BYTES) {
        return Err(NodeError::invalid("len", format!("{len} bytes, not 1 to {MAX_STRETCH_BYTES}")).into());
    }
    if flags & !wire::STORE_DURABLE != 0 {
        return Err(NodeError::invalid("flags", format!("{flags:#x}")).into());
    }
    let from = MemoryAddress { drive: DriveId(sqe.nsid()), offset: quad(sqe, 2) };
    let durable = flags & wire::STORE_DURABLE != 0;
    update::store(node, from, quad(sqe, 10), len, durable, memory, permit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_offload::{Update, UpdateSource, UpdateSum};

    fn command(opcode: u8, len: u32) -> Sqe {
        let mut sqe = Sqe::new(opcode, 1);
        sqe.set_dword(12, len);
        sqe.set_dword(13, len);
        sqe
    }

    fn folds(sources: usize, to: SumTo, segment: Option<u32>) -> Vec<u8> {
        let sums = vec![UpdateSum { to, factors: vec![1; sources] }];
        let source = |number| UpdateSource::Media { drive: DriveId(1), offset: number as u64 * 65536 };
        let sources = (0..sources).map(source).collect();
        let (drive, slot, len) = (DriveId(1), 0, 65536);
        let (fills, secret, record) = (false, 0, None);
        let update = Update { drive, slot, len, segment, fills, secret, sources, sums, record };
        wire::encode_update(&update).unwrap().1
    }

    #[test]
    fn a_core_carries_out_nothing_that_waits_or_takes_long() {
        let update = command(opcode::UPDATE, 65536);
        let sends = SumTo::Peer { path: PathId(0), offset: 0 };
        assert!(is_short(&update, &folds(8, SumTo::Slot, None), true));
        assert!(!is_short(&update, &folds(8, SumTo::Slot, None), false), "a drive is waited for");
        assert!(!is_short(&update, &folds(1, sends, None), true), "a peer is waited for");
        assert!(!is_short(&update, &folds(16, SumTo::Slot, None), true), "more than the largest write");
        assert!(!is_short(&update, &folds(1, SumTo::Slot, Some(4096)), true), "a stretch");
        let large = MAX_MOVE as u32;
        assert!(is_short(&command(opcode::STORE, large), &[], true));
        assert!(!is_short(&command(opcode::STORE, large + 4096), &[], true));
        assert!(!is_short(&command(opcode::STORE, 4096), &[], false));
        assert!(is_short(&command(opcode::MEMORY_WRITE, 4096), &[0; 4096], false));
        assert!(!is_short(&command(opcode::PARITY_EXECUTE, 0), &[], true));
    }

    #[test]
    fn what_goes_together_sends_and_does_nothing_else() {
        let (update, sent) = (command(opcode::UPDATE, 65536), SumTo::Peer { path: PathId(0), offset: 0 });
        assert!(sends(&update, &folds(1, sent, None)));
        assert!(!sends(&update, &folds(1, SumTo::Slot, None)), "nothing is sent");
        assert!(!sends(&update, &folds(1, sent, Some(4096))), "a stretch");
        assert!(!sends(&command(opcode::UPDATE, 69632), &folds(1, sent, None)), "more than a window");
        assert!(!sends(&command(opcode::STORE, 4096), &[]));
    }
}

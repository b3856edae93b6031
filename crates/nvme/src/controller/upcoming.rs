//! The command behind the present one.

use crate::pdu::{COMMON, CommonHeader, Kind};
use crate::spec::Sqe;
use crate::spec::command::{Op, io_command};

/// The blocks of the command that comes next, as its capsule says. Nothing of it has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upcoming {
    /// Read or Write.
    pub op: Op,
    /// The namespace that it names.
    pub nsid: u32,
    /// The first block that it names.
    pub lba: u64,
    /// Blocks, 1 to 65,536.
    pub blocks: u32,
}

/// The command at the start of `bytes`, if the capsule of a Read or a Write begins there.
pub(super) fn upcoming(bytes: &[u8]) -> Option<Upcoming> {
    let sqe = Sqe(bytes.get(COMMON..)?.first_chunk().copied()?);
    let common = CommonHeader::decode(bytes)?;
    let op = io_command(sqe.opcode())?.kind;
    let is_known = common.kind == Kind::CapsuleCmd && matches!(op, Op::Read | Op::Write);
    is_known.then(|| Upcoming { op, nsid: sqe.nsid(), lba: sqe.slba(), blocks: sqe.blocks() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_capsules_of_reads_and_writes_are_known() {
        let capsule = |kind: u8, opcode| {
            let mut sqe = Sqe::new(opcode, 7);
            sqe.set_blocks(1 << 40, 65_536);
            [[kind, 0, 72, 0, 72, 0, 0, 0].as_slice(), &sqe.0].concat()
        };
        for (opcode, op) in [(1, Op::Write), (2, Op::Read)] {
            let expected = Upcoming { op, nsid: 7, lba: 1 << 40, blocks: 65_536 };
            let mut bytes = capsule(4, opcode);
            assert!((0..72).all(|len| upcoming(&bytes[..len]).is_none()));
            assert_eq!(upcoming(&bytes), Some(expected));
            bytes.extend([0xFF; 100]);
            assert_eq!(upcoming(&bytes), Some(expected));
        }
        // Compare, Flush, a vendor's command; data of a write; a PDU type that does not exist.
        for (kind, opcode) in [(4, 5), (4, 0), (4, 0xC1), (6, 2), (0x44, 2)] {
            assert_eq!(upcoming(&capsule(kind, opcode)), None, "{kind} {opcode}");
        }
    }
}

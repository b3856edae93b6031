//! Blocks of a remote drive, with the result of checking their tags.

use crate::RemoteNode;
use crate::answer::whole;
use crate::blocks::outcome;
use crate::memory::{MEMORY_PIECE, memory_command};
use pumice_nvme::spec::Sqe;
use pumice_offload::wire::{self, opcode};
use pumice_offload::{DriveId, ErrorKind, MemoryAddress, NodeError, TagFormat, TaggedBlocks, TaggedDrives};
use pumice_protect::origin::{Judged, RestoredTag};

/// A command over blocks of a drive: `dwords` are dwords 13 and 14.
fn command(opcode: u8, drive: DriveId, offset: u64, answer: usize, dwords: u64) -> Sqe {
    let mut sqe = memory_command(opcode, MemoryAddress { drive, offset }, 0, answer);
    sqe.set_dword(13, dwords as u32);
    sqe.set_dword(14, (dwords >> 32) as u32);
    sqe
}

fn decode<'b>(node: &RemoteNode, bytes: &'b [u8]) -> Result<(TagFormat, TaggedBlocks<'b>), NodeError> {
    wire::decode_tagged(bytes)
        .map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: {e}", node.name())))
}

impl TaggedDrives for RemoteNode {
    fn tag_format(&self, drive: DriveId) -> Result<Option<TagFormat>, NodeError> {
        self.geometry(drive, 0, 0)?;
        Ok(self.drives[drive.0 as usize - 1].tag_format())
    }

    fn read_tagged(&self, drive: DriveId, offset: u64, buf: &mut [u8]) -> Result<Vec<Judged>, NodeError> {
        let len = buf.len() as u64;
        // Tags are of the drive's blocks.
        let block = u64::from(self.geometry(drive, offset, len)?.block());
        let blocks = len / block;
        let answer = wire::TAGGED_HEADER as u64 + blocks * (wire::TAGGED_ENTRY as u64 + block);
        let mut bytes = vec![0; answer as usize];
        let sqe = command(opcode::TAGGED_READ, drive, offset, bytes.len(), blocks);
        let done = self.ask(sqe, &[], &mut bytes)?;
        whole(self.name(), &format!("{drive}: {}", opcode::name(opcode::TAGGED_READ)), &done, bytes.len())?;
        let (_, tagged) = decode(self, &bytes)?;
        if tagged.data.len() as u64 != len {
            let what = format!("{}: {drive}: tagged blocks of another length", self.name());
            return Err(NodeError::new(ErrorKind::Unreachable, what));
        }
        buf.copy_from_slice(tagged.data);
        Ok(tagged.judged)
    }

    fn vouch(&self, drive: DriveId, offset: u64, len: u64) -> Result<u64, NodeError> {
        let done = self.ask(command(opcode::TAGS_VOUCH, drive, offset, 0, len), &[], &mut [])?;
        outcome(self.name(), drive, opcode::name(opcode::TAGS_VOUCH), done.status)?;
        Ok(done.result)
    }

    fn restores(&self) -> bool {
        self.restores
    }

    fn restore(&self, drive: DriveId, offset: u64, data: &[u8], tag: RestoredTag) -> Result<(), NodeError> {
        self.geometry(drive, offset, data.len() as u64)?;
        let tags = match tag {
            RestoredTag::Adopted => wire::TAGS_ADOPTED,
            RestoredTag::Stays => wire::TAGS_STAY,
        };
        for (at, piece) in (offset..).step_by(MEMORY_PIECE).zip(data.chunks(MEMORY_PIECE)) {
            let sqe = command(opcode::TAGGED_WRITE, drive, at, piece.len(), tags.into());
            let done = self.ask(sqe, piece, &mut [])?;
            outcome(self.name(), drive, opcode::name(opcode::TAGGED_WRITE), done.status)?;
        }
        Ok(())
    }
}

//! Byte ranges over a drive that is read and written in blocks.

use crate::answer::{refused, whole};
use crate::{PIECE, RemoteNode};
use pumice_initiator::Command;
use pumice_nvme::spec::identify::Namespace;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::{DriveId, NodeError, Piece, PieceFailure};

/// Blocks of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry(Namespace);

impl Geometry {
    pub(crate) fn of(namespace: &Namespace) -> Self {
        Self(*namespace)
    }

    pub(crate) fn bytes(self) -> u64 {
        self.0.format.data_len(self.0.blocks)
    }

    /// Bytes of a block.
    pub(crate) fn block(self) -> u32 {
        self.0.format.data_bytes()
    }

    /// A command over whole blocks.
    pub(crate) fn command(self, opcode: u8, drive: DriveId, offset: u64, len: usize) -> Sqe {
        let mut sqe = Sqe::new(opcode, drive.0);
        let format = self.0.format;
        sqe.set_blocks(format.blocks_in(offset), format.blocks_in(len as u64) as u32);
        sqe
    }
}

/// The whole blocks around a byte range: first byte, and the byte after the last.
pub(crate) fn aligned(geometry: Geometry, offset: u64, len: usize) -> (u64, u64) {
    let block = u64::from(geometry.block());
    (offset & !(block - 1), (offset + len as u64).next_multiple_of(block))
}

/// The outcome of a command for a medium.
pub(crate) fn outcome(node: &str, drive: DriveId, what: &str, status: Status) -> Result<(), NodeError> {
    if status.is_success() { Ok(()) } else { Err(refused(node, &format!("{drive}: {what}"), status, "")) }
}

/// Reads whole blocks, in commands side by side.
pub(crate) fn read(
    node: &RemoteNode,
    drive: DriveId,
    geometry: Geometry,
    offset: u64,
    buf: &mut [u8],
) -> Result<(), NodeError> {
    let mut commands: Vec<Command<'_>> = Vec::new();
    for (i, piece) in buf.chunks_mut(PIECE).enumerate() {
        let sqe = geometry.command(io::READ, drive, offset + (i * PIECE) as u64, piece.len());
        commands.push(Command { sqe, send: &[], receive: piece });
    }
    let outcomes = node.run(&mut commands)?;
    commands.iter().zip(&outcomes).try_for_each(|(command, done)| {
        outcome(&node.name, drive, "read", done.status)?;
        whole(&node.name, &format!("{drive}: read"), done, command.receive.len())
    })
}

/// One command of a gathered read.
struct Part {
    piece: usize,
    sqe: Sqe,
    at: usize,
    len: usize,
}

/// Reads pieces in parallel. Pieces of whole blocks go directly to their place, others through
/// separate memory.
pub(crate) fn gather(
    node: &RemoteNode,
    pieces: &[Piece],
    buffer: &mut [u8],
) -> Result<Vec<PieceFailure>, NodeError> {
    let mut parts = Vec::new();
    let mut ragged = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        let geometry = node.geometry(piece.drive, piece.offset, piece.len as u64)?;
        if piece.at.checked_add(piece.len).is_none_or(|end| end > buffer.len()) {
            return Err(NodeError::invalid(
                "at",
                format!("{}+{} is outside the buffer", piece.at, piece.len),
            ));
        }
        let (start, end) = aligned(geometry, piece.offset, piece.len);
        if start != piece.offset || end != piece.offset + piece.len as u64 {
            ragged.push(i);
            continue;
        }
        for done in (0..piece.len).step_by(PIECE) {
            let len = (piece.len - done).min(PIECE);
            let sqe = geometry.command(io::READ, piece.drive, piece.offset + done as u64, len);
            parts.push(Part { piece: i, sqe, at: piece.at + done, len });
        }
    }
    let mut failures = read_parts(node, parts, buffer, pieces)?;
    for i in ragged {
        let piece = &pieces[i];
        let place = &mut buffer[piece.at..piece.at + piece.len];
        match pumice_offload::DataNode::read(node, piece.drive, piece.offset, place) {
            Ok(()) => {}
            Err(error) if error.kind() == pumice_offload::ErrorKind::Media => {
                failures.push(PieceFailure { piece: i, reason: error.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    failures.sort_by_key(|failure| failure.piece);
    failures.dedup_by_key(|failure| failure.piece);
    Ok(failures)
}

/// Reads pieces, and returns the indices of those that succeeded.
pub(crate) fn ahead(node: &RemoteNode, pieces: &[Piece], buffer: &mut [u8]) -> Vec<usize> {
    let Ok(failures) = gather(node, pieces, buffer) else { return Vec::new() };
    let failed = |i: &usize| failures.iter().any(|failure| failure.piece == *i);
    (0..pieces.len()).filter(|i| !failed(i)).collect()
}

fn read_parts(
    node: &RemoteNode,
    mut parts: Vec<Part>,
    buffer: &mut [u8],
    pieces: &[Piece],
) -> Result<Vec<PieceFailure>, NodeError> {
    // In the order of their places, the buffer can be dealt out to them.
    parts.sort_by_key(|part| part.at);
    let mut commands = Vec::with_capacity(parts.len());
    let (mut rest, mut begins) = (buffer, 0);
    for part in &parts {
        let skip = part
            .at
            .checked_sub(begins)
            .ok_or_else(|| NodeError::invalid("at", "pieces overlap in the buffer".to_owned()))?;
        let (place, after) = std::mem::take(&mut rest)[skip..].split_at_mut(part.len);
        (rest, begins) = (after, part.at + part.len);
        commands.push(Command { sqe: part.sqe, send: &[], receive: place });
    }
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let outcomes = node.run(&mut commands)?;
    let mut failures = Vec::new();
    for (part, done) in parts.iter().zip(outcomes) {
        if done.status.code() == Status::READ_ERROR.code() {
            failures.push(PieceFailure { piece: part.piece, reason: done.status.to_string() });
        } else {
            let drive = pieces[part.piece].drive;
            outcome(node.name(), drive, "read", done.status)?;
            whole(node.name(), &format!("{drive}: read"), &done, part.len)?;
        }
    }
    Ok(failures)
}

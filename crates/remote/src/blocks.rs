//! Byte ranges over a drive that is read and written in blocks.

use crate::answer::{refused, whole};
use crate::initiator::Command;
use crate::{PIECE, RemoteNode};
use pumice_nvme::spec::identify::Namespace;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::{DriveId, DriveRange, NodeError, Piece, PieceFailure};

/// Bytes of one command that zeroes a range: a medium that must write the zeros takes long.
const ZERO_PIECE: usize = 4 << 20;

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

/// Zeroes ranges of whole blocks. Each drive gets its first command before any gets its second
/// one, so that all of them are busy as long as the queue has room.
pub(crate) fn zero(node: &RemoteNode, ranges: &[DriveRange]) -> Result<(), (usize, NodeError)> {
    let mut parts = Vec::new();
    for (i, range) in ranges.iter().enumerate() {
        let DriveRange { drive, offset, len } = *range;
        let geometry = node.geometry(drive, offset, len).map_err(|error| (i, error))?;
        if (offset | len) & u64::from(geometry.block() - 1) != 0 {
            let what = format!("{offset}+{len} does not consist of whole blocks of {drive} of {}", node.name);
            return Err((i, NodeError::invalid("offset", what)));
        }
        for done in (0..len).step_by(ZERO_PIECE) {
            let bytes = (len - done).min(ZERO_PIECE as u64) as usize;
            parts.push((done, i, geometry.command(io::WRITE_ZEROES, drive, offset + done, bytes)));
        }
    }
    parts.sort_by_key(|(done, i, _)| (*done, *i));
    let command = |(_, _, sqe): &(u64, usize, Sqe)| Command { sqe: *sqe, send: &[], receive: &mut [] };
    let mut commands: Vec<Command<'_>> = parts.iter().map(command).collect();
    let outcomes = node.run(&mut commands).map_err(|error| (0, error))?;
    let mut failed: Option<(usize, NodeError)> = None;
    for ((_, i, _), done) in parts.iter().zip(&outcomes) {
        let result = outcome(&node.name, ranges[*i].drive, "write zeroes", done.status);
        if let (Err(error), true) = (result, failed.as_ref().is_none_or(|(first, _)| i < first)) {
            failed = Some((*i, error));
        }
    }
    failed.map_or(Ok(()), Err)
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
        match pumice_offload::Drives::read(node, piece.drive, piece.offset, place) {
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

/// Writes any bytes of a drive: what else is in their blocks is read first.
pub(crate) fn write(node: &RemoteNode, drive: DriveId, offset: u64, data: &[u8]) -> Result<(), NodeError> {
    let geometry = node.geometry(drive, offset, data.len() as u64)?;
    let (start, end) = aligned(geometry, offset, data.len());
    let mut whole = vec![0; (end - start) as usize];
    if start != offset || end != offset + data.len() as u64 {
        read(node, drive, geometry, start, &mut whole)?;
    }
    let skip = (offset - start) as usize;
    whole[skip..skip + data.len()].copy_from_slice(data);
    let mut commands: Vec<Command<'_>> = Vec::new();
    for (i, piece) in whole.chunks(PIECE).enumerate() {
        let at = start + (i * PIECE) as u64;
        let sqe = geometry.command(io::WRITE, drive, at, piece.len());
        commands.push(Command { sqe, send: piece, receive: &mut [] });
    }
    let outcomes = node.run(&mut commands)?;
    outcomes.iter().try_for_each(|o| outcome(&node.name, drive, "write", o.status))
}

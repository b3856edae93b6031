//! Steps of writes of parity: `docs/design/offload.md`, *Updates*.

mod stretch;

use crate::engine::Permit;
use crate::local::LocalNode;
use crate::memory::MemoryAccess;
use crate::operations::io_error;
use pumice_base::buffer::AlignedBuffer;
use pumice_base::units::Role;
use pumice_offload::record::{BLOCK, Kind, Record, Rows, Window};
use pumice_offload::{DriveId, MemoryAddress, NodeError, PathId, SumTo, Update, UpdateRecord, UpdateSource};
use pumice_parity::matrix::Matrix;
use pumice_protect::keyed::Key;
use std::ops::Range;

/// Reasons that a step was not done to its end.
#[derive(Debug)]
pub(crate) enum Failed {
    /// A source has other bytes than the host says.
    OtherBytes,
    /// The drive refused a write.
    Write,
    /// Anything else.
    Other(NodeError),
}

impl From<NodeError> for Failed {
    fn from(error: NodeError) -> Self {
        Self::Other(error)
    }
}

/// Sends a sum along a path: the path, the first byte in its range, the sum.
pub(crate) type Send<'a> = dyn Fn(PathId, u64, &[u8]) -> Result<(), NodeError> + 'a;

/// Carries out an update with the data for its slot. Returns the checksums of the first two sums
/// that were sent.
pub(crate) fn carry_out(
    node: &LocalNode,
    update: &Update,
    data: &[u8],
    memory: &dyn MemoryAccess,
    send: &Send<'_>,
    permit: &dyn Permit,
) -> Result<[u32; 2], Failed> {
    update.validate()?;
    let slot = MemoryAddress { drive: update.drive, offset: update.slot };
    if update.uses_slot() {
        memory.check("slot", slot, u64::from(update.len))?;
    }
    if let Some(record) = &update.record {
        check_record(node, update, record)?;
    }
    if update.fills {
        memory.write(slot, data)?;
    }
    let sent = match update.segment {
        Some(segment) => stretch::sum(node, (update, segment), memory, send, permit)?,
        None if update.sums.is_empty() => [0; 2],
        None => sum(node, update, memory, send, permit)?,
    };
    if let Some(record) = &update.record {
        // Who is gone takes the write for one that was not done.
        permit.check()?;
        write_record(node, update, record, memory)?;
    }
    Ok(sent)
}

/// Writes local memory to a medium.
pub(crate) fn store(
    node: &LocalNode,
    from: MemoryAddress,
    offset: u64,
    len: u64,
    durable: bool,
    memory: &dyn MemoryAccess,
    permit: &dyn Permit,
) -> Result<(), Failed> {
    memory.check("memory", from, len)?;
    node.whole_blocks(from.drive, &(offset..offset.saturating_add(len)))?;
    let waits = !node.writable(from.drive, offset, len)?.is_immediate();
    let mut bytes = waits.then(|| AlignedBuffer::new(len.min(PIECE) as usize));
    for (done, len) in pieces(len) {
        let from = MemoryAddress { offset: from.offset.saturating_add(done), ..from };
        let Some(bytes) = &mut bytes else {
            permit.check()?;
            let mut written = Ok(());
            let mut write = |piece: &[u8]| written = write(node, from.drive, offset + done, piece, durable);
            memory.look(from, len, &mut write)?;
            written?;
            continue;
        };
        let piece = &mut bytes[..len as usize];
        memory.read(from, piece)?;
        permit.check()?;
        write(node, from.drive, offset + done, piece, durable)?;
    }
    Ok(())
}

/// The key of interims' sums: stripes of 512 bytes, of which every update has a whole number.
type InterimKey = Key<128>;

/// Most bytes that a store or a stretch moves at a time, in a buffer of its own.
const PIECE: u64 = 256 << 10;

/// A range in pieces: first bytes and lengths.
fn pieces(len: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len).step_by(PIECE as usize).map(move |done| (done, PIECE.min(len - done)))
}

fn write(node: &LocalNode, drive: DriveId, offset: u64, bytes: &[u8], durable: bool) -> Result<(), Failed> {
    let device = node.writable(drive, offset, bytes.len() as u64)?;
    let written = device.write_at(offset, bytes).and_then(|()| if durable { device.flush() } else { Ok(()) });
    written.map_err(|error| {
        tracing::warn!(%drive, offset, %error, "a step of a write of parity failed");
        Failed::Write
    })
}

/// Folds all sources where they are, and takes each sum where it belongs.
fn sum(
    node: &LocalNode,
    update: &Update,
    memory: &dyn MemoryAccess,
    send: &Send<'_>,
    permit: &dyn Permit,
) -> Result<[u32; 2], Failed> {
    let len = update.len as usize;
    let key = InterimKey::new(update.secret);
    let mut sums: Vec<_> = update.sums.iter().map(|_| node.spare().take(len)).collect();
    for (number, source) in update.sources.iter().enumerate() {
        permit.check()?;
        let factors: Vec<u8> = update.sums.iter().map(|sum| sum.factors[number]).collect();
        let matrix = Matrix::new(sums.len(), 1, &factors)
            .map_err(|error| NodeError::invalid("sums", error.to_string()))?;
        let mut add = |bytes: &[u8]| {
            let mut sums: Vec<&mut [u8]> = sums.iter_mut().map(|sum| &mut sum[..]).collect();
            match number {
                0 => node.kernels().generate(&matrix, &[bytes], &mut sums),
                _ => node.kernels().accumulate(&matrix, &[bytes], &mut sums),
            }
        };
        match *source {
            UpdateSource::Media { drive, offset } => {
                let device = node.checked(drive, offset, len as u64)?;
                let mut bytes = node.spare().take(len);
                device.read_at(offset, &mut bytes).map_err(io_error)?;
                add(&bytes);
            }
            UpdateSource::Memory { address, sum } => {
                memory.check("sources", address, len as u64)?;
                let mut differs = false;
                memory.look(address, len as u64, &mut |bytes| {
                    differs = sum.is_some_and(|sum| sum != key.sum(bytes));
                    if !differs {
                        add(bytes);
                    }
                })?;
                if differs {
                    return Err(Failed::OtherBytes);
                }
            }
        }
    }
    let (mut sent, mut count) = ([0; 2], 0);
    for (to, bytes) in update.sums.iter().map(|sum| sum.to).zip(&sums) {
        permit.check()?;
        match to {
            SumTo::Slot => {
                memory.write(MemoryAddress { drive: update.drive, offset: update.slot }, bytes)?;
            }
            SumTo::Peer { path, offset } => {
                if let Some(sum) = sent.get_mut(count) {
                    *sum = key.sum(bytes);
                }
                count += 1;
                send(path, offset, bytes)?;
            }
        }
    }
    Ok(sent)
}

/// The bytes of the medium that a record takes.
fn place(update: &Update, record: &UpdateRecord) -> Range<u64> {
    let blocks = if record.blocks { u64::from(update.len) } else { 0 };
    record.at..record.at.saturating_add(BLOCK + blocks)
}

/// Everything that could be refused, before anything is done.
fn check_record(node: &LocalNode, update: &Update, record: &UpdateRecord) -> Result<(), NodeError> {
    let (members, most) = (record.members.len(), Record::most_members());
    if members > usize::from(most) {
        return Err(NodeError::invalid("members", format!("{members}, more than {most}")));
    }
    node.whole_blocks(update.drive, &place(update, record))
}

fn write_record(
    node: &LocalNode,
    update: &Update,
    record: &UpdateRecord,
    memory: &dyn MemoryAccess,
) -> Result<(), Failed> {
    let mut slot = vec![0; if record.blocks { update.len as usize } else { 0 }];
    memory.read(MemoryAddress { drive: update.drive, offset: update.slot }, &mut slot)?;
    let blocks: Vec<&[u8]> = slot.chunks(BLOCK as usize).collect();
    let made = Record {
        kind: if record.blocks { Kind::Blocks } else { Kind::Intent },
        role: Role(record.role),
        generation: record.generation,
        sequence: record.sequence,
        committed: record.committed,
        released: record.released,
        window: Window(record.window),
        rows: Rows(u32::from(record.rows)),
        members: record.members.iter().copied().map(Role).collect(),
    };
    let bytes = made.encode(record.nonce, record.position, &blocks);
    let mut aligned = AlignedBuffer::new(bytes.len());
    aligned[..bytes.len()].copy_from_slice(&bytes);
    write(node, update.drive, record.at, &aligned[..bytes.len()], true)
}

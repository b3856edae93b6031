//! Reads stripes to the host.

use crate::error::HostError;
use crate::target::{Target, View};
use pumice_base::buffer::AlignedBuffer;
use pumice_base::units::Role;
use pumice_offload::{DataNode, DriveId, ErrorKind, NodeError, Piece, Source, TagFormat};
use pumice_protect::origin::{Judged, Opinion};

/// Bytes of one window over all members, at most, when a host reads stripes itself.
const WINDOW_BYTES: usize = 8 << 20;
/// Bytes that are asked for with their tags at a time.
const TAGGED_BYTES: u64 = 128 << 10;

/// Opinions of tags on a member's bytes, from a border of its blocks on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tags {
    pub(crate) format: TagFormat,
    /// Block by block.
    pub(crate) judged: Vec<Judged>,
}

impl Tags {
    /// Returns whether a block differs from its tag, or has lost it.
    pub(crate) fn is_faulty(&self) -> bool {
        self.judged.iter().any(|judged| matches!(judged.opinion, Opinion::Differs(_) | Opinion::Lost))
    }

    /// Returns whether a block differs from its tag.
    pub(crate) fn differs(&self) -> bool {
        self.judged.iter().any(|judged| matches!(judged.opinion, Opinion::Differs(_)))
    }
}

/// Reads a range of a drive with tags, refused or not. `None` in place of the tags if the range is
/// not of whole blocks: then they say nothing.
///
/// # Errors
/// As [`TaggedDrives::read_tagged`](pumice_offload::TaggedDrives::read_tagged).
pub(crate) fn read_tagged(
    node: &dyn DataNode,
    drive: DriveId,
    format: TagFormat,
    offset: u64,
    buf: &mut [u8],
) -> Result<Option<Tags>, NodeError> {
    let drives = node.tagged_drives()?;
    let block = u64::from(format.block_bytes);
    let first = offset - offset % block;
    let end = (offset + buf.len() as u64).next_multiple_of(block);
    let mut judged = Vec::with_capacity(((end - first) / block) as usize);
    let mut at = first;
    while at < end {
        let len = (end - at).min(TAGGED_BYTES.max(block));
        let (from, to) = (at.max(offset), (at + len).min(offset + buf.len() as u64));
        let place = &mut buf[(from - offset) as usize..(to - offset) as usize];
        if place.len() as u64 == len {
            judged.extend(drives.read_tagged(drive, at, place)?);
        } else {
            // Part of a block at one of the ends.
            let mut bytes = vec![0; len as usize];
            judged.extend(drives.read_tagged(drive, at, &mut bytes)?);
            place.copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
        }
        at += len;
    }
    let whole = first == offset && end == offset + buf.len() as u64;
    Ok(whole.then_some(Tags { format, judged }))
}

/// Reads bytes of a member, whatever their tags say.
///
/// # Errors
/// As [`Drives::read`](pumice_offload::Drives::read).
///
/// # Panics
/// If the member is missing.
pub(crate) fn read_raw(target: &Target, role: Role, offset: u64, buf: &mut [u8]) -> Result<(), NodeError> {
    let member = target.member(role).expect("the member is present");
    match target.tag_format(role)? {
        Some(format) => read_tagged(&*member.node, member.drive, format, offset, buf).map(drop),
        None => member.node.read(member.drive, offset, buf),
    }
}

/// Reads stripes to the host, a window at a time, into buffers that are used again. Bytes of drives
/// with tags are read whatever the tags say, and with what they say.
pub(crate) struct Stripes<'v> {
    view: &'v View,
    chunk: u32,
    window: u32,
    buffers: Vec<Option<AlignedBuffer>>,
}

/// A window of a stripe.
pub(crate) struct StripeWindow<'r> {
    /// The chunks' bytes, in the order of [`View::roles`].
    pub(crate) chunks: Vec<&'r [u8]>,
    /// Their tags, in the same order; `None` without tags, and of a member with a hole.
    pub(crate) tags: Vec<Option<Tags>>,
    /// The members that did not give all of it back, with the drive's words.
    pub(crate) holes: Vec<(Role, String)>,
    /// Bytes that were read.
    pub(crate) bytes: u64,
}

impl<'v> Stripes<'v> {
    pub(crate) fn new(view: &'v View, chunk: u32) -> Self {
        let per_member = WINDOW_BYTES / view.present() / 4096 * 4096;
        let window = u32::try_from(per_member.max(4096)).unwrap_or(u32::MAX).min(chunk);
        Self { view, chunk, window, buffers: view.shares.iter().map(|_| None).collect() }
    }

    /// The longest window that [`read`](Self::read) takes.
    pub(crate) fn window_bytes(&self) -> u32 {
        self.window
    }

    /// Reads `len` bytes from `start` of every member's chunk.
    pub(crate) fn read(&mut self, stripe: u64, start: u32, len: u32) -> Result<StripeWindow<'_>, HostError> {
        assert!(len <= self.window && start + len <= self.chunk, "a window within the chunk");
        let pitch = self.window.next_multiple_of(4096) as usize;
        let (mut holes, mut tags) = (Vec::new(), Vec::with_capacity(self.view.present()));
        for (share, slot) in self.view.shares.iter().zip(&mut self.buffers) {
            let mut buffer = slot.take().unwrap_or_else(|| AlignedBuffer::new(pitch * share.roles.len()));
            let mut pieces: Vec<(usize, Piece)> = Vec::new();
            for (i, source) in share.sources.iter().enumerate() {
                let Source::Media { drive, base } = *source else {
                    unreachable!("a share's sources are media")
                };
                let offset = base + self.view.repetition(stripe) * self.view.pitch() + u64::from(start);
                let Some(format) = share.tags[i] else {
                    pieces.push((i, Piece { drive, offset, at: i * pitch, len: len as usize }));
                    tags.push(None);
                    continue;
                };
                let place = &mut buffer[i * pitch..i * pitch + len as usize];
                tags.push(match read_tagged(&*share.node, drive, format, offset, place) {
                    Ok(tags) => tags,
                    Err(error) if error.kind() == ErrorKind::Media => {
                        holes.push((share.roles[i], error.to_string()));
                        None
                    }
                    Err(error) => return Err(error.into()),
                });
            }
            if !pieces.is_empty() {
                let gather: Vec<Piece> = pieces.iter().map(|(_, piece)| *piece).collect();
                let (given, failures) = share.node.gather(&gather, buffer)?;
                buffer = given;
                holes.extend(failures.into_iter().map(|f| (share.roles[pieces[f.piece].0], f.reason)));
            }
            *slot = Some(buffer);
        }
        let mut chunks = Vec::with_capacity(self.view.present());
        for (share, slot) in self.view.shares.iter().zip(&self.buffers) {
            let buffer = slot.as_ref().expect("put back above");
            chunks.extend((0..share.roles.len()).map(|i| &buffer[i * pitch..][..len as usize]));
        }
        let bytes = u64::from(len) * chunks.len() as u64;
        Ok(StripeWindow { chunks, tags, holes, bytes })
    }
}

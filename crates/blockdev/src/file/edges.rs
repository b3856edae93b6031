//! Direct I/O of ranges that begin or end within a grain, or in memory that is not aligned.

use crate::system;
use pumice_base::buffer::{ALIGNMENT, AlignedBuffer, MEMORY_GRAIN};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

/// Reads `buf` at `offset`, which lies in the range of whole grains that begins at `start` and has
/// `len` bytes.
///
/// The whole grains in between are read to their place, and only those at the edges are copied: a
/// second buffer as large as the first costs its page faults (docs/notebook/serving.md).
pub(super) fn read(file: &File, (start, len): (u64, usize), offset: u64, buf: &mut [u8]) -> io::Result<()> {
    let skip = (offset - start) as usize;
    if let Some(done) = read_around(file, (start, len), skip, buf) {
        return done;
    }
    let mut bounce = AlignedBuffer::new(len);
    file.read_exact_at(&mut bounce[..len], start)?;
    buf.copy_from_slice(&bounce[skip..skip + buf.len()]);
    Ok(())
}

/// One read with the edges in memory of their own. `None` if there is nothing between them, if the
/// memory between them is not aligned, or if the system gave less than was asked for.
fn read_around(
    file: &File,
    (start, len): (u64, usize),
    skip: usize,
    buf: &mut [u8],
) -> Option<io::Result<()>> {
    // No grain is larger than this, and each divides it.
    const EDGE: usize = ALIGNMENT;
    let head = if skip == 0 { 0 } else { EDGE };
    let after = len - skip - buf.len();
    let tail = if after == 0 { 0 } else { EDGE };
    let between = len.checked_sub(head + tail).filter(|between| *between > 0)?;
    let first = head - skip;
    if buf[first..].as_ptr().align_offset(MEMORY_GRAIN) != 0 {
        return None;
    }
    let mut edges = AlignedBuffer::new(2 * EDGE);
    let (before, behind) = edges.split_at_mut(EDGE);
    let mut parts = [
        IoSliceMut::new(&mut before[..head]),
        IoSliceMut::new(&mut buf[first..first + between]),
        IoSliceMut::new(&mut behind[..tail]),
    ];
    match system::read_parts(file, &mut parts, start) {
        Ok(read) if read == len => {}
        // The plain way finds out why.
        Ok(_) => return None,
        Err(error) => return Some(Err(error)),
    }
    buf[..first].copy_from_slice(&before[skip..head]);
    let last = first + between;
    let rest = buf.len() - last;
    buf[last..].copy_from_slice(&behind[..rest]);
    Some(Ok(()))
}

/// Writes `data` at `offset`, and what the grains at the edges hold beside them as it was. Nobody
/// else may write these grains meanwhile.
pub(super) fn write(file: &File, (start, len): (u64, usize), offset: u64, data: &[u8]) -> io::Result<()> {
    let mut bounce = AlignedBuffer::new(len);
    let skip = (offset - start) as usize;
    let end = skip + data.len();
    let edge = ALIGNMENT.min(len);
    if skip != 0 {
        file.read_exact_at(&mut bounce[..edge], start)?;
    }
    // One edge may be both.
    if end != len && (skip == 0 || len > edge) {
        file.read_exact_at(&mut bounce[len - edge..len], start + (len - edge) as u64)?;
    }
    bounce[skip..end].copy_from_slice(data);
    file.write_all_at(&bounce[..len], start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn every_range_is_read_and_written_as_without_direct_io() -> io::Result<()> {
        const SIZE: usize = 8 * ALIGNMENT;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("x");
        let mut model: Vec<u8> = (0..SIZE).map(|i| (i * 7 + i / 256) as u8).collect();
        std::fs::write(&path, &model)?;
        let mut open = OpenOptions::new();
        open.read(true).write(true);
        // A file system without direct I/O takes these ranges as well.
        let file = open.clone().custom_flags(libc::O_DIRECT).open(&path).or_else(|_| open.open(&path))?;
        let mut around = 0;
        for (i, first) in (0..3 * ALIGNMENT).step_by(512).enumerate() {
            for end in (first + 512..=SIZE).step_by(3 * 512) {
                let start = first / ALIGNMENT * ALIGNMENT;
                let range = (start as u64, end.next_multiple_of(ALIGNMENT) - start);
                let mut memory = AlignedBuffer::new(end - first + 8);
                // Every other memory is aligned for direct I/O.
                let shift = [0, 8][i % 2];
                let buf = &mut memory[shift..shift + end - first];
                if let Some(done) = read_around(&file, range, first - start, buf) {
                    done?;
                    assert_eq!(buf, &model[first..end], "{first}..{end}");
                    around += 1;
                    buf.fill(0);
                }
                read(&file, range, first as u64, buf)?;
                assert_eq!(buf, &model[first..end], "{first}..{end}");
                buf.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 3 + first + end) as u8);
                model[first..end].copy_from_slice(buf);
                write(&file, range, first as u64, buf)?;
            }
        }
        assert!(around > 40, "{around} ranges without a copy of their middle");
        assert_eq!(std::fs::read(&path)?, model);
        Ok(())
    }
}

//! The trait by which this crate reads members; it opens nothing itself.

use std::io;

/// A member device, or an image of one, that can be read at any place.
pub trait ReadAt {
    /// The size in bytes.
    fn size_bytes(&self) -> u64;

    /// Fills `buf` from `offset` bytes on.
    ///
    /// # Errors
    /// If the range is not wholly within [`ReadAt::size_bytes`] (`UnexpectedEof`), or the device
    /// does not give the bytes back.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn size_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|start| self.get(start..)?.get(..buf.len()));
        buf.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size_bytes(&self) -> u64 {
        self.as_slice().size_bytes()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, buf)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_inside_and_refuses_outside() {
        let bytes = vec![1_u8, 2, 3, 4];
        let mut two = [0; 2];
        bytes.read_exact_at(2, &mut two).unwrap();
        assert_eq!(two, [3, 4]);
        for offset in [3, 4, 5, u64::MAX] {
            let error = bytes.read_exact_at(offset, &mut two).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{offset}");
        }
    }
}

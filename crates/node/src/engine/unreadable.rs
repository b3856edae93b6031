//! Finding out which part of a failed read the medium really does not give back.

use pumice_blockdev::BlockDevice;

/// The piece in which a failed read is repeated: the physical sector of current drives.
const PIECE: u64 = 4096;
/// Failed pieces after which the rest of a read is given up without asking: each one can cost a drive seconds of
/// its own retries.
const PATIENCE: u32 = 16;

/// A range that could not be read, relative to the buffer of the read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) reason: String,
}

/// The repeated read of one failed part.
pub(crate) struct Probe<'d> {
    device: &'d dyn BlockDevice,
    holes: Vec<Hole>,
    bytes: u64,
}

impl<'d> Probe<'d> {
    pub(crate) fn new(device: &'d dyn BlockDevice) -> Self {
        Self { device, holes: Vec::new(), bytes: 0 }
    }

    /// Reads `buf` at `offset` piece by piece, at the pieces' natural borders on the device.
    pub(crate) fn read(&mut self, offset: u64, buf: &mut [u8], first_reason: &str) {
        let mut at = 0;
        let mut failed = 0;
        while at < buf.len() {
            let place = offset + at as u64;
            let to_border = (PIECE - place % PIECE) as usize;
            let len = to_border.min(buf.len() - at);
            if failed >= PATIENCE {
                self.hole(at, buf.len() - at, first_reason.to_owned());
                return;
            }
            match self.device.read_at(place, &mut buf[at..at + len]) {
                Ok(()) => self.bytes += len as u64,
                Err(error) => {
                    failed += 1;
                    self.hole(at, len, error.to_string());
                }
            }
            at += len;
        }
    }

    fn hole(&mut self, at: usize, len: usize, reason: String) {
        match self.holes.last_mut() {
            Some(last) if last.at + last.len == at => last.len += len,
            _ => self.holes.push(Hole { at, len, reason }),
        }
    }

    pub(crate) fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// Bytes that the medium gave in the end.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes
    }
}

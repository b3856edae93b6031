//! Magic, version, checksum and length around the content of a file.

use thiserror::Error;

const HEADER: usize = 24;
const CRC_AT: usize = 12;
const LENGTH_AT: usize = 16;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// Distinguishes this kind of file from others.
    pub magic: [u8; 8],
    /// The version of the content that this program reads and writes.
    pub version: u32,
}

/// The reasons why the bytes of a file are not a valid envelope.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadEnvelope {
    /// It is shorter than its header says.
    #[error("it ends too early, after {0} bytes")]
    Truncated(usize),
    /// It is longer than its header says.
    #[error("{0} bytes follow its end")]
    Trailing(u64),
    /// Another kind of file.
    #[error("its first 8 bytes are not {}", .0.escape_ascii())]
    Magic([u8; 8]),
    /// Its bytes changed since it was written.
    #[error("its CRC-32C is {found:08x}, but its bytes give {computed:08x}")]
    Checksum {
        /// In the file.
        found: u32,
        /// Of its bytes.
        computed: u32,
    },
    /// Valid, but written by another version of the program.
    #[error("it has version {found}, but this program supports version {known}")]
    Version {
        /// In the file.
        found: u32,
        /// This program's.
        known: u32,
    },
}

impl Envelope {
    /// The bytes of a file around its content.
    #[must_use]
    pub fn seal(&self, body: &[u8]) -> Vec<u8> {
        let mut file = Vec::with_capacity(HEADER + body.len());
        file.extend_from_slice(&self.magic);
        file.extend_from_slice(&self.version.to_le_bytes());
        file.extend_from_slice(&[0; 4]);
        file.extend_from_slice(&(body.len() as u64).to_le_bytes());
        file.extend_from_slice(body);
        let crc = checksum(&file);
        file[CRC_AT..LENGTH_AT].copy_from_slice(&crc.to_le_bytes());
        file
    }

    /// The content of a file.
    ///
    /// # Errors
    /// If the bytes are not a whole and undamaged file of this kind and version.
    pub fn open<'f>(&self, file: &'f [u8]) -> Result<&'f [u8], BadEnvelope> {
        if file.len() < HEADER {
            return Err(match self.magic.starts_with(&file[..file.len().min(8)]) {
                true => BadEnvelope::Truncated(file.len()),
                false => BadEnvelope::Magic(self.magic),
            });
        }
        if file[..8] != self.magic {
            return Err(BadEnvelope::Magic(self.magic));
        }
        let length = u64::from_le_bytes(std::array::from_fn(|i| file[LENGTH_AT + i]));
        let body = &file[HEADER..];
        if (body.len() as u64) < length {
            return Err(BadEnvelope::Truncated(file.len()));
        }
        let found = dword(file, CRC_AT);
        let computed = checksum(file);
        if body.len() as u64 > length {
            return Err(BadEnvelope::Trailing(body.len() as u64 - length));
        }
        if found != computed {
            return Err(BadEnvelope::Checksum { found, computed });
        }
        // Only now is the version known to be what was written.
        match dword(file, 8) {
            version if version == self.version => Ok(body),
            found => Err(BadEnvelope::Version { found, known: self.version }),
        }
    }
}

fn dword(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn checksum(file: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&file[..CRC_AT]), &file[LENGTH_AT..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Envelope = Envelope { magic: *b"PUMTEST1", version: 7 };

    #[test]
    fn what_was_sealed_is_opened() {
        assert_eq!(KIND.open(&KIND.seal(b"content")), Ok(&b"content"[..]));
        assert_eq!(KIND.open(&KIND.seal(b"")), Ok(&b""[..]));
    }

    #[test]
    fn every_truncation_every_flipped_bit_and_anything_behind_is_refused() {
        let good = KIND.seal(b"content");
        for len in 0..good.len() {
            assert_eq!(KIND.open(&good[..len]), Err(BadEnvelope::Truncated(len)));
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(KIND.open(&bad).is_err(), "bit {bit}");
        }
        let mut longer = good;
        longer.push(0);
        assert_eq!(KIND.open(&longer), Err(BadEnvelope::Trailing(1)));
    }

    #[test]
    fn another_version_is_told_from_damage_and_from_another_kind() {
        let newer = Envelope { version: 8, ..KIND }.seal(b"content");
        assert_eq!(KIND.open(&newer), Err(BadEnvelope::Version { found: 8, known: 7 }));
        let other = Envelope { magic: *b"PUMTEST2", ..KIND }.seal(b"content");
        assert_eq!(KIND.open(&other), Err(BadEnvelope::Magic(KIND.magic)));
    }
}

//! The superblock. The byte map is in `docs/reference/on-disk/flash.md`.

use crate::device::layout::{Layout, OOB_BYTES, PAGE_BYTES, PAGES_PER_BLOCK, SUPERBLOCK_BYTES};
use crate::ftl::{Fingerprint, Scheme, Secret, Sums};
use pumice_base::durable::{Medium, Slots};
use std::io;
use std::sync::Mutex;
use thiserror::Error;

const MAGIC: [u8; 8] = *b"PUMFLASH";
/// The version of the body.
const VERSION: u32 = 3;
/// Without a secret.
const EARLIER: u32 = 2;
/// Bytes of the body.
const BYTES: usize = 96;
/// Bytes of it in the earlier version; the secret follows them.
const EARLIER_BYTES: usize = 64;
/// Bytes of a slot.
const SLOT: u32 = 4096;
const FINGERPRINTS: [Fingerprint; 2] = [Fingerprint::Blake3, Fingerprint::Sha1];

/// Reasons why bytes are no superblock that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SuperblockError {
    /// Another kind of file.
    #[error("it is no flash drive")]
    None,
    /// A newer or an older program made it.
    #[error("the superblock has version {0}; this program knows version {VERSION}")]
    Version(u32),
    /// A field has a value that cannot be.
    #[error("the superblock is damaged: {0}")]
    Field(&'static str),
}

/// The facts that are fixed when a drive is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Drawn when the drive was formatted.
    pub identity: [u8; 16],
    /// The place of everything.
    pub layout: Layout,
    /// Logical pages.
    pub logical: u32,
    /// Overprovisioning that was asked for, in hundredths of a percent.
    pub op: u32,
    /// The treatment of duplicates, unless a drive line says otherwise.
    pub scheme: Scheme,
    /// The hash that finds them.
    pub fingerprint: Fingerprint,
    /// The key of the sums of pages; `None` in a drive of an earlier version that was not opened
    /// for writing since.
    pub secret: Option<Secret>,
}

impl Superblock {
    /// Bytes that hosts see.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        u64::from(self.logical) * u64::from(PAGE_BYTES)
    }

    /// Memory for the tables of the drive in bytes, at most; see [`Scheme::memory_bytes`].
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.scheme.memory_bytes(u64::from(self.logical), u64::from(self.layout.geometry().pages()))
    }

    /// The sums of the pages of the drive.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.secret.map_or(Sums::Crc32c, |secret| Sums::keyed(&secret, PAGE_BYTES))
    }

    /// The body of the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let geometry = self.layout.geometry();
        let mut out = MAGIC.to_vec();
        out.extend(if self.secret.is_some() { VERSION } else { EARLIER }.to_le_bytes());
        out.extend(geometry.page_bytes.to_le_bytes());
        out.extend(self.identity);
        let words = [geometry.blocks, geometry.pages_per_block, self.logical, geometry.oob_bytes, self.op];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let scheme = Scheme::ALL.iter().position(|scheme| *scheme == self.scheme);
        let fingerprint = FINGERPRINTS.iter().position(|f| *f == self.fingerprint);
        out.extend([scheme, fingerprint].map(|place| place.map_or(0, |place| place as u8)));
        out.resize(EARLIER_BYTES, 0);
        out.extend(self.secret.iter().flat_map(|secret| secret.0));
        out
    }

    /// The superblock in the body of a record.
    ///
    /// # Errors
    /// If it is none, of another version, or a field has a value that cannot be.
    pub fn decode(body: &[u8]) -> Result<Self, SuperblockError> {
        let word = |at: usize| {
            let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes).ok_or(SuperblockError::Field("its length"))
        };
        let field = |name| SuperblockError::Field(name);
        if body.get(..8) != Some(&MAGIC[..]) {
            return Err(SuperblockError::None);
        }
        let bytes = match word(8)? {
            VERSION => BYTES,
            EARLIER => EARLIER_BYTES,
            other => return Err(SuperblockError::Version(other)),
        };
        if body.len() != bytes {
            return Err(field("its length"));
        }
        let (body, secret) = body.split_at(EARLIER_BYTES);
        let (blocks, per_block, logical, op) = (word(32)?, word(36)?, word(40)?, word(48)?);
        if word(12)? != PAGE_BYTES {
            return Err(field("bytes of a page"));
        }
        if !per_block.is_power_of_two() || !PAGES_PER_BLOCK.contains(&per_block) {
            return Err(field("pages in a block"));
        }
        if word(44)? != OOB_BYTES {
            return Err(field("out-of-band bytes"));
        }
        let layout = Layout::new(blocks, per_block, PAGE_BYTES).ok_or(field("blocks"))?;
        if logical == 0 || logical > layout.geometry().pages() {
            return Err(field("logical pages"));
        }
        let scheme = *Scheme::ALL.get(usize::from(body[52])).ok_or(field("scheme"))?;
        let fingerprint = *FINGERPRINTS.get(usize::from(body[53])).ok_or(field("fingerprint"))?;
        if body[54..].iter().any(|byte| *byte != 0) {
            return Err(field("unused bytes"));
        }
        let identity = std::array::from_fn(|i| body[16 + i]);
        let secret = secret.first_chunk().copied().map(Secret);
        // A secret that anybody can guess is none.
        if secret == Some(Secret([0; 32])) {
            return Err(field("the secret"));
        }
        Ok(Self { identity, layout, logical, op, scheme, fingerprint, secret })
    }

    /// Both slots: the same body in each.
    fn image(&self) -> io::Result<Vec<u8>> {
        let image = Image(Mutex::new(vec![0; SUPERBLOCK_BYTES as usize]));
        let body = self.encode();
        slots(0).store(&image, &body)?;
        slots(0).store(&image, &body)?;
        image.0.into_inner().map_err(|_| io::Error::other("a lock is poisoned"))
    }

    /// Writes both slots of a superblock, one after the other, durably.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn write(&self, medium: &dyn Medium, at: u64) -> io::Result<()> {
        for (slot, bytes) in (0..).zip(self.image()?.chunks(SLOT as usize)) {
            medium.write_at(at + slot * u64::from(SLOT), bytes)?;
            medium.sync()?;
        }
        Ok(())
    }

    /// Reads the superblock at a place.
    ///
    /// # Errors
    /// If the medium fails, or there is none that can be used.
    pub fn read(medium: &dyn Medium, at: u64) -> io::Result<Result<Self, SuperblockError>> {
        let record = slots(at).load(medium)?;
        Ok(record.map_or(Err(SuperblockError::None), |record| Self::decode(&record.body)))
    }

    /// The slots of the superblock at a place that are not as they should be.
    ///
    /// # Errors
    /// If the medium fails.
    pub fn damaged_slots(&self, medium: &dyn Medium, at: u64) -> io::Result<[bool; 2]> {
        let expected = self.image()?;
        let mut damaged = [false; 2];
        for (slot, damaged) in damaged.iter_mut().enumerate() {
            let place = slot * SLOT as usize;
            let mut bytes = vec![0; SLOT as usize];
            medium.read_at(at + place as u64, &mut bytes)?;
            *damaged = bytes != expected[place..place + SLOT as usize];
        }
        Ok(damaged)
    }
}

fn slots(at: u64) -> Slots {
    Slots { offset: at, slot_bytes: SLOT, version: 1 }
}

/// A superblock in memory.
struct Image(Mutex<Vec<u8>>);

impl Image {
    fn with<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> io::Result<R> {
        Ok(f(&mut self.0.lock().map_err(|_| io::Error::other("a lock is poisoned"))?))
    }
}

impl Medium for Image {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.with(|bytes| buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|bytes| bytes[offset as usize..offset as usize + data.len()].copy_from_slice(data))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        let (layout, logical) = Layout::of_drive(8 << 20, 700).unwrap();
        Superblock {
            identity: [7; 16],
            layout,
            logical,
            op: 700,
            scheme: Scheme::Separated,
            fingerprint: Fingerprint::Sha1,
            secret: Some(Secret([9; 32])),
        }
    }

    #[test]
    fn a_superblock_is_read_as_it_was_written_and_wrong_fields_are_named() {
        let body = superblock().encode();
        assert_eq!(Superblock::decode(&body), Ok(superblock()));
        let with = |at: usize, byte: u8| {
            let mut other = body.clone();
            other[at] = byte;
            Superblock::decode(&other)
        };
        assert_eq!(with(0, 0), Err(SuperblockError::None));
        for version in [1, 4] {
            assert_eq!(with(8, version), Err(SuperblockError::Version(version.into())));
        }
        for (at, name) in [
            (13, "bytes of a page"),
            (36, "pages in a block"),
            (44, "out-of-band bytes"),
            (35, "blocks"),
            (43, "logical pages"),
            (52, "scheme"),
            (53, "fingerprint"),
            (63, "unused bytes"),
        ] {
            assert_eq!(with(at, 0xF1), Err(SuperblockError::Field(name)), "byte {at}");
        }
        assert_eq!(Superblock::decode(&body[..60]), Err(SuperblockError::Field("its length")));
    }

    /// The sums of the table in `docs/design/ftl.md`, for a TiB.
    #[test]
    fn memory_is_what_the_page_on_the_translation_layer_says() {
        let (layout, logical) = Layout::of_drive(1 << 40, 700).unwrap();
        let gib = |scheme| {
            let bytes = Superblock { layout, logical, scheme, ..superblock() }.memory_bytes();
            (bytes as f64 / f64::from(1 << 30) * 10.0).round() / 10.0
        };
        let all =
            [Scheme::None, Scheme::Inline, Scheme::Separated, Scheme::Live, Scheme::Lives, Scheme::Measured];
        assert_eq!(all.map(gib), [3.2, 8.7, 11.0, 16.6, 23.3, 24.4]);
    }

    #[test]
    fn one_damaged_slot_is_told_and_costs_nothing() {
        let medium = Image(Mutex::new(vec![0; SUPERBLOCK_BYTES as usize]));
        assert_eq!(Superblock::read(&medium, 0).unwrap(), Err(SuperblockError::None));
        superblock().write(&medium, 0).unwrap();
        assert_eq!(superblock().damaged_slots(&medium, 0).unwrap(), [false, false]);
        for slot in 0..2_usize {
            medium.write_at(4096 * slot as u64 + 30, &[9]).unwrap();
            assert_eq!(Superblock::read(&medium, 0).unwrap(), Ok(superblock()));
            assert_eq!(superblock().damaged_slots(&medium, 0).unwrap(), [slot == 0, slot == 1]);
            superblock().write(&medium, 0).unwrap();
        }
    }
}

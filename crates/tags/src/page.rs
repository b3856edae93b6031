//! Pages of tuples: one sector each, so that a power cut leaves the old one or the new.

mod change;
mod checksum;

use crate::geometry::{GROUP_PAGES, Geometry, PAGE_BYTES};
use checksum::{checksum, checksum_by_sum, of_identity};
use pumice_blockdev::prefetch;
use pumice_protect::guard::Guard;
use pumice_protect::kernels::{Kernels, Spacing};
pub use pumice_protect::origin::{Judged, Opinion, Origin};
use pumice_protect::tuple::Tuple;
use std::ops::Range;

const ORIGINS_AT: usize = 8;
const METADATA_AT: usize = 24;

/// The knowledge of a block's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The place where the tuple came from.
    pub origin: Origin,
    /// The tuple; all zeros if the origin is unknown.
    pub tuple: Tuple,
}

impl Tag {
    /// Nothing.
    pub const UNKNOWN: Self =
        Self { origin: Origin::Unknown, tuple: Tuple { guard: 0, application: 0, storage: 0, reference: 0 } };

    /// A tuple that came with its data.
    #[must_use]
    pub const fn written(tuple: Tuple) -> Self {
        Self { origin: Origin::Written, tuple }
    }

    /// Judges a block by the guard of its bytes.
    #[must_use]
    pub const fn judge(&self, guard: u64) -> Opinion {
        match self.origin {
            Origin::Unknown => Opinion::Unchecked,
            // The escape: whoever wrote the block asked for no check.
            _ if self.tuple.application == 0xFFFF => Opinion::Unchecked,
            origin if self.tuple.guard == guard => Opinion::Fits(origin),
            origin => Opinion::Differs(origin),
        }
    }
}

/// A tag, and the metadata beside its tuple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The tag.
    pub tag: Tag,
    /// All metadata but the tuple, in their order; empty if they are zeros, or there are none.
    pub others: Vec<u8>,
}

impl Entry {
    /// Nothing.
    pub const UNKNOWN: Self = Self { tag: Tag::UNKNOWN, others: Vec::new() };

    /// Judges a block by the guard of its data.
    #[must_use]
    pub fn judge(&self, geometry: &Geometry, guard: u64) -> Opinion {
        self.tag.judge(geometry.covered_guard(guard, &self.others))
    }
}

/// A tag; other metadata are zeros.
impl From<Tag> for Entry {
    fn from(tag: Tag) -> Self {
        Self { tag, others: Vec::new() }
    }
}

/// Judges a block by the guard of its data, from the origin and the bytes of its metadata.
pub(crate) fn judge(geometry: &Geometry, origin: Origin, metadata: &[u8], guard: u64) -> Judged {
    if origin == Origin::Unknown {
        return Judged { opinion: Opinion::Unchecked, guard: 0 };
    }
    let format = geometry.format();
    let tuple = Tuple::decode(format, &metadata[format.tuple_range()]);
    let others = &metadata[geometry.other_range()];
    let opinion = Tag { origin, tuple }.judge(geometry.covered_guard(guard, others));
    // Others compare it with that of data.
    let stored = match opinion {
        Opinion::Fits(_) => guard,
        _ => geometry.data_guard(tuple.guard, others),
    };
    Judged { opinion, guard: stored }
}

/// A page in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    bytes: [u8; PAGE_BYTES],
}

/// A sector of the tag file, read as a page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are whole pages, moved to their place at once")]
pub enum Found {
    /// A whole page.
    Whole(Page),
    /// A sector of zeros: it was never written.
    Fresh,
    /// Anything else: the page is lost.
    Lost,
}

impl Found {
    /// The page; all unknown if it is fresh or lost.
    #[must_use]
    pub fn page(self) -> Page {
        match self {
            Self::Whole(page) => page,
            Self::Fresh | Self::Lost => Page::unknown(),
        }
    }
}

impl Page {
    /// A page of blocks of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self { bytes: [0; PAGE_BYTES] }
    }

    /// The tag at a place of the page.
    ///
    /// # Panics
    /// If the place is not below [`Geometry::blocks_of_page`].
    #[must_use]
    pub fn tag(&self, geometry: &Geometry, place: usize) -> Tag {
        let origin = self.origin(place);
        if origin == Origin::Unknown {
            return Tag::UNKNOWN;
        }
        let format = geometry.format();
        let tuple = &self.metadata(geometry, place)[format.tuple_range()];
        Tag { origin, tuple: Tuple::decode(format, tuple) }
    }

    /// The metadata at a place of the page; zeros if the origin is unknown.
    ///
    /// # Panics
    /// As [`tag`](Self::tag).
    #[must_use]
    pub fn metadata(&self, geometry: &Geometry, place: usize) -> &[u8] {
        &self.bytes[metadata_at(geometry, place)..metadata_at(geometry, place + 1)]
    }

    /// The tag and the other metadata at a place of the page.
    ///
    /// # Panics
    /// As [`tag`](Self::tag).
    #[must_use]
    pub fn entry(&self, geometry: &Geometry, place: usize) -> Entry {
        let others = &self.metadata(geometry, place)[geometry.other_range()];
        // A block without a tag has none, whatever a page says that a correct program did not make.
        let none = self.origin(place) == Origin::Unknown || others.iter().all(|byte| *byte == 0);
        let others = if none { Vec::new() } else { others.to_vec() };
        Entry { tag: self.tag(geometry, place), others }
    }

    /// Brings it into the caches while other work goes on.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.bytes);
    }

    /// The place where the tuple at a place came from.
    #[must_use]
    pub fn origin(&self, place: usize) -> Origin {
        Origin::ALL[usize::from(self.bytes[ORIGINS_AT + place / 4] >> (place % 4 * 2) & 3)]
    }

    /// The origin of the tags at consecutive places, if it is the same for all of them, and every
    /// block fits its tag: [`judge`](Self::judge) would find nothing else. Faster than that.
    ///
    /// # Panics
    /// As [`judge`](Self::judge).
    #[must_use]
    pub fn fits_all(&self, geometry: &Geometry, first: usize, guards: &[u64]) -> Option<Origin> {
        Self::sector_fits_all(&self.bytes, geometry, first, guards)
    }

    /// [`fits_all`](Self::fits_all) of the page in a sector that is [not lost](Self::none_is_lost).
    ///
    /// # Panics
    /// As [`judge`](Self::judge).
    pub(crate) fn sector_fits_all(
        sector: &[u8; PAGE_BYTES],
        geometry: &Geometry,
        first: usize,
        guards: &[u64],
    ) -> Option<Origin> {
        let tuples = &sector[metadata_at(geometry, first)..metadata_at(geometry, first + guards.len())];
        let origins = u128::from_le_bytes(std::array::from_fn(|i| sector[ORIGINS_AT + i]));
        let origin = Origin::ALL[(origins >> (2 * first) & 3) as usize];
        // Two bits for each of 60 places at most.
        let places = (1 << (2 * guards.len())) - 1;
        let same = (u128::MAX / 3) * origin as u128;
        if origin == Origin::Unknown || (origins >> (2 * first) ^ same) & places != 0 {
            return None;
        }
        if !geometry.is_tuple_only() {
            let metadata = tuples.chunks_exact(geometry.format().metadata_bytes());
            let mut blocks = metadata.zip(guards);
            let fits = blocks.all(|(metadata, guard)| {
                judge(geometry, origin, metadata, *guard).opinion == Opinion::Fits(origin)
            });
            return fits.then_some(origin);
        }
        let compared = Kernels::best().compare(geometry.format().guard(), guards, tuples);
        let fits = !compared.differ && !compared.escapes;
        fits.then_some(origin)
    }

    /// [`Tag::judge`] of the blocks at consecutive places, by the guards of their data, without the
    /// other fields of their tuples. The guards in the result are those of data too.
    ///
    /// # Panics
    /// If the places are not all below [`Geometry::blocks_of_page`].
    pub fn judge(&self, geometry: &Geometry, first: usize, guards: &[u64], judged: &mut Vec<Judged>) {
        let places = first..first + guards.len();
        let tuples = &self.bytes[metadata_at(geometry, places.start)..metadata_at(geometry, places.end)];
        if !geometry.is_tuple_only() {
            let metadata = tuples.chunks_exact(geometry.format().metadata_bytes());
            judged.extend(
                places
                    .zip(metadata.zip(guards))
                    .map(|(place, (metadata, guard))| judge(geometry, self.origin(place), metadata, *guard)),
            );
            return;
        }
        match geometry.format().guard() {
            Guard::Crc16 => {
                self.judge_tuples(places, guards, tuples.as_chunks().0, judged, |tuple: &[u8; 8]| {
                    let number = u64::from_be_bytes(*tuple);
                    (number >> 48, (number >> 32) as u16)
                });
            }
            Guard::Crc32c => {
                self.judge_tuples(places, guards, tuples.as_chunks().0, judged, |tuple: &[u8; 16]| {
                    let number = u128::from_be_bytes(*tuple);
                    ((number >> 96) as u64, (number >> 80) as u16)
                });
            }
            Guard::Crc64 => {
                self.judge_tuples(places, guards, tuples.as_chunks().0, judged, |tuple: &[u8; 16]| {
                    let number = u128::from_be_bytes(*tuple);
                    ((number >> 64) as u64, (number >> 48) as u16)
                });
            }
        }
    }

    /// The same for tuples of one size, of which `fields` gives guard and application tag.
    fn judge_tuples<const N: usize>(
        &self,
        places: Range<usize>,
        guards: &[u64],
        tuples: &[[u8; N]],
        judged: &mut Vec<Judged>,
        fields: impl Fn(&[u8; N]) -> (u64, u16),
    ) {
        judged.extend(places.zip(guards.iter().zip(tuples)).map(|(place, (guard, tuple))| {
            let ((stored, application), origin) = (fields(tuple), self.origin(place));
            let tag = Tag { origin, tuple: Tuple { guard: stored, application, ..Tag::UNKNOWN.tuple } };
            let stored = if origin == Origin::Unknown { 0 } else { stored };
            Judged { opinion: tag.judge(*guard), guard: stored }
        }));
    }

    /// Replaces a tag; other metadata become zeros.
    ///
    /// # Panics
    /// As [`tag`](Self::tag).
    pub fn set(&mut self, geometry: &Geometry, place: usize, tag: &Tag) {
        self.set_with(geometry, place, tag, &[]);
    }

    /// Replaces a tag and the other metadata; `&[]` stands for zeros.
    ///
    /// # Panics
    /// As [`tag`](Self::tag), and if other metadata are given, but not as many as there are.
    pub fn set_with(&mut self, geometry: &Geometry, place: usize, tag: &Tag, others: &[u8]) {
        self.set_origin(place, tag.origin);
        let format = geometry.format();
        let metadata = &mut self.bytes[metadata_at(geometry, place)..metadata_at(geometry, place + 1)];
        if tag.origin == Origin::Unknown {
            metadata.fill(0);
            return;
        }
        metadata[format.tuple_range()].copy_from_slice(tag.tuple.encode(format).as_slice());
        match others {
            [] => metadata[geometry.other_range()].fill(0),
            others => metadata[geometry.other_range()].copy_from_slice(others),
        }
    }

    /// Replaces the origin of a tag, and keeps its metadata.
    pub(crate) fn set_origin(&mut self, place: usize, origin: Origin) {
        let (byte, shift) = (ORIGINS_AT + place / 4, place % 4 * 2);
        self.bytes[byte] = self.bytes[byte] & !(3 << shift) | (origin as u8) << shift;
    }

    /// The sector.
    #[must_use]
    pub fn encode(&self, identity: u64, number: u64) -> [u8; PAGE_BYTES] {
        let mut bytes = self.bytes;
        let crc = checksum(&bytes, identity, number);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a sector.
    #[must_use]
    pub fn decode(geometry: &Geometry, sector: &[u8; PAGE_BYTES], identity: u64, number: u64) -> Found {
        match Kind::of(geometry, sector, identity, number) {
            Kind::Whole => Found::Whole(Self::of_good(sector)),
            Kind::Fresh => Found::Fresh,
            Kind::Lost => Found::Lost,
        }
    }

    /// The pages of the sectors from number `first` on, all unknown where they are fresh or lost;
    /// `lost` is called with the numbers of those that are lost.
    pub(crate) fn decode_all(
        geometry: &Geometry,
        sectors: &[[u8; PAGE_BYTES]],
        identity: u64,
        first: u64,
        mut lost: impl FnMut(u64),
    ) -> impl Iterator<Item = Self> {
        let kinds = Kind::of_all(geometry, sectors, identity, first);
        (first..).zip(sectors.iter().zip(kinds)).map(move |(number, (sector, kind))| {
            match kind {
                Kind::Whole => return Self::of_good(sector),
                Kind::Fresh => {}
                Kind::Lost => lost(number),
            }
            Self::unknown()
        })
    }

    /// Returns whether each of the sectors from number `first` on is a page: whole, or never
    /// written.
    pub(crate) fn none_is_lost(
        geometry: &Geometry,
        sectors: &[[u8; PAGE_BYTES]],
        identity: u64,
        first: u64,
    ) -> bool {
        Kind::of_all(geometry, sectors, identity, first).all(|kind| kind != Kind::Lost)
    }

    /// The page in a sector that is [not lost](Self::none_is_lost). A fresh one has only zeros, as
    /// a page without tags has.
    pub(crate) fn of_good(sector: &[u8; PAGE_BYTES]) -> Self {
        let mut bytes = *sector;
        bytes[..4].fill(0);
        Self { bytes }
    }
}

/// The state of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Fresh,
    Lost,
}

impl Kind {
    fn of(geometry: &Geometry, sector: &[u8; PAGE_BYTES], identity: u64, number: u64) -> Self {
        Self::by_checksum(geometry, sector, checksum(sector, identity, number))
    }

    /// Those of the sectors from number `first` on.
    fn of_all(
        geometry: &Geometry,
        sectors: &[[u8; PAGE_BYTES]],
        identity: u64,
        first: u64,
    ) -> impl Iterator<Item = Self> {
        let sums = sectors.chunks(GROUP_PAGES as usize).flat_map(|sectors| {
            let mut sums = [0; GROUP_PAGES as usize];
            let spacing = Spacing { len: PAGE_BYTES, pitch: PAGE_BYTES };
            let bytes = sectors.as_flattened();
            Kernels::best().blocks(Guard::Crc32c, bytes, spacing, &mut sums[..sectors.len()]);
            sums
        });
        let of_identity = of_identity(identity);
        (first..).zip(sectors.iter().zip(sums)).map(move |(number, (sector, sum))| {
            Self::by_checksum(geometry, sector, checksum_by_sum(sector, of_identity, number, sum as u32))
        })
    }

    /// The same with the checksum that the sector should have.
    fn by_checksum(geometry: &Geometry, sector: &[u8; PAGE_BYTES], checksum: u32) -> Self {
        if sector.iter().all(|byte| *byte == 0) {
            return Self::Fresh;
        }
        let crc = u32::from_le_bytes([sector[0], sector[1], sector[2], sector[3]]);
        let end = metadata_at(geometry, geometry.blocks_of_page() as usize);
        let plain = sector[4..ORIGINS_AT].iter().chain(&sector[end..]).all(|byte| *byte == 0);
        if crc == checksum && plain { Self::Whole } else { Self::Lost }
    }
}

fn metadata_at(geometry: &Geometry, place: usize) -> usize {
    assert!(place <= geometry.blocks_of_page() as usize, "place {place} of a page");
    METADATA_AT + place * geometry.format().metadata_bytes()
}

#[cfg(test)]
mod tests;

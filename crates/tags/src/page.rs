//! Pages of tuples: one sector each, so that a power cut leaves the old one or the new.

use crate::geometry::{Geometry, PAGE_BYTES};
use pumice_blockdev::prefetch;
use pumice_protect::digest::{crc32c, crc32c_append};
use pumice_protect::guard::Guard;
pub use pumice_protect::origin::{Judged, Opinion, Origin};
use pumice_protect::tuple::Tuple;
use std::ops::Range;

const ORIGINS_AT: usize = 8;
const TUPLES_AT: usize = 24;

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Where the tuple came from.
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
        let at = tuple_at(geometry, place);
        let format = geometry.format();
        Tag { origin, tuple: Tuple::decode(format, &self.bytes[at..at + format.tuple_bytes()]) }
    }

    /// Brings it into the caches while other work goes on.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.bytes);
    }

    /// Where the tuple at a place came from.
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
        let tuples = &self.bytes[tuple_at(geometry, first)..tuple_at(geometry, first + guards.len())];
        let origin = Some(self.origin(first)).filter(|origin| *origin != Origin::Unknown)?;
        let origins = u128::from_le_bytes(std::array::from_fn(|i| self.bytes[ORIGINS_AT + i]));
        // Two bits for each of 60 places at most.
        let places = (1 << (2 * guards.len())) - 1;
        let same = (u128::MAX / 3) * origin as u128;
        if (origins >> (2 * first) ^ same) & places != 0 {
            return None;
        }
        let fits = match geometry.format().guard() {
            Guard::Crc16 => fit(guards, tuples.as_chunks().0, |tuple: &[u8; 8]| {
                // In the order of the bytes in memory: this way no byte has to be swapped.
                let number = u64::from_le_bytes(*tuple);
                ((number & 0xFF) << 8 | number >> 8 & 0xFF, number >> 16 & 0xFFFF)
            }),
            Guard::Crc32c => fit(guards, tuples.as_chunks().0, |tuple: &[u8; 16]| {
                let number = u128::from_be_bytes(*tuple);
                ((number >> 96) as u64, (number >> 80) as u64 & 0xFFFF)
            }),
            Guard::Crc64 => fit(guards, tuples.as_chunks().0, |tuple: &[u8; 16]| {
                let number = u128::from_be_bytes(*tuple);
                ((number >> 64) as u64, (number >> 48) as u64 & 0xFFFF)
            }),
        };
        fits.then_some(origin)
    }

    /// [`Tag::judge`] of the blocks at consecutive places, without their other fields.
    ///
    /// # Panics
    /// If the places are not all below [`Geometry::blocks_of_page`].
    pub fn judge(&self, geometry: &Geometry, first: usize, guards: &[u64], judged: &mut Vec<Judged>) {
        let places = first..first + guards.len();
        let tuples = &self.bytes[tuple_at(geometry, places.start)..tuple_at(geometry, places.end)];
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

    /// Replaces a tag.
    ///
    /// # Panics
    /// As [`tag`](Self::tag).
    pub fn set(&mut self, geometry: &Geometry, place: usize, tag: &Tag) {
        let (byte, shift) = (ORIGINS_AT + place / 4, place % 4 * 2);
        self.bytes[byte] = self.bytes[byte] & !(3 << shift) | (tag.origin as u8) << shift;
        let at = tuple_at(geometry, place);
        let tuple = &mut self.bytes[at..at + geometry.format().tuple_bytes()];
        match tag.origin {
            Origin::Unknown => tuple.fill(0),
            _ => tuple.copy_from_slice(tag.tuple.encode(geometry.format()).as_slice()),
        }
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
            Kind::Whole => Found::Whole(Self::from_whole(sector)),
            Kind::Fresh => Found::Fresh,
            Kind::Lost => Found::Lost,
        }
    }

    /// Appends a sector that was read to the pages before it; returns whether it is lost.
    pub(crate) fn append(
        pages: &mut Vec<Self>,
        geometry: &Geometry,
        sector: &[u8; PAGE_BYTES],
        identity: u64,
        number: u64,
    ) -> bool {
        let kind = Kind::of(geometry, sector, identity, number);
        pages.push(if kind == Kind::Whole { Self::from_whole(sector) } else { Self::unknown() });
        kind == Kind::Lost
    }

    fn from_whole(sector: &[u8; PAGE_BYTES]) -> Self {
        let mut bytes = *sector;
        bytes[..4].fill(0);
        Self { bytes }
    }
}

/// Whether every guard is that of its tuple, and no application tag is an escape. `fields` gives
/// both.
fn fit<const N: usize>(guards: &[u64], tuples: &[[u8; N]], fields: impl Fn(&[u8; N]) -> (u64, u64)) -> bool {
    // Without branches, so that several blocks are compared at a time.
    let (mut differ, mut escapes) = (0, 0);
    for (guard, tuple) in guards.iter().zip(tuples) {
        let (stored, application) = fields(tuple);
        differ |= stored ^ guard;
        escapes |= (application + 1) >> 16;
    }
    differ == 0 && escapes == 0
}

/// What a sector is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Fresh,
    Lost,
}

impl Kind {
    fn of(geometry: &Geometry, sector: &[u8; PAGE_BYTES], identity: u64, number: u64) -> Self {
        if sector.iter().all(|byte| *byte == 0) {
            return Self::Fresh;
        }
        let crc = u32::from_le_bytes([sector[0], sector[1], sector[2], sector[3]]);
        let end = tuple_at(geometry, geometry.blocks_of_page() as usize);
        let plain = sector[4..ORIGINS_AT].iter().chain(&sector[end..]).all(|byte| *byte == 0);
        if crc == checksum(sector, identity, number) && plain { Self::Whole } else { Self::Lost }
    }
}

fn tuple_at(geometry: &Geometry, place: usize) -> usize {
    assert!(place <= geometry.blocks_of_page() as usize, "place {place} of a page");
    TUPLES_AT + place * geometry.format().tuple_bytes()
}

fn checksum(sector: &[u8; PAGE_BYTES], identity: u64, number: u64) -> u32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&identity.to_le_bytes());
    head[8..].copy_from_slice(&number.to_le_bytes());
    crc32c_append(crc32c(&head), &sector[4..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_protect::guard::Guard;

    fn geometry(guard: Guard) -> Geometry {
        Geometry::new(1 << 20, 512, 512, guard, 1 << 20).expect("a drive")
    }

    #[test]
    fn blocks_are_judged_together_as_one_by_one() {
        for (guard, block) in Guard::ALL.into_iter().zip([512, 4096, 4096]) {
            let geometry = Geometry::new(1 << 20, block, 512, guard, 128 << 10).unwrap();
            let mut page = Page::unknown();
            let places = geometry.blocks_of_page() as usize;
            for place in 0..places {
                let tuple = Tuple {
                    guard: place as u64 * 0x0123_4567_89AB % 60_000,
                    application: if place % 5 == 0 { 0xFFFF } else { place as u16 },
                    ..geometry.tuple(place as u64, 0)
                };
                let tag = Tag { origin: Origin::ALL[place % 4], tuple };
                page.set(&geometry, place, if place % 4 == 0 { &Tag::UNKNOWN } else { &tag });
            }
            let guards: Vec<u64> = (0..places)
                .map(|place| page.tag(&geometry, place).tuple.guard ^ u64::from(place % 3 == 0))
                .collect();
            let one_by_one: Vec<Judged> = (0..places)
                .map(|place| page.tag(&geometry, place))
                .zip(&guards)
                .map(|(tag, guard)| Judged { opinion: tag.judge(*guard), guard: tag.tuple.guard })
                .collect();
            for first in 0..places {
                let mut together = Vec::new();
                page.judge(&geometry, first, &guards[first..], &mut together);
                assert_eq!(together, one_by_one[first..], "{guard:?} from {first}");
            }
        }
    }

    #[test]
    fn that_all_blocks_fit_is_told_only_if_judging_each_says_so() {
        for (guard, block) in Guard::ALL.into_iter().zip([512, 4096, 4096]) {
            let geometry = Geometry::new(1 << 20, block, 512, guard, 128 << 10).unwrap();
            let places = geometry.blocks_of_page() as usize;
            let stored = |place: usize| (place as u64 * 0x0123_4567_89AB_CDEF) >> (64 - guard.bits());
            let of = |origin: Origin| {
                let mut page = Page::unknown();
                for place in 0..places {
                    let tuple = geometry.tuple(place as u64, stored(place));
                    page.set(&geometry, place, &Tag { origin, tuple });
                }
                page
            };
            let guards: Vec<u64> = (0..places).map(stored).collect();
            for origin in [Origin::Written, Origin::Adopted, Origin::Vouched] {
                for (first, end) in [(0, places), (0, 1), (3, 17), (places - 1, places)] {
                    let fits = of(origin).fits_all(&geometry, first, &guards[first..end]);
                    assert_eq!(fits, Some(origin), "{guard} {first}..{end}");
                }
                for place in 0..places {
                    let context = format!("{guard} {origin:?} {place}");
                    let check = |page: &Page, guards: &[u64]| {
                        let fits =
                            |first: usize, end: usize| page.fits_all(&geometry, first, &guards[first..end]);
                        assert_eq!(fits(0, places), None, "{context}");
                        assert_eq!(fits(place, place + 1), None, "{context}");
                        for (first, end) in [(0, place), (place + 1, places)] {
                            assert!(first == end || fits(first, end) == Some(origin), "{context}");
                        }
                    };
                    for bit in [0, guard.bits() - 1] {
                        let mut guards = guards.clone();
                        guards[place] ^= 1 << bit;
                        check(&of(origin), &guards);
                    }
                    let mut page = of(origin);
                    let tuple = geometry.tuple(place as u64, stored(place));
                    page.set(&geometry, place, &Tag::written(Tuple { application: 0xFFFF, ..tuple }));
                    check(&page, &guards);
                    page.set(&geometry, place, &Tag::UNKNOWN);
                    check(&page, &guards);
                    // It fits, and its origin is another.
                    let other = if origin == Origin::Written { Origin::Adopted } else { Origin::Written };
                    page.set(&geometry, place, &Tag { origin: other, tuple });
                    let fits = page.fits_all(&geometry, place, &guards[place..=place]);
                    assert_eq!(fits, Some(other), "{context}");
                    assert_eq!(page.fits_all(&geometry, 0, &guards), None, "{context}");
                }
            }
        }
    }

    #[test]
    fn the_bytes_of_a_page() {
        let geometry = geometry(Guard::Crc16);
        let mut page = Page::unknown();
        let tuple = Tuple { guard: 0x4F10, application: 0x1234, storage: 0, reference: 62 };
        page.set(&geometry, 2, &Tag { origin: Origin::Adopted, tuple });
        page.set(&geometry, 59, &Tag { origin: Origin::Vouched, tuple });
        let bytes = page.encode(7, 1);
        let mut expected = [0; 512];
        expected[8] = 2 << 4;
        expected[8 + 14] = 3 << 6;
        for at in [24 + 16, 24 + 59 * 8] {
            expected[at..at + 8].copy_from_slice(&[0x4F, 0x10, 0x12, 0x34, 0, 0, 0, 62]);
        }
        assert_eq!(bytes[4..], expected[4..]);
        assert_eq!(Page::decode(&geometry, &bytes, 7, 1), Found::Whole(page));
    }

    #[test]
    fn every_place_of_both_sizes_of_tuple_keeps_its_tag() {
        for guard in Guard::ALL {
            let geometry = geometry(guard);
            let mut page = Page::unknown();
            let tag = |place: usize| Tag {
                origin: Origin::ALL[place % 4],
                tuple: geometry.tuple(place as u64, place as u64 * 3),
            };
            for place in 0..geometry.blocks_of_page() as usize {
                page.set(&geometry, place, &tag(place));
            }
            let Found::Whole(page) = Page::decode(&geometry, &page.encode(1, 2), 1, 2) else {
                panic!("{guard}: not whole")
            };
            for place in 0..geometry.blocks_of_page() as usize {
                let expected = if place % 4 == 0 { Tag::UNKNOWN } else { tag(place) };
                assert_eq!(page.tag(&geometry, place), expected, "{guard} {place}");
            }
        }
    }

    #[test]
    fn a_page_with_any_bit_changed_or_of_another_place_or_file_is_lost() {
        let geometry = geometry(Guard::Crc16);
        let mut page = Page::unknown();
        page.set(&geometry, 0, &Tag::written(geometry.tuple(0, 5)));
        let bytes = page.encode(1, 2);
        for bit in 0..PAGE_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Page::decode(&geometry, &changed, 1, 2), Found::Lost, "bit {bit}");
        }
        assert_eq!(Page::decode(&geometry, &bytes, 1, 3), Found::Lost);
        assert_eq!(Page::decode(&geometry, &bytes, 2, 2), Found::Lost);
        assert_eq!(Page::decode(&geometry, &[0; 512], 1, 2), Found::Fresh);
    }
}

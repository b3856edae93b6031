//! Pages of tuples: one sector each, so that a power cut leaves the old one or the new.

use crate::geometry::{Geometry, PAGE_BYTES};
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
    bytes: Box<[u8; PAGE_BYTES]>,
}

/// A sector of the tag file, read as a page.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        Self { bytes: Box::new([0; PAGE_BYTES]) }
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

    /// Where the tuple at a place came from.
    #[must_use]
    pub fn origin(&self, place: usize) -> Origin {
        Origin::ALL[usize::from(self.bytes[ORIGINS_AT + place / 4] >> (place % 4 * 2) & 3)]
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
        let mut bytes = *self.bytes;
        let crc = checksum(&bytes, identity, number);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a sector.
    #[must_use]
    pub fn decode(geometry: &Geometry, sector: &[u8; PAGE_BYTES], identity: u64, number: u64) -> Found {
        if sector.iter().all(|byte| *byte == 0) {
            return Found::Fresh;
        }
        let crc = u32::from_le_bytes([sector[0], sector[1], sector[2], sector[3]]);
        let mut bytes = *sector;
        bytes[..4].fill(0);
        let end = tuple_at(geometry, geometry.blocks_of_page() as usize);
        let plain = bytes[4..ORIGINS_AT].iter().chain(&bytes[end..]).all(|byte| *byte == 0);
        if crc == checksum(sector, identity, number) && plain {
            Found::Whole(Self { bytes: Box::new(bytes) })
        } else {
            Found::Lost
        }
    }
}

fn tuple_at(geometry: &Geometry, place: usize) -> usize {
    assert!(place <= geometry.blocks_of_page() as usize, "place {place} of a page");
    TUPLES_AT + place * geometry.format().tuple_bytes()
}

fn checksum(sector: &[u8; PAGE_BYTES], identity: u64, number: u64) -> u32 {
    let crc = crc32c::crc32c(&identity.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &number.to_le_bytes());
    crc32c::crc32c_append(crc, &sector[4..])
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

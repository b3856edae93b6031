//! Changes of a page.

use super::{METADATA_AT, ORIGINS_AT, Origin, PAGE_BYTES, Page, Tag, metadata_at};
use crate::geometry::Geometry;
use pumice_protect::tuple::Tuple;

impl Page {
    /// Replaces the tags at consecutive places, and the other metadata of each; `&[]` stands for
    /// zeros. As often [`set_with`](Self::set_with), but faster.
    ///
    /// # Panics
    /// If the places are not all below [`Geometry::blocks_of_page`], or other metadata are given,
    /// but not as many as there are.
    pub fn set_all(&mut self, geometry: &Geometry, first: usize, tags: &[Tag], others: &[u8]) {
        let bytes = geometry.other_bytes();
        assert!(others.is_empty() || others.len() == tags.len() * bytes, "other metadata of all blocks");
        // A block of unknown origin has zeros, whatever its tuple says.
        if bytes > 0 || tags.iter().any(|tag| tag.origin == Origin::Unknown) {
            for (at, tag) in tags.iter().enumerate() {
                let others = others.get(at * bytes..(at + 1) * bytes).unwrap_or_default();
                self.set_with(geometry, first + at, tag, others);
            }
            return;
        }
        let places = metadata_at(geometry, first)..metadata_at(geometry, first + tags.len());
        Tuple::encode_all(geometry.format(), tags.iter().map(|tag| &tag.tuple), &mut self.bytes[places]);
        // Two bits for each of 60 places at most.
        let new = tags.iter().rev().fold(0, |bits: u128, tag| bits << 2 | tag.origin as u128);
        let which = ((1_u128 << (2 * tags.len())) - 1) << (2 * first);
        let origins: &mut [u8; 16] = (&mut self.bytes[ORIGINS_AT..METADATA_AT]).try_into().expect("16 bytes");
        *origins = (u128::from_le_bytes(*origins) & !which | new << (2 * first)).to_le_bytes();
    }
}

const _: () = assert!(METADATA_AT - ORIGINS_AT == 16 && METADATA_AT < PAGE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_protect::format::Place;
    use pumice_protect::guard::Guard;
    use pumice_protect::metadata::MetadataFormat;

    #[test]
    fn tags_that_are_set_together_are_as_those_set_one_by_one() {
        let large = |bytes, place| MetadataFormat::tuple(Guard::Crc16).with_bytes(bytes, place).unwrap();
        let tuples = Guard::ALL.map(MetadataFormat::tuple).into_iter();
        for metadata in tuples.chain([large(16, Place::First), large(64, Place::Last)]) {
            let geometry = Geometry::new(1 << 20, 4096, 4096, metadata, 64 << 10).unwrap();
            let (bytes, places) = (geometry.other_bytes(), geometry.blocks_of_page() as usize);
            for unknown in [None, Some(1)] {
                for (first, count) in [(0, places), (0, 1), (places - 1, 1), (1, 4), (3, places - 3)] {
                    // Over tags of before.
                    let mut page = Page::unknown();
                    for place in (0..places).step_by(2) {
                        let others = vec![0xA5; bytes];
                        page.set_with(&geometry, place, &Tag::written(geometry.tuple(9, 8)), &others);
                    }
                    let origin = |at: usize| match unknown {
                        Some(every) if at % 2 == every => Origin::Unknown,
                        _ => Origin::ALL[1 + at % 3],
                    };
                    let tuple = |at: usize| geometry.tuple(at as u64, 0x1234 + at as u64);
                    let tags: Vec<Tag> =
                        (0..count).map(|at| Tag { origin: origin(at), tuple: tuple(at) }).collect();
                    let others: Vec<u8> = (0..count * bytes).map(|i| i as u8).collect();
                    for others in [&others[..], &[]] {
                        let (mut together, mut each) = (page.clone(), page.clone());
                        together.set_all(&geometry, first, &tags, others);
                        for (at, tag) in tags.iter().enumerate() {
                            let others = others.get(at * bytes..(at + 1) * bytes).unwrap_or_default();
                            each.set_with(&geometry, first + at, tag, others);
                        }
                        assert!(together == each, "{metadata:?}, {count} tags from {first}, {unknown:?}");
                    }
                }
            }
        }
    }
}

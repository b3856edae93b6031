//! Pages by themselves.

use super::*;
use pumice_protect::format::Place;
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;

fn geometry(guard: Guard) -> Geometry {
    Geometry::new(1 << 20, 512, 512, guard, 1 << 20).expect("a drive")
}

#[test]
fn sectors_are_decoded_together_as_one_by_one() {
    let geometry = geometry(Guard::Crc16);
    let sector = |number: u64| {
        let mut page = Page::unknown();
        for place in 0..60 {
            let tuple = geometry.tuple(place, (place * number * 77) & 0xFFFF);
            page.set(&geometry, place as usize, &Tag::written(tuple));
        }
        page.encode(9, number)
    };
    for count in 1..=8 {
        let mut sectors: Vec<[u8; PAGE_BYTES]> = (100..100 + count).map(sector).collect();
        for (fresh, lost) in [(7, 7), (0, 2), (3, 1)] {
            sectors.get_mut(fresh).into_iter().for_each(|sector| sector.fill(0));
            sectors.get_mut(lost).into_iter().for_each(|sector| sector[400] ^= 1);
            for number in [100, 101] {
                let (mut together, mut lost) = (Vec::new(), Vec::new());
                let pages = Page::decode_all(&geometry, &sectors, 9, number, |page| lost.push(page));
                together.extend(pages);
                let one = |(number, sector)| Page::decode(&geometry, sector, 9, number);
                let one_by_one: Vec<Found> = (number..).zip(&sectors).map(one).collect();
                let expected = one_by_one.iter().zip(number..).filter(|(found, _)| **found == Found::Lost);
                assert_eq!(lost, expected.map(|(_, number)| number).collect::<Vec<_>>());
                assert_eq!(together, one_by_one.into_iter().map(Found::page).collect::<Vec<_>>());
            }
        }
    }
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

/// The table of sizes in `docs/reference/on-disk/tags.md`: with another number, versions would read
/// each other's files wrongly, and none would notice by itself.
#[test]
fn blocks_of_a_page_lie_where_the_format_says() {
    for (bytes, blocks) in [(8, 60), (16, 30), (64, 7)] {
        let metadata = MetadataFormat::tuple(Guard::Crc16).with_bytes(bytes, Place::Last).unwrap();
        let geometry = Geometry::new(1 << 20, 4096, 4096, metadata, 1 << 20).unwrap();
        assert_eq!((geometry.blocks_of_page(), geometry.pages()), (blocks, 256_u64.div_ceil(blocks)));
        assert_eq!((geometry.place(blocks - 1), geometry.place(blocks)), ((0, blocks as usize - 1), (1, 0)));
        let mut page = Page::unknown();
        let tag = Tag::written(geometry.tuple(9, 0xABCD));
        page.set(&geometry, blocks as usize - 1, &tag);
        let at = 24 + blocks as usize * bytes - 8;
        assert_eq!(page.encode(1, 0)[at..at + 8], *tag.tuple.encode(geometry.format()).as_slice());
    }
}

/// Found by the fuzz target: other metadata beside a tuple that is not there, under a fitting
/// checksum, came back with the next adopted tag.
#[test]
fn a_block_without_a_tag_has_no_other_metadata() {
    let metadata = MetadataFormat::tuple(Guard::Crc16).with_bytes(64, Place::Last).unwrap();
    let geometry = Geometry::new(1 << 20, 4096, 4096, metadata, 1 << 20).unwrap();
    let mut page = Page::unknown();
    page.set_with(&geometry, 2, &Tag::written(geometry.tuple(2, 7)), &[9; 56]);
    let mut bytes = page.encode(1, 0);
    bytes[8..24].fill(0);
    let crc = crc32c::crc32c(&1_u64.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &0_u64.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    let Found::Whole(page) = Page::decode(&geometry, &bytes, 1, 0) else { panic!("its checksum fits") };
    assert_eq!(page.entry(&geometry, 2), Entry::UNKNOWN);
}

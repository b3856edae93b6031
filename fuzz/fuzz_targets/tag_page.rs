//! A page of tags and a header with any bytes, under a fitting checksum: what is taken is written
//! as it was read, and no block is judged by a tag that it has not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::take;
use pumice_protect::guard::Guard;
use pumice_tags::geometry::{Geometry, PAGE_BYTES};
use pumice_tags::header::Header;
use pumice_tags::page::{Found, Opinion, Origin, Page};

fuzz_target!(|data: &[u8]| {
    if let Ok(header) = Header::decode(data) {
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
    let mut rest = data;
    let (choice, identity, number) = (take(&mut rest), take(&mut rest), take(&mut rest) >> 40);
    let guard = Guard::ALL[choice as usize % 3];
    let block = if choice >> 8 & 1 == 0 { 512 } else { 4096 };
    let geometry = Geometry::new(1 << 30, block, 512, guard, 1 << 20).expect("a drive");
    let mut sector = [0; PAGE_BYTES];
    let len = rest.len().min(PAGE_BYTES);
    sector[..len].copy_from_slice(&rest[..len]);
    if choice >> 16 & 1 == 0 {
        // What a page keeps zero is zero, and the checksum fits: the fuzzer does not guess it.
        sector[..8].fill(0);
        let end = 24 + geometry.blocks_of_page() as usize * geometry.format().tuple_bytes();
        sector[end..].fill(0);
        let crc = crc32c::crc32c(&identity.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &number.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &sector[4..]);
        sector[..4].copy_from_slice(&crc.to_le_bytes());
    }
    let found = Page::decode(&geometry, &sector, identity, number);
    let zeros = sector.iter().all(|byte| *byte == 0);
    assert_eq!(found == Found::Fresh, zeros);
    let Found::Whole(page) = found else { return };
    assert_eq!(page.encode(identity, number), sector, "a page is written as it was read");
    for place in 0..geometry.blocks_of_page() as usize {
        let tag = page.tag(&geometry, place);
        match tag.judge(tag.tuple.guard) {
            Opinion::Unchecked => {
                assert!(tag.origin == Origin::Unknown || tag.tuple.application == 0xFFFF);
            }
            opinion => assert_eq!(opinion, Opinion::Fits(tag.origin)),
        }
        // Setting what is there changes nothing of the others.
        let mut again = (*page).clone();
        again.set(&geometry, place, &tag);
        for other in 0..geometry.blocks_of_page() as usize {
            assert_eq!(again.tag(&geometry, other), page.tag(&geometry, other));
        }
    }
});

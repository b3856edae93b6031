//! A page of tags and a header with any bytes, under a fitting checksum: what is taken is written
//! as it was read, and no block is judged by a tag that it has not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::{metadata, take};
use pumice_protect::guard::Crc;
use pumice_tags::geometry::{Geometry, PAGE_BYTES};
use pumice_tags::header::Header;
use pumice_tags::page::{Found, Opinion, Origin, Page};

fuzz_target!(|data: &[u8]| {
    for version in [2, 3] {
        if let Ok(header) = Header::decode(data, version) {
            assert_eq!(header.version(), version);
            assert_eq!(Header::decode(&header.encode(), version), Ok(header));
        }
    }
    let mut rest = data;
    let (choice, identity, number) = (take(&mut rest), take(&mut rest), take(&mut rest) >> 40);
    let metadata = metadata(choice);
    let block = if metadata.is_tuple() && choice >> 8 & 1 == 0 { 512 } else { 4096 };
    let geometry = Geometry::new(1 << 30, block, 512, metadata, 1 << 20).expect("a drive");
    let mut sector = [0; PAGE_BYTES];
    let len = rest.len().min(PAGE_BYTES);
    sector[..len].copy_from_slice(&rest[..len]);
    if choice >> 16 & 1 == 0 {
        // What a page keeps zero is zero, and the checksum fits: the fuzzer does not guess it.
        sector[..8].fill(0);
        let end = 24 + geometry.blocks_of_page() as usize * geometry.format().metadata_bytes();
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
        let entry = page.entry(&geometry, place);
        let (tag, guard) = (entry.tag, geometry.format().guard());
        let tuple = geometry.format().tuple_range();
        // What the guard of the tuple would have to be, with the guard of any data.
        let before = &page.metadata(&geometry, place)[..tuple.start];
        let mut crc = Crc::after(guard, identity >> (64 - guard.bits()));
        crc.update(before);
        let fits = crc.value() == tag.tuple.guard;
        let mut judged = Vec::new();
        page.judge(&geometry, place, &[identity >> (64 - guard.bits())], &mut judged);
        match judged[0].opinion {
            Opinion::Unchecked => {
                assert!(tag.origin == Origin::Unknown || tag.tuple.application == 0xFFFF);
            }
            Opinion::Fits(origin) => assert!(fits && origin == tag.origin),
            opinion => assert!(!fits && opinion == Opinion::Differs(tag.origin)),
        }
        // The guard that data must have to fit.
        if tag.origin != Origin::Unknown {
            let opinion = entry.judge(&geometry, judged[0].guard);
            assert!(opinion == Opinion::Fits(tag.origin) || tag.tuple.application == 0xFFFF);
        }
        // Setting what is there changes nothing of the others.
        let mut again = page.clone();
        again.set_with(&geometry, place, &tag, &entry.others);
        for other in 0..geometry.blocks_of_page() as usize {
            assert_eq!(again.entry(&geometry, other), page.entry(&geometry, other));
        }
    }
});

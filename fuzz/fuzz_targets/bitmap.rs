//! Any bitmap whose magic and UUID fit: its runs cover what it covers and agree with its regions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::take;
use pumice_raid::Uuid;
use pumice_raid::bitmap::{Bitmap, HEADER_BYTES, Header, MAGIC};
use pumice_base::units::Sectors;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let (size, space, events) = (take(&mut rest), take(&mut rest), take(&mut rest));
    let _ = Header::parse(rest, Uuid([0; 16]), Sectors(size), space);
    // Small ones from here on, for speed.
    let (size, space) = (size & 0xFF_FFFF, space & 0x3F);
    let mut header = rest.to_vec();
    header.resize(HEADER_BYTES, 0);
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..24].fill(0);
    header[40..48].copy_from_slice(&size.to_le_bytes());
    let Ok(header) = Header::parse(&header, Uuid([0; 16]), Sectors(size), space) else { return };
    let range = header.state_bytes();
    let mut states = rest.get(HEADER_BYTES..).unwrap_or(&[]).to_vec();
    states.resize((range.end - range.start) as usize, 1);
    let Ok(bitmap) = Bitmap::new(header, states, events) else { return };
    let mut at = 0;
    for (sectors, region) in bitmap.runs() {
        assert_eq!(sectors.start, at);
        assert!(sectors.end > at);
        assert_eq!(bitmap.state(at / bitmap.region_sectors()), region);
        assert_eq!(bitmap.state((sectors.end - 1) / bitmap.region_sectors()), region);
        at = sectors.end;
    }
    assert_eq!(at, size);
    assert_eq!(bitmap.counts().values().sum::<u64>(), header.regions());
});

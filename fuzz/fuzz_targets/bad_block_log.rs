//! Any bad-block log.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((shift, log)) = data.split_first() else { return };
    if let Ok(ranges) = pumice_raid::bad_blocks::parse(log, *shift) {
        assert!(ranges.len() <= log.len() / 8);
        for range in ranges {
            assert!(range.sectors > 0 && range.start.checked_add(range.sectors).is_some());
        }
    }
});

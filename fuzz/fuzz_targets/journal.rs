//! Any journal whose blocks have fitting checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::{geometry, take};
use pumice_raid::Uuid;
use pumice_raid::journal::{BLOCK_BYTES, Journal, MAGIC};

const UUID: Uuid = Uuid([3; 16]);

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let (tail, sectors, sequence) = (take(&mut rest), take(&mut rest), take(&mut rest));
    let geometry = geometry();
    let mut reads = 0_u64;
    let block = |at: u64| {
        let mut block = [0; BLOCK_BYTES];
        // Each block another part of the bytes.
        let from = (reads as usize * 40) % rest.len().max(1);
        let part = rest.get(from..).unwrap_or(&[]);
        let len = part.len().min(BLOCK_BYTES - 12);
        block[12..12 + len].copy_from_slice(&part[..len]);
        block[..4].copy_from_slice(&MAGIC.to_le_bytes());
        block[8] = 1;
        // Mostly in sequence.
        if block[100] != 0xEE {
            block[16..24].copy_from_slice(&sequence.wrapping_add(reads).to_le_bytes());
        }
        block[24..32].copy_from_slice(&at.to_le_bytes());
        let sum = !crc32c::crc32c_append(crc32c::crc32c(&UUID.0), &block);
        block[4..8].copy_from_slice(&sum.to_le_bytes());
        reads += 1;
        Ok::<_, ()>(block)
    };
    let Ok(judged) = Journal::follow(UUID, &geometry, tail & !7, sectors, block) else { return };
    if let Journal::Pending(ranges) = judged {
        assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        assert!(ranges.iter().all(|range| range.start < range.end && range.end <= geometry.stripes()));
    }
    let plain = |_| Ok::<_, ()>(std::array::from_fn(|i| rest.get(i).copied().unwrap_or(0)));
    let _ = Journal::follow(UUID, &geometry, tail, sectors, plain);
});

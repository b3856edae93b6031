//! Any partial parity log whose headers have fitting checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::{geometry, take};
use pumice_raid::Uuid;
use pumice_raid::ppl::{HEADER_BYTES, MAX_ENTRIES, Ppl};

const UUID: Uuid = Uuid([3; 16]);

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let (area, several) = (take(&mut rest) & 0x1FF_FFFF, take(&mut rest) & 1 == 1);
    let geometry = geometry();
    let mut reads = 0_u64;
    let header = |at: u64| {
        assert!(at == 0 || at + HEADER_BYTES as u64 <= area);
        let mut header = [0; HEADER_BYTES];
        let part = rest.get((reads as usize * 24) % rest.len().max(1)..).unwrap_or(&[]);
        let len = part.len().min(HEADER_BYTES - 528);
        header[528..528 + len].copy_from_slice(&part[..len]);
        header[530..532].fill(0);
        header[512..516].copy_from_slice(&crc32c::crc32c(&UUID.0).to_le_bytes());
        header[520..528].copy_from_slice(&reads.to_le_bytes());
        header[532..536].fill(0);
        let sum = crc32c::crc32c(&header);
        header[532..536].copy_from_slice(&sum.to_le_bytes());
        reads += 1;
        Ok::<_, ()>(header)
    };
    let Ok(ppl) = Ppl::follow(UUID, area, several, header) else { return };
    if let Ppl::Pending(entries) = ppl {
        assert!(entries.len() <= MAX_ENTRIES as usize);
        for entry in entries {
            let stripes = entry.stripes(&geometry);
            assert!(stripes.start <= stripes.end && stripes.end <= geometry.stripes());
        }
    }
});

use super::*;
use crate::log::{Region, Sums, SuperblockMark, put};
use crate::rows::{Rows, Window};
use pumice_base::units::Role;
use pumice_raid::Uuid;

/// Place where the sums of the blocks begin, and where that of a header lies since version 2
/// (`docs/reference/on-disk/stripe-log.md`).
const SUMS_AT: usize = 64;
const SUM_AT: usize = 4088;

fn record() -> Record {
    Record {
        kind: Kind::Blocks,
        role: Role(2),
        generation: 3,
        sequence: 44,
        committed: 40,
        released: 33,
        window: Window(5),
        rows: Rows(0b1010),
        members: vec![Role(0), Role(2)],
    }
}

fn head(region: Region, role: Role, generation: u64, nonce: u64) -> Head {
    let (last, next) = (SuperblockMark::NONE, SuperblockMark::NONE);
    let array = Uuid([7; 16]);
    let sums = Sums::Keyed;
    Head { serial: 1, array, role, generation, nonce, sums, released: 0, region, last, next, writer: 0 }
}

/// A record as version 1 wrote it.
fn of_version_1(record: &Record, nonce: u64, position: u64, blocks: &[&[u8]]) -> Vec<u8> {
    let mut bytes = record.encode(nonce, position, blocks);
    bytes[SUM_AT..BLOCK as usize].fill(0);
    for (i, block) in blocks.iter().enumerate() {
        put(&mut bytes, SUMS_AT + 4 * i, &crc32c::crc32c(block).to_le_bytes());
    }
    let crc = crc32c::crc32c_append(crc32c::crc32c(&nonce.to_le_bytes()), &position.to_le_bytes());
    let sum = crc32c::crc32c_append(crc, &bytes[12..BLOCK as usize]);
    put(&mut bytes, 8, &sum.to_le_bytes());
    bytes
}

#[test]
fn records_of_any_number_of_members_are_found() {
    let region = Region { start: 0, len: 2 * BLOCK };
    for count in [1, 2, 191, 192, 193, 300, Record::most_members()] {
        let members = (0..count).map(Role).collect();
        let record = Record { kind: Kind::Intent, members, ..record() };
        let mut log = vec![0; region.len as usize];
        log[BLOCK as usize..].copy_from_slice(&record.encode(9, BLOCK, &[]));
        let found = scan(&log, &head(region, Role(2), 3, 9));
        assert_eq!(found, [LoggedBlocks { record, blocks_at: 2 * BLOCK }], "{count} members");
    }
}

#[test]
fn a_record_with_a_number_that_nobody_counts_to_is_none() {
    let region = Region { start: 1 << 16, len: 2 * BLOCK };
    for (sequence, found) in [(1 << 62, 1), (u64::MAX, 0)] {
        let record = Record { kind: Kind::Intent, sequence, ..record() };
        let mut log = vec![0; region.len as usize];
        log[BLOCK as usize..].copy_from_slice(&record.encode(9, BLOCK, &[]));
        assert_eq!(scan(&log, &head(region, Role(2), 3, 9)).len(), found, "{sequence}");
    }
}

#[test]
fn a_record_is_found_whole_or_not_at_all() {
    let blocks = [vec![1; BLOCK as usize], vec![2; BLOCK as usize]];
    let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let region = Region { start: 1 << 16, len: 4 * BLOCK };
    let mut log = vec![0; region.len as usize];
    let bytes = record().encode(9, BLOCK, &blocks);
    log[BLOCK as usize..].copy_from_slice(&bytes);
    let find = |log: &[u8], role, generation, nonce| scan(log, &head(region, role, generation, nonce));
    let found = vec![LoggedBlocks { record: record(), blocks_at: (1 << 16) + 2 * BLOCK }];
    assert_eq!(find(&log, Role(2), 3, 9), found);
    assert!(find(&log, Role(2), 3, 8).is_empty(), "another nonce");
    assert!(find(&log, Role(2), 4, 9).is_empty(), "another generation");
    assert!(find(&log, Role(1), 3, 9).is_empty(), "another role");
    // A copy that a user wrote elsewhere is no record.
    let mut moved = vec![0; log.len()];
    moved[..bytes.len()].copy_from_slice(&bytes);
    assert!(find(&moved, Role(2), 3, 9).is_empty());
    for sector in (BLOCK as usize..log.len()).step_by(512) {
        let mut torn = log.clone();
        torn[sector] ^= 0x80;
        let any_of_it = find(&torn, Role(2), 3, 9).is_empty();
        assert!(any_of_it, "byte {sector}");
    }
}

#[test]
fn a_log_of_version_1_is_read_and_only_as_such() {
    let blocks = [vec![1; BLOCK as usize], vec![2; BLOCK as usize]];
    let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let region = Region { start: 0, len: 4 * BLOCK };
    let mut log = vec![0; region.len as usize];
    log[BLOCK as usize..].copy_from_slice(&of_version_1(&record(), 9, BLOCK, &blocks));
    let keyed = head(region, Role(2), 3, 9);
    let plain = Head { sums: Sums::Crc32c, ..keyed };
    assert_eq!(scan(&log, &plain), [LoggedBlocks { record: record(), blocks_at: 2 * BLOCK }]);
    assert!(scan(&log, &keyed).is_empty(), "its sums are no keyed ones");
    log[BLOCK as usize..].copy_from_slice(&record().encode(9, BLOCK, &blocks));
    assert!(scan(&log, &plain).is_empty(), "keyed sums are no plain ones");
    log[2 * BLOCK as usize - 9] = 1;
    assert!(scan(&log, &keyed).is_empty(), "what no sum covers is zero");
}

/// The power is cut when the header of a record is on the medium and its block is not: what was
/// logged there before is a host's choice.
#[test]
fn a_block_of_the_same_crc_is_not_the_one_that_was_logged() {
    let region = Region { start: 0, len: 3 * BLOCK };
    let record = Record { rows: Rows(1), ..record() };
    for seed in 0..200_u8 {
        let logged: Vec<u8> = (0..BLOCK as usize).map(|at| (at as u8).wrapping_mul(7) ^ seed).collect();
        let mut other = vec![seed ^ 0x55; BLOCK as usize];
        pumice_flash::chip::forge_crc32c(&mut other, crc32c::crc32c(&logged));
        let head = head(region, Role(2), 3, 9 + u64::from(seed));
        let find = |bytes: &[u8], sums| scan(&[&[0; BLOCK as usize], bytes].concat(), &Head { sums, ..head });
        let mut torn = record.encode(head.nonce, BLOCK, &[&logged]);
        assert_eq!(find(&torn, Sums::Keyed).len(), 1);
        torn[BLOCK as usize..].copy_from_slice(&other);
        assert!(find(&torn, Sums::Keyed).is_empty(), "{seed}");
        let mut torn = of_version_1(&record, head.nonce, BLOCK, &[&logged]);
        torn[BLOCK as usize..].copy_from_slice(&other);
        assert_eq!(find(&torn, Sums::Crc32c).len(), 1, "which CRC-32C does not see");
    }
}

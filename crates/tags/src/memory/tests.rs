//! Against a drive in memory with its tags in a tag file: the same answers to the same commands.

use super::*;
use crate::{TaggedDevice, make_in_memory};
use pumice_blockdev::MemoryDevice;
use pumice_protect::format::Place;
use pumice_protect::guard::Guard;
use std::sync::Arc;

const BLOCKS: u64 = 96;

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ x >> 31) % n
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (seed, step) = (self.below(256), self.below(256));
        (0..len as u64).map(|i| (seed + i * step + i / 7) as u8).collect()
    }
}

fn same(ours: &Result<(), IoError>, theirs: &Result<(), IoError>, what: &str) {
    // The text has the place.
    let kind = |result: &Result<(), IoError>| {
        let error = result.as_ref().err();
        error.map(|error| if error.is_protection_error() { error.to_string() } else { String::new() })
    };
    assert_eq!(kind(ours), kind(theirs), "{what}");
}

/// The question to both, by its number.
fn step(random: &mut Random, ours: &TaggedMemory, theirs: &TaggedDevice, under: &MemoryDevice, block: u64) {
    let first = random.below(BLOCKS);
    let count = 1 + random.below((BLOCKS - first).min(9));
    let (at, len) = (first * block, (count * block) as usize);
    let metadata_len = count as usize * ours.format().metadata_bytes();
    let kind = random.below(12);
    let what = format!("{kind}: {count} blocks from {first} on");
    match kind {
        0..=2 => {
            let data = random.bytes(len);
            same(&ours.write_at(at, &data), &theirs.write_at(at, &data), &what);
        }
        3..=4 => {
            // A part of a block, too.
            let skip = if random.below(2) == 0 { random.below(block) } else { 0 };
            let len = len - skip as usize;
            // Nothing of a refused block comes out.
            let (mut one, mut other) = (vec![0; len], vec![0; len]);
            let results = (ours.read_at(at + skip, &mut one), theirs.read_at(at + skip, &mut other));
            same(&results.0, &results.1, &what);
            assert!(one == other, "{what}");
        }
        5 => {
            let (mut one, mut other) = (vec![1; len], vec![2; len]);
            let judged = (ours.read_judged(at, &mut one), theirs.read_judged(at, &mut other));
            assert_eq!(judged.0.unwrap(), judged.1.unwrap(), "{what}");
            assert!(one == other, "{what}");
        }
        6 => {
            let (mut one, mut other) =
                ((vec![1; len], vec![1; metadata_len]), (vec![2; len], vec![2; metadata_len]));
            ours.read_with_metadata(at, &mut one.0, &mut one.1).unwrap();
            theirs.read_with_metadata(at, &mut other.0, &mut other.1).unwrap();
            assert!(one == other, "{what}");
        }
        7 => {
            let (data, mut tuples) = (random.bytes(len), random.bytes(metadata_len));
            if random.below(2) == 0 {
                let tags = Tags::at(ours.format(), first);
                pumice_protect::blocks::generate(ours.format(), &tags, &data, &mut tuples);
            }
            let results = (
                ours.write_with_metadata(at, &data, &tuples),
                theirs.write_with_metadata(at, &data, &tuples),
            );
            same(&results.0, &results.1, &what);
        }
        8 => {
            let tuples = random.bytes(metadata_len);
            let frees = random.below(2) == 0;
            let results =
                (ours.zero_with_metadata(at, &tuples, frees), theirs.zero_with_metadata(at, &tuples, frees));
            same(&results.0, &results.1, &what);
        }
        9 => {
            let len = len as u64;
            let results = match random.below(2) {
                0 => (ours.zero(at, len), theirs.zero(at, len)),
                _ => (ours.discard(at, len), theirs.discard(at, len)),
            };
            same(&results.0, &results.1, &what);
        }
        10 => {
            assert_eq!(ours.vouch(at, len as u64).unwrap(), theirs.vouch(at, len as u64).unwrap());
            // Beyond the end, and parts of blocks.
            for (at, len) in [(at, BLOCKS * block + 1), (at + 1, block), (u64::MAX - 5, 512)] {
                same(&ours.zero(at, len), &theirs.zero(at, len), &what);
                assert!(ours.check_resident(at, len).is_err());
            }
        }
        _ => {
            let at = at + random.below(block);
            let mut byte = [0];
            under.read_at(at, &mut byte).unwrap();
            under.write_at(at, &[byte[0] ^ 4]).unwrap();
            ours.damage(at as usize, byte[0] ^ 4);
        }
    }
}

#[test]
fn a_drive_in_memory_answers_as_one_with_a_tag_file() {
    let mut refused = 0;
    for (seed, guard) in (0..36).zip(Guard::ALL.into_iter().cycle()) {
        let block = if seed % 2 == 0 { 512 } else { 4096 };
        let size = BLOCKS * u64::from(block);
        let tuple = MetadataFormat::tuple(guard);
        let metadata = match seed {
            24.. if block == 4096 => {
                let place = if seed % 4 == 1 { Place::First } else { Place::Last };
                tuple.with_bytes(if seed == 33 { 16 } else { 64 }, place).unwrap()
            }
            12.. => tuple.with_storage_bits(16 + seed as u32 % 12).unwrap(),
            _ => tuple,
        };
        let ours = TaggedMemory::new("m", size, block, metadata).unwrap();
        let under = Arc::new(MemoryDevice::new("m", size));
        let tags = make_in_memory(&*under, block, metadata).unwrap();
        let theirs = TaggedDevice::open(under.clone(), tags, "").unwrap();
        assert_eq!(Tagged::format(&ours), Tagged::format(&theirs));
        assert_eq!(ours.grains(), theirs.grains());
        let mut random = Random(seed);
        for _ in 0..500 {
            step(&mut random, &ours, &theirs, &under, block.into());
            assert_eq!(ours.counts(), theirs.counts(), "seed {seed}");
        }
        // Every block is damaged, and each is refused.
        let good = random.bytes(size as usize);
        ours.write_at(0, &good).unwrap();
        theirs.write_at(0, &good).unwrap();
        let bad: Vec<u8> = good.iter().map(|byte| byte ^ 1).collect();
        under.write_at(0, &bad).unwrap();
        bad.iter().enumerate().for_each(|(at, byte)| ours.damage(at, *byte));
        for at in (0..size).step_by(block as usize) {
            let mut buffers = [vec![0; block as usize], vec![0; block as usize]];
            let [one, other] = &mut buffers;
            same(&ours.read_at(at, one), &theirs.read_at(at, other), "damaged");
            assert!(one == other);
            assert_eq!(ours.counts(), theirs.counts(), "seed {seed}, at {at}");
        }
        assert!(!ours.counts().stale && ours.counts().served == 0);
        refused += ours.counts().refused;
    }
    assert!(refused > 36 * BLOCKS, "{refused}");
}

/// Memory that is sent as it lies is checked before, as a copy is.
#[test]
fn what_is_lent_is_checked() {
    let drive = TaggedMemory::new("m", 64 << 10, 512, Guard::Crc16).unwrap();
    assert!(drive.check_resident(0, 64 << 10).is_ok(), "nothing has a tag");
    drive.write_at(4096, &[7; 4096]).unwrap();
    assert!(drive.check_resident(0, 64 << 10).is_ok());
    assert_eq!(drive.resident().unwrap()[4096..8192], [7; 4096]);
    drive.damage(5000, 8);
    let error = drive.check_resident(4096, 4096).unwrap_err();
    assert!(error.is_protection_error() && error.to_string().contains("4608"), "{error}");
    assert!(drive.check_resident(0, 4608).is_ok() && drive.check_resident(5120, 512).is_ok());
    assert_eq!(drive.counts().refused, 1);
    drive.write_at(4608, &[7; 512]).unwrap();
    assert!(drive.check_resident(4096, 4096).is_ok());
}

#[test]
fn blocks_that_are_written_after_a_refusal_do_not_make_tags_stale() {
    let drive = TaggedMemory::new("m", 512 << 10, 512, Guard::Crc16).unwrap();
    drive.write_at(0, &[7; 512 << 10]).unwrap();
    (0..1000).for_each(|block| drive.damage(block * 512, 8));
    for block in 0..1000 {
        assert!(drive.read_at(block * 512, &mut [0; 512]).is_err(), "{block}");
        match block % 3 {
            0 => drive.write_at(block * 512, &[7; 512]).unwrap(),
            1 => drive.zero(block * 512, 512).unwrap(),
            _ => drive.restore(block * 512, &[7; 512], RestoredTag::Stays).unwrap(),
        }
    }
    let counts = drive.counts();
    assert_eq!((counts.refused, counts.served, counts.stale), (1000, 0, false));
}

#[test]
fn sizes_that_are_no_whole_blocks_are_refused() {
    assert!(TaggedMemory::new("m", 4096 + 512, 4096, Guard::Crc64).is_err());
    assert!(TaggedMemory::new("m", 0, 512, Guard::Crc16).is_err());
    assert!(TaggedMemory::new("m", 4096, 1024, Guard::Crc16).is_err());
}

#[test]
fn a_drive_for_which_there_is_no_memory_is_refused() {
    for size in [1 << 50, 1 << 62, u64::MAX - 4095] {
        for metadata in [MetadataFormat::tuple(Guard::Crc16), MetadataFormat::tuple(Guard::Crc64)] {
            let refused = TaggedMemory::new("m", size, 4096, metadata).err();
            assert!(matches!(refused, Some(NewMemoryError::NoMemory(_))), "{size}: {refused:?}");
        }
    }
    let refused = TaggedMemory::new("m", 4097, 4096, Guard::Crc16).err();
    assert!(matches!(refused, Some(NewMemoryError::Geometry(_))), "{refused:?}");
}

use super::*;
use crate::{FaultyStore, Store, StoreFile};

const SIZE: u64 = 16 << 10;

fn store(seed: u64) -> FaultyStore {
    let store = FaultyStore::new(seed);
    // The log lies behind something else, which stays.
    store.create("log", &vec![7; 512 + SIZE as usize]).unwrap();
    store.sync("log").unwrap();
    store.sync_folder().unwrap();
    store
}

type TestRing<'s> = Ring<StoreFile<'s>>;

fn open(store: &FaultyStore) -> Result<(TestRing<'_>, Vec<Entry>), RingError> {
    Ring::open(StoreFile { store, name: "log" }, 512, SIZE, 512, 99)
}

/// Synced records are present, in order; later records are present or not, without a gap;
/// released records do not return.
#[test]
fn after_a_cut_at_any_operation_the_log_is_a_prefix_that_has_all_that_was_synced() {
    let (mut torn, mut full) = (0, 0);
    for seed in 0..1000_u64 {
        let store = store(seed);
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % n
        };
        // Numbers with the length of their bodies.
        let mut appended: Vec<(u64, usize)> = Vec::new();
        let (mut synced, mut released, mut asked_to_release) = (0, 0, 0);
        let (mut ring, _) = open(&store).unwrap();
        store.cut_power_after(next(120));
        loop {
            let step = match next(4) {
                0 => ring.sync().map(|()| synced = appended.last().map_or(0, |last| last.0)),
                1 if !appended.is_empty() => {
                    let upto = appended[next(appended.len() as u64) as usize].0;
                    asked_to_release = asked_to_release.max(upto);
                    let done = ring.release(asked_to_release);
                    if done.is_ok() {
                        (released, synced) = (asked_to_release, appended.last().unwrap().0);
                    }
                    done
                }
                _ => {
                    let len = next(3000) as usize;
                    match ring.append(&vec![seed as u8; len]) {
                        Ok(sequence) => {
                            appended.push((sequence, len));
                            Ok(())
                        }
                        Err(RingError::Full(_)) => {
                            full += 1;
                            Ok(())
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            if step.is_err() {
                break;
            }
        }
        store.crash();
        let (mut ring, found) = open(&store).unwrap();
        let first = found.first().map_or(u64::MAX, |entry| entry.sequence);
        assert!(found.is_empty() || first > released, "seed {seed}: released ones are gone");
        let expected: Vec<_> = appended.iter().filter(|(s, _)| *s >= first).copied().collect();
        let found: Vec<_> = found.iter().map(|e| (e.sequence, e.body.len())).collect();
        // The append that met the power cut has a number that nobody was told.
        let known = found.len().min(expected.len());
        assert_eq!(found[..known], expected[..known], "seed {seed}");
        assert!(found.len() <= expected.len() + 1, "seed {seed}");
        for (sequence, _) in appended.iter().filter(|(s, _)| *s <= synced && *s > asked_to_release) {
            assert!(found.iter().any(|(s, _)| s == sequence), "seed {seed}: {sequence} was durable");
        }
        torn += usize::from(found.len() < expected.len());
        // It goes on, with room again once all is released.
        let last = found.last().map_or(0, |(sequence, _)| *sequence);
        ring.release(last).unwrap();
        let after = ring.append(b"after").unwrap();
        ring.sync().unwrap();
        let (_, found) = open(&store).unwrap();
        assert_eq!(found, [Entry { sequence: after, body: b"after".to_vec() }], "seed {seed}");
        let mut before = [0; 512];
        store.read_at("log", 0, &mut before).unwrap();
        assert_eq!(before, [7; 512]);
    }
    assert!(torn > 50 && full > 50, "torn {torn}, full {full}");
}

#[test]
fn a_durable_record_that_is_gone_is_damage_and_not_the_end() {
    let store = store(1);
    let (mut ring, _) = open(&store).unwrap();
    for _ in 0..3 {
        ring.append(&[1; 100]).unwrap();
        ring.sync().unwrap();
    }
    let mut byte = [0];
    store.read_at("log", 512 + 512 + 60, &mut byte).unwrap();
    store.write_at("log", 512 + 512 + 60, &[byte[0] ^ 1]).unwrap();
    assert!(matches!(open(&store).err(), Some(RingError::Damaged(2))));
    // The last one may be torn: nothing says that it was durable.
    store.write_at("log", 512 + 512 + 60, &byte).unwrap();
    store.write_at("log", 512 + 1024 + 60, &[9]).unwrap();
    assert_eq!(open(&store).unwrap().1.len(), 2);
}

#[test]
fn a_full_log_says_so_and_can_always_be_released() {
    let store = store(1);
    let (mut ring, _) = open(&store).unwrap();
    let mut last = 0;
    let mut kept = 0;
    loop {
        let room = ring.room();
        match ring.append(&[1; 464]) {
            Ok(sequence) => (last, kept) = (sequence, kept + 1),
            Err(RingError::Full(464)) => {
                assert!(room < 464);
                break;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(room >= 464);
    }
    assert_eq!(kept, SIZE / 512 - 1);
    ring.release(last).unwrap();
    assert_eq!(open(&store).unwrap().1, []);
    ring.append(&[1; 4000]).unwrap();
}

#[test]
fn records_of_another_log_are_not_its_own() {
    let store = store(1);
    let (mut ring, _) = open(&store).unwrap();
    ring.append(b"mine").unwrap();
    let medium = StoreFile { store: &store, name: "log" };
    let (_, found) = Ring::open(medium, 512, SIZE, 512, 100).unwrap();
    assert_eq!(found, []);
    for (size, align) in [(SIZE, 500), (SIZE, 32), (SIZE + 1, 512), (512, 512)] {
        assert!(Ring::open(medium, 512, size, align, 1).is_err(), "{size} {align}");
    }
}

/// A medium with sectors that cannot be read, which counts reads.
struct Bad<'s> {
    file: StoreFile<'s>,
    bad: std::ops::Range<u64>,
    reads: &'s std::cell::Cell<u32>,
}

impl Medium for Bad<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.reads.set(self.reads.get() + 1);
        if offset < self.bad.end && self.bad.start < offset + buf.len() as u64 {
            return Err(io::Error::other("unreadable"));
        }
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[test]
fn a_log_is_opened_in_large_reads_and_past_unreadable_bytes_that_no_record_has() {
    let store = store(3);
    let (mut ring, _) = Ring::open(StoreFile { store: &store, name: "log" }, 512, SIZE, 1024, 99).unwrap();
    for len in [10, 2000, 100] {
        ring.append(&vec![1; len]).unwrap();
    }
    ring.sync().unwrap();
    let reads = std::cell::Cell::new(0);
    let open = |bad| {
        let medium = Bad { file: StoreFile { store: &store, name: "log" }, bad, reads: &reads };
        Ring::open(medium, 512, SIZE, 1024, 99).map(|(_, entries)| entries.len())
    };
    assert_eq!((open(0..0).unwrap(), reads.get()), (3, 1));
    // Beyond the records, and behind the place of a header.
    assert_eq!(open(512 + 9 * 1024 + 100..512 + 9 * 1024 + 200).unwrap(), 3);
    assert!(matches!(open(512 + 1024 + 100..512 + 1024 + 101).err(), Some(RingError::Medium(_))));
}

use super::*;
use crate::durable::{FaultyStore, Store, StoreFile};
use std::cell::Cell;

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
        let unit = [512, 1024, 2048, 4096][seed as usize % 4];
        ring.set_unit(unit);
        store.cut_power_after(next(120));
        // Records of the last append, which may meet the cut.
        let mut last_many = 1;
        loop {
            let step = match next(5) {
                0 => ring.sync().map(|()| synced = appended.last().map_or(0, |last| last.0)),
                1 if !appended.is_empty() => {
                    let upto = appended[next(appended.len() as u64) as usize].0;
                    asked_to_release = asked_to_release.max(upto);
                    ring.release(asked_to_release).map(|done| {
                        released = if done { asked_to_release } else { released };
                        synced = appended.last().unwrap().0;
                    })
                }
                2 => {
                    let bodies: Vec<_> =
                        (0..=next(5)).map(|_| vec![seed as u8; next(900) as usize]).collect();
                    last_many = bodies.len();
                    ring.append_all(&bodies).map(|numbers| {
                        full += usize::from(numbers.len() < bodies.len());
                        let lens = bodies.iter().map(Vec::len);
                        appended.extend(numbers.into_iter().zip(lens));
                    })
                }
                _ => {
                    last_many = 1;
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
        // The append that met the power cut has numbers that nobody was told.
        let known = found.len().min(expected.len());
        assert_eq!(found[..known], expected[..known], "seed {seed}");
        assert!(found.len() <= expected.len() + last_many, "seed {seed}");
        for (sequence, _) in appended.iter().filter(|(s, _)| *s <= synced && *s > asked_to_release) {
            assert!(found.iter().any(|(s, _)| s == sequence), "seed {seed}: {sequence} was durable");
        }
        torn += usize::from(found.len() < expected.len());
        // It goes on, with room again once all is released.
        let last = found.last().map_or(0, |(sequence, _)| *sequence);
        ring.release(last).unwrap();
        ring.set_unit([4096, 512, 2048, 1024][seed as usize % 4]);
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

/// A medium that takes whole units only.
struct Units<'s> {
    file: StoreFile<'s>,
    unit: u64,
    writes: &'s Cell<u64>,
}

impl Medium for Units<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let whole = |bytes: u64| bytes.is_multiple_of(self.unit);
        assert!(whole(offset - 512) && whole(data.len() as u64), "{offset}, {} bytes", data.len());
        self.writes.set(self.writes.get() + 1);
        self.file.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Appends and releases at random. The log never runs full for good, no record that counts is
/// written over, and each write is of whole units.
#[test]
fn a_log_writes_whole_units_and_no_record_that_counts_is_in_one_of_them() {
    let (mut full, mut shared) = (0, 0);
    for (seed, unit) in [(1_u64, 1024), (2, 2048), (3, 4096), (4, 4096)] {
        let (store, writes) = (store(seed), Cell::new(0));
        let medium = || Units { file: StoreFile { store: &store, name: "log" }, unit, writes: &writes };
        let (mut ring, _) = Ring::open(medium(), 512, SIZE, 512, 99).unwrap();
        ring.set_unit(unit as u32);
        let mut random = seed;
        let mut live: VecDeque<(u64, u8)> = VecDeque::new();
        for round in 0..400 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bodies: Vec<Vec<u8>> = (0..1 + random % 4)
                .map(|i| vec![round as u8; ((random >> (8 * i + 20)) % 900) as usize])
                .collect();
            let numbers = ring.append_all(&bodies).unwrap();
            live.extend(numbers.iter().map(|number| (*number, round as u8)));
            full += usize::from(numbers.len() < bodies.len());
            if numbers.len() < bodies.len() || random.is_multiple_of(3) {
                let count = if random.is_multiple_of(7) { live.len() } else { live.len().div_ceil(3) };
                let upto = live.get(count - 1).expect("a log without records has room").0;
                match ring.release(upto).unwrap() {
                    true => drop(live.drain(..count)),
                    false => shared += 1,
                }
            }
            ring.sync().unwrap();
            let (_, found) = Ring::open(medium(), 512, SIZE, 512, 99).unwrap();
            let found: Vec<_> =
                found.iter().map(|entry| (entry.sequence, entry.body.first().copied())).collect();
            let wanted: Vec<_> = live.iter().map(|(number, byte)| (*number, Some(*byte))).collect();
            assert!(found.iter().zip(&wanted).all(|(a, b)| a.0 == b.0 && (a.1 == b.1 || a.1.is_none())));
            assert_eq!(found.len(), wanted.len(), "seed {seed}, round {round}");
        }
        assert!(writes.get() > 200, "{} writes", writes.get());
    }
    assert!(full > 50 && shared > 20, "{full} times full, {shared} releases that free nothing");
}

/// A medium that counts writes.
struct Counted<'s> {
    file: StoreFile<'s>,
    writes: Cell<usize>,
}

impl Medium for Counted<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.writes.set(self.writes.get() + 1);
        self.file.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[test]
fn records_that_are_appended_together_are_one_write_and_lie_as_one_after_the_other() {
    let (one_by_one, together) = (store(1), store(1));
    let medium = |store| Counted { file: StoreFile { store, name: "log" }, writes: Cell::new(0) };
    let (mut a, _) = Ring::open(medium(&one_by_one), 512, SIZE, 512, 99).unwrap();
    let (mut b, _) = Ring::open(medium(&together), 512, SIZE, 512, 99).unwrap();
    let bodies: Vec<Vec<u8>> = (0..12).map(|i| vec![i; 300 + 100 * usize::from(i)]).collect();
    for ring in [&mut a, &mut b] {
        // So that the log goes round.
        let last = (0..8).map(|_| ring.append(&[1; 1000]).unwrap()).last().unwrap();
        ring.release(last).unwrap();
        ring.medium.writes.set(0);
    }
    let numbers: Vec<u64> = bodies.iter().map_while(|body| a.append(body).ok()).collect();
    assert_eq!(b.append_all(&bodies).unwrap(), numbers);
    assert!(numbers.len() > 5, "{}", numbers.len());
    assert_eq!(b.medium.writes.get(), 2, "to the end of the region, and from its start");
    let bytes = |store: &FaultyStore| {
        let mut bytes = vec![0; SIZE as usize];
        store.read_at("log", 512, &mut bytes).unwrap();
        bytes
    };
    assert!(bytes(&one_by_one) == bytes(&together));
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
fn a_record_with_a_number_that_nobody_counts_to_is_none() {
    let store = store(1);
    let (mut ring, _) = open(&store).unwrap();
    ring.append(&[1; 16]).unwrap();
    for (number, found) in [(1_u64 << 62, 1), (u64::MAX, 0)] {
        let mut record = [0; HEADER + 16];
        store.read_at("log", 512, &mut record).unwrap();
        record[8..16].copy_from_slice(&number.to_le_bytes());
        record[24..32].copy_from_slice(&number.to_le_bytes());
        let crc = ring.checksum(0, &record);
        record[4..8].copy_from_slice(&crc.to_le_bytes());
        store.write_at("log", 512, &record).unwrap();
        assert_eq!(open(&store).unwrap().1.len(), found, "{number}");
    }
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
    bad: Range<u64>,
    reads: &'s Cell<u32>,
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
    let reads = Cell::new(0);
    let open = |bad| {
        let medium = Bad { file: StoreFile { store: &store, name: "log" }, bad, reads: &reads };
        Ring::open(medium, 512, SIZE, 1024, 99).map(|(_, entries)| entries.len())
    };
    assert_eq!((open(0..0).unwrap(), reads.get()), (3, 1));
    // Beyond the records, and behind the place of a header.
    assert_eq!(open(512 + 9 * 1024 + 100..512 + 9 * 1024 + 200).unwrap(), 3);
    assert!(matches!(open(512 + 1024 + 100..512 + 1024 + 101).err(), Some(RingError::Medium(_))));
}

fn open_ended<'s>(store: &'s FaultyStore, note: &[u8]) -> Option<TestRing<'s>> {
    let medium = StoreFile { store, name: "log" };
    Ring::open_ended(medium, (512, SIZE), 512, 99, note).unwrap()
}

/// Records come and go, the log is ended, and the power goes at any operation of that: it is empty,
/// and an end marker is there only when it was durable.
#[test]
fn a_log_that_was_ended_is_empty_and_goes_on_whether_it_is_read_or_not() {
    let (mut not_ended, mut moved) = (0, 0);
    for seed in 0..600_u64 {
        let store = store(seed);
        let (mut ring, _) = open(&store).unwrap();
        let mut known: Vec<u64> = Vec::new();
        for round in 0..4_u64 {
            ring.set_unit([512, 4096][(seed + round) as usize % 2]);
            let note = (seed * 10 + round).to_le_bytes();
            for i in 0..seed % 9 {
                known.push(ring.append(&vec![i as u8; (seed * 37 + i * 911) as usize % 2000]).unwrap());
                ring.sync().unwrap();
                if i % 2 == 1 {
                    ring.release(*known.last().unwrap()).unwrap();
                }
            }
            if let Some(last) = known.last() {
                assert!(seed % 9 % 2 == 0 || !ring.end(&note).unwrap(), "records count");
                ring.release(*last).unwrap();
            }
            // As the next opening may choose it: then its first unit has more than one sector.
            ring.set_unit([512, 4096][(seed / 2 + round) as usize % 2]);
            moved += u64::from(ring.live.back().is_some_and(|last| last.at < ring.unit));
            // Sometimes it comes to its end.
            store.cut_power_after((seed + round) % 9);
            let ended = ring.end(&note).is_ok_and(|ended| ended);
            drop(ring);
            store.crash();
            let (read, entries) = open(&store).unwrap();
            assert!(entries.is_empty(), "seed {seed}: {} records", entries.len());
            let next = read.next_sequence;
            assert!(known.last().is_none_or(|last| next > *last));
            drop(read);
            let other = open_ended(&store, b"another ");
            assert!(other.is_none());
            let found = open_ended(&store, &note);
            assert!(found.is_some() || !ended, "seed {seed}: it was durable");
            not_ended += u64::from(found.is_none());
            ring = match found {
                Some(found) => {
                    assert_eq!(found.next_sequence, next, "as if it had been read");
                    found
                }
                None => open(&store).unwrap().0,
            };
        }
        // The next record is found.
        let last = ring.append(b"after").unwrap();
        ring.sync().unwrap();
        drop(ring);
        let (_, entries) = open(&store).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [last]);
    }
    assert!(not_ended > 200 && moved > 200, "{not_ended} {moved}");
}

/// The marker that says that the log is empty lies in the unit that the end marker is written to.
#[test]
fn an_end_marker_that_is_torn_brings_back_no_record() {
    let mut torn = 0;
    for seed in 0..1500 {
        let store = store(seed);
        let (mut ring, _) = open(&store).unwrap();
        let number = ring.append(b"released").unwrap();
        assert!(ring.release(number).unwrap());
        ring.set_unit(4096);
        store.cut_power_after(seed % 6);
        let _ = ring.end(b"the note").is_ok();
        store.crash();
        let (ring, entries) = open(&store).unwrap();
        assert!(entries.is_empty() && ring.next_sequence > number, "seed {seed}");
        torn += u64::from(open_ended(&store, b"the note").is_none());
    }
    assert!((300..1200).contains(&torn), "{torn}");
}

#[test]
fn records_are_the_same_in_memory_that_was_used_before() {
    let store = store(1);
    let (mut ring, _) = open(&store).unwrap();
    for unit in [512, 4096] {
        ring.set_unit(unit);
        let Prepared { runs, .. } = ring.prepare([10, 700, 464, 3]);
        for run in &runs {
            let body = |at: usize, body: &mut [u8]| body.fill(at as u8 + 1);
            let (mut new, mut used) = (vec![0; run.len], vec![0xA5; run.len]);
            ring.fill(run, &mut new, body);
            ring.fill(run, &mut used, body);
            assert!(new == used, "{unit}");
        }
        ring.synced();
        let last = ring.live.back().unwrap().sequence;
        ring.release(last).unwrap();
    }
}

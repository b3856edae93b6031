//! The plain form of recovery, with a version for each block of each record, and the proof that the
//! other one is as good.

use super::{Outcome, Recovery};
use crate::geometry::Geometry;
use crate::page::{Entry, Opinion, Origin, Tag};
use crate::record::{Change, MAX_ZEROS, Record};
use crate::sum::{Sum, Sums};
use pumice_protect::guard::Guard;
use std::collections::BTreeMap;
use std::ops::Range;

/// A version that a block may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    tag: Tag,
    /// The record that made it, and its number in that.
    record: usize,
    at: usize,
    sum: Option<Sum>,
    data: Data,
}

/// The known part of the data of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    /// Only the sum.
    Sum,
    /// They are in the record.
    Logged,
    /// They are zeros.
    Zeros,
}

/// The versions of a block, oldest first.
#[derive(Debug, Default)]
struct Versions {
    /// True if the version of the home tuple may be there.
    home: bool,
    logged: Vec<Version>,
}

/// The records of a log, by block.
#[derive(Debug)]
pub(super) struct Plain<'r> {
    geometry: Geometry,
    records: &'r [Record],
    blocks: BTreeMap<u64, Versions>,
}

impl<'r> Plain<'r> {
    /// From records with their numbers, in their order.
    pub(super) fn new(geometry: Geometry, numbers: &[u64], records: &'r [Record]) -> Self {
        let settled = records.iter().map(|record| record.settled).max().unwrap_or(0);
        let zero_guard = geometry.zero_guard();
        let mut blocks: BTreeMap<u64, Versions> = BTreeMap::new();
        for (index, (number, record)) in numbers.iter().zip(records).enumerate() {
            for (at, block) in record.blocks().enumerate() {
                let version = match &*record.change {
                    Change::Tags { tags, sums, data, .. } => {
                        let data = if data.is_some() { Data::Logged } else { Data::Sum };
                        Version { tag: tags[at], record: index, at, sum: Some(sums.of(at)), data }
                    }
                    Change::Zeros(_) => {
                        let tag = Tag::written(geometry.tuple(block, zero_guard));
                        Version { tag, record: index, at, sum: None, data: Data::Zeros }
                    }
                };
                let versions =
                    blocks.entry(block).or_insert_with(|| Versions { home: true, ..Versions::default() });
                if *number <= settled {
                    // What came before cannot be there any more.
                    versions.home = false;
                    versions.logged.clear();
                }
                versions.logged.push(version);
            }
        }
        Self { geometry, records, blocks }
    }

    /// The blocks of the log, as ranges of at most `most` blocks.
    pub(super) fn ranges(&self, most: u64) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for block in self.blocks.keys() {
            match ranges.last_mut() {
                Some(last) if last.end == *block && last.end - last.start < most => last.end += 1,
                _ => ranges.push(*block..*block + 1),
            }
        }
        ranges
    }

    /// The outcome of a block of the log: `found` are its bytes (`None` if it cannot be read),
    /// `home` its tag and other metadata in the page.
    ///
    /// # Panics
    /// If the block is not in the log.
    pub(super) fn outcome(&self, block: u64, found: Option<&[u8]>, home: &Entry) -> Outcome {
        let versions = &self.blocks[&block];
        let newest = versions.logged.last().expect("a block of the log has a version");
        let Some(found) = found else {
            return Outcome::Damaged(self.entry(newest));
        };
        let guard = self.geometry.format().guard();
        let fits = |tag: &Tag| match tag.judge(0) {
            Opinion::Unchecked => true,
            _ => tag.tuple.guard == guard.of(found),
        };
        let holds = |version: &&Version| match (version.data, version.sum) {
            (Data::Zeros | Data::Logged, _) => self.data(version) == found,
            (_, Some(sum @ Sum::Keyed(_))) => self.geometry.has_sum(found, sum),
            (_, Some(sum)) => self.geometry.has_sum(found, sum) && fits(&version.tag),
            (Data::Sum, None) => unreachable!("only zeros have no sum"),
        };
        let logged = versions.logged.iter().rev();
        // The newest first: it may be the same data with other tags.
        if let Some(version) = { logged }.find(holds) {
            return Outcome::Is(self.entry(version));
        }
        let fits = || matches!(home.judge(&self.geometry, guard.of(found)), Opinion::Fits(_));
        if versions.home && fits() {
            return Outcome::Is(home.clone());
        }
        let home = if !versions.home {
            Home::Gone
        } else if home.tag.judge(0) == Opinion::Unchecked {
            Home::Unknown(home.clone())
        } else {
            Home::Known
        };
        // A mixture is possible only if the drive writes less than a block all or nothing.
        if self.geometry.carries_data() && self.is_torn(versions, found, &home) {
            return Outcome::Rewrite(self.entry(newest), self.data(newest));
        }
        match home {
            Home::Unknown(entry) => Outcome::Is(entry),
            Home::Known | Home::Gone => Outcome::Damaged(self.entry(newest)),
        }
    }
}

/// The version from before the log.
enum Home {
    /// A record is settled: it cannot be there any more.
    Gone,
    /// Its guard is known, and the block does not fit it.
    Known,
    /// Nothing: the block may be this version, whole.
    Unknown(Entry),
}

impl Plain<'_> {
    /// Returns whether a crash can have left these bytes: a mixture of versions, one of the log at
    /// least among them. If not, somebody wrote the block behind the node's back, or it is damaged.
    fn is_torn(&self, versions: &Versions, found: &[u8], home: &Home) -> bool {
        let logged: Vec<Vec<u8>> = versions.logged.iter().map(|version| self.data(version)).collect();
        let size = self.geometry.run_bytes();
        let mut runs = found.chunks_exact(size).enumerate().map(|(i, run)| {
            let equals = logged.iter().any(|data| data[i * size..][..size] == *run);
            (run, equals)
        });
        match home {
            Home::Gone => runs.all(|(_, equals)| equals),
            Home::Known => runs.any(|(_, equals)| equals),
            // It may be untouched, and zeros are in every second block.
            Home::Unknown(_) => runs.any(|(run, equals)| equals && run.iter().any(|byte| *byte != run[0])),
        }
    }

    /// The tag and the other metadata of a version.
    fn entry(&self, version: &Version) -> Entry {
        let others = self.records[version.record].change.others_of(&self.geometry, version.at);
        let zeros = others.iter().all(|byte| *byte == 0);
        Entry { tag: version.tag, others: if zeros { Vec::new() } else { others.to_vec() } }
    }

    /// The data of a version, of a log that carries them.
    fn data(&self, version: &Version) -> Vec<u8> {
        let size = self.geometry.block_bytes();
        match version.data {
            Data::Zeros => vec![0; size],
            Data::Logged => match &*self.records[version.record].change {
                Change::Tags { data: Some(data), .. } => data[version.at * size..][..size].to_vec(),
                _ => unreachable!("the version is of a record with data"),
            },
            Data::Sum => unreachable!("every record of this log carries its data"),
        }
    }
}

/// Records over a few blocks; `next` returns noise.
fn records(geometry: &Geometry, next: &mut impl FnMut(u64) -> u64) -> (Vec<u64>, Vec<Record>) {
    let size = geometry.block_bytes();
    let count = next(12) + 1;
    let mut numbers: Vec<u64> = Vec::new();
    let records = (0..count).map(|_| {
        numbers.push(numbers.last().map_or(1, |last| last + 1 + next(2)));
        let first = next(BLOCKS);
        let blocks = next(BLOCKS - first) + 1;
        // Often nothing is settled by it.
        let settled = next(2) * next(numbers[numbers.len() - 1]);
        let change = match next(2) {
            0 => Change::Zeros(blocks),
            _ => {
                let data: Vec<Vec<u8>> = (0..blocks).map(|_| content(size, next(4) as u8)).collect();
                let tag = |(block, data): (u64, &Vec<u8>)| {
                    let tuple = geometry.tuple(block, geometry.format().guard().of(data));
                    let origin = Origin::ALL[1 + next(3) as usize];
                    Tag { origin, tuple }
                };
                Change::Tags {
                    tags: (first..).zip(&data).map(tag).collect(),
                    others: Vec::new(),
                    sums: match next(2) {
                        0 => Sums::Plain(data.iter().map(|data| crc32c::crc32c(data)).collect()),
                        _ => geometry.sums(&data.concat()),
                    },
                    data: geometry.carries_data().then(|| data.concat()),
                }
            }
        };
        Record { first, change: change.into(), settled }
    });
    let records = records.collect();
    (numbers, records)
}

/// Contents that a block may have; number 0 is zeros.
fn content(size: usize, number: u8) -> Vec<u8> {
    (0..size).map(|at| number.wrapping_mul((at / (size / 8) * 7 + at % 5 + 3) as u8)).collect()
}

const BLOCKS: u64 = 12;

#[test]
fn the_compact_form_says_what_the_plain_one_says() {
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut outcomes = [0_u32; 3];
    for round in 0..4_000 {
        let geometry =
            Geometry::new(BLOCKS * 512, 512, if round % 2 == 0 { 1 } else { 512 }, Guard::Crc16, 1 << 20)
                .expect("a drive");
        let (numbers, records) = records(&geometry, &mut next);
        let (plain, compact) =
            (Plain::new(geometry, &numbers, &records), Recovery::new(geometry, &numbers, &records));
        let most = 1 + next(5);
        let ranges: Vec<Range<u64>> = compact.ranges(most).collect();
        assert_eq!(plain.ranges(most), ranges, "{records:?}");
        for block in ranges.into_iter().flatten() {
            let home = content(512, next(5) as u8);
            let home = match next(3) {
                0 => Entry::UNKNOWN,
                _ => Tag::written(geometry.tuple(block, Guard::Crc16.of(&home))).into(),
            };
            let mut all: Vec<Vec<u8>> = (0..5).map(|number| content(512, number)).collect();
            // Torn: a run of one in another.
            for _ in 0..4 {
                let (from, run) = (content(512, next(5) as u8), next(8) as usize * 64);
                let mut torn = content(512, next(6) as u8);
                torn[run..run + 64].copy_from_slice(&from[run..run + 64]);
                all.push(torn);
            }
            for found in all.iter().map(|found| Some(&found[..])).chain([None]) {
                let outcome = compact.outcome(block, found, &home);
                assert_eq!(outcome, plain.outcome(block, found, &home), "{block} {records:?}");
                outcomes[match outcome {
                    Outcome::Is(_) => 0,
                    Outcome::Rewrite(..) => 1,
                    Outcome::Damaged(_) => 2,
                }] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 10_000), "each of them often: {outcomes:?}");
}

/// A host that writes zeros over the same blocks again and again, without a flush; and a log that
/// nobody has written, over a whole drive.
#[test]
fn what_recovery_keeps_does_not_grow_with_the_blocks_of_zeros() {
    let geometry = Geometry::new(1 << 40, 4096, 4096, Guard::Crc16, 8 << 20).expect("a drive");
    let records: u64 = 4_000;
    for apart in [0, 100, MAX_ZEROS] {
        let zeros =
            |i: u64| Record { first: i * apart, change: Change::Zeros(MAX_ZEROS).into(), settled: i / 2 };
        let all: Vec<Record> = (0..records).map(zeros).collect();
        let numbers: Vec<u64> = (1..=records).collect();
        let recovery = Recovery::new(geometry, &numbers, &all);
        assert!(recovery.tagged.is_empty());
        let kept = recovery.zeros.len() + recovery.settled_zeros.len();
        assert!(kept as u64 <= 4 * records, "{kept} ranges");
        let blocks: u64 = recovery.ranges(256).map(|range| range.end - range.start).sum();
        assert_eq!(blocks, MAX_ZEROS + (records - 1) * apart);
        let last = (records - 1) * apart + MAX_ZEROS - 1;
        let outcome = recovery.outcome(last, Some(&[0; 4096]), &Entry::UNKNOWN);
        let zeros = Tag::written(geometry.tuple(last, geometry.zero_guard()));
        assert_eq!(outcome, Outcome::Is(zeros.into()));
    }
}

//! The state of the blocks in a log after a crash.
//!
//! Pure: the table of `docs/design/tags.md`, "Recovery".

#[cfg(test)]
mod plain;
mod spans;

use crate::geometry::Geometry;
use crate::page::{Entry, Opinion, Tag};
use crate::record::{Change, Record};
use crate::rules::Rule;
use crate::sum::Sum;
use pumice_base::units::Rules;
use spans::Spans;
use std::ops::Range;

/// A version of a block that may be there: the record that made it, and its number in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    record: u32,
    at: u32,
}

/// The versions of a block, oldest first. Zeros are there once, however many records made them: all
/// of these give a block the same contents and the same tag.
#[derive(Debug, PartialEq, Eq)]
struct Versions {
    /// True if the version of the home tuple may be there.
    home: bool,
    logged: Vec<Version>,
}

/// The outcome of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is of this tag, with these other metadata.
    Is(Entry),
    /// It is torn. It is to be kept, then written again, and then is of this tag.
    Rewrite(Entry, Vec<u8>),
    /// It is damaged, or cannot be read; this tag does not fit it.
    Damaged(Entry),
}

/// The records of a log, by block. It takes at most three times the bytes of the log: 16 for each
/// block of a record with tags, and four ranges for each record of zeros.
#[derive(Debug)]
pub struct Recovery<'r> {
    geometry: Geometry,
    records: &'r [Record],
    zero_guard: u64,
    /// So many records, from the first, are settled: what came before one of them cannot be there.
    settled: u32,
    /// Versions of records with tags, in the order of blocks and then of records.
    tagged: Vec<(u64, Version)>,
    /// The newest record of zeros, and the newest of those that are settled.
    zeros: Spans,
    settled_zeros: Spans,
    pub(crate) rules: Rules<Rule>,
}

impl<'r> Recovery<'r> {
    /// From records with their numbers, which ascend, in their order.
    #[must_use]
    pub fn new(geometry: Geometry, numbers: &[u64], records: &'r [Record]) -> Self {
        let settled = records.iter().map(|record| record.settled).max().unwrap_or(0);
        let settled = numbers.partition_point(|number| *number <= settled) as u32;
        let mut tagged = Vec::new();
        let (mut zeros, mut settled_zeros) = (Spans::default(), Spans::default());
        for (index, record) in (0..).zip(records) {
            match &*record.change {
                Change::Tags { .. } => {
                    let versions = (0..).map(|at| Version { record: index, at });
                    tagged.extend(record.blocks().zip(versions));
                }
                Change::Zeros(_) => {
                    zeros.cover(record.blocks(), index);
                    if index < settled {
                        settled_zeros.cover(record.blocks(), index);
                    }
                }
            }
        }
        tagged.sort_unstable();
        Self {
            geometry,
            records,
            zero_guard: geometry.zero_guard(),
            settled,
            tagged,
            zeros,
            settled_zeros,
            rules: Rules::all(),
        }
    }

    /// The blocks of the log, as ranges of at most `most` blocks.
    pub fn ranges(&self, most: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let tagged = self.tagged.chunk_by(|(a, _), (b, _)| b - a <= 1);
        let tagged = tagged.map(|run| run[0].0..run[run.len() - 1].0 + 1);
        let mut parts: Vec<Range<u64>> = tagged.chain(self.zeros.ranges()).collect();
        parts.sort_unstable_by_key(|part| part.start);
        parts.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
        parts.into_iter().flat_map(move |part| {
            let end = part.end;
            part.step_by(most as usize).map(move |first| first..end.min(first + most))
        })
    }

    /// The versions that a block may have.
    fn versions(&self, block: u64) -> Versions {
        let first = self.tagged.partition_point(|(other, _)| *other < block);
        let tagged = self.tagged[first..].iter().take_while(|(other, _)| *other == block);
        let tagged = tagged.map(|(_, version)| *version);
        let settled = tagged.clone().map(|version| version.record).filter(|record| *record < self.settled);
        let settled = settled.max().max(self.settled_zeros.record(block));
        let zeros = self.zeros.record(block);
        let zeros = zeros.map(|record| Version { record, at: (block - self.first(record)) as u32 });
        let counts = |version: &Version| settled.is_none_or(|settled| settled <= version.record);
        let mut logged: Vec<Version> = tagged.chain(zeros).filter(counts).collect();
        logged.sort_unstable();
        Versions { home: settled.is_none(), logged }
    }

    /// The first block of a record.
    fn first(&self, record: u32) -> u64 {
        self.records[record as usize].first
    }

    /// The change that the record of a version makes to its block.
    fn change(&self, version: &Version) -> &Change {
        &self.records[version.record as usize].change
    }

    /// Returns whether a block holds a version. Contents are chosen by hosts, so nothing that a
    /// host can make equal decides alone: the data if the log has them, else a sum under a secret.
    /// For a sum of an earlier program, which has none, the guard must fit as well.
    fn holds(&self, block: u64, version: &Version, found: &[u8]) -> bool {
        let at = version.at as usize;
        match self.change(version) {
            Change::Zeros(_) => found.iter().all(|byte| *byte == 0),
            Change::Tags { sums, .. } if !self.rules.keep(Rule::KeyedSums) => {
                self.geometry.has_sum(found, sums.of(at))
            }
            Change::Tags { data: Some(data), .. } => data[at * found.len()..][..found.len()] == *found,
            Change::Tags { sums, data: None, .. } => {
                let sum = sums.of(at);
                let guard = || self.geometry.format().guard().of(found);
                let fits = || match sum {
                    Sum::Keyed(_) => true,
                    Sum::Plain(_) => {
                        let opinion = self.entry(block, version).judge(&self.geometry, guard());
                        !matches!(opinion, Opinion::Differs(_))
                    }
                };
                self.geometry.has_sum(found, sum) && fits()
            }
        }
    }

    /// The outcome of a block of the log: `found` are its bytes (`None` if it cannot be read),
    /// `home` its tag and other metadata in the page.
    ///
    /// # Panics
    /// If the block is not in the log.
    #[must_use]
    pub fn outcome(&self, block: u64, found: Option<&[u8]>, home: &Entry) -> Outcome {
        let versions = self.versions(block);
        let newest = versions.logged.last().expect("a block of the log has a version");
        let entry = |version| self.entry(block, version);
        let Some(found) = found else {
            return Outcome::Damaged(entry(newest));
        };
        let logged = versions.logged.iter().rev();
        let logged = logged.filter(|_| self.rules.keep(Rule::AsksLog));
        // The newest first: it may be the same data with other tags.
        if let Some(version) = { logged }.find(|version| self.holds(block, version, found)) {
            return Outcome::Is(entry(version));
        }
        let guard = self.geometry.format().guard();
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
        if self.geometry.carries_data() && self.is_torn(&versions, found, &home) {
            return Outcome::Rewrite(entry(newest), self.data(newest));
        }
        match home {
            Home::Unknown(entry) => Outcome::Is(entry),
            Home::Known | Home::Gone => Outcome::Damaged(entry(newest)),
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

/// The contents of a block of the log, for whoever asks whether somebody else wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A version, whole.
    Version,
    /// None. So many of its runs are those of a version of the log.
    Nothing {
        /// Runs.
        runs: u64,
    },
    /// It may be the version from before the log, of which nothing is known.
    Untold,
}

impl Recovery<'_> {
    /// Returns whether the log has a block.
    #[must_use]
    pub fn has(&self, block: u64) -> bool {
        let at = self.tagged.partition_point(|(other, _)| *other < block);
        self.tagged.get(at).is_some_and(|(other, _)| *other == block) || self.zeros.record(block).is_some()
    }

    /// Blocks of records with tags, each with the number of its newest such record: about `most` of
    /// them, evenly over the log.
    pub fn newest(&self, most: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let each = self.tagged.len().div_ceil(most.max(1)).max(1);
        self.tagged.iter().step_by(each).map(|(block, _)| {
            let end = self.tagged.partition_point(|(other, _)| other <= block);
            (*block, self.tagged[end - 1].1.record)
        })
    }

    /// The contents of a block of the log, with its entry at home.
    ///
    /// # Panics
    /// If the block is not in the log.
    #[must_use]
    pub fn found(&self, block: u64, found: &[u8], home: &Entry) -> Found {
        match self.outcome(block, Some(found), home) {
            Outcome::Is(entry) if entry == *home && home.tag.judge(0) == Opinion::Unchecked => Found::Untold,
            Outcome::Is(_) => Found::Version,
            Outcome::Rewrite(..) | Outcome::Damaged(_) => {
                let logged: Vec<Vec<u8>> =
                    self.versions(block).logged.iter().map(|version| self.data(version)).collect();
                let size = self.geometry.run_bytes();
                let equals =
                    |(at, run): &(usize, &[u8])| logged.iter().any(|data| data[at * size..][..size] == **run);
                let runs = found.chunks_exact(size).enumerate().filter(equals).count();
                Found::Nothing { runs: runs as u64 }
            }
        }
    }

    /// Returns whether a crash can have left these bytes: a mixture of versions, one of the log at
    /// least among them. If not, somebody wrote the block behind the node's back, or it is damaged.
    fn is_torn(&self, versions: &Versions, found: &[u8], home: &Home) -> bool {
        if !self.rules.keep(Rule::OnlyTorn) {
            return true;
        }
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

    /// The tag and the other metadata of a version of a block.
    fn entry(&self, block: u64, version: &Version) -> Entry {
        let change = self.change(version);
        let tag = match change {
            Change::Tags { tags, .. } => tags[version.at as usize],
            Change::Zeros(_) => Tag::written(self.geometry.tuple(block, self.zero_guard)),
        };
        let others = change.others_of(&self.geometry, version.at as usize);
        let zeros = others.iter().all(|byte| *byte == 0);
        Entry { tag, others: if zeros { Vec::new() } else { others.to_vec() } }
    }

    /// The data of a version, of a log that carries them.
    fn data(&self, version: &Version) -> Vec<u8> {
        let size = self.geometry.block_bytes();
        match self.change(version) {
            Change::Zeros(_) => vec![0; size],
            Change::Tags { data: Some(data), .. } => data[version.at as usize * size..][..size].to_vec(),
            Change::Tags { data: None, .. } => unreachable!("every record of this log carries its data"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum::Sums;
    use pumice_protect::guard::Guard;
    use std::sync::Arc;

    fn geometry(unit: u32) -> Geometry {
        Geometry::new(1 << 20, 512, unit, Guard::Crc16, 1 << 20).expect("a drive")
    }

    fn tag(geometry: &Geometry, data: &[u8]) -> Entry {
        Tag::written(geometry.tuple(5, Guard::Crc16.of(data))).into()
    }

    fn record(geometry: &Geometry, data: &[u8], settled: u64) -> Record {
        let change = Change::Tags {
            tags: vec![tag(geometry, data).tag],
            others: Vec::new(),
            sums: geometry.sums(data),
            data: geometry.carries_data().then(|| data.to_vec()),
        };
        Record { first: 5, change: change.into(), settled }
    }

    #[test]
    fn each_row_of_the_table() {
        let geometry = geometry(512);
        let [old, one, two, other] = [[1; 512], [2; 512], [3; 512], [4; 512]];
        let records = [record(&geometry, &one, 0), record(&geometry, &two, 0)];
        let recovery = Recovery::new(geometry, &[7, 8], &records);
        assert_eq!(recovery.ranges(10).collect::<Vec<_>>().as_slice(), std::slice::from_ref(&(5..6)));
        let home = tag(&geometry, &old);
        for data in [&old, &one, &two] {
            assert_eq!(recovery.outcome(5, Some(data), &home), Outcome::Is(tag(&geometry, data)));
        }
        let newest = tag(&geometry, &two);
        assert_eq!(recovery.outcome(5, Some(&other), &home), Outcome::Damaged(newest.clone()));
        assert_eq!(recovery.outcome(5, None, &home), Outcome::Damaged(newest.clone()));
        assert_eq!(recovery.outcome(5, Some(&other), &Entry::UNKNOWN), Outcome::Is(Entry::UNKNOWN));
        // The newest tag at home, as after a recovery that was cut: the same outcomes.
        for data in [&one, &two] {
            assert_eq!(recovery.outcome(5, Some(data), &newest), Outcome::Is(tag(&geometry, data)));
        }
        assert_eq!(recovery.outcome(5, Some(&other), &newest), Outcome::Damaged(newest.clone()));
    }

    /// A host makes the contents of a block, so it can make them equal in CRC-32C.
    #[test]
    fn contents_of_equal_crc_are_not_taken_for_each_other() {
        for (unit, keyed) in [(512, true), (512, false), (1, true), (1, false)] {
            let geometry = geometry(unit);
            let contents = [bytes(1), bytes(2), bytes(3)].map(|data| crate::forge::with_sum(&data, 7));
            let [old, one, two] = &contents;
            let records = [one, two].map(|data| {
                let mut record = record(&geometry, data, 0);
                let change = Arc::make_mut(&mut record.change);
                if let (Change::Tags { sums, .. }, false) = (change, keyed) {
                    *sums = Sums::Plain(vec![crc32c::crc32c(data)]);
                }
                record
            });
            let recovery = Recovery::new(geometry, &[7, 8], &records);
            let home = tag(&geometry, old);
            for data in [old, one, two] {
                let outcome = recovery.outcome(5, Some(data), &home);
                assert_eq!(outcome, Outcome::Is(tag(&geometry, data)), "{unit} {keyed}");
            }
        }
    }

    #[test]
    fn what_came_before_a_settled_record_is_damage() {
        let geometry = geometry(512);
        let [old, one, two] = [[1; 512], [2; 512], [3; 512]];
        let records = [record(&geometry, &one, 0), record(&geometry, &two, 7)];
        let home = tag(&geometry, &old);
        let recovery = Recovery::new(geometry, &[7, 8], &records);
        assert_eq!(recovery.outcome(5, Some(&old), &home), Outcome::Damaged(tag(&geometry, &two)));
        assert_eq!(recovery.outcome(5, Some(&one), &home), Outcome::Is(tag(&geometry, &one)));
        let records = [record(&geometry, &one, 0), record(&geometry, &two, 8)];
        let recovery = Recovery::new(geometry, &[7, 8], &records);
        for lost in [&old, &one] {
            assert_eq!(recovery.outcome(5, Some(lost), &home), Outcome::Damaged(tag(&geometry, &two)));
        }
        // Nor does an unknown block hide that.
        assert_eq!(recovery.outcome(5, Some(&old), &Entry::UNKNOWN), Outcome::Damaged(tag(&geometry, &two)));
    }

    /// Bytes that differ from run to run and from version to version.
    fn bytes(version: u8) -> Vec<u8> {
        (0..512_u32).map(|i| (i * 7 + i / 64) as u8 ^ version).collect()
    }

    /// The runs of one block in another.
    fn mixed(from: &[u8], into: &[u8], runs: Range<usize>) -> Vec<u8> {
        let mut mixture = into.to_vec();
        mixture[runs.start * 64..runs.end * 64].copy_from_slice(&from[runs.start * 64..runs.end * 64]);
        mixture
    }

    #[test]
    fn a_torn_block_is_written_again_from_the_log() {
        let geometry = geometry(1);
        let [old, one, two] = [bytes(1), bytes(2), bytes(3)];
        let records = [record(&geometry, &one, 0), record(&geometry, &two, 0)];
        let recovery = Recovery::new(geometry, &[7, 8], &records);
        let home = tag(&geometry, &old);
        let newest = tag(&geometry, &two);
        for torn in [mixed(&one, &old, 0..1), mixed(&two, &old, 3..8), mixed(&one, &two, 7..8)] {
            // Without a tag at home nobody can tell a mixture from what was there before.
            for home in [home.clone(), Entry::UNKNOWN] {
                let outcome = recovery.outcome(5, Some(&torn), &home);
                assert_eq!(outcome, Outcome::Rewrite(newest.clone(), two.clone()));
            }
        }
        assert_eq!(recovery.outcome(5, Some(&old), &home), Outcome::Is(home.clone()));
        let records = [Record { first: 5, change: Change::Zeros(1).into(), settled: 0 }];
        let recovery = Recovery::new(geometry, &[7], &records);
        let torn = mixed(&[0; 512], &old, 2..5);
        let zeros = Tag::written(geometry.tuple(5, 0)).into();
        assert_eq!(recovery.outcome(5, Some(&torn), &home), Outcome::Rewrite(zeros, vec![0; 512]));
        // Zeros are no sign that something of the log was written, where anything may be.
        assert_eq!(recovery.outcome(5, Some(&torn), &Entry::UNKNOWN), Outcome::Is(Entry::UNKNOWN));
    }

    #[test]
    fn a_block_with_nothing_of_the_log_is_not_written_over() {
        let geometry = geometry(1);
        let [old, one, foreign] = [bytes(1), bytes(2), bytes(9)];
        let records = [record(&geometry, &one, 0)];
        let recovery = Recovery::new(geometry, &[7], &records);
        let newest = tag(&geometry, &one);
        let home = tag(&geometry, &old);
        assert_eq!(recovery.outcome(5, Some(&foreign), &home), Outcome::Damaged(newest.clone()));
        assert_eq!(recovery.outcome(5, Some(&foreign), &Entry::UNKNOWN), Outcome::Is(Entry::UNKNOWN));
        // Bytes of the log at another place of the block are not those of a crash.
        let mut shifted = foreign.clone();
        shifted[64..128].copy_from_slice(&one[..64]);
        assert_eq!(recovery.outcome(5, Some(&shifted), &home), Outcome::Damaged(newest.clone()));
    }

    #[test]
    fn where_a_record_is_settled_every_run_must_be_of_the_log() {
        let geometry = geometry(1);
        let [old, one, two] = [bytes(1), bytes(2), bytes(3)];
        let records = [record(&geometry, &one, 0), record(&geometry, &two, 7)];
        let recovery = Recovery::new(geometry, &[7, 8], &records);
        let newest = tag(&geometry, &two);
        for home in [tag(&geometry, &old), Entry::UNKNOWN] {
            let torn = mixed(&one, &two, 4..8);
            assert_eq!(
                recovery.outcome(5, Some(&torn), &home),
                Outcome::Rewrite(newest.clone(), two.clone())
            );
            for damaged in [mixed(&old, &two, 4..5), bytes(9)] {
                assert_eq!(recovery.outcome(5, Some(&damaged), &home), Outcome::Damaged(newest.clone()));
            }
        }
    }

    #[test]
    fn an_escape_at_home_stays() {
        let geometry = geometry(512);
        let mut escaped = tag(&geometry, &[1; 512]);
        escaped.tag.tuple.application = 0xFFFF;
        let records = [record(&geometry, &[2; 512], 0)];
        let recovery = Recovery::new(geometry, &[1], &records);
        assert_eq!(recovery.outcome(5, Some(&[9; 512]), &escaped), Outcome::Is(escaped.clone()));
    }
}

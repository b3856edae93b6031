//! The contents of logical pages, as tags and records say: the newest of these facts counts.

use crate::chip::Ppn;
use crate::ftl::journal::Record;
use std::cell::Cell;
use std::collections::BinaryHeap;

/// The content of a logical page as of a sequence number: the content of a birth, perhaps at this
/// page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    Written,
    Merged { birth: u64, hint: Ppn },
}

/// The newest trim of a run of logical pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trimmed {
    from: u32,
    /// The first page after the run.
    to: u32,
    seq: u64,
}

/// Facts of all logical pages. A trim of any length takes as much memory as a merge: at most two
/// runs.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// In the order of logical pages, the newest first, once [`Facts::settle`] was called.
    facts: Vec<(u32, u64, Fact)>,
    trims: Vec<Trimmed>,
    /// The start of those of the logical page that was asked for last. A drive has many pages, and
    /// they are asked for in order.
    at: Cell<(usize, usize)>,
}

/// The first of the elements in order, from this place on, that is not `before`; or of all, if that
/// place is too far.
fn first_not<T>(all: &[T], from: usize, before: impl Fn(&T) -> bool) -> usize {
    let from = if from > 0 && !before(&all[from - 1]) { 0 } else { from };
    // Mostly the next one.
    match all[from..].iter().take(4).position(|one| !before(one)) {
        Some(steps) => from + steps,
        None => from + all[from..].partition_point(before),
    }
}

/// The place where garbage collection moved what logical pages held at the checkpoint.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// By logical page, then by number, once [`Copies::settle`] was called.
    all: Vec<(u32, u64, Ppn)>,
    at: Cell<usize>,
}

impl Copies {
    pub(super) fn add(&mut self, lpn: u32, seq: u64, page: Ppn) {
        self.all.push((lpn, seq, page));
    }

    /// All copies are there.
    pub(super) fn settle(&mut self) {
        self.all.sort_unstable_by_key(|(lpn, seq, _)| (*lpn, std::cmp::Reverse(*seq)));
    }

    /// The newest copy of what a logical page held.
    pub(super) fn of(&self, lpn: u32) -> Option<Ppn> {
        let at = first_not(&self.all, self.at.get(), |(known, ..)| *known < lpn);
        self.at.set(at);
        self.all.get(at).filter(|(known, ..)| *known == lpn).map(|(_, _, page)| *page)
    }
}

impl Facts {
    pub(super) fn add(&mut self, lpn: u32, seq: u64, fact: Fact) {
        self.facts.push((lpn, seq, fact));
    }

    /// Returns whether there are no facts and no trims.
    pub(super) fn are_none(&self) -> bool {
        self.facts.is_empty() && self.trims.is_empty()
    }

    /// All facts are there. These records are those of the log.
    pub(super) fn settle(&mut self, records: &[Record]) {
        let trims = records.iter().filter_map(|record| match *record {
            Record::Trim { seq, lpn, count } => Some(Trimmed { from: lpn, to: lpn + count, seq }),
            Record::Merge { .. } | Record::Erase { .. } => None,
        });
        self.trims = newest_of_each(trims.collect());
        self.facts.sort_unstable_by_key(|(lpn, seq, _)| (*lpn, std::cmp::Reverse(*seq)));
    }

    /// The facts of a logical page that no trim overrules, the newest first; and whether it was
    /// trimmed before them.
    pub(super) fn of(&self, lpn: u32) -> (impl Iterator<Item = (u64, Fact)>, bool) {
        let (first, trim) = self.at.get();
        let trim = first_not(&self.trims, trim, |trim| trim.to <= lpn);
        let first = first_not(&self.facts, first, |(known, ..)| *known < lpn);
        self.at.set((first, trim));
        let trim = self.trims.get(trim).filter(|trim| trim.from <= lpn).map(|trim| trim.seq);
        let facts = self.facts[first..].iter().take_while(move |(known, ..)| *known == lpn);
        let facts = facts.map(|(_, seq, fact)| (*seq, *fact));
        (facts.take_while(move |(seq, _)| trim.is_none_or(|trim| *seq > trim)), trim.is_some())
    }
}

/// Cuts trims into runs that do not overlap, each with the newest trim that covers it.
fn newest_of_each(mut trims: Vec<Trimmed>) -> Vec<Trimmed> {
    trims.sort_unstable_by_key(|trim| trim.from);
    let mut borders: Vec<u32> = trims.iter().flat_map(|trim| [trim.from, trim.to]).collect();
    borders.sort_unstable();
    borders.dedup();
    let (mut covering, mut waiting) = (BinaryHeap::new(), trims.into_iter().peekable());
    let mut runs: Vec<Trimmed> = Vec::new();
    for border in borders.windows(2) {
        let (from, to) = (border[0], border[1]);
        while let Some(trim) = waiting.next_if(|trim| trim.from == from) {
            covering.push((trim.seq, trim.to));
        }
        while covering.peek().is_some_and(|(_, end)| *end <= from) {
            covering.pop();
        }
        let Some(&(seq, _)) = covering.peek() else { continue };
        match runs.last_mut().filter(|run| run.to == from && run.seq == seq) {
            Some(run) => run.to = to,
            None => runs.push(Trimmed { from, to, seq }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Random;

    fn trim(seq: u64, lpn: u32, count: u32) -> Record {
        Record::Trim { seq, lpn, count }
    }

    #[test]
    fn trims_of_any_length_overrule_older_facts_page_by_page() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut facts = Facts::default();
            let (mut records, mut plain) = (Vec::new(), vec![Vec::new(); 40]);
            for seq in 1..=random.below(60) {
                let lpn = random.below(40) as u32;
                if random.below(3) == 0 {
                    let count = 1 + random.below(u64::from(40 - lpn)) as u32;
                    records.push(trim(seq, lpn, count));
                    plain[lpn as usize..(lpn + count) as usize].iter_mut().for_each(|facts| {
                        facts.clear();
                        facts.push(None);
                    });
                } else {
                    let fact = Fact::Merged { birth: seq, hint: Ppn(lpn) };
                    facts.add(lpn, seq, fact);
                    plain[lpn as usize].push(Some((seq, fact)));
                }
            }
            facts.settle(&records);
            for (lpn, plain) in (0..).zip(plain) {
                let (found, trimmed) = facts.of(lpn);
                let expected: Vec<_> = plain.iter().rev().copied().map_while(|fact| fact).collect();
                assert_eq!(found.collect::<Vec<_>>(), expected, "seed {seed}, page {lpn}");
                assert_eq!(trimmed, plain.first() == Some(&None), "seed {seed}, page {lpn}");
            }
        }
    }

    #[test]
    fn facts_and_copies_are_found_in_any_order() {
        let (mut random, mut facts, mut copies) = (Random::new(9), Facts::default(), Copies::default());
        let mut plain = vec![None; 100];
        for seq in 1..200 {
            let lpn = random.below(100) as u32;
            facts.add(lpn, seq, Fact::Written);
            copies.add(lpn, seq, Ppn(seq as u32));
            plain[lpn as usize] = Some(seq);
        }
        facts.settle(&[]);
        copies.settle();
        for turn in 0..1_000 {
            let lpn = if turn < 100 { turn } else { random.below(100) as u32 };
            assert_eq!(facts.of(lpn).0.next().map(|(seq, _)| seq), plain[lpn as usize], "{lpn}");
            assert_eq!(copies.of(lpn).map(|page| u64::from(page.0)), plain[lpn as usize], "{lpn}");
        }
    }

    #[test]
    fn a_whole_drive_that_is_trimmed_often_takes_one_run() {
        let records: Vec<_> = (1..=10_000).map(|seq| trim(seq, 0, 1 << 30)).collect();
        let mut facts = Facts::default();
        facts.settle(&records);
        assert_eq!(facts.trims, [Trimmed { from: 0, to: 1 << 30, seq: 10_000 }]);
        // Half a drive of short ones, and as many over all of it.
        let short = (0..10_000).map(|n| trim(u64::from(n) * 2 + 1, n * 2, 1));
        let records: Vec<_> = short.chain((0..10_000).map(|n| trim(n * 2, 0, 20_000))).collect();
        facts.settle(&records);
        assert!(facts.trims.len() <= 2 * records.len());
    }
}

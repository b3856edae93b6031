//! Numbers of writes: which is given next, whose records are durable, which are in place, and R, up
//! to which the log is released.
//!
//! `docs/design/volume-rules.md`, *The volume*, has the rules that are asserted here.

use std::collections::BTreeSet;

/// The numbers of the writes of a volume.
#[derive(Debug)]
pub(super) struct Numbers {
    next: u64,
    /// Writes whose records are not all durable.
    unlogged: BTreeSet<u64>,
    /// Writes that are not in place on all their members.
    unapplied: BTreeSet<u64>,
    /// The highest number that is in place.
    in_place: u64,
    /// The highest number of a write whose blocks are not in the log.
    without_blocks: u64,
    /// R: every write up to this number is in place, and flushed, by durable heads.
    released: u64,
}

impl Numbers {
    /// Numbers that begin with `next`, when R is `released`.
    pub(super) fn new(next: u64, released: u64) -> Self {
        assert!(released < next, "V4: R {released} is below the number that is given next, {next}");
        let (unlogged, unapplied) = (BTreeSet::new(), BTreeSet::new());
        Self { next, unlogged, unapplied, in_place: 0, without_blocks: 0, released }
    }

    /// Gives a write its number.
    pub(super) fn give(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        assert!(
            self.unapplied.last().is_none_or(|last| *last < number) && self.released < number,
            "V1: the number of a write is past all before it: {number}"
        );
        self.unapplied.insert(number);
        number
    }

    /// The number that is given next.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// R.
    pub(super) const fn released(&self) -> u64 {
        self.released
    }

    /// The highest number that is in place.
    pub(super) const fn in_place(&self) -> u64 {
        self.in_place
    }

    /// The highest number up to which all writes are in place.
    pub(super) fn all_in_place(&self) -> u64 {
        self.unapplied.first().map_or(self.next, |first| *first) - 1
    }

    /// The first write that is not in place.
    pub(super) fn first_not_in_place(&self) -> Option<u64> {
        self.unapplied.first().copied()
    }

    /// Begins to log a write. Returns the number up to which the records of all writes are durable.
    pub(super) fn begin_log(&mut self, number: u64) -> u64 {
        let committed = self.unlogged.first().map_or(number - 1, |first| first - 1);
        assert!(committed < number, "V2: a record calls no write committed that is not before its own");
        self.unlogged.insert(number);
        committed
    }

    /// All records of a write are durable.
    pub(super) fn logged(&mut self, number: u64) {
        self.unlogged.remove(&number);
    }

    /// Returns whether all records of a write are durable.
    pub(super) fn is_logged(&self, number: u64) -> bool {
        !self.unlogged.contains(&number)
    }

    /// A write failed after it had logged: nothing waits for it.
    pub(super) fn give_up(&mut self, number: u64) {
        self.unapplied.remove(&number);
    }

    /// A write is in place.
    pub(super) fn placed(&mut self, number: u64) {
        assert!(number < self.next, "V5: what is in place has a number that was given: {number}");
        self.unapplied.remove(&number);
        self.in_place = self.in_place.max(number);
    }

    /// The blocks of a write are not in the log.
    pub(super) fn has_no_blocks(&mut self, number: u64) {
        self.without_blocks = self.without_blocks.max(number);
    }

    /// Returns whether blocks of a write lie in caches alone: no flush covers it, and they are not
    /// in the log.
    pub(super) const fn rest_on_caches(&self) -> bool {
        self.without_blocks > self.released
    }

    /// Heads on all members say that R is `upto`.
    pub(super) fn release(&mut self, upto: u64) {
        assert!(
            self.unapplied.first().is_none_or(|first| upto < *first),
            "V3: R does not pass a write that is not in place: {upto}"
        );
        self.rise(upto);
        self.unlogged.retain(|number| *number > upto);
    }

    /// Recovery has settled every write up to this number.
    pub(super) fn settle(&mut self, upto: u64) {
        assert!(self.unapplied.is_empty(), "V6: recovery ends before a write is logged");
        self.rise(upto);
    }

    fn rise(&mut self, upto: u64) {
        assert!(
            self.released <= upto && upto < self.next,
            "V4: R rises, and stays below new numbers: {upto}"
        );
        self.released = upto;
    }
}

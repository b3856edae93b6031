//! The judgement of the records that a crash left.

use super::record::{Kind, LoggedBlocks};
use crate::rows::{Rows, Window};
use pumice_base::units::Role;
use std::collections::{BTreeMap, BTreeSet};

/// The contents of one member's log.
#[derive(Debug, Clone)]
pub struct LoggedMember {
    /// The member.
    pub role: Role,
    /// The horizon in its head.
    pub released: u64,
    /// Its records of the generation.
    pub records: Vec<LoggedBlocks>,
}

/// A block that is copied from the log into place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The member.
    pub role: Role,
    /// The window.
    pub window: Window,
    /// The row.
    pub row: u32,
    /// The place of the block in the log, from the start of the device.
    pub from: u64,
}

/// The steps of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// The last block of each place.
    pub apply: Vec<Applied>,
    /// Rows of full stripes that may be torn.
    pub torn: BTreeMap<Window, Rows>,
    /// Blocks whose record is damaged.
    pub erased: BTreeMap<(Role, Window), Rows>,
    /// Every write up to this number is settled when the replay is done.
    pub released: u64,
    /// Writes that were never durable.
    pub dropped: u64,
}

/// Judges the records of all members that are there. Members that are not among `logs` are struck
/// from every list.
#[must_use]
pub fn replay(logs: &[LoggedMember]) -> Replay {
    judged(logs, true)
}

/// The same; without `supersedes`, older blocks are applied over a full stripe that was logged
/// after them.
pub(crate) fn judged(logs: &[LoggedMember], supersedes: bool) -> Replay {
    let records = || logs.iter().flat_map(|log| &log.records);
    let horizons = |of: fn(&LoggedBlocks) -> u64| records().map(of).max().unwrap_or(0);
    let head = logs.iter().map(|log| log.released).max().unwrap_or(0);
    let released = head.max(horizons(|found| found.record.released));
    let committed = released.max(horizons(|found| found.record.committed));
    let mut writes: BTreeMap<u64, Vec<&LoggedBlocks>> = BTreeMap::new();
    for found in records().filter(|found| found.record.sequence > released) {
        writes.entry(found.record.sequence).or_default().push(found);
    }
    let mut judge = Judge {
        here: logs.iter().map(|log| log.role).collect(),
        committed,
        supersedes,
        out: Replay { released, ..Replay::default() },
        last: BTreeMap::new(),
        torn: BTreeMap::new(),
    };
    for (sequence, parts) in writes {
        judge.write(sequence, &parts);
    }
    judge.replay()
}

/// The state of a replay, of the writes that were judged so far, in the order of their numbers.
struct Judge {
    /// Members that are there.
    here: BTreeSet<Role>,
    /// Every write up to this number was durable.
    committed: u64,
    supersedes: bool,
    out: Replay,
    /// The last block of each place.
    last: BTreeMap<(Role, Window, u32), u64>,
    /// Rows that may be torn, with the members of their full stripe.
    torn: BTreeMap<(Window, u32), BTreeSet<Role>>,
}

impl Judge {
    /// Judges the records of one write that are there.
    fn write(&mut self, sequence: u64, parts: &[&LoggedBlocks]) {
        assert!(self.out.released < sequence, "V16: replay takes writes in the order of their numbers");
        self.out.released = sequence;
        let have: BTreeSet<Role> = parts.iter().map(|found| found.record.role).collect();
        let listed = parts.iter().flat_map(|found| &found.record.members);
        let is_absent = |role: &Role| self.here.contains(role) && !have.contains(role);
        let absent: BTreeSet<Role> = listed.copied().filter(is_absent).collect();
        if !absent.is_empty() && sequence > self.committed {
            self.out.dropped += 1;
            return;
        }
        for found in parts {
            match found.record.kind {
                Kind::Intent => self.intent(found),
                Kind::Blocks => self.blocks(found),
            }
        }
        self.made_whole(parts);
        self.erased(parts, absent);
    }

    fn intent(&mut self, found: &LoggedBlocks) {
        let record = &found.record;
        let members: BTreeSet<Role> =
            record.members.iter().copied().filter(|role| self.here.contains(role)).collect();
        self.torn.extend(record.rows.iter().map(|row| ((record.window, row), members.clone())));
        if !self.supersedes {
            return;
        }
        // What was logged before was in place before this was logged, on every member.
        for role in &self.here {
            for row in record.rows.iter() {
                self.last.remove(&(*role, record.window, row));
            }
            if let Some(rows) = self.out.erased.get_mut(&(*role, record.window)) {
                rows.0 &= !record.rows.0;
            }
        }
    }

    fn blocks(&mut self, found: &LoggedBlocks) {
        let (record, mut from) = (&found.record, found.blocks_at);
        for row in record.rows.iter() {
            self.last.insert((record.role, record.window, row), from);
            from += crate::rows::BLOCK;
        }
        if let Some(rows) = self.out.erased.get_mut(&(record.role, record.window)) {
            rows.0 &= !record.rows.0;
        }
    }

    /// Blocks for every member of a torn row make it whole: a full stripe that was logged again.
    fn made_whole(&mut self, parts: &[&LoggedBlocks]) {
        for row in all_rows(parts).iter() {
            let of_row =
                |found: &&&LoggedBlocks| found.record.kind == Kind::Blocks && found.record.rows.contains(row);
            let made: BTreeSet<Role> = parts.iter().filter(of_row).map(|found| found.record.role).collect();
            let place = (parts[0].record.window, row);
            if self.torn.get(&place).is_some_and(|members| members.is_subset(&made)) {
                self.torn.remove(&place);
            }
        }
    }

    /// Members whose record is damaged. Which rows it had there is lost with the record: at most
    /// those that any member has.
    fn erased(&mut self, parts: &[&LoggedBlocks], absent: BTreeSet<Role>) {
        let rows = all_rows(parts);
        for role in absent {
            let window = parts[0].record.window;
            self.out.erased.entry((role, window)).or_default().0 |= rows.0;
            for row in rows.iter() {
                self.last.remove(&(role, window, row));
            }
        }
    }

    fn replay(self) -> Replay {
        let mut out = self.out;
        for (window, row) in self.torn.into_keys() {
            out.torn.entry(window).or_default().0 |= 1 << row;
        }
        out.erased.retain(|_, rows| rows.count() > 0);
        let applied = |((role, window, row), from)| Applied { role, window, row, from };
        out.apply = self.last.into_iter().map(applied).collect();
        out
    }
}

/// The rows that any member has in a write.
fn all_rows(parts: &[&LoggedBlocks]) -> Rows {
    Rows(parts.iter().fold(0, |rows, found| rows | found.record.rows.0))
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::*;

    fn logged(role: u16, sequence: u64, committed: u64, members: &[u16]) -> LoggedBlocks {
        let record = Record {
            kind: Kind::Blocks,
            role: Role(role),
            generation: 1,
            sequence,
            committed,
            released: 0,
            window: Window(0),
            rows: Rows(1),
            members: members.iter().map(|role| Role(*role)).collect(),
        };
        LoggedBlocks { record, blocks_at: sequence * 100 + u64::from(role) }
    }

    fn member(role: u16, released: u64, records: &[LoggedBlocks]) -> LoggedMember {
        LoggedMember { role: Role(role), released, records: records.to_vec() }
    }

    fn places(replay: &Replay) -> Vec<(u16, u64)> {
        replay.apply.iter().map(|applied| (applied.role.get(), applied.from)).collect()
    }

    #[test]
    fn what_all_have_is_applied_and_what_one_lacks_is_dropped() {
        let (a, b) = (logged(0, 5, 0, &[0, 2]), logged(2, 5, 0, &[0, 2]));
        let whole = replay(&[member(0, 0, std::slice::from_ref(&a)), member(1, 0, &[]), member(2, 0, &[b])]);
        assert_eq!(places(&whole), [(0, 500), (2, 502)]);
        let lacking = replay(&[member(0, 0, std::slice::from_ref(&a)), member(1, 0, &[]), member(2, 0, &[])]);
        assert_eq!((places(&lacking).len(), lacking.dropped), (0, 1));
        // Struck with its member.
        let struck = replay(&[member(0, 0, &[a]), member(1, 0, &[])]);
        assert_eq!(places(&struck), [(0, 500)]);
    }

    #[test]
    fn the_last_write_of_a_block_counts_and_released_ones_are_left_alone() {
        let records = [logged(0, 5, 0, &[0]), logged(0, 6, 0, &[0]), logged(0, 7, 0, &[0, 1])];
        let one = member(1, 0, &[]);
        assert_eq!(places(&replay(&[member(0, 0, &records), one.clone()])), [(0, 600)]);
        assert_eq!(places(&replay(&[member(0, 5, &records[..1]), one.clone()])), []);
        // The highest horizon counts, on whichever member it is.
        let replayed = replay(&[member(0, 0, &records[..2]), member(1, 6, &[])]);
        assert_eq!((places(&replayed), replayed.released), (vec![], 6));
    }

    #[test]
    fn a_full_stripe_that_was_logged_again_with_its_blocks_is_not_torn() {
        let intent = |role| {
            let mut found = logged(role, 5, 0, &[0, 1, 2]);
            found.record.kind = Kind::Intent;
            found
        };
        // Member 1 is missing; the first list still has it.
        let mut logs = [member(0, 0, &[intent(0)]), member(2, 0, &[intent(2)])];
        assert_eq!(replay(&logs).torn, BTreeMap::from([(Window(0), Rows(1))]));
        logs[0].records.push(logged(0, 6, 0, &[0]));
        assert_eq!(replay(&logs).torn.len(), 1, "a part of the row");
        logs[0].records.push(logged(0, 7, 0, &[0, 2]));
        logs[1].records.push(logged(2, 7, 0, &[0, 2]));
        assert_eq!(replay(&logs).torn.len(), 0);
    }

    /// Blocks that were logged before a full stripe were in place when that was logged, and lie
    /// under it.
    #[test]
    fn blocks_are_not_applied_over_a_full_stripe_that_was_logged_after_them() {
        let of = |kind, role, sequence, committed| {
            let mut found = logged(role, sequence, committed, &[0, 1, 2]);
            found.record.kind = kind;
            found
        };
        let logs = |of_role: &dyn Fn(u16) -> Vec<LoggedBlocks>| [0, 1, 2].map(|r| member(r, 0, &of_role(r)));
        let (blocks, intent) = (Kind::Blocks, Kind::Intent);
        let superseded = replay(&logs(&|role| vec![of(blocks, role, 4, 0), of(intent, role, 5, 4)]));
        assert_eq!((places(&superseded), superseded.torn.len(), superseded.dropped), (vec![], 1, 0));
        let after = replay(&logs(&|role| vec![of(intent, role, 5, 0), of(blocks, role, 6, 5)]));
        assert_eq!(places(&after), [(0, 600), (1, 601), (2, 602)], "what came later is applied");
        // One that was never durable supersedes nothing: none of it is in place.
        let dropped = replay(&logs(&|role| {
            let mut records = vec![of(blocks, role, 4, 0)];
            records.extend((role > 0).then(|| of(intent, role, 5, 4)));
            records
        }));
        assert_eq!((places(&dropped).len(), dropped.torn.len(), dropped.dropped), (3, 0, 1));
        // Nor is the block of a record that is damaged an erasure any more.
        let damaged = replay(&logs(&|role| {
            let mut records = vec![of(intent, role, 5, 4)];
            records.extend((role > 0).then(|| of(blocks, role, 4, 0)));
            records
        }));
        assert_eq!((places(&damaged), damaged.erased.len(), damaged.torn.len()), (vec![], 0, 1));
    }

    #[test]
    fn a_record_that_was_durable_and_is_gone_is_an_erasure() {
        let (a, later) = (logged(0, 5, 0, &[0, 1]), logged(0, 6, 5, &[0]));
        let damaged = replay(&[member(0, 0, &[a, later]), member(1, 0, &[])]);
        assert_eq!(places(&damaged), [(0, 600)]);
        assert_eq!(damaged.erased, BTreeMap::from([((Role(1), Window(0)), Rows(1))]));
    }
}

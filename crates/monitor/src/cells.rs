//! The age of an array's parts: cells, and when each was last checked whole.
//! `docs/design/monitor.md` has the rules C1 to C7.

use crate::ranges::{Range, Ranges};
use crate::time::Wall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Cells of an array with at least as many stripes.
pub const CELLS: u64 = 1000;
/// Members of an array at most.
pub const MOST_MEMBERS: usize = 1024;
/// Fragments that are kept at most.
const MOST_FRAGMENTS: usize = 4096;

/// A member, by an id that a replaced drive does not share: its UUID or serial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member(pub String);

/// Times at which the cells were last checked with one member. 0: never.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    /// Time at which it was first seen.
    joined: Wall,
    times: Vec<i64>,
}

/// Stripes that were read, less than a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Fragment {
    stripes: Range,
    at: Wall,
    members: Vec<Member>,
}

/// The stripes that a run has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Start of the run; cells get this time.
    pub begun: Wall,
    /// The members that it read.
    pub members: Vec<Member>,
    /// The stripes that it checked; busy ones are left out.
    pub stripes: Ranges,
}

/// The cells of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Cells {
    stripes: u64,
    columns: BTreeMap<Member, Column>,
    fragments: Vec<Fragment>,
}

impl Cells {
    /// The unchecked cells of an array without members.
    #[must_use]
    pub fn new(stripes: u64) -> Self {
        Self { stripes, columns: BTreeMap::new(), fragments: Vec::new() }
    }

    /// The number of stripes.
    #[must_use]
    pub const fn stripes(&self) -> u64 {
        self.stripes
    }

    /// The number of cells: 1000, or one a stripe.
    #[must_use]
    pub fn count(&self) -> usize {
        self.stripes.min(CELLS) as usize
    }

    /// The stripes of a cell.
    #[must_use]
    pub fn range(&self, cell: usize) -> Range {
        let count = self.count() as u128;
        let edge = |cell: usize| (u128::from(self.stripes) * cell as u128 / count.max(1)) as u64;
        Range { from: edge(cell), to: edge(cell + 1) }
    }

    /// Takes the present members: those that left are forgotten, new ones are unchecked (C4, C5).
    /// Members past 1024 are left out.
    pub fn set_members(&mut self, stripes: u64, members: &[Member], now: Wall) {
        if stripes != self.stripes {
            *self = Self::new(stripes);
        }
        let count = self.count();
        self.columns.retain(|member, _| members.contains(member));
        for member in members.iter().take(MOST_MEMBERS) {
            let new = || Column { joined: now, times: vec![0; count] };
            self.columns.entry(member.clone()).or_insert_with(new);
        }
        for fragment in &mut self.fragments {
            fragment.members.retain(|member| members.contains(member));
        }
        self.fragments.retain(|fragment| !fragment.members.is_empty());
    }

    /// Counts what a run has read (C1 to C3).
    pub fn record(&mut self, reading: &Reading) {
        let known = |member: &&Member| self.columns.contains_key(member);
        let members: Vec<Member> = reading.members.iter().filter(known).cloned().collect();
        if members.is_empty() {
            return;
        }
        let begun = reading.begun.bounded();
        let mut touched = Vec::new();
        for range in reading.stripes.iter() {
            let range = Range { from: range.from, to: range.to.min(self.stripes) };
            if range.from >= range.to {
                continue;
            }
            for cell in self.cell_of(range.from)..=self.cell_of(range.to - 1) {
                let whole = self.range(cell);
                let part = Range { from: range.from.max(whole.from), to: range.to.min(whole.to) };
                if part == whole {
                    self.stamp(cell, &members, begun);
                } else {
                    let fragment = Fragment { stripes: part, at: begun, members: members.clone() };
                    self.fragments.push(fragment);
                    touched.push(cell);
                }
            }
        }
        touched.dedup();
        for cell in touched {
            self.join(cell);
        }
        let over = self.fragments.len().saturating_sub(MOST_FRAGMENTS);
        if over > 0 {
            self.fragments.sort_by_key(|fragment| fragment.at);
            self.fragments.drain(..over);
        }
    }

    /// Takes the later times of another record of the same array (C6).
    pub fn merge(&mut self, other: &Self) {
        if other.stripes != self.stripes {
            return;
        }
        for (member, column) in &mut self.columns {
            let Some(theirs) = other.columns.get(member) else { continue };
            column.joined = column.joined.min(theirs.joined);
            for (mine, theirs) in column.times.iter_mut().zip(&theirs.times) {
                *mine = (*mine).max(*theirs);
            }
        }
    }

    fn cell_of(&self, stripe: u64) -> usize {
        let count = self.count() as u128;
        // The last cell whose first stripe is not after it.
        let guess = ((u128::from(stripe) + 1) * count - 1) / u128::from(self.stripes.max(1));
        guess as usize
    }

    fn stamp(&mut self, cell: usize, members: &[Member], at: Wall) {
        for member in members {
            if let Some(column) = self.columns.get_mut(member) {
                column.times[cell] = column.times[cell].max(at.0);
            }
        }
        // What the cell's time already says.
        let whole = self.range(cell);
        let columns = &self.columns;
        self.fragments.retain(|fragment| {
            let inside = whole.from <= fragment.stripes.from && fragment.stripes.to <= whole.to;
            let known = |member: &Member| columns.get(member).is_some_and(|c| c.times[cell] >= fragment.at.0);
            !(inside && fragment.members.iter().all(known))
        });
    }

    /// Stamps a cell for the members whose fragments cover it, with the oldest time that it takes.
    fn join(&mut self, cell: usize) {
        let whole = self.range(cell);
        let mut inside: Vec<&Fragment> = self
            .fragments
            .iter()
            .filter(|f| whole.from <= f.stripes.from && f.stripes.to <= whole.to)
            .collect();
        // Youngest first: the cover that is complete earliest has the youngest oldest part.
        inside.sort_by_key(|fragment| std::cmp::Reverse(fragment.at));
        let mut done: Vec<(Member, Wall)> = Vec::new();
        for member in self.columns.keys() {
            let mut left = Ranges::one(whole);
            for fragment in inside.iter().filter(|fragment| fragment.members.contains(member)) {
                left.remove(fragment.stripes);
                if left.is_empty() {
                    done.push((member.clone(), fragment.at));
                    break;
                }
            }
        }
        for (member, at) in done {
            self.stamp(cell, &[member], at);
        }
    }

    /// The time of a cell: the oldest of its members' times; 0 if one has none. `None` without
    /// members.
    #[must_use]
    pub fn time(&self, cell: usize) -> Option<Wall> {
        self.columns.values().map(|column| Wall(column.times[cell])).min()
    }

    /// The times from which the cells age, by cell; an unchecked one ages from the joining of the
    /// member (C4). Empty without members.
    #[must_use]
    pub fn ages(&self) -> Vec<Wall> {
        self.least(|column, time| if time == 0 { column.joined.0 } else { time })
    }

    /// The least value of all members, by cell. Whole columns in turn: there are a thousand cells.
    fn least(&self, value: impl Fn(&Column, i64) -> i64) -> Vec<Wall> {
        let mut columns = self.columns.values();
        let Some(first) = columns.next() else { return Vec::new() };
        let mut least: Vec<Wall> = first.times.iter().map(|time| Wall(value(first, *time))).collect();
        for column in columns {
            for (least, time) in least.iter_mut().zip(&column.times) {
                least.0 = least.0.min(value(column, *time));
            }
        }
        least
    }

    /// The time from which the oldest cell ages; `None` without members or stripes.
    #[must_use]
    pub fn oldest(&self) -> Option<Wall> {
        self.ages().into_iter().min()
    }

    /// The youngest check; 0 if there is none.
    #[must_use]
    pub fn newest(&self) -> Wall {
        Wall(self.columns.values().flat_map(|column| column.times.iter().copied()).max().unwrap_or(0))
    }

    /// Returns whether every cell has been checked with every member.
    #[must_use]
    pub fn all_checked(&self) -> bool {
        !self.columns.is_empty() && self.columns.values().all(|c| c.times.iter().all(|time| *time != 0))
    }

    /// The stripes to read: cells that age from before `due`, unchecked ones and those of the
    /// future first, then the oldest; without what fragments from `due` on cover (C7).
    #[must_use]
    pub fn wanted(&self, due: Wall, future: Wall) -> Vec<Range> {
        // A time that is not believed is none.
        let times = self.least(|_, time| if time > future.0 { 0 } else { time });
        let mut cells: Vec<(Wall, usize)> =
            times.into_iter().zip(0..).filter(|(time, _)| *time < due || time.0 == 0).collect();
        cells.sort_unstable();
        let mut ranges: Vec<Range> = Vec::new();
        for (_, cell) in cells {
            let range = self.range(cell);
            match ranges.last_mut() {
                Some(last) if last.to == range.from => last.to = range.to,
                _ => ranges.push(range),
            }
        }
        let fresh = |f: &&Fragment| {
            f.at >= due && f.at <= future && self.columns.keys().all(|member| f.members.contains(member))
        };
        let covers: Vec<Range> = self.fragments.iter().filter(fresh).map(|f| f.stripes).collect();
        if covers.is_empty() {
            return ranges;
        }
        let without = |range: Range| {
            let mut left = Ranges::one(range);
            covers.iter().for_each(|cover| left.remove(*cover));
            left.iter().collect::<Vec<_>>()
        };
        ranges.into_iter().flat_map(without).collect()
    }
}

/// The form in which cells are stored: times as runs of equal cells.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    stripes: u64,
    members: BTreeMap<Member, StoredColumn>,
    fragments: Vec<Fragment>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredColumn {
    joined: Wall,
    /// Cells in a row, and their time.
    times: Vec<(u32, i64)>,
}

impl From<Cells> for Stored {
    fn from(cells: Cells) -> Self {
        let column = |column: Column| {
            let mut times: Vec<(u32, i64)> = Vec::new();
            for time in column.times {
                match times.last_mut() {
                    Some((run, same)) if *same == time => *run += 1,
                    _ => times.push((1, time)),
                }
            }
            StoredColumn { joined: column.joined, times }
        };
        Self {
            stripes: cells.stripes,
            members: cells.columns.into_iter().map(|(member, c)| (member, column(c))).collect(),
            fragments: cells.fragments,
        }
    }
}

impl TryFrom<Stored> for Cells {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        if stored.members.len() > MOST_MEMBERS || stored.fragments.len() > MOST_FRAGMENTS {
            return Err("members, fragments: too many".to_owned());
        }
        let mut cells = Self::new(stored.stripes);
        let count = cells.count();
        for (member, column) in stored.members {
            let all: u64 = column.times.iter().map(|(run, _)| u64::from(*run)).sum();
            if all != count as u64 {
                return Err(format!("times: {all} cells, where the array has {count}"));
            }
            let times = column.times.iter().flat_map(|(run, time)| vec![*time; *run as usize]);
            let times = times.map(|time| Wall(time).bounded().0).collect();
            cells.columns.insert(member, Column { joined: column.joined.bounded(), times });
        }
        if stored.fragments.iter().any(|f| f.stripes.from >= f.stripes.to || f.stripes.to > cells.stripes) {
            return Err("fragments: outside the array".to_owned());
        }
        let bounded = |fragment: Fragment| Fragment { at: fragment.at.bounded(), ..fragment };
        cells.fragments = stored.fragments.into_iter().map(bounded).collect();
        Ok(cells)
    }
}

#[cfg(test)]
mod tests;

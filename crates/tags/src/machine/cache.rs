//! Pages in memory, in groups.

use crate::geometry::GROUP_PAGES;
use crate::group::{Group, StoredGroup};
use crate::page::Page;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most pages that are changed and not home. Recovery reads their blocks: 4 GiB at most, with
/// blocks of 4096 bytes.
const MOST_CHANGED: usize = 16_384;

/// The state of a page in memory against the one in the tag file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    /// It is to be written.
    Dirty,
    /// It is being written as it is.
    Storing,
}

/// The pages of a group.
#[derive(Debug)]
struct Pages {
    /// Shared with a checkpoint that writes them.
    pages: Arc<[Page]>,
    states: [State; GROUP_PAGES as usize],
    /// Some of them were lost: only changed ones may be written, or the loss would be forgotten.
    has_lost: bool,
}

impl Pages {
    fn is_clean(&self) -> bool {
        self.states.iter().all(|state| *state == State::Clean)
    }
}

/// A group that is here, or will be.
#[derive(Debug, Default)]
struct Place {
    /// The number of commands that use it.
    pins: u32,
    pages: Option<Pages>,
}

/// Groups in memory: those in use, those with pages that are not home yet, and some of the others.
#[derive(Debug)]
pub(super) struct Cache {
    groups: BTreeMap<u64, Place>,
    dirty: usize,
    /// Most groups, without those in use.
    most: usize,
    /// The group from which eviction goes on.
    hand: u64,
    /// Counts changes of pages.
    version: Arc<AtomicU64>,
}

impl Cache {
    /// Keeps about so many pages.
    pub(super) fn new(pages: usize) -> Self {
        Self {
            groups: BTreeMap::new(),
            dirty: 0,
            most: pages / GROUP_PAGES as usize,
            hand: 0,
            version: Arc::default(),
        }
    }

    /// Keeps groups for a command. Returns those that are not here.
    pub(super) fn pin(&mut self, groups: Range<u64>) -> Vec<u64> {
        let mut missing = Vec::new();
        for number in groups {
            let place = self.groups.entry(number).or_default();
            place.pins += 1;
            if place.pages.is_none() {
                missing.push(number);
            }
        }
        missing
    }

    /// Keeps groups for a command if all of them are here; returns whether they are.
    pub(super) fn pin_present(&mut self, groups: Range<u64>) -> bool {
        if !groups.clone().all(|number| self.has(number)) {
            return false;
        }
        self.pin(groups);
        true
    }

    /// A command needs its groups no more.
    pub(super) fn unpin(&mut self, groups: Range<u64>) {
        for number in groups {
            let place = self.groups.get_mut(&number).expect("a group that was pinned");
            assert!(place.pins > 0, "T14: a command lets go of a group of pages once");
            place.pins -= 1;
            if place.pins == 0 && place.pages.is_none() {
                self.groups.remove(&number);
            }
        }
        if self.groups.len() > self.most {
            self.evict();
        }
    }

    pub(super) fn has(&self, group: u64) -> bool {
        self.groups.get(&group).is_some_and(|place| place.pages.is_some())
    }

    /// Groups that are here.
    #[cfg(test)]
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// A group that was read for a command that keeps it. One that is here already stays: it may be
    /// newer.
    pub(super) fn insert(&mut self, group: Group) {
        let place = self.groups.get_mut(&group.number).expect("a group that was pinned");
        let states = [State::Clean; GROUP_PAGES as usize];
        let has_lost = !group.lost.is_empty();
        place.pages.get_or_insert(Pages { pages: group.pages, states, has_lost });
    }

    /// A page that is here.
    pub(super) fn page(&self, number: u64) -> &Page {
        let pages = self.groups[&(number / GROUP_PAGES)].pages.as_ref().expect("a group that is here");
        &pages.pages[(number % GROUP_PAGES) as usize]
    }

    /// A page that is here, to be changed.
    pub(super) fn change(&mut self, number: u64) -> &mut Page {
        let place = self.groups.get_mut(&(number / GROUP_PAGES)).expect("a group that was pinned");
        let pages = place.pages.as_mut().expect("a group that is here");
        let at = (number % GROUP_PAGES) as usize;
        // Whoever sees the change in the blocks' place sees this as well.
        self.version.fetch_add(1, Ordering::Release);
        if pages.states[at] != State::Dirty {
            pages.states[at] = State::Dirty;
            self.dirty += 1;
        }
        // Copied first if a checkpoint still writes them.
        &mut Arc::make_mut(&mut pages.pages)[at]
    }

    /// Grows whenever a page may have changed.
    pub(super) fn version(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    /// Returns whether every page of some groups is in the tag file as it is.
    pub(super) fn is_home(&self, groups: Range<u64>) -> bool {
        let mut places = self.groups.range(groups).filter_map(|(_, place)| place.pages.as_ref());
        places.all(Pages::is_clean)
    }

    /// Returns whether a page is not home yet.
    pub(super) fn has_dirty(&self) -> bool {
        self.groups.values().filter_map(|place| place.pages.as_ref()).any(|pages| !pages.is_clean())
    }

    /// Returns whether so many pages are changed that they should be written.
    pub(super) const fn is_full_of_changes(&self) -> bool {
        self.dirty * 2 > self.most * GROUP_PAGES as usize || self.dirty > MOST_CHANGED
    }

    /// The states of all pages.
    fn states(&mut self) -> impl Iterator<Item = &mut State> {
        self.groups.values_mut().filter_map(|place| place.pages.as_mut()).flat_map(|pages| &mut pages.states)
    }

    /// The changed pages as they are now, which are being written from now on. Unchanged pages of
    /// the same groups are written with them, because whole groups are written without a read.
    pub(super) fn begin_store(&mut self) -> Vec<StoredGroup> {
        self.dirty = 0;
        let mut stored = Vec::new();
        for (number, place) in &mut self.groups {
            let Some(Pages { pages, states, has_lost }) = &mut place.pages else { continue };
            let changed = states.map(|state| state == State::Dirty);
            if changed.contains(&true) {
                states.iter_mut().filter(|state| **state == State::Dirty).for_each(|s| *s = State::Storing);
                let which = if *has_lost { changed } else { [true; GROUP_PAGES as usize] };
                stored.push(StoredGroup { number: *number, pages: Arc::clone(pages), which });
            }
        }
        stored
    }

    /// The pages of [`begin_store`](Self::begin_store) are home.
    pub(super) fn end_store(&mut self) {
        self.states().filter(|state| **state == State::Storing).for_each(|state| *state = State::Clean);
    }

    /// The pages of [`begin_store`](Self::begin_store) did not come home.
    pub(super) fn undo_store(&mut self) {
        let mut undone = 0;
        for state in self.states().filter(|state| **state == State::Storing) {
            *state = State::Dirty;
            undone += 1;
        }
        self.dirty += undone;
    }

    /// Forgets those of some groups that are home and not in use.
    pub(super) fn forget(&mut self, groups: Range<u64>) {
        for number in groups {
            if self.groups.get(&number).is_some_and(Place::is_idle) {
                self.groups.remove(&number);
            }
        }
    }

    /// Forgets groups that are home and not in use, a quarter of all.
    fn evict(&mut self) {
        let target = self.most - self.most / 4;
        let after = self.groups.range(self.hand..).chain(self.groups.range(..self.hand));
        let idle = after.filter(|(_, place)| place.is_idle());
        let gone: Vec<u64> = idle.map(|(n, _)| *n).take(self.groups.len() - target).collect();
        for number in gone {
            self.groups.remove(&number);
            self.hand = number + 1;
        }
    }
}

impl Place {
    /// Returns whether it is home, and not in use.
    fn is_idle(&self) -> bool {
        self.pins == 0 && self.pages.as_ref().is_none_or(Pages::is_clean)
    }
}

//! Pages in memory.

use crate::page::Page;
use std::collections::BTreeMap;
use std::ops::Range;

/// Whether a page in memory is the one in the tag file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    /// It is to be written.
    Dirty,
    /// It is being written as it is.
    Storing,
}

#[derive(Debug)]
struct Cached {
    page: Page,
    state: State,
}

/// Pages in memory: those in use, those not home yet, and some of the others.
#[derive(Debug)]
pub(super) struct Cache {
    pages: BTreeMap<u64, Cached>,
    /// How many commands use a page.
    pins: BTreeMap<u64, u32>,
    dirty: usize,
    most: usize,
    /// The page from which eviction goes on.
    hand: u64,
}

impl Cache {
    pub(super) const fn new(most: usize) -> Self {
        Self { pages: BTreeMap::new(), pins: BTreeMap::new(), dirty: 0, most, hand: 0 }
    }

    /// Keeps pages for a command. Returns those that are not here.
    pub(super) fn pin(&mut self, pages: Range<u64>) -> Vec<u64> {
        pages
            .filter(|number| {
                *self.pins.entry(*number).or_default() += 1;
                !self.pages.contains_key(number)
            })
            .collect()
    }

    /// A command needs its pages no more.
    pub(super) fn unpin(&mut self, pages: Range<u64>) {
        for number in pages {
            let pins = self.pins.get_mut(&number).expect("a page that was pinned");
            *pins -= 1;
            if *pins == 0 {
                self.pins.remove(&number);
            }
        }
        if self.pages.len() > self.most {
            self.evict();
        }
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.pages.contains_key(&number)
    }

    /// A page that was read. One that is here already stays: it may be newer.
    pub(super) fn insert(&mut self, number: u64, page: Page) {
        self.pages.entry(number).or_insert(Cached { page, state: State::Clean });
    }

    /// A page that is here.
    pub(super) fn page(&self, number: u64) -> &Page {
        &self.pages[&number].page
    }

    /// A page that is here, to be changed.
    pub(super) fn change(&mut self, number: u64) -> &mut Page {
        let cached = self.pages.get_mut(&number).expect("a page that is here");
        if cached.state != State::Dirty {
            cached.state = State::Dirty;
            self.dirty += 1;
        }
        &mut cached.page
    }

    /// Whether a page is not home yet.
    pub(super) fn has_dirty(&self) -> bool {
        self.pages.values().any(|cached| cached.state != State::Clean)
    }

    /// Whether so many pages are changed that they should be written.
    pub(super) const fn is_full_of_changes(&self) -> bool {
        self.dirty * 2 > self.most
    }

    /// Copies of the changed pages, which are being written from now on.
    pub(super) fn begin_store(&mut self) -> Vec<(u64, Page)> {
        self.dirty = 0;
        let dirty = self.pages.iter_mut().filter(|(_, cached)| cached.state == State::Dirty);
        dirty
            .map(|(number, cached)| {
                cached.state = State::Storing;
                (*number, cached.page.clone())
            })
            .collect()
    }

    /// The pages of [`begin_store`](Self::begin_store) are home.
    pub(super) fn end_store(&mut self) {
        for cached in self.pages.values_mut().filter(|cached| cached.state == State::Storing) {
            cached.state = State::Clean;
        }
    }

    /// The pages of [`begin_store`](Self::begin_store) did not come home.
    pub(super) fn undo_store(&mut self) {
        for cached in self.pages.values_mut().filter(|cached| cached.state == State::Storing) {
            cached.state = State::Dirty;
            self.dirty += 1;
        }
    }

    /// Forgets pages that are home and not in use, a quarter of all.
    fn evict(&mut self) {
        let target = self.most - self.most / 4;
        let after = self.pages.range(self.hand..).chain(self.pages.range(..self.hand));
        let idle = after.filter(|(n, cached)| cached.state == State::Clean && !self.pins.contains_key(n));
        let gone: Vec<u64> = idle.map(|(n, _)| *n).take(self.pages.len() - target).collect();
        for number in gone {
            self.pages.remove(&number);
            self.hand = number + 1;
        }
    }
}

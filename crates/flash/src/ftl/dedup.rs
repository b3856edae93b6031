//! Deduplication: what is hashed and looked up when, and which stream a page goes to.
//!
//! Everything here is advice. It says where to look and where to put pages; the translation layer
//! compares contents before it merges them, and its map alone is the truth.

mod filter;
mod ghost;
mod index;
mod lives;
mod scheme;
mod streams;
mod waiting;

pub use scheme::{Lookup, Placement, Plan, Scheme};
pub use streams::{Stream, Way};

use crate::chip::Ppn;
use crate::ftl::content::Content;
use crate::ftl::fingerprint::Fingerprint;
use filter::Filter;
use ghost::Ghosts;
use index::Index;
use lives::Lives;
use streams::Features;
use waiting::Waiting;

/// The page waits for a look at its content.
const WAITS: u8 = 1;
/// The page is to be looked up when its turn comes; otherwise it is only indexed.
const UNDETERMINED: u8 = 2;

/// The answer of the weak hash about a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    undetermined: bool,
    weak: u32,
}

/// The lookup that is due for a page that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// It was looked at, or its scheme never does.
    Nothing,
    /// Its fingerprint goes into the index.
    Index,
    /// It is looked up first.
    Lookup,
}

/// The facts of its drive that a scheme is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) plan: Plan,
    pub(crate) placement: Placement,
    pub(crate) fingerprint: Fingerprint,
    /// Bits of the fingerprint that are kept.
    pub(crate) key_bits: u32,
    /// Logical pages.
    pub(crate) logical: u32,
}

/// The state of a scheme on one drive.
#[derive(Debug)]
pub(crate) struct Dedup {
    pub(crate) plan: Plan,
    placement: Placement,
    fingerprint: Fingerprint,
    key_mask: u64,
    filter: Filter,
    index: Option<Index>,
    flags: Vec<u8>,
    weak: Vec<u32>,
    lives: Option<Lives>,
    ghosts: Option<Ghosts>,
    /// LPNs that were written and not looked at since.
    waiting: Waiting,
    /// Host writes since the start.
    clock: u32,
}

impl Dedup {
    pub(crate) fn new(config: Setup, physical: u32) -> Self {
        let (logical, key_bits) = (config.logical, config.key_bits);
        // A drive that collects its own garbage shows no page to the host that it moves.
        let plan = match config.placement {
            Placement::Own => config.plan,
            Placement::Handles { .. } => Plan { in_gc: false, ..config.plan },
        };
        let per_page = |wanted: bool| if wanted { physical as usize } else { 0 };
        let looks_up = plan.inline || plan.idle != Lookup::Never;
        Self {
            plan,
            placement: config.placement,
            fingerprint: config.fingerprint,
            key_mask: if key_bits >= 64 { u64::MAX } else { (1 << key_bits) - 1 },
            filter: Filter::new(plan.filter),
            index: looks_up.then(|| Index::new(physical)),
            flags: vec![0; per_page(plan.idle != Lookup::Never)],
            weak: vec![0; per_page(plan.filter == scheme::FilterKind::Live)],
            lives: plan.way.uses_lives().then(|| Lives::new(physical, logical)),
            ghosts: (plan.way == Way::Measured).then(|| Ghosts::new(physical)),
            waiting: Waiting::new(if plan.idle == Lookup::Never { 0 } else { logical }),
            clock: 0,
        }
    }

    fn way(&self) -> Way {
        self.ghosts.as_ref().map_or(self.plan.way, Ghosts::best)
    }

    /// The place where a write goes.
    pub(crate) fn arrive<C: Content>(&mut self, lpn: u32, content: &C, old: Option<Ppn>) -> Arrival {
        self.clock = self.clock.wrapping_add(1);
        let weak = if self.plan.uses_weak() { content.weak() } else { 0 };
        let seen = self.filter.seen(weak);
        let features = Features {
            duplicate: seen,
            content_life: self.lives.as_ref().and_then(|lives| lives.of_content(weak)),
            lpn_life: self.lives.as_ref().and_then(|lives| lives.of_lpn(lpn, old, self.clock)),
            mean_life: self.lives.as_ref().map_or(0.0, Lives::mean),
        };
        let stream = self.way().host(&features);
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.arrive(features);
        }
        let undetermined = match self.plan.idle {
            Lookup::Never => false,
            Lookup::All => true,
            Lookup::Undetermined => seen,
        };
        Arrival { stream, undetermined, weak }
    }

    /// The key of a content.
    pub(crate) fn key<C: Content>(&self, content: &C) -> u64 {
        content.key(self.fingerprint) & self.key_mask
    }

    /// A host write was programmed.
    pub(crate) fn born(&mut self, lpn: u32, page: Ppn, arrival: Arrival) {
        self.filter.born(arrival.weak);
        if let Some(weak) = self.weak.get_mut(page.0 as usize) {
            *weak = arrival.weak;
        }
        if let Some(flags) = self.flags.get_mut(page.0 as usize) {
            *flags = WAITS | if arrival.undetermined { UNDETERMINED } else { 0 };
            self.waiting.push(lpn);
        }
        if let Some(lives) = &mut self.lives {
            lives.born(page, self.clock);
        }
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.born(page, self.clock);
        }
    }

    /// A page died; `overwrites` names its LPN if a write or trim did it.
    pub(crate) fn died(&mut self, page: Ppn, overwrites: Option<u32>) {
        let weak = self.weak.get(page.0 as usize).copied().unwrap_or(0);
        let last = self.filter.died(weak);
        if let Some(lives) = &mut self.lives {
            lives.died(page, overwrites, last.then_some(weak), self.clock);
        }
        if let Some(index) = &mut self.index {
            index.remove(page);
        }
        if let Some(lpn) = overwrites {
            self.waiting.remove(lpn);
        }
        if let Some(flags) = self.flags.get_mut(page.0 as usize) {
            *flags = 0;
        }
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.died(page);
        }
    }

    /// Brings what a move or the death of a page changes into the processor's cache.
    pub(crate) fn prefetch(&self, page: Ppn) -> u32 {
        let flags = self.flags.get(page.0 as usize).copied().unwrap_or(0);
        u32::from(flags) ^ self.index.as_ref().map_or(0, |index| index.prefetch(page))
    }

    /// Brings what the search for a content and its insertion touch into the processor's cache.
    pub(crate) fn prefetch_index<C: Content>(&self, content: &C) -> u64 {
        self.index.as_ref().map_or(0, |index| index.prefetch_key(self.key(content)))
    }

    /// Brings what a write of a content asks the filter into the processor's cache.
    pub(crate) fn prefetch_filter<C: Content>(&self, content: &C) -> bool {
        self.plan.uses_weak() && self.filter.seen(content.weak())
    }

    /// A live page moved.
    pub(crate) fn moved(&mut self, from: Ppn, to: Ppn) {
        let (f, t) = (from.0 as usize, to.0 as usize);
        if !self.flags.is_empty() {
            self.flags[t] = std::mem::take(&mut self.flags[f]);
        }
        if !self.weak.is_empty() {
            self.weak[t] = self.weak[f];
        }
        if let Some(index) = &mut self.index {
            index.moved(from, to);
        }
        if let Some(lives) = &mut self.lives {
            lives.moved(from, to);
        }
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.moved(from, to);
        }
    }

    /// The stream for a page that garbage collection moves.
    pub(crate) fn gc_stream(&self, page: Ppn, from: Stream) -> Stream {
        if let Placement::Handles { isolated } = self.placement {
            return if isolated { from.collected_apart() } else { Stream::COLLECTED };
        }
        let age = self.lives.as_ref().map(|lives| (lives.age(page, self.clock), lives.mean()));
        self.way().collected(age)
    }

    /// The streams that the scheme may have open, and how many of them are of garbage collection
    /// alone.
    pub(crate) fn streams(&self) -> (u32, u32) {
        self.streams_of(self.plan.way)
    }

    fn streams_of(&self, way: Way) -> (u32, u32) {
        let (all, collecting) = way.streams();
        let host = all - collecting;
        match self.placement {
            Placement::Own => (all, collecting),
            Placement::Handles { isolated } => {
                let collecting = if isolated { host } else { 1 };
                (host + collecting, collecting)
            }
        }
    }

    /// Free blocks that one victim may need: one for each stream of garbage collection that is in
    /// use, at least one.
    pub(crate) fn collecting(&self) -> u32 {
        self.streams_of(self.way()).1.max(1)
    }

    /// Returns whether the streams as they are chosen now include this one.
    pub(crate) fn uses(&self, stream: Stream) -> bool {
        self.ghosts.is_none() || self.placement != Placement::Own || self.way().uses(stream)
    }

    /// The work that is due for a page.
    pub(crate) fn due(&self, page: Ppn) -> Due {
        match self.flags.get(page.0 as usize).copied().unwrap_or(0) {
            flags if flags & WAITS == 0 => Due::Nothing,
            flags if flags & UNDETERMINED == 0 => Due::Index,
            _ => Due::Lookup,
        }
    }

    /// Pages with this key.
    pub(crate) fn candidates(&self, key: u64) -> impl Iterator<Item = Ppn> + '_ {
        self.index.iter().flat_map(move |index| index.find(key))
    }

    /// A page was looked at, and is live under this key.
    pub(crate) fn indexed(&mut self, page: Ppn, key: u64) {
        if let Some(flags) = self.flags.get_mut(page.0 as usize) {
            *flags = 0;
        }
        if let Some(index) = &mut self.index {
            index.insert(page, key);
        }
    }

    /// The next LPN that was written and not looked at since, in the order of their last writes.
    pub(crate) fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop()
    }

    /// The number of LPNs that wait for a look.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// LPNs that are left for the next time, in order.
    pub(crate) fn put_back(&mut self, waiting: &[u32]) {
        self.waiting.put_back(waiting);
    }

    /// Bytes of memory that the scheme needs at this moment: index, filter, and what is kept of
    /// each page.
    pub(crate) fn bytes(&self) -> u64 {
        let index = self.index.as_ref().map_or(0, Index::bytes);
        let lives = self.lives.as_ref().map_or(0, Lives::bytes);
        let ghosts = self.ghosts.as_ref().map_or(0, Ghosts::bytes);
        let pages = 4 * self.weak.len() as u64 + self.flags.len() as u64;
        index + self.filter.bytes() + lives + ghosts + pages + self.waiting.bytes()
    }

    /// The comparison of the ways to choose streams: the copies of each ghost lately, and how often
    /// the best changed.
    pub(crate) fn ghost_notes(&self) -> Vec<(Way, u64)> {
        self.ghosts.as_ref().map_or_else(Vec::new, Ghosts::totals)
    }
}

//! Tags as they lie in the tag file, for readers of most of a drive in order.
//!
//! Such a reader asks for each tag once. So it reads a stretch of pages into a [`View`] of its own,
//! beside the pages that the machine keeps, and checks blocks against it without the machine and
//! its lock.
//!
//! A view may only acquit, and only while it shows the tags as they are: it is made of pages that
//! are all home, and counts only if no tag of the drive has changed since
//! ([`Machine::tag_version`](crate::machine::Machine::tag_version)). Blocks that do not all fit are
//! read again, in their turn with writes, and judged by the machine.

use crate::file::TagFile;
use crate::geometry::{GROUP_PAGES, Geometry};
use crate::page::Page;
use pumice_blockdev::Judgement;
use std::cell::RefCell;
use std::ops::Range;

/// Groups of pages that are read at once: 40 KiB of the tag file. That is more than a worker of a
/// scrub reads in a run, with tuples of 8 bytes.
const GROUPS: u64 = 10;

thread_local! {
    /// Room for sectors.
    static SECTORS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The tags of a stretch of blocks, as they were at some version.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The drive; 0 stands for none.
    drive: u64,
    groups: Range<u64>,
    version: u64,
    pages: Vec<Page>,
    /// Some page is lost.
    has_lost: bool,
    /// The version when a stretch was last wanted.
    seen: Option<u64>,
}

impl View {
    /// Whether it is of this drive, and has these groups.
    pub(crate) fn has(&self, drive: u64, groups: &Range<u64>) -> bool {
        self.drive == drive && self.groups.start <= groups.start && groups.end <= self.groups.end
    }

    /// The version that it shows.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Whether a new stretch would last: no tag of the drive has changed since the last one was
    /// wanted. While somebody writes, the pages in memory serve better.
    pub(crate) fn would_last(&mut self, drive: u64, version: u64) -> bool {
        if self.drive != drive {
            *self = Self { drive, ..Self::default() };
        }
        self.seen.replace(version) == Some(version)
    }

    /// Reads the pages of some groups, which must be those of this version. False if the tag file
    /// cannot be read there: the machine finds out why.
    pub(crate) fn load(&mut self, file: &TagFile, groups: Range<u64>, version: u64) -> bool {
        // Nothing of it counts until all is there.
        (self.groups, self.has_lost) = (0..0, false);
        self.pages.clear();
        let mut bytes = SECTORS.take();
        let lost = |_| self.has_lost = true;
        let read = file.load_stretch(groups.clone(), &mut bytes, &mut self.pages, lost).is_ok();
        SECTORS.set(bytes);
        if read {
            (self.groups, self.version) = (groups, version);
        }
        read
    }

    /// Checks blocks whose pages it has, by the guards of their data. `None` if one has a fault.
    pub(crate) fn check(
        &self,
        geometry: &Geometry,
        blocks: &Range<u64>,
        guards: &[u64],
    ) -> Option<Judgement> {
        if self.has_lost {
            return None;
        }
        let (mut judgement, mut judged) = (Judgement::default(), Vec::new());
        for part in geometry.parts(blocks) {
            let page = &self.pages[(part.page - self.groups.start * GROUP_PAGES) as usize];
            let guards = &guards[part.at];
            match page.fits_all(geometry, part.place, guards) {
                Some(origin) => judgement.fits(origin, guards.len() as u64),
                None => {
                    judged.clear();
                    page.judge(geometry, part.place, guards, &mut judged);
                    judgement.take(&judged, 0, 1);
                }
            }
        }
        judgement.faulty.is_empty().then_some(judgement)
    }
}

/// The groups of a stretch that begins with those of a reader's next blocks.
pub(crate) fn stretch(geometry: &Geometry, groups: &Range<u64>) -> Range<u64> {
    groups.start..groups.end.max(geometry.groups().min(groups.start + GROUPS))
}

#[cfg(test)]
mod tests;

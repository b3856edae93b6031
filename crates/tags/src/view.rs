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
use crate::geometry::{GROUP_PAGES, Geometry, PAGE_BYTES};
use crate::page::Page;
use pumice_blockdev::Judgement;
use std::ops::Range;

/// Groups of pages that are read at once: 40 KiB of the tag file. That is more than a worker of a
/// scrub reads in a run, with tuples of 8 bytes.
const GROUPS: u64 = 10;

/// The tags of a stretch of blocks, as they were at some version.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The drive; 0 stands for none.
    drive: u64,
    groups: Range<u64>,
    version: u64,
    /// The sectors of the pages, as they lie in the tag file.
    sectors: Vec<u8>,
    /// Some page is lost.
    has_lost: bool,
    /// The version when a stretch was last wanted.
    seen: Option<u64>,
    /// The guards of the blocks that were read last, and which these are.
    guards: Vec<u64>,
    computed: Range<u64>,
}

impl View {
    /// Returns whether it is of this drive, and has these groups.
    pub(crate) fn has(&self, drive: u64, groups: &Range<u64>) -> bool {
        self.drive == drive && self.groups.start <= groups.start && groups.end <= self.groups.end
    }

    /// The version that it shows.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether a new stretch would last: no tag of the drive has changed since the last one
    /// was wanted. While somebody writes, the pages in memory serve better.
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
        self.groups = 0..0;
        let Ok(is_good) = file.load_stretch(groups.clone(), &mut self.sectors) else { return false };
        (self.groups, self.version, self.has_lost) = (groups, version, !is_good);
        true
    }

    /// The sector of a page that it has.
    fn sector(&self, page: u64) -> &[u8; PAGE_BYTES] {
        &self.sectors.as_chunks().0[(page - self.groups.start * GROUP_PAGES) as usize]
    }

    /// Computes the guards of blocks that were read.
    pub(crate) fn compute(&mut self, geometry: &Geometry, blocks: &Range<u64>, data: &[u8]) {
        self.guards.resize((blocks.end - blocks.start) as usize, 0);
        geometry.guards_into(data, &mut self.guards);
        self.computed = blocks.clone();
    }

    /// Forgets the guards: bytes are read again.
    pub(crate) fn forget_guards(&mut self) {
        self.computed = 0..0;
    }

    /// The guards of blocks, if they are those that were [computed](Self::compute) last.
    pub(crate) fn guards(&self, drive: u64, blocks: &Range<u64>) -> Option<&[u64]> {
        (self.drive == drive && self.computed == *blocks).then_some(&self.guards)
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
            let sector = self.sector(part.page);
            let guards = &guards[part.at];
            match Page::sector_fits_all(sector, geometry, part.place, guards) {
                Some(origin) => judgement.fits(origin, guards.len() as u64),
                None => {
                    judged.clear();
                    Page::of_good(sector).judge(geometry, part.place, guards, &mut judged);
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

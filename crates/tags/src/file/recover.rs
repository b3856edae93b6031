//! Makes a drive and its tags consistent after a crash.

use super::{Recovered, TagError, TagFile};
use crate::kept::{Contents, KeptArea, Why};
use crate::page::{self, Origin, Page, Tag};
use crate::recovery::{Outcome, Recovery};
use crate::rules::Rule;
use pumice_base::durable::Medium;
use pumice_blockdev::{BlockDevice, IoError};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Blocks that are read at a time.
const AT_ONCE: u64 = 256;
/// Pages in memory, after which they are written to their places: 32 MiB. Few in tests, so that
/// cuts meet this.
const PAGES_AT_ONCE: usize = if cfg!(test) { 2 } else { 65_536 };

/// A block to write again: its present and its new contents.
struct Torn {
    block: u64,
    found: Vec<u8>,
    data: Vec<u8>,
}

/// A recovery under way.
pub(super) struct Recovering<'r> {
    pub(super) file: &'r TagFile,
    pub(super) recovery: &'r Recovery<'r>,
    pub(super) drive: &'r dyn BlockDevice,
    /// Seconds since 1970.
    pub(super) now: u64,
    pub(super) pages: BTreeMap<u64, Page>,
    /// The kept area, once it is needed.
    pub(super) kept: Option<Contents>,
    pub(super) recovered: Recovered,
}

impl Recovering<'_> {
    /// Recovers every block of the log. Durable when it returns.
    pub(super) fn run(mut self) -> Result<Recovered, TagError> {
        for range in self.recovery.ranges(AT_ONCE) {
            let torn = self.judge(range)?;
            self.write_again(&torn)?;
            if self.pages.len() >= PAGES_AT_ONCE {
                self.store()?;
            }
        }
        self.store()?;
        Ok(self.recovered)
    }

    /// Writes the pages to their places, durably. The log still has their blocks: if the power goes
    /// before all of it is recovered, the next recovery finds the same.
    fn store(&mut self) -> Result<(), TagError> {
        // What was read may be in the drive's cache only: it must not change back after its tags
        // are home and the log is released.
        self.drive.flush()?;
        self.file.store_pages(self.pages.iter().map(|(number, page)| (*number, page)))?;
        self.file.medium.sync()?;
        self.pages.clear();
        Ok(())
    }

    /// Puts the tags of a range into the pages. Returns the blocks to write again.
    fn judge(&mut self, range: Range<u64>) -> Result<Vec<Torn>, TagError> {
        let geometry = self.file.header.geometry;
        let size = geometry.block_bytes();
        let mut bytes = vec![0; (range.end - range.start) as usize * size];
        let whole = self.drive.read_at(range.start * size as u64, &mut bytes).is_ok();
        let mut torn = Vec::new();
        for (block, bytes) in range.zip(bytes.chunks_exact_mut(size)) {
            let readable = whole || can_read(self.drive, block * size as u64, bytes)?;
            let (number, place) = geometry.place(block);
            let home = self.page(number)?.entry(&geometry, place);
            self.recovered.logged += 1;
            let entry = match self.recovery.outcome(block, readable.then_some(&*bytes), &home) {
                Outcome::Is(entry) => entry,
                Outcome::Rewrite(entry, data) => {
                    // Of what is not written over the block, the log has the only copy.
                    let is_left = self.recovered.stale.is_some();
                    let (found, data) = if is_left { (data, bytes.to_vec()) } else { (bytes.to_vec(), data) };
                    torn.push(Torn { block, found, data });
                    entry
                }
                Outcome::Damaged(entry) => {
                    let found = &mut self.recovered;
                    if readable { &mut found.damaged } else { &mut found.unreadable }.push(block);
                    entry
                }
            };
            let page::Entry { tag, others } = &entry;
            self.page(number)?.set_with(&geometry, place, tag, others);
        }
        Ok(torn)
    }

    fn page(&mut self, number: u64) -> Result<&mut Page, TagError> {
        Ok(match self.pages.entry(number) {
            Entry::Occupied(page) => page.into_mut(),
            Entry::Vacant(at) => {
                let found = self.file.load(number)?;
                if found == super::Found::Lost {
                    self.recovered.lost_pages.push(number);
                }
                at.insert(found.page())
            }
        })
    }

    /// Writes torn blocks again, after their contents are kept. Blocks that cannot be kept stay as
    /// they are, and reads of them are refused.
    fn write_again(&mut self, torn: &[Torn]) -> Result<(), TagError> {
        let kept = self.keep(torn)?;
        if self.recovered.stale.is_some() {
            self.recovered.left.extend(torn.iter().map(|torn| torn.block));
            self.recovered.not_kept += (torn.len() - kept) as u64;
            return Ok(());
        }
        let size = self.file.header.geometry.block_bytes() as u64;
        for Torn { block, data, .. } in &torn[..kept] {
            match self.drive.write_at(block * size, data) {
                Ok(()) => self.recovered.rewritten.push(*block),
                // It stays as it is, and the tag refuses it.
                Err(error) if error.is_media_error() => self.recovered.damaged.push(*block),
                Err(error) => return Err(error.into()),
            }
        }
        for torn in &torn[kept..] {
            self.refuse(torn)?;
            self.recovered.damaged.push(torn.block);
        }
        self.recovered.not_kept += (torn.len() - kept) as u64;
        Ok(())
    }

    /// Has reads of a torn block refused. A block that comes back without a tag has none to be
    /// refused by, so it gets that of the data that it should have.
    fn refuse(&mut self, torn: &Torn) -> Result<(), TagError> {
        let geometry = self.file.header.geometry;
        let (number, place) = geometry.place(torn.block);
        let page = self.page(number)?;
        if page.origin(place) == Origin::Unknown {
            let guard = geometry.format().guard().of(&torn.data);
            let tuple = geometry.tuple(torn.block, guard);
            page.set(&geometry, place, &Tag { origin: Origin::Adopted, tuple });
        }
        Ok(())
    }

    /// Keeps the contents of torn blocks; returns how many, from the first.
    fn keep(&mut self, torn: &[Torn]) -> Result<usize, TagError> {
        if torn.is_empty() {
            return Ok(0);
        }
        let area = self.file.kept_area();
        let sync = self.recovery.rules.keep(Rule::KeptSync);
        if !self.recovery.rules.keep(Rule::Kept) {
            return Ok(torn.len());
        }
        let contents = match &mut self.kept {
            Some(contents) => contents,
            none => none.insert(area.contents()?),
        };
        let blocks: Vec<(u64, &[u8])> = torn.iter().map(|torn| (torn.block, &torn.found[..])).collect();
        let why = if self.recovered.stale.is_some() { Why::Log } else { Why::Recovery };
        Ok(KeptArea::keep(&area, contents, &blocks, self.now, why, sync)?)
    }
}

/// Returns whether a block can be read; an error if the drive fails as a whole.
pub(super) fn can_read(drive: &dyn BlockDevice, offset: u64, bytes: &mut [u8]) -> Result<bool, IoError> {
    match drive.read_at(offset, bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.is_media_error() => Ok(false),
        Err(error) => Err(error),
    }
}

//! Looking for equal contents, and merging them.

use super::Ftl;
use crate::chip::{Nand, NandError, Nanos, Ppn};
use crate::ftl::blocks::State;
use crate::ftl::content::Content;
use crate::ftl::dedup::Due;
use crate::ftl::error::FtlError;
use crate::ftl::journal::{Journal, Record};
use crate::ftl::map::Owner;
use crate::ftl::tag::Tag;

/// A page with a content, and the birth of the content.
type Twin = (Ppn, u64);

impl<N, J, C> Ftl<N, J, C>
where
    C: Content,
    N: Nand<Page = C, Oob = Tag>,
    J: Journal<N>,
{
    /// Lets the drive look at pages that were written since the last time, for at most `time`.
    /// Gives the time when it was done.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn idle(&mut self, after: Nanos, time: Nanos) -> Result<Nanos, FtlError> {
        self.idle_piece(after, time, usize::MAX)
    }

    /// Does the same, for at most so many of the pages that wait: some need no look any more, and
    /// count no time.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn idle_piece(&mut self, after: Nanos, time: Nanos, most: usize) -> Result<Nanos, FtlError> {
        self.stats();
        self.evacuate_failing(after)?;
        let (mut now, mut left, mut passed) = (after, Vec::new(), 0);
        while now - after < time
            && passed < most
            && let Some(lpn) = self.dedup.next_waiting()
        {
            passed += 1;
            let Some(page) = self.map.lookup(lpn) else { continue };
            if self.dedup.due(page) == Due::Nothing {
                continue;
            }
            if self.config.open_blocks_wait && self.blocks.state(self.blocks.block_of(page)) == State::Open {
                left.push(lpn);
                continue;
            }
            self.checkpoint_if_due()?;
            let read = match self.nand.read(page, now) {
                Ok(read) => read,
                Err(NandError::Unreadable(_) | NandError::Erased(_)) => continue,
                Err(other) => return Err(other.into()),
            };
            self.stats.dedup_reads += 1;
            // A page with another's data must not be merged with its like: the error would become
            // the truth.
            let sound = self.fits(page, &read.oob) && !read.oob.lost;
            let Some(content) = read.data.filter(|_| sound) else { continue };
            let start = read.done + self.config.hash.strong;
            let (merged, done) = self.examine(page, &content, start)?;
            self.stats.idle_merges += u64::from(merged);
            now = done;
        }
        self.dedup.put_back(&left);
        Ok(now)
    }

    /// The number of pages that wait to be looked at in idle time.
    pub fn waiting(&self) -> usize {
        self.dedup.waiting()
    }

    /// Looks at a live page whose content is at hand: whoever reads a page may hand it in here.
    /// Gives whether the page is dead now, as its logical page shares another, and the time when
    /// that was done.
    pub(super) fn examine(
        &mut self,
        page: Ppn,
        content: &C,
        after: Nanos,
    ) -> Result<(bool, Nanos), FtlError> {
        let due = self.dedup.due(page);
        let key = self.dedup.key(content);
        let (Due::Lookup, Some(Owner::Lpn(lpn))) = (due, self.map.owner(page)) else {
            self.dedup.indexed(page, key);
            return Ok((false, after));
        };
        self.stats.lookups += 1;
        let (twin, done) = self.find_equal(key, content, Some(page), after)?;
        let Some((other, other_birth)) = twin else {
            self.stats.false_undetermined += 1;
            self.dedup.indexed(page, key);
            return Ok((false, done));
        };
        self.merge(lpn, other, other_birth)?;
        Ok((true, done))
    }

    /// A page that holds this content, whatever others have its key.
    pub(super) fn find_equal(
        &mut self,
        key: u64,
        content: &C,
        but: Option<Ppn>,
        after: Nanos,
    ) -> Result<(Option<Twin>, Nanos), FtlError> {
        let candidates: Vec<Ppn> = self.dedup.candidates(key).filter(|page| Some(*page) != but).collect();
        let mut now = after;
        for page in candidates {
            let read = match self.nand.read(page, now) {
                Ok(read) => read,
                Err(NandError::Unreadable(_) | NandError::Erased(_)) => continue,
                Err(other) => return Err(other.into()),
            };
            self.stats.dedup_reads += 1;
            now = read.done;
            if read.data.as_ref() == Some(content) && !read.oob.lost && self.fits(page, &read.oob) {
                return Ok((Some((page, read.oob.birth)), now));
            }
            self.stats.key_collisions += 1;
        }
        Ok((None, now))
    }

    /// Maps a logical page to the content of a page, which was compared.
    pub(super) fn merge(&mut self, lpn: u32, page: Ppn, birth: u64) -> Result<(), FtlError> {
        assert!(self.map.owner(page).is_some(), "F13: a content that is shared lies in a live page: {page}");
        let first = match self.map.owner(page) {
            Some(Owner::Lpn(other)) if other != lpn => Some(other),
            _ => None,
        };
        for lpn in first.into_iter().chain([lpn]) {
            let seq = self.next_seq();
            let record = Record::Merge { seq, lpn, page: page.0, birth };
            self.journal.record(&mut self.nand, record, self.durable)?;
            self.changed = seq;
        }
        if let Some(died) = self.map.share(lpn, page, birth) {
            self.page_died(died, None);
        }
        Ok(())
    }
}

//! The judgement of blocks that were read, and their new tags.

use super::{Machine, Outcome, Request};
use crate::geometry::Part;
use crate::page::{Judged, Opinion, Origin, Tag};
use crate::rules::Rule;
use pumice_blockdev::Judgement;
use std::ops::Range;

impl Machine {
    /// The blocks of a command were read: the guard of each, or `None` if the drive refused. For
    /// [`Request::ReadMetadata`] the guards are not used.
    pub fn data_read(&mut self, id: u64, guards: Option<&[u64]>) {
        let outcome = self.outcome_of_read(id, guards);
        self.end(id, outcome);
    }

    /// The same for a command that [began](Self::begin_now) at once: returns its outcome.
    pub fn read_now(&mut self, id: u64, guards: Option<&[u64]>) -> Outcome {
        let outcome = self.outcome_of_read(id, guards);
        self.leave(id);
        outcome
    }

    /// Returns whether the pages of some blocks are in memory, so that a [look](Self::look) at
    /// these has what it needs. Their tuples are brought into the caches.
    #[must_use]
    pub fn can_look(&self, blocks: &Range<u64>) -> bool {
        let here = self.geometry.groups_of(blocks).all(|group| self.cache.has(group));
        if here {
            // They are wanted when the blocks have been read.
            self.geometry.parts(blocks).for_each(|part| self.cache.page(part.page).prefetch());
        }
        here
    }

    /// Checks blocks that were read before, without a command and so beside every write. `None` if
    /// a page is not here, or if a block has a fault: it may have been read, or its tag changed, in
    /// the middle of a write. A command that waits for writes has to read them then.
    #[must_use]
    pub fn look(&self, blocks: &Range<u64>, guards: &[u64]) -> Option<Judgement> {
        let here = self.geometry.groups_of(blocks).all(|group| self.cache.has(group));
        let judgement = here.then(|| self.check(blocks.clone(), guards))?;
        if !self.rules.keep(Rule::LookUnderLock) {
            return Some(judgement);
        }
        judgement.faulty.is_empty().then_some(judgement)
    }

    fn outcome_of_read(&mut self, id: u64, guards: Option<&[u64]>) -> Outcome {
        let Some(guards) = guards else { return Outcome::DriveFailed };
        let command = &self.commands[&id];
        let (blocks, request) = (command.blocks.clone(), command.request.clone());
        match request {
            Request::Read | Request::Sweep => return Outcome::Checked(self.check(blocks, guards)),
            Request::ReadMetadata => return Outcome::Metadata(self.metadata(&blocks)),
            _ => {}
        }
        let mut judged = Vec::with_capacity(guards.len());
        for part in self.geometry.parts(&blocks) {
            self.judge(&part, &guards[part.at.clone()], &mut judged);
        }
        let count = if self.failed { 0 } else { self.adopt(&request, blocks, guards, &judged) };
        match request {
            Request::Adopt => Outcome::Adopted(judged, count),
            _ => Outcome::Read(judged),
        }
    }

    /// Judges the blocks of a part by their guards.
    fn judge(&self, part: &Part, guards: &[u64], judged: &mut Vec<Judged>) {
        let (page, begin) = (self.cache.page(part.page), judged.len());
        if let Some(origin) = page.fits_all(&self.geometry, part.place, guards) {
            judged
                .extend(guards.iter().map(|guard| Judged { opinion: Opinion::Fits(origin), guard: *guard }));
            return;
        }
        page.judge(&self.geometry, part.place, guards, judged);
        if self.lost.contains(&part.page) {
            for (place, judged) in (part.place..).zip(&mut judged[begin..]) {
                if page.origin(place) == Origin::Unknown {
                    judged.opinion = Opinion::Lost;
                }
            }
        }
    }

    /// The same for all blocks of a range, combined.
    fn check(&self, blocks: Range<u64>, guards: &[u64]) -> Judgement {
        let size = self.geometry.block_bytes();
        let (mut judgement, mut judged) = (Judgement::default(), Vec::new());
        for part in self.geometry.parts(&blocks) {
            let guards = &guards[part.at.clone()];
            match self.cache.page(part.page).fits_all(&self.geometry, part.place, guards) {
                Some(origin) => judgement.fits(origin, guards.len() as u64),
                None => {
                    judged.clear();
                    self.judge(&part, guards, &mut judged);
                    judgement.take(&judged, part.at.start * size, size);
                }
            }
        }
        judgement
    }

    /// The metadata of blocks.
    fn metadata(&self, blocks: &Range<u64>) -> Vec<u8> {
        let count = (blocks.end - blocks.start) as usize;
        let mut metadata = Vec::with_capacity(count * self.geometry.format().metadata_bytes());
        for block in blocks.clone() {
            let (page, place) = self.geometry.place(block);
            let page = self.cache.page(page);
            let begin = metadata.len();
            metadata.extend_from_slice(page.metadata(&self.geometry, place));
            if page.origin(place) == Origin::Unknown {
                metadata[begin..].fill(0xFF);
            }
        }
        metadata
    }

    /// Makes tags of what a command read, if it asks for that. Returns how many.
    fn adopt(&mut self, request: &Request, blocks: Range<u64>, guards: &[u64], judged: &[Judged]) -> u64 {
        let mut count = 0;
        for (block, (guard, judged)) in blocks.zip(guards.iter().zip(judged)) {
            let (number, place) = self.geometry.place(block);
            let adopts = match request {
                Request::Adopt => self.cache.page(number).origin(place) == Origin::Unknown,
                Request::Release => matches!(judged.opinion, Opinion::Differs(_)),
                _ => return 0,
            };
            if adopts {
                // Those of a block that is released stay; one without a tag has zeros.
                let others = self.cache.page(number).entry(&self.geometry, place).others;
                let tuple = self.geometry.tuple_over(block, *guard, &others);
                let tag = Tag { origin: Origin::Adopted, tuple };
                self.cache.change(number).set_with(&self.geometry, place, &tag, &others);
                count += 1;
            }
        }
        count
    }

    /// Makes the adopted tags of a command's blocks vouched ones.
    pub(super) fn vouch(&mut self, id: u64) {
        if self.failed {
            self.end(id, Outcome::TagsFailed);
            return;
        }
        let mut count = 0;
        for block in self.commands[&id].blocks.clone() {
            let (page, place) = self.geometry.place(block);
            if self.cache.page(page).origin(place) == Origin::Adopted {
                self.cache.change(page).set_origin(place, Origin::Vouched);
                count += 1;
            }
        }
        self.end(id, Outcome::Vouched(count));
    }
}

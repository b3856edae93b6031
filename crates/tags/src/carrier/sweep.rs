//! Reads of most of the drive in order.

use super::{Carried, Carrier, Payload};
use crate::machine::{Outcome, Request};
use crate::rules::Rule;
use crate::view::{View, stretch};
use pumice_blockdev::{IoError, Judgement};
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Carrier {
    /// Reads and checks blocks for a reader of most of the drive in order, who keeps `view`.
    ///
    /// Nearly all of them fit their tags, and nobody writes them. So they are read without a lock
    /// and checked against the [view](crate::view), or against the pages in memory if there is
    /// none. Only if a tag does not fit, they are read again in their turn.
    pub(crate) fn sweep(&self, blocks: Range<u64>, buffer: &mut [u8], view: &mut View) -> Carried {
        view.forget_guards();
        let looked = if blocks.is_empty() {
            None
        } else if self.shows(view, &blocks) {
            self.read_by(view, &blocks, buffer)
        } else if self.shared().machine.can_look(&blocks) {
            self.read(&blocks, &mut Payload::Read(buffer), |read, guards| match read {
                Ok(()) => self.shared().machine.look(&blocks, guards).map(Ok),
                Err(error) => Some(Err(error)),
            })
        } else {
            None
        };
        match looked {
            Some(Ok(judgement)) => Carried { outcome: Outcome::Checked(judgement), error: None },
            Some(Err(error)) => Carried { outcome: Outcome::DriveFailed, error: Some(error) },
            None => {
                view.forget_guards();
                self.carry(blocks, Request::Sweep, Payload::Read(buffer))
            }
        }
    }

    /// Returns whether a view has the tags of some blocks, now if not before.
    fn shows(&self, view: &mut View, blocks: &Range<u64>) -> bool {
        let groups = self.geometry.groups_of(blocks);
        if view.has(self.number, &groups) && self.is_current(view) {
            return true;
        }
        if !view.would_last(self.number, self.version.load(Ordering::Acquire)) {
            return false;
        }
        let groups = stretch(&self.geometry, &groups);
        let Some(version) = self.shared().machine.tag_version_at_home(groups.clone()) else { return false };
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        view.load(&file, groups, version)
    }

    /// Reads blocks and checks them against a view. `None` if that does not show that they all fit.
    fn read_by(
        &self,
        view: &mut View,
        blocks: &Range<u64>,
        buffer: &mut [u8],
    ) -> Option<Result<Judgement, IoError>> {
        if let Err(error) = self.drive.read_at(blocks.start * self.geometry.block_bytes() as u64, buffer) {
            return Some(Err(error));
        }
        view.compute(&self.geometry, blocks, buffer);
        let judgement = view.check(&self.geometry, blocks, view.guards(self.number, blocks)?);
        self.while_current(view, judgement).map(Ok)
    }

    /// Reads blocks, and checks against a view whether blocks with these guards would all fit.
    pub(crate) fn read_expecting(
        &self,
        blocks: &Range<u64>,
        buffer: &mut [u8],
        guards: &[u64],
        view: &mut View,
    ) -> Result<Option<Judgement>, IoError> {
        view.forget_guards();
        if !self.shows(view, blocks) {
            return Ok(None);
        }
        self.drive.read_at(blocks.start * self.geometry.block_bytes() as u64, buffer)?;
        let judgement = view.check(&self.geometry, blocks, guards);
        Ok(self.while_current(view, judgement))
    }

    /// The number by which a view knows the drive.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// A judgement by a view, if no tag has changed meanwhile.
    fn while_current(&self, view: &View, judgement: Option<Judgement>) -> Option<Judgement> {
        // Asked after the blocks were read: a write that ended before that has changed it.
        let judgement = judgement.filter(|_| self.is_current(view));
        #[cfg(test)]
        self.viewed.fetch_add(u64::from(judgement.is_some()), Ordering::Relaxed);
        judgement
    }

    /// Returns whether no tag has changed since a view was made.
    fn is_current(&self, view: &View) -> bool {
        if !self.shared().machine.rules.keep(Rule::CurrentViews) {
            return true;
        }
        self.version.load(Ordering::Acquire) == view.version()
    }

    /// Leaves out a rule.
    #[cfg(test)]
    pub(crate) fn keep(&self, rules: pumice_base::units::Rules<Rule>) {
        self.shared().machine.rules = rules;
    }

    /// Reads that views answered.
    #[cfg(test)]
    pub(crate) fn viewed(&self) -> u64 {
        self.viewed.load(Ordering::Relaxed)
    }
}

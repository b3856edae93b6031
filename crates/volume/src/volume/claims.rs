//! Claims: stripes that somebody looks at directly on the members, such as a scrub. The locks of
//! their windows are those of operations.

use super::Volume;
use super::procedure::Procedure;
use crate::action::{ClaimId, Effect, RequestError};
use crate::assemble::Rule;
use crate::rows::Window;
use crate::sequencer::OpId;
use pumice_base::units::Role;
use std::ops::Range;

/// A claim that waits or is granted.
#[derive(Debug)]
pub(super) struct Claim {
    id: ClaimId,
    windows: Range<u64>,
    /// Windows whose locks it does not have yet.
    waiting: usize,
    granted: bool,
}

impl Volume {
    /// Claims stripes; [`Effect::Claimed`] says when they are had.
    pub(super) fn claim(&mut self, id: ClaimId, stripes: &Range<u64>, alone: bool) {
        let refused = match () {
            () if self.fenced => Some(RequestError::Fenced),
            () if self.stopping => Some(RequestError::Stopped),
            () if stripes.start >= stripes.end || stripes.end > self.layout.stripes() => {
                Some(RequestError::Range)
            }
            () => None,
        };
        if let Some(why) = refused {
            return self.effects.push(Effect::Claimed(id, Err(why)));
        }
        let op = OpId(self.next_op);
        self.next_op += 1;
        let windows = stripes.start * self.windows.per_chunk..stripes.end * self.windows.per_chunk;
        let mut waiting = 0;
        if self.keeps(Rule::ClaimsWait) {
            for window in windows.clone().map(Window) {
                waiting += usize::from(!self.locks.acquire(op, window, alone));
            }
        }
        self.claims.insert(op, Claim { id, windows, waiting, granted: false });
    }

    /// Gives claimed stripes back, or waits for them no longer.
    pub(super) fn unclaim(&mut self, id: ClaimId) {
        let Some(op) = self.claims.iter().find(|(_, claim)| claim.id == id).map(|(op, _)| *op) else {
            return;
        };
        let Some(claim) = self.claims.remove(&op) else { return };
        if !self.keeps(Rule::ClaimsWait) {
            return;
        }
        for window in claim.windows.map(Window) {
            let next = self.locks.release(op, window);
            self.admit(next);
        }
    }

    /// Operations and claims have the lock of a window that they waited for.
    pub(super) fn admit(&mut self, admitted: Vec<OpId>) {
        for next in admitted {
            if let Some(op) = self.ops.get_mut(&next) {
                op.locked = true;
                self.ready.insert(next);
            } else if let Some(claim) = self.claims.get_mut(&next) {
                claim.waiting -= 1;
            } else if let Some(stretch) = self.stretches.get_mut(&next) {
                stretch.locks -= 1;
            }
        }
    }

    /// Grants claims that have all their locks. While a failure is being recorded, it is not known
    /// which members will have what is written afterwards.
    pub(super) fn grant_claims(&mut self) {
        if self.claims.is_empty() || self.frozen() || self.held || self.recovery.is_some() {
            return;
        }
        let members = &self.members;
        for claim in self.claims.values_mut().filter(|claim| !claim.granted && claim.waiting == 0) {
            claim.granted = true;
            let has_all =
                |role: &Role| claim.windows.clone().all(|window| members[role.index()].has(Window(window)));
            let roles = (0..members.len() as u16).map(Role).filter(has_all).collect();
            self.effects.push(Effect::Claimed(claim.id, Ok(roles)));
        }
    }

    /// Claims that were not granted never are.
    pub(super) fn refuse_claims(&mut self, why: RequestError) {
        let waiting = self.claims.values().filter(|claim| !claim.granted).map(|claim| claim.id);
        for id in waiting.collect::<Vec<_>>() {
            self.unclaim(id);
            self.effects.push(Effect::Claimed(id, Err(why)));
        }
    }

    /// Another writer has the array: nothing is sent or answered well any more.
    pub(super) fn fence(&mut self) {
        if std::mem::replace(&mut self.fenced, true) {
            return;
        }
        self.refuse_claims(RequestError::Fenced);
        let mut flushes = std::mem::take(&mut self.want.flush);
        flushes.extend(self.running.take().map(Procedure::requests).unwrap_or_default());
        let flushes = flushes.into_iter().map(|(id, _)| id);
        let waiting = std::mem::take(&mut self.requests).into_keys().chain(flushes);
        self.effects.extend(waiting.map(|id| Effect::Answer(id, Err(RequestError::Fenced))));
    }
}

//! The work of md's bitmap daemon: periods that pass, and writes of bits.

use super::{Owner, Volume};
use crate::action::Command;
use crate::assemble::Rule;
use crate::intent::Intent;
use pumice_base::units::Role;

impl Volume {
    pub(super) fn tick(&mut self, now: u64) {
        self.now = now;
        if self.recovery.is_some() {
            // Until it has ended, what a crash left torn has its bit, and nothing is idle.
            return;
        }
        // Nobody takes the bits for whole before events_cleared says who may.
        let whole = self.missing().is_empty() && self.recording.is_none();
        let whole = whole && !self.unrecorded && self.failing.is_empty();
        match &mut self.intent {
            Some(intent) if whole => intent.tick(self.numbers.released()),
            Some(intent) => intent.tick_degraded(self.numbers.released()),
            None => {}
        }
        self.tick_rebuild();
        self.idle += 1;
        if self.idle > 1 && self.is_quiet() && !self.clean {
            self.want.clean = true;
        }
    }

    /// Superblocks with the counts of the bitmap's header are on all members.
    pub(super) fn settle_bitmap(&mut self) {
        if let Some(intent) = &mut self.intent {
            intent.settle();
        }
    }

    /// An update is given up, and the counts of the bitmap's header with it. `writing`: it was
    /// being written.
    pub(super) fn give_up_bitmap(&mut self, writing: bool) {
        if let Some(intent) = &mut self.intent {
            if writing {
                intent.written();
            }
            intent.give_up();
        }
    }

    pub(super) fn pump_intent(&mut self) {
        let late = !self.keeps(Rule::BitsFirst) && !self.ops.is_empty();
        if !self.failing.is_empty() || late {
            return;
        }
        let Some(writes) = self.intent.as_mut().and_then(Intent::begin_write) else { return };
        for role in (0..self.layout.members()).map(Role) {
            let member = &self.members[role.index()];
            let Some(area) = member.place.bitmap.filter(|_| member.here()) else { continue };
            for (at, bytes) in &writes {
                let put = Command::Put { role, at: area.start + at, bytes: bytes.clone() };
                self.issue(Owner::Intent, put);
            }
        }
    }
}

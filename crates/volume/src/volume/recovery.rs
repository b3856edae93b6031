//! The work of a volume before its first request: replay, parity of torn stripes, a new generation
//! of the log.

use super::operation::Kind;
use super::{Owner, Volume};
use crate::action::{Command, Effect};
use crate::assemble::{Assembly, Dirty, Rule};
use crate::log::Applied;
use crate::member::faulty;
use crate::rows::{BLOCK, Window};
use std::collections::VecDeque;

/// Operations of recovery, or of a rebuild, at a time.
pub(super) const AT_ONCE: usize = 8;

/// Blocks that are copied from the log at a time.
const COPIES: usize = 64;

/// The stage of recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Superblocks say which members are not there.
    Failing,
    /// Blocks go from the log into place.
    Copying,
    /// Parity of torn rows, and erasures.
    Restoring,
    /// Bad blocks go to the members.
    Recording,
    /// The log begins anew.
    Generation,
}

/// Recovery under way.
#[derive(Debug)]
pub(super) struct Recovery {
    stage: Stage,
    copies: VecDeque<Applied>,
    /// Copies that are under way.
    pub(super) copying: usize,
    /// Windows that are dirty, beside `restores`, and the first of them that may be left.
    dirty: Dirty,
    next_dirty: Window,
    restores: VecDeque<(Kind, Window)>,
    nonce: u64,
    /// Highest sequence number of the old generation.
    settled: u64,
}

impl Volume {
    pub(super) fn begin_recovery(&mut self, assembly: Assembly) {
        let replay = assembly.replay;
        let torn = if self.keeps(Rule::ParityOfTorn) { replay.torn } else { Default::default() };
        let torn = torn.into_iter().map(|(window, rows)| (Kind::Resync { rows }, window));
        // None of them says anything of another one in its row.
        for ((role, window), rows) in &replay.erased {
            let base = window.0 * self.windows.rows;
            let unknown = self.keeps(Rule::ErasedIsUnknown);
            let blocks = rows.iter().filter(|_| unknown).map(|row| base + u64::from(row));
            self.members[role.index()].bad.extend(blocks);
        }
        let erased =
            replay.erased.into_iter().map(|((role, window), rows)| (Kind::Rebuild { role, rows }, window));
        self.recovery = Some(Recovery {
            stage: Stage::Failing,
            copies: replay.apply.into(),
            copying: 0,
            dirty: if self.keeps(Rule::ParityOfTorn) { assembly.dirty } else { Dirty::None },
            next_dirty: Window(0),
            restores: torn.chain(erased).collect(),
            nonce: assembly.nonce,
            settled: replay.released,
        });
        if let (true, Some(intent)) = (self.keeps(Rule::BitsOfAll), &mut self.intent) {
            // A crash may have left members with different bits.
            intent.doubt();
        }
        if !assembly.ours && self.keeps(Rule::NewGeneration) {
            // Or the heads that are written next would vouch for old records.
            self.new_generation(assembly.nonce);
        }
        let away = !assembly.fail.is_empty();
        self.set_roles(&faulty(assembly.fail));
        match away && self.keeps(Rule::AwayFirst) {
            true => self.start_recovered(),
            false => self.recovery_went_on(),
        }
    }

    /// The stage under way is done.
    pub(super) fn recovery_went_on(&mut self) {
        let Some(recovery) = &mut self.recovery else { return };
        match recovery.stage {
            Stage::Failing => recovery.stage = Stage::Copying,
            Stage::Copying => recovery.stage = Stage::Restoring,
            Stage::Restoring => {
                recovery.stage = Stage::Recording;
                self.start_recovered();
            }
            Stage::Recording => {
                recovery.stage = Stage::Generation;
                let (nonce, settled) = (recovery.nonce, recovery.settled);
                self.numbers.settle(settled);
                if self.keeps(Rule::NewGeneration) {
                    self.new_generation(nonce);
                }
                self.start_generation();
            }
            Stage::Generation => {
                self.recovery = None;
                self.effects.push(Effect::Ready);
                self.ready.extend(self.ops.keys());
            }
        }
    }

    /// Lets recovery go on. Returns whether it did.
    pub(super) fn pump_recovery(&mut self) -> bool {
        // First, for this is asked after every event: operations are counted in recovery only.
        if self.recovery.is_none() || self.frozen() {
            return false;
        }
        let idle = self.actions.is_empty();
        let own = self.ops.values().filter(|op| op.kind.own()).count();
        let Some(recovery) = &mut self.recovery else { return false };
        match recovery.stage {
            Stage::Copying => {
                let count = COPIES.saturating_sub(recovery.copying).min(recovery.copies.len());
                let next: Vec<_> = recovery.copies.drain(..count).collect();
                recovery.copying += count;
                next.into_iter().for_each(|copy| self.copy(copy));
                if count == 0 && idle {
                    self.recovery_went_on();
                }
                count > 0 || idle
            }
            Stage::Restoring => {
                let mut begun = 0;
                while own + begun < AT_ONCE
                    && let Some((kind, window)) = self.next_restore()
                {
                    self.add_op(kind, window, Vec::new());
                    begun += 1;
                }
                let is_over = own + begun == 0;
                if is_over {
                    self.recovery_went_on();
                }
                is_over || begun > 0
            }
            _ => false,
        }
    }

    /// Copies a block from the log into place.
    fn copy(&mut self, copy: Applied) {
        let to = self.at(copy.role, copy.window) + u64::from(copy.row) * BLOCK;
        let block = copy.window.0 * self.windows.rows + u64::from(copy.row);
        self.members[copy.role.index()].bad.remove(&block);
        self.issue(Owner::Recovery, Command::Copy { role: copy.role, from: copy.from, to });
    }

    /// The next window to be restored: what the log says, then what the bits say. No bit is cleared
    /// while recovery is under way.
    fn next_restore(&mut self) -> Option<(Kind, Window)> {
        let windows = self.windows;
        let recovery = self.recovery.as_mut()?;
        if let Some(next) = recovery.restores.pop_front() {
            return Some(next);
        }
        let from = recovery.next_dirty;
        let next = match (recovery.dirty, &self.intent) {
            (Dirty::None, _) => None,
            (Dirty::Bits(_), Some(intent)) => {
                intent.next_set(windows.start(from)).map(|byte| byte / windows.bytes())
            }
            (Dirty::Bits(_) | Dirty::All, _) => Some(from.0),
        };
        let next = next.filter(|next| *next < windows.count)?;
        recovery.next_dirty = Window(next + 1);
        Some((Kind::Resync { rows: windows.all() }, Window(next)))
    }
}

//! The changes of an array: the acts of md and of an administrator.

use super::{Random, STRIPES, World};

/// The kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scrub::confirm::simulation) enum Change {
    /// A member fails and nothing follows.
    Fail,
    /// A member fails, and a spare takes its role.
    Spare,
    /// A member fails and is added again; by the bitmap only some stripes are rewritten.
    ReAdd,
    /// The same without a bitmap: it gets a new device UUID, and all of it is rewritten.
    Add,
    /// A member is copied to another device, which takes its role.
    Replace,
    /// As [`ReAdd`](Self::ReAdd), within milliseconds, and all stripes are rewritten.
    Flicker,
    /// A reshape is refused by md: nothing but superblocks is written.
    GrowRefused,
    /// A reshape begins.
    Reshape,
    /// The superblocks are written again, with the same contents.
    Rewritten,
    /// The array is created again over its members, with another UUID.
    Created,
    /// The clock is set back.
    TimeBack,
    /// The kernel checks the array.
    Check,
}

/// A part of a change, after which the superblocks are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// A role loses its member.
    Out { role: usize },
    /// Only the event count moves.
    Count(i64),
    /// A device takes a role without being in sync; with a new identity if it is `anew`.
    In { role: usize, device: usize, anew: bool },
    /// A rebuild rewrites one of `share` stripes, and is recorded up to `to`.
    ///
    /// A device that returns under its own UUID between two runs has been given what was written
    /// meanwhile, and no more: the page names that limit.
    Rebuild { role: usize, to: usize, share: usize, anew: bool },
    /// Another device takes a role, in sync.
    Swap { role: usize, device: usize },
    /// The shape changes.
    Shape,
    /// Another array begins.
    Created,
}

impl Change {
    /// A change by chance; in a `calm` world one that is none of members or shape.
    pub(super) fn draw(random: &mut Random, calm: bool) -> Self {
        const HARMLESS: [Change; 4] =
            [Change::GrowRefused, Change::Rewritten, Change::TimeBack, Change::Check];
        const ANY: [Change; 16] = [
            Change::Fail,
            Change::Spare,
            Change::Spare,
            Change::ReAdd,
            Change::ReAdd,
            Change::Add,
            Change::Replace,
            Change::Replace,
            Change::Flicker,
            Change::Flicker,
            Change::Reshape,
            Change::Created,
            Change::GrowRefused,
            Change::Rewritten,
            Change::TimeBack,
            Change::Check,
        ];
        if calm { HARMLESS[random.index(HARMLESS.len())] } else { ANY[random.index(ANY.len())] }
    }
}

impl World {
    /// Plans the steps of a change. Event counts are those of Linux, or fewer.
    pub(super) fn begin(&mut self, change: Change) {
        use Change::{Add, Check, Created, Fail, Flicker, GrowRefused, ReAdd, Replace, Reshape};
        use Change::{Rewritten, Spare, TimeBack};
        let role = self.random.index(self.current.roles.len());
        let of_members = matches!(change, Fail | Spare | ReAdd | Add | Flicker | Replace);
        let Some((member, STRIPES)) = self.current.roles[role] else { return };
        if of_members && self.is_degraded() {
            return;
        }
        let rebuild = |share, anew| {
            (1..=4).map(move |part| Step::Rebuild { role, to: STRIPES * part / 4, share, anew })
        };
        let again = |anew| [Step::Out { role }, Step::Count(1), Step::In { role, device: member, anew }];
        let steps: Vec<Step> = match (change, self.free()) {
            (Fail, _) => vec![Step::Out { role }],
            (Spare, Some(device)) => {
                let taken = [Step::Out { role }, Step::In { role, device, anew: true }];
                taken.into_iter().chain(rebuild(1, true)).collect()
            }
            (ReAdd, _) => again(false).into_iter().chain(rebuild(4, false)).collect(),
            (Flicker, _) => again(false).into_iter().chain(rebuild(1, false)).collect(),
            (Add, _) => again(true).into_iter().chain(rebuild(1, true)).collect(),
            (Replace, Some(device)) => vec![Step::Count(2), Step::Swap { role, device }],
            (Reshape, _) => vec![Step::Shape],
            (Created, _) => vec![Step::Created],
            (Check, _) => vec![Step::Count(2)],
            (GrowRefused | Rewritten | TimeBack, _) => vec![Step::Count(0)],
            (Spare | Replace, None) => return,
        };
        if change == TimeBack {
            self.time -= 86_400;
        }
        self.fast = change == Flicker;
        self.changed |= of_members || matches!(change, Reshape | Created);
        self.log.push((self.now, change));
        self.steps.extend(steps);
    }

    fn new_identity(&mut self, device: usize) {
        self.ids[device] = (self.next_id, u16::from(self.next_id));
        self.next_id += 1;
    }

    /// Carries out a step.
    pub(super) fn take(&mut self, step: Step) {
        let events = match step {
            Step::Out { role } => {
                self.current.roles[role] = None;
                2
            }
            Step::Count(events) => events,
            Step::In { role, device, anew } => {
                if anew {
                    self.new_identity(device);
                }
                self.current.roles[role] = Some((device, 0));
                1
            }
            Step::Rebuild { role, to, share, anew } => {
                let Some((device, valid)) = self.current.roles[role] else { return };
                for stripe in valid..to {
                    let is_rewritten = self.random.index(share) == 0 && (anew || self.in_run);
                    self.current.rewritten[device][stripe] += u32::from(is_rewritten);
                }
                self.current.roles[role] = Some((device, to));
                1
            }
            Step::Swap { role, device } => {
                self.new_identity(device);
                self.current.rewritten[device].iter_mut().for_each(|count| *count += 1);
                self.current.roles[role] = Some((device, STRIPES));
                3
            }
            Step::Shape => {
                self.superblock.layout = 0;
                1
            }
            Step::Created => {
                self.superblock.set_uuid = [9; 16];
                self.superblock.events = 0;
                2
            }
        };
        self.publish(events);
    }
}

//! Looks at the premises of a pass while it runs (`docs/design/premises.md`, P2 and P3).

#[cfg(test)]
mod simulation;

use super::run::Pass;
use super::witness::members_now;
use crate::error::HostError;
use crate::pass::{Course, StopReason};
use crate::premises::{Conclusion, Difference, Premises, ReadMember, SuperblocksNow};
use crate::target::Target;
use pumice_base::units::Role;
use pumice_raid::assembly::AgainError;
use pumice_raid::{Array, ProbeError};
use std::time::{Duration, Instant};

/// Between two looks at the end of a pass.
const PAUSE: Duration = Duration::from_millis(300);
/// Looks at the end of a pass, until what is unclear is a difference.
const LOOKS: u32 = 10;

/// The roles of an array that a pass reads.
pub(crate) type Reads<'r> = &'r dyn Fn(Role) -> bool;

/// The members of an array that a pass reads.
pub(crate) fn premises_of(array: &Array, reads: Reads<'_>) -> Premises {
    let member = |role: Role| {
        let member = array.member(role).filter(|_| reads(role))?;
        let superblock = &member.record.superblock;
        Some(ReadMember {
            role: role.0,
            device: member.device.clone(),
            device_uuid: superblock.device_uuid.map(|uuid| uuid.to_string()),
            number: superblock.dev_number,
            data_offset: superblock.data_offset_bytes(),
            stripes: member.valid_stripes(array.geometry()),
        })
    };
    let roles = (0..array.geometry().raid_disks()).map(Role);
    Premises {
        metadata: array.metadata().to_string(),
        events: array.events(),
        members: roles.filter_map(member).collect(),
        elsewhere: array.not_named().iter().map(|role| role.0).collect(),
    }
}

/// Returns whether a pass reads every role, and every member is in sync.
pub(crate) fn is_whole(array: &Array, reads: Reads<'_>) -> bool {
    let stripes = array.geometry().stripes();
    let in_sync = |role| array.member(role).is_some_and(|m| m.valid_stripes(array.geometry()) >= stripes);
    (0..array.geometry().raid_disks()).map(Role).all(|role| reads(role) && in_sync(role))
}

/// Result of a look: `now` is read from the members of `then`.
pub(crate) fn superblocks_now(
    then: &Array,
    now: Result<Array, AgainError>,
    reads: Reads<'_>,
) -> SuperblocksNow {
    let now = match now {
        Ok(now) => now,
        Err(AgainError::Member { device, source: source @ ProbeError::Read { .. } }) => {
            return SuperblocksNow::Unreadable(format!("{device}: {source}"));
        }
        Err(AgainError::Assembly(error)) if !error.may_pass() => {
            return SuperblocksNow::Other(error.to_string());
        }
        Err(error) => return SuperblocksNow::Unclear(error.to_string()),
    };
    if now.uuid() != then.uuid() {
        return SuperblocksNow::Other(format!("its members now belong to array {}", now.uuid()));
    }
    if now.geometry() != then.geometry() {
        return SuperblocksNow::Other("its level, layout, chunk or size is another one".to_owned());
    }
    let settled = now.members().iter().flatten().all(|m| m.record.superblock.events == now.events());
    SuperblocksNow::Array { now: premises_of(&now, reads), whole: is_whole(&now, reads), settled }
}

impl Target {
    /// The premises of a pass over this target that begins now, and whether the array is whole.
    pub(super) fn premises(&self) -> (Premises, bool) {
        let reads = |role| self.member(role).is_some();
        (premises_of(self.array(), &reads), is_whole(self.array(), &reads))
    }
}

impl Pass<'_> {
    /// Looks at the premises once. `false` if that cannot be decided now.
    ///
    /// # Errors
    /// If they do not hold any more, or a node fails.
    pub(super) fn confirm(&mut self) -> Result<bool, HostError> {
        match self.look_at_array(false)? {
            Conclusion::Yes => Ok(true),
            Conclusion::Unknown(_) => Ok(false),
            Conclusion::No(difference) => Err(self.void(&difference)),
        }
    }

    /// Looks at the premises when nothing is read any more, until it can be decided.
    ///
    /// # Errors
    /// As [`confirm`](Self::confirm), and if it cannot be decided.
    pub(super) fn confirm_at_end(&mut self) -> Result<(), HostError> {
        let mut left = LOOKS;
        loop {
            let why = match self.look_at_array(true)? {
                Conclusion::Yes => return Ok(()),
                Conclusion::Unknown(why) => why,
                Conclusion::No(difference) => return Err(self.void(&difference)),
            };
            left -= 1;
            if left == 0 {
                return Err(self.void(&Difference::Unclear(why)));
            }
            // A stop that was raised does not shorten it: it is short, and decides the result.
            std::thread::sleep(PAUSE);
        }
    }

    /// The last look of a pass: why it ended, and whether what was read is confirmed.
    pub(super) fn last_look(
        &mut self,
        stopped: Option<StopReason>,
        course: &Course<'_>,
    ) -> (Option<StopReason>, bool) {
        if self.is_void {
            return (stopped, false);
        }
        match self.confirm_at_end() {
            Ok(()) => (stopped, true),
            Err(error) if self.is_void => (Some(course.reason(&error)), false),
            // A node that does not answer.
            Err(error) => (stopped.or_else(|| Some(course.reason(&error))), false),
        }
    }

    fn look_at_array(&mut self, end: bool) -> Result<Conclusion, HostError> {
        let reads = |role| self.target.member(role).is_some();
        let seen = superblocks_now(self.target.array(), members_now(self.target, None)?, &reads);
        let holds = self.watch.take(self.began.elapsed(), seen, end);
        self.saved.read.events = self.watch.events();
        self.confirmed_at = Instant::now();
        Ok(holds)
    }

    /// The result is void, and so is saved progress. A result that merely cannot be confirmed
    /// leaves the progress that was saved before.
    fn void(&mut self, difference: &Difference) -> HostError {
        self.is_void = !matches!(difference, Difference::Unclear(_));
        HostError::ArrayChanged(difference.to_string())
    }
}

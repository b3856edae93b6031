//! Lost connections within a pass: when to try again, and the check that the same drives and array
//! are reached.

use crate::again::ReadAgain;
use crate::error::HostError;
use crate::probe::DriveReader;
use crate::stop::Stop;
use crate::target::Target;
use pumice_offload::{ErrorKind, Link, NodeError};
use pumice_raid::assembly::AgainError;
use pumice_raid::{Array, Known, probe_for};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first wait before an attempt; each following wait is twice as long.
const FIRST: Duration = Duration::from_millis(250);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(8);
/// Most attempts in a row.
const TRIES: u32 = 16;
/// Default time for attempts to reconnect.
pub const RECONNECT: Duration = Duration::from_secs(60);

/// The times of attempts. Pure steps: the time is an argument.
#[derive(Debug)]
pub struct Retry {
    limit: Duration,
    /// The time of the first of consecutive failures.
    since: Option<Instant>,
    tries: u32,
}

impl Retry {
    /// Attempts begin at most `limit` after the first of consecutive failures; zero for no attempt.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, since: None, tries: 0 }
    }

    /// A batch is done: the next failure counts as the first.
    pub const fn succeeded(&mut self) {
        (self.since, self.tries) = (None, 0);
    }

    /// A call failed at `now`. Returns the wait before the next attempt; `None` for no further
    /// attempt.
    pub fn failed(&mut self, now: Instant) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        let wait = FIRST.saturating_mul(1 << self.tries.min(16)).min(LONGEST);
        let over = now.saturating_duration_since(since) + wait > self.limit;
        if over || self.tries >= TRIES {
            return None;
        }
        self.tries += 1;
        Some(wait)
    }
}

/// Reconnects to every lost node, and checks that its drives are still the same members.
pub(super) fn reconnect(target: &Target, stop: &Stop) -> Result<(), HostError> {
    for node in target.nodes() {
        let node = Arc::clone(node);
        stop.wait_for(move || node.link().map_or(Ok(false), Link::reconnect))
            .map_err(|_| HostError::Interrupted)??;
    }
    same_members(target)
}

/// The superblocks still name each member's device and array.
fn same_members(target: &Target) -> Result<(), HostError> {
    if let Some(again) = target.again() {
        return same_again(target, again);
    }
    for (role, member) in target.members() {
        let drives = member.node.describe()?.drives;
        let drive = drives.iter().find(|drive| drive.id == member.drive);
        let drive = drive.ok_or_else(|| another_device(&member.device))?;
        let then = target.array().member(role).and_then(|member| member.record.as_ref());
        let then = then.map(|record| &record.superblock);
        let known = then.map_or_else(Known::default, Known::of);
        let found = probe_for(&DriveReader::new(&*member.node, member.drive, drive.size_bytes), known);
        let found = found
            .map_err(|error| NodeError::new(ErrorKind::Unreachable, format!("{}: {error}", member.device)))?;
        let now = found.map(|record| (record.superblock.array_uuid, record.superblock.device_uuid));
        if now != then.map(|superblock| (superblock.array_uuid, superblock.device_uuid)) {
            return Err(another_device(&member.device));
        }
    }
    Ok(())
}

/// The same of an array that is not md's.
fn same_again(target: &Target, again: &dyn ReadAgain) -> Result<(), HostError> {
    let then = target.array();
    let failed = |error: AgainError| NodeError::new(ErrorKind::Unreachable, error.to_string());
    let now = again.read_again().map_err(failed)?;
    for (role, member) in target.members() {
        let of = |array: &Array| array.member(role).map(|member| (array.uuid(), member.facts.identity));
        if of(&now) != of(then) {
            return Err(another_device(&member.device));
        }
    }
    Ok(())
}

fn another_device(device: &str) -> HostError {
    let what = format!("{device}: after the reconnection, this is another device");
    HostError::Node(NodeError::invalid("device", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waits until it gives up, if every attempt takes `each`.
    fn waits(limit: u64, each: Duration) -> Vec<Duration> {
        let mut retry = Retry::new(Duration::from_secs(limit));
        let mut now = Instant::now();
        let mut waits = Vec::new();
        while let Some(wait) = retry.failed(now) {
            waits.push(wait);
            now += wait + each;
        }
        waits
    }

    #[test]
    fn waits_grow_and_end() {
        let ms = |waits: Vec<Duration>| waits.iter().map(Duration::as_millis).collect::<Vec<_>>();
        assert_eq!(ms(waits(0, Duration::ZERO)), [0_u128; 0]);
        assert_eq!(ms(waits(4, Duration::ZERO)), [250, 500, 1000, 2000]);
        assert_eq!(ms(waits(60, Duration::ZERO))[4..6], [4000, 8000]);
        assert_eq!(waits(60, Duration::from_secs(20)).len(), 3, "tries that take long count as well");
        assert_eq!(waits(100_000, Duration::ZERO).len(), TRIES as usize);
    }

    #[test]
    fn a_batch_that_goes_well_begins_a_new_row() {
        let mut retry = Retry::new(Duration::from_secs(4));
        let begin = Instant::now();
        let later = begin + Duration::from_secs(100);
        assert_eq!(retry.failed(begin), Some(FIRST));
        assert_eq!(retry.failed(later), None);
        retry.succeeded();
        assert_eq!(retry.failed(later), Some(FIRST));
    }
}

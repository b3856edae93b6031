//! Healing an md array with md's own `check`, stripe by stripe. Pure: the state of md goes in,
//! orders to md come out. `docs/design/healing.md` has the conditions and the states.

use crate::finding::{Finding, Verdict};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Bytes of a block, the unit in which md rebuilds.
const BLOCK: u64 = 4096;
/// Bytes of a sector, md's unit of counting.
const SECTOR: u64 = 512;
/// The increase of a member's `errors` for each block that md corrects: its sectors.
const ERRORS_OF_BLOCK: u64 = BLOCK / SECTOR;
/// Longest time for a stripe.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longest time for md to begin a check, and longest time for it to refuse an order as busy.
pub const BEGIN: Duration = Duration::from_secs(10);
/// Interval between queries of md's state.
pub const PAUSE: Duration = Duration::from_millis(20);

/// The action of md (`sync_action`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncAction {
    /// Nothing.
    Idle,
    /// A check.
    Check,
    /// Something else.
    Other(String),
}

/// The state of an array in md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Md {
    /// True if it runs, and may be written.
    pub runs: bool,
    /// Its present action.
    pub action: SyncAction,
    /// Number of missing members.
    pub degraded: u32,
    /// The first sector of a check.
    pub sync_min: u64,
    /// The sector at which a check pauses; `None` for none.
    pub sync_max: Option<u64>,
    /// Progress of the check, in sectors.
    pub completed: Option<u64>,
    /// Stripes of its cache.
    pub cache: u64,
    /// Error counts of the members in use, in sectors.
    pub errors: BTreeMap<String, u64>,
}

/// An order to md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Sets where a check begins and where it pauses (`None`: nowhere), in sectors of a member.
    Limit {
        /// First sector.
        min: u64,
        /// The sector after the last.
        max: Option<u64>,
    },
    /// Begin a check.
    Check,
    /// End the check.
    Idle,
    /// Wait this long.
    Wait(Duration),
    /// The healing has ended.
    Done,
}

/// The reasons why healing ended early, or a stripe is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The array does not run.
    NotRunning,
    /// md is busy with another action.
    AtWork(String),
    /// A member is missing, or failed meanwhile.
    Degraded,
    /// Somebody else has limited md's check.
    Limited,
    /// A member has had so many errors that md might fail it.
    NoRoom(String),
    /// One run may heal no more blocks.
    Enough,
    /// md does not carry out the order.
    Silent,
    /// A signal.
    Stopped,
    /// More members are bad in the same bytes than md can rebuild.
    TooMany,
    /// A tag is damaged in the stripe: md would overwrite good data.
    Tags,
    /// The stripe has other damage that no drive refuses: md would rebuild good blocks of the same
    /// chunk from it.
    Unsound,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning => f.write_str("the array does not run"),
            Self::AtWork(action) => write!(f, "md is busy (sync_action is {action})"),
            Self::Degraded => f.write_str("a member is missing or failed"),
            Self::Limited => {
                f.write_str("somebody else has limited md's check (sync_min is not 0, or sync_max not max)")
            }
            Self::NoRoom(member) => {
                write!(
                    f,
                    "member {member} has had many errors, and md might fail it after more; continue later"
                )
            }
            Self::Enough => f.write_str("one run may heal no more blocks; run it again for the rest"),
            Self::Silent => f.write_str("md does not do what it was told"),
            Self::Stopped => f.write_str("stopped"),
            Self::TooMany => f.write_str("more members are bad in the same bytes than md can rebuild"),
            Self::Tags => f.write_str("a tag is damaged there, and md would overwrite good data"),
            Self::Unsound => f.write_str(
                "the stripe has other damage that no drive refuses, and md would rebuild good blocks from it",
            ),
        }
    }
}

/// A stripe to be checked by md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The stripe.
    pub stripe: u64,
    /// Its sectors on a member.
    pub sectors: Range<u64>,
    /// Blocks of it that drives refuse, of all members together.
    pub blocks: u64,
}

/// The stripes to heal, from the findings of a scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// In order.
    pub tasks: Vec<Task>,
    /// Stripes with refused blocks that are left alone, and the reasons.
    pub left: Vec<(u64, Reason)>,
}

/// Returns whether drives refuse all bytes of a finding, so that md's check rewrites them.
#[must_use]
pub fn is_refused(finding: &Finding) -> bool {
    finding.verdict == Verdict::Unreadable || finding.is_convicted()
}

/// The places of a finding that its drives refuse: members with bytes of the chunk.
fn refused(finding: &Finding) -> Vec<(u16, Range<u64>)> {
    if finding.verdict == Verdict::Unreadable {
        let lost = finding.lost.iter().map(|lost| {
            (lost.member, u64::from(lost.chunk_offset)..u64::from(lost.chunk_offset + lost.length))
        });
        return lost.collect();
    }
    if !finding.is_convicted() {
        return Vec::new();
    }
    let bytes = finding.chunk_offset..finding.chunk_offset + finding.length;
    finding.member.into_iter().chain(finding.members.iter().copied()).map(|m| (m, bytes.clone())).collect()
}

impl Plan {
    /// The plan for the findings of a scrub of an array with chunks of `chunk` bytes and so many
    /// parities.
    #[must_use]
    pub fn of(findings: &[Finding], chunk: u64, parities: usize) -> Self {
        let mut stripes: BTreeMap<u64, Vec<&Finding>> = BTreeMap::new();
        for finding in findings {
            stripes.entry(finding.stripe).or_default().push(finding);
        }
        let mut out = Self::default();
        for (stripe, findings) in stripes {
            let mut blocks: BTreeMap<u64, Vec<u16>> = BTreeMap::new();
            for (member, bytes) in findings.iter().flat_map(|finding| refused(finding)) {
                for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
                    let members = blocks.entry(block).or_default();
                    if !members.contains(&member) {
                        members.push(member);
                    }
                }
            }
            if blocks.is_empty() {
                continue;
            }
            let is_sound = |finding: &&Finding| is_refused(finding) || finding.verdict == Verdict::TagLost;
            if findings.iter().any(|finding| finding.verdict == Verdict::TagDamaged) {
                out.left.push((stripe, Reason::Tags));
            } else if !findings.iter().all(is_sound) {
                out.left.push((stripe, Reason::Unsound));
            } else if blocks.values().any(|members| members.len() > parities) {
                out.left.push((stripe, Reason::TooMany));
            } else {
                let sectors = stripe * chunk / SECTOR..(stripe + 1) * chunk / SECTOR;
                let blocks = blocks.values().map(|members| members.len() as u64).sum();
                out.tasks.push(Task { stripe, sectors, blocks });
            }
        }
        out
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Ready,
    /// md refused an order as busy; the order is repeated after a pause.
    Pausing,
    /// The limits were set.
    Set(Task),
    /// The check was begun, at that time; whether it was seen to run.
    Begun(Task, Duration, bool),
    /// The check is to end; whether it had come to the end of its range.
    Ending(Task, Duration, bool),
    /// The limits were restored.
    Restored,
    Done,
}

/// The healing of an array.
#[derive(Debug)]
pub struct Healing {
    tasks: VecDeque<Task>,
    state: State,
    /// Errors at the start.
    at_start: Option<BTreeMap<String, u64>>,
    /// Blocks of the stripes that were begun.
    blocks: u64,
    /// True if limits were set that are to be restored.
    limits: bool,
    /// The sector at the end of each member.
    end: u64,
    healed: Vec<u64>,
    why: Option<Reason>,
    /// Since when md has refused orders as busy, and whether it refused the last one.
    busy: Option<(Duration, bool)>,
}

impl Healing {
    /// A healing of some stripes of an array, with the number of sectors in use on each member.
    #[must_use]
    pub fn new(tasks: Vec<Task>, end: u64) -> Self {
        Self {
            tasks: tasks.into(),
            state: State::Ready,
            at_start: None,
            blocks: 0,
            limits: false,
            end,
            healed: Vec::new(),
            why: None,
            busy: None,
        }
    }

    /// Stripes that md has checked to their end.
    #[must_use]
    pub fn healed(&self) -> &[u64] {
        &self.healed
    }

    /// The reason why it ended before all stripes were checked; `None` if all were.
    #[must_use]
    pub const fn why(&self) -> Option<&Reason> {
        self.why.as_ref()
    }

    /// Ends the healing: no further stripe is begun, and the limits are restored.
    pub fn stop(&mut self) {
        self.give_up(Reason::Stopped);
    }

    /// Returns whether the limits have been restored, or were never set.
    #[must_use]
    pub const fn is_restored(&self) -> bool {
        !self.limits
    }

    /// md refused the last order as busy at `now` (`EBUSY`): it shows idle, but is still ending the
    /// last check. The order is repeated for at most [`BEGIN`].
    pub fn busy(&mut self, now: Duration) {
        let since = self.busy.map_or(now, |(since, _)| since);
        self.busy = Some((since, true));
        let too_long = now.saturating_sub(since) >= BEGIN;
        self.state = match std::mem::replace(&mut self.state, State::Done) {
            State::Set(task) | State::Begun(task, _, false) => {
                self.blocks -= task.blocks;
                self.tasks.push_front(task);
                if too_long {
                    self.busy = None;
                }
                State::Pausing
            }
            State::Ending(task, since, whole) if !too_long => State::Begun(task, since, whole),
            State::Restored => {
                self.limits = true;
                if too_long { State::Done } else { State::Pausing }
            }
            other => other,
        };
        if too_long {
            self.give_up(Reason::Silent);
        }
    }

    fn give_up(&mut self, why: Reason) {
        if !(self.tasks.is_empty() && self.state == State::Ready) {
            self.why.get_or_insert(why);
        }
        self.tasks.clear();
    }

    /// The next order to md, at `now` since any fixed moment. Call it again with md's new state
    /// when the order is carried out.
    pub fn next(&mut self, now: Duration, md: &Md) -> Order {
        self.busy = match self.busy {
            Some((since, true)) => Some((since, false)),
            _ => None,
        };
        match std::mem::replace(&mut self.state, State::Done) {
            State::Ready => self.ready(md),
            State::Pausing => {
                self.state = State::Ready;
                self.busy = self.busy.map(|(since, _)| (since, true));
                Order::Wait(PAUSE)
            }
            State::Set(task) => {
                let limits = (md.sync_min, md.sync_max);
                if self.why.is_some() {
                    return self.restore();
                }
                if limits != (task.sectors.start, Some(task.sectors.end)) {
                    self.give_up(Reason::Silent);
                    return self.restore();
                }
                self.state = State::Begun(task, now, false);
                Order::Check
            }
            State::Begun(task, since, seen) => self.begun(task, since, seen, now, md),
            State::Ending(task, since, whole) => match &md.action {
                SyncAction::Idle => {
                    if whole {
                        self.healed.push(task.stripe);
                    }
                    self.ready(md)
                }
                SyncAction::Check if now - since < PATIENCE => {
                    self.state = State::Ending(task, since, whole);
                    Order::Wait(PAUSE)
                }
                _ => {
                    self.give_up(Reason::Silent);
                    self.restore()
                }
            },
            State::Restored | State::Done => Order::Done,
        }
    }

    fn ready(&mut self, md: &Md) -> Order {
        if let Some(task) = self.tasks.front().cloned()
            && let Some(why) = self.objection(md, &task)
        {
            self.give_up(why);
        }
        let Some(task) = self.tasks.pop_front() else { return self.restore() };
        let (min, max) = (task.sectors.start, Some(task.sectors.end));
        self.blocks += task.blocks;
        self.limits = true;
        self.state = State::Set(task);
        Order::Limit { min, max }
    }

    fn begun(&mut self, task: Task, since: Duration, seen: bool, now: Duration, md: &Md) -> Order {
        let end = task.sectors.end;
        let at_end = md.completed.is_some_and(|sector| sector >= end);
        let waited = now.saturating_sub(since);
        match &md.action {
            // A check that comes to the end of the members ends by itself.
            SyncAction::Idle if seen || end >= self.end && waited >= PAUSE => {
                self.state = State::Ending(task, now, end >= self.end);
                Order::Wait(Duration::ZERO)
            }
            SyncAction::Idle if waited < BEGIN && self.why.is_none() => {
                self.state = State::Begun(task, since, false);
                Order::Wait(PAUSE)
            }
            SyncAction::Check if at_end || self.why.is_some() || waited >= PATIENCE => {
                if !at_end {
                    self.give_up(Reason::Silent);
                }
                self.state = State::Ending(task, now, at_end);
                Order::Idle
            }
            SyncAction::Check => {
                self.state = State::Begun(task, since, true);
                Order::Wait(PAUSE)
            }
            SyncAction::Idle => {
                self.give_up(Reason::Silent);
                self.restore()
            }
            SyncAction::Other(_) => {
                self.give_up(Reason::Degraded);
                self.restore()
            }
        }
    }

    fn restore(&mut self) -> Order {
        if !self.limits {
            self.state = State::Done;
            return Order::Done;
        }
        self.limits = false;
        self.state = State::Restored;
        Order::Limit { min: 0, max: None }
    }

    /// The reason not to heal a stripe, if any.
    fn objection(&mut self, md: &Md, task: &Task) -> Option<Reason> {
        if !md.runs {
            return Some(Reason::NotRunning);
        }
        if let SyncAction::Other(action) = &md.action {
            return Some(Reason::AtWork(action.clone()));
        }
        if md.action != SyncAction::Idle {
            return Some(Reason::AtWork("check".to_owned()));
        }
        if self.at_start.is_none() && (md.sync_min, md.sync_max) != (0, None) {
            return Some(Reason::Limited);
        }
        let at_start = self.at_start.get_or_insert_with(|| md.errors.clone());
        let same = md.errors.keys().eq(at_start.keys());
        if md.degraded > 0 || !same {
            return Some(Reason::Degraded);
        }
        let grown = |(member, errors): (&String, &u64)| {
            let before = at_start.get(member).copied().unwrap_or(0);
            let corrected = errors.saturating_sub(before).div_ceil(ERRORS_OF_BLOCK);
            // md reads a chunk at once: one block that is refused makes it correct all of them.
            let chunk = (task.sectors.end - task.sectors.start) / ERRORS_OF_BLOCK;
            (corrected + chunk > md.cache / 2).then(|| member.clone())
        };
        if self.blocks + task.blocks > md.cache / 2 {
            return Some(Reason::Enough);
        }
        md.errors.iter().find_map(grown).map(Reason::NoRoom)
    }
}

#[cfg(test)]
mod tests;

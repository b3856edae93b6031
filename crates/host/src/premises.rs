//! The premises of a pass: the devices and states that its result rests on. Rules P1 to P6 are in
//! `docs/design/premises.md`.
//!
//! Pure: looks at the array go in, with their time; the decision comes out.

use pumice_base::units::Rules;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The most by which the event count of a whole array moves between two looks without a change of
/// its state (P4).
const MOST_EVENTS: u64 = 4;
/// Longest time for which superblocks may be unreadable or contradict each other during a pass
/// (P3).
const PATIENCE: Duration = Duration::from_secs(10);

/// A member as a pass reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMember {
    /// Its role.
    pub role: u16,
    /// The device, as the operator calls it. It is no premise: names change.
    pub device: String,
    /// The UUID of the device in mdadm's form; `None` in superblocks of version 0.90.
    pub device_uuid: Option<String>,
    /// md's number of the device.
    pub number: u16,
    /// Bytes from the start of the device to the array's data.
    pub data_offset: u64,
    /// Stripes from 0 that are read from it: all, unless it is being rebuilt.
    pub stripes: u64,
}

/// The array as a pass reads it (P1). Roles without an entry are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Premises {
    /// The metadata version of its superblocks.
    pub metadata: String,
    /// The highest event count.
    pub events: u64,
    /// The members that are read, by role.
    pub members: Vec<ReadMember>,
    /// Roles that the superblocks give to devices that are not read.
    pub elsewhere: Vec<u16>,
}

/// The first difference between the premises of a pass and the array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The shape or identity of the array.
    Array(String),
    /// A member has left its role.
    Left {
        /// The role.
        role: u16,
        /// The device.
        device: String,
    },
    /// A role that was absent has a member.
    Joined {
        /// The role.
        role: u16,
        /// The device, if it is read.
        device: Option<String>,
    },
    /// Another device has the role.
    Replaced {
        /// The role.
        role: u16,
        /// The device before.
        before: String,
        /// The device now.
        now: String,
    },
    /// A member's data begin at another place.
    Moved {
        /// The role.
        role: u16,
        /// The device.
        device: String,
    },
    /// The array relies on less of a member than before: it is being rebuilt.
    Rebuilding {
        /// The role.
        role: u16,
        /// The device.
        device: String,
    },
    /// The array relies on more of a member than was read.
    Rebuilt {
        /// The role.
        role: u16,
        /// The device.
        device: String,
        /// The stripes of it that were read.
        read: u64,
    },
    /// The event count moved further than changes between clean and active move it.
    Events {
        /// Before.
        before: u64,
        /// Now.
        now: u64,
    },
    /// The superblocks could not be read and assembled.
    Unclear(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(what) => write!(f, "{what}"),
            Self::Left { role, device } => {
                write!(
                    f,
                    "member {role} ({device}) is no longer in the array, or another device has its role"
                )
            }
            Self::Joined { role, device: None } => write!(f, "member {role} was missing, and is present now"),
            Self::Joined { role, device: Some(device) } => {
                write!(f, "member {role} was absent, and is now {device}")
            }
            Self::Replaced { role, before, now } if before == now => {
                write!(f, "member {role} ({now}) was replaced by another device of the same name")
            }
            Self::Replaced { role, before, now } => write!(f, "member {role} was {before}, and is now {now}"),
            Self::Moved { role, device } => {
                write!(f, "the data of member {role} ({device}) have moved on it")
            }
            Self::Rebuilding { role, device } => write!(f, "member {role} ({device}) is being rebuilt"),
            Self::Rebuilt { role, device, read } => write!(
                f,
                "member {role} ({device}) was rebuilt further meanwhile, and only its stripes below {read} were read"
            ),
            Self::Events { before, now } => write!(
                f,
                "the event count went from {before} to {now}: the state of the array was changed and changed back"
            ),
            Self::Unclear(why) => write!(f, "{why}"),
        }
    }
}

impl Premises {
    /// The first difference of the array now from these premises, within a run. A rebuild that went
    /// on is one only at the `end` (P5).
    fn difference(&self, now: &Self, end: bool) -> Option<Difference> {
        if self.metadata != now.metadata {
            let (before, now) = (&self.metadata, &now.metadata);
            return Some(Difference::Array(format!("its metadata version was {before}, and is now {now}")));
        }
        let of = |all: &Self, role: u16| all.members.iter().find(|member| member.role == role).cloned();
        for before in &self.members {
            let (role, device) = (before.role, before.device.clone());
            let Some(now) = of(now, role) else { return Some(Difference::Left { role, device }) };
            if (&before.device_uuid, before.number) != (&now.device_uuid, now.number) {
                return Some(Difference::Replaced { role, before: device, now: now.device });
            }
            if before.data_offset != now.data_offset {
                return Some(Difference::Moved { role, device: now.device });
            }
            if now.stripes < before.stripes {
                return Some(Difference::Rebuilding { role, device: now.device });
            }
            if end && now.stripes > before.stripes {
                return Some(Difference::Rebuilt { role, device: now.device, read: before.stripes });
            }
        }
        let joined = now.members.iter().find(|member| of(self, member.role).is_none());
        if let Some(member) = joined {
            return Some(Difference::Joined { role: member.role, device: Some(member.device.clone()) });
        }
        let joined = now.elsewhere.iter().find(|role| !self.elsewhere.contains(role));
        joined.map(|role| Difference::Joined { role: *role, device: None })
    }

    /// Returns whether they can be those of an array of this shape.
    pub(crate) fn is_possible(&self, raid_disks: u16, stripes: u64) -> bool {
        let fits = |member: &ReadMember| member.role < raid_disks && member.stripes <= stripes;
        self.members.iter().all(fits) && self.members.windows(2).all(|pair| pair[0].role < pair[1].role)
    }

    /// The first difference that keeps a pass saved with these premises from being resumed (P6).
    #[must_use]
    pub fn differs_from(&self, now: &Self) -> Option<Difference> {
        // Both ways: each run reads the same stripes of each member.
        let difference = self.difference(now, true);
        // The numbers of version 0.90 are those of the roles: a replaced disk has the same.
        let unnamed = self.members.iter().any(|member| member.device_uuid.is_none());
        let moved = self.events.abs_diff(now.events) > 1;
        difference.or_else(|| {
            (unnamed && moved).then_some(Difference::Events { before: self.events, now: now.events })
        })
    }
}

/// Result of a look at the superblocks.
#[derive(Debug, Clone)]
pub(crate) enum SuperblocksNow {
    /// They make an array.
    Array {
        /// As it is now.
        now: Premises,
        /// Every role has a member that is in sync (P4).
        whole: bool,
        /// All superblocks have the same event count: no update is under way.
        settled: bool,
    },
    /// They make none, perhaps because they are being written one after another.
    Unclear(String),
    /// A member could not be read: it may have a bad sector there.
    Unreadable(String),
    /// The array is another one, or has another shape.
    Other(String),
}

/// Conclusion from a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// The premises hold.
    Yes,
    /// It cannot be said now: look again.
    Unknown(String),
    /// They do not.
    No(Difference),
}

/// Watches over the premises of a run.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    premises: Premises,
    /// The event count at the last look.
    events: u64,
    /// The array was whole at the last look.
    whole: bool,
    /// Since when no look could be decided.
    unclear_since: Option<Duration>,
    /// The rules, by their numbers.
    pub(crate) rules: Rules<u8>,
}

impl Watch {
    /// Over premises that were read when the run began; `whole` as in [`SuperblocksNow::Array`].
    pub(crate) fn new(premises: Premises, whole: bool) -> Self {
        Self { events: premises.events, premises, whole, unclear_since: None, rules: Rules::all() }
    }

    /// The event count when the run began.
    pub(crate) const fn first_events(&self) -> u64 {
        self.premises.events
    }

    /// The event count at the last look that could be decided.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    fn heeds(&self, rule: u8) -> bool {
        self.rules.keep(rule)
    }

    /// Takes a look that was made at `at`, a moment of the run. `end`: nothing is read after it.
    pub(crate) fn take(&mut self, at: Duration, seen: SuperblocksNow, end: bool) -> Conclusion {
        if !self.heeds(3) {
            return Conclusion::Yes;
        }
        match seen {
            SuperblocksNow::Other(what) => Conclusion::No(Difference::Array(what)),
            // Another look would not help.
            SuperblocksNow::Unreadable(why) if end => Conclusion::No(Difference::Unclear(why)),
            SuperblocksNow::Unreadable(why) => Conclusion::Unknown(why),
            SuperblocksNow::Unclear(why) => self.unclear(at, why),
            SuperblocksNow::Array { now, whole, settled } => {
                let end = end && self.heeds(5);
                if let Some(difference) = self.premises.difference(&now, end) {
                    return Conclusion::No(difference);
                }
                if !settled {
                    return self.unclear(at, "its superblocks are being written".to_owned());
                }
                let moved = now.events.abs_diff(self.events) > MOST_EVENTS;
                if moved && whole && self.whole && self.heeds(4) {
                    return Conclusion::No(Difference::Events { before: self.events, now: now.events });
                }
                (self.events, self.whole, self.unclear_since) = (now.events, whole, None);
                Conclusion::Yes
            }
        }
    }

    fn unclear(&mut self, at: Duration, why: String) -> Conclusion {
        let since = *self.unclear_since.get_or_insert(at);
        match at.saturating_sub(since) >= PATIENCE {
            true => Conclusion::No(Difference::Unclear(why)),
            false => Conclusion::Unknown(why),
        }
    }
}

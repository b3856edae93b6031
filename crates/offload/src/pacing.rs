//! The pace at which a node reads its drives for parity work, and its measured effect.

use crate::DriveId;

/// Rules for the start of background requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacePolicy {
    /// A request is sent as soon as it is worth its expected slowdown, within the goal.
    #[default]
    Priced,
    /// One after another, whatever the foreground does.
    BackToBack,
}

impl PacePolicy {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Priced, Self::BackToBack];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Priced => "priced",
            Self::BackToBack => "back-to-back",
        }
    }

    /// Returns whether it holds a goal, and so needs one.
    #[must_use]
    pub const fn holds_goal(self) -> bool {
        matches!(self, Self::Priced)
    }
}

impl std::str::FromStr for PacePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a policy: priced or back-to-back"))
    }
}

/// Most windows of a day that one request has.
pub const MAX_WINDOWS: usize = 8;
/// The window of two requests that have no time of day in common. Nobody can ask for it.
pub const NEVER: (u32, u32) = (0, 0);
/// Seconds of a day.
pub const DAY: u32 = 86_400;

/// A window of the day, such as `22:00-06:00`, in seconds from midnight; `24:00` is its end.
///
/// # Errors
/// Says how to write one.
pub fn parse_window(text: &str) -> Result<(u32, u32), String> {
    let wrong = || format!("'{text}' is not a window of the day: write HH:MM-HH:MM");
    let second = |text: &str| {
        let (hours, minutes) = text.trim().split_once(':')?;
        let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
        Some(hours.min(99) * 3600 + minutes.min(99) * 60).filter(|second| minutes < 60 && *second <= DAY)
    };
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let (from, to) = (second(from).ok_or_else(wrong)?, second(to).ok_or_else(wrong)?);
    if from == to || from == DAY {
        return Err(wrong());
    }
    Ok((from, to))
}

/// The pace of background requests, for each drive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PaceRequest {
    /// The rule for their start; if not given, the other fields decide.
    pub policy: Option<PacePolicy>,
    /// The average delay that foreground requests may suffer, in nanoseconds.
    pub slowdown_ns: Option<u64>,
    /// Most bytes a second from each drive.
    pub rate: Option<u64>,
    /// Times of day, in seconds from midnight UTC, during which they may start; one that ends
    /// before it begins runs over midnight. None means always.
    pub windows: Vec<(u32, u32)>,
}

impl PaceRequest {
    /// Returns whether no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The policy: the given one, or the one implied by the other fields.
    #[must_use]
    pub fn policy(&self) -> PacePolicy {
        let needed = if self.slowdown_ns.is_some() { PacePolicy::Priced } else { PacePolicy::BackToBack };
        self.policy.unwrap_or(needed)
    }

    /// Checks the fields against each other and their ranges.
    ///
    /// # Errors
    /// The name of an invalid field, and the reason.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        let policy = self.policy();
        if policy.holds_goal() && self.slowdown_ns.is_none() {
            return Err(("policy", format!("the policy '{}' needs a slowdown", policy.name())));
        }
        if !policy.holds_goal() && self.slowdown_ns.is_some() {
            return Err(("slowdown", format!("the policy '{}' does not use it", policy.name())));
        }
        if self.slowdown_ns.is_some_and(|ns| ns == 0 || ns > 10_000_000_000) {
            return Err(("slowdown", "it must be more than 0, and at most 10 s".to_owned()));
        }
        if self.rate.is_some_and(|rate| rate < 4096) {
            return Err(("rate", "it must be at least 4096 bytes a second".to_owned()));
        }
        if self.windows.len() > MAX_WINDOWS {
            return Err(("window", format!("{} of them, more than {MAX_WINDOWS}", self.windows.len())));
        }
        if self.windows.iter().any(|(from, to)| from == to || *from >= DAY || *to > DAY) {
            return Err(("window", "it must begin and end within a day, and must not be empty".to_owned()));
        }
        Ok(())
    }

    /// Both requests together: the lower goal, the lower rate, the times of day common to both, and
    /// the policy of `self` if it has one.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let lower = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let mut both = Self {
            policy: self.policy.or(other.policy),
            slowdown_ns: lower(self.slowdown_ns, other.slowdown_ns),
            rate: lower(self.rate, other.rate),
            windows: common(&self.windows, &other.windows),
        };
        // A goal that one of them has is held, whatever policy the other asked for.
        if both.slowdown_ns.is_some() && !both.policy().holds_goal() {
            both.policy = None;
        }
        both
    }
}

/// The times of day in the windows of both; [`NEVER`] if there are none.
fn common(one: &[(u32, u32)], other: &[(u32, u32)]) -> Vec<(u32, u32)> {
    match (one, other) {
        ([], windows) | (windows, []) => return windows.to_vec(),
        _ if one == other => return one.to_vec(),
        _ => {}
    }
    let (one, other) = (within_a_day(one), within_a_day(other));
    let overlap = |&(from, to): &(u32, u32)| {
        other.iter().map(move |(start, end)| (from.max(*start), to.min(*end))).filter(|(from, to)| from < to)
    };
    let both: Vec<(u32, u32)> = one.iter().flat_map(overlap).collect();
    if both.is_empty() { vec![NEVER] } else { both }
}

/// The same windows, in order, without any that runs over midnight, overlaps or touches another.
fn within_a_day(windows: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let halves = |&(from, to): &(u32, u32)| {
        if from <= to { [(from, to), (0, 0)] } else { [(from, DAY), (0, to)] }
    };
    let mut all: Vec<(u32, u32)> = windows.iter().flat_map(halves).filter(|(from, to)| from < to).collect();
    all.sort_unstable();
    all.dedup_by(|next, last| {
        let joined = next.0 <= last.1;
        if joined {
            last.1 = last.1.max(next.1);
        }
        joined
    });
    all
}

/// Measurements of one drive since its pacing began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PaceFigures {
    /// The drive.
    pub drive: DriveId,
    /// The first of the drives that share disks, and so a pacer, with it; itself if there is no
    /// earlier one. Bytes, requests and the oldest check are those of the drive; figures of
    /// foreground requests cover all of these drives together.
    pub paced_with: DriveId,
    /// Nanoseconds since then.
    pub elapsed_ns: u64,
    /// Background bytes.
    pub bytes: u64,
    /// Background requests.
    pub requests: u64,
    /// Foreground requests.
    pub foreground: u64,
    /// Foreground requests that met a background request.
    pub collisions: u64,
    /// Foreground requests with no background request near them.
    pub clear: u64,
    /// Their mean response time in nanoseconds.
    pub clear_mean_ns: u64,
    /// Foreground requests with background requests near them.
    pub met: u64,
    /// Their mean response time in nanoseconds.
    pub met_mean_ns: u64,
    /// The mean slowdown over all foreground requests, in nanoseconds, as charged to the goal.
    /// Chance can make it negative.
    pub slowdown_mean_ns: i64,
    /// Seconds since the least recently checked part of the drive was checked; `None` if nothing
    /// was checked since the node's start.
    pub oldest_check_s: Option<u64>,
    /// Nanoseconds until the hours begin at which reads for the caller may start: the hours of the
    /// node's configuration and of the caller's own request. 0 if they may start now; `u64::MAX` if
    /// there are no such hours. Always 0 from nodes that do not know it.
    pub closed_ns: u64,
    /// Nanoseconds until the rate allows another read, 0 if it does now. Always 0 from nodes that
    /// do not know it.
    pub owed_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_named() {
        let request = |policy, slowdown_ns, rate, windows: &[(u32, u32)]| PaceRequest {
            policy,
            slowdown_ns,
            rate,
            windows: windows.to_vec(),
        };
        let field = |request: PaceRequest| request.validate().map_err(|(field, _)| field);
        assert_eq!(field(request(None, Some(1_000_000), None, &[])), Ok(()));
        assert_eq!(field(request(None, None, Some(1 << 20), &[(79_200, 21_600)])), Ok(()));
        assert_eq!(field(request(Some(PacePolicy::BackToBack), None, None, &[])), Ok(()));
        assert_eq!(field(request(Some(PacePolicy::Priced), None, None, &[])), Err("policy"));
        assert_eq!(field(request(Some(PacePolicy::BackToBack), Some(1), None, &[])), Err("slowdown"));
        assert_eq!(field(request(None, Some(0), None, &[])), Err("slowdown"));
        assert_eq!(field(request(None, None, Some(1), &[])), Err("rate"));
        assert_eq!(field(request(None, None, None, &[(5, 5)])), Err("window"));
        assert_eq!(field(request(None, None, None, &[(0, DAY + 1)])), Err("window"));
        assert_eq!(field(request(None, None, None, &[(0, 1); 9])), Err("window"));
    }

    #[test]
    fn windows_are_read() {
        assert_eq!(parse_window("22:00-06:30"), Ok((79_200, 23_400)));
        assert_eq!(parse_window("00:00 - 24:00"), Ok((0, DAY)));
        for text in [
            "",
            "22-6",
            "22:00",
            "22:60-23:00",
            "25:00-26:00",
            "06:00-06:00",
            "24:00-01:00",
            "99999999:00-1:00",
        ] {
            assert!(parse_window(text).is_err(), "{text}");
        }
    }

    /// Every minute of the day, whatever windows two hosts have asked for, in either order.
    #[test]
    fn two_requests_have_the_times_that_both_have() {
        const MINUTES: [u32; 6] = [0, 1, 300, 720, 1300, 1440];
        let open = |windows: &[(u32, u32)], at: u32| {
            windows.is_empty()
                || windows.iter().any(|&(from, to)| {
                    if from < to { (from..to).contains(&at) } else { from != to && (at >= from || at < to) }
                })
        };
        let window = |from: u32, to: u32| (from * 60, to * 60);
        let mut all = vec![vec![]];
        for from in MINUTES {
            for to in MINUTES.into_iter().filter(|to| *to != from && from != 1440) {
                all.push(vec![window(from, to)]);
                all.push(vec![window(from, to), window(300, 720)]);
                all.push(vec![window(1300, 1), window(from, to), window(700, 701)]);
            }
        }
        for one in &all {
            for other in &all {
                let both = common(one, other);
                let wrong = (0..1440)
                    .map(|minute| minute * 60)
                    .find(|at| open(&both, *at) != (open(one, *at) && open(other, *at)));
                assert_eq!(wrong, None, "{one:?} and {other:?} are {both:?}");
            }
        }
        assert_eq!(common(&[(0, 60)], &[(60, 120)]), [NEVER]);
        assert_eq!(common(&[NEVER], &[(0, 120)]), [NEVER]);
    }

    #[test]
    fn two_requests_are_both_kept() {
        let gentle = PaceRequest { slowdown_ns: Some(5), ..PaceRequest::default() };
        let slow = PaceRequest {
            policy: Some(PacePolicy::BackToBack),
            rate: Some(1 << 20),
            windows: vec![(0, 60)],
            ..PaceRequest::default()
        };
        for both in [gentle.and(&slow), slow.and(&gentle)] {
            assert_eq!(
                (both.policy(), both.slowdown_ns, both.rate),
                (PacePolicy::Priced, Some(5), Some(1 << 20))
            );
            assert_eq!(both.windows, [(0, 60)]);
            assert_eq!(both.validate(), Ok(()));
        }
    }
}

//! The members that were absent from a pass, the reasons, and the number of remaining equations.

use crate::target::Target;
use pumice_base::units::Role;
use serde::Serialize;
use std::ops::Range;

/// The reasons why a member was absent from the check of some stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absence {
    /// It belongs to the array, but its device was not named.
    NotNamed,
    /// By md's own superblocks, the role has no member.
    Missing,
    /// It is being rebuilt, and the rebuild has not reached these stripes.
    Recovering,
}

/// A run of stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StripeRange {
    /// The first.
    pub start: u64,
    /// The one after the last.
    pub end: u64,
}

impl From<&Range<u64>> for StripeRange {
    fn from(range: &Range<u64>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A member that was absent from the check of some stripes of a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AbsentMember {
    /// Its role.
    pub role: u16,
    /// Reason for its absence.
    pub reason: Absence,
    /// Its device; `None` if none was named.
    pub device: Option<String>,
    /// The stripes of the range that were checked without it.
    pub stripes: StripeRange,
}

impl AbsentMember {
    /// The members that are absent in `range`, by role.
    #[must_use]
    pub fn all(target: &Target, range: &Range<u64>) -> Vec<Self> {
        let not_named = target.array().not_named();
        let roles = (0..target.roles() as u16).map(Role);
        let absent = roles.filter_map(|role| match target.member(role) {
            None => {
                let reason = if not_named.contains(&role) { Absence::NotNamed } else { Absence::Missing };
                Some(Self { role: role.0, reason, device: None, stripes: range.into() })
            }
            Some(member) if member.valid_stripes < range.end => Some(Self {
                role: role.0,
                reason: Absence::Recovering,
                device: Some(member.device.clone()),
                stripes: StripeRange { start: member.valid_stripes.max(range.start), end: range.end },
            }),
            Some(_) => None,
        });
        absent.collect()
    }
}

/// The number of equations of a stripe, and how many of them could be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Equations {
    /// With all members: 1 for RAID-4 and RAID-5, 2 for RAID-6.
    pub full: u16,
    /// With the members present: the smallest number over the stripes to be checked.
    pub left: u16,
    /// Stripes to be checked that had fewer than `full`.
    pub reduced_stripes: u64,
}

impl Equations {
    /// The equations over the runs of stripes of a pass; no run may cross a stripe at which the set
    /// of members changes.
    #[must_use]
    pub fn of(target: &Target, runs: &[Range<u64>]) -> Self {
        let most = |rows: usize| u16::try_from(rows).expect("a matrix has at most 8 rows");
        let full = most(target.layout().rows());
        let mut out = Self { full, left: full, reduced_stripes: 0 };
        // The answer for the last stretch between two borders: runs of it are the same.
        let borders = target.borders();
        let mut known: Option<(usize, (usize, usize))> = None;
        for run in runs {
            let stretch = borders.partition_point(|border| *border <= run.start);
            let (all, left) = match known {
                Some((of, equations)) if of == stretch => equations,
                _ => target.equations(run.start),
            };
            known = Some((stretch, (all, left)));
            out.left = out.left.min(most(left));
            if left < all {
                out.reduced_stripes += run.end - run.start;
            }
        }
        out
    }
}

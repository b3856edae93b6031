//! The stripes of an array that can be checked, and the reasons why others cannot.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Peekable;
use std::ops::Range;

use pumice_base::units::{SECTOR, StripeIndex};

use crate::arrangement::Arrangement;
use crate::assembly::{Array, Member};
use crate::bitmap::{Bitmap, Region};
use crate::ppl::Ppl;

/// Reasons for not checking a stripe. If several hold, the one that comes first here is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// Writes wait in the journal, or it cannot be said that none do.
    JournalPending,
    /// The array is not clean and nothing says where writes were under way.
    Unclean,
    /// A member that is being rebuilt has not come this far, and no parity is left without it.
    Recovering,
    /// A member's bad-block log covers part of the stripe.
    BadBlock,
    /// The stripe may have been half written, says the partial parity log.
    PplPending,
    /// Writes may be, or have been, under way, says the bitmap.
    Dirty,
    /// Parity is being built, or has to be.
    Syncing,
    /// Fewer than two of its copies are there.
    OneCopy,
    /// Never written, and parity never built.
    NeverWritten,
}

impl SkipReason {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::JournalPending,
        Self::Unclean,
        Self::Recovering,
        Self::BadBlock,
        Self::PplPending,
        Self::Dirty,
        Self::Syncing,
        Self::OneCopy,
        Self::NeverWritten,
    ];

    /// The reason in words for a person.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::JournalPending => "writes may wait in the journal",
            Self::Unclean => {
                "the array was not stopped cleanly, and nothing shows where writes were under way"
            }
            Self::Recovering => "a member is being rebuilt, and the rebuild has not reached it",
            Self::BadBlock => "a member's bad-block log covers part of it",
            Self::PplPending => "the partial parity log says that a write may have been cut short",
            Self::Dirty => "the bitmap says that writes may be under way",
            Self::Syncing => "parity or copies are being built, or are yet to be built",
            Self::OneCopy => "fewer than two of its copies are present",
            Self::NeverWritten => "never written, so parity or copies were never built",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JournalPending => "journal-pending",
            Self::Unclean => "unclean",
            Self::Recovering => "recovering",
            Self::BadBlock => "bad-block",
            Self::PplPending => "ppl-pending",
            Self::Dirty => "dirty",
            Self::Syncing => "syncing",
            Self::OneCopy => "one-copy",
            Self::NeverWritten => "never-written",
        })
    }
}

/// Treatments of a run of stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Treatment {
    /// Check them. The same roles are absent in all of them, see [`Array::absent`].
    Check,
    /// Leave them.
    Skip(SkipReason),
}

/// A run of stripes that are treated alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The stripes.
    pub stripes: Range<u64>,
    /// Their treatment.
    pub kind: Treatment,
}

/// Runs of stripes to skip for one cause, by ascending start.
type Runs<'a> = Peekable<Box<dyn Iterator<Item = (Range<u64>, SkipReason)> + 'a>>;

/// The extents of a range of stripes, in order, without gaps, each as long as can be.
pub struct Plan<'a> {
    at: u64,
    end: u64,
    sources: Vec<Runs<'a>>,
    /// Stripes at which the set of absent roles changes.
    cuts: Vec<u64>,
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("at", &self.at).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Array {
    /// Divides `range` (clipped to the array) into runs to check and runs to skip.
    ///
    /// The bits of a classic bitmap and the entries of a partial parity log count only where the
    /// array is not clean: a clean array has no write under way, and bits that are still set then
    /// tell what a *missing* member lacks. The states of a lockless bitmap always count, since they
    /// also say where parity was never built. Of an array that runs
    /// ([`assume_running`](Array::assume_running)), writes under way are no reason to leave a
    /// stripe out.
    #[must_use]
    pub fn plan(&self, range: Range<u64>) -> Plan<'_> {
        let stripes = self.geometry().stripes();
        let end = range.end.min(stripes);
        let mut sources: Vec<Runs<'_>> = Vec::new();
        let everything = |reason| source(std::iter::once((0..stripes, reason)));
        sources.push(match &self.journal_stripes {
            Some(stripes) => sorted(stripes.clone(), SkipReason::JournalPending),
            None => everything(SkipReason::JournalPending),
        });
        if self.needs_assume_settled() {
            sources.push(everything(SkipReason::Unclean));
        }
        let cut_off = self.unclean() && !self.running;
        let cuts = match self.geometry() {
            Arrangement::Parity(geometry) => {
                let mut cuts: Vec<u64> =
                    self.members().iter().flatten().map(|m| m.valid_stripes(self.geometry())).collect();
                cuts.retain(|cut| *cut < stripes);
                cuts.sort_unstable();
                let gone = self.members().iter().filter(|m| m.is_none()).count();
                let spare = usize::from(geometry.level().parities()).saturating_sub(1 + gone);
                if let Some(first) = cuts.get(spare) {
                    sources.push(source(std::iter::once((*first..stripes, SkipReason::Recovering))));
                }
                cuts
            }
            Arrangement::Mirrors(mirrors) => {
                let absent: Vec<usize> =
                    self.absent(StripeIndex(0)).iter().map(|role| role.index()).collect();
                sources.push(sorted(mirrors.stripes_without_a_second_copy(&absent), SkipReason::OneCopy));
                let bands = mirrors.layout().bands();
                bands.iter().map(|band| band.stripes.start).filter(|start| *start > 0).collect()
            }
        };
        for member in self.members().iter().flatten() {
            sources.push(sorted(self.bad_stripes(member), SkipReason::BadBlock));
            if let Some(ppl) = member.record.ppl.as_ref().filter(|_| cut_off) {
                sources.push(sorted(self.ppl_stripes(ppl), SkipReason::PplPending));
            }
        }
        let counting = self.bitmaps.iter().filter(|b| cut_off || b.is_lockless());
        sources.extend(counting.flat_map(|bitmap| self.bitmap_stripes(bitmap)));
        Plan { at: range.start.min(end), end, sources, cuts }
    }

    /// The stripes that a member's bad-block log touches.
    fn bad_stripes(&self, member: &Member) -> Vec<Range<u64>> {
        let start = member.data_offset_bytes() / SECTOR;
        let bad = member.record.bad_blocks.iter();
        // A bad block before the data area concerns no stripe.
        let within = bad.filter(|area| area.end() > start);
        within
            .flat_map(|area| {
                let sectors = area.start.saturating_sub(start)..area.end() - start;
                self.geometry().stripes_of_member(member.role.index(), sectors)
            })
            .collect()
    }

    fn ppl_stripes(&self, ppl: &Ppl) -> Vec<Range<u64>> {
        match ppl {
            Ppl::Pending(entries) => match self.geometry().parity() {
                Some(geometry) => entries.iter().map(|entry| entry.stripes(geometry)).collect(),
                // A superblock of another level has no such log.
                None => Vec::new(),
            },
            Ppl::Unreadable(_) => std::iter::once(0..self.geometry().stripes()).collect(),
        }
    }

    /// The stripes that a bitmap keeps from being checked, a source for each reason at least.
    fn bitmap_stripes<'a>(&'a self, bitmap: &'a Bitmap) -> Vec<Runs<'a>> {
        let reason = |region| match region {
            Region::Clean => None,
            Region::Dirty if self.running => None,
            Region::Dirty => Some(SkipReason::Dirty),
            Region::NeedSync | Region::Syncing => Some(SkipReason::Syncing),
            Region::NeverWritten => Some(SkipReason::NeverWritten),
        };
        if let Some(geometry) = self.geometry().parity() {
            return vec![source(bitmap.runs().filter_map(move |(sectors, region)| {
                Some((geometry.stripes_of_sectors(sectors.start, sectors.end), reason(region)?))
            }))];
        }
        // A region names stripes of every band, which are not in the order of the regions.
        let mut named: BTreeMap<SkipReason, Vec<Range<u64>>> = BTreeMap::new();
        for (sectors, region) in bitmap.runs() {
            let Some(reason) = reason(region) else { continue };
            named.entry(reason).or_default().extend(self.geometry().stripes_of_resync(sectors));
        }
        named.into_iter().map(|(reason, stripes)| sorted(stripes, reason)).collect()
    }
}

fn source<'a>(runs: impl Iterator<Item = (Range<u64>, SkipReason)> + 'a) -> Runs<'a> {
    (Box::new(runs) as Box<dyn Iterator<Item = _>>).peekable()
}

/// Ranges in any order as runs in order, those that touch made one.
fn sorted<'a>(mut ranges: Vec<Range<u64>>, reason: SkipReason) -> Runs<'a> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    source(merged.into_iter().map(move |range| (range, reason)))
}

impl Plan<'_> {
    /// The reason that holds at stripe `at` and the next stripe at which anything changes. To be
    /// asked in ascending order.
    fn look(&mut self, at: u64) -> (Option<SkipReason>, u64) {
        let mut reason: Option<SkipReason> = None;
        let mut until = self.end;
        for runs in &mut self.sources {
            while runs.next_if(|(range, _)| range.end <= at).is_some() {}
            let Some((range, why)) = runs.peek() else { continue };
            if range.start <= at {
                until = until.min(range.end);
                reason = Some(reason.map_or(*why, |other| other.min(*why)));
            } else {
                until = until.min(range.start);
            }
        }
        let next_cut = self.cuts.iter().copied().find(|cut| *cut > at);
        (reason, next_cut.map_or(until, |cut| until.min(cut)))
    }
}

impl Iterator for Plan<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        if self.at >= self.end {
            return None;
        }
        let start = self.at;
        let (reason, mut until) = self.look(start);
        while until < self.end {
            let (next, further) = self.look(until);
            if next != reason || (reason.is_none() && self.cuts.contains(&until)) {
                break;
            }
            until = further;
        }
        self.at = until;
        Some(Extent { stripes: start..until, kind: reason.map_or(Treatment::Check, Treatment::Skip) })
    }
}

//! The oracle: what a repair may have done to a stripe, and what it must have done.

use crate::faults::{Planted, SECTOR};
use crate::world::World;
use pumice_host::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, Range};

const BLOCK: u64 = 4096;
/// Bytes of an exchange that may look out of another member's damage unseen: fewer than the four in
/// a row of R13, on either side.
const UNSEEN: usize = 6;

/// A stripe before the faults, after them, and after the repair.
pub(crate) struct Case<'c> {
    pub(crate) world: &'c World,
    pub(crate) stripe: u64,
    pub(crate) planted: &'c Planted,
    pub(crate) good: &'c [Vec<u8>],
    pub(crate) bad: &'c [Vec<u8>],
    pub(crate) now: &'c [Vec<u8>],
    /// Roles that the repair did not have.
    pub(crate) missing: &'c [u16],
    /// Members that may be lost in a byte and still follow from the others.
    pub(crate) redundancy: usize,
    pub(crate) findings: Vec<&'c Finding>,
}

/// Counts of cases by their end.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) cases: u64,
    /// As before the faults.
    pub(crate) restored: u64,
    /// As the faults left them.
    pub(crate) untouched: u64,
    /// Good readable bytes made bad, in damage that was overwritten by read-modify-write: no
    /// property of the bytes tells it from damage of a member.
    pub(crate) overwritten: u64,
    /// Good readable bytes made bad under the printed assumption that two members are not hit in
    /// the very same bytes.
    pub(crate) assumed: u64,
    /// Good readable bytes made bad where three members are silently damaged: beyond the code. An
    /// exchange that lies under the damage of a third member shows in fewer bytes than R13 needs.
    pub(crate) beyond: u64,
    /// Readable bytes that were bad, and are bad otherwise: a wrong verdict about a member that is
    /// damaged too.
    pub(crate) otherwise_bad: u64,
    /// Sectors that could not be read rebuilt wrongly: silent damage within them, and no equation
    /// left.
    pub(crate) rebuilt_wrong: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.restored += other.restored;
        self.untouched += other.untouched;
        self.overwritten += other.overwritten;
        self.assumed += other.assumed;
        self.beyond += other.beyond;
        self.otherwise_bad += other.otherwise_bad;
        self.rebuilt_wrong += other.rebuilt_wrong;
    }
}

impl Case<'_> {
    fn roles(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.good.len() as u16).filter(|role| !self.missing.contains(role))
    }

    fn is_lost(&self, role: u16, at: u64) -> bool {
        self.planted.lost.contains(&(role, at / SECTOR))
    }

    fn blocks(&self) -> u64 {
        self.world.chunk().div_ceil(BLOCK)
    }

    /// Returns whether a member is damaged on both sides of a byte that happens to be right: the
    /// damage left it as it was by chance.
    fn is_damaged_around(&self, role: u16, at: usize) -> bool {
        let (good, bad) = (&self.good[usize::from(role)], &self.bad[usize::from(role)]);
        let differs = |range: Range<usize>| range.clone().any(|i| good[i] != bad[i]);
        differs(at.saturating_sub(64)..at) && differs(at..(at + 64).min(good.len()))
    }

    /// The members with wrong bytes in a block that read well.
    fn silent(&self, block: u64) -> BTreeSet<u16> {
        self.silent_in(block * BLOCK..((block + 1) * BLOCK).min(self.world.chunk()))
    }

    fn silent_in(&self, range: Range<u64>) -> BTreeSet<u16> {
        let differs = |role: &u16| {
            let (good, bad) = (&self.good[usize::from(*role)], &self.bad[usize::from(*role)]);
            let bytes = range.start as usize..range.end as usize;
            good[bytes.clone()] != bad[bytes]
                && range.clone().any(|at| good[at as usize] != bad[at as usize] && !self.is_lost(*role, at))
        };
        self.roles().filter(differs).collect()
    }

    fn context(&self) -> String {
        let brief = |f: &&Finding| {
            format!(
                "{:?} {:?}{:?} {}+{} {:?} {:?} repaired {} {:?}\n",
                f.verdict,
                f.member,
                f.members,
                f.chunk_offset,
                f.length,
                f.strength,
                f.doubts,
                f.repaired,
                f.left_alone
            )
        };
        let findings: String = self.findings.iter().map(brief).collect();
        let (stripe, missing, faults) = (self.stripe, self.missing, &self.planted.faults);
        format!("stripe {stripe}, without {missing:?}: {faults:?}\n{findings}")
    }

    /// Judges the stripe.
    ///
    /// # Panics
    /// If the repair did what it must not, or failed to do what it must.
    pub(crate) fn judge(&self) -> Tally {
        let mut out = Tally { cases: 1, ..Tally::default() };
        let (mut made_bad, mut rebuilt_wrong) = (BTreeMap::new(), BTreeSet::new());
        for role in self.roles() {
            let index = usize::from(role);
            if [&self.good[index], &self.bad[index]].contains(&&self.now[index]) {
                continue;
            }
            for at in 0..self.world.chunk() {
                let i = at as usize;
                let (good, bad, now) = (self.good[index][i], self.bad[index][i], self.now[index][i]);
                let new = self.planted.torn.as_ref().map_or(good, |new| new[index][i]);
                if now == good || now == new || now == bad {
                    continue;
                }
                if self.is_lost(role, at) {
                    rebuilt_wrong.insert((role, at / SECTOR));
                } else if bad == good && !self.is_damaged_around(role, i) {
                    *made_bad.entry(at / BLOCK).or_insert(0) += 1;
                } else {
                    out.otherwise_bad = 1;
                }
            }
        }
        if !made_bad.is_empty() {
            self.explain(&made_bad, &mut out);
        }
        for (_, sector) in &rebuilt_wrong {
            let lost = |role: &u16| self.planted.lost.contains(&(*role, *sector));
            let left = self.redundancy - self.missing.len() - self.roles().filter(lost).count();
            let wrong = self.silent_in(sector * SECTOR..(sector + 1) * SECTOR).len();
            assert!(wrong > left, "an equation sees it, sector {sector}: {}", self.context());
        }
        out.rebuilt_wrong = u64::from(!rebuilt_wrong.is_empty());
        self.demand();
        let same = |other: &[Vec<u8>]| {
            self.roles().all(|role| self.now[usize::from(role)] == other[usize::from(role)])
        };
        out.restored = u64::from(same(self.good));
        out.untouched = u64::from(same(self.bad) && out.restored == 0);
        out
    }

    /// Good bytes made bad: only within the bounds that the report states.
    fn explain(&self, blocks: &BTreeMap<u64, usize>, out: &mut Tally) {
        if self.planted.overwritten {
            out.overwritten = 1;
            return;
        }
        for (block, bytes) in blocks {
            let covers = |f: &&&Finding| {
                f.repaired
                    && f.names_a_member()
                    && f.chunk_offset / BLOCK <= *block
                    && *block <= (f.chunk_offset + f.length - 1) / BLOCK
            };
            let finding = self.findings.iter().find(covers);
            let finding = finding.unwrap_or_else(|| panic!("nothing was repaired: {}", self.context()));
            let silent = self.silent(*block).len();
            assert!(silent >= 2, "one damaged member: {}", self.context());
            if finding.assumes_one_hit {
                out.assumed = 1;
            } else {
                assert!(silent > 2 && *bytes <= UNSEEN, "good bytes made bad: {}", self.context());
                out.beyond = 1;
            }
        }
    }

    /// Lost sectors within the distance, in a block without silent damage, must be back.
    fn demand(&self) {
        let per_block = BLOCK / SECTOR;
        for block in (0..self.blocks()).filter(|block| self.silent(*block).is_empty()) {
            let end = ((block + 1) * BLOCK).min(self.world.chunk()) / SECTOR;
            for sector in block * per_block..end {
                let lost: Vec<u16> =
                    self.roles().filter(|role| self.planted.lost.contains(&(*role, sector))).collect();
                if lost.len() + self.missing.len() > self.redundancy {
                    continue;
                }
                for role in lost {
                    let place = (self.world.place(self.stripe, sector * SECTOR) / SECTOR) as usize;
                    let back = !self.world.devices[usize::from(role)].lost_sectors().contains(&place);
                    assert!(back, "member {role} sector {sector} is not back: {}", self.context());
                }
            }
        }
    }
}

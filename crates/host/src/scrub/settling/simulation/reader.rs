//! A scrub of the simulated array, which carries out the machine's actions in virtual time.

use super::config::{Kept, MS, S};
use super::world::{REGION, Super, World};
use crate::finding::Clause;
use crate::scrub::settling::{
    Action, ArrayNow, Decision, Event, HeldBy, HostsSeen, Look, Patience, Records, Settling, Standing, Word,
};
use pumice_base::units::Rules;
use pumice_offload::Activity;
use std::collections::BTreeMap;
use std::time::Duration;

/// Stripes of a batch.
const BATCH: usize = 4;

/// Results of passes.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    pub(super) passes: u64,
    pub(super) refused: u64,
    pub(super) stripes: u64,
    /// Of those, whose bit was set.
    pub(super) marked: u64,
    /// Stripes that looked inconsistent at first.
    pub(super) suspects: u64,
    pub(super) consistent: u64,
    pub(super) findings: u64,
    pub(super) busy: BTreeMap<Clause, u64>,
    /// Stripes that the pass left out from the first.
    pub(super) skipped: u64,
    /// Stripes that were damaged from their first check on.
    pub(super) damaged: u64,
    pub(super) damaged_found: u64,
    /// Those of them that were busy. The others settled, and each was found: else the pass fails.
    pub(super) damaged_busy: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.passes += other.passes;
        self.refused += other.refused;
        self.stripes += other.stripes;
        self.marked += other.marked;
        self.suspects += other.suspects;
        self.consistent += other.consistent;
        self.findings += other.findings;
        other.busy.iter().for_each(|(clause, n)| *self.busy.entry(*clause).or_default() += n);
        self.damaged += other.damaged;
        self.damaged_found += other.damaged_found;
        self.damaged_busy += other.damaged_busy;
        self.skipped += other.skipped;
    }

    pub(super) fn busy(&self) -> u64 {
        self.busy.values().sum()
    }
}

fn moment(now: u64) -> Duration {
    Duration::from_micros(now)
}

pub(super) struct Reader<'w> {
    world: &'w mut World,
    /// Without this clause.
    without: Option<Clause>,
    /// The array as the pass knows it.
    then: Super,
    valid: Vec<usize>,
    /// The drives that it reads, by role.
    drives: Vec<usize>,
    /// The last syndrome of each stripe, and whether it was inconsistent all the while.
    last: BTreeMap<u64, (Option<u64>, bool)>,
}

impl<'w> Reader<'w> {
    /// One pass; what is said that is not so, if anything is.
    pub(super) fn pass(
        world: &'w mut World,
        without: Option<Clause>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        tally.passes += 1;
        let then = world.supers.iter().max_by_key(|s| s.events).copied().expect("members");
        let drives = then.drives[..world.config.members].to_vec();
        let valid = drives.iter().map(|drive| world.supers[*drive].valid).collect();
        let mut reader = Reader { world, without, then, valid, drives, last: BTreeMap::new() };
        let Some((mut standing, skipped)) = reader.begin() else {
            tally.refused += 1;
            return Ok(());
        };
        let stripes = reader.world.config.stripes;
        tally.skipped += skipped.iter().filter(|skipped| **skipped).count() as u64;
        let mut busy = Vec::new();
        // Damage that each stripe had when it was checked first.
        let mut had = BTreeMap::new();
        for start in (0..stripes).step_by(BATCH) {
            let mut suspects = Vec::new();
            for stripe in (start..(start + BATCH).min(stripes)).filter(|stripe| !skipped[*stripe]) {
                tally.stripes += 1;
                let is_marked = |drive: &usize| reader.world.bits[*drive][stripe / REGION];
                tally.marked += u64::from(reader.drives.iter().any(is_marked));
                let before = reader.world.damage[stripe];
                let look = reader.look(stripe);
                let stands = before != 0 && reader.world.damage[stripe] == before;
                match look.seen {
                    Some(_) => suspects.push(stripe as u64),
                    // Not every damage stands: a write that puts back what a block held before it
                    // was damaged moves the damage to another member, and half done it fits.
                    None if stands && reader.last.get(&(stripe as u64)).is_some_and(|last| last.1) => {
                        return Err(format!("the damage of stripe {stripe} was not seen"));
                    }
                    None => {}
                }
                if stands && look.seen.is_some() {
                    had.insert(stripe, before);
                }
            }
            tally.suspects += suspects.len() as u64;
            for (stripe, decision) in reader.settle(&mut standing, Patience::Batch, &suspects) {
                match decision {
                    Decision::Busy(..) => busy.push(stripe),
                    decision => reader.judge(stripe, &decision, &had, tally)?,
                }
            }
        }
        for (stripe, decision) in reader.settle(&mut standing, Patience::End, &busy) {
            reader.judge(stripe, &decision, &had, tally)?;
        }
        Ok(())
    }

    fn judge(
        &self,
        stripe: u64,
        decision: &Decision<u64>,
        had: &BTreeMap<usize, u64>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let at = stripe as usize;
        let had = had.get(&at).filter(|damage| self.world.damage[at] == **damage);
        tally.damaged += u64::from(had.is_some());
        match decision {
            Decision::Consistent => {
                tally.consistent += 1;
                let last = self.last.get(&stripe);
                if had.is_some() && last.is_some_and(|last| last.1) {
                    return Err(format!("the damage of stripe {stripe} was called consistent"));
                }
                if last.is_none_or(|last| last.0.is_some()) && self.without.is_none() {
                    return Err(format!("stripe {stripe} was called consistent, and did not look so"));
                }
            }
            Decision::Finding(seen) => {
                tally.findings += 1;
                if !self.world.ever[at].contains(seen) {
                    return Err(format!("stripe {stripe} is not damaged so: a false finding"));
                }
                tally.damaged_found += u64::from(had.is_some());
            }
            Decision::Busy(_, clause) => {
                tally.damaged_busy += u64::from(had.is_some());
                *tally.busy.entry(*clause).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Conclusion of `pumice scrub` before a pass; `None` if it refuses, else also the stripes that
    /// it leaves out.
    fn begin(&mut self) -> Option<(Standing, Vec<bool>)> {
        let config = self.world.config.clone();
        let first = self.hosts();
        let evidence = self.array(&(0..config.stripes as u64).collect::<Vec<_>>());
        let reshaped = self.then.shape != 0;
        if !evidence.same
            || reshaped
            || self.then.faulty != 0
            || self.valid.iter().any(|v| *v != config.stripes)
        {
            return None;
        }
        let unclean = !evidence.clean;
        let nobody = first.is_nobody();
        let by_hosts = config.counted && unclean && !nobody && first.is_same_everywhere();
        let here = !config.counted && self.world.is_settled_here();
        let operator =
            unclean && config.kept == Kept::Nothing && !by_hosts && !here && !config.begins_cut_off;
        // The operator knows.
        let operator = operator && config.crash.is_none() && config.counted && !nobody;
        let running = unclean && (by_hosts || here);
        let recorded = config.kept != Kept::Nothing;
        if unclean && !running && !recorded && !operator {
            return None;
        }
        let skips = |stripe: u64| {
            let held = evidence.held.get(&stripe);
            held == Some(&HeldBy::Journal) || unclean && !running && held.is_some()
        };
        let skipped = (0..config.stripes as u64).map(skips).collect();
        let in_use = config.counted || self.world.is_assembled();
        let mut standing = Standing {
            in_use,
            settle: Duration::from_secs(3),
            run_by_hosts: by_hosts,
            running,
            counted: config.counted,
            word: None,
            clauses: self.without.map_or(Rules::all(), Rules::silently_without),
        };
        if operator {
            standing.word = Some(Word { events: None, hosts: first });
        } else if config.counted {
            standing.note(&first, &evidence);
        } else if here {
            standing.word = Some(Word { events: Some(evidence.events), hosts: first });
        }
        Some((standing, skipped))
    }

    fn settle(
        &mut self,
        standing: &mut Standing,
        patience: Patience,
        suspects: &[u64],
    ) -> Vec<(u64, Decision<u64>)> {
        let mut out = Vec::new();
        let mut settling = Settling::new(standing, patience, suspects.iter().copied());
        loop {
            let event = match settling.next() {
                Action::Done => return out,
                Action::Decide(stripe, decision) => {
                    out.push((stripe, decision));
                    continue;
                }
                Action::AskHosts => Event::Hosts(self.hosts()),
                Action::Look(stripe) => Event::Looked(self.look(stripe as usize)),
                Action::ReadArray(stripes) => Event::Array(self.array(&stripes)),
                Action::WaitUntil(until) => {
                    let until = u64::try_from(until.as_micros()).unwrap_or(u64::MAX);
                    self.world.advance(until.saturating_sub(self.world.now));
                    Event::Time(moment(self.world.now))
                }
            };
            settling.take(event);
        }
    }

    /// Lets a short time pass, now and then a long one.
    fn pass_time(&mut self, short: u64, long: u64) {
        let slow = self.world.random.percent(self.world.config.slow_looks);
        let by = self.world.random.below(if slow { long } else { short });
        self.world.advance(by);
    }

    /// The drives on a node.
    fn drives_of(&self, k: usize) -> Vec<usize> {
        self.drives.iter().copied().filter(|drive| self.world.node_of(*drive) == k).collect()
    }

    fn look(&mut self, stripe: usize) -> Look<u64> {
        let config = self.world.config.clone();
        let mut activity = Vec::new();
        let mut sum = 0;
        let begun = self.world.all_writes(stripe);
        for k in 0..config.nodes {
            let epoch = self.world.epoch(k);
            let before = self.world.counters(k, stripe, &self.drives);
            for drive in self.drives_of(k) {
                self.pass_time(5 * MS, 2 * S);
                sum ^= self.world.disk[stripe][drive];
            }
            let after = self.world.counters(k, stripe, &self.drives);
            // A node that was started anew meanwhile fails the look; here it only says nothing.
            let epoch = if self.world.epoch(k) == epoch { epoch } else { u64::MAX };
            activity.push(config.counted.then_some(Activity { epoch, before, after }));
        }
        let seen = (sum != 0).then_some(sum);
        let ended = self.world.all_writes(stripe);
        let is_quiet = begun == ended && begun.started == begun.completed;
        let stands = is_quiet && self.world.syndrome(stripe, &self.drives) != 0;
        self.last.insert(stripe as u64, (seen, stands));
        Look { ended: moment(self.world.now), activity, seen }
    }

    fn hosts(&mut self) -> HostsSeen {
        let asked = moment(self.world.now);
        let config = self.world.config.clone();
        let mut saw_clean = config.counted;
        let mut nodes = Vec::new();
        for k in 0..config.nodes {
            self.pass_time(3 * MS, S);
            nodes.push(self.world.hosts(k));
            self.pass_time(3 * MS, S);
            saw_clean &= self.drives_of(k).into_iter().all(|drive| self.world.saw_clean(drive));
        }
        HostsSeen { asked, nodes, saw_clean }
    }

    fn journal(&mut self, stripes: &[u64]) -> BTreeMap<u64, HeldBy> {
        self.pass_time(5 * MS, 2 * S);
        let named = stripes.iter().filter(|stripe| self.world.journal.contains_key(&(**stripe as usize)));
        named.map(|stripe| (*stripe, HeldBy::Journal)).collect()
    }

    /// Reads superblocks, and what counts beside them, one member after another.
    fn array(&mut self, stripes: &[u64]) -> ArrayNow {
        let config = self.world.config.clone();
        let mut held: BTreeMap<u64, HeldBy> = match config.kept {
            Kept::Journal => self.journal(stripes),
            _ => BTreeMap::new(),
        };
        let mut supers = Vec::new();
        let mut marked = Vec::new();
        for drive in self.drives.clone() {
            self.pass_time(5 * MS, 3 * S);
            supers.push(self.world.supers[drive]);
            if !supers.iter().all(|s| s.clean) {
                self.pass_time(5 * MS, 3 * S);
                for stripe in stripes {
                    let at = *stripe as usize;
                    let bit = config.kept == Kept::Bitmap && self.world.bits[drive][at / REGION];
                    let log = config.kept == Kept::Ppl && self.world.logs[drive][at] != 0;
                    let what = if log { HeldBy::Ppl } else { HeldBy::Bitmap };
                    marked.extend((bit || log).then_some((*stripe, what)));
                }
            }
        }
        let newest = *supers.iter().max_by_key(|s| s.events).expect("members");
        let current = supers.iter().all(|s| s.events == newest.events);
        let same = supers.iter().map(|s| s.valid).eq(self.valid.iter().copied())
            && current
            && !newest.at
            && (newest.shape, newest.faulty, newest.drives)
                == (self.then.shape, self.then.faulty, self.then.drives);
        if !newest.clean {
            held.extend(marked);
        }
        ArrayNow {
            same,
            clean: newest.clean,
            events: newest.events,
            records: match config.kept {
                Kept::Nothing => Records::None,
                Kept::Bitmap => Records::Bitmap,
                Kept::Ppl => Records::Ppl,
                Kept::Journal => Records::Journal,
            },
            held,
        }
    }
}

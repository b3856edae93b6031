//! Checks a run of stripes by one of the four methods. The result: suspect stripes, and stripes
//! with unreadable places.
//!
//! A check does not diagnose; [`examine`](super::examine) does, for the suspects alone.

use super::checked::Checked;
use super::conventional::Conventional;
use crate::Method;
use crate::error::HostError;
use crate::relay::bring;
use crate::target::{Share, View};
use pumice_base::telemetry::Ledger;
use pumice_offload::{
    ErrorKind, Grant, MemoryAddress, Mode, NodeError, ParityCommand, ParityResult, Rule, Source, Transfer,
    Window,
};
use pumice_parity::fingerprint::{Decoded, PowerSums};
use pumice_parity::kernels::Kernels;
use pumice_parity::seed::Seed;
use std::ops::Range;

/// Accumulators while halving a bad batch: enough that the chance to lose a stripe stays
/// negligible.
const HALVING_ACCUMULATORS: u8 = 8;
/// Windows are widened to whole blocks, the unit of a verdict.
const BLOCK: u32 = 4096;

/// The common state of checks.
pub(crate) struct Checker<'p> {
    pub(crate) view: &'p View,
    pub(crate) chunk: u32,
    pub(crate) accumulators: u8,
    pub(crate) powers: u8,
    pub(crate) seed: &'p Seed,
    pub(crate) kernels: Kernels,
}

impl Checker<'_> {
    /// Checks a run of stripes.
    ///
    /// # Errors
    /// If a node fails for a reason other than unreadable media.
    pub(crate) fn check(&self, method: Method, stripes: Range<u64>) -> Result<Checked, HostError> {
        let mut out = Checked::default();
        match (method, self.view.shares.len()) {
            (Method::Host, _) => {
                Conventional { view: self.view, chunk: self.chunk, kernels: self.kernels }
                    .check(stripes, &mut out)?;
            }
            (Method::Stripe, 1) => self.exact(stripes, &mut out)?,
            (Method::Stripe, _) => self.interims(stripes, &mut out)?,
            (Method::Aggregate, _) => self.aggregate(stripes, &mut out)?,
            (Method::Fingerprint, _) => self.fingerprint(stripes, &mut out)?,
        }
        // A stripe with a hole is looked at byte by byte anyway.
        out.suspects.retain(|stripe| !out.holes.contains_key(stripe));
        Ok(out)
    }

    fn whole(&self) -> Window {
        Window { start: 0, len: self.chunk }
    }

    fn command(&self, share: &Share, stripes: Range<u64>, window: Window, mode: Mode) -> ParityCommand {
        self.view.command(share, stripes, window, mode)
    }

    /// All members on one node: every row of every stripe, exactly.
    fn exact(&self, stripes: Range<u64>, out: &mut Checked) -> Result<(), HostError> {
        let share = &self.view.shares[0];
        let first = stripes.start;
        let result = share.node.parity(&self.command(share, stripes.clone(), self.whole(), Mode::Check))?;
        out.account(self.view, share, stripes, &result);
        out.suspects.extend(result.nonzero.ones().map(|bit| first + bit));
        Ok(())
    }

    /// Members on several nodes, stripe by stripe: weighted interims meet in the collector's
    /// memory.
    fn interims(&self, stripes: Range<u64>, out: &mut Checked) -> Result<(), HostError> {
        let t = u64::from(self.accumulators);
        let room = self.accumulators_that_fit(self.chunk) / t;
        if room == 0 {
            return Err(self.too_large());
        }
        let mut start = stripes.start;
        while start < stripes.end {
            let end = stripes.end.min(start.saturating_add(room));
            let (first, count) = (start, end - start);
            self.meet(start..end, self.whole(), count * t, out, |into| Mode::Interims {
                into,
                seed: self.seed.clone(),
                accumulators: self.accumulators,
            })?
            .nonzero
            .ones()
            .for_each(|bit| {
                out.suspects.insert(first + bit / t);
            });
            start = end;
        }
        Ok(())
    }

    /// Every node folds its members into its own memory; the others send theirs to the first, the
    /// collector, which sums `repetitions` chunks of `window.len` bytes and reports which are not
    /// zero.
    fn meet(
        &self,
        stripes: Range<u64>,
        window: Window,
        repetitions: u64,
        out: &mut Checked,
        mode: impl Fn(MemoryAddress) -> Mode + Sync,
    ) -> Result<ParityResult, HostError> {
        let shares = &self.view.shares;
        let own = |share: &Share| MemoryAddress { drive: share.memory_drive, offset: 0 };
        let results = on_each(shares, |share| {
            share.node.parity(&self.command(share, stripes.clone(), window, mode(own(share))))
        })?;
        for (share, result) in shares.iter().zip(&results) {
            out.account(self.view, share, stripes.clone(), result);
        }
        let collector = &shares[0];
        let len = repetitions * u64::from(window.len);
        let place = |i: usize| MemoryAddress { drive: collector.memory_drive, offset: i as u64 * len };
        for (i, share) in shares.iter().enumerate().skip(1) {
            let transfer = Transfer {
                from: own(share),
                len,
                peer: collector.node_name.clone(),
                to: place(i),
                grant: Grant::NONE,
            };
            out.moved += bring(&*share.node, &*collector.node, &transfer)?;
        }
        let sum = ParityCommand {
            unpaced: false,
            sources: (0..shares.len()).map(|i| Source::Memory { address: place(i) }).collect(),
            chunk: window.len,
            window: Window { start: 0, len: window.len },
            stripes: 0..repetitions,
            rule: Rule::sum(shares.len()),
            mode: Mode::Check,
        };
        let result = collector.node.parity(&sum)?;
        out.moved += result.moved + Ledger::arrived_at_host(result.encoded_len());
        Ok(result)
    }

    /// Across stripes: one set of accumulators for the whole run.
    fn aggregate(&self, stripes: Range<u64>, out: &mut Checked) -> Result<(), HostError> {
        if self.accumulators_that_fit(self.chunk) < u64::from(self.accumulators) {
            return Err(self.too_large());
        }
        for run in self.readable(stripes, out, |run, out| {
            self.accumulate(run, self.whole(), self.accumulators, self.seed, out)
        })? {
            if let (stripes, Some((first, last))) = run {
                // Everything after reads only the bytes that showed.
                let start = first / BLOCK * BLOCK;
                let end = (last / BLOCK + 1).saturating_mul(BLOCK).min(self.chunk);
                let window = Window { start, len: end - start };
                if self.accumulators_that_fit(window.len) < u64::from(HALVING_ACCUMULATORS) {
                    // With fewer, a stripe could be lost on the way: each is looked at exactly.
                    out.suspects.extend(stripes);
                    continue;
                }
                let seed = self.seed.derive("halving", stripes.start);
                self.halve(stripes, window, &seed, out)?;
            }
        }
        Ok(())
    }

    /// There is no room for the chunks of one stripe's interims.
    fn too_large(&self) -> HostError {
        let own = u64::from(self.accumulators) * u64::from(self.chunk);
        let need = own * self.view.shares.len() as u64;
        match self.view.memory_bytes < need {
            true => HostError::LocalMemory { need, have: self.view.memory_bytes },
            false => HostError::LocalMemory { need: own, have: self.view.own_bytes },
        }
    }

    /// Accumulators of `len` bytes that the nodes' local memory holds: the collector one set from
    /// every node, the others their own.
    fn accumulators_that_fit(&self, len: u32) -> u64 {
        let sets = self.view.shares.len() as u64;
        (self.view.memory_bytes / sets).min(self.view.own_bytes) / u64::from(len)
    }

    /// The non-zero byte range of the accumulators over a run, relative to the window.
    fn accumulate(
        &self,
        stripes: Range<u64>,
        window: Window,
        accumulators: u8,
        seed: &Seed,
        out: &mut Checked,
    ) -> Result<Option<(u32, u32)>, HostError> {
        let mode = |into| Mode::Accumulate { into, seed: seed.clone(), accumulators };
        if let [share] = &self.view.shares[..] {
            let into = MemoryAddress { drive: share.memory_drive, offset: 0 };
            let result = share.node.parity(&self.command(share, stripes.clone(), window, mode(into)))?;
            out.account(self.view, share, stripes, &result);
            return Ok(result.range);
        }
        Ok(self.meet(stripes, window, u64::from(accumulators), out, mode)?.range)
    }

    /// Finds the bad stripes of a bad run by repeated halving.
    fn halve(
        &self,
        stripes: Range<u64>,
        window: Window,
        seed: &Seed,
        out: &mut Checked,
    ) -> Result<(), HostError> {
        let len = stripes.end - stripes.start;
        if len == 1 {
            out.suspects.insert(stripes.start);
            return Ok(());
        }
        let middle = stripes.start + len / 2;
        let mut any = false;
        for half in [stripes.start..middle, middle..stripes.end] {
            if self.accumulate(half.clone(), window, HALVING_ACCUMULATORS, seed, out)?.is_some() {
                any = true;
                self.halve(half, window, seed, out)?;
            }
        }
        if !any {
            // The weights cancelled in both halves, or the damage went away: look at each stripe
            // exactly.
            out.suspects.extend(stripes);
        }
        Ok(())
    }

    /// Fingerprints: their power sums name the bad stripes; if there are too many, each half is
    /// checked separately.
    fn fingerprint(&self, stripes: Range<u64>, out: &mut Checked) -> Result<(), HostError> {
        let sums = self.readable(stripes, out, |run, out| self.power_sums(run, out))?;
        for (run, sums) in sums {
            let len = run.end - run.start;
            let batch = u32::try_from(len).map_err(|_| HostError::Batch(len))?;
            match sums.decode(batch, |index| {
                let repetition = self.view.repetition(run.start) + u64::from(index);
                pumice_parity::fingerprint::stripe_key(self.seed, repetition)
            }) {
                Decoded::Clean => {}
                Decoded::Stripes(bad) => {
                    out.suspects.extend(bad.iter().map(|stripe| run.start + u64::from(stripe.index)));
                }
                Decoded::TooMany if len == 1 => {
                    out.suspects.insert(run.start);
                }
                Decoded::TooMany => {
                    let middle = run.start + len / 2;
                    self.fingerprint(run.start..middle, out)?;
                    self.fingerprint(middle..run.end, out)?;
                }
            }
        }
        Ok(())
    }

    fn power_sums(&self, stripes: Range<u64>, out: &mut Checked) -> Result<PowerSums, HostError> {
        let shares = &self.view.shares;
        let mode = Mode::Fingerprint { seed: self.seed.clone(), powers: self.powers };
        let results = on_each(shares, |share| {
            share.node.parity(&self.command(share, stripes.clone(), self.whole(), mode.clone()))
        })?;
        let mut sum = PowerSums::new(self.view.rows(), usize::from(self.powers));
        for (share, result) in shares.iter().zip(&results) {
            out.account(self.view, share, stripes.clone(), result);
            let part = result.fingerprint.as_ref().ok_or_else(|| {
                NodeError::invalid("mode", format!("node '{}' sent no fingerprint", share.node_name))
            })?;
            if (part.rows(), part.powers()) != (sum.rows(), sum.powers()) {
                let context = format!("node '{}' sent a fingerprint of another shape", share.node_name);
                return Err(NodeError::new(ErrorKind::Unreachable, context).into());
            }
            sum.merge(part);
        }
        Ok(sum)
    }

    /// Runs a check that sums over stripes. A sum that lacks a stripe which could not be read is
    /// meaningless, so the runs between such stripes are checked again, until every run was read
    /// completely.
    fn readable<T>(
        &self,
        stripes: Range<u64>,
        out: &mut Checked,
        mut check: impl FnMut(Range<u64>, &mut Checked) -> Result<T, HostError>,
    ) -> Result<Vec<(Range<u64>, T)>, HostError> {
        let mut done = Vec::new();
        let mut waiting = vec![stripes];
        while let Some(run) = waiting.pop() {
            let known = out.holes.range(run.clone()).count();
            let value = check(run.clone(), out)?;
            let holes: Vec<u64> = out.holes.range(run.clone()).map(|(stripe, _)| *stripe).collect();
            if holes.is_empty() {
                done.push((run, value));
                continue;
            }
            debug_assert!(holes.len() > known, "runs are cut around what is known");
            let mut start = run.start;
            for end in holes.into_iter().chain([run.end]) {
                if start < end {
                    waiting.push(start..end);
                }
                start = end + 1;
            }
        }
        Ok(done)
    }
}

/// Sends a command to every node at once.
pub(crate) fn on_each<T: Send>(
    shares: &[Share],
    ask: impl Fn(&Share) -> Result<T, NodeError> + Sync,
) -> Result<Vec<T>, NodeError> {
    if let [one] = shares {
        return Ok(vec![ask(one)?]);
    }
    std::thread::scope(|scope| {
        let ask = &ask;
        let threads: Vec<_> = shares.iter().map(|share| scope.spawn(move || ask(share))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a node's thread does not panic")).collect()
    })
}

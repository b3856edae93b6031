//! Sources of background requests in a simulation: a pacer as it is used live, or a policy that
//! knows the future.

use crate::replay::Start;
use crate::starts::Studied;
use pumice_pacer::{Account, Goal, History, Idle, Nanos, Pacer, SIZES, ServiceCurve};

/// Halvings of the search for the oracle's price (of its logarithm).
const HALVINGS: usize = 40;

/// A decider.
#[derive(Debug, Clone)]
pub enum Player {
    /// The live code: sees what has happened, nothing else.
    Pacer(Box<Pacer<Studied>>),
    /// Waiting whose waits are not lost: an upper bound for every start after a threshold.
    Lossless(Start, ServiceCurve),
    /// Knows when each idle interval ends.
    Oracle(Oracle),
}

/// Knows the length of every idle interval when it begins. It fills the interval with the largest
/// requests, the rest with smaller ones, and lets the last request collide where the goal allows it
/// and the bytes are worth it: an upper bound for every policy.
#[derive(Debug, Clone)]
pub struct Oracle {
    ladder: [(u64, Nanos); SIZES.len()],
    price: f64,
    account: Account,
}

impl Oracle {
    /// An oracle for a goal, that has seen all the idle intervals to come.
    #[must_use]
    pub fn new(goal: Goal, curve: &ServiceCurve, future: &History) -> Self {
        let ladder = SIZES.map(|bytes| (bytes, curve.time(bytes)));
        let mut oracle = Self { ladder, price: 1e9, account: Account::new(goal, u32::MAX) };
        let budget = goal.mean as f64 * future.arrivals() as f64;
        // Reaching past an interval's end takes time from the next one: that is what it costs at
        // least.
        let (largest, service) = ladder[SIZES.len() - 1];
        let (mut low, mut high) = ((largest as f64 / service as f64).ln(), 1e9_f64.ln());
        // The higher the price, the less far an interval is overrun: one that is overrun as far at
        // both ends of the search is so between them, and need not be asked again.
        let mut open: Vec<_> = future.intervals().iter().map(|i| (i.length(), 0, Nanos::MAX)).collect();
        let mut settled = 0.0;
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            oracle.price = middle.exp();
            let overs: Vec<Nanos> = open.iter().map(|i| oracle.best(i.0).1).collect();
            let spent: f64 = settled + overs.iter().map(|&over| over as f64).sum::<f64>();
            let dear = spent > budget;
            if dear {
                low = oracle.price.ln();
            } else {
                high = oracle.price.ln();
            }
            let mut overs = overs.into_iter();
            open.retain_mut(|(_, least, most)| {
                let over = overs.next().unwrap_or(0);
                *(if dear { &mut *most } else { &mut *least }) = over;
                settled += if least == most { over as f64 } else { 0.0 };
                least != most
            });
        }
        oracle.price = high.exp();
        oracle
    }

    /// An account for another stretch.
    pub(crate) fn open_account(&mut self) {
        self.account = Account::new(*self.account.goal(), u32::MAX);
    }

    pub(crate) fn earn(&mut self) {
        self.account.earn();
    }

    /// Bytes, and how far the last request reaches past the end.
    pub(crate) fn play(&mut self, length: Nanos) -> (u64, Nanos) {
        let (bytes, over) = self.best(length);
        if over as f64 > self.account.balance() || !self.account.allows(over) {
            return (self.within(length).0, 0);
        }
        self.account.spend(over);
        (bytes, over)
    }

    /// Fills an interval without a collision, the largest requests first: bytes, and what is left
    /// of it.
    fn within(&self, length: Nanos) -> (u64, Nanos) {
        let (mut bytes, mut left) = (0, length);
        for &(size, service) in self.ladder.iter().rev() {
            // Most intervals are too short for most sizes, and a division takes longer than to see
            // that.
            if left >= service {
                bytes += left / service * size;
                left %= service;
            }
        }
        (bytes, left)
    }

    fn best(&self, length: Nanos) -> (u64, Nanos) {
        let (largest, service) = self.ladder[SIZES.len() - 1];
        let (full, left) =
            if length < service { (0, length) } else { (length / service * largest, length % service) };
        let (filled, rest) = self.within(left);
        let mut best = (full + filled, 0);
        let mut worth = best.0 as f64;
        let mut consider = |bytes: u64, over: Nanos| {
            let value = bytes as f64 - self.price * over as f64;
            if value > worth {
                (best, worth) = ((bytes, over), value);
            }
        };
        for &(size, service) in &self.ladder {
            if service > left {
                consider(full + size, service - left);
            }
            if service > rest {
                consider(full + filled + size, service - rest);
            }
        }
        best
    }
}

/// Work of lossless waiting in an idle interval: bytes, and the time by which the last request
/// reaches past the interval's end.
pub(crate) fn lossless(start: &Start, curve: &ServiceCurve, length: Nanos) -> (u64, Nanos) {
    if length <= start.threshold {
        return (0, 0);
    }
    let idle = Idle { start: 0, end: length, ..Idle::default() };
    let (bytes, over) = Start { threshold: 0, ..*start }.interval(&idle, curve);
    (bytes as u64, over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oracle_without_a_budget_never_collides() {
        let curve = crate::drive::Drive::Ultrastar.curve();
        let mut oracle = Oracle::new(Goal::mean(0), &curve, &History::new(1));
        assert_eq!(oracle.play(4_000_000), (0, 0));
        assert_eq!(oracle.play(4_610_000), (64 << 10, 0));
        assert_eq!(oracle.play(95_074_000 + 9_288_000), ((8 << 20) + (512 << 10), 0));
    }
}

//! The slowdown account: each foreground request earns its share of the goal, each collision
//! spends.
//!
//! At every moment `earned - spent` is what the goal still allows. No background request starts
//! while it is negative, so the mean slowdown since the account was opened is at most the goal plus
//! one background request's time over the number of foreground requests, whatever the load does:
//! this bound needs no model of the load.

use crate::{Goal, Nanos};

const MINUTE: Nanos = 60_000_000_000;

/// Earnings of the goal, less the cost of collisions.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    goal: Goal,
    /// Nanoseconds; negative after a collision that cost more than was there.
    balance: f64,
    /// Requests that may still exceed the percentile's limit.
    excesses: f64,
    /// The most that can be saved up, in requests.
    depth: f64,
    requests: u64,
    spent: f64,
}

impl Account {
    /// An empty account. `depth` is how many foreground requests' earnings can be saved up, at
    /// most: it bounds for how long and how far a moving mean can exceed the goal after a quiet
    /// time.
    #[must_use]
    pub fn new(goal: Goal, depth: u32) -> Self {
        Self { goal, balance: 0.0, excesses: 0.0, depth: f64::from(depth.max(1)), requests: 0, spent: 0.0 }
    }

    /// The goal it holds.
    #[must_use]
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// One foreground request arrived.
    pub fn earn(&mut self) {
        self.requests += 1;
        let mean = self.goal.mean as f64;
        self.balance = (self.balance + mean).min(mean * self.depth);
        if let Some(p) = self.goal.percentile {
            self.excesses = (self.excesses + (1.0 - p.share)).min((1.0 - p.share) * self.depth);
        }
    }

    /// A foreground request was slowed by `delay` nanoseconds.
    pub fn spend(&mut self, delay: Nanos) {
        self.charge(delay as f64);
    }

    /// A foreground request was measured to be slowed by `delay` nanoseconds; below 0 where it was
    /// faster than the mean without background work.
    pub fn charge(&mut self, delay: f64) {
        self.give_back(-delay);
        if self.goal.percentile.is_some_and(|p| delay > p.limit as f64) {
            self.excesses -= 1.0;
        }
    }

    /// Requests before this one turn out to have been charged `too_much` nanoseconds in all; below
    /// 0, too little. Which of them exceeded a percentile's limit is not asked again.
    pub(crate) fn give_back(&mut self, too_much: f64) {
        let most = self.goal.mean as f64 * self.depth;
        self.balance = (self.balance + too_much).min(most);
        self.spent -= too_much;
    }

    /// Time at which a debt is forgiven on a drive without foreground requests since `idle_since`:
    /// each minute after the first counts as a foreground request that was not slowed. Otherwise
    /// one collision in the evening could stop all work until the morning.
    #[must_use]
    pub fn forgiven_at(&self, idle_since: Nanos) -> Nanos {
        let minutes = (-self.balance / (self.goal.mean as f64).max(1e-3)).ceil().clamp(0.0, 1e9);
        idle_since.saturating_add((1 + minutes as Nanos).saturating_mul(MINUTE))
    }

    /// Forgives a debt.
    pub(crate) fn forgive(&mut self) {
        self.balance = self.balance.max(0.0);
        self.excesses = self.excesses.max(0.0);
    }

    /// Returns whether a background request that takes `service` nanoseconds may start.
    #[must_use]
    pub fn allows(&self, service: Nanos) -> bool {
        self.balance >= 0.0
            && self.goal.allows(service)
            && self.goal.percentile.is_none_or(|p| service <= p.limit || self.excesses >= 0.0)
    }

    /// Balance, in nanoseconds.
    #[must_use]
    pub fn balance(&self) -> f64 {
        self.balance
    }

    /// Foreground requests since the account was opened.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Mean slowdown a foreground request since the account was opened, in nanoseconds.
    #[must_use]
    pub fn mean_slowdown(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.spent / self.requests as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Percentile;

    #[test]
    fn a_collision_is_paid_before_the_next_request_starts() {
        let mut account = Account::new(Goal::mean(1_000), 100);
        assert!(account.allows(5_000));
        account.spend(4_500);
        for _ in 0..4 {
            assert!(!account.allows(1));
            account.earn();
        }
        account.earn();
        assert!(account.allows(5_000));
    }

    #[test]
    fn a_debt_is_forgiven_in_the_end() {
        let mut account = Account::new(Goal::mean(1_000), 10);
        assert_eq!(account.forgiven_at(5), 5 + MINUTE);
        account.spend(2_500);
        assert_eq!(account.forgiven_at(5), 5 + 4 * MINUTE);
        account.forgive();
        assert!(account.allows(1));
    }

    #[test]
    fn savings_are_bounded() {
        let mut account = Account::new(Goal::mean(1_000), 10);
        (0..1_000).for_each(|_| account.earn());
        assert!((account.balance() - 10_000.0).abs() < 1e-9);
    }

    #[test]
    fn a_percentile_is_an_account_of_excesses() {
        let percentile = Some(Percentile { share: 0.9, limit: 100 });
        let mut account = Account::new(Goal { mean: 1_000_000, percentile, maximum: Some(500) }, 1_000);
        account.earn();
        account.spend(200);
        assert!(account.allows(100) && !account.allows(200), "one excess in ten requests");
        (0..10).for_each(|_| account.earn());
        assert!(account.allows(200) && !account.allows(501));
    }
}

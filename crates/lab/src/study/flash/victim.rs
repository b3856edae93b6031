//! Policies of garbage collection that are compared with the flash layer's own.

use pumice_flash::chip::Random;
use pumice_flash::ftl::{BlockFacts, Greedy, Victim};
use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

/// A policy by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VictimPolicy {
    /// The block with the fewest live pages; of several, the one that has been at that count for
    /// longest.
    #[default]
    Greedy,
    /// The block with the fewest live pages; of several, a random one.
    GreedyRandom,
    /// The block that was closed first.
    Fifo,
    /// The largest age x (1 - u) / 2u, with u the share of live pages.
    CostBenefit,
    /// The emptiest of so many random blocks.
    Choices(u32),
}

impl VictimPolicy {
    /// The policy for so many blocks; `seed` decides random choices.
    #[must_use]
    pub fn build(self, blocks: u32, pages_per_block: u32, seed: u64) -> Box<dyn Victim> {
        match self {
            Self::Greedy => Box::new(Greedy::new(blocks, pages_per_block)),
            Self::Fifo => Box::new(Fifo::default()),
            Self::GreedyRandom => Box::new(Pool::new(blocks, Look::EmptiestOfAll, seed)),
            Self::CostBenefit => Box::new(Pool::new(blocks, Look::Benefit, seed)),
            Self::Choices(d) => Box::new(Pool::new(blocks, Look::EmptiestOf(d.max(1)), seed)),
        }
    }
}

impl std::fmt::Display for VictimPolicy {
    /// The name that [`FromStr`] takes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Greedy => f.write_str("greedy"),
            Self::GreedyRandom => f.write_str("greedy-random"),
            Self::Fifo => f.write_str("fifo"),
            Self::CostBenefit => f.write_str("cost-benefit"),
            Self::Choices(d) => write!(f, "d-choices:{d}"),
        }
    }
}

impl FromStr for VictimPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "greedy" => Ok(Self::Greedy),
            "greedy-random" => Ok(Self::GreedyRandom),
            "fifo" => Ok(Self::Fifo),
            "cost-benefit" => Ok(Self::CostBenefit),
            _ => text
                .strip_prefix("d-choices:")
                .and_then(|d| d.parse().ok())
                .filter(|d| *d > 0)
                .map(Self::Choices)
                .ok_or_else(|| {
                    format!("'{text}' is none of greedy, greedy-random, fifo, cost-benefit, d-choices:N (N from 1)")
                }),
        }
    }
}

const END: u32 = u32::MAX;

/// Blocks in the order in which they were closed.
#[derive(Debug, Default)]
struct Fifo {
    closed: BTreeMap<u64, u32>,
    number_of: HashMap<u32, u64>,
    /// Blocks that were closed so far.
    count: u64,
}

impl Victim for Fifo {
    fn closed(&mut self, block: u32, _live: u32) {
        self.count += 1;
        self.closed.insert(self.count, block);
        self.number_of.insert(block, self.count);
    }

    fn changed(&mut self, _block: u32, _live: u32) {}

    fn taken(&mut self, block: u32) {
        if let Some(number) = self.number_of.remove(&block) {
            self.closed.remove(&number);
        }
    }

    fn pick(&mut self, facts: BlockFacts<'_>) -> Option<u32> {
        self.closed.values().copied().find(|block| facts.live[*block as usize] < facts.pages_per_block)
    }
}

/// Blocks among which a policy looks, and the measure by which it picks one.
#[derive(Debug, Clone, Copy)]
enum Look {
    Benefit,
    EmptiestOfAll,
    EmptiestOf(u32),
}

/// Closed blocks in no order, for policies that look at some or all of them.
#[derive(Debug)]
struct Pool {
    closed: Vec<u32>,
    place: Vec<u32>,
    look: Look,
    random: Random,
}

impl Pool {
    fn new(blocks: u32, look: Look, seed: u64) -> Self {
        let place = vec![END; blocks as usize];
        Self { closed: Vec::new(), place, look, random: Random::new(seed) }
    }
}

/// Age x (1 - u) / 2u; a block without live pages is beyond all others.
fn benefit(facts: BlockFacts<'_>, block: u32) -> f64 {
    let u = f64::from(facts.live[block as usize]) / f64::from(facts.pages_per_block);
    let age = (facts.now - facts.closed_at[block as usize] + 1) as f64;
    if u == 0.0 { f64::INFINITY } else { age * (1.0 - u) / (2.0 * u) }
}

impl Victim for Pool {
    fn closed(&mut self, block: u32, _live: u32) {
        self.place[block as usize] = self.closed.len() as u32;
        self.closed.push(block);
    }

    fn changed(&mut self, _block: u32, _live: u32) {}

    fn taken(&mut self, block: u32) {
        let at = std::mem::replace(&mut self.place[block as usize], END);
        if at == END {
            return;
        }
        self.closed.swap_remove(at as usize);
        if let Some(&other) = self.closed.get(at as usize) {
            self.place[other as usize] = at;
        }
    }

    fn pick(&mut self, facts: BlockFacts<'_>) -> Option<u32> {
        let usable = |block: &u32| facts.live[*block as usize] < facts.pages_per_block;
        let emptiest = |block: &u32| facts.live[*block as usize];
        match self.look {
            Look::EmptiestOfAll => {
                let (closed, random) = (&self.closed, &mut self.random);
                let keyed = closed.iter().copied().filter(usable);
                keyed.min_by_key(|block| (emptiest(block), random.next_u64()))
            }
            Look::Benefit => {
                let all = self.closed.iter().copied().filter(usable);
                all.max_by(|&a, &b| benefit(facts, a).total_cmp(&benefit(facts, b)))
            }
            Look::EmptiestOf(d) => {
                let (closed, random) = (&self.closed, &mut self.random);
                let drawn = (0..d.min(closed.len() as u32))
                    .map(|_| closed[random.below(closed.len() as u64) as usize])
                    .min_by_key(emptiest)
                    .filter(usable);
                // Full blocks only were drawn: any other is better.
                drawn.or_else(|| self.closed.iter().copied().filter(usable).min_by_key(emptiest))
            }
        }
    }
}

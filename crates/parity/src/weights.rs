//! Random weights that turn all equations of a stripe into one, without a blind spot.
//!
//! # Derivation
//! With a weight vector w for each stripe, member m enters an accumulator with `c[m] = sum over i
//! of w[i] * H[i][m]`, and the accumulator is `sum over stripes s of w[s] . y[s]`, where y\[s\] is
//! the vector of the p syndromes of stripe s at a byte position. It must be zero. Two things can go
//! wrong.
//!
//! **Blindness.** A fixed choice may make some c\[m\] zero. With w = (1, 1), RAID-6 gives the first
//! data slot c = 1 + g^0 = 0: no damage of that member is ever seen. *Rule 1*: draw w again until
//! `w . h != 0` for every column h of the code (the *guard*: the columns of all classes of a
//! rotating array, whichever members hold them). Damage that touches one chunk at some byte of a
//! stripe is then always seen by that stripe's check. For one row that leaves w = u with u != 0;
//! for RAID-6 w = u * (1, r) with u and r not zero and r * g^slot != 1: 255 - k values of r are
//! good. Uniform drawing with rejection gives just these distributions, so there is no case of its
//! own for them.
//!
//! **Cancellation.** *Rule 2*: take any fixed damage with y\[s\] = y != 0 for some stripe s at some
//! byte, and fix the weights of all other stripes; the sum is zero if `w . y = v` for one
//! certain v (v = 0 where there is only one stripe). Let n be the number of guard columns that are
//! no multiples of each other, and G the set of good w.
//! * p = 1: G is all 255 non-zero w. `w * y = 0` never; `w * y = v != 0` for one: 0 for one stripe,
//!   1/255 for several.
//! * p = 2: G is 255 * (257 - n) vectors: of the 257 directions, each guard column forbids one. `w
//!   . y = 0` fixes the direction: at most 1/(257 - n). `w . y = v != 0` has at most one solution
//!   in each direction: at most 1/255. RAID-6 has n = k + 2, hence 1/(255 - k).
//! * p >= 3: choose z with `z . y = 1`, and cut the space into lines w + t*z. On a line `w . y`
//!   takes each value once, so at most one point of it cancels; and if any of it is good, each
//!   column spoils at most one t, and the column of a good point with `z . h = 0` spoils none: at
//!   least 256 - n points are good. Hence 1/(256 - n).
//!
//! Damage that differs between byte positions must cancel at each; t accumulators have independent
//! weights, so the bound is raised to the power t ([`miss_bound`]). Damage that is itself a
//! codeword has y = 0 and no parity check can see it.
//!
//! Worked example: RAID-6 over 22 + 2 has n = 24, bound 1/233 = 0.43 % for an accumulator; three
//! accumulators 7.9e-8.
//!
//! # Format (the same on every machine)
//! The weights of accumulator a and stripe s come from ChaCha8: `seed.derive("weights",
//! a).derive("stripe", s)`, stream "draw", p bytes a try. Any stripe can be drawn alone.

use crate::gf;
use crate::matrix::MAX_ROWS;
use crate::seed::Seed;
use rand_chacha::rand_core::Rng;
use std::collections::BTreeSet;
use thiserror::Error;

/// Directions of a guard, at most: with one more there may be no weights that see every column.
///
/// With two rows each direction rules out one of 257 directions of weights; with more rows, 256
/// hyperplanes never cover the space.
pub const MAX_DIRECTIONS: usize = 256;

/// Most tries for one stripe.
///
/// With at most 256 directions at least one vector in 257 is good, so that all of 2^14 tries fail
/// with probability below e^-63.
const MAX_TRIES: u32 = 1 << 14;

/// A guard has too many directions.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("columns of more than {MAX_DIRECTIONS} directions leave no good weights")]
pub struct GuardError;

/// The weights of one accumulator, for every stripe.
#[derive(Debug, Clone)]
pub struct Weights {
    seed: Seed,
    /// Columns that are neither zero nor multiples of an earlier one.
    guard: Vec<Vec<u8>>,
    rows: usize,
}

impl Weights {
    /// The weights of accumulator `accumulator`, never blind to a column of `guard`.
    ///
    /// Every column has one coefficient a row. Columns of zeros are passed over: no equation has
    /// that member.
    ///
    /// # Errors
    /// If the guard leaves no good weights.
    ///
    /// # Panics
    /// If the columns differ in length, or have more than eight coefficients.
    pub fn new(seed: &Seed, accumulator: u32, guard: &[Vec<u8>]) -> Result<Self, GuardError> {
        let rows = guard.first().map_or(0, Vec::len);
        assert!(guard.iter().all(|column| column.len() == rows), "guard columns of one code");
        let guard = directions(guard).ok_or(GuardError)?;
        Ok(Self { seed: seed.derive("weights", u64::from(accumulator)), guard, rows })
    }

    /// The weight of each row in stripe `stripe`.
    #[must_use]
    pub fn of(&self, stripe: u64) -> Vec<u8> {
        let mut stream = self.seed.derive("stripe", stripe).stream("draw", 0);
        let mut weights = vec![0; self.rows];
        for _ in 0..MAX_TRIES {
            stream.fill_bytes(&mut weights);
            if self.guard.iter().all(|column| dot(&weights, column) != 0) {
                break;
            }
        }
        weights
    }
}

/// Multiplications that it takes to draw the weights of one stripe and accumulator, about.
///
/// # Errors
/// If the guard leaves no good weights.
pub fn draw_work(guard: &[Vec<u8>]) -> Result<u64, GuardError> {
    let rows = guard.first().map_or(0, Vec::len) as u64;
    let directions = directions(guard).ok_or(GuardError)?.len() as u64;
    // A try is good with a probability of at least (257 - n)/257, and a bad one is seen half way.
    let tries = 257 / 257_u64.saturating_sub(directions).max(1);
    Ok(rows * (directions + tries.saturating_sub(1) * directions / 2 + 1))
}

/// [`Weights::new`] and [`Weights::of`] in one, for a single stripe.
///
/// # Errors
/// If the guard leaves no good weights.
///
/// # Panics
/// If the columns differ in length.
pub fn draw(seed: &Seed, stripe: u64, accumulator: u32, guard: &[Vec<u8>]) -> Result<Vec<u8>, GuardError> {
    Ok(Weights::new(seed, accumulator, guard)?.of(stripe))
}

/// The largest probability that fixed damage goes unseen at a byte position, over `stripes` stripes
/// and `accumulators` independent accumulators. The module's header derives it.
///
/// `rows` are the equations that are checked, `guard` the columns that the weights were drawn
/// against. It is 1 where nothing is checked, or where the guard leaves no good weights.
#[must_use]
pub fn miss_bound(rows: usize, guard: &[Vec<u8>], stripes: u64, accumulators: u8) -> f64 {
    let Some(columns) = directions(guard).map(|directions| directions.len()) else { return 1.0 };
    let one = match rows {
        0 => 1.0,
        1 if stripes <= 1 => 0.0,
        1 => 1.0 / 255.0,
        2 => {
            let cancels = within_one(257_usize.saturating_sub(columns));
            if stripes <= 1 { cancels } else { cancels.max(1.0 / 255.0) }
        }
        _ => within_one(256_usize.saturating_sub(columns)),
    };
    f64::powi(one, i32::from(accumulators))
}

/// `1/n`, and 1 for zero.
fn within_one(n: usize) -> f64 {
    1.0 / n.max(1) as f64
}

/// The columns that are not zero, one of each set of multiples, in order. `None` if there are more
/// than [`MAX_DIRECTIONS`].
fn directions(guard: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let mut known: BTreeSet<[u8; MAX_ROWS]> = BTreeSet::new();
    let mut out: Vec<Vec<u8>> = Vec::new();
    for column in guard {
        let Some(inverse) = column.iter().find_map(|c| gf::inv(*c)) else { continue };
        let mut normal = [0; MAX_ROWS];
        for (to, c) in normal[..column.len()].iter_mut().zip(column) {
            *to = gf::mul(*c, inverse);
        }
        if known.insert(normal) {
            if out.len() == MAX_DIRECTIONS {
                return None;
            }
            out.push(normal[..column.len()].to_vec());
        }
    }
    Some(out)
}

fn dot(weights: &[u8], column: &[u8]) -> u8 {
    weights.iter().zip(column).fold(0, |sum, (w, c)| sum ^ gf::mul(*w, *c))
}

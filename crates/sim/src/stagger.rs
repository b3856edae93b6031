//! Staggered against sequential: what it costs in throughput, and how much sooner it meets a burst
//! of errors.

use crate::drive::Disk;
use crate::order::{Order, Sequential, Staggered};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// Bytes of a request in the throughput figures, as in *Practical scrubbing*, section IV.
const REQUEST: u64 = 64 << 10;
/// Bytes of the disk: the Ultrastar's.
const CAPACITY: u64 = 300_000_000_000;
/// Requests that a throughput is taken over.
const REQUESTS: u64 = 100_000;

/// Mean time from a burst's onset until a pass meets it, as a share of a pass's time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Delay {
    /// Regions of the drive.
    pub regions: u64,
    /// Segments of a region.
    pub segments: u64,
    /// Adjacent bad segments of one region.
    pub burst: u64,
    /// By simulation, in staggered order.
    pub staggered: f64,
    /// By simulation, in sequential order.
    pub sequential: f64,
    /// `1/2 * ((1 - (b-1)/S)^2 + (b-1)/S^2)`.
    pub formula: f64,
    /// Time by which staggered order meets the burst sooner, as a share.
    pub gain: f64,
}

/// The throughput of an order on the disk model.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Throughput {
    /// Regions; sequential order where it is 1.
    pub regions: u64,
    /// 2^20 bytes a second.
    pub mb_per_s: f64,
    /// Over sequential order's.
    pub of_sequential: f64,
}

/// Mean detection delay for bursts of `burst` segments (1 to `segments`) on a drive of `regions` by
/// `segments`, over `samples` random onsets.
///
/// # Panics
/// Where a count is 0, a burst is longer than a region, or there are more than 2^32 segments.
#[must_use]
pub fn delay(regions: u64, segments: u64, burst: u64, samples: u64, seed: u64) -> Delay {
    assert!(regions > 0 && samples > 0 && (1..=segments).contains(&burst), "counts are above 0");
    let total = regions * segments;
    assert!(total <= 1 << 32, "too many segments");
    let mut staggered =
        Staggered::new(0, total, segments, 1).expect("a segment is no larger than its region");
    let mut visits = vec![0_u32; total as usize];
    let mut turn = 0;
    while let Some(extent) = staggered.next(1) {
        visits[extent.offset as usize] = turn;
        turn += 1;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: u64| ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64;
    let (mut sum_staggered, mut sum_sequential) = (0.0, 0.0);
    for _ in 0..samples {
        let first = below(regions) * segments + below(segments - burst + 1);
        // The onset: within a turn as fine as a 64-bit number allows.
        let onset = below(total << 20) as f64 / f64::from(1 << 20);
        let wait = |at: f64| (at - onset).rem_euclid(total as f64);
        let met = (first..first + burst).map(|s| wait(f64::from(visits[s as usize])));
        sum_staggered += met.fold(f64::INFINITY, f64::min);
        sum_sequential += (first..first + burst).map(|s| wait(s as f64)).fold(f64::INFINITY, f64::min);
    }
    let scale = samples as f64 * total as f64;
    let (b, s) = ((burst - 1) as f64, segments as f64);
    let formula = ((1.0 - b / s).powi(2) + b / (s * s)) / 2.0;
    let (staggered, sequential) = (sum_staggered / scale, sum_sequential / scale);
    Delay { regions, segments, burst, staggered, sequential, formula, gain: 1.0 - staggered / sequential }
}

fn rate(order: &mut dyn Order) -> f64 {
    let mut disk = Disk::new(CAPACITY);
    let (mut now, mut bytes) = (0, 0);
    for _ in 0..REQUESTS {
        let Some(extent) = order.next(REQUEST) else { break };
        now = disk.serve(now, extent.offset, extent.len);
        bytes += extent.len;
    }
    bytes as f64 / f64::from(1 << 20) / (now as f64 / 1e9)
}

/// Throughput back to back for each number of regions, sequential order first.
///
/// # Panics
/// Where a number of regions is 0 or larger than the number of requests' places on the disk.
#[must_use]
pub fn throughput(regions: &[u64]) -> Vec<Throughput> {
    let sequential = rate(&mut Sequential::range(0, CAPACITY).expect("a disk has bytes"));
    let first = Throughput { regions: 1, mb_per_s: sequential, of_sequential: 1.0 };
    let staggered = regions.iter().map(|&regions| {
        let region = CAPACITY / regions / REQUEST * REQUEST;
        let mut order = Staggered::new(0, CAPACITY, region, REQUEST).expect("regions hold a request");
        let mb_per_s = rate(&mut order);
        Throughput { regions, mb_per_s, of_sequential: mb_per_s / sequential }
    });
    std::iter::once(first).chain(staggered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulation_agrees_with_the_closed_form() {
        for (segments, burst) in [(128, 1), (128, 5), (128, 10), (128, 20), (128, 64), (16, 4)] {
            let found = delay(64, segments, burst, 1_000_000, 7);
            let error = found.staggered / found.formula - 1.0;
            assert!(error.abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn from_128_regions_on_staggering_costs_nothing() {
        for found in throughput(&[128, 256, 512]) {
            assert!(found.of_sequential >= 0.97, "{found:?}");
        }
        let few = throughput(&[4]);
        assert!(few[1].of_sequential < 0.9, "{few:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_figures() {
        let (a, b) = (delay(8, 16, 3, 1_000, 1), delay(8, 16, 3, 1_000, 1));
        assert!((a.staggered - b.staggered).abs() < f64::EPSILON);
    }
}

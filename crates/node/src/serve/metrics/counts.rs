//! The counters of one core. Only this core writes them, so there are no locks and no cache line
//! moves between cores.

use pumice_nvme::controller::Op;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) enum Class {
    Read,
    Write,
    Flush,
    Clear,
    Other,
}

impl Class {
    pub(in crate::serve) const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::Flush, Self::Clear, Self::Other];

    pub(in crate::serve) fn of(op: Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write => Self::Write,
            Op::Flush => Self::Flush,
            Op::WriteZeroes | Op::Deallocate => Self::Clear,
            Op::WriteUncorrectable | Op::Compare | Op::Verify | Op::Vendor => Self::Other,
        }
    }

    pub(in crate::serve) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Clear => "clear",
            Self::Other => "other",
        }
    }
}

/// Times are counted in buckets that end at 2^14, 2^16, … 2^32 ns (16 µs to 4.3 s), and one for the
/// rest.
pub(in crate::serve) const BUCKETS: usize = 11;
const FIRST: u32 = 14;

/// The end of a bucket, in seconds; the last has no end.
pub(in crate::serve) fn bucket_end(bucket: usize) -> f64 {
    if bucket + 1 == BUCKETS { f64::INFINITY } else { (1_u64 << (FIRST as usize + 2 * bucket)) as f64 * 1e-9 }
}

fn bucket_of(ns: u64) -> usize {
    // The bucket's end belongs to it.
    let bits = u64::BITS - ns.saturating_sub(1).leading_zeros();
    (bits.saturating_sub(FIRST).div_ceil(2) as usize).min(BUCKETS - 1)
}

/// The largest use of each bound by one connection, as of the last tick.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::serve) struct Fullest {
    /// Bytes of commands under way, and of answers that wait, but for what drives lend.
    pub(in crate::serve) flight: u64,
    /// Bytes of answers that wait.
    pub(in crate::serve) unsent: u64,
    /// Commands with the media.
    pub(in crate::serve) commands: u64,
}

impl Fullest {
    /// The larger of each.
    pub(in crate::serve) fn or(self, other: Self) -> Self {
        Self {
            flight: self.flight.max(other.flight),
            unsent: self.unsent.max(other.unsent),
            commands: self.commands.max(other.commands),
        }
    }
}

#[derive(Debug, Default)]
struct OpCounts {
    commands: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    ns: AtomicU64,
    times: [AtomicU64; BUCKETS],
}

/// Counters of one core. Written by that core alone.
#[derive(Debug)]
#[repr(align(128))]
pub(in crate::serve) struct CoreCounts {
    drives: Vec<[OpCounts; Class::ALL.len()]>,
    /// In the order of the fields.
    fullest: [AtomicU64; 3],
}

/// The sums over cores for one drive and class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::serve) struct Sum {
    pub(in crate::serve) commands: u64,
    pub(in crate::serve) errors: u64,
    pub(in crate::serve) bytes: u64,
    pub(in crate::serve) ns: u64,
    pub(in crate::serve) times: [u64; BUCKETS],
}

/// Adds to a counter that nobody else writes.
fn add(counter: &AtomicU64, n: u64) {
    // Relaxed, and no atomic addition: one thread writes, others only look.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl CoreCounts {
    pub(in crate::serve) fn new(drives: usize) -> Self {
        Self { drives: (0..drives).map(|_| Default::default()).collect(), fullest: Default::default() }
    }

    /// Notes the figures of the fullest of its connections.
    pub(in crate::serve) fn look(&self, fullest: Fullest) {
        let Fullest { flight, unsent, commands } = fullest;
        for (kept, seen) in self.fullest.iter().zip([flight, unsent, commands]) {
            kept.store(seen, Ordering::Relaxed);
        }
    }

    pub(in crate::serve) fn fullest(&self) -> Fullest {
        let [flight, unsent, commands] = self.fullest.each_ref().map(|kept| kept.load(Ordering::Relaxed));
        Fullest { flight, unsent, commands }
    }

    /// A command for drive `index` (0 is the first) has ended, after so many nanoseconds where it
    /// was timed.
    pub(in crate::serve) fn ended(
        &self,
        index: usize,
        class: Class,
        bytes: u64,
        good: bool,
        ns: Option<u64>,
    ) {
        let Some(of) = self.drives.get(index).map(|classes| &classes[class as usize]) else { return };
        add(&of.commands, 1);
        if good {
            add(&of.bytes, bytes);
        } else {
            add(&of.errors, 1);
        }
        if let Some(ns) = ns {
            add(&of.ns, ns);
            add(&of.times[bucket_of(ns)], 1);
        }
    }

    pub(in crate::serve) fn add_to(&self, index: usize, class: Class, sum: &mut Sum) {
        let of = &self.drives[index][class as usize];
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.commands += get(&of.commands);
        sum.errors += get(&of.errors);
        sum.bytes += get(&of.bytes);
        sum.ns += get(&of.ns);
        for (sum, times) in sum.times.iter_mut().zip(&of.times) {
            *sum += get(times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_ends_first_behind_it() {
        for ns in [0, 1, 16_383, 16_384, 16_385, 65_536, 65_537, 1 << 32, (1 << 32) + 1, u64::MAX] {
            let bucket = bucket_of(ns);
            assert!(ns as f64 * 1e-9 <= bucket_end(bucket) * (1.0 + 1e-12), "{ns} in {bucket}");
            assert!(bucket == 0 || ns as f64 * 1e-9 > bucket_end(bucket - 1), "{ns} in {bucket}");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    }
}

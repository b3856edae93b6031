//! Kinds of background work that share one idle budget.

/// Kinds at most.
pub const KINDS: usize = 8;

/// A kind of background work: scrub, deduplication, garbage collection, rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Kind(u8);

impl Kind {
    /// The kind with a number below [`KINDS`].
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < KINDS { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Entry {
    pending: bool,
    weight: u32,
    served: f64,
}

/// Order of kinds of work: bytes are shared by weight among the kinds that have work, so that
/// priority never becomes starvation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Works {
    entries: [Entry; KINDS],
}

impl Works {
    /// No kind has work.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A kind has work, with a weight (at least 1): of two kinds that have work, each gets bytes in
    /// proportion to its weight.
    pub fn begin(&mut self, kind: Kind, weight: u32) {
        let floor = self.least_served();
        let entry = &mut self.entries[kind.index()];
        if !entry.pending {
            // Nobody saves up a claim while having no work.
            entry.served = entry.served.max(floor.unwrap_or(entry.served));
        }
        (entry.pending, entry.weight) = (true, weight.max(1));
    }

    /// A kind has no more work.
    pub fn end(&mut self, kind: Kind) {
        self.entries[kind.index()].pending = false;
    }

    fn least_served(&self) -> Option<f64> {
        self.entries.iter().filter(|e| e.pending).map(|e| e.served).min_by(f64::total_cmp)
    }

    /// The kind whose turn it is; `None` if nobody has work.
    #[must_use]
    pub fn next(&self) -> Option<Kind> {
        let pending = self.entries.iter().enumerate().filter(|(_, e)| e.pending);
        pending.min_by(|a, b| a.1.served.total_cmp(&b.1.served)).map(|(i, _)| Kind(i as u8))
    }

    /// A kind was given a request of `bytes`.
    pub fn serve(&mut self, kind: Kind, bytes: u64) {
        let entry = &mut self.entries[kind.index()];
        entry.served += bytes as f64 / f64::from(entry.weight.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_follow_weights_and_nobody_starves(
            weights in proptest::collection::vec(1_u32..64, 1..KINDS),
            sizes in proptest::collection::vec(1_u64..5, 1..7),
        ) {
            let mut works = Works::new();
            let kinds: Vec<_> = (0..weights.len()).filter_map(|i| Kind::new(i as u8)).collect();
            kinds.iter().zip(&weights).for_each(|(&k, &w)| works.begin(k, w));
            let mut got = vec![0_u64; weights.len()];
            for turn in 0..20_000 {
                let kind = works.next().expect("pending");
                let bytes = sizes[turn % sizes.len()];
                works.serve(kind, bytes);
                got[kind.index()] += bytes;
            }
            let (total, weight): (u64, u32) = (got.iter().sum(), weights.iter().sum());
            for (bytes, w) in got.iter().zip(&weights) {
                let fair = total as f64 * f64::from(*w) / f64::from(weight);
                prop_assert!((*bytes as f64 - fair).abs() <= 5.0 * 64.0, "{bytes} for {fair}");
            }
        }
    }

    #[test]
    fn a_newcomer_does_not_claim_the_past() {
        let (scrub, rebuild) = (Kind(0), Kind(1));
        let mut works = Works::new();
        works.begin(scrub, 1);
        (0..100).for_each(|_| works.serve(scrub, 1_000));
        works.begin(rebuild, 1);
        works.serve(rebuild, 1);
        assert_eq!(works.next(), Some(scrub));
        works.end(scrub);
        works.end(rebuild);
        assert_eq!(works.next(), None);
    }
}

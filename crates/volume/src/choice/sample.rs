//! Measurements of a class.

/// Busy time of a sample, in nanoseconds.
pub(super) const SAMPLE: u64 = 100_000_000;
/// Operations of a sample, at least.
const LEAST: u64 = 16;

/// The work that was done in some busy time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    /// Nanoseconds.
    pub(super) busy: u64,
    /// Nanoseconds times operations under way.
    pub(super) area: u64,
    pub(super) bytes: u64,
    pub(super) done: u64,
}

impl Sample {
    pub(super) const NONE: Self = Self { busy: 0, area: 0, bytes: 0, done: 0 };

    pub(super) fn pass(&mut self, ns: u64, under_way: u64) {
        self.busy += ns;
        self.area += ns * under_way;
    }

    pub(super) fn is_full(&self) -> bool {
        self.busy >= SAMPLE && self.done >= LEAST
    }

    /// Bytes a nanosecond.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 / self.busy.max(1) as f64
    }

    pub(super) fn per_second(&self) -> u64 {
        (self.rate() * 1e9) as u64
    }

    /// Operations under way, and bytes of one, on average.
    pub(super) fn load(&self) -> [f64; 2] {
        [self.area as f64 / self.busy.max(1) as f64, self.bytes as f64 / self.done.max(1) as f64]
    }

    /// Returns whether its rate says something beside that of another one, which was lower.
    pub(super) fn is_fair(&self, other: &Self) -> bool {
        let [under_way, size] = self.load();
        let [others, others_size] = other.load();
        // Of nothing that is done the size is not known.
        under_way <= 1.5 * others && (other.done == 0 || size <= 1.5 * others_size)
    }

    /// Returns whether rate and load are within a factor of those of another one.
    pub(super) fn is_like(&self, other: &Self, factor: f64) -> bool {
        let [under_way, size] = self.load();
        let [others, others_size] = other.load();
        [(under_way, others), (size, others_size), (self.rate(), other.rate())]
            .into_iter()
            .all(|(a, b)| a <= factor * b && b <= factor * a)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            busy: self.busy + other.busy,
            area: self.area + other.area,
            bytes: self.bytes + other.bytes,
            done: self.done + other.done,
        }
    }
}

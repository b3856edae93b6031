//! Random numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014).

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `from` up to `to`, which is not one of them.
    pub(crate) fn within(&mut self, from: i64, to: i64) -> i64 {
        from + (self.next() % (to - from).unsigned_abs().max(1)) as i64
    }

    pub(crate) fn percent(&mut self, of: i64) -> bool {
        self.within(0, 100) < of
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.within(0, list.len() as i64) as usize]
    }
}

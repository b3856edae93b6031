//! Sets of byte values.

/// The set of the non-zero byte values that occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Values([u64; 4]);

impl Values {
    pub(super) fn insert(&mut self, value: u8) {
        self.0[usize::from(value / 64)] |= 1 << (value % 64);
    }

    /// Number of values that occur.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The value, if only one occurs.
    #[must_use]
    pub fn single(&self) -> Option<u8> {
        (self.count() == 1).then(|| {
            let word = self.0.iter().position(|word| *word != 0).unwrap_or(0);
            (word * 64) as u8 + self.0[word].trailing_zeros() as u8
        })
    }

    /// The values of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }
}

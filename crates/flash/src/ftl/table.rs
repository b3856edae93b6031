//! Tables of numbers that take no memory where they are empty.

/// Stands for a number that is absent.
pub(crate) const NONE: u32 = u32::MAX;

/// Numbers by index, of which each may be absent. A new table takes address space alone, however
/// long it is: the complement of a number is kept, so that absent is zero, and the system maps
/// zeroed memory only when it is written to. A drive of 1 TiB has 2 GiB of such tables.
#[derive(Debug)]
pub(crate) struct Table(Vec<u32>);

impl Table {
    /// A table of `len` absent numbers.
    pub(crate) fn new(len: u32) -> Self {
        Self(vec![0; len as usize])
    }

    /// The length of the table.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number at an index below the length; [`NONE`] if it is absent.
    pub(crate) fn get(&self, index: u32) -> u32 {
        !self.0[index as usize]
    }

    /// Sets the number at an index below the length.
    pub(crate) fn set(&mut self, index: u32, number: u32) {
        self.0[index as usize] = !number;
    }

    /// Sets the number at an index below the length, and returns the one before.
    pub(crate) fn replace(&mut self, index: u32, number: u32) -> u32 {
        !std::mem::replace(&mut self.0[index as usize], !number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_absent_until_they_are_set() {
        let mut table = Table::new(3);
        assert_eq!((table.len(), table.get(0), table.get(2)), (3, NONE, NONE));
        table.set(1, 0);
        table.set(2, NONE - 1);
        assert_eq!([0, 1, 2].map(|index| table.get(index)), [NONE, 0, NONE - 1]);
        assert_eq!((table.replace(1, NONE), table.get(1)), (0, NONE));
    }
}

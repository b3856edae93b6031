//! Values under small numbers.

/// Values, each under a number that is given anew once it was taken out.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps a value. Returns its number.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        let number = self.free.pop().unwrap_or(self.values.len());
        match self.values.get_mut(number) {
            Some(place) => {
                assert!(place.is_none(), "E5: no two operations under way have one number");
                *place = Some(value);
            }
            None => self.values.push(Some(value)),
        }
        number
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        let value = self.values.get_mut(number)?.take()?;
        self.free.push(number);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_anew_and_values_once() {
        let mut slab = Slab::default();
        assert_eq!((slab.insert('a'), slab.insert('b'), slab.remove(7)), (0, 1, None));
        assert_eq!((slab.remove(0), slab.remove(0)), (Some('a'), None));
        assert_eq!((slab.insert('c'), slab.insert('d')), (0, 2));
        assert_eq!((slab.remove(1), slab.remove(0), slab.remove(2)), (Some('b'), Some('c'), Some('d')));
    }
}

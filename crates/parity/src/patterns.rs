//! Counts of the sets of lost members that a layout corrects.

use crate::check_matrix::CheckMatrix;
use crate::linear::{Span, vector};
use crate::matrix::MAX_ROWS;

/// Sets that are tried, at most.
const MAX_SETS: u64 = 1 << 24;

/// The sets of one size that are corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patterns {
    /// Members of a set.
    pub size: usize,
    /// Sets that every class corrects.
    pub corrected: u64,
    /// All sets of the size.
    pub sets: u64,
}

/// Counts the sets of `size` lost members that every one of `classes` corrects, which are the
/// equations of the stripes of a layout over the same members.
///
/// A set is corrected by a class if its columns are independent. Subsets of a corrected set are
/// corrected, so members are added one at a time, and sets around a set that is not corrected are
/// not tried.
///
/// `None` if there are more than 2^24 sets, fewer members than `size`, or classes that differ in
/// their number of members.
#[must_use]
pub fn count(classes: &[CheckMatrix], size: usize) -> Option<Patterns> {
    let columns = classes.first().map_or(0, CheckMatrix::columns);
    let sets = binomial(columns, size).filter(|sets| *sets <= MAX_SETS)?;
    if classes.iter().any(|class| class.columns() != columns) {
        return None;
    }
    let spans = vec![Span::default(); classes.len()];
    let corrected = if size > MAX_ROWS { 0 } else { extend(classes, &spans, 0, size) };
    Some(Patterns { size, corrected, sets })
}

/// Corrected sets with `more` members from `from` on, beside those that span `spans`.
fn extend(classes: &[CheckMatrix], spans: &[Span], from: usize, more: usize) -> u64 {
    if more == 0 {
        return 1;
    }
    let columns = classes.first().map_or(0, CheckMatrix::columns);
    (from..columns)
        .filter_map(|column| {
            let mut wider = spans.to_vec();
            let grow = |(class, span): (&CheckMatrix, &mut Span)| span.insert(vector(class.column(column)));
            classes.iter().zip(&mut wider).all(grow).then(|| extend(classes, &wider, column + 1, more - 1))
        })
        .sum()
}

/// The number of sets of `size` out of `all`; `None` if it does not fit.
fn binomial(all: usize, size: usize) -> Option<u64> {
    let size = size.min(all.checked_sub(size)?) as u64;
    (1..=size).try_fold(1_u64, |so_far, i| Some(so_far.checked_mul(all as u64 - size + i)? / i))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    #[test]
    fn sets_are_counted() {
        assert_eq!((binomial(16, 4), binomial(4, 5), binomial(5, 0)), (Some(1820), None, Some(1)));
        assert_eq!(binomial(usize::MAX, 2), None);
        let raid6 = Code::raid6(6).unwrap().check().clone();
        let of = |size| count(std::slice::from_ref(&raid6), size);
        assert_eq!(of(2), Some(Patterns { size: 2, corrected: 28, sets: 28 }));
        assert_eq!(of(3), Some(Patterns { size: 3, corrected: 0, sets: 56 }));
        assert_eq!(of(9), None);
        let wide = Code::reed_solomon(30, 8).unwrap().check().clone();
        assert_eq!(count(std::slice::from_ref(&wide), 8), None, "48,903,492 sets");
        assert_eq!(count(&[wide, raid6], 2), None);
    }
}

//! The sets of columns that explain a block. The header of [`super`] derives the search.

use crate::check_matrix::CheckMatrix;
use crate::linear::{Span, Vector, vector};

/// Columns that are tested for lying in a span, at most, before a search is given up.
///
/// A third of a second. It is reached with eight parities over more than about a hundred members
/// only: the choices of t - 1 members there are more than are worth trying for one block.
const MAX_TESTS: u64 = 1 << 24;

/// Explanation of a block's syndromes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Explanation {
    /// This set, in order, and no other.
    One(Vec<usize>),
    /// Several sets, or perhaps: the search was given up. Their columns, in order.
    Several(Vec<usize>),
    /// No set.
    None,
}

/// The sets of columns, none to spare, whose span holds `span`, which is not zero: those with as
/// many columns as it has dimensions, if it is not the whole space; and larger ones up to half of
/// the columns that are independent whichever they are.
pub(super) fn explain(check: &CheckMatrix, span: &Span) -> Explanation {
    let columns: Vec<(usize, Vector)> = (0..check.columns())
        .map(|column| (column, vector(check.column(column))))
        .filter(|(_, coefficients)| *coefficients != Vector::default())
        .collect();
    let mut search = Search { columns: &columns, found: Vec::new(), tests: 0 };
    let mut complete = true;
    let rank = span.dimension();
    let largest = if rank < check.rows() { rank.max(check.any_independent() / 2) } else { 0 };
    for size in rank..=largest {
        complete = search.widen(span, size - rank, 0, size);
        if !complete || search.found.len() > 1 {
            break;
        }
    }
    match search.found.as_slice() {
        [] if complete => Explanation::None,
        [one] if complete => Explanation::One(search.names(one)),
        several => {
            let mut all: Vec<usize> = several.iter().flat_map(|set| search.names(set)).collect();
            all.sort_unstable();
            all.dedup();
            Explanation::Several(all)
        }
    }
}

struct Search<'c> {
    columns: &'c [(usize, Vector)],
    /// Sets of indices into `columns`, in order.
    found: Vec<Vec<usize>>,
    tests: u64,
}

impl Search<'_> {
    fn names(&self, set: &[usize]) -> Vec<usize> {
        set.iter().map(|i| self.columns[*i].0).collect()
    }

    /// Widens `span` by `more` columns from index `from` on in every way, and collects the sets of
    /// `size` columns that span the result. `false` where the search is given up.
    fn widen(&mut self, span: &Span, more: usize, from: usize, size: usize) -> bool {
        if more == 0 {
            return self.collect(span, size);
        }
        for next in from..self.columns.len() {
            let mut wider = span.clone();
            if wider.insert(self.columns[next].1) && !self.widen(&wider, more - 1, next + 1, size) {
                return false;
            }
        }
        true
    }

    /// The sets of `size` columns that span `span`, of just as many dimensions.
    fn collect(&mut self, span: &Span, size: usize) -> bool {
        self.tests = self.tests.saturating_add(self.columns.len() as u64);
        if self.tests > MAX_TESTS {
            return false;
        }
        let inside: Vec<usize> =
            (0..self.columns.len()).filter(|i| span.contains(self.columns[*i].1)).collect();
        inside.len() < size || self.choose(&inside, size, &mut Vec::with_capacity(size), &Span::default())
    }

    /// Every independent choice of `size` columns out of `inside`, after those `chosen`, which span
    /// `span`.
    fn choose(&mut self, inside: &[usize], size: usize, chosen: &mut Vec<usize>, span: &Span) -> bool {
        if chosen.len() == size {
            // A set that holds a smaller explanation, or one found before, has columns to spare or
            // is nothing new.
            if !self.found.iter().any(|set| set.iter().all(|i| chosen.contains(i))) {
                self.found.push(chosen.clone());
            }
            return true;
        }
        for (at, next) in inside.iter().enumerate() {
            self.tests = self.tests.saturating_add(1);
            if self.tests > MAX_TESTS {
                return false;
            }
            let mut wider = span.clone();
            if wider.insert(self.columns[*next].1) {
                chosen.push(*next);
                let go_on = self.choose(&inside[at + 1..], size, chosen, &wider);
                chosen.pop();
                if !go_on {
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{Code, LrcShape};

    fn span(vectors: &[Vec<u8>]) -> Span {
        let mut span = Span::default();
        for v in vectors {
            span.insert(vector(v.iter().copied()));
        }
        span
    }

    fn sum(check: &CheckMatrix, parts: &[(usize, u8)]) -> Vec<u8> {
        let mut out = vec![0; check.rows()];
        for (column, e) in parts {
            crate::gf::add_scaled(&mut out, &check.column(*column), *e);
        }
        out
    }

    #[test]
    fn four_members_at_a_single_position_are_found_with_eight_parities() {
        let check = Code::reed_solomon(8, 8).unwrap().check().clone();
        let parts = [(0, 9), (5, 1), (8, 200), (15, 3)];
        assert_eq!(explain(&check, &span(&[sum(&check, &parts)])), Explanation::One(vec![0, 5, 8, 15]));
    }

    #[test]
    fn equal_columns_cannot_be_told_apart() {
        let check = CheckMatrix::new(2, 4, &[1, 1, 1, 0, 1, 1, 0, 1]).unwrap();
        assert_eq!(explain(&check, &span(&[vec![1, 1]])), Explanation::Several(vec![0, 1]));
        assert_eq!(explain(&check, &span(&[vec![5, 0]])), Explanation::One(vec![2]));
    }

    #[test]
    fn a_set_with_columns_to_spare_is_no_explanation_of_its_own() {
        // In 10+4 one bad member is explained by it and any other as well; only the one is named.
        let check = Code::reed_solomon(10, 4).unwrap().check().clone();
        assert_eq!(explain(&check, &span(&[check.column(7)])), Explanation::One(vec![7]));
    }

    #[test]
    fn a_local_group_confuses_pairs() {
        let check = Code::lrc(LrcShape::find(6, 2, 2, None).unwrap()).check().clone();
        // At one byte nobody is named: any three columns are independent, and not any four. Equal
        // errors in x0 and x1 leave what P0 and P1 can leave, as their local parity holds.
        assert_eq!(explain(&check, &span(&[sum(&check, &[(0, 7), (1, 7)])])), Explanation::None);
        assert_eq!(explain(&check, &span(&[sum(&check, &[(0, 7), (1, 9)])])), Explanation::None);
        // Positions that show both name them.
        let both = span(&[sum(&check, &[(0, 7)]), sum(&check, &[(1, 9)])]);
        assert_eq!(explain(&check, &both), Explanation::One(vec![0, 1]));
        // Of three members of a group, any three of its four columns span as much.
        let group = span(&[check.column(0), check.column(1), check.column(2)]);
        let of_x = Explanation::Several(vec![0, 1, 2, 6, 8, 9]);
        assert_eq!(explain(&check, &group), of_x);
    }

    #[test]
    fn a_span_of_all_rows_names_nobody() {
        let check = Code::reed_solomon(4, 3).unwrap().check().clone();
        let of = |columns: &[usize]| columns.iter().map(|c| check.column(*c)).collect::<Vec<_>>();
        assert_eq!(explain(&check, &span(&of(&[1, 5]))), Explanation::One(vec![1, 5]));
        assert_eq!(explain(&check, &span(&of(&[1, 5, 6]))), Explanation::None);
    }

    #[test]
    fn a_search_that_is_too_long_names_nobody() {
        let check = Code::reed_solomon(248, 8).unwrap().check().clone();
        assert!(
            matches!(explain(&check, &span(&[sum(&check, &[(3, 1)])])), Explanation::Several(c) if c == [3])
        );
    }
}

//! Rivals of codes with three equations or more (R13): fills alone, because exchanges of so many
//! members do not imitate the damage of others.

use super::{MAX_PERIOD, Rival, RivalKind, common_period, runs, telling_runs_of};
use crate::check_matrix::CheckMatrix;
use crate::linear::{Span, Vector};
use crate::matrix::MAX_ROWS;
use std::ops::Range;

/// A member that is not named, and the fills that it may have held.
struct Other {
    column: usize,
    is_parity: bool,
    /// Its content repeats over the damaged runs.
    repeats: bool,
    /// So may what it held, if it is among the damaged ones.
    repeated: bool,
}

/// The live rival of the damage of `named` members whose errors are `errors`: at least `size` other
/// members that all hold a fill or may have held one, if there are so many. A set of other members
/// that explains a block has at least as many, and its errors are combinations of `errors` with
/// factors that are the same at every position. `parities` are the columns of parity.
///
/// # Panics
/// If lengths differ.
#[must_use]
pub fn fill_rival(
    check: &CheckMatrix,
    contents: &[Option<&[u8]>],
    (named, errors): (&[usize], &[Vec<u8>]),
    size: usize,
    parities: &[usize],
) -> Option<Rival> {
    let len = errors.first()?.len();
    let damaged = telling_runs_of(runs(len, |at| errors.iter().any(|error| error[at] != 0)), len)?;
    let others = (0..contents.len()).filter(|column| !named.contains(column));
    let others = others.filter(|column| check.column(*column).iter().any(|c| *c != 0));
    let seen: Vec<Other> = others
        .filter_map(|column| {
            let content = contents[column]?;
            assert_eq!(content.len(), len, "contents as long as the errors");
            let repeats = common_period(&damaged, |at| content[at]).is_some();
            let repeated = may_have_repeated(content, errors, &damaged);
            Some(Other { column, is_parity: parities.contains(&column), repeats, repeated })
        })
        .collect();
    // With a parity among them either is enough, as parity follows from the others.
    let either: Vec<&Other> = seen.iter().filter(|seen| seen.repeats || seen.repeated).collect();
    let both: Vec<&Other> = seen.iter().filter(|seen| seen.repeats && seen.repeated).collect();
    let live = if either.len() >= size && either.iter().any(|seen| seen.is_parity) {
        either
    } else if both.len() >= size {
        both
    } else {
        return None;
    };
    Some(Rival { columns: live.iter().map(|seen| seen.column).collect(), kind: RivalKind::Fill })
}

/// Returns whether a content plus a combination of the errors, with one factor for each over a run,
/// not all of them zero, has a period in each run.
fn may_have_repeated(content: &[u8], errors: &[Vec<u8>], runs: &[Range<usize>]) -> bool {
    // More errors than an equation has room for are no block of a code.
    errors.len() >= MAX_ROWS
        || runs.iter().all(|run| {
            let longest = MAX_PERIOD.min(run.len() / 2);
            (1..=longest).any(|period| has_period(content, errors, run, period))
        })
}

/// The same for one run and one period p: the factors solve, at every position but the last p,
/// `x(at) + x(at + p) = sum over j of a_j (e_j(at) + e_j(at + p))`.
fn has_period(content: &[u8], errors: &[Vec<u8>], run: &Range<usize>, period: usize) -> bool {
    let (mut span, mut repeats) = (Span::default(), true);
    let mut impossible = Vector::default();
    impossible[errors.len()] = 1;
    (run.start..run.end - period).all(|at| {
        let mut equation = Vector::default();
        for (entry, error) in equation.iter_mut().zip(errors) {
            *entry = error[at] ^ error[at + period];
        }
        equation[errors.len()] = content[at] ^ content[at + period];
        repeats &= equation[errors.len()] == 0;
        let solvable = !span.insert(equation) || !span.contains(impossible);
        // Of a content that has the period so far, factors that are all zero are no solution; and
        // if only they are left, a later equation with another right side has none.
        solvable && (!repeats || span.dimension() < errors.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::gf;

    /// 6+3: data 0 to 5, parities 6 to 8.
    fn check() -> CheckMatrix {
        Code::reed_solomon(6, 3).unwrap().check().clone()
    }

    fn noise(seed: u64) -> Vec<u8> {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        };
        std::iter::repeat_with(next).take(256).collect()
    }

    fn rival(contents: &[Vec<u8>], named: usize, error: &[u8]) -> Option<Vec<usize>> {
        let contents: Vec<Option<&[u8]>> = contents.iter().map(|bytes| Some(bytes.as_slice())).collect();
        let found = fill_rival(&check(), &contents, (&[named], &[error.to_vec()]), 3, &[6, 7, 8]);
        found.map(|rival| rival.columns)
    }

    #[test]
    fn random_contents_have_no_rival() {
        let contents: Vec<Vec<u8>> = (0..9).map(noise).collect();
        assert_eq!(rival(&contents, 2, &noise(90)), None);
    }

    #[test]
    fn three_others_that_hold_a_fill_are_a_rival_if_one_is_parity_or_the_error_repeats() {
        let mut contents: Vec<Vec<u8>> = (0..9).map(noise).collect();
        for column in [0, 4, 5] {
            contents[column] = vec![7; 256];
        }
        assert_eq!(rival(&contents, 2, &noise(90)), None, "none of them held a fill before");
        assert_eq!(rival(&contents, 2, &[0x55; 256]), Some(vec![0, 4, 5]));
        contents[8] = vec![0; 256];
        assert_eq!(rival(&contents, 2, &noise(90)), Some(vec![0, 4, 5, 8]));
    }

    #[test]
    fn three_others_that_held_a_fill_are_a_rival() {
        let (mut contents, error): (Vec<Vec<u8>>, _) = ((0..9).map(noise).collect(), noise(90));
        for (column, factor) in [(1, 3), (6, 29), (7, 200)] {
            contents[column] = vec![column as u8; 256];
            gf::add_scaled(&mut contents[column], &error, factor);
        }
        assert_eq!(rival(&contents, 2, &error), Some(vec![1, 6, 7]));
    }
}

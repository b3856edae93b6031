//! Location of damage: the members that explain the syndromes of a block.
//!
//! # Derivation
//! Let s be the syndrome vector of a byte position: p bytes, one a row. If only the members of a
//! set S are damaged there, s is a combination of their columns of H. S explains a block if that
//! holds at *every* bad position, that is, if the span W of all its syndrome vectors lies in the
//! span of the columns of S. W has at most p dimensions, so a block of 4096 positions is first
//! brought down to a basis of at most p vectors, and nothing is lost: a position that contradicts
//! the others widens W, wherever it stands.
//!
//! *Any damage.* Let any a columns be independent: p with an MDS code, the globals and one more
//! with a local code. Two different sets of at most t = floor(a/2) columns, none of them
//! superfluous, cannot explain the same W: together they would have a dependency of at most a
//! columns. So up to t unknown bad members are located, as in the decoding of Reed-Solomon codes.
//!
//! *Damage that shows.* Let W have r dimensions, and let the damaged set S have s members, none to
//! spare, so r <= s. r = s if the errors of the members are independent as vectors over the
//! positions, as random ones at many positions are. With an MDS code, another set R that explains W
//! and does not contain S has at least p + r - s members:
//!
//! * if R and S together have at most p columns, these are independent, and what both spans share
//!   is the span of the common columns. W lies in it, and S has none to spare, so R contains S;
//! * else they span all p dimensions together. Both hold W, so p <= |R| + s - r.
//!
//! Hence **with r = s <= p - 1, S is exactly the set of columns that lie in W**, and up to p - 1
//! members are named. A W of p dimensions is explained by any p columns, and names nobody. With a
//! local code several sets may span the same W, such as any three of the members of a group with
//! the two globals; then none is named.
//!
//! *Finding the sets.* Let W have d dimensions. A set S of size n, none superfluous, that explains
//! W has independent columns, and W can be completed to their span U by n - d of them (Steinitz).
//! So for every choice of n - d columns, U is the span of W and those, and S is found among the
//! columns that lie in U. When as many members are damaged as W has dimensions, which is the rule,
//! there is nothing to choose: U = W. Sets larger than r are looked for up to t.
//!
//! Worked example: RAID-6 has t = 1. Positions with (s_P, s_Q) = (7, 14) and (9, 18) span the line
//! of (1, 2): slot 1. A third with (3, 12) does not lie on it: W is the plane, and the block is
//! ambiguous. On its own it would be (1, 4), slot 2. (1, 2^slot) with a slot that is no data column
//! lies on no column at all, and is ambiguous too.
//!
//! # What this does not prove
//! That no *more* than t members are damaged. Damage of more may look like damage of others; and
//! parity that was updated from damaged data accuses the good member. The levels of certainty are
//! the caller's.
//!
//! # References
//! H. P. Anvin, *The mathematics of RAID-6*, section 4; F. J. MacWilliams, N. J. A. Sloane, *The
//! theory of error-correcting codes*, 1977, chapters 1 and 11. Errors at the same members all along
//! a block are an interleaved code's bursts: J. J. Metzner, E. J. Kapturowski, *A general decoding
//! technique applicable to replicated file disagreement location and concatenated code decoding*,
//! IEEE Trans. Inf. Theory 36(4), 1990 (the case U = W).

mod explain;
mod values;

pub use values::error_values;

use crate::check_matrix::CheckMatrix;
use crate::linear::{Span, Vector, vector};
use explain::{Explanation, explain};

/// The verdict on a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockVerdict {
    /// Every equation holds at every position.
    Consistent,
    /// These columns, in order, explain every bad position, and no other set of as many columns as
    /// the syndromes have dimensions, or of at most t, does that has none to spare. Fewer than the
    /// rows. The module's header has t.
    Columns(Vec<usize>),
    /// There is one equation: it sees damage and cannot say where.
    Unlocated,
    /// No such set of columns explains every bad position, or several do.
    Ambiguous {
        /// Several: the columns of them all. None: the columns that alone explain at least one of
        /// the positions. In order.
        candidates: Vec<usize>,
    },
}

/// A block's verdict, and where its bad bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDiagnosis {
    /// The verdict.
    pub verdict: BlockVerdict,
    /// The first bad position; 0 where there is none.
    pub first: usize,
    /// The last bad position, inclusive; 0 where there is none.
    pub last: usize,
    /// Positions at which some row is not zero.
    pub positions: usize,
    /// The dimensions of their syndromes, 0 to the rows of the matrix.
    pub rank: usize,
}

/// Diagnoses a block from its syndrome rows: `syndromes[i]` is row i of the check matrix over the
/// block.
///
/// Members that have no part in any row are never named. A matrix without rows says nothing:
/// consistent.
///
/// # Panics
/// If there are not as many rows as the matrix has, or they differ in length.
#[must_use]
pub fn diagnose_block(check: &CheckMatrix, syndromes: &[&[u8]]) -> BlockDiagnosis {
    let mut span = Span::default();
    let (mut range, mut positions) = (None, 0);
    for (at, syndrome) in bad_positions(check, syndromes) {
        range = Some(range.map_or((at, at), |(first, _)| (first, at)));
        positions += 1;
        span.insert(syndrome);
    }
    let Some((first, last)) = range else {
        return BlockDiagnosis {
            verdict: BlockVerdict::Consistent,
            first: 0,
            last: 0,
            positions: 0,
            rank: 0,
        };
    };
    let verdict = match check.rows() {
        1 => BlockVerdict::Unlocated,
        _ => match explain(check, &span) {
            Explanation::One(columns) => BlockVerdict::Columns(columns),
            Explanation::Several(candidates) => BlockVerdict::Ambiguous { candidates },
            Explanation::None => BlockVerdict::Ambiguous { candidates: named_somewhere(check, syndromes) },
        },
    };
    BlockDiagnosis { verdict, first, last, positions, rank: span.dimension() }
}

/// The positions at which some row is not zero, with their syndrome vectors.
fn bad_positions(check: &CheckMatrix, syndromes: &[&[u8]]) -> impl Iterator<Item = (usize, Vector)> {
    assert_eq!(syndromes.len(), check.rows(), "one syndrome a row");
    let len = syndromes.first().map_or(0, |row| row.len());
    assert!(syndromes.iter().all(|row| row.len() == len), "rows of one length");
    (0..len)
        .map(move |at| (at, vector(syndromes.iter().map(|row| row[at]))))
        .filter(|(_, syndrome)| *syndrome != Vector::default())
}

/// The columns that alone explain at least one bad position.
fn named_somewhere(check: &CheckMatrix, syndromes: &[&[u8]]) -> Vec<usize> {
    let lines: Vec<Span> = (0..check.columns())
        .map(|column| {
            let mut line = Span::default();
            line.insert(vector(check.column(column)));
            line
        })
        .collect();
    let mut named = vec![false; lines.len()];
    for (_, syndrome) in bad_positions(check, syndromes) {
        for (line, named) in lines.iter().zip(&mut named) {
            *named = *named || line.contains(syndrome);
        }
    }
    (0..named.len()).filter(|column| named[*column]).collect()
}

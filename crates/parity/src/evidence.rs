//! The evidence of a block's bytes for the member that its syndromes name.
//!
//! `docs/design/repair.md` has the rules (R11 to R13) and derives which pairs of other members are
//! rivals. This module measures the number of values of the error, its period, and the pairs that
//! explain the same bytes in a way that happens to disks.

mod chance;
mod fills;
mod values;

pub use chance::{Vectors, mistaken_one_in};
pub use fills::fill_rival;
pub use values::Values;

use crate::check_matrix::CheckMatrix;
use crate::gf;
use crate::shuffle;
use std::ops::Range;

/// Longest period that counts as a pattern, in bytes.
pub const MAX_PERIOD: usize = 64;
/// Consistent bytes between two damaged ones that still belong to one run, at most.
pub const GAP: usize = 16;
/// Shortest run that says anything about periods.
const SHORTEST_RUN: usize = 16;
/// Damaged bytes one after another that show an exchange. Any pair of 24 members shows so many by
/// chance in one block of 4,000.
const STREAK: usize = 4;
/// The unit to which short runs are widened: the smallest sector.
const SECTOR: usize = 512;

/// The shape of an error over a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorShape {
    /// Bytes that are not zero.
    pub bytes: u32,
    /// The values that they take.
    pub values: Values,
    /// The smallest period over every damaged run, 1 to [`MAX_PERIOD`]; `None` without one, and if
    /// all runs are short.
    pub period: Option<u8>,
    /// The damaged runs.
    pub runs: Vec<Range<usize>>,
}

impl ErrorShape {
    /// Measures an error.
    #[must_use]
    pub fn of(error: &[u8]) -> Self {
        let mut values = Values::default();
        let mut bytes = 0;
        for byte in error.iter().filter(|byte| **byte != 0) {
            values.insert(*byte);
            bytes += 1;
        }
        let runs = runs(error.len(), |at| error[at] != 0);
        let period = common_period(&runs, |at| error[at]);
        Self { bytes, values, period, runs }
    }
}

/// The stretches of damaged positions, with gaps of at most [`GAP`].
fn runs(len: usize, damaged: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for at in (0..len).filter(|at| damaged(*at)) {
        match out.last_mut() {
            Some(last) if at - last.end <= GAP => last.end = at + 1,
            _ => out.push(at..at + 1),
        }
    }
    out
}

/// The smallest period of `byte` over a run, up to half of its length.
fn period(run: &Range<usize>, byte: impl Fn(usize) -> u8) -> Option<u8> {
    let longest = MAX_PERIOD.min(run.len() / 2);
    (1..=longest).find(|p| (run.start..run.end - p).all(|at| byte(at) == byte(at + p))).map(|p| p as u8)
}

/// The longest of the runs' periods; `None` if a run that counts has none, or no run counts.
fn common_period(runs: &[Range<usize>], byte: impl Fn(usize) -> u8 + Copy) -> Option<u8> {
    let counting = runs.iter().filter(|run| run.len() >= SHORTEST_RUN);
    counting.map(|run| period(run, byte)).reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// Ways in which members could have come to the bytes they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RivalKind {
    /// Both hold, or held, a fill: a constant or a short pattern.
    Fill,
    /// Each holds the other's bytes.
    Exchange,
    /// Both hold the same bytes.
    Copy,
    /// Three hold each other's bytes in a ring, or two pairs have exchanged theirs.
    Shuffle,
}

/// Members that explain the same bytes in a way that happens to disks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rival {
    /// Their columns, in order: two; three or four of a [`RivalKind::Shuffle`].
    pub columns: Vec<usize>,
    /// The way in which they explain the bytes.
    pub kind: RivalKind,
}

/// The live rivals of a block (R13): the pairs, and if there is none, the exchange of more members.
/// `contents[column]` is the present content of each member, as long as the syndromes; `None` for a
/// member that is missing, which is never part of a pair. `accused` is the column that alone
/// explains the block, if one does; pairs that contain it explain nothing new.
///
/// Codes with other than two rows have no pairs that explain everything: the result is empty. For
/// more rows see [`fill_rival`].
///
/// # Panics
/// If there are not as many syndromes as rows, or lengths differ.
#[must_use]
pub fn rivals(
    check: &CheckMatrix,
    syndromes: &[&[u8]],
    contents: &[Option<&[u8]>],
    accused: Option<usize>,
) -> Vec<Rival> {
    assert_eq!(syndromes.len(), check.rows(), "one syndrome a row");
    assert_eq!(contents.len(), check.columns(), "one content a column");
    let [first, second] = syndromes else { return Vec::new() };
    let runs = telling_runs(first, second);
    let Some(runs) = runs else { return Vec::new() };
    let present: Vec<Option<Member<'_>>> = contents
        .iter()
        .enumerate()
        .map(|(column, content)| {
            let content = (*content)?;
            assert_eq!(content.len(), first.len(), "contents as long as the syndromes");
            let h = [check.get(0, column), check.get(1, column)];
            let periodic = common_period(&runs, |at| content[at]).is_some();
            (h != [0, 0]).then_some(Member { content, h, periodic })
        })
        .collect();
    let mut out = Vec::new();
    for i in 0..present.len() {
        for j in i + 1..present.len() {
            let (Some(a), Some(b)) = (&present[i], &present[j]) else { continue };
            if Some(i) == accused || Some(j) == accused {
                continue;
            }
            let one = accused.map(|m| [check.get(0, m), check.get(1, m)]);
            if let Some(kind) = pair(a, b, one, [first, second], &runs) {
                out.push(Rival { columns: vec![i, j], kind });
            }
        }
    }
    // Only damage of Q looks like an exchange that P does not notice.
    let is_q = accused.is_some_and(|column| check.get(0, column) == 0);
    if out.is_empty() && is_q {
        let columns = shuffle::find(check, second, contents);
        out.extend(columns.map(|columns| Rival { columns, kind: RivalKind::Shuffle }));
    }
    out
}

/// The damaged runs that are long enough to tell, or else the sectors that they touch. `None`
/// without damage.
fn telling_runs(first: &[u8], second: &[u8]) -> Option<Vec<Range<usize>>> {
    telling_runs_of(runs(first.len(), |at| first[at] != 0 || second[at] != 0), first.len())
}

/// The same of the damaged runs of a block of so many bytes.
fn telling_runs_of(all: Vec<Range<usize>>, len: usize) -> Option<Vec<Range<usize>>> {
    let (start, end) = (all.first()?.start, all.last()?.end);
    let long: Vec<_> = all.into_iter().filter(|run| run.len() >= SHORTEST_RUN).collect();
    if !long.is_empty() {
        return Some(long);
    }
    let start = start / SECTOR * SECTOR;
    let sectors = start..end.next_multiple_of(SECTOR).min(len);
    Some(std::iter::once(sectors).collect())
}

/// Returns whether a content has a period of 1 to [`MAX_PERIOD`] bytes over every damaged run.
///
/// # Panics
/// If the content is not as long as the syndromes.
#[must_use]
pub fn repeats_where_damaged(content: &[u8], syndromes: &[&[u8]]) -> bool {
    let mut damaged = vec![0; content.len()];
    for row in syndromes {
        assert_eq!(row.len(), content.len(), "contents as long as the syndromes");
        damaged.iter_mut().zip(*row).for_each(|(sum, byte)| *sum |= byte);
    }
    let runs = telling_runs(&damaged, &damaged);
    runs.is_some_and(|runs| common_period(&runs, |at| content[at]).is_some())
}

struct Member<'b> {
    content: &'b [u8],
    h: [u8; 2],
    /// Its content is periodic over the damaged runs.
    periodic: bool,
}

impl Member<'_> {
    fn is_parity(&self) -> bool {
        self.h.contains(&0)
    }
}

/// `a * x + b * y` by table.
struct Combination {
    a: [u8; 256],
    b: [u8; 256],
}

impl Combination {
    fn new(a: u8, b: u8) -> Self {
        Self {
            a: std::array::from_fn(|x| gf::mul(a, x as u8)),
            b: std::array::from_fn(|x| gf::mul(b, x as u8)),
        }
    }

    fn of(&self, x: u8, y: u8) -> u8 {
        self.a[usize::from(x)] ^ self.b[usize::from(y)]
    }
}

/// Returns whether `holds` is true of [`STREAK`] damaged bytes one after another.
fn has_streak(damaged: impl Iterator<Item = usize>, holds: impl Fn(usize) -> bool) -> bool {
    let mut streak = 0;
    for at in damaged {
        streak = if holds(at) { streak + 1 } else { 0 };
        if streak == STREAK {
            return true;
        }
    }
    false
}

/// Classifies a pair; `None` if it is not live.
fn pair(
    a: &Member<'_>,
    b: &Member<'_>,
    accused: Option<[u8; 2]>,
    [first, second]: [&[u8]; 2],
    runs: &[Range<usize>],
) -> Option<RivalKind> {
    // Cramer: det * e_a = b1*s0 + b0*s1, det * e_b = a1*s0 + a0*s1.
    let det = gf::mul(a.h[0], b.h[1]) ^ gf::mul(a.h[1], b.h[0]);
    let inverse = gf::inv(det)?;
    // With one accused member both errors are multiples of its error; equal ones have c = 1.
    let equal_errors = accused.is_some_and(|m| {
        gf::mul(b.h[1], m[0]) ^ gf::mul(b.h[0], m[1]) == gf::mul(a.h[1], m[0]) ^ gf::mul(a.h[0], m[1])
    });
    let is_p_and_q = a.is_parity() && b.is_parity();
    let unrelated = accused.is_some() && !equal_errors && !a.is_parity() && !b.is_parity();
    // The usual case, without a table: nothing periodic on both, no equal errors.
    if unrelated && !(a.periodic && b.periodic) {
        return None;
    }
    let of_a = Combination::new(gf::mul(inverse, b.h[1]), gf::mul(inverse, b.h[0]));
    let of_b = Combination::new(gf::mul(inverse, a.h[1]), gf::mul(inverse, a.h[0]));
    let original_a = |at: usize| a.content[at] ^ of_a.of(first[at], second[at]);
    let original_b = |at: usize| b.content[at] ^ of_b.of(first[at], second[at]);
    let everywhere = |holds: &dyn Fn(usize) -> bool| runs.iter().all(|run| run.clone().all(holds));
    let damaged = (0..first.len()).filter(|at| first[*at] != 0 || second[*at] != 0);
    if has_streak(damaged, |at| a.content[at] == original_b(at) && b.content[at] == original_a(at)) {
        return Some(RivalKind::Exchange);
    }
    let were_periodic =
        || common_period(runs, original_a).is_some() && common_period(runs, original_b).is_some();
    let are_periodic = a.periodic && b.periodic;
    let fill = if unrelated {
        are_periodic && were_periodic()
    } else {
        are_periodic || (!is_p_and_q && were_periodic())
    };
    if fill {
        return Some(RivalKind::Fill);
    }
    let copy =
        (equal_errors || a.is_parity() || b.is_parity()) && everywhere(&|at| a.content[at] == b.content[at]);
    copy.then_some(RivalKind::Copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: usize = 6;

    /// 6+2: data 0 to 5, P 6, Q 7.
    fn raid6() -> CheckMatrix {
        let mut rows = vec![1; K];
        rows.extend([1, 0]);
        rows.extend((0..K).map(gf::exp));
        rows.extend([0, 1]);
        CheckMatrix::new(2, K + 2, &rows).unwrap()
    }

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    fn encode(data: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let len = data[0].len();
        let (mut p, mut q) = (vec![0; len], vec![0; len]);
        for (slot, bytes) in data.iter().enumerate() {
            gf::add_scaled(&mut p, bytes, 1);
            gf::add_scaled(&mut q, bytes, gf::exp(slot));
        }
        data.into_iter().chain([p, q]).collect()
    }

    fn stripe(len: usize) -> Vec<Vec<u8>> {
        encode((0..K).map(|i| noise(i as u64 + 1, len)).collect())
    }

    fn syndromes(check: &CheckMatrix, stripe: &[Vec<u8>]) -> Vec<Vec<u8>> {
        (0..2)
            .map(|row| {
                let mut sum = vec![0; stripe[0].len()];
                for (column, bytes) in stripe.iter().enumerate() {
                    gf::add_scaled(&mut sum, bytes, check.get(row, column));
                }
                sum
            })
            .collect()
    }

    /// The rivals of a stripe as it is, and the column that alone explains it.
    fn judge(stripe: &[Vec<u8>]) -> (Option<usize>, Vec<Rival>) {
        let check = raid6();
        let rows = syndromes(&check, stripe);
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let accused = match crate::locate::diagnose_block(&check, &rows).verdict {
            crate::locate::BlockVerdict::Columns(columns) => Some(columns[0]),
            _ => None,
        };
        let contents: Vec<Option<&[u8]>> = stripe.iter().map(|bytes| Some(bytes.as_slice())).collect();
        (accused, rivals(&check, &rows, &contents, accused))
    }

    #[test]
    fn noise_on_one_member_among_noise_has_no_rival() {
        for member in 0..K + 2 {
            for (start, len) in [(0, 4096), (1000, 300), (4000, 1), (5, 8)] {
                let mut stripe = stripe(4096);
                let error = noise(99, len);
                gf::add_scaled(&mut stripe[member][start..start + len], &error, 1);
                let (accused, rivals) = judge(&stripe);
                assert_eq!((accused, rivals), (Some(member), Vec::new()), "{member} {start}+{len}");
            }
        }
    }

    #[test]
    fn two_fills_that_look_like_a_third_member_are_seen() {
        // Only slot 0 holds data, so P = Q = d0; both parities filled alike look like damage of
        // slot 0.
        for len in [4096, 300] {
            let mut data = vec![vec![0; 4096]; K];
            data[0] = noise(5, 4096);
            let mut stripe = encode(data);
            for parity in [K, K + 1] {
                stripe[parity][700..700 + len.min(3000)].fill(0xFF);
            }
            let (accused, rivals) = judge(&stripe);
            assert_eq!(accused, Some(0));
            let pq = Rival { columns: vec![K, K + 1], kind: RivalKind::Fill };
            assert!(rivals.contains(&pq), "{len}: {rivals:?}");
        }
    }

    #[test]
    fn lost_parity_writes_in_an_empty_stripe_are_seen() {
        // Only slot 3 holds data, and neither parity got its write.
        let mut stripe = vec![vec![0; 4096]; K + 2];
        stripe[3] = noise(5, 4096);
        let (accused, rivals) = judge(&stripe);
        assert_eq!(accused, Some(3));
        assert!(rivals.contains(&Rival { columns: vec![K, K + 1], kind: RivalKind::Fill }), "{rivals:?}");
    }

    #[test]
    fn exchanged_data_members_look_like_q_and_are_seen() {
        let mut stripe = stripe(4096);
        stripe.swap(1, 4);
        let (accused, rivals) = judge(&stripe);
        assert_eq!(accused, Some(K + 1), "P holds, Q does not");
        assert_eq!(rivals, [Rival { columns: vec![1, 4], kind: RivalKind::Exchange }]);
    }

    #[test]
    fn members_exchanged_with_parity_are_named() {
        // P does not notice an exchange with a data member; an exchange with Q no single member
        // explains.
        for (parity, accused) in [(K, Some(K + 1)), (K + 1, None)] {
            let mut stripe = stripe(4096);
            stripe.swap(2, parity);
            let exchange = Rival { columns: vec![2, parity], kind: RivalKind::Exchange };
            assert_eq!(judge(&stripe), (accused, vec![exchange]));
        }
    }

    #[test]
    fn the_same_wrong_block_over_equal_blocks_is_seen() {
        let mut data: Vec<Vec<u8>> = (0..K).map(|i| noise(i as u64 + 1, 4096)).collect();
        data[2] = data[5].clone();
        let mut stripe = encode(data);
        let wrong = noise(77, 4096);
        stripe[2].clone_from(&wrong);
        stripe[5] = wrong;
        let (accused, rivals) = judge(&stripe);
        assert_eq!(accused, Some(K + 1));
        assert_eq!(rivals, [Rival { columns: vec![2, 5], kind: RivalKind::Copy }]);
    }

    #[test]
    fn a_lost_write_into_an_empty_stripe_keeps_its_strength() {
        // P and Q have the new data, the member still holds zeros.
        let mut data = vec![vec![0; 4096]; K];
        data[2] = noise(5, 4096);
        let mut stripe = encode(data);
        stripe[2].fill(0);
        assert_eq!(judge(&stripe), (Some(2), Vec::new()));
    }

    #[test]
    fn the_shape_of_an_error() {
        let mut error = vec![0; 4096];
        error[100..400].fill(7);
        let shape = ErrorShape::of(&error);
        assert_eq!((shape.bytes, shape.values.count(), shape.values.single()), (300, 1, Some(7)));
        assert_eq!(shape.period, Some(1));
        for (i, byte) in error[1000..2000].iter_mut().enumerate() {
            *byte = [1, 2, 3][i % 3];
        }
        let shape = ErrorShape::of(&error);
        assert_eq!((shape.values.count(), shape.period, shape.runs.len()), (4, Some(3), 2));
        let shape = ErrorShape::of(&noise(3, 4096));
        assert_eq!((shape.period, shape.values.single()), (None, None));
        let mut error = vec![0; 4096];
        error[511] = 255;
        let shape = ErrorShape::of(&error);
        assert_eq!((shape.values.single(), shape.period), (Some(255), None));
    }

    /// Exhaustive over pairs: whatever two members are filled, either no single member explains the
    /// block, or the filled pair is among the rivals.
    #[test]
    fn every_filled_pair_is_seen() {
        let contents: [fn(usize) -> Vec<u8>; 3] =
            [|i| noise(i as u64 + 1, 512), |_| vec![0; 512], |i| vec![i as u8; 512]];
        for content in contents {
            for lone in 0..=K {
                // One member of its own, or none.
                let mut data: Vec<Vec<u8>> = (0..K).map(content).collect();
                if lone < K {
                    data[lone] = noise(50, 512);
                }
                let good = encode(data);
                for i in 0..K + 2 {
                    for j in i + 1..K + 2 {
                        for (a, b) in [(0, 0), (255, 255), (0, 255), (1, 2)] {
                            let mut stripe = good.clone();
                            stripe[i].fill(a);
                            stripe[j].fill(b);
                            if stripe[i] == good[i] || stripe[j] == good[j] {
                                continue;
                            }
                            let (accused, rivals) = judge(&stripe);
                            if accused.is_none_or(|m| m == i || m == j) {
                                continue;
                            }
                            let seen = rivals.iter().any(|rival| rival.columns == [i, j]);
                            assert!(seen, "{i} {j} {a} {b}, {lone}: {accused:?} {rivals:?}");
                        }
                    }
                }
            }
        }
    }
}

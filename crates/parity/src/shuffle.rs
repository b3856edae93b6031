//! Test for members that hold each other's bytes: three in a ring, or two pairs at once.
//!
//! The rule and its derivation are R13 of `docs/design/repair.md`. An exchange of members whose
//! coefficients in a row are equal leaves that row's syndrome zero, so one that happens under
//! P looks like damage of Q.

use crate::check_matrix::CheckMatrix;
use crate::gf;

/// Damaged bytes in a row that are compared. Pairs of pairs of 24 members are 31,878, and rings of
/// three 4,048: one of them agrees by chance in one window of 5 * 10^14.
const WINDOW: usize = 8;
/// The smallest unit in which a drive misplaces data. Each is looked at for itself.
const SECTOR: usize = 512;

/// The members whose exchange explains the second syndrome, where the first is zero: the columns
/// of the first explanation found, in order. `None` without one.
///
/// In each sector the first and the last eight damaged bytes in a row are looked at. Other damage
/// that covers both hides an exchange.
///
/// # Panics
/// If there are not as many contents as columns, or their lengths differ from the syndrome's.
#[must_use]
pub(crate) fn find(check: &CheckMatrix, second: &[u8], contents: &[Option<&[u8]>]) -> Option<Vec<usize>> {
    assert_eq!(contents.len(), check.columns(), "one content a column");
    let members: Vec<(usize, u8, &[u8])> = contents
        .iter()
        .enumerate()
        .filter_map(|(column, content)| {
            let content = (*content)?;
            assert_eq!(content.len(), second.len(), "contents as long as the syndrome");
            (check.get(0, column) == 1).then(|| (column, check.get(1, column), content))
        })
        .collect();
    windows(second).into_iter().find_map(|at| {
        let word = |bytes: &[u8]| -> [u8; WINDOW] { std::array::from_fn(|i| bytes[at + i]) };
        let products = Products::new(&members, word);
        let found = products.explain(u64::from_le_bytes(word(second)))?;
        Some(found.into_iter().map(|i| members[i].0).collect())
    })
}

/// Starts of the first and the last [`WINDOW`] damaged bytes in a row, in each sector.
fn windows(syndrome: &[u8]) -> Vec<usize> {
    let mut out = Vec::new();
    for (sector, bytes) in syndrome.chunks(SECTOR).enumerate() {
        let damaged = |window: &[u8]| window.iter().all(|byte| *byte != 0);
        let first = bytes.windows(WINDOW).position(damaged);
        let last = bytes.windows(WINDOW).rposition(damaged);
        out.extend(first.map(|at| sector * SECTOR + at));
        out.extend(last.filter(|_| last != first).map(|at| sector * SECTOR + at));
    }
    out
}

/// `h(i) * x(j)` over one window, for all i and j.
struct Products {
    members: usize,
    words: Vec<u64>,
}

impl Products {
    fn new(members: &[(usize, u8, &[u8])], word: impl Fn(&[u8]) -> [u8; WINDOW]) -> Self {
        let scaled = |h: u8, bytes: [u8; WINDOW]| u64::from_le_bytes(bytes.map(|byte| gf::mul(h, byte)));
        let words = members
            .iter()
            .flat_map(|(_, h, _)| members.iter().map(|(_, _, content)| scaled(*h, word(content))));
        Self { members: members.len(), words: words.collect() }
    }

    /// The part of member i in the second syndrome if its bytes belong to `from`.
    fn error(&self, i: usize, from: usize) -> u64 {
        self.words[i * self.members + i] ^ self.words[i * self.members + from]
    }

    fn exchange(&self, i: usize, j: usize) -> u64 {
        self.error(i, j) ^ self.error(j, i)
    }

    /// Three in a ring or two disjoint pairs whose exchange makes the syndrome.
    fn explain(&self, syndrome: u64) -> Option<Vec<usize>> {
        let n = self.members;
        for i in 0..n {
            for j in i + 1..n {
                for k in (i + 1..n).filter(|k| *k != j) {
                    if self.error(i, j) ^ self.error(j, k) ^ self.error(k, i) == syndrome {
                        return Some(sorted(vec![i, j, k]));
                    }
                }
            }
        }
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        let mut pairs: Vec<(u64, usize, usize)> = pairs.map(|(i, j)| (self.exchange(i, j), i, j)).collect();
        pairs.sort_unstable();
        pairs.iter().find_map(|(word, i, j)| {
            let rest = word ^ syndrome;
            let from = pairs.partition_point(|(other, ..)| *other < rest);
            let partners = pairs[from..].iter().take_while(|(other, ..)| *other == rest);
            let mut disjoint = partners.filter(|(_, k, l)| [i, j].iter().all(|m| *m != k && *m != l));
            disjoint.next().map(|(_, k, l)| sorted(vec![*i, *j, *k, *l]))
        })
    }
}

fn sorted(mut columns: Vec<usize>) -> Vec<usize> {
    columns.sort_unstable();
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1024;

    /// k data columns, P, Q.
    fn raid6(k: usize) -> CheckMatrix {
        let mut rows = vec![1; k];
        rows.extend([1, 0]);
        rows.extend((0..k).map(gf::exp));
        rows.extend([0, 1]);
        CheckMatrix::new(2, k + 2, &rows).unwrap()
    }

    fn noise(seed: u64) -> Vec<u8> {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        };
        (0..LEN).map(|_| next()).collect()
    }

    fn encode(k: usize) -> Vec<Vec<u8>> {
        let data: Vec<_> = (0..k as u64).map(|i| noise(i + 1)).collect();
        let (mut p, mut q) = (vec![0; LEN], vec![0; LEN]);
        for (slot, bytes) in data.iter().enumerate() {
            gf::add_scaled(&mut p, bytes, 1);
            gf::add_scaled(&mut q, bytes, gf::exp(slot));
        }
        data.into_iter().chain([p, q]).collect()
    }

    /// The explanation of a stripe with one zero syndrome.
    fn explain(check: &CheckMatrix, stripe: &[Vec<u8>]) -> Option<Vec<usize>> {
        let syndrome = |row| {
            let mut sum = vec![0; LEN];
            for (column, bytes) in stripe.iter().enumerate() {
                gf::add_scaled(&mut sum, bytes, check.get(row, column));
            }
            sum
        };
        assert!(syndrome(0).iter().all(|byte| *byte == 0), "P does not notice");
        let contents: Vec<_> = stripe.iter().map(|bytes| Some(bytes.as_slice())).collect();
        find(check, &syndrome(1), &contents)
    }

    /// Member `to[i]` gets the bytes of `to[i + 1]`, the last one those of the first.
    fn rotate(stripe: &mut [Vec<u8>], ring: &[usize], range: std::ops::Range<usize>) {
        let first = stripe[ring[0]][range.clone()].to_vec();
        for pair in ring.windows(2) {
            let bytes = stripe[pair[1]][range.clone()].to_vec();
            stripe[pair[0]][range.clone()].copy_from_slice(&bytes);
        }
        stripe[*ring.last().unwrap()][range].copy_from_slice(&first);
    }

    #[test]
    fn every_ring_of_three_and_every_two_pairs_are_seen() {
        for k in [3, 6] {
            let (check, good) = (raid6(k), encode(k));
            // P is one of the columns.
            for ring in (0..=k).flat_map(|a| (0..=k).flat_map(move |b| (0..=k).map(move |c| [a, b, c]))) {
                let [a, b, c] = ring;
                if a == b || b == c || a == c {
                    continue;
                }
                let mut stripe = good.clone();
                rotate(&mut stripe, &ring, 512..1024);
                assert_eq!(explain(&check, &stripe), Some(sorted(ring.to_vec())), "{ring:?}");
                for d in (0..=k).filter(|d| !ring.contains(d)) {
                    let mut stripe = good.clone();
                    rotate(&mut stripe, &[a, b], 0..512);
                    rotate(&mut stripe, &[c, d], 0..512);
                    assert_eq!(explain(&check, &stripe), Some(sorted(vec![a, b, c, d])));
                }
            }
        }
    }

    #[test]
    fn two_pairs_are_seen_beside_damage_of_q() {
        let (check, mut stripe) = (raid6(6), encode(6));
        rotate(&mut stripe, &[4, 2], 0..512);
        rotate(&mut stripe, &[0, 3], 0..512);
        let other = noise(99);
        stripe[7][100..1024].copy_from_slice(&other[100..1024]);
        assert_eq!(explain(&check, &stripe), Some(vec![0, 2, 3, 4]));
    }

    #[test]
    fn damage_of_q_alone_is_no_exchange() {
        let (check, good) = (raid6(22), encode(22));
        for seed in 0..20 {
            let mut stripe = good.clone();
            stripe[23] = noise(1000 + seed);
            assert_eq!(explain(&check, &stripe), None);
        }
        let mut stale = good.clone();
        // Q missed a write of one member.
        gf::add_scaled(&mut stale[23], &noise(5000), gf::exp(7));
        assert_eq!(explain(&check, &stale), None);
    }
}

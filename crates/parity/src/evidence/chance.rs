//! The chance that other damage looks like that of the members that a verdict names (R12).

use crate::linear::Vector;

/// Vectors that are kept, at most: 255^16 is more than any count of sets.
const MOST: usize = 16;

/// Different syndrome vectors over the positions of a block, none of them zero: up to 16. There are
/// as many different error vectors of the members that explain them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vectors(Vec<Vector>);

impl Vectors {
    /// The vectors of a block: `syndromes[i]` is row i of the check matrix over the block, at most
    /// eight rows of one length.
    #[must_use]
    pub fn of(syndromes: &[&[u8]]) -> Self {
        let mut out = Self::default();
        for at in 0..syndromes.first().map_or(0, |row| row.len()) {
            let mut vector = Vector::default();
            vector.iter_mut().zip(syndromes).for_each(|(byte, row)| *byte = row[at]);
            out.insert(vector);
            if out.0.len() == MOST {
                break;
            }
        }
        out
    }

    fn insert(&mut self, vector: Vector) {
        if vector != Vector::default()
            && self.0.len() < MOST
            && let Err(place) = self.0.binary_search(&vector)
        {
            self.0.insert(place, vector);
        }
    }

    /// The number of vectors, up to 16.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// The vectors of both, up to 16.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        other.0.iter().for_each(|vector| out.insert(*vector));
        out
    }
}

/// The reciprocal of the bound of R12, rounded down, at most `u64::MAX`: other members of a stripe
/// of `members`, damaged at random in the same bytes, look like the `named` ones with a chance of
/// at most `C(members, named) * 255^(-different * spare)`. `spare` is the number of equations that
/// the named members do not use up; without any there is no bound, and the result is 0.
#[must_use]
pub fn mistaken_one_in(members: u32, named: u32, spare: u32, different: u32) -> u64 {
    if spare == 0 || different == 0 {
        return 0;
    }
    let sets = (0..u128::from(named)).try_fold(1_u128, |sets, i| {
        let left = u128::from(members).saturating_sub(i);
        sets.checked_mul(left).map(|sets| sets / (i + 1))
    });
    let all = different.checked_mul(spare).and_then(|exponent| 255_u128.checked_pow(exponent));
    match (all, sets) {
        (Some(all), Some(sets)) => (all / sets.max(1)).try_into().unwrap_or(u64::MAX),
        (None, Some(_)) => u64::MAX,
        // More sets than fit: at most 255^16 against them.
        (_, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_of_a_mistake_is_that_of_r12() {
        // RAID-6: 6e-9, the figure of the rule.
        assert_eq!(mistaken_one_in(24, 1, 1, 4), 176_177_109);
        assert_eq!(mistaken_one_in(24, 1, 1, 1), 10);
        assert_eq!(mistaken_one_in(24, 1, 1, 16), u64::MAX);
        // Two of 14 members with four equations, and a set that uses all of them up.
        assert_eq!(mistaken_one_in(14, 2, 2, 1), 65_025 / 91);
        assert_eq!(mistaken_one_in(14, 4, 0, 9), 0);
        assert_eq!(mistaken_one_in(255, 8, 1, 16), u64::MAX);
    }

    #[test]
    fn vectors_are_counted_once_and_zeros_never() {
        let vectors = Vectors::of(&[&[0, 1, 1, 0, 2], &[0, 5, 5, 7, 0]]);
        assert_eq!(vectors.count(), 3);
        let more = Vectors::of(&[&[1, 9], &[5, 9]]);
        assert_eq!(vectors.union(&more).count(), 4);
        let row: Vec<u8> = (0..=255).collect();
        assert_eq!(Vectors::of(&[&row]).count(), 16);
    }
}

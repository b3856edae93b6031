//! Guards against the tuples that are stored, of several blocks at a time.
//!
//! Without branches and in numbers of 64 bits, so that the compiler makes it a loop over registers
//! of the instruction set for which it is compiled.

use crate::guard::Guard;

/// The result of comparing guards with tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// Some block whose tuple is not an escape has another guard.
    pub differ: bool,
    /// Some tuple is an escape: its application tag is FFFFh, and its block is not checked.
    pub escapes: bool,
}

/// Compares the guards of blocks with their tuples, of the format with this guard and type 1.
///
/// # Panics
/// If there are not as many whole tuples as guards.
#[inline(always)]
pub(super) fn compare(guard: Guard, guards: &[u64], tuples: &[u8]) -> Compared {
    match guard {
        Guard::Crc16 => each(guards, tuples.as_chunks().0, |tuple: &[u8; 8]| {
            // In the order of the bytes in memory: this way no word has to be swapped.
            let number = u64::from_le_bytes(*tuple);
            ((number & 0xFF) << 8 | number >> 8 & 0xFF, number >> 16 & 0xFFFF)
        }),
        Guard::Crc32c => each(guards, tuples.as_chunks().0, |tuple: &[u8; 16]| {
            let number = u128::from_be_bytes(*tuple);
            ((number >> 96) as u64, (number >> 80) as u64 & 0xFFFF)
        }),
        Guard::Crc64 => each(guards, tuples.as_chunks().0, |tuple: &[u8; 16]| {
            let number = u128::from_be_bytes(*tuple);
            ((number >> 64) as u64, (number >> 48) as u64 & 0xFFFF)
        }),
    }
}

/// Blocks that are compared at a time: words of the widest register.
const LANES: usize = 8;

/// The same for tuples of one size. `fields` gives guard and application tag.
#[inline(always)]
fn each<const N: usize>(
    guards: &[u64],
    tuples: &[[u8; N]],
    fields: impl Fn(&[u8; N]) -> (u64, u64),
) -> Compared {
    assert_eq!(guards.len(), tuples.len(), "a tuple of each block");
    let count = guards.len();
    let mut sums = [[0; LANES]; 2];
    let mut take = |lane: usize, guard: &u64, tuple: &[u8; N]| {
        let (stored, application) = fields(tuple);
        let escape = (application + 1) >> 16;
        // All ones if it is no escape.
        sums[0][lane] |= (stored ^ guard) & escape.wrapping_sub(1);
        sums[1][lane] |= escape;
    };
    let mut at = 0;
    while let (Some(guards), Some(tuples)) =
        (guards[at..].first_chunk::<LANES>(), tuples[at..].first_chunk::<LANES>())
    {
        (0..LANES).for_each(|lane| take(lane, &guards[lane], &tuples[lane]));
        // The last ones once more, so that those that are left are a whole chunk as well.
        let left = count - at - LANES;
        if left == 0 {
            at = count;
            break;
        }
        at += left.min(LANES);
    }
    guards[at..].iter().zip(&tuples[at..]).for_each(|(guard, tuple)| take(0, guard, tuple));
    let [differ, escapes] = sums.map(|lanes| lanes.iter().any(|lane| *lane != 0));
    Compared { differ, escapes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, Place, Type};
    use crate::kernels::Kernels;
    use crate::tuple::Tuple;

    #[test]
    fn each_difference_and_each_escape_is_seen_at_every_place() {
        for guard in Guard::ALL {
            let bytes = if guard == Guard::Crc16 { 8 } else { 16 };
            let format = Format::new(512, bytes, guard, Type::One, Place::Last).unwrap();
            let guards: Vec<u64> =
                (0..20).map(|i| (i * 0x0123_4567_89AB_CDEF) >> (64 - guard.bits())).collect();
            let tuples = |change: usize, flip: u64, application: u64| -> Vec<u8> {
                let tuple = |(i, stored): (usize, &u64)| Tuple {
                    guard: if i == change { stored ^ flip } else { *stored },
                    application: if i == change { application as u16 } else { 0xFFFE },
                    storage: 0,
                    reference: 0xFF,
                };
                let all = guards.iter().enumerate().map(tuple);
                all.flat_map(|tuple| tuple.encode(&format).as_slice().to_vec()).collect()
            };
            for change in 0..20 {
                for bit in 0..guard.bits() {
                    for (application, escapes) in [(7, false), (0xFFFF, true)] {
                        let tuples = tuples(change, 1 << bit, application);
                        for kernels in Kernels::available() {
                            let compared = kernels.compare(guard, &guards, &tuples);
                            let isa = kernels.isa();
                            let expected = Compared { differ: !escapes, escapes };
                            assert_eq!(compared, expected, "{isa} {guard} {change} {bit}");
                        }
                    }
                }
                for kernels in Kernels::available() {
                    let same = kernels.compare(guard, &guards, &tuples(change, 0, 0xFFFF));
                    assert_eq!(same, Compared { differ: false, escapes: true }, "{}", kernels.isa());
                }
            }
        }
    }
}

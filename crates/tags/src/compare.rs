//! Guards against the tuples that are stored, of several blocks at a time.

use pumice_protect::guard::Guard;

/// The result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Some block whose tuple is not an escape has another guard.
    pub(crate) differ: bool,
    /// Some tuple is an escape: its application tag is FFFFh, and its block is not checked.
    pub(crate) escapes: bool,
}

/// Compares the guards of blocks with their tuples, of the format with this guard and type 1.
///
/// # Panics
/// If there are not as many whole tuples as guards.
pub(crate) fn compare(guard: Guard, guards: &[u64], tuples: &[u8]) -> Compared {
    match guard {
        Guard::Crc16 => each(guards, tuples.as_chunks().0, |tuple: &[u8; 8]| {
            // In the order of the bytes in memory: this way no byte has to be swapped.
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

/// The same for tuples of one size. `fields` gives guard and application tag.
fn each<const N: usize>(
    guards: &[u64],
    tuples: &[[u8; N]],
    fields: impl Fn(&[u8; N]) -> (u64, u64),
) -> Compared {
    assert_eq!(guards.len(), tuples.len(), "a tuple of each block");
    // Without branches, so that several blocks are compared at a time.
    let (mut differ, mut escapes) = (0, 0);
    for (guard, tuple) in guards.iter().zip(tuples) {
        let (stored, application) = fields(tuple);
        let escape = (application + 1) >> 16;
        // All ones if it is no escape.
        differ |= (stored ^ guard) & escape.wrapping_sub(1);
        escapes |= escape;
    }
    Compared { differ: differ != 0, escapes: escapes != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_protect::format::{Format, Place, Type};
    use pumice_protect::tuple::Tuple;

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
                        let compared = compare(guard, &guards, &tuples(change, 1 << bit, application));
                        assert_eq!(
                            compared,
                            Compared { differ: !escapes, escapes },
                            "{guard} {change} {bit}"
                        );
                    }
                }
                let same = compare(guard, &guards, &tuples(change, 0, 0xFFFF));
                assert_eq!(same, Compared { differ: false, escapes: true });
            }
        }
    }
}

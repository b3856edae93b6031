//! Fingerprints of batches of stripes: 64 bytes a row and power, whatever the amount of data.
//!
//! # Derivation
//! H maps a chunk to eight planes of 64 bits ([`Planes`](crate::planes::Planes)) with
//! `H(c*D) = M_c H(D)` for every c in GF(2^8), and H of a sum is the sum. So H of a stripe's
//! syndrome row i is `sum over m of M[H[i][m]] * H(x[m])`: members are hashed where they are, and
//! only hashes meet.
//! Per row i and power j a node keeps
//!
//! ```text
//! F[i][j] = sum over its members m and the batch's stripes s of  b[s] * alpha[s]^j * M[H[i][m]] * H(x[m, s])
//! ```
//!
//! with random non-zero b\[s\], and alpha\[s\] = index of s in the batch + 1: distinct, and not
//! zero, which would drop out of the powers. The XOR of the nodes' F is `T[i][j] = sum over bad
//! stripes of (b*y) * alpha^j`, y being the hash of the stripe's syndrome row i. Good stripes have
//! y = 0 and do not appear: there are no false alarms.
//!
//! # What is missed
//! Take any damage that was fixed before the keys were drawn, and a row and stripe whose syndrome
//! it leaves non-zero. In some plane some line of the syndrome is not zero; whatever the other
//! keys, one value of that line's key at most makes y = 0: 1/(2^64 - 1). If y is not zero, whatever
//! the other b, one value of this stripe's at most makes T\[i\]\[0\] = 0. So the row is missed with
//! probability at most 2/(2^64 - 1), 2^-63 for all purposes, and never where one line of one stripe
//! alone is damaged. Keys are drawn anew in every pass.
//!
//! # Where it is
//! For each row and plane, T\[i\]\[0\], T\[i\]\[1\], ... is a power-sum sequence: a linear
//! recurrence whose roots are the alphas of the stripes that are bad in that plane.
//! [`PowerSums::decode`] finds the roots. J sums a row determine up to J/2 of them; a plane that an
//! error does not touch does not show it, so the union over planes and rows is taken.
//!
//! Worked example: one bad stripe. T0 = b*y and T1 = b*y*alpha, so alpha = T1/T0, the stripe is at
//! alpha - 1, and y = T0/b. With y_Q = M\[2^slot\] * y_P the member of a RAID-6 is named as well
//! ([`locate_column`]), before a single byte is read again.
//!
//! # Layout (part of the wire format)
//! All keys come from ChaCha8 streams of the [`Seed`]. The key of line l is the little-endian
//! 64-bit word l of item 0 of domain "lines", and 1 if that word is zero, so that the keys of any
//! run of lines can be drawn alone; the key of stripe s is the first non-zero word of item s of
//! domain "stripes".
//!
//! # References
//! J. Hendricks, G. Ganger, M. Reiter, *Verifying distributed erasure-coded data*, PODC 2007; T.
//! Schwarz, *Verification of parity data in large scale storage systems*, PDPTA 2004; T. Schwarz,
//! E. Miller, *Store, forget, and check: using algebraic signatures to check remotely administered
//! storage*, ICDCS 2006; D. Lemire, O. Kaser, *Faster 64-bit universal hashing using carry-less
//! multiplications*, 2016.

mod column;
mod decode;
mod recurrence;
mod roots;
mod sums;

pub use column::locate_column;
pub use decode::{BadStripe, Decoded};
pub use sums::{MAX_POWERS, PowerSums, PowerSumsError, SUM_BYTES};

use crate::seed::Seed;
use rand_chacha::rand_core::Rng;

/// The keys a of `lines` lines of every chunk from line `first` on, none of them zero.
#[must_use]
pub fn line_keys(seed: &Seed, first: usize, lines: usize) -> Vec<u64> {
    let mut stream = seed.stream("lines", 0);
    // A key is two words of 32 bits.
    stream.set_word_pos(2 * first as u128);
    (0..lines).map(|_| stream.next_u64().max(1)).collect()
}

/// The key b of stripe `stripe`, counted from the start of the array. It is not zero, so it can be
/// divided out again.
#[must_use]
pub fn stripe_key(seed: &Seed, stripe: u64) -> u64 {
    nonzero(&mut seed.stream("stripes", stripe))
}

/// The locator of the stripe at `index` in its batch: `index + 1` as an element of GF(2^64).
#[must_use]
pub fn alpha(index: u32) -> u64 {
    u64::from(index) + 1
}

fn nonzero(stream: &mut impl Rng) -> u64 {
    loop {
        let key = stream.next_u64();
        if key != 0 {
            return key;
        }
    }
}

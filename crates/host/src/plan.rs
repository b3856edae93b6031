//! The bytes that a pass will move, computed in advance. `docs/design/accounting.md` has the rules
//! and the sources.

use crate::Method;
use pumice_base::telemetry::Ledger;
use pumice_offload::RESULT_HEADER_BYTES;

/// Bytes of one fingerprint: eight planes of 64 bits.
pub const FINGERPRINT_BYTES: u64 = 64;

/// The shape of a pass, as input of the planner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassShape {
    /// Members present on each node; nodes without members are left out.
    pub members_of_node: Vec<u64>,
    /// Parity rows that are checked.
    pub rows: u64,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Stripes of each batch, in any order.
    pub batches: Vec<Batches>,
    /// Accumulators of `stripe` across nodes and of `aggregate`.
    pub accumulators: u64,
    /// Power sums a row of `fingerprint`.
    pub powers: u64,
}

/// A number of batches of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batches {
    /// Number of batches.
    pub count: u64,
    /// Stripes of each.
    pub stripes: u64,
}

impl Batches {
    /// A run of stripes, cut into batches of at most `batch`.
    ///
    /// # Panics
    /// If `batch` is zero.
    #[must_use]
    pub fn of_run(stripes: u64, batch: u64) -> Vec<Self> {
        let whole = Self { count: stripes / batch, stripes: batch };
        let rest = Self { count: u64::from(!stripes.is_multiple_of(batch)), stripes: stripes % batch };
        [whole, rest].into_iter().filter(|b| b.count > 0).collect()
    }
}

/// The ledger of a clean pass, as this implementation moves it.
#[must_use]
pub fn actual(method: Method, pass: &PassShape) -> Ledger {
    let nodes = pass.members_of_node.len() as u64;
    let members: u64 = pass.members_of_node.iter().sum();
    let (chunk, t) = (pass.chunk, pass.accumulators);
    let header = RESULT_HEADER_BYTES;
    let mut sum = Ledger::default();
    for batch in &pass.batches {
        let s = batch.stripes;
        let read = Ledger::read_from_drives(members * chunk * s);
        let folded = |bytes| Ledger { node_cpu: bytes, ..Ledger::default() };
        let sent = |bytes| Ledger { node_to_node: bytes, ..Ledger::default() };
        let one = match method {
            Method::Host => read + Ledger::arrived_at_host(members * chunk * s),
            Method::Stripe if nodes == 1 => {
                read + folded(read.media_read) + Ledger::arrived_at_host(header + s.div_ceil(8))
            }
            Method::Stripe => {
                read + folded(read.media_read + nodes * t * chunk * s)
                    + sent((nodes - 1) * t * chunk * s)
                    + Ledger::arrived_at_host(nodes * header + header + (s * t).div_ceil(8))
            }
            Method::Aggregate if nodes == 1 => {
                read + folded(read.media_read) + Ledger::arrived_at_host(header)
            }
            Method::Aggregate => {
                read + folded(read.media_read + nodes * t * chunk)
                    + sent((nodes - 1) * t * chunk)
                    + Ledger::arrived_at_host(nodes * header + header + t.div_ceil(8))
            }
            Method::Fingerprint => {
                let each = header + FINGERPRINT_BYTES * pass.rows * pass.powers;
                read + folded(read.media_read) + Ledger::arrived_at_host(nodes * each)
            }
        };
        sum += one.times(batch.count);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> PassShape {
        let drive = 4_000_000_000_000;
        PassShape {
            members_of_node: vec![8, 8, 8],
            rows: 2,
            chunk: 65536,
            batches: Batches::of_run(drive / 65536, 255),
            accumulators: 1,
            powers: 8,
        }
    }

    #[test]
    fn fingerprints_move_kilobytes_a_batch() {
        let pass = published();
        let ledger = actual(Method::Fingerprint, &pass);
        assert!((ledger.to_host as f64) < 2e-5 * ledger.media_read as f64, "{ledger:?}");
        assert_eq!(ledger.node_to_node, 0);
        assert_eq!(
            ledger.to_host,
            pass.batches.iter().map(|b| b.count).sum::<u64>() * 3 * (RESULT_HEADER_BYTES + 64 * 2 * 8)
        );
    }

    #[test]
    fn runs_are_cut_into_batches() {
        assert_eq!(Batches::of_run(510, 255), [Batches { count: 2, stripes: 255 }]);
        assert_eq!(
            Batches::of_run(511, 255),
            [Batches { count: 2, stripes: 255 }, Batches { count: 1, stripes: 1 }]
        );
        assert_eq!(Batches::of_run(0, 255), []);
    }
}

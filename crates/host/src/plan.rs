//! The bytes that a pass will move, computed in advance. `docs/design/accounting.md` has the rules
//! and the sources.

use crate::Method;
use pumice_offload::RESULT_HEADER_BYTES;
use pumice_telemetry::Ledger;

/// Bytes of one fingerprint: eight planes of 64 bits.
const FINGERPRINT_BYTES: u64 = 64;

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
    /// How many.
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

/// The four lines of the brief's tables, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BriefLines {
    /// Data that passes the processor of the compute node.
    pub cpu: f64,
    /// Data that passes its memory controller.
    pub dram: f64,
    /// Data that passes the network.
    pub network: f64,
    /// Data that passes PCIe in the data nodes.
    pub pcie: f64,
}

/// The brief's accounting: each drive computes by itself, interims move between drives' memories.
/// `members` drives of `drive` bytes on `nodes` nodes, `batch` stripes at once, `rows` parity rows,
/// chunks of `chunk` bytes, `powers` sums a row.
///
/// The brief does not have `fingerprint`; its line applies the same rule: every node keeps its
/// data, and sends its power sums once per batch.
#[must_use]
pub fn brief(method: Method, pass: &PassShape, drive: u64, batch: u64) -> BriefLines {
    let drive = drive as f64;
    let nodes = pass.members_of_node.len() as f64;
    let members = pass.members_of_node.iter().sum::<u64>() as f64;
    match method {
        Method::Host => BriefLines {
            cpu: members * drive,
            dram: 2.0 * members * drive,
            network: members * drive,
            pcie: members * drive,
        },
        Method::Stripe => {
            let interims = (nodes - 1.0) * drive;
            BriefLines { cpu: 0.0, dram: 0.0, network: interims, pcie: (members - nodes) * drive + interims }
        }
        Method::Aggregate => {
            let interims = (members - 1.0) * drive / batch as f64;
            BriefLines { cpu: 0.0, dram: 0.0, network: interims, pcie: interims }
        }
        Method::Fingerprint => {
            let batches = drive / (pass.chunk as f64 * batch as f64);
            let sums = batches * (FINGERPRINT_BYTES * pass.rows * pass.powers) as f64;
            BriefLines {
                cpu: nodes * sums,
                dram: 2.0 * nodes * sums,
                network: nodes * sums,
                pcie: members * sums,
            }
        }
    }
}

/// The batch with which the brief's across-stripe traffic is `target` bytes: (members - 1) * drive
/// / target.
#[must_use]
pub fn brief_batch_for(members: u64, drive: u64, target: f64) -> u64 {
    ((members.saturating_sub(1)) as f64 * drive as f64 / target).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TB: f64 = 1e12;

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

    fn rounded(lines: BriefLines) -> [f64; 4] {
        [lines.cpu, lines.dram, lines.network, lines.pcie].map(|bytes| (bytes / TB * 10.0).round() / 10.0)
    }

    #[test]
    fn the_published_tables_come_out() {
        let pass = published();
        let drive = 4_000_000_000_000;
        assert_eq!(rounded(brief(Method::Host, &pass, drive, 255)), [96.0, 192.0, 96.0, 96.0]);
        assert_eq!(rounded(brief(Method::Stripe, &pass, drive, 255)), [0.0, 0.0, 8.0, 92.0]);
        assert_eq!(rounded(brief(Method::Aggregate, &pass, drive, 255)), [0.0, 0.0, 0.4, 0.4]);
        assert_eq!(brief_batch_for(24, drive, 0.4 * TB), 230);
        let exact = brief(Method::Aggregate, &pass, drive, 230);
        assert!((exact.network / TB - 0.4).abs() < 1e-12, "{exact:?}");
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

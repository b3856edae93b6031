//! The accounting of the industry brief. `docs/design/accounting.md` has the rules and the sources.

use pumice_host::Method;
use pumice_host::plan::{FINGERPRINT_BYTES, PassShape};

/// The four lines of the brief's tables, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lines {
    /// Data that passes the processor of the compute node.
    pub(super) cpu: f64,
    /// Data that passes its memory controller.
    pub(super) dram: f64,
    /// Data that passes the network.
    pub(super) network: f64,
    /// Data that passes PCIe in the data nodes.
    pub(super) pcie: f64,
}

/// The brief's accounting: each drive computes by itself, interims move between drives' memories.
/// `members` drives of `drive` bytes on `nodes` nodes, `batch` stripes at once, `rows` parity rows,
/// chunks of `chunk` bytes, `powers` sums a row.
///
/// The brief does not have `fingerprint`; its line applies the same rule: every node keeps its
/// data, and sends its power sums once per batch.
pub(super) fn lines(method: Method, pass: &PassShape, drive: u64, batch: u64) -> Lines {
    let drive = drive as f64;
    let nodes = pass.members_of_node.len() as f64;
    let members = pass.members_of_node.iter().sum::<u64>() as f64;
    match method {
        Method::Host => Lines {
            cpu: members * drive,
            dram: 2.0 * members * drive,
            network: members * drive,
            pcie: members * drive,
        },
        Method::Stripe => {
            let interims = (nodes - 1.0) * drive;
            Lines { cpu: 0.0, dram: 0.0, network: interims, pcie: (members - nodes) * drive + interims }
        }
        Method::Aggregate => {
            let interims = (members - 1.0) * drive / batch as f64;
            Lines { cpu: 0.0, dram: 0.0, network: interims, pcie: interims }
        }
        Method::Fingerprint => {
            let batches = drive / (pass.chunk as f64 * batch as f64);
            let sums = batches * (FINGERPRINT_BYTES * pass.rows * pass.powers) as f64;
            Lines { cpu: nodes * sums, dram: 2.0 * nodes * sums, network: nodes * sums, pcie: members * sums }
        }
    }
}

/// The batch with which the brief's across-stripe traffic is `target` bytes: (members - 1) * drive
/// / target.
pub(super) fn batch_for(members: u64, drive: u64, target: f64) -> u64 {
    ((members.saturating_sub(1)) as f64 * drive as f64 / target).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_host::plan::Batches;

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

    fn rounded(lines: Lines) -> [f64; 4] {
        [lines.cpu, lines.dram, lines.network, lines.pcie].map(|bytes| (bytes / TB * 10.0).round() / 10.0)
    }

    #[test]
    fn the_published_tables_come_out() {
        let pass = published();
        let drive = 4_000_000_000_000;
        assert_eq!(rounded(lines(Method::Host, &pass, drive, 255)), [96.0, 192.0, 96.0, 96.0]);
        assert_eq!(rounded(lines(Method::Stripe, &pass, drive, 255)), [0.0, 0.0, 8.0, 92.0]);
        assert_eq!(rounded(lines(Method::Aggregate, &pass, drive, 255)), [0.0, 0.0, 0.4, 0.4]);
        assert_eq!(batch_for(24, drive, 0.4 * TB), 230);
        let exact = lines(Method::Aggregate, &pass, drive, 230);
        assert!((exact.network / TB - 0.4).abs() < 1e-12, "{exact:?}");
    }
}

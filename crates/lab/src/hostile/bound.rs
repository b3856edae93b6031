//! Bound on the resident memory of a node: the sum in `docs/design/node.md`, *What it comes to*.

use crate::hostile::node::{DRIVE, DRIVES};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Of the program, its threads and tables.
const PROGRAM: u64 = 192 * MIB;
/// Of each drive, for parity.
const LOCAL: u64 = 32 * MIB;
/// Of a connection beside what is counted for its host.
const CONNECTION: u64 = 64 * KIB;
/// Commands and answers, data that were asked for, results: of one host, and of all together.
const HOST: u64 = (128 + 64 + 64) * MIB;
const HOSTS: u64 = (768 + 384 + 256) * MIB;
/// A connection goes past its host's bound by one command.
const OVER: u64 = MIB + 4 * KIB;
/// Of a thread that reads for parity commands.
const THREAD: u64 = 34 * MIB;
/// Of those commands whose reads keep a pace, all together, and the buffers that are kept for the
/// next.
const PACED: u64 = 4 * 64 * MIB + 64 * MIB;

/// Quantities in the bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Hosts that hold something.
    pub(crate) hosts: u64,
    /// Connections at a time.
    pub(crate) connections: u64,
    /// Of those, queues that can have commands with data.
    pub(crate) queues: u64,
    /// Threads of the node that serve connections.
    pub(crate) cores: u64,
    /// True if there are parity commands.
    pub(crate) parity: bool,
}

/// The bound for a node with the drives of this program, in bytes.
pub(crate) fn bound(load: &Load) -> u64 {
    let Load { hosts, connections, queues, cores, parity } = *load;
    // The first drive is in memory; of the second only what it needs for parity is.
    let drives = DRIVE + u64::from(DRIVES) * LOCAL;
    let of_hosts = (hosts * HOST).min(HOSTS + 64 * OVER) + queues.min(hosts * 16) * OVER;
    let engine = if parity {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(16);
        let commands = 4 * cores;
        (2 * processors + commands) * THREAD + commands * u64::from(DRIVES) * LOCAL + PACED
    } else {
        0
    };
    PROGRAM + drives + connections * CONNECTION + of_hosts + engine
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are the page's own: whoever changes one of them changes both.
    #[test]
    fn the_terms_are_the_documented_ones() {
        let page = include_str!("../../../../docs/design/node.md");
        let section = page.split("### What it comes to").nth(1).expect("the page has the section");
        let section = section.split("\n#").next().unwrap_or_default();
        let section = section.split_whitespace().collect::<Vec<_>>().join(" ");
        for term in [
            format!("{} MiB for the program", PROGRAM / MIB),
            format!("{} MiB of local memory", LOCAL / MIB),
            format!("{} KiB for each connection", CONNECTION / KIB),
            format!("{} MiB for each host", HOST / MIB),
            format!("at most {} MiB for all hosts", HOSTS / MIB),
            format!("{} MiB for each thread that reads", THREAD / MIB),
            format!("{} MiB for commands whose reads keep a pace", PACED / MIB),
        ] {
            assert!(section.contains(&term), "'{term}' is not in docs/design/node.md");
        }
    }
}

//! The settings of a machine: everything that a figure of the study depends on.

use pumice_pacer::Nanos;
use serde::Serialize;

/// A host, its drives and what is between them. All rates are bytes a second and above 0.
#[derive(Debug, Clone, Serialize)]
pub struct Platform {
    /// Bytes checked on each drive.
    pub drive_bytes: u64,
    /// Bytes of a stripe on one drive.
    pub segment: u64,
    /// Interims of a stripe that a node sends on: one a parity that is checked.
    pub parity: u64,
    /// Segments of a drive that are folded into one interim, by `aggregate`.
    pub batch: u64,
    /// Rate of a drive's medium.
    pub medium: u64,
    /// Latency of a read, in nanoseconds.
    pub medium_latency_ns: Nanos,
    /// Rate of a drive's PCIe port, in each direction.
    pub pcie: u64,
    /// Rate of a drive's parity engine, in bytes that it reads.
    pub engine: u64,
    /// Requests that a drive has in progress at most.
    pub requests: u64,
    /// Controller memory buffer of a drive, in bytes.
    pub cmb: u64,
    /// Drives of a node that is reached over the network. `None`: all drives are in the host.
    pub drives_per_node: Option<u64>,
    /// Rate of a node's network port, in each direction.
    pub network: u64,
    /// Rate of the host's network port.
    pub host_network: u64,
    /// Latency of the network, in nanoseconds.
    pub network_latency_ns: Nanos,
    /// Rate of host memory.
    pub memory: u64,
    /// Bytes that pass host memory for each byte the host checks.
    pub memory_per_byte: f64,
    /// Bytes that pass host memory for each segment that drives check.
    pub memory_per_segment_offloaded: f64,
    /// Threads of the host that check.
    pub threads: u64,
    /// Work of a thread for a stripe (of `aggregate`: a batch), whoever folds it, in nanoseconds.
    pub thread_per_stripe_ns: f64,
    /// Work of a thread for each segment it folds, in nanoseconds.
    pub thread_per_segment_ns: f64,
}

/// Nanoseconds to read `bytes` at `rate` bytes a second.
fn takes(bytes: u64, rate: f64) -> f64 {
    bytes as f64 / rate * 1e9
}

impl Platform {
    /// The published proof of concept, without what is fitted: see `Fits`.
    #[must_use]
    pub fn published() -> Self {
        Self {
            drive_bytes: 50_000_000_000,
            segment: 128 << 10,
            parity: 1,
            batch: 230,
            medium: 14_000_000_000,
            medium_latency_ns: 70_000,
            pcie: 7_200_000_000,
            engine: 1_000_000_000,
            requests: 1,
            cmb: 64 << 20,
            drives_per_node: None,
            network: 1,
            host_network: 1,
            network_latency_ns: 0,
            memory: 10_240_000_000,
            memory_per_byte: 2.0,
            memory_per_segment_offloaded: 0.0,
            threads: 1,
            thread_per_stripe_ns: 0.0,
            thread_per_segment_ns: 0.0,
        }
    }

    /// Drives of today behind nodes.
    #[must_use]
    pub fn modern() -> Self {
        let segment = 128 << 10;
        Self {
            drive_bytes: 30_720_000_000_000,
            segment,
            parity: 2,
            pcie: 14_400_000_000,
            engine: 14_000_000_000,
            requests: 16,
            drives_per_node: Some(8),
            network: 25_000_000_000,
            host_network: 50_000_000_000,
            network_latency_ns: 10_000,
            memory: 300_000_000_000,
            threads: 16,
            thread_per_stripe_ns: 10_000.0,
            thread_per_segment_ns: takes(segment, 26e9),
            ..Self::published()
        }
    }

    /// The same machine with another segment, which costs a thread in proportion.
    #[must_use]
    pub fn with_segment(self, segment: u64) -> Self {
        let thread_per_segment_ns = self.thread_per_segment_ns * segment as f64 / self.segment as f64;
        Self { segment, thread_per_segment_ns, ..self }
    }

    /// Nodes of an array of so many drives.
    pub(super) fn nodes(&self, drives: u64) -> u64 {
        self.drives_per_node.map_or(1, |per_node| drives.div_ceil(per_node))
    }
}

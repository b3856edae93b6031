//! Bytes by place.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Index, IndexMut, Sub};

/// A place that bytes cross during a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Read from a drive's medium.
    MediaRead,
    /// Written to a drive's medium.
    MediaWritten,
    /// Leaving a drive over its own link (PCIe for NVMe).
    Pcie,
    /// Folded by the processor of a data node.
    NodeCpu,
    /// Sent from one data node to another.
    NodeToNode,
    /// Sent from a data node to the host.
    ToHost,
    /// Passed through the host's processor.
    HostCpu,
    /// Passed through the host's memory controller: once written by the network card, once read by
    /// the processor.
    HostDram,
}

impl Place {
    /// Every place, in the order of the reports.
    pub const ALL: [Self; 8] = [
        Self::MediaRead,
        Self::MediaWritten,
        Self::Pcie,
        Self::NodeCpu,
        Self::NodeToNode,
        Self::ToHost,
        Self::HostCpu,
        Self::HostDram,
    ];

    /// Name of the place in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::MediaRead => "read from media",
            Self::MediaWritten => "written to media",
            Self::Pcie => "leaving a drive",
            Self::NodeCpu => "node CPU",
            Self::NodeToNode => "node to node",
            Self::ToHost => "node to host",
            Self::HostCpu => "host CPU",
            Self::HostDram => "host DRAM",
        }
    }
}

/// Bytes by place. The field names are those of the JSON reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// See [`Place::MediaRead`].
    pub media_read: u64,
    /// See [`Place::MediaWritten`].
    pub media_written: u64,
    /// See [`Place::Pcie`].
    pub pcie: u64,
    /// See [`Place::NodeCpu`].
    pub node_cpu: u64,
    /// See [`Place::NodeToNode`].
    pub node_to_node: u64,
    /// See [`Place::ToHost`].
    pub to_host: u64,
    /// See [`Place::HostCpu`].
    pub host_cpu: u64,
    /// See [`Place::HostDram`].
    pub host_dram: u64,
}

impl Ledger {
    /// `bytes` read by a node from its drives: they leave the drive, whether host or node folds
    /// them.
    #[must_use]
    pub fn read_from_drives(bytes: u64) -> Self {
        Self { media_read: bytes, pcie: bytes, ..Self::default() }
    }

    /// `bytes` that arrive at the host: the network card writes them to memory and the processor
    /// reads them.
    #[must_use]
    pub fn arrived_at_host(bytes: u64) -> Self {
        Self { to_host: bytes, host_cpu: bytes, host_dram: 2 * bytes, ..Self::default() }
    }

    /// This ledger for `count` equal pieces of work.
    ///
    /// # Panics
    /// If a line does not fit 64 bits.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        for place in Place::ALL {
            self[place] = self[place].checked_mul(count).expect("a ledger line fits 64 bits");
        }
        self
    }
}

impl Index<Place> for Ledger {
    type Output = u64;

    fn index(&self, place: Place) -> &u64 {
        match place {
            Place::MediaRead => &self.media_read,
            Place::MediaWritten => &self.media_written,
            Place::Pcie => &self.pcie,
            Place::NodeCpu => &self.node_cpu,
            Place::NodeToNode => &self.node_to_node,
            Place::ToHost => &self.to_host,
            Place::HostCpu => &self.host_cpu,
            Place::HostDram => &self.host_dram,
        }
    }
}

impl IndexMut<Place> for Ledger {
    fn index_mut(&mut self, place: Place) -> &mut u64 {
        match place {
            Place::MediaRead => &mut self.media_read,
            Place::MediaWritten => &mut self.media_written,
            Place::Pcie => &mut self.pcie,
            Place::NodeCpu => &mut self.node_cpu,
            Place::NodeToNode => &mut self.node_to_node,
            Place::ToHost => &mut self.to_host,
            Place::HostCpu => &mut self.host_cpu,
            Place::HostDram => &mut self.host_dram,
        }
    }
}

impl AddAssign for Ledger {
    fn add_assign(&mut self, other: Self) {
        for place in Place::ALL {
            self[place] += other[place];
        }
    }
}

impl Add for Ledger {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sub for Ledger {
    type Output = Self;

    /// The difference of two readings of one growing ledger.
    fn sub(mut self, earlier: Self) -> Self {
        for place in Place::ALL {
            self[place] -= earlier[place];
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_a_line_of_its_own() {
        let mut ledger = Ledger::default();
        for (i, place) in Place::ALL.into_iter().enumerate() {
            ledger[place] = 1 << i;
        }
        let sum: u64 = Place::ALL.into_iter().map(|p| ledger[p]).sum();
        assert_eq!(sum, (1 << Place::ALL.len()) - 1);
        assert_eq!((ledger + ledger) - ledger, ledger);
        assert_eq!(ledger.times(3), ledger + ledger + ledger);
    }

    #[test]
    fn what_arrives_passes_the_memory_twice() {
        let ledger = Ledger::arrived_at_host(10);
        assert_eq!((ledger.to_host, ledger.host_cpu, ledger.host_dram), (10, 10, 20));
    }
}

//! Asymmetric namespace access: which groups of namespaces are well reached through a controller.
//! (NVMe Base, Asymmetric Namespace Access.)

use crate::bytes::{put, u16_at, u32_at, u64_at};

/// The only group: every namespace is in it.
pub const GROUP: u32 = 1;

/// Access state of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum AnaState {
    /// As well as by any way.
    #[default]
    Optimized = 1,
    /// By a detour: hosts choose it where there is nothing better.
    NonOptimized = 2,
}

/// A group as the log describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnaGroup {
    /// Its number, from 1.
    pub group: u32,
    /// The log's change count when the group changed last.
    pub changes: u64,
    /// The state's number: 1 optimized, 2 non-optimized, 3 inaccessible, 4 lost, 15 changing.
    pub state: u8,
    /// Its namespaces, ascending; empty if only groups were asked for.
    pub namespaces: Vec<u32>,
}

/// The log page 0C.
///
/// | off | size | field |
/// |---|---|---|
/// | 0 | 8 | change count |
/// | 8 | 2 | groups |
/// | 16 | … | for each group: number 0:4, namespaces 4:4, change count 8:8, state 16:1, then at 32 each nsid in 4 bytes |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnaLog {
    /// Rises with every change.
    pub changes: u64,
    /// The groups.
    pub groups: Vec<AnaGroup>,
}

/// Bytes before the groups.
const HEADER: usize = 16;
/// Bytes of a group before its namespaces.
const DESCRIPTOR: usize = 32;

impl AnaLog {
    /// Bit of the log specific parameter: groups only, without their namespaces.
    pub const GROUPS_ONLY: u8 = 1;

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; HEADER];
        put(&mut page, 0, &self.changes.to_le_bytes());
        put(&mut page, 8, &(self.groups.len() as u16).to_le_bytes());
        for group in &self.groups {
            let mut descriptor = [0; DESCRIPTOR];
            put(&mut descriptor, 0, &group.group.to_le_bytes());
            put(&mut descriptor, 4, &(group.namespaces.len() as u32).to_le_bytes());
            put(&mut descriptor, 8, &group.changes.to_le_bytes());
            descriptor[16] = group.state;
            page.extend_from_slice(&descriptor);
            for nsid in &group.namespaces {
                page.extend_from_slice(&nsid.to_le_bytes());
            }
        }
        page
    }

    /// Reads a page; `None` if it is too short for what it says. Bytes behind the last group are
    /// ignored.
    #[must_use]
    pub fn decode(page: &[u8]) -> Option<Self> {
        let (header, mut rest) = page.split_at_checked(HEADER)?;
        let mut groups = Vec::new();
        for _ in 0..u16_at(header, 8) {
            let (descriptor, after) = rest.split_at_checked(DESCRIPTOR)?;
            let len = usize::try_from(u32_at(descriptor, 4)).ok()?.checked_mul(4)?;
            let (list, after) = after.split_at_checked(len)?;
            rest = after;
            groups.push(AnaGroup {
                group: u32_at(descriptor, 0),
                changes: u64_at(descriptor, 8),
                state: descriptor[16],
                namespaces: list.chunks_exact(4).map(|nsid| u32_at(nsid, 0)).collect(),
            });
        }
        Some(Self { changes: u64_at(header, 0), groups })
    }
}

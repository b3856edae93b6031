//! The parity command set: a row for each command.
//!
//! They are I/O commands of the vendor range, 80h or above; bits 0 and 1 of an opcode are the
//! direction of its data. The node's announcement, its checks, and the names in messages are
//! derived from the rows.

/// Fill local memory.
pub const MEMORY_FILL: u8 = 0x80;
/// Execute a parity command.
pub const PARITY_EXECUTE: u8 = 0x81;
/// Read a result.
pub const RESULT_READ: u8 = 0x82;
/// Keep other hosts away, or no longer.
pub const HOLD: u8 = 0x84;
/// Write local memory.
pub const MEMORY_WRITE: u8 = 0x85;
/// Read local memory.
pub const MEMORY_READ: u8 = 0x86;
/// Take a part of a drive's local memory for this host.
pub const MEMORY_LEASE: u8 = 0x88;
/// Let another node write local memory, or no longer.
pub const MEMORY_GRANT: u8 = 0x91;
/// Move local memory to a peer.
pub const TRANSFER: u8 = 0x89;
/// Describe the node's drives.
pub const DESCRIBE: u8 = 0x8A;
/// Read which other hosts are associated.
pub const HOSTS_READ: u8 = 0x8E;
/// Ask for a pace.
pub const PACE: u8 = 0x8D;
/// Read what was measured of it.
pub const PACE_READ: u8 = 0x92;
/// Read what the node remembers of superblocks.
pub const SUPERBLOCKS_READ: u8 = 0x96;

/// Write local memory to a medium.
pub const STORE: u8 = 0x94;
/// A step of a write of parity.
pub const UPDATE: u8 = 0x95;
/// Name a range of a peer's local memory.
pub const PATH: u8 = 0x99;
/// Read blocks with what their tags say, refused or not.
pub const TAGGED_READ: u8 = 0x9A;
/// Vouch for adopted tags.
pub const TAGS_VOUCH: u8 = 0x98;
/// Put bytes back beside tags.
pub const TAGGED_WRITE: u8 = 0x9D;

/// Senders of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// Hosts.
    Hosts,
    /// Hosts, and other nodes.
    HostsAndNodes,
}

/// Meaning of dword 12 of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Bytes of its data; 0 if it has none. A node limits them.
    Data,
    /// Bytes of local memory, which do not go over the network.
    Memory,
}

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Its opcode.
    pub opcode: u8,
    /// Its name in `docs/reference/wire-format/offload.md`.
    pub name: &'static str,
    /// Its senders.
    pub sender: Sender,
    /// Meaning of dword 12.
    pub length: Length,
    /// It reads drives or waits for another node, so it may take as long as it likes.
    pub long: bool,
    /// It changes what a namespace holds.
    pub changes: bool,
}

/// All of them.
pub const COMMANDS: [Command; 20] = [
    row(MEMORY_FILL, "Memory Fill", Sender::Hosts, Length::Memory, false),
    row(PARITY_EXECUTE, "Parity Execute", Sender::Hosts, Length::Data, true),
    row(RESULT_READ, "Result Read", Sender::Hosts, Length::Data, false),
    row(HOLD, "Hold", Sender::Hosts, Length::Data, false),
    row(MEMORY_WRITE, "Memory Write", Sender::HostsAndNodes, Length::Data, false),
    row(MEMORY_READ, "Memory Read", Sender::Hosts, Length::Data, false),
    row(MEMORY_LEASE, "Memory Lease", Sender::Hosts, Length::Memory, false),
    row(MEMORY_GRANT, "Memory Grant", Sender::Hosts, Length::Data, false),
    row(TRANSFER, "Transfer", Sender::Hosts, Length::Data, true),
    row(DESCRIBE, "Describe", Sender::Hosts, Length::Data, false),
    row(HOSTS_READ, "Hosts Read", Sender::Hosts, Length::Data, false),
    row(PACE, "Pace", Sender::Hosts, Length::Data, false),
    row(PACE_READ, "Pace Read", Sender::Hosts, Length::Data, false),
    row(SUPERBLOCKS_READ, "Superblocks Read", Sender::Hosts, Length::Data, false),
    row(TAGGED_READ, "Tagged Read", Sender::Hosts, Length::Data, true),
    row(TAGS_VOUCH, "Tags Vouch", Sender::Hosts, Length::Data, true),
    changing(row(TAGGED_WRITE, "Tagged Write", Sender::Hosts, Length::Data, true)),
    changing(row(STORE, "Store", Sender::Hosts, Length::Memory, true)),
    changing(row(UPDATE, "Update", Sender::Hosts, Length::Data, true)),
    row(PATH, "Path", Sender::Hosts, Length::Data, false),
];

/// Their opcodes.
pub const ALL: [u8; COMMANDS.len()] = {
    let mut all = [0; COMMANDS.len()];
    let mut row = 0;
    while row < all.len() {
        all[row] = COMMANDS[row].opcode;
        row += 1;
    }
    all
};

const fn row(opcode: u8, name: &'static str, sender: Sender, length: Length, long: bool) -> Command {
    Command { opcode, name, sender, length, long, changes: false }
}

const fn changing(command: Command) -> Command {
    Command { changes: true, ..command }
}

/// The command of an opcode.
#[must_use]
pub fn command(opcode: u8) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.opcode == opcode)
}

/// The name of an opcode, for messages.
#[must_use]
pub fn name(opcode: u8) -> &'static str {
    command(opcode).map_or("a command of another set", |command| command.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_opcode_has_one_row() {
        for (row, command) in COMMANDS.iter().enumerate() {
            assert_eq!(super::command(command.opcode), Some(command));
            assert!(command.opcode >= 0x80 && command.opcode & 0b11 != 0b11, "{}", command.name);
            assert!(COMMANDS[..row].iter().all(|other| other.name != command.name));
        }
        assert_eq!(command(0x83), None);
    }

    #[test]
    fn the_page_has_the_same_commands() {
        let page = include_str!("../../../../docs/reference/wire-format/offload.md");
        for command in COMMANDS {
            let row = format!("| {:02X}h | {} |", command.opcode, command.name);
            assert!(page.contains(&row), "{row}");
        }
    }
}

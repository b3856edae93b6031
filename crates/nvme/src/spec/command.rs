//! The commands that a controller here knows: a row each.
//!
//! The effects log, the optional commands of Identify, the dispatch and the checks of a command all
//! come from its row. A new command is a row here and a function in
//! [`controller`](crate::controller), for which the compiler asks;
//! `docs/how-to/add-an-nvme-command.md` lists the other places.

use super::opcode::{FABRICS, admin, fabrics, io};

/// Direction of a command's data: bits 0 and 1 of its opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It has no data.
    None,
    /// From the host to the controller.
    ToController,
    /// From the controller to the host.
    ToHost,
    /// Both ways. No command here does that.
    Both,
}

impl Direction {
    /// The direction that an opcode says.
    #[must_use]
    pub const fn of(opcode: u8) -> Self {
        match opcode & 0b11 {
            0b00 => Self::None,
            0b01 => Self::ToController,
            0b10 => Self::ToHost,
            _ => Self::Both,
        }
    }
}

/// Effect of a command on the content of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It leaves the content as it is.
    Nothing,
    /// It changes the content. An observer may not send it. An I/O command of it is refused by a
    /// read-only namespace; the function of an admin command looks at the namespace itself.
    ChangesData,
}

/// A type of controller, by who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A host that uses namespaces.
    Host,
    /// A reader of the discovery service.
    Discovery,
    /// Another node, which moves local memory.
    Node,
}

/// The first opcode of the vendor's own I/O commands.
pub const VENDOR: u8 = 0x80;

/// Bytes of a range in the data of Dataset Management.
pub const RANGE_BYTES: u64 = 16;

/// Check of the fields of an I/O command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It names a namespace, or all of them (FFFFFFFFh).
    Namespace,
    /// It names blocks: the first in dwords 10 and 11, their number less one in dword 12. If it has
    /// data, they are as long as the blocks.
    Blocks,
    /// Its data are ranges of 16 bytes, their number less one in dword 10. Each is checked.
    Ranges,
}

/// A command: `K` is the type of its kinds, `C` how it is checked. Functions of admin commands
/// check all that they use.
#[derive(Debug, Clone, Copy)]
pub struct Command<K: 'static, C: 'static = ()> {
    /// The kind of command.
    pub kind: K,
    /// Its opcode.
    pub opcode: u8,
    /// Its name in the specification.
    pub name: &'static str,
    /// Its effect on a namespace.
    pub effect: Effect,
    /// Senders that may send it.
    pub senders: &'static [Sender],
    /// Its bit in ONCS, if it is optional.
    pub oncs: Option<u8>,
    /// The check of its fields.
    pub check: C,
}

impl<K, C> Command<K, C> {
    /// Direction of its data.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        Direction::of(self.opcode)
    }

    /// Returns whether such a controller takes it.
    #[must_use]
    pub fn is_for(&self, sender: Sender) -> bool {
        self.senders.contains(&sender)
    }
}

/// In the index of a table: no command has this opcode.
const NONE: u8 = u8::MAX;

/// The row of each opcode.
const fn index(opcodes: &[u8]) -> [u8; 256] {
    let mut index = [NONE; 256];
    let mut row = 0;
    while row < opcodes.len() {
        assert!(index[opcodes[row] as usize] == NONE, "each opcode has one row");
        index[opcodes[row] as usize] = row as u8;
        row += 1;
    }
    index
}

/// A table of commands, the type of their kinds, and how a command is found by its opcode.
macro_rules! commands {
    (
        $(#[$doc:meta])*
        $kind:ident in $table:ident, found by $find:ident, checked by $checked:ty
            $(, and without a row $beside:ident: $beside_doc:literal)?;
        $($(#[$of:meta])* $name:ident: $opcode:expr, $text:literal, $effect:ident, $senders:expr, $oncs:expr, $check:expr;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$of])* $name,)*
            $(#[doc = $beside_doc] $beside,)?
        }

        $(#[$doc])*
        pub const $table: &[Command<$kind, $checked>] = &[$(Command {
            kind: $kind::$name,
            opcode: $opcode,
            name: $text,
            effect: Effect::$effect,
            senders: $senders,
            oncs: $oncs,
            check: $check,
        },)*];

        /// The row of an opcode.
        #[must_use]
        pub fn $find(opcode: u8) -> Option<&'static Command<$kind, $checked>> {
            const INDEX: [u8; 256] = index(&[$($opcode),*]);
            $table.get(usize::from(INDEX[usize::from(opcode)]))
        }
    };
}

const ANY: &[Sender] = &[Sender::Host, Sender::Discovery, Sender::Node];
const NOT_DISCOVERY: &[Sender] = &[Sender::Host, Sender::Node];
const HOSTS: &[Sender] = &[Sender::Host];
const QUEUES: &[On] = &[On::Admin, On::Io];

commands! {
    /// Admin commands.
    Admin in ADMIN, found by admin_command, checked by ();
    /// Read a log page.
    GetLogPage: admin::GET_LOG_PAGE, "Get Log Page", Nothing, ANY, None, ();
    /// Read what a controller or a namespace is.
    Identify: admin::IDENTIFY, "Identify", Nothing, ANY, None, ();
    /// Ask for another command to be given up.
    Abort: admin::ABORT, "Abort", Nothing, NOT_DISCOVERY, None, ();
    /// Set a feature.
    SetFeatures: admin::SET_FEATURES, "Set Features", Nothing, ANY, None, ();
    /// Read a feature.
    GetFeatures: admin::GET_FEATURES, "Get Features", Nothing, ANY, None, ();
    /// Wait for an event.
    AsyncEvent: admin::ASYNC_EVENT, "Asynchronous Event Request", Nothing, ANY, None, ();
    /// The host lives.
    KeepAlive: admin::KEEP_ALIVE, "Keep Alive", Nothing, ANY, None, ();
}

commands! {
    /// I/O commands of the NVM command set.
    Op in IO, found by io_command, checked by Check, and without a row
    Vendor: "A vendor command: opcode 80h or above. Its row is in the vendor's own table.";
    /// Make every completed write durable.
    Flush: io::FLUSH, "Flush", Nothing, HOSTS, None, Check::Namespace;
    /// Write the command's data.
    Write: io::WRITE, "Write", ChangesData, HOSTS, None, Check::Blocks;
    /// Read.
    Read: io::READ, "Read", Nothing, HOSTS, None, Check::Blocks;
    /// Make the blocks unreadable until they are written.
    WriteUncorrectable: io::WRITE_UNCORRECTABLE, "Write Uncorrectable", ChangesData, HOSTS, Some(1), Check::Blocks;
    /// Compare with the command's data.
    Compare: io::COMPARE, "Compare", Nothing, HOSTS, Some(0), Check::Blocks;
    /// Write zeros.
    WriteZeroes: io::WRITE_ZEROES, "Write Zeroes", ChangesData, HOSTS, Some(3), Check::Blocks;
    /// The blocks' content is not needed any more. The data are the ranges, 16 bytes each: context
    /// 0:4, blocks 4:4, first block 8:8.
    Deallocate: io::DATASET_MANAGEMENT, "Dataset Management", ChangesData, HOSTS, Some(2), Check::Ranges;
    /// Read without transferring.
    Verify: io::VERIFY, "Verify", Nothing, HOSTS, Some(7), Check::Blocks;
}

/// The queues that take a Fabrics command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// A connection that is no queue yet.
    Unbound,
    /// The admin queue.
    Admin,
    /// I/O queues.
    Io,
}

commands! {
    /// Fabrics commands. Their opcode is [`FABRICS`], and the one in the table is their type, in
    /// byte 4.
    Fabrics in FABRICS_TYPES, found by fabrics_command, checked by &'static [On];
    /// Set a property.
    PropertySet: fabrics::PROPERTY_SET, "Property Set", Nothing, ANY, None, &[On::Admin];
    /// Bind a connection to a queue of a controller.
    Connect: fabrics::CONNECT, "Connect", Nothing, ANY, None, &[On::Unbound];
    /// Read a property.
    PropertyGet: fabrics::PROPERTY_GET, "Property Get", Nothing, ANY, None, &[On::Admin];
    /// A message of the host's authentication.
    AuthenticationSend: fabrics::AUTHENTICATION_SEND, "Authentication Send", Nothing, ANY, None, QUEUES;
    /// A message of the controller's.
    AuthenticationReceive: fabrics::AUTHENTICATION_RECEIVE, "Authentication Receive", Nothing, ANY, None, QUEUES;
    /// End an I/O queue.
    Disconnect: fabrics::DISCONNECT, "Disconnect", Nothing, ANY, None, &[On::Io];
}

/// The bits of ONCS that the table sets.
#[must_use]
pub fn oncs() -> u16 {
    IO.iter().filter_map(|command| command.oncs).fold(0, |bits, bit| bits | 1 << bit)
}

/// The opcodes of a table with what they do, Fabrics commands among them, which every queue takes.
pub(super) fn effects<K, C>(table: &'static [Command<K, C>]) -> impl Iterator<Item = (u8, Effect)> {
    table.iter().map(|command| (command.opcode, command.effect)).chain([(FABRICS, Effect::Nothing)])
}

/// Returns whether dwords 10 and 11 of an I/O command are a block.
#[must_use]
pub fn names_blocks(opcode: u8) -> bool {
    io_command(opcode).is_some_and(|command| command.check == Check::Blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_opcode_and_no_other() {
        for opcode in 0..=u8::MAX {
            let admin = ADMIN.iter().position(|command| command.opcode == opcode);
            assert_eq!(admin_command(opcode).map(|c| c.kind), admin.map(|row| ADMIN[row].kind));
            let fabrics = FABRICS_TYPES.iter().position(|command| command.opcode == opcode);
            assert_eq!(fabrics_command(opcode).map(|c| c.kind), fabrics.map(|row| FABRICS_TYPES[row].kind));
            let io = IO.iter().position(|command| command.opcode == opcode);
            assert_eq!(io_command(opcode).map(|c| c.kind), io.map(|row| IO[row].kind));
        }
    }

    #[test]
    fn checks_fit_directions() {
        assert!(IO.iter().all(|command| command.direction() != Direction::Both));
        let ranges = |command: &&Command<Op, Check>| command.check == Check::Ranges;
        assert!(IO.iter().filter(ranges).all(|c| c.direction() == Direction::ToController));
        assert!(ADMIN.iter().all(|command| command.oncs.is_none()));
    }
}

//! The row of each command: its right, the drives that it names, and whether it keeps something.

use crate::serve::rights::Right;
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::command::{Admin, Fabrics, On, Op, Sender, VENDOR};
use pumice_nvme::spec::command::{admin_command, fabrics_command, io_command};
use pumice_nvme::spec::opcode::FABRICS;
use pumice_offload::wire::{self, opcode};

/// The right that a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) enum Asks {
    /// None.
    Nothing,
    /// To be admitted.
    Listed,
    /// A right.
    May(Right),
}

/// The drives that a command names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) enum Names {
    /// None, or its answer shows own ones only.
    None,
    /// That of its NSID.
    Nsid,
    /// Those of its descriptor.
    Descriptor,
    /// Both.
    Both,
}

/// A row of the table. Each command has one, or the table does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) struct Row {
    pub(in crate::serve) asks: Asks,
    pub(in crate::serve) names: Names,
    /// It changes what is kept: data, tags, marks.
    pub(in crate::serve) keeps: bool,
}

const fn row(right: Right, names: Names, keeps: bool) -> Row {
    Row { asks: Asks::May(right), names, keeps }
}

pub(super) const fn of_fabrics(command: Fabrics) -> Row {
    let asks = match command {
        Fabrics::Connect | Fabrics::AuthenticationSend | Fabrics::AuthenticationReceive => Asks::Listed,
        Fabrics::PropertySet | Fabrics::PropertyGet | Fabrics::Disconnect => Asks::Nothing,
    };
    Row { asks, names: Names::None, keeps: false }
}

pub(super) const fn of_admin(command: Admin) -> Row {
    match command {
        Admin::GetLogPage
        | Admin::Identify
        | Admin::SetFeatures
        | Admin::GetFeatures
        | Admin::AsyncEvent
        | Admin::Abort
        | Admin::KeepAlive => row(Right::Read, Names::None, false),
    }
}

pub(super) const fn of_nvm(command: Op) -> Option<Row> {
    Some(match command {
        Op::Read | Op::Compare | Op::Verify | Op::Flush => row(Right::Read, Names::Nsid, false),
        Op::Write | Op::WriteZeroes | Op::Deallocate | Op::WriteUncorrectable => {
            row(Right::Write, Names::Nsid, true)
        }
        Op::Vendor => return None,
    })
}

/// The row of a vendor command.
pub(in crate::serve) const fn of_vendor(code: u8) -> Option<Row> {
    use Names::{Both, Descriptor, Nsid};
    use Right::{Read, Repair, Scrub, Serve};
    Some(match code {
        opcode::MEMORY_FILL
        | opcode::MEMORY_WRITE
        | opcode::MEMORY_READ
        | opcode::MEMORY_LEASE
        | opcode::MEMORY_GRANT => row(Scrub, Nsid, false),
        opcode::PARITY_EXECUTE | opcode::TRANSFER => row(Scrub, Descriptor, false),
        opcode::RESULT_READ | opcode::PACE | opcode::PACE_READ | opcode::HOSTS_READ | opcode::HOLD => {
            row(Scrub, Names::None, false)
        }
        opcode::DESCRIBE | opcode::SUPERBLOCKS_READ => row(Read, Names::None, false),
        opcode::STORE => row(Serve, Nsid, true),
        opcode::UPDATE => row(Serve, Both, true),
        opcode::PATH => row(Serve, Names::None, false),
        opcode::TAGGED_READ => row(Read, Nsid, false),
        opcode::TAGGED_WRITE | opcode::TAGS_VOUCH => row(Repair, Nsid, true),
        _ => return None,
    })
}

// A vendor command without a row does not compile.
const _: () = {
    let mut at = 0;
    while at < opcode::COMMANDS.len() {
        assert!(of_vendor(opcode::COMMANDS[at].opcode).is_some(), "a vendor command has no row");
        at += 1;
    }
};

/// The right that a command asks for, by who sends it and the queue that it comes over. None for a
/// command that is not known: it is refused as such.
pub(in crate::serve) fn asked(sender: Sender, on: On, command: &Sqe) -> Asks {
    let code = command.opcode();
    if code == FABRICS || on == On::Unbound {
        // Another queue than its own refuses it by itself.
        return fabrics_command(command.0[4]).map_or(Asks::Nothing, |row| of_fabrics(row.kind).asks);
    }
    let row = match (sender, on) {
        // The discovery service shows what the host may know, and a peer node no drive.
        (Sender::Discovery | Sender::Node, On::Admin) => return Asks::Nothing,
        // Another node writes what a host of this one has granted, and is refused all else.
        (Sender::Node, _) if code == opcode::MEMORY_WRITE => return Asks::Listed,
        (_, On::Admin) => admin_command(code).map(|row| of_admin(row.kind)),
        _ if code >= VENDOR => of_vendor(code),
        _ => io_command(code).and_then(|row| of_nvm(row.kind)),
    };
    match row {
        // To give a hold back, or to promise to write nothing, takes nothing from others.
        Some(_) if on == On::Io && code == opcode::HOLD && command.dword(10) == wire::HOLD_TAKE => {
            Asks::May(Right::Repair)
        }
        Some(row) => row.asks,
        None => Asks::Nothing,
    }
}

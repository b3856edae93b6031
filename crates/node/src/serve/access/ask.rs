//! The rights that each command asks for.

use super::{Right, Rights};
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::command::{Admin, On, Op, Sender, VENDOR, admin_command, fabrics_command, io_command};
use pumice_nvme::spec::opcode::FABRICS;
use pumice_offload::wire::{self, opcode};

/// The rights that a command asks for, by who sends it and the queue that it comes over. None for a
/// command that is not known: it is refused as such.
pub(in crate::serve) fn asked(sender: Sender, on: On, command: &Sqe) -> Rights {
    let code = command.opcode();
    if code == FABRICS || on == On::Unbound {
        // Another queue than its own refuses it by itself.
        return fabrics_command(command.0[4]).map_or(Rights::NONE, |_| Rights::of(&[Right::Connect]));
    }
    match on {
        On::Admin => admin_command(code).map_or(Rights::NONE, |row| of_admin(row.kind)),
        _ if code >= VENDOR => of_parity_set(sender, command),
        _ => io_command(code).map_or(Rights::NONE, |row| of_nvm(row.kind)),
    }
}

const fn of_admin(command: Admin) -> Rights {
    Rights::of(&[match command {
        Admin::GetLogPage
        | Admin::Identify
        | Admin::SetFeatures
        | Admin::GetFeatures
        | Admin::AsyncEvent
        | Admin::Abort => Right::Admin,
        Admin::KeepAlive => Right::Connect,
    }])
}

const fn of_nvm(command: Op) -> Rights {
    match command {
        Op::Read | Op::Compare | Op::Verify => Rights::of(&[Right::Read]),
        Op::Write | Op::WriteZeroes | Op::Deallocate | Op::Flush => Rights::of(&[Right::Write]),
        Op::WriteUncorrectable => Rights::of(&[Right::Mark]),
        // No row has it: `of_parity_set` decides.
        Op::Vendor => Rights::ALL,
    }
}

fn of_parity_set(sender: Sender, command: &Sqe) -> Rights {
    use Right::{Admin, Connect, Hold, Lease, Parity, Peers, Read, Write};
    Rights::of(match command.opcode() {
        opcode::PARITY_EXECUTE => &[Parity, Read],
        opcode::PACE | opcode::TAGS_VOUCH => &[Parity],
        opcode::TAGGED_READ => &[Read],
        opcode::TAGGED_WRITE => &[Write],
        // Another node writes what a host of this one has granted.
        opcode::MEMORY_WRITE if sender == Sender::Node => &[Peers],
        opcode::MEMORY_LEASE | opcode::MEMORY_FILL | opcode::MEMORY_WRITE | opcode::MEMORY_READ => &[Lease],
        opcode::MEMORY_GRANT | opcode::TRANSFER => &[Lease, Peers],
        opcode::PATH => &[Peers],
        opcode::STORE => &[Lease, Write],
        opcode::UPDATE => &[Lease, Peers, Read, Write],
        // To give a hold back, or to promise to write nothing, takes nothing from others.
        opcode::HOLD if command.dword(10) == wire::HOLD_TAKE => &[Hold],
        // The results of a host's own commands.
        opcode::HOLD | opcode::RESULT_READ => &[Connect],
        opcode::DESCRIBE | opcode::HOSTS_READ | opcode::SUPERBLOCKS_READ | opcode::PACE_READ => &[Admin],
        _ => &[],
    })
}

//! The drives that a vendor command names, each held to those of its host.

use super::Granted;
use super::rows::{Names, of_vendor};
use crate::serve::hosts::OwnDrives;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire::{self, UpdateWords, opcode};
use pumice_offload::{DriveId, Source, UpdateSource};

/// Judges the drives of a vendor command. A drive that is not the host's does not exist: the
/// command ends as one for an unknown number.
///
/// # Errors
/// Invalid Field where one is not the host's. A descriptor that cannot be read names none: who
/// carries the command out refuses it.
pub(in crate::serve) fn permit(host: &Granted, command: &Sqe, data: &[u8]) -> Result<(), Status> {
    let OwnDrives::Only(_) = host.own() else { return Ok(()) };
    let Some(row) = of_vendor(command.opcode()) else { return Ok(()) };
    let is_own = |drive: DriveId| {
        // Numbers that no drive has are refused where they are used.
        (drive.0 as usize).checked_sub(1).is_none_or(|index| host.own().has(index))
    };
    let nsid = match row.names {
        Names::Nsid | Names::Both => is_own(DriveId(command.nsid())),
        Names::None | Names::Descriptor => true,
    };
    let named = match row.names {
        Names::Descriptor | Names::Both => drives_of(command, data).into_iter().all(is_own),
        Names::None | Names::Nsid => true,
    };
    if nsid && named { Ok(()) } else { Err(Status::INVALID_FIELD.dnr()) }
}

/// The drives of a descriptor.
fn drives_of(command: &Sqe, data: &[u8]) -> Vec<DriveId> {
    match command.opcode() {
        opcode::PARITY_EXECUTE => {
            let Ok(parity) = wire::decode_command(data) else { return Vec::new() };
            let source = |source: &Source| match source {
                Source::Media { drive, .. } => *drive,
                Source::Memory { address } => address.drive,
            };
            let output = parity.output().map(|(into, _)| into.drive);
            parity.sources.iter().map(source).chain(output).collect()
        }
        opcode::TRANSFER => {
            wire::decode_transfer(data).map(|transfer| vec![transfer.from.drive]).unwrap_or_default()
        }
        opcode::UPDATE => {
            let quad = |low| u64::from(command.dword(low)) | u64::from(command.dword(low + 1)) << 32;
            let words = UpdateWords {
                drive: DriveId(command.nsid()),
                slot: quad(2),
                record_at: quad(10),
                len: command.dword(13),
            };
            let Ok((update, _)) = wire::decode_update(words, data) else { return Vec::new() };
            let source = |source: &UpdateSource| match source {
                UpdateSource::Media { drive, .. } => *drive,
                UpdateSource::Memory { address, .. } => address.drive,
            };
            update.sources.iter().map(source).collect()
        }
        _ => Vec::new(),
    }
}

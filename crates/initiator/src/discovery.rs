//! Asking a discovery service.

use crate::{ConnectOptions, Controller, InitiatorError};
use pumice_nvme::spec::log::{DiscoveryEntry, lid};
use pumice_nvme::spec::{Nqn, Sqe, opcode};
use std::net::SocketAddr;

/// Records of a log that are read, at most.
const MAX_RECORDS: u64 = 1024;
/// How often a log that changes while it is read is read again.
const TRIES: usize = 5;

/// What a discovery service lists. `options.subsystem` is of no account.
///
/// # Errors
/// Where the service cannot be reached, does not answer in time, or refuses.
pub fn discover(
    address: SocketAddr,
    options: &ConnectOptions,
) -> Result<Vec<DiscoveryEntry>, InitiatorError> {
    let options = ConnectOptions { subsystem: Nqn::discovery(), ..options.clone() };
    let mut controller = Controller::connect(address, options)?;
    let mut read = |at: u64| {
        let mut page = vec![0; DiscoveryEntry::LEN];
        let mut sqe = Sqe::new(opcode::admin::GET_LOG_PAGE, 0);
        sqe.set_dword(10, u32::from(lid::DISCOVERY) | (DiscoveryEntry::LEN as u32 / 4 - 1) << 16);
        sqe.set_dword(12, at as u32);
        sqe.set_dword(13, (at >> 32) as u32);
        let outcome = controller.admin().execute(sqe, &[], &mut page)?;
        if outcome.status.is_success() {
            Ok(page)
        } else {
            Err(InitiatorError::Refused { address, what: "Get Log Page", status: outcome.status })
        }
    };
    let number = |page: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|i| page[at + i]));
    let mut entries = Vec::new();
    for _ in 0..TRIES {
        entries.clear();
        let header = read(0)?;
        for record in 1..=number(&header, 8).min(MAX_RECORDS) {
            entries.extend(DiscoveryEntry::decode(&read(record * DiscoveryEntry::LEN as u64)?));
        }
        // The generation counter tells whether the log stood still.
        if number(&read(0)?, 0) == number(&header, 0) {
            break;
        }
    }
    Ok(entries)
}

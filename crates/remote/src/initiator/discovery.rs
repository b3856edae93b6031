//! A client of discovery services.

use crate::initiator::{ConnectOptions, Controller, Cut, InitiatorError};
use crate::transport::{Plain, Transport};
use pumice_nvme::host::DiscoveryReader;
use pumice_nvme::spec::log::{DiscoveryEntry, lid};
use pumice_nvme::spec::{Nqn, Sqe, opcode};
use std::net::SocketAddr;
use std::sync::Arc;

/// The list of a discovery service. `options.subsystem` is ignored.
///
/// # Errors
/// If the service cannot be reached, does not answer in time, refuses, or its log keeps changing.
pub fn discover(
    address: SocketAddr,
    options: &ConnectOptions,
) -> Result<Vec<DiscoveryEntry>, InitiatorError> {
    discover_with(address, options, None)
}

/// The same over a connection that ends with all of `cut`.
///
/// # Errors
/// As [`discover`], and if they are cut.
pub fn discover_with(
    address: SocketAddr,
    options: &ConnectOptions,
    cut: Option<Arc<Cut>>,
) -> Result<Vec<DiscoveryEntry>, InitiatorError> {
    discover_over(Arc::new(Plain), address, options, cut)
}

/// The same over a connection whose stream `transport` makes.
///
/// # Errors
/// As [`discover_with`].
pub fn discover_over(
    transport: Arc<dyn Transport>,
    address: SocketAddr,
    options: &ConnectOptions,
    cut: Option<Arc<Cut>>,
) -> Result<Vec<DiscoveryEntry>, InitiatorError> {
    let options = ConnectOptions { subsystem: Nqn::discovery(), ..options.clone() };
    let mut controller = Controller::connect_over(transport, address, options, cut)?;
    let mut reader = DiscoveryReader::default();
    loop {
        let part = reader.wanted();
        let dwords = part.len / 4 - 1;
        let mut page = vec![0; part.len as usize];
        let mut sqe = Sqe::new(opcode::admin::GET_LOG_PAGE, 0);
        sqe.set_dword(10, u32::from(lid::DISCOVERY) | dwords << 16);
        sqe.set_dword(11, dwords >> 16);
        sqe.set_dword(12, part.offset as u32);
        sqe.set_dword(13, (part.offset >> 32) as u32);
        let outcome = controller.admin().execute(sqe, &[], &mut page)?;
        if !outcome.status.is_success() {
            return Err(InitiatorError::Refused { address, what: "Get Log Page", status: outcome.status });
        }
        let taken = reader.take(&page[..outcome.received as usize]);
        if let Some(entries) = taken.map_err(|source| InitiatorError::Discovery { address, source })? {
            return Ok(entries);
        }
    }
}

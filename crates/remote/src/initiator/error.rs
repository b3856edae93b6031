//! Errors between a host and a controller.

use pumice_nvme::host::DiscoveryError;
use pumice_nvme::pdu::Violation;
use pumice_nvme::spec::Status;
use std::io;
use std::net::SocketAddr;

/// Errors between a host and a controller.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
    /// The connection could not be made, or is gone.
    #[error("{address}: {source}")]
    Socket {
        /// The controller's address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// No answer in time.
    #[error("{address}: no answer within {seconds} s")]
    Deadline {
        /// The controller's address.
        address: SocketAddr,
        /// The deadline.
        seconds: u64,
    },
    /// The controller violates the protocol.
    #[error("{address}: the controller violates the protocol: {violation}")]
    Protocol {
        /// The controller's address.
        address: SocketAddr,
        /// The violation.
        violation: Violation,
    },
    /// Data was damaged on the network: a digest does not match the received bytes.
    #[error("{address}: data was damaged on the network: its digest does not match")]
    Digest {
        /// The controller's address.
        address: SocketAddr,
    },
    /// The discovery log cannot be read.
    #[error("{address}: {source}")]
    Discovery {
        /// The service's address.
        address: SocketAddr,
        /// The cause.
        source: DiscoveryError,
    },
    /// A command that is essential for the connection was refused.
    #[error("{address}: {what}: {status}")]
    Refused {
        /// The controller's address.
        address: SocketAddr,
        /// The command.
        what: &'static str,
        /// Its status.
        status: Status,
    },
}

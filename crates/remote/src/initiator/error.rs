//! Errors between a host and a controller.

use pumice_nvme::auth::credentials::CredentialsError;
use pumice_nvme::auth::failure::Failure;
use pumice_nvme::host::DiscoveryError;
use pumice_nvme::pdu::Violation;
use pumice_nvme::spec::Status;
use std::io;
use std::net::SocketAddr;

/// Reasons for not trusting a controller, or for its not trusting us.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// It wants a proof, and there is no key for it.
    #[error(
        "the controller asks for authentication, and there is no key for it: add [[target]] to pumice.toml"
    )]
    NoKey,
    /// It wants a secure channel made of the authentication.
    #[error("the controller asks for secure channel concatenation, which is not supported")]
    Concatenation,
    /// A name is no qualified name.
    #[error("{0:?} is no name that can be proven")]
    Name(String),
    /// The keys do not fit together.
    #[error(transparent)]
    Keys(#[from] CredentialsError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
    /// The exchange failed.
    #[error("authentication failed: {0}")]
    Failed(Failure),
}

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
    /// One of the two did not prove its name.
    #[error("{address}: {source}")]
    Unproven {
        /// The controller's address.
        address: SocketAddr,
        /// The cause.
        source: ProofError,
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

//! Authentication of a queue, at the host: `docs/design/authentication.md`, *Our own clients*.

use crate::initiator::cut::Cut;
use crate::initiator::error::{InitiatorError, ProofError};
use crate::initiator::queue::Queue;
use crate::transport::Transport;
use pumice_nvme::auth::credentials::{Credentials, CredentialsError};
use pumice_nvme::auth::failure::Failure;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::auth::secret::Seed;
use pumice_nvme::host::Options;
use pumice_nvme::spec::connect::{AUTHENTICATE, CONCATENATE, Data};
use pumice_nvme::spec::{Nqn, Status, authentication};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Bytes of the longest message.
const ROOM: usize = 4096;

/// Keys of this end for a target: with which it proves its name, and with which the target does.
#[derive(Debug, Clone)]
pub struct OwnKeys {
    host: Vec<ChapKey>,
    controller: Vec<ChapKey>,
    policy: Arc<Policy>,
}

impl OwnKeys {
    /// Keys of the host (one or two, of which the first is proven) and of the target (up to two).
    ///
    /// # Errors
    ///
    /// If there are too few or too many, or a secret is in both lists.
    pub fn new(
        host: Vec<ChapKey>,
        controller: Vec<ChapKey>,
        policy: Policy,
    ) -> Result<Self, CredentialsError> {
        let keys = Self { host, controller, policy: Arc::new(policy) };
        keys.between(Nqn::discovery(), Nqn::discovery())?;
        Ok(keys)
    }

    fn between(&self, host: Nqn, subsystem: Nqn) -> Result<Credentials, CredentialsError> {
        Credentials::new(host, subsystem, &self.host, &self.controller)
    }
}

/// Connects a queue, and proves its name.
///
/// # Errors
/// As [`Queue::connect`], and if one of the ends does not prove its name.
pub(crate) fn connect(
    transport: &dyn Transport,
    address: SocketAddr,
    options: Options,
    keys: Option<&OwnKeys>,
    deadline: Duration,
    cut: Option<&Arc<Cut>>,
) -> Result<(Queue, u16), InitiatorError> {
    let names = options.data.clone();
    let (mut queue, answer) = Queue::connect_with(transport, address, options, deadline, cut)?;
    prove(&mut queue, &names, keys, answer)?;
    Ok((queue, answer as u16))
}

/// Proves the name of a queue whose Connect was answered with `answer`, and has the controller
/// prove its own if there is a key for that.
fn prove(queue: &mut Queue, names: &Data, keys: Option<&OwnKeys>, answer: u64) -> Result<(), InitiatorError> {
    let address = queue.address();
    let untrusted = |source| InitiatorError::Unproven { address, source };
    if answer & CONCATENATE != 0 {
        return Err(untrusted(ProofError::Concatenation));
    }
    let asks = answer & AUTHENTICATE != 0;
    let Some(keys) = keys else {
        return if asks { Err(untrusted(ProofError::NoKey)) } else { Ok(()) };
    };
    let name = |text: &String| text.parse::<Nqn>().map_err(|_| untrusted(ProofError::Name(text.clone())));
    let credentials = keys.between(name(&names.hostnqn)?, name(&names.subnqn)?);
    let credentials = credentials.map_err(|error| untrusted(error.into()))?;
    let limit = u64::try_from(queue.deadline().as_nanos()).unwrap_or(u64::MAX);
    let mut host = Host::new(Arc::new(credentials), Arc::clone(&keys.policy), limit);
    if !asks {
        return host.go_without().map_err(|failure| untrusted(ProofError::Failed(failure)));
    }
    let began = Instant::now();
    let now = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let seed = || seed().map_err(|error| untrusted(ProofError::Random(error)));
    let mut action = host.start(seed()?, now());
    loop {
        action = match action {
            Action::Send(message) => {
                send(queue, &message)?;
                let answer = receive(queue)?;
                host.received(&answer, seed()?, now())
            }
            Action::Compute(job) => host.computed(job.run(), now()),
            Action::Finish(message) => return send(queue, &message),
            Action::Done => return Ok(()),
            Action::Refuse(message) => {
                // Said as a courtesy; the connection ends either way.
                let _ = send(queue, &message);
                return Err(untrusted(ProofError::Failed(reason(&host))));
            }
            Action::End | Action::Ignore => return Err(untrusted(ProofError::Failed(reason(&host)))),
        }
    }
}

fn reason(host: &Host) -> Failure {
    host.failure().copied().unwrap_or(Failure::Deadline)
}

fn seed() -> Result<Seed, getrandom::Error> {
    let mut bytes = Zeroizing::new([0; Seed::BYTES]);
    getrandom::fill(&mut *bytes)?;
    Ok(Seed::new(&bytes))
}

fn send(queue: &mut Queue, message: &[u8]) -> Result<(), InitiatorError> {
    let outcome = queue.execute(authentication::send(message.len() as u32), message, &mut [])?;
    refused(queue, "Authentication Send", outcome.status)
}

fn receive(queue: &mut Queue) -> Result<Vec<u8>, InitiatorError> {
    let mut room = vec![0; ROOM];
    let outcome = queue.execute(authentication::receive(ROOM as u32), &[], &mut room)?;
    refused(queue, "Authentication Receive", outcome.status)?;
    room.truncate(outcome.received as usize);
    Ok(room)
}

fn refused(queue: &Queue, what: &'static str, status: Status) -> Result<(), InitiatorError> {
    let address = queue.address();
    if status.is_success() { Ok(()) } else { Err(InitiatorError::Refused { address, what, status }) }
}

//! A host and a controller, and a wire between them that may change what is sent.

use pumice_nvme::auth::controller::{Controller, Step};
use pumice_nvme::auth::credentials::Credentials;
use pumice_nvme::auth::group::{Ffdhe, Group};
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::nqn::Nqn;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::auth::secret::Seed;
use std::sync::Arc;

pub(crate) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff";
pub(crate) const SUBSYSTEM: &str = "nqn.2026-01.example:data-node-1";
/// The time for a step.
pub(crate) const LIMIT: u64 = 5_000_000_000;
/// Room for every message.
pub(crate) const ROOM: usize = 4096;
pub(crate) const F2048: Group = Group::Ffdhe(Ffdhe::F2048);
pub(crate) const F3072: Group = Group::Ffdhe(Ffdhe::F3072);

pub(crate) fn nqn(text: &str) -> Nqn {
    text.parse().unwrap()
}

/// A key of 32 equal bytes.
pub(crate) fn key(byte: u8) -> ChapKey {
    ChapKey::new(Some(Hash::Sha256), &[byte; 32]).unwrap()
}

/// The bytes (a i + b) mod 256, as the second implementation has them.
pub(crate) fn seed(a: usize, b: usize) -> Seed {
    let mut bytes = [0; Seed::BYTES];
    bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = (a * i + b) as u8);
    Seed::new(&bytes)
}

pub(crate) fn credentials(host_keys: &[ChapKey], controller_keys: &[ChapKey]) -> Arc<Credentials> {
    Arc::new(Credentials::new(nqn(HOST), nqn(SUBSYSTEM), host_keys, controller_keys).unwrap())
}

pub(crate) fn policy(hashes: &[Hash], groups: &[Group]) -> Arc<Policy> {
    Arc::new(Policy::new(hashes, groups).unwrap())
}

/// SHA-256 and no group: the quickest.
pub(crate) fn quick() -> Arc<Policy> {
    policy(&[Hash::Sha256], &[Group::Null])
}

/// Both ends and the messages that went over the wire, as they were sent.
pub(crate) struct Ends {
    pub(crate) host: Host,
    pub(crate) controller: Controller,
    pub(crate) now: u64,
    pub(crate) messages: Vec<Vec<u8>>,
    /// Counter that makes each seed another one.
    pub(crate) salt: usize,
}

impl Ends {
    pub(crate) fn new(host: Host, controller: Controller) -> Self {
        Self { host, controller, now: 0, messages: Vec::new(), salt: 1 }
    }

    /// Ends of these keys and this policy, the same at both.
    pub(crate) fn of(host_keys: &[ChapKey], controller_keys: &[ChapKey], policy: &Arc<Policy>) -> Self {
        let credentials = credentials(host_keys, controller_keys);
        let host = Host::new(credentials.clone(), policy.clone(), LIMIT);
        Self::new(host, Controller::new(credentials, policy.clone(), LIMIT, 0))
    }

    pub(crate) fn seed(&mut self) -> Seed {
        self.salt += 1;
        seed(2 * self.salt + 1, 5 * self.salt)
    }

    /// One exchange, to its end. `change` may change each message on its way.
    pub(crate) fn run(&mut self, change: &mut dyn FnMut(usize, &mut Vec<u8>)) {
        self.messages.clear();
        let (seed, now) = (self.seed(), self.now);
        let mut action = self.host.start(seed, now);
        loop {
            action = match action {
                Action::Compute(job) => self.host.computed(job.run(), self.now),
                Action::Send(message) => {
                    if !self.sent(message, change) {
                        break;
                    }
                    let answer = self.controller.receive(ROOM, self.now);
                    let message = self.passed(answer.message, change);
                    let (seed, now) = (self.seed(), self.now);
                    let next = self.host.received(&message, seed, now);
                    if answer.end {
                        break;
                    }
                    next
                }
                Action::Finish(message) | Action::Refuse(message) => {
                    self.sent(message, change);
                    break;
                }
                Action::Done | Action::End | Action::Ignore => break,
            }
        }
    }

    /// An exchange that nobody changes.
    pub(crate) fn run_undisturbed(&mut self) {
        self.run(&mut |_, _| {});
    }

    /// Returns whether both ends say that the exchange was good.
    pub(crate) fn both_proven(&self) -> bool {
        self.host.proof().is_some() && self.controller.proof().is_some()
    }

    fn passed(&mut self, mut message: Vec<u8>, change: &mut dyn FnMut(usize, &mut Vec<u8>)) -> Vec<u8> {
        self.messages.push(message.clone());
        change(self.messages.len() - 1, &mut message);
        message
    }

    /// Returns whether the connection goes on.
    fn sent(&mut self, message: Vec<u8>, change: &mut dyn FnMut(usize, &mut Vec<u8>)) -> bool {
        let message = self.passed(message, change);
        let seed = self.seed();
        let step = self.controller.send(&message, seed, self.now);
        complete(&mut self.controller, step, self.now)
    }
}

/// Does the computation that a step needs. Returns whether the connection goes on.
pub(crate) fn complete(controller: &mut Controller, step: Step, now: u64) -> bool {
    match step {
        Step::Complete => true,
        Step::Compute(job) => {
            let step = controller.computed(job.run(), now);
            complete(controller, step, now)
        }
        Step::End => false,
    }
}

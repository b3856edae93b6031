//! The authentication of a queue's host, as its connection holds it.

use super::media::HostKeys;
use crate::auth::controller::Controller;
use crate::auth::step_limit;
use crate::spec::command::{Fabrics, fabrics_command};
use crate::spec::{Sqe, opcode};

/// The authentication of a queue's host.
#[derive(Debug)]
pub(super) struct Authentication {
    pub(super) exchange: Controller,
    pub(super) keys: HostKeys,
    /// Authentication Send whose computation is under way.
    pub(super) pending: Option<Sqe>,
}

impl Authentication {
    /// The authentication of a queue whose Connect is answered now.
    pub(super) fn new(keys: HostKeys, kato_ms: u32, now: u64) -> Box<Self> {
        let (credentials, policy) = (keys.credentials.clone(), keys.policy.clone());
        let exchange = Controller::new(credentials, policy, step_limit(kato_ms), now);
        Box::new(Self { exchange, keys, pending: None })
    }
}

/// The kind of a command that carries a message of an authentication.
pub(super) fn message(sqe: &Sqe) -> Option<Fabrics> {
    let kind = fabrics_command(sqe.0[4]).filter(|_| sqe.opcode() == opcode::FABRICS)?.kind;
    matches!(kind, Fabrics::AuthenticationSend | Fabrics::AuthenticationReceive).then_some(kind)
}

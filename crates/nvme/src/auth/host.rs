//! The end of a host, for one queue: it proves itself, and insists that the controller does.
//!
//! `docs/reference/wire-format/authentication.md` has the states.

use crate::auth::credentials::Credentials;
use crate::auth::exchange::{Computed, Job, Patience, Proof, Sequences, Values, Work, same_transaction};
use crate::auth::failure::Failure;
use crate::auth::group::{Exponent, Group};
use crate::auth::message::{Challenge, Envelope, FromController, Negotiate, Reply, Success1, success2};
use crate::auth::policy::Policy;
use crate::auth::response::{Covered, NO_CONCATENATION};
use crate::auth::secret::{Parts, Secret, Seed};
use std::sync::Arc;

/// The authentication of one queue, at the host.
#[derive(Debug)]
pub struct Host {
    credentials: Arc<Credentials>,
    policy: Arc<Policy>,
    patience: Patience,
    sequences: Sequences,
    /// The exchange under way, or the last one.
    transaction: Option<u16>,
    /// Computations so far.
    jobs: u64,
    proof: Option<Proof>,
    state: State,
}

/// Next action of the host.
#[derive(Debug)]
#[must_use]
pub enum Action {
    /// Send this by Authentication Send, and then give [`Host::received`] what Authentication
    /// Receive brings.
    Send(Vec<u8>),
    /// Run the job, and give its result to [`Host::computed`].
    Compute(Job),
    /// Send this by Authentication Send. With its success the queue is authenticated.
    Finish(Vec<u8>),
    /// Nothing: the queue is authenticated.
    Done,
    /// Send this by Authentication Send, and end the connection. [`Host::failure`] says why.
    Refuse(Vec<u8>),
    /// End the connection. [`Host::failure`] says why.
    End,
    /// Nothing: what came is of no use any more.
    Ignore,
}

#[derive(Debug)]
enum State {
    Idle,
    AwaitChallenge,
    Computing { challenge: Challenge, random: Secret, sequence: u32 },
    AwaitSuccess1 { proof: Proof, expected: Vec<Secret> },
    Proven,
    Closed(Failure),
}

impl Host {
    /// A queue whose Connect has been answered. Each step of the controller has to come within
    /// `limit` ([`step_limit`](crate::auth::step_limit)). Times are in nanoseconds from any start.
    #[must_use]
    pub fn new(credentials: Arc<Credentials>, policy: Arc<Policy>, limit: u64) -> Self {
        Self {
            credentials,
            policy,
            patience: Patience::new(limit),
            sequences: Sequences::default(),
            transaction: None,
            jobs: 0,
            proof: None,
            state: State::Idle,
        }
    }

    /// Allows the queue although the controller did not ask for authentication in its answer to
    /// Connect.
    ///
    /// # Errors
    ///
    /// [`Failure::NotRequired`] if the controller is to prove itself. The connection then has to
    /// end.
    pub fn go_without(&mut self) -> Result<(), Failure> {
        if self.credentials.controller_keys().is_empty() {
            return Ok(());
        }
        self.close(Failure::NotRequired);
        Err(Failure::NotRequired)
    }

    /// Proof of the ends, if they have given it. It stays during a new exchange, and ends with a
    /// failure.
    #[must_use]
    pub fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }

    /// Reason for refusing the controller, or the controller's reason for refusing us.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        if let State::Closed(failure) = &self.state { Some(failure) } else { None }
    }

    /// Deadline of the next step, if one is awaited.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.patience.deadline()
    }

    /// Returns whether the connection must end because the next step is late.
    pub fn expire(&mut self, now: u64) -> bool {
        let over = self.patience.is_over(now);
        if over {
            self.close(Failure::Deadline);
        }
        over
    }

    /// Begins an exchange: after Connect, and again whenever it is wanted once the last one is
    /// done.
    pub fn start(&mut self, seed: Seed, now: u64) -> Action {
        match self.state {
            State::Idle | State::Proven => {}
            State::Closed(_) => return Action::End,
            _ => return Action::Ignore,
        }
        let first = seed.split().transaction;
        let transaction = self.transaction.map_or(first, |last| last.wrapping_add(1));
        self.transaction = Some(transaction);
        self.state = State::AwaitChallenge;
        self.patience.renew(now);
        let offer = Some(self.policy.offer());
        Action::Send(Negotiate { concatenation: NO_CONCATENATION, offer }.encode(transaction))
    }

    /// The data of an Authentication Receive.
    pub fn received(&mut self, data: &[u8], seed: Seed, now: u64) -> Action {
        if self.expire(now) || matches!(self.state, State::Closed(_)) {
            return Action::End;
        }
        let action = FromController::parse(data).map_err(Failure::from);
        let action = action.and_then(|envelope| self.take(envelope, seed));
        self.settled(action, now)
    }

    /// The result of a job. A result that nothing waits for any more changes nothing.
    pub fn computed(&mut self, computed: Computed, now: u64) -> Action {
        if self.expire(now) || matches!(self.state, State::Closed(_)) {
            return Action::End;
        }
        if computed.number != self.jobs {
            return Action::Ignore;
        }
        match (self.leave(), computed.values) {
            (State::Computing { challenge, random, sequence }, Values::Both(value, shared)) => {
                let action = self.reply(&challenge, &random, sequence, value, Some(&shared));
                self.settled(Ok(action), now)
            }
            (state, _) => {
                self.state = state;
                Action::Ignore
            }
        }
    }

    /// Takes a message. An error leaves no state; the caller refuses.
    fn take(&mut self, envelope: Envelope<FromController>, seed: Seed) -> Result<Action, Failure> {
        let Envelope { transaction, message } = envelope;
        let expected = self.transaction.unwrap_or_default();
        match (message, self.leave()) {
            (FromController::Failure1(notice), _) => {
                self.close(Failure::Peer(notice));
                Ok(Action::End)
            }
            (FromController::Challenge(challenge), State::AwaitChallenge) => {
                same_transaction(expected, transaction)?;
                self.challenged(challenge, seed.split())
            }
            (FromController::Success1(success), State::AwaitSuccess1 { proof, expected: responses }) => {
                same_transaction(expected, transaction)?;
                self.accepted(&success, proof, &responses)
            }
            (FromController::Challenge(_), _) => Err(Failure::OutOfTurn("Challenge")),
            (FromController::Success1(_), _) => Err(Failure::OutOfTurn("Success1")),
        }
    }

    /// Checks what the controller chose.
    fn challenged(&mut self, challenge: Challenge, random: Parts) -> Result<Action, Failure> {
        if !self.policy.hashes().contains(&challenge.hash) {
            return Err(Failure::HashNotOffered(challenge.hash));
        }
        if !self.policy.groups().contains(&challenge.group) {
            return Err(Failure::GroupNotOffered(challenge.group));
        }
        self.sequences.take(challenge.sequence)?;
        let sequence = self.sequences.next(random.sequence);
        match challenge.group {
            Group::Null => Ok(self.reply(&challenge, &random.challenge, sequence, Vec::new(), None)),
            Group::Ffdhe(group) => {
                let exponent = Exponent::new(group, &random.exponent);
                let agreement = exponent.with(&challenge.value).ok_or(Failure::Value)?;
                self.state = State::Computing { challenge, random: random.challenge, sequence };
                self.jobs += 1;
                Ok(Action::Compute(Job { number: self.jobs, work: Work::Both(agreement) }))
            }
        }
    }

    /// Answers the challenge, with a challenge of our own if the controller has a key.
    fn reply(
        &mut self,
        challenge: &Challenge,
        random: &Secret,
        sequence: u32,
        value: Vec<u8>,
        shared: Option<&Secret>,
    ) -> Action {
        let transaction = self.transaction.unwrap_or_default();
        let covered = Covered {
            hash: challenge.hash,
            challenge: &challenge.challenge,
            shared,
            sequence: challenge.sequence,
            transaction,
            host: self.credentials.host(),
            subsystem: self.credentials.subsystem(),
        };
        let response = covered.host_response(&self.credentials.host_keys()[0]).expose().to_vec();
        let own = &random.expose()[..challenge.hash.bytes()];
        let covered = Covered { challenge: own, sequence, ..covered };
        let keys = self.credentials.controller_keys().iter();
        let expected: Vec<Secret> = keys.map(|key| covered.controller_response(key)).collect();
        let mutual = !expected.is_empty();
        let reply = Reply { wants_proof: mutual, sequence, response, challenge: own.to_vec(), value };
        let proof = Proof { hash: challenge.hash, group: challenge.group, mutual, key: 0 };
        self.state = State::AwaitSuccess1 { proof, expected };
        Action::Send(reply.encode(transaction))
    }

    /// Checks the controller's proof.
    fn accepted(&mut self, success: &Success1, proof: Proof, expected: &[Secret]) -> Result<Action, Failure> {
        let Some(response) = &success.response else {
            if proof.mutual {
                return Err(Failure::NoProof);
            }
            self.prove(proof);
            return Ok(Action::Done);
        };
        if !proof.mutual {
            return Err(Failure::Unasked);
        }
        if response.len() != proof.hash.bytes() {
            return Err(Failure::HashLength);
        }
        // All keys are tried, so that the time does not tell which one it was.
        let fits: Vec<bool> = expected.iter().map(|expected| expected.is(response)).collect();
        let key = fits.iter().position(|fits| *fits).ok_or(Failure::Response)?;
        self.prove(Proof { key, ..proof });
        Ok(Action::Finish(success2(self.transaction.unwrap_or_default())))
    }

    /// Takes the state out. A caller that forgets to set another one leaves the queue closed.
    fn leave(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Closed(Failure::OutOfTurn("message")))
    }

    fn prove(&mut self, proof: Proof) {
        self.proof = Some(proof);
        self.state = State::Proven;
    }

    fn close(&mut self, failure: Failure) {
        self.proof = None;
        self.patience.rest();
        self.state = State::Closed(failure);
    }

    /// Ends a step: a failure is told, and the time for the next step begins.
    fn settled(&mut self, action: Result<Action, Failure>, now: u64) -> Action {
        match action {
            Ok(action) => {
                if matches!(action, Action::Send(_)) {
                    self.patience.renew(now);
                } else {
                    self.patience.rest();
                }
                action
            }
            Err(failure) => {
                self.close(failure);
                let transaction = self.transaction.unwrap_or_default();
                failure.explanation().map_or(Action::End, |told| Action::Refuse(told.failure2(transaction)))
            }
        }
    }
}

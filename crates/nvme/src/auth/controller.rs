//! The end of a controller, for one queue: it lets a host prove itself.
//!
//! `docs/reference/wire-format/authentication.md` has the states.

use crate::auth::credentials::Credentials;
use crate::auth::exchange::{Computed, Job, Patience, Proof, Sequences, Values, Work, same_transaction};
use crate::auth::failure::Failure;
use crate::auth::group::{Exponent, Group};
use crate::auth::hash::Hash;
use crate::auth::message::{Challenge, Envelope, FromHost, Negotiate, Reply, Success1, transaction_of};
use crate::auth::policy::Policy;
use crate::auth::response::{Covered, NO_CONCATENATION};
use crate::auth::secret::{Parts, Secret, Seed};
use std::sync::Arc;

/// The authentication of one queue, at the controller.
#[derive(Debug)]
pub struct Controller {
    credentials: Arc<Credentials>,
    policy: Arc<Policy>,
    patience: Patience,
    sequences: Sequences,
    /// The exchange under way, or the last one.
    transaction: u16,
    /// Computations so far.
    jobs: u64,
    proof: Option<Proof>,
    state: State,
}

/// Next step after an Authentication Send.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// Complete the command with success. [`Controller::proof`] may have changed.
    Complete,
    /// Run the job, give its result to [`Controller::computed`], and complete the command then.
    Compute(Job),
    /// Complete the command with success, and end the connection. [`Controller::failure`] says why.
    End,
}

/// Answer to an Authentication Receive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Answer {
    /// The message, no longer than the room. [`Controller::proof`] may have changed: what it says
    /// holds once the answer is on its way.
    pub message: Vec<u8>,
    /// True if the connection ends after the answer. [`Controller::failure`] says why.
    pub end: bool,
}

/// Values chosen in an exchange.
#[derive(Debug)]
struct Exchange {
    hash: Hash,
    group: Group,
    sequence: u32,
    challenge: Vec<u8>,
    /// Of a group, if it is one.
    exponent: Option<Exponent>,
}

#[derive(Debug)]
enum State {
    AwaitNegotiate,
    ComputingValue(Exchange),
    Offering { message: Vec<u8>, exchange: Exchange },
    AwaitReply(Exchange),
    ComputingShared(Exchange, Reply),
    Accepting { message: Vec<u8>, proof: Proof },
    AwaitSuccess2(Proof),
    Proven,
    Refusing(Failure),
    Closed(Failure),
}

impl Controller {
    /// A queue whose Connect has just been answered with "authentication required". Each step has
    /// to come within `limit` ([`step_limit`](crate::auth::step_limit)). Times are in nanoseconds
    /// from any start.
    #[must_use]
    pub fn new(credentials: Arc<Credentials>, policy: Arc<Policy>, limit: u64, now: u64) -> Self {
        let mut patience = Patience::new(limit);
        patience.renew(now);
        Self {
            credentials,
            policy,
            patience,
            sequences: Sequences::default(),
            transaction: 0,
            jobs: 0,
            proof: None,
            state: State::AwaitNegotiate,
        }
    }

    /// The proof that the host has given, if any. It stays while the host authenticates again, and
    /// ends with a failure.
    #[must_use]
    pub fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }

    /// Reason for refusing the queue, if it is refused.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match &self.state {
            State::Refusing(failure) | State::Closed(failure) => Some(failure),
            _ => None,
        }
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
            // A failure that was not fetched is still the reason.
            let failure = self.failure().copied();
            self.close(failure.unwrap_or(Failure::Deadline));
        }
        over
    }

    /// The data of an Authentication Send.
    pub fn send(&mut self, data: &[u8], seed: Seed, now: u64) -> Step {
        if self.expire(now) {
            return Step::End;
        }
        match self.state {
            State::Closed(_) => return Step::End,
            // The first failure counts, and waits to be fetched.
            State::Refusing(_) => return Step::Complete,
            State::AwaitNegotiate | State::Proven => self.transaction = transaction_of(data),
            _ => {}
        }
        let step = FromHost::parse(data).map_err(Failure::from);
        let step = step.and_then(|envelope| self.take(envelope, seed));
        self.settled(step, now)
    }

    /// The result of a job. A result that nothing waits for any more changes nothing.
    pub fn computed(&mut self, computed: Computed, now: u64) -> Step {
        if self.expire(now) || matches!(self.state, State::Closed(_)) {
            return Step::End;
        }
        if computed.number != self.jobs {
            return Step::Complete;
        }
        let step = match (self.leave(), computed.values) {
            (State::ComputingValue(exchange), Values::Public(value)) => {
                self.offer(exchange, value);
                Ok(Step::Complete)
            }
            (State::ComputingShared(exchange, reply), Values::Shared(shared)) => {
                self.judge(&exchange, &reply, Some(&shared)).map(|()| Step::Complete)
            }
            (state, _) => {
                self.state = state;
                return Step::Complete;
            }
        };
        self.settled(step, now)
    }

    /// An Authentication Receive with so many bytes of room.
    pub fn receive(&mut self, room: usize, now: u64) -> Answer {
        if self.expire(now) {
            return Answer { message: Vec::new(), end: true };
        }
        match self.leave() {
            State::Refusing(failure) | State::Closed(failure) => self.refusal(failure, room),
            State::Offering { message, .. } | State::Accepting { message, .. } if message.len() > room => {
                self.refusal(Failure::Room { room, message: message.len() }, room)
            }
            State::Offering { message, exchange } => {
                self.state = State::AwaitReply(exchange);
                self.answer(message, now)
            }
            State::Accepting { message, proof } => {
                if proof.mutual {
                    self.state = State::AwaitSuccess2(proof);
                } else {
                    self.prove(proof);
                }
                self.answer(message, now)
            }
            _ => self.refusal(Failure::OutOfTurn("Authentication Receive"), room),
        }
    }

    /// Takes a message. An error leaves no state; the caller refuses.
    fn take(&mut self, envelope: Envelope<FromHost>, seed: Seed) -> Result<Step, Failure> {
        let Envelope { transaction, message } = envelope;
        match (message, self.leave()) {
            (FromHost::Failure2(notice), _) => {
                self.close(Failure::Peer(notice));
                Ok(Step::End)
            }
            (FromHost::Negotiate(negotiate), State::AwaitNegotiate | State::Proven) => {
                self.negotiate(&negotiate, &seed.split())
            }
            (FromHost::Reply(reply), State::AwaitReply(exchange)) => {
                same_transaction(self.transaction, transaction)?;
                self.reply(exchange, reply)
            }
            (FromHost::Success2, State::AwaitSuccess2(proof)) => {
                same_transaction(self.transaction, transaction)?;
                self.prove(proof);
                Ok(Step::Complete)
            }
            (FromHost::Negotiate(_), _) => Err(Failure::OutOfTurn("Negotiate")),
            (FromHost::Reply(_), _) => Err(Failure::OutOfTurn("Reply")),
            (FromHost::Success2, _) => Err(Failure::OutOfTurn("Success2")),
        }
    }

    /// Chooses, and makes the challenge.
    fn negotiate(&mut self, negotiate: &Negotiate, random: &Parts) -> Result<Step, Failure> {
        if negotiate.concatenation != NO_CONCATENATION {
            return Err(Failure::Concatenation(negotiate.concatenation));
        }
        let offer = negotiate.offer.as_ref().ok_or(Failure::NoProtocol)?;
        let hash = self.policy.choose_hash(offer).ok_or(Failure::NoHash)?;
        let group = self.policy.choose_group(offer).ok_or(Failure::NoGroup)?;
        let mut exchange = Exchange {
            hash,
            group,
            sequence: self.sequences.next(random.sequence),
            challenge: random.challenge.expose()[..hash.bytes()].to_vec(),
            exponent: None,
        };
        match group {
            Group::Null => {
                self.offer(exchange, Vec::new());
                Ok(Step::Complete)
            }
            Group::Ffdhe(group) => {
                let exponent = Exponent::new(group, &random.exponent);
                exchange.exponent = Some(exponent.clone());
                self.state = State::ComputingValue(exchange);
                Ok(self.compute(Work::Public(exponent)))
            }
        }
    }

    /// The challenge waits to be fetched.
    fn offer(&mut self, exchange: Exchange, value: Vec<u8>) {
        let Exchange { hash, group, sequence, .. } = exchange;
        let challenge = Challenge { hash, group, sequence, challenge: exchange.challenge.clone(), value };
        self.state = State::Offering { message: challenge.encode(self.transaction), exchange };
    }

    /// Checks everything of a reply that costs nothing. The challenge is used up, whatever comes.
    fn reply(&mut self, exchange: Exchange, reply: Reply) -> Result<Step, Failure> {
        if reply.response.len() != exchange.hash.bytes() {
            return Err(Failure::HashLength);
        }
        if reply.wants_proof {
            self.sequences.take(reply.sequence)?;
            if reply.challenge == exchange.challenge {
                return Err(Failure::SameChallenge);
            }
        }
        match &exchange.exponent {
            None if !reply.value.is_empty() => Err(Failure::Value),
            None => self.judge(&exchange, &reply, None).map(|()| Step::Complete),
            Some(exponent) => {
                let agreement = exponent.with(&reply.value).ok_or(Failure::Value)?;
                self.state = State::ComputingShared(exchange, reply);
                Ok(self.compute(Work::Shared(agreement)))
            }
        }
    }

    /// Checks the host's response, and then answers its challenge.
    fn judge(&mut self, exchange: &Exchange, reply: &Reply, shared: Option<&Secret>) -> Result<(), Failure> {
        let covered = Covered {
            hash: exchange.hash,
            challenge: &exchange.challenge,
            shared,
            sequence: exchange.sequence,
            transaction: self.transaction,
            host: self.credentials.host(),
            subsystem: self.credentials.subsystem(),
        };
        // All keys are tried, so that the time does not tell which one it was.
        let keys = self.credentials.host_keys().iter();
        let fits: Vec<bool> = keys.map(|key| covered.host_response(key).is(&reply.response)).collect();
        let key = fits.iter().position(|fits| *fits).ok_or(Failure::Response)?;
        let mut response = None;
        if reply.wants_proof {
            let own = self.credentials.controller_key_for(key).ok_or(Failure::NoControllerKey)?;
            let covered = Covered { challenge: &reply.challenge, sequence: reply.sequence, ..covered };
            response = Some(covered.controller_response(own).expose().to_vec());
        }
        let message = Success1 { response }.encode(exchange.hash, self.transaction);
        let proof = Proof { hash: exchange.hash, group: exchange.group, mutual: reply.wants_proof, key };
        self.state = State::Accepting { message, proof };
        Ok(())
    }

    /// Takes the state out. A caller that forgets to set another one leaves the queue refused.
    fn leave(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Refusing(Failure::OutOfTurn("message")))
    }

    fn compute(&mut self, work: Work) -> Step {
        self.jobs += 1;
        Step::Compute(Job { number: self.jobs, work })
    }

    fn prove(&mut self, proof: Proof) {
        self.proof = Some(proof);
        self.state = State::Proven;
    }

    /// Ends a step: a failure waits to be fetched, and the time for the next step begins.
    fn settled(&mut self, step: Result<Step, Failure>, now: u64) -> Step {
        let step = step.unwrap_or_else(|failure| {
            self.proof = None;
            self.state = State::Refusing(failure);
            Step::Complete
        });
        match step {
            Step::Complete => self.wait(now),
            // While we compute, the host has nothing to do.
            Step::Compute(_) | Step::End => self.patience.rest(),
        }
        step
    }

    fn wait(&mut self, now: u64) {
        if matches!(self.state, State::Proven) { self.patience.rest() } else { self.patience.renew(now) }
    }

    fn answer(&mut self, message: Vec<u8>, now: u64) -> Answer {
        self.wait(now);
        Answer { message, end: false }
    }

    fn close(&mut self, failure: Failure) {
        self.proof = None;
        self.patience.rest();
        self.state = State::Closed(failure);
    }

    /// The last answer: what the host is told, if it is told anything and there is room.
    fn refusal(&mut self, failure: Failure, room: usize) -> Answer {
        self.close(failure);
        let message = failure.explanation().map(|explanation| explanation.failure1(self.transaction));
        Answer { message: message.filter(|message| message.len() <= room).unwrap_or_default(), end: true }
    }
}

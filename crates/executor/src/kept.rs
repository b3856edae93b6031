//! The state of a volume that outlasts a round: from one opening, over a hold, to the next.

use crate::back::{PAUSE, Watch};
use crate::buffers::Piece;
use crate::carry::{ERRORS, Moved};
use crate::error::OpenError;
use crate::look::Back;
use crate::losses::SharedLosses;
use crate::message::Message;
use crate::reply::{Failed, Reply};
use crate::state::{ControlError, Status};
use pumice_base::buffer::SharedBuffer;
use pumice_base::units::Role;
use pumice_volume::{Request, RequestError, RequestId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

/// A request, and what came for it.
pub(crate) struct Asked {
    pub(crate) request: Request,
    /// Of a write.
    pub(crate) data: Option<SharedBuffer>,
    /// Of a read, as far as they came.
    pub(crate) pieces: Vec<Piece>,
    /// A flush of a host, which tells it of losses.
    pub(crate) tells: bool,
    /// `None` once it has its answer.
    pub(crate) reply: Option<Reply>,
}

impl Asked {
    pub(crate) const fn new(request: Request, data: Option<SharedBuffer>, reply: Option<Reply>) -> Self {
        Self { request, data, pieces: Vec::new(), tells: matches!(request, Request::Flush), reply }
    }
}

/// The state that outlasts a round of a volume.
#[derive(Default)]
pub(crate) struct Kept {
    /// Requests without an answer, in the order in which they came.
    pub(crate) asked: BTreeMap<RequestId, Asked>,
    /// Messages that came while no round was under way.
    pub(crate) late: VecDeque<Message>,
    pub(crate) next_request: u64,
    pub(crate) next_claim: u64,
    /// Failed by their operator: nothing is sent to them any more.
    pub(crate) given_up: BTreeSet<Role>,
    /// Since when more members are missing than the volume survives.
    pub(crate) held: Option<Instant>,
    pub(crate) watch: Option<Watch>,
    /// Members had writes in their caches that no log has, at the time of the hold.
    pub(crate) rests: bool,
    /// A node was started again since.
    pub(crate) restarted: bool,
    /// Writes that were answered and are lost, and who was told.
    pub(crate) losses: Arc<SharedLosses>,
    /// The event count of the superblocks, once the volume was ready.
    pub(crate) events: Option<u64>,
    pub(crate) stopping: Vec<SyncSender<()>>,
    pub(crate) user_read: u64,
    pub(crate) user_written: u64,
    pub(crate) moved: Moved,
    /// The last errors of members, oldest first.
    pub(crate) errors: VecDeque<String>,
    /// The status at the end of the last round.
    pub(crate) status: Option<Status>,
}

impl Kept {
    pub(crate) fn is_held_for_long(&self, hold_timeout: Duration) -> bool {
        self.held.is_some_and(|since| since.elapsed() >= hold_timeout)
    }

    /// The time that requests still wait for a held volume, unless it has been answered.
    pub(crate) fn hold_left(&self, hold_timeout: Duration) -> Option<Duration> {
        let left = hold_timeout.saturating_sub(self.held?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Answers requests that wait for a volume that is held for too long, also those that have come
    /// while no round was under way.
    pub(crate) fn check_hold(&mut self, hold_timeout: Duration) {
        if !self.is_held_for_long(hold_timeout) {
            return;
        }
        for asked in self.asked.values_mut() {
            if let Some(reply) = asked.reply.take() {
                reply.send(Err(Failed::Held));
            }
        }
        for message in std::mem::take(&mut self.late) {
            match message {
                Message::Request { reply, .. } | Message::Settle(reply) => reply.send(Err(Failed::Held)),
                message => self.late.push_back(message),
            }
        }
    }

    /// The reason why the members of a held volume are not back.
    pub(crate) fn why_held(&self) -> Option<&String> {
        self.watch.as_ref().and_then(Watch::why)
    }

    /// Recovery has ended. What counts from now on is on the members, and flushed.
    pub(crate) fn goes_on(&mut self) {
        let unsure = std::mem::take(&mut self.rests) && std::mem::take(&mut self.restarted);
        if self.held.take().is_some() {
            tracing::info!(unsure, "the members are back, and the volume goes on");
        }
        (self.watch, self.restarted) = (None, false);
        self.forget_answered();
        if unsure {
            // Before anybody hears of it: what is answered from now on is there.
            self.losses.lose();
            for asked in self.asked.values_mut().filter(|asked| asked.tells) {
                if let Some(reply) = asked.reply.take() {
                    reply.send(Err(Failed::Unsure));
                }
            }
            self.asked.retain(|_, asked| asked.reply.is_some());
        }
    }

    /// The volume cannot be opened again.
    pub(crate) fn note(&mut self, error: &OpenError) {
        let error = error.to_string();
        if self.errors.back() != Some(&error) {
            tracing::error!(%error, "the members are back, and the volume cannot be opened");
            if self.errors.len() >= ERRORS {
                self.errors.pop_front();
            }
            self.errors.push_back(error);
        }
    }

    /// Requests that were answered while the volume was held are not carried out later.
    fn forget_answered(&mut self) {
        self.asked.retain(|_, asked| asked.reply.is_some());
        // A read begins anew.
        self.asked.values_mut().for_each(|asked| asked.pieces.clear());
    }

    /// The status that the last round has left, with the reasons of the hold.
    fn status_of_hold(&self) -> Option<Status> {
        let errors = self.errors.iter().chain(self.why_held()).cloned().collect();
        Some(Status { errors, ..self.status.clone()? })
    }

    /// Waits, without a round, until the members are there; `None`: the volume is to end.
    pub(crate) fn wait(&mut self, inbox: &Receiver<Message>, hold_timeout: Duration) -> Option<Box<Back>> {
        self.held.get_or_insert_with(Instant::now);
        let mut late = std::mem::take(&mut self.late);
        loop {
            self.watch.as_mut()?.poll();
            self.check_hold(hold_timeout);
            let pause = self.hold_left(hold_timeout).map_or(PAUSE, |left| left.min(PAUSE));
            match late.pop_front().map_or_else(|| inbox.recv_timeout(pause), Ok) {
                Ok(Message::Back(attempt)) => {
                    if let Some(back) = self.watch.as_mut()?.ended(attempt) {
                        late.append(&mut self.late);
                        self.late = late;
                        return Some(back);
                    }
                }
                Ok(Message::Request { reply, .. } | Message::Settle(reply))
                    if self.is_held_for_long(hold_timeout) =>
                {
                    reply.send(Err(Failed::Held));
                }
                Ok(message @ (Message::Request { .. } | Message::Settle(_))) => self.late.push_back(message),
                Ok(Message::Status(reply)) => {
                    if let Some(status) = self.status_of_hold() {
                        drop(reply.send(status));
                    }
                }
                Ok(message @ (Message::Stop(_) | Message::Abandon(_))) => {
                    // It cannot be made clean: only who abandons it is answered.
                    self.stopping.clear();
                    if let Message::Abandon(reply) = message {
                        self.stopping.push(reply);
                    }
                    return None;
                }
                Ok(message) => refuse(message, ControlError::Held),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Answers a message to a volume that does not run: it is held, or has stopped.
pub(crate) fn refuse(message: Message, why: ControlError) {
    match message {
        Message::Request { reply, .. } | Message::Settle(reply) => reply.send(Err(match why {
            ControlError::Held => Failed::Held,
            _ => RequestError::Stopped.into(),
        })),
        Message::Fail(_, order) => order.carry_out(|| Err(why)),
        Message::Model(reply) => drop(reply.send(None)),
        Message::Join(_, order) => order.carry_out(|| Err(why)),
        Message::Claim { reply, .. } => drop(reply.send(Some(Err(why)))),
        Message::Members(reply) => drop(reply.send(Vec::new())),
        // Whoever waits for an answer is told by the end of its channel.
        Message::Ended
        | Message::Back(_)
        | Message::Status(_)
        | Message::MemberOn(..)
        | Message::Unclaim(_)
        | Message::Stop(_)
        | Message::Abandon(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back::Epochs;
    use std::sync::mpsc::{channel, sync_channel};

    /// The members of a held volume are there, and it cannot be opened.
    #[test]
    fn a_request_that_comes_late_to_a_held_volume_fails_when_the_hold_has_lasted_too_long() {
        let (own, inbox) = channel();
        let epochs = Epochs::of(std::iter::empty()).unwrap();
        let watch = Some(Watch::new(Vec::new(), epochs, own.clone()));
        let mut kept = Kept { watch, ..Kept::default() };
        let ask = || {
            let (reply, answer) = sync_channel(1);
            let reply = Reply::new(move |said| reply.send(said).unwrap());
            own.send(Message::Request { request: Request::Flush, data: None, reply }).unwrap();
            answer
        };
        let early = ask();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || kept.wait(&inbox, Duration::from_millis(200)).is_none());
            let failed = |answer: Receiver<crate::reply::Answer>| {
                let said = answer.recv_timeout(Duration::from_secs(60));
                matches!(said, Ok(Err(Failed::Held)))
            };
            let early = failed(early);
            // It is held for too long by now: this one fails at once.
            let late = failed(ask());
            own.send(Message::Abandon(sync_channel(1).0)).unwrap();
            assert_eq!((early, late, waiting.join().unwrap()), (true, true, true));
        });
    }
}

//! The control of a volume that is open.

use crate::claim::ClaimAsked;
use crate::drive::MemberDrive;
use crate::joining::{Joining, prepare};
use crate::message::{Message, Order, order, unanswered};
use crate::reply::Reply;
use crate::state::{ControlError, Facts, Status};
use pumice_base::units::Role;
use std::ops::Range;
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// The interval at which a failure is looked at until it is recorded.
const RECORDED: Duration = Duration::from_millis(5);
/// The time for which an order waits until it is.
const RECORD_TIME: Duration = Duration::from_secs(8);
/// The time that the volume's thread has to answer: it may look at nodes that are silent.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The control of a volume, for any thread.
#[derive(Debug, Clone)]
pub struct Control {
    pub(crate) messages: Sender<Message>,
    pub(crate) facts: Facts,
}

impl Control {
    fn ask<T>(&self, message: impl FnOnce(SyncSender<T>) -> Message) -> Result<T, ControlError> {
        self.ask_within(ANSWER_TIME, message)
    }

    fn ask_within<T>(
        &self,
        patience: Duration,
        message: impl FnOnce(SyncSender<T>) -> Message,
    ) -> Result<T, ControlError> {
        let (reply, answer) = sync_channel(1);
        self.messages.send(message(reply)).map_err(|_| ControlError::Stopped)?;
        answer.recv_timeout(patience).map_err(unanswered)
    }

    /// Has something done, which is not done later if it is not begun within [`ANSWER_TIME`].
    fn order<T>(&self, message: impl FnOnce(Order<T>) -> Message) -> Result<T, ControlError> {
        let (order, answer) = order();
        self.messages.send(message(order)).map_err(|_| ControlError::Stopped)?;
        answer.wait(ANSWER_TIME)
    }

    /// The status of the volume.
    ///
    /// # Errors
    /// If it has stopped, or does not answer within 5 s.
    pub fn status(&self) -> Result<Status, ControlError> {
        self.ask(Message::Status)
    }

    /// The status of the volume, if it answers within `patience`.
    ///
    /// # Errors
    /// If it has stopped, or does not answer in time.
    pub fn status_within(&self, patience: Duration) -> Result<Status, ControlError> {
        self.ask_within(patience, Message::Status)
    }

    /// Fails a member: nothing is sent to it any more, and the superblocks of the others say so.
    /// Waits up to 8 s for that.
    ///
    /// # Errors
    /// If it is missing already, or the volume would not survive it. If the volume does not begin
    /// with it within 5 s: then it does not do it later. If another member fails before it is
    /// recorded and the volume is held, or if it is not recorded in time: then nothing is sent to
    /// the member all the same.
    pub fn fail(&self, role: Role) -> Result<(), ControlError> {
        self.order(|order| Message::Fail(role, order))?;
        self.recorded()
    }

    /// Waits until the superblocks say which members have failed: before that it is not known which
    /// device may come back, and a volume that cannot record it stays held.
    fn recorded(&self) -> Result<(), ControlError> {
        let until = Instant::now() + RECORD_TIME;
        loop {
            let (reply, answer) = sync_channel(1);
            self.messages.send(Message::Status(reply)).map_err(|_| ControlError::Stopped)?;
            // Its thread may wait for nodes.
            let status = answer.recv_timeout(until.saturating_duration_since(Instant::now()));
            match status {
                Ok(status) if status.held => return Err(ControlError::Held),
                Ok(status) if !status.recording => return Ok(()),
                Ok(_) if Instant::now() < until => std::thread::sleep(RECORDED),
                Ok(_) | Err(RecvTimeoutError::Timeout) => return Err(ControlError::NotRecorded),
                Err(RecvTimeoutError::Disconnected) => return Err(ControlError::Stopped),
            }
        }
    }

    /// Fails a member, and gives its role a new device, which is checked before. Returns when the
    /// failure is on the others, and the device has the role.
    ///
    /// # Errors
    /// As [`fail`](Self::fail) and [`add`](Self::add), and if another member is missing. If the
    /// volume is held or the device refused in the middle, the member has failed.
    pub fn replace(&self, role: Role, drive: MemberDrive, force: bool) -> Result<Role, ControlError> {
        let joining = self.prepare(drive, force)?;
        if joining.former().is_some() {
            // It would be as old as the last failure of a member.
            return Err(joining.stale());
        }
        if !self.status()?.missing.is_empty() {
            return Err(ControlError::OthersMissing);
        }
        self.fail(role)?;
        self.order(|order| Message::Join(Box::new(joining), order))
    }

    fn prepare(&self, drive: MemberDrive, force: bool) -> Result<Joining, ControlError> {
        let like = self.ask(Message::Model)?.ok_or(ControlError::TooFew)?;
        let member_on = |drive: &MemberDrive, device_uuid| {
            self.ask(|reply| Message::MemberOn(Box::new(drive.clone()), device_uuid, reply))
        };
        prepare(drive, &like, &self.facts, force, member_on)
    }

    /// Claims stripes: nothing is written there from the moment when the claim is granted until it
    /// is dropped. With `alone` nothing is read there either.
    ///
    /// # Errors
    /// If it has stopped.
    pub fn claim(&self, stripes: Range<u64>, alone: bool) -> Result<ClaimAsked, ControlError> {
        let (wake, answer) = channel();
        let claim = Message::Claim { stripes, alone, reply: wake.clone() };
        self.messages.send(claim).map_err(|_| ControlError::Stopped)?;
        Ok(ClaimAsked::new(answer, wake))
    }

    /// The devices of members in sync and of those that are being rebuilt, by role.
    ///
    /// # Errors
    /// If it has stopped, or does not answer within 5 s.
    pub fn members(&self) -> Result<Vec<(Role, MemberDrive)>, ControlError> {
        self.ask(Message::Members)
    }

    /// Makes everything durable that was answered before, in place.
    ///
    /// # Errors
    /// If it has stopped, or is held for too long.
    pub fn flush(&self) -> Result<(), ControlError> {
        let (reply, answer) = Reply::waited_for();
        self.messages.send(Message::Settle(reply)).map_err(|_| ControlError::Stopped)?;
        Ok(answer.wait().map(drop)?)
    }

    /// The facts that do not change.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Gives an empty role a new device, and rebuilds it. A device that was failed takes the role
    /// again that it had, and is rebuilt where it has missed writes, unless `force`. Returns the
    /// role.
    ///
    /// # Errors
    /// If no role is empty, or not that of a device that comes back; if the device is too small, or
    /// is a member of an array and `force` does not say that this does not matter. If the volume is
    /// held, or a failure is not recorded within 8 s.
    pub fn add(&self, drive: MemberDrive, force: bool) -> Result<Role, ControlError> {
        self.recorded()?;
        let joining = self.prepare(drive, force)?;
        self.order(|order| Message::Join(Box::new(joining), order))
    }
}

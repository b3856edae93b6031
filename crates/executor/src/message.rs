//! Messages to a volume's thread, and its answers.

use crate::claim::Granted;
use crate::drive::MemberDrive;
use crate::joining::Joining;
use crate::look::Back;
use crate::reply::Reply;
use crate::state::{ControlError, Status};
use pumice_base::buffer::SharedBuffer;
use pumice_base::units::Role;
use pumice_volume::{ClaimId, Request};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::time::Duration;

/// A message to a volume's thread.
pub(crate) enum Message {
    /// Operations on drives have ended: they are taken from where they were put.
    Ended,
    /// A user asks for something. `data` are those of a write.
    Request { request: Request, data: Option<SharedBuffer>, reply: Reply },
    /// Somebody who is no user asks for a flush.
    Settle(Reply),
    /// An attempt to reach the members of a held volume has ended.
    Back(Result<Option<Box<Back>>, String>),
    /// A question for the status.
    Status(SyncSender<Status>),
    /// A member is to be failed.
    Fail(Role, Order<()>),
    /// A question for the drive of a member in sync.
    Model(SyncSender<Option<MemberDrive>>),
    /// A question for the member that is on this drive, or has the superblock with this
    /// device_uuid.
    MemberOn(Box<MemberDrive>, Option<[u8; 16]>, SyncSender<Option<Role>>),
    /// A new member is to take the role of one that is missing.
    Join(Box<Joining>, Order<Role>),
    /// Stripes are claimed.
    Claim { stripes: Range<u64>, alone: bool, reply: Sender<Granted> },
    /// A claim is given back.
    Unclaim(ClaimId),
    /// A question for the drives of all members, in sync or not.
    Members(SyncSender<Vec<(Role, MemberDrive)>>),
    /// Everything is to be made clean, and the volume to end. The answer comes when it is.
    Stop(SyncSender<()>),
    /// The volume is to end as it is.
    Abandon(SyncSender<()>),
}

/// The answer to an order, which is carried out unless the asker has given it up before.
pub(crate) struct Order<T> {
    reply: SyncSender<Result<T, ControlError>>,
    taken: Arc<AtomicBool>,
}

/// The answer that the asker of an order waits for.
pub(crate) struct OrderAnswer<T> {
    answer: Receiver<Result<T, ControlError>>,
    taken: Arc<AtomicBool>,
}

/// An order, and the end on which its answer comes.
pub(crate) fn order<T>() -> (Order<T>, OrderAnswer<T>) {
    let (reply, answer) = sync_channel(1);
    let taken = Arc::new(AtomicBool::new(false));
    (Order { reply, taken: Arc::clone(&taken) }, OrderAnswer { answer, taken })
}

impl<T> Order<T> {
    /// Answers with what `work` returns, unless the order was given up.
    pub(crate) fn carry_out(self, work: impl FnOnce() -> Result<T, ControlError>) {
        if !self.taken.swap(true, Ordering::AcqRel) {
            // Whoever asked may have waited for too long meanwhile.
            let _ = self.reply.send(work());
        }
    }
}

impl<T> OrderAnswer<T> {
    /// Waits up to `patience` until the order is taken, and as long again for its answer. An order
    /// that was not taken by then is never carried out.
    pub(crate) fn wait(&self, patience: Duration) -> Result<T, ControlError> {
        let answered = match self.answer.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) if self.taken.swap(true, Ordering::AcqRel) => {
                self.answer.recv_timeout(patience)
            }
            answered => answered,
        };
        answered.unwrap_or_else(|error| Err(unanswered(error)))
    }
}

/// The reason why no answer came.
pub(crate) fn unanswered(error: RecvTimeoutError) -> ControlError {
    match error {
        RecvTimeoutError::Timeout => ControlError::Unanswered,
        RecvTimeoutError::Disconnected => ControlError::Stopped,
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_was_given_up_is_not_carried_out() {
        let (late, answer) = order::<()>();
        assert_eq!(answer.wait(Duration::ZERO), Err(ControlError::Unanswered));
        late.carry_out(|| panic!("it was given up"));
        let (taken, answer) = order();
        taken.carry_out(|| Ok(Role(1)));
        assert_eq!(answer.wait(Duration::ZERO), Ok(Role(1)));
        let (lost, answer) = order::<()>();
        drop(lost);
        assert_eq!(answer.wait(Duration::from_secs(60)), Err(ControlError::Stopped));
    }
}

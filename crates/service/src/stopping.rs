//! The end of a volume in service, and the channel over which it is asked for.

use crate::api::LINE_TIME;
use std::sync::mpsc::{self, Receiver, Sender};

/// Reason why a served volume ends.
pub(crate) enum Ended {
    Signal,
    /// By a request over its socket.
    Asked(Asker),
    Failed(String),
}

/// The client that has asked the volume to stop.
pub(crate) struct Asker {
    /// Takes whether it is clean.
    reply: Sender<bool>,
    /// Ends when the answer is sent.
    told: Receiver<()>,
}

impl Asker {
    /// A client that takes whether the volume is clean; `told` ends when it knows.
    pub(crate) const fn new(reply: Sender<bool>, told: Receiver<()>) -> Self {
        Self { reply, told }
    }

    /// Tells whether the volume is clean. The client may have gone.
    pub(crate) fn tell(&self, clean: bool) {
        if self.reply.send(clean).is_ok() {
            // The process must not end before the answer is sent.
            let _ = self.told.recv_timeout(LINE_TIME);
        }
    }
}

/// Ends a volume in service, from any thread, and before it is served.
#[derive(Clone)]
pub struct Stopper(Sender<Ended>);

/// Requests to end, in their order.
pub struct Stops(pub(crate) Receiver<Ended>);

/// The two ends of the channel.
#[must_use]
pub fn stopper() -> (Stopper, Stops) {
    let (stop, stopped) = mpsc::channel();
    (Stopper(stop), Stops(stopped))
}

impl Stopper {
    /// Ends the volume, as a signal does. Only the first end counts; it may have ended already.
    pub fn stop(&self) {
        self.end(Ended::Signal);
    }

    /// Ends the volume; false if it has ended.
    pub(crate) fn end(&self, ended: Ended) -> bool {
        self.0.send(ended).is_ok()
    }
}

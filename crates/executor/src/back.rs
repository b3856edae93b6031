//! Members of a held volume that come back: `docs/design/held-volumes.md`, *Held, and back*.

use crate::drive::{MemberDrive, epoch};
use crate::error::OpenError;
use crate::look::{Back, Found, find_known, survey};
use crate::message::Message;
use pumice_offload::{DataNode, Link, NodeError};
use pumice_raid::Known;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From the end of an attempt to the next one.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// The nodes of members, each once, with the epoch that it had: it tells whether a node was started
/// again.
#[derive(Clone)]
pub(crate) struct Epochs(Vec<(Arc<dyn DataNode>, Option<u64>)>);

impl Epochs {
    /// Asks the nodes.
    pub(crate) fn of<'d>(drives: impl Iterator<Item = &'d MemberDrive>) -> Result<Self, OpenError> {
        let mut nodes: Vec<(Arc<dyn DataNode>, Option<u64>)> = Vec::new();
        for drive in drives {
            if !nodes.iter().any(|(node, _)| Arc::ptr_eq(node, drive.node())) {
                let epoch = epoch(&**drive.node())
                    .map_err(|source| OpenError::Device { device: drive.name().to_owned(), source })?;
                nodes.push((Arc::clone(drive.node()), epoch));
            }
        }
        Ok(Self(nodes))
    }

    /// Also watches the node of a member that joins. `asked` was its epoch before that. One that is
    /// known keeps the epoch that it had: it may have been started again.
    pub(crate) fn know(&mut self, node: &Arc<dyn DataNode>, asked: Option<u64>) {
        if !self.0.iter().any(|(known, _)| Arc::ptr_eq(known, node)) {
            self.0.push((Arc::clone(node), asked));
        }
    }

    /// Forgets nodes that no member is on.
    pub(crate) fn keep(&mut self, is_used: impl Fn(&Arc<dyn DataNode>) -> bool) {
        self.0.retain(|(node, _)| is_used(node));
    }

    /// Returns whether a node may have been started again since. One that was never asked counts as
    /// such.
    fn has_changed(&self, node: &Arc<dyn DataNode>) -> Result<bool, NodeError> {
        let known = self.0.iter().find(|(known, _)| Arc::ptr_eq(known, node));
        Ok(known.map(|(_, epoch)| *epoch) != Some(epoch(&**node)?))
    }
}

/// A drive that was a member.
#[derive(Clone)]
pub(crate) struct Sought {
    pub(crate) drive: MemberDrive,
    /// The volume cannot go on without it. Others have failed, and the superblocks may say so.
    pub(crate) needed: bool,
    /// The facts of its superblock that are known.
    pub(crate) known: Known,
}

/// Tries to reach the members of a held volume, in a thread: nodes may take long to answer.
pub(crate) struct Watch {
    sought: Vec<Sought>,
    epochs: Epochs,
    own: Sender<Message>,
    next: Instant,
    attempt: Option<JoinHandle<()>>,
    /// A connection was lost, and is there again. If none was, a member that does not do what it is
    /// told is reached as well as before, and waiting does not help.
    retaken: Arc<AtomicBool>,
    /// The reason why the last attempt failed.
    why: Option<String>,
}

impl Watch {
    pub(crate) fn new(sought: Vec<Sought>, epochs: Epochs, own: Sender<Message>) -> Self {
        let (next, retaken) = (Instant::now() + PAUSE, Arc::default());
        Self { sought, epochs, own, next, attempt: None, retaken, why: None }
    }

    /// Begins an attempt, if it is time. Its end is a message.
    pub(crate) fn poll(&mut self) {
        if self.attempt.is_some() || Instant::now() < self.next {
            return;
        }
        let (sought, epochs, own) = (self.sought.clone(), self.epochs.clone(), self.own.clone());
        let retaken = Arc::clone(&self.retaken);
        let attempt = std::thread::Builder::new().name("back".to_owned()).spawn(move || {
            // The volume may have ended.
            let _ = own.send(Message::Back(reach(&sought, &epochs, &retaken)));
        });
        self.attempt = attempt.ok();
    }

    /// An attempt has ended.
    pub(crate) fn ended(&mut self, attempt: Result<Option<Box<Back>>, String>) -> Option<Box<Back>> {
        if let Some(thread) = self.attempt.take() {
            // It has sent its end already.
            let _ = thread.join();
        }
        self.next = Instant::now() + PAUSE;
        match attempt {
            Ok(back) => back,
            Err(why) => {
                if self.why.as_ref() != Some(&why) {
                    tracing::warn!(%why, "the volume stays held");
                    self.why = Some(why);
                }
                None
            }
        }
    }

    /// The reason why the members are not back.
    pub(crate) fn why(&self) -> Option<&String> {
        self.why.as_ref()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(thread) = self.attempt.take() {
            // Or it would still use the devices. If it panicked, it has ended as well.
            let _ = thread.join();
        }
    }
}

/// One attempt. `None`: no connection was lost.
fn reach(sought: &[Sought], epochs: &Epochs, retaken: &AtomicBool) -> Result<Option<Box<Back>>, String> {
    // Nodes that have members, each once; whether the volume needs it. It may have lost others for
    // good, or got new ones.
    let mut nodes: Vec<(&Arc<dyn DataNode>, bool)> = Vec::new();
    for Sought { drive, needed, .. } in sought {
        match nodes.iter_mut().find(|(node, _)| Arc::ptr_eq(node, drive.node())) {
            Some((_, needs)) => *needs |= needed,
            None => nodes.push((drive.node(), *needed)),
        }
    }
    let mut failed = None;
    for (node, needed) in &nodes {
        // A connection that is lost is known as such when it has been used.
        let _ = epoch(&***node);
        match node.link().map_or(Ok(false), Link::retake) {
            Ok(was_lost) => drop(retaken.fetch_or(was_lost && *needed, Ordering::Relaxed)),
            // The others are tried all the same: each is kept once it is there.
            Err(error) if *needed => failed = failed.or(Some(error)),
            Err(_) => {}
        }
    }
    if let Some(error) = failed {
        return Err(error.to_string());
    }
    // Relaxed: one attempt follows the other.
    if !retaken.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut restarted = false;
    for (node, _) in nodes.iter().filter(|(_, needed)| *needed) {
        restarted |= epochs.has_changed(node).map_err(|error| error.to_string())?;
    }
    let (mut found, mut others): (Vec<Found>, Vec<Found>) = Default::default();
    for Sought { drive, needed, known } in sought {
        match (find_known(drive, *known), *needed) {
            (Ok(member), true) => found.push(member),
            (Ok(member), false) => others.push(member),
            (Err(error), true) => return Err(error.to_string()),
            (Err(_), false) => {}
        }
    }
    let newest = found.iter().chain(&others).max_by_key(|found| found.events());
    let table = newest.map(|newest| newest.table().to_vec()).unwrap_or_default();
    found.extend(others.into_iter().filter(|other| other.is_active(&table)));
    let survey = survey(found).map_err(|error| error.to_string())?;
    Ok(Some(Box::new(Back { survey, restarted })))
}

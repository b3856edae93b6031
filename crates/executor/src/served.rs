//! A volume that is open: its device, its state, and what can be asked of it.

use crate::back::Epochs;
use crate::carry::Carrier;
use crate::control::Control;
use crate::device::VolumeDevice;
use crate::drive::MemberDrive;
use crate::engine::{End, Engine, Timing, now};
use crate::error::OpenError;
use crate::kept::Kept;
use crate::look::{Found, Survey, find_all, find_known, look, survey};
use crate::losses::SharedLosses;
use crate::message::Message;
use crate::near::Nodes;
use crate::pace::Pace;
use crate::random::random;
use crate::state::{Consistency, ControlError, Facts, Offload, Status};
use pumice_base::units::Role;
use pumice_raid::{Known, Metadata};
use pumice_volume::rows::{RowLayout, Windows};
use pumice_volume::{Refusal, Volume, assemble, token};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The number of times that recovery is begun again because members fail.
const AGAIN: usize = 5;
/// Operations in flight on a node's queue.
const DEPTH: usize = 256;

/// The options with which a volume is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The format of the superblocks that count, if the operator names it: what lies at the places
    /// of others is not looked at.
    pub metadata: Option<Metadata>,
    /// The means that keeps rows whole over a crash.
    pub consistency: Consistency,
    /// Members that the superblocks call active may be missing: they are failed.
    pub degraded: bool,
    /// The place where parity is made.
    pub offload: Offload,
    /// Half of the members, or fewer, are not enough: another host may have the others.
    pub majority: bool,
    /// The members that are not here, as the operator names them, who knows that no other host
    /// runs them: then less than a majority is enough.
    pub without: BTreeSet<Role>,
    /// md's period of clearing bits, after two of which an idle volume is made clean.
    pub tick: Duration,
    /// The number of this machine, for those that find the array open; 0 leaves no mark.
    pub writer: u128,
    /// The time for which requests wait while more members are missing than the volume survives.
    pub hold_timeout: Duration,
    /// Most bytes a second that a rebuild writes to a member; `None`: as fast as it can.
    pub rebuild_rate: Option<u64>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            metadata: None,
            consistency: Consistency::Log,
            degraded: false,
            offload: Offload::On,
            majority: false,
            without: BTreeSet::new(),
            tick: Duration::from_secs(5),
            writer: 0,
            hold_timeout: Duration::from_secs(120),
            rebuild_rate: None,
        }
    }
}

/// A volume that is open. Dropping it stops nothing: see [`stop`](Self::stop).
#[derive(Debug)]
pub struct ServedVolume {
    facts: Facts,
    messages: Sender<Message>,
    /// Bytes that were copied between users' memory and the volume's.
    copied: Arc<AtomicU64>,
    losses: Arc<SharedLosses>,
    thread: JoinHandle<()>,
}

/// Opens a volume: replays what a crash left, and begins. Returns when requests are carried out.
///
/// # Errors
/// If the devices are not one array, or it cannot be written as it is; nothing was written then. If
/// members fail while it is recovered.
pub fn open(drives: &[MemberDrive], options: &OpenOptions) -> Result<ServedVolume, OpenError> {
    let known = Known { array: None, metadata: options.metadata };
    let survey = survey(find_all(drives, known)?)?;
    let (messages, inbox) = channel();
    let (begun, ready) = sync_channel(1);
    let (options, ended) = (options.clone(), messages.clone());
    let copied = Arc::new(AtomicU64::new(0));
    let losses: Arc<SharedLosses> = Arc::default();
    let shared = (Arc::clone(&copied), Arc::clone(&losses));
    let opening = Opening { survey, options, ended, inbox, begun, shared };
    let thread = std::thread::Builder::new()
        .name("volume".to_owned())
        .spawn(move || opening.run())
        .map_err(|error| OpenError::System(error.to_string()))?;
    let gone = || OpenError::System("the volume's thread has ended".to_owned());
    let facts = ready.recv().map_err(|_| gone())??;
    Ok(ServedVolume { facts, messages, copied, losses, thread })
}

/// The number of members that may be away when a volume of so many members is opened, of which
/// `data` are needed. `majority`: as [`OpenOptions::majority`].
#[must_use]
pub fn opens_without(members: u16, data: u16, majority: bool) -> u16 {
    let opens = |away: &u16| {
        let here = members - away;
        here >= data && (!majority || token::is_majority(here, members))
    };
    (0..=members).rev().find(opens).unwrap_or(0)
}

/// The thread of a volume, from the first look at its members to its end.
struct Opening {
    survey: Survey,
    options: OpenOptions,
    ended: Sender<Message>,
    inbox: Receiver<Message>,
    begun: SyncSender<Result<Facts, OpenError>>,
    /// Bytes that were copied, and losses.
    shared: (Arc<AtomicU64>, Arc<SharedLosses>),
}

impl Opening {
    fn run(mut self) {
        let losses = Arc::clone(&self.shared.1);
        let (mut kept, mut attempts) = (Kept { losses, ..Kept::default() }, 0);
        loop {
            let is_served = kept.events.is_some();
            let begun = match attempts > AGAIN {
                true => Err(OpenError::Recovery(format!("{AGAIN} attempts"))),
                false => self.begin(attempts > 0 || is_served, kept.events),
            };
            let mut engine = match begun {
                Ok(engine) => engine,
                Err(error) if is_served => {
                    kept.note(&error);
                    match kept.wait(&self.inbox, self.options.hold_timeout) {
                        Some(back) => {
                            kept.restarted |= back.restarted;
                            (self.survey, attempts) = (back.survey, 0);
                            continue;
                        }
                        // Of those who wait, only who has abandoned it is told.
                        None => return tell(kept.stopping),
                    }
                }
                // If nobody listens, nobody wants the volume.
                Err(error) => return drop(self.begun.send(Err(error))),
            };
            engine.take_over(kept);
            let begun = self.begun.clone();
            match engine.run(move |facts| drop(begun.send(Ok(facts.clone())))) {
                End::Again => {
                    kept = engine.hand_over();
                    drop(engine);
                    attempts += 1;
                    self.survey_again();
                }
                End::Back(back) => {
                    kept = engine.hand_over();
                    kept.restarted |= back.restarted;
                    drop(engine);
                    (self.survey, attempts) = (back.survey, 0);
                }
                End::Stopped | End::Abandoned => {
                    let waiting = engine.waiting_for_the_end();
                    // The queues are closed before anybody hears of it: the devices are free.
                    drop(engine);
                    return tell(waiting);
                }
            }
        }
    }

    /// Looks at the members again; those that do not answer are left out.
    fn survey_again(&mut self) {
        let drives: Vec<MemberDrive> =
            self.survey.members.values().map(|found| found.drive.clone()).collect();
        let known = Known::of(&self.survey.newest);
        let found: Vec<Found> = drives.iter().filter_map(|drive| find_known(drive, known).ok()).collect();
        if let Ok(again) = survey(found) {
            self.survey = again;
        }
    }

    /// Returns whether members are here without which no other host can go on. Who serves the
    /// volume has had them all along: the others have failed on record, or are waited for.
    fn has_majority(&self, is_served: bool) -> Result<(), OpenError> {
        let Survey { geometry, members, .. } = &self.survey;
        let (all, here) = (geometry.raid_disks(), members.len() as u16);
        let missing: BTreeSet<Role> = (0..all).map(Role).filter(|role| !members.contains_key(role)).collect();
        let OpenOptions { majority, without, .. } = &self.options;
        if !without.is_empty() && *without != missing && !is_served {
            return Err(OpenError::NotWithout { named: without.clone(), missing });
        }
        let asks = *majority && !is_served && without.is_empty();
        if asks && !token::holds(geometry, &members.keys().copied().collect()) {
            return Err(OpenError::Minority { here, members: all, missing });
        }
        Ok(())
    }

    /// `again`: members that are missing are failed. `was`: the event count that the superblocks
    /// had when the volume was held.
    fn begin(&self, again: bool, was: Option<u64>) -> Result<Engine<'_>, OpenError> {
        let Survey { newest, geometry, members } = &self.survey;
        if let Some(was) = was.filter(|was| newest.events > *was) {
            return Err(OpenError::Changed { was, events: newest.events });
        }
        let with_log = self.options.consistency == Consistency::Log;
        let looks = members.iter().map(|(role, found)| look(found, *role, with_log));
        let looks = looks.collect::<Result<Vec<_>, _>>()?;
        self.has_majority(was.is_some())?;
        let named = |refusal: Refusal| match refusal.role().and_then(|role| members.get(&role)) {
            Some(found) => OpenError::Member { device: found.drive.name().to_owned(), source: refusal },
            None => OpenError::Refused(refusal),
        };
        let writer = self.options.writer;
        let assembly = assemble(geometry, looks, with_log, writer, random()).map_err(named)?;
        let report = assembly.report.clone();
        let wanted = self.options.degraded || !self.options.without.is_empty();
        let older: Vec<Role> =
            report.older.iter().filter(|role| report.failed.contains(role)).copied().collect();
        if !older.is_empty() && !wanted && !again {
            return Err(OpenError::Older(older));
        }
        if !report.failed.is_empty() && !wanted && !again {
            return Err(OpenError::Missing(report.failed));
        }
        let mut carrier = Carrier::new(DEPTH, self.ended.clone());
        for (role, found) in members {
            carrier
                .attach(*role, found.drive.clone())
                .map_err(|source| OpenError::Device { device: found.drive.name().to_owned(), source })?;
        }
        let block = members.values().map(|found| found.drive.block()).max().unwrap_or(512);
        let mut volume = Volume::new(Box::new(*geometry), assembly, now());
        let facts = Facts {
            uuid: newest.array_uuid,
            name: newest.name.clone(),
            metadata: newest.metadata,
            geometry: *geometry,
            bytes: volume.bytes(),
            block,
            members: geometry.raid_disks(),
            survives: geometry.survives(),
            consistency: self.options.consistency,
            report,
        };
        let windows = Windows::new(geometry);
        let drives = members.iter().map(|(role, found)| (*role, found.drive.clone())).collect();
        let nodes = match self.options.offload {
            Offload::Off => Err("not asked for".to_owned()),
            _ => Nodes::prepare(&drives, windows.bytes()).map_err(|error| error.to_string()),
        };
        if let Ok(nodes) = &nodes {
            volume.use_near(nodes.for_volume());
            volume.prefer(self.options.offload.preference());
        }
        if let Some(rate) = self.options.rebuild_rate {
            volume.pace_rebuilds(Pace::at_once(rate, windows.bytes()));
        }
        let timing = Timing {
            tick: self.options.tick,
            hold_timeout: self.options.hold_timeout,
            rebuild: self.options.rebuild_rate.map(|rate| Pace::new(rate, windows.bytes())),
        };
        let messages = (&self.inbox, self.ended.clone());
        let nodes = (nodes, Epochs::of(members.values().map(|found| &found.drive))?);
        Ok(Engine::new(volume, carrier, messages, facts, nodes, timing, Arc::clone(&self.shared.0)))
    }
}

/// Tells those who wait for the end of a volume.
fn tell(waiting: Vec<SyncSender<()>>) {
    for reply in waiting {
        // Who has gone does not wait.
        let _ = reply.send(());
    }
}

impl ServedVolume {
    /// The facts that do not change.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The volume as a block device.
    #[must_use]
    pub fn device(&self) -> Arc<VolumeDevice> {
        let Facts { name, uuid, bytes, block, geometry, .. } = &self.facts;
        let name = if name.is_empty() { uuid.to_string() } else { name.clone() };
        let shared = (Arc::clone(&self.copied), Arc::clone(&self.losses));
        let sizes = (*bytes, *block, geometry.stripe_bytes());
        Arc::new(VolumeDevice::new(name, sizes, self.messages.clone(), shared))
    }

    /// The control for other threads.
    #[must_use]
    pub fn control(&self) -> Control {
        Control { messages: self.messages.clone(), facts: self.facts.clone() }
    }

    /// The status of the volume.
    ///
    /// # Errors
    /// If it has stopped, or does not answer within 5 s.
    pub fn status(&self) -> Result<Status, ControlError> {
        self.control().status()
    }

    /// Makes everything clean and durable, and ends. Returns whether that is so within `patience`:
    /// a volume that is held cannot be made clean, and is left as it is.
    #[must_use]
    pub fn stop(self, patience: Duration) -> bool {
        let (reply, stopped) = sync_channel(1);
        if self.messages.send(Message::Stop(reply)).is_err() {
            return false;
        }
        let clean = stopped.recv_timeout(patience).is_ok();
        if clean {
            // It has said that all is clean: how it ends changes nothing.
            let _ = self.thread.join();
        }
        clean
    }
}

impl ServedVolume {
    /// Ends as after a crash: nothing is made clean. Waits for what is under way on the drives.
    pub fn abandon(self) {
        let (reply, ended) = sync_channel(1);
        if self.messages.send(Message::Abandon(reply)).is_ok() {
            // No answer means that it has ended.
            let _ = ended.recv();
        }
        // Its panic has been printed.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{CreateSpec, create};
    use pumice_blockdev::{BlockDevice, MemoryDevice};
    use pumice_node::{LocalNode, NodeOptions, Peers};
    use pumice_offload::DriveId;
    use pumice_raid::layout::{Layout, Level};

    /// Questions that wait at any time, and others before each, whose answers nobody waits for. To
    /// answer takes longer than to ask.
    const QUESTIONS: usize = 8;
    const BEFORE: usize = 2000;

    fn made() -> Vec<MemberDrive> {
        let drive = |i: u64| {
            let name = format!("disk{i}");
            let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(&name, 4 << 20));
            let node = LocalNode::new(&name, vec![device], &Peers::new(), NodeOptions::default());
            MemberDrive::new(name, Arc::new(node), DriveId(1)).unwrap()
        };
        let drives: Vec<MemberDrive> = (0..4).map(drive).collect();
        let spec = CreateSpec {
            level: Level::Raid5,
            layout: Some(Layout::LeftSymmetric),
            chunk_bytes: 16384,
            name: "volume".to_owned(),
            component_bytes: None,
            now: 1,
            force: false,
            log: true,
        };
        create(&drives, &spec, |_, _| {}).unwrap();
        drives
    }

    #[test]
    fn nobody_waits_for_ever_for_a_volume_that_waits_for_a_node() {
        let volume = open(&made(), &OpenOptions::default()).unwrap();
        let (messages, inbox) = channel();
        let silent = Control { messages, facts: volume.facts().clone() };
        assert_eq!(silent.status().unwrap_err(), ControlError::Unanswered);
        assert_eq!(silent.fail(Role(1)).unwrap_err(), ControlError::Unanswered);
        // The node answers at last: what was asked for is not done now.
        for message in inbox.try_iter() {
            volume.messages.send(message).unwrap();
        }
        let status = volume.status().unwrap();
        assert_eq!((status.missing, status.recording), (Vec::new(), false));
        assert!(volume.stop(Duration::from_secs(60)));
    }

    #[test]
    fn ticks_come_although_messages_never_cease() {
        let drives = made();
        let tick = Duration::from_millis(10);
        let volume = open(&drives, &OpenOptions { tick, ..OpenOptions::default() }).unwrap();
        volume.device().write_at(0, &[1; 4096]).unwrap();
        let (reply, answers) = sync_channel(QUESTIONS);
        let (nobody, _) = sync_channel(1);
        let ask = || {
            for _ in 0..BEFORE {
                volume.messages.send(Message::Status(nobody.clone())).unwrap();
            }
            volume.messages.send(Message::Status(reply.clone())).unwrap();
        };
        (0..QUESTIONS).for_each(|_| ask());
        // Idle for two ticks, it becomes clean.
        let dirty = (0..100).take_while(|_| {
            ask();
            !answers.recv().unwrap().clean
        });
        assert!(dirty.count() < 100, "no tick comes");
        drop(answers);
        assert!(volume.stop(Duration::from_secs(60)));
    }
}

//! Drives of nodes that were lost, and that answer again: they take their roles back by themselves.
//! `docs/design/volume-operations.md`, *A member that comes back by itself*, has the rules.

use crate::api::{Event, LossCause, Member};
use crate::events::EventLog;
use crate::failure::refused;
use crate::members::Devices;
use crate::name::RemoteName;
use crate::place::RemotePlace;
use crate::watch::Latest;
use pumice_base::units::Role;
use pumice_executor::{Control, ControlError, ReturnTimes};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval of looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The time that a node has to take a connection before its drives are asked.
const KNOCK_TIME: Duration = Duration::from_secs(1);

/// Brings drives back.
pub(crate) struct Returns {
    pub(crate) control: Control,
    /// The devices of the volume: orders that change members wait for an attempt.
    pub(crate) devices: Arc<Mutex<Devices>>,
    pub(crate) latest: Arc<Latest>,
    pub(crate) events: Arc<EventLog>,
}

/// A drive of a node that was lost.
struct Lost {
    role: u16,
    device: String,
    address: SocketAddr,
    since: u64,
}

/// The drive of a member, if it was lost with its node and no other one has its role.
fn lost(member: &Member) -> Option<Lost> {
    let absent = member.absent.as_ref().filter(|absent| absent.cause == LossCause::Unreachable)?;
    if member.state != "missing" {
        return None;
    }
    let name = RemoteName::of(Path::new(&absent.device)).ok()??;
    let RemotePlace { address, nsid: Some(_) } = RemotePlace::of(&name).ok()? else { return None };
    Some(Lost { role: member.role, device: absent.device.clone(), address, since: absent.since })
}

impl Returns {
    /// Looks for drives that answer again, until the volume ends.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub(crate) fn begin(self) -> std::io::Result<()> {
        std::thread::Builder::new().name("returns".to_owned()).spawn(move || self.run())?;
        Ok(())
    }

    fn run(&self) {
        let began = Instant::now();
        let mut times: BTreeMap<u16, ReturnTimes> = BTreeMap::new();
        // Drives that only an order brings back, with the time of their loss.
        let mut for_good: BTreeSet<(u16, u64)> = BTreeSet::new();
        while !self.latest.has_ended() {
            std::thread::sleep(LOOK_EVERY);
            let Some(volume) = self.latest.volume() else { continue };
            for member in &volume.members {
                let times = times.entry(member.role).or_default();
                match member.state.as_str() {
                    "in_sync" => times.is_whole(began.elapsed()),
                    _ => times.is_gone(),
                }
            }
            for lost in volume.members.iter().filter_map(lost) {
                let times = times.entry(lost.role).or_default();
                let waits = began.elapsed() < times.next() || for_good.contains(&(lost.role, lost.since));
                if waits || self.latest.has_ended() {
                    continue;
                }
                match self.attempt(&lost) {
                    Ok(()) => times.returned(began.elapsed()),
                    Err(Refusal::NotYet) => times.failed(began.elapsed()),
                    Err(Refusal::ForGood) => drop(for_good.insert((lost.role, lost.since))),
                }
            }
        }
    }

    /// Tries to bring one drive back.
    fn attempt(&self, lost: &Lost) -> Result<(), Refusal> {
        // A node that is down costs nobody else any time.
        if TcpStream::connect_timeout(&lost.address, KNOCK_TIME).is_err() {
            return Err(Refusal::NotYet);
        }
        let role = Role(lost.role);
        let mut why_not = None;
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = devices.open_for(&PathBuf::from(&lost.device), |drive| {
            self.control.take_back(drive, role).map_err(|error| {
                why_not = Some(error.clone());
                refused(error)
            })
        });
        drop(devices);
        match taken {
            Ok(_) => {
                self.latest.let_in(lost.role);
                self.events.emit(Event::MemberBack { role: lost.role, device: lost.device.clone() });
                Ok(())
            }
            Err(failure) => {
                let why = match &why_not {
                    Some(ControlError::NotBack { why, .. }) => why.clone(),
                    _ => failure.to_string(),
                };
                let for_good = matches!(why_not, Some(ControlError::NotBack { .. }));
                if self.latest.keep_out(lost.role, &why) && for_good {
                    let device = lost.device.clone();
                    self.events.emit(Event::MemberKeptOut { role: lost.role, device, why });
                }
                Err(if for_good { Refusal::ForGood } else { Refusal::NotYet })
            }
        }
    }
}

/// The drive has not its role back.
enum Refusal {
    /// The next attempt may do.
    NotYet,
    /// Only an order brings it back.
    ForGood,
}

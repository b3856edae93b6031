//! Requests to a volume in service, carried out.

use crate::api::{Answer, Code, Request, STOP_TIME, Served, Volume};
use crate::failure::{Failure, refused};
use crate::lines::Reply;
use crate::members::{Devices, is_same};
use crate::scrubs::Scrubs;
use crate::status::document;
use crate::stopping::{Asker, Ended, Stopper};
use pumice_base::units::Role;
use pumice_executor::{Control, ControlError, Status};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Carries out the requests over the socket.
pub(crate) struct Orders {
    pub(crate) control: Control,
    pub(crate) served: Served,
    /// Locked while a request is carried out: one at a time changes the members.
    pub(crate) devices: Mutex<Devices>,
    pub(crate) scrubs: Arc<Scrubs>,
    pub(crate) stop: Stopper,
}

/// Dropped when an answer is sent.
pub(crate) type UntilSent = Option<Sender<()>>;

impl Orders {
    /// The answer to a request; `None` if a scrub answers it.
    pub(crate) fn answer(&self, request: Request, reply: &Reply) -> Option<(Answer, UntilSent)> {
        let done = match request {
            Request::Scrub { order } => {
                let reply = reply.try_clone().map_err(Failure::from);
                match reply.and_then(|reply| self.scrubs.begin(self.control.clone(), *order, reply)) {
                    Ok(()) => return None,
                    Err(failure) => Err(failure),
                }
            }
            Request::Stop => {
                let (sent, told) = mpsc::channel();
                return Some((said(self.stop(told)), Some(sent)));
            }
            request => self.carry_out(request),
        };
        Some((said(done), None))
    }

    fn stop(&self, told: Receiver<()>) -> Result<Volume, Failure> {
        // A volume that waits for a node is stopped all the same.
        let volume = self.volume();
        let (reply, stopped) = mpsc::channel();
        if !self.stop.end(Ended::Asked(Asker::new(reply, told))) {
            return Err(Failure::coded(Code::Stopped, "it is already stopping"));
        }
        match stopped.recv_timeout(STOP_TIME) {
            Ok(true) => {
                let mut volume = volume?;
                (volume.state, volume.served) = ("clean".to_owned(), None);
                Ok(volume)
            }
            _ => Err(Failure::coded(Code::NotClean, "the volume has stopped, and could not be left clean")),
        }
    }

    /// The devices, for a request: such requests wait for one another.
    fn devices(&self) -> MutexGuard<'_, Devices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Result<Status, Failure> {
        self.control.status().map_err(refused)
    }

    fn volume(&self) -> Result<Volume, Failure> {
        Ok(document(&self.status()?, Some(self.served.clone())))
    }

    fn carry_out(&self, request: Request) -> Result<Volume, Failure> {
        // A node that is opened for it could not be held by the volume when it comes back.
        if matches!(request, Request::Add { .. } | Request::Replace { .. }) && self.status()?.held {
            return Err(refused(ControlError::Held));
        }
        let control = &self.control;
        match request {
            Request::Status | Request::Scrub { .. } | Request::Stop => {}
            Request::Fail { member } => {
                let _alone = self.devices();
                control.fail(self.role(&member)?).map_err(refused)?;
            }
            Request::Add { device, force } => {
                let mut devices = self.devices();
                let role = devices.open_for(&device, |drive| control.add(drive, force).map_err(refused))?;
                self.wait_for_join(role)?;
            }
            Request::Replace { member, device, force } => {
                let mut devices = self.devices();
                let role = self.role(&member)?;
                devices.open_for(&device, |drive| control.replace(role, drive, force).map_err(refused))?;
                self.wait_for_join(role)?;
            }
        }
        self.volume()
    }

    fn role(&self, member: &str) -> Result<Role, Failure> {
        if let Ok(number) = member.parse() {
            return Ok(Role(number));
        }
        let status = self.status()?;
        let found = status
            .devices
            .iter()
            .find(|(_, device)| device.as_deref().is_some_and(|device| is_same(device, member)));
        let none = || Failure::coded(Code::NoMember, format!("{member}: no member has that role or device"));
        found.map(|(role, _)| *role).ok_or_else(none)
    }

    fn wait_for_join(&self, role: Role) -> Result<(), Failure> {
        self.wait(|status| {
            status.rebuilding.iter().any(|(other, ..)| *other == role) || !status.missing.contains(&role)
        })
    }

    /// Waits until a condition is recorded in the superblocks.
    fn wait(&self, is: impl Fn(&Status) -> bool) -> Result<(), Failure> {
        for _ in 0..500 {
            let status = self.status()?;
            if is(&status) {
                return Ok(());
            }
            if status.held {
                // Another member failed meanwhile.
                return Err(refused(ControlError::Held));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Failure::coded(Code::UnderWay, "it is still under way; see `pumice volume status`"))
    }
}

fn said(done: Result<Volume, Failure>) -> Answer {
    match done {
        Ok(volume) => Answer::Volume(Box::new(volume)),
        Err(failure) => Answer::Error(failure.fault()),
    }
}

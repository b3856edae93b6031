//! The members of the volume, as the process that serves it names them.

use crate::pairs::Failed;
use crate::pairs::call::CallResult;
use crate::pairs::feature::Feature;
use crate::pairs::world::{SPARE, VOLUME, World, held};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Time in which a process that served must be able to serve again: nodes come back meanwhile.
const TO_RETURN: Duration = Duration::from_secs(30);

impl World {
    /// Status of the volume from the process that serves it; `None` if there is none, or it
    /// refuses.
    pub(crate) fn status(&self) -> Option<Value> {
        let done = self.volume_call(&["status", VOLUME]).ok()?;
        (done.code == Some(0)).then(|| done.json()).filter(Value::is_object)
    }

    /// The state of a member, and its device.
    pub(crate) fn member(&self, role: usize) -> Option<(String, String)> {
        let status = self.status()?;
        let member = &status["members"][role];
        let text = |field: &str| member[field].as_str().unwrap_or_default().to_owned();
        Some((text("state"), text("device")))
    }

    /// Waits until a member is in sync, or the time of the cell is over.
    pub(crate) fn wait_in_sync(&self, role: usize, is_over: impl Fn() -> bool) -> bool {
        while !is_over() {
            match self.member(role) {
                Some((state, _)) if state == "in_sync" => return true,
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        false
    }

    /// Waits until a rebuild has ended.
    pub(crate) fn wait_rebuilt(&self, role: usize, until: Instant) {
        while self.member(role).is_some_and(|(state, _)| state == "rebuilding") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Adds a device in place of a member that is missing; as an operator would, again if it is
    /// refused while the volume is being opened or looks at its nodes.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub(crate) fn add(&self, device: &str, force: bool) -> Result<Option<CallResult>, Failed> {
        let until = Instant::now() + Duration::from_secs(8);
        let mut args = vec!["add", VOLUME, device];
        if force {
            args.push("--force");
        }
        loop {
            if !self.is_served() {
                return Ok(None);
            }
            let done = self.volume_call(&args)?;
            if done.code == Some(0) || Instant::now() > until {
                return Ok(Some(done));
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Brings the member of a node back, if the volume has lost it.
    ///
    /// # Errors
    /// If a command cannot be started.
    pub(crate) fn bring_back(&self, role: usize) -> Result<(), Failed> {
        let Some((state, _)) = self.member(role) else { return Ok(()) };
        if state != "missing" {
            return Ok(());
        }
        match self.add(&self.name(role, 1), false)? {
            Some(done) if done.code != Some(0) => {
                self.note(format!("member {role} was not taken back: {}", done.said));
            }
            _ => {}
        }
        Ok(())
    }

    /// The sets of devices that may be the members now, the most likely first.
    pub(crate) fn candidates(&self) -> Vec<Vec<String>> {
        let mut devices: Vec<Vec<Option<String>>> =
            self.members().into_iter().map(|name| vec![Some(name)]).collect();
        let may_lose = |role: usize| self.pair.any(|f| f.loses_members() && self.pair.hit(f) == role);
        for (role, of_role) in devices.iter_mut().enumerate() {
            let spare = [(Feature::Rebuild, 3, 1), (Feature::Replace, 4, 2)];
            for (feature, at, drive) in spare {
                if self.pair.has(feature) && role == at {
                    of_role.push(Some(self.name(SPARE, drive)));
                }
            }
            if may_lose(role) {
                of_role.push(None);
            }
        }
        let mut out: Vec<Vec<String>> = vec![Vec::new()];
        for of_role in devices {
            let with = |device: &Option<String>| {
                let extended = out.iter().map(|set| {
                    let mut set = set.clone();
                    set.extend(device.clone());
                    set
                });
                extended.collect::<Vec<_>>()
            };
            out = of_role.iter().flat_map(with).collect();
        }
        out.sort_by_key(|set| std::cmp::Reverse(set.len()));
        out
    }

    /// Serves the volume over the devices that are its members now, as an operator who starts the
    /// service again until the nodes are there.
    ///
    /// # Errors
    /// If no set of devices is taken.
    pub(crate) fn serve_again(&self) -> Result<(), Failed> {
        let _opening = held(&self.opening);
        if self.is_served() {
            return Ok(());
        }
        let until = Instant::now() + TO_RETURN;
        loop {
            let mut last = Failed(String::new());
            for devices in self.candidates() {
                match self.serve(&devices) {
                    Ok(()) => return Ok(()),
                    Err(why) if last.0.is_empty() => last = why,
                    Err(_) => {}
                }
            }
            if Instant::now() > until {
                return Err(last);
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

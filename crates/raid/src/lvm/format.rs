//! LVM as an array format. The rules are in `docs/design/arrays.md`.

mod array;
mod describe;

use crate::format::{ArrayFormat, Asked, Found, FoundArray, Placed, Seen, Surveyed, Unfit, choose};
use crate::{ReadAt, Uuid};
use sha2::{Digest, Sha256};

use crate::lvm::id::Id;
use crate::lvm::label::{self, Header, Label};
use crate::lvm::survey::{Assembled, Candidate, Device, Survey, survey};

/// The format of LVM's RAID volumes. What its probe finds is the [`Header`] of a physical volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lvm;

/// The prefix of what is hashed for a UUID.
const DOMAIN: &str = "pumice lvm";

/// The UUID by which state files know a volume, or an image: the first 16 bytes of SHA-256 over the
/// ids of its group and of itself, as the text writes them.
#[must_use]
pub fn uuid_of(group: Id, volume: Id) -> Uuid {
    let hash = Sha256::digest(format!("{DOMAIN} {group} {volume}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Uuid(bytes)
}

/// A RAID volume with its group.
struct Of<'s> {
    group: &'s Assembled,
    candidate: &'s Candidate,
}

impl Of<'_> {
    /// As LVM's tools print it.
    fn name(&self) -> String {
        format!("{}/{}", self.group.group.identity.name, self.candidate.name)
    }

    fn uuid(&self) -> Uuid {
        uuid_of(self.group.group.identity.id, self.candidate.id)
    }
}

/// The RAID volumes of all groups that are read.
fn volumes(found: &Survey) -> Vec<Of<'_>> {
    let groups = found.groups.iter().filter_map(|group| group.state.as_ref().ok());
    groups.flat_map(|group| group.volumes.iter().map(move |candidate| Of { group, candidate })).collect()
}

fn look(devices: &[Seen<'_>]) -> Survey {
    let named: Vec<Device<'_>> =
        devices.iter().map(|seen| Device { name: seen.name, bytes: seen.bytes }).collect();
    survey(&named)
}

/// The problems of devices, and of groups that are not read.
fn problems(found: &Survey) -> Vec<String> {
    let of_device = found
        .devices
        .iter()
        .flat_map(|device| device.problems.iter().map(move |problem| format!("{}: {problem}", device.name)));
    let of_group = found.groups.iter().filter_map(|group| {
        let problem = group.state.as_ref().err()?;
        Some(format!("LVM group {}: {problem}", group.identity.name))
    });
    of_device.chain(of_group).collect()
}

/// Devices with a physical volume of which nothing is checked, and why.
fn without_arrays(found: &Survey) -> Vec<String> {
    let mut out = Vec::new();
    for device in &found.devices {
        let Some(header) = &device.header else { continue };
        let group = found.groups.iter().find_map(|group| {
            let assembled = group.state.as_ref().ok()?;
            assembled.group.physical.iter().any(|pv| pv.id == header.id).then_some(assembled)
        });
        let of_broken = device.texts.iter().any(|text| {
            found.groups.iter().any(|group| group.identity.id == text.id && group.state.is_err())
        });
        match group {
            Some(group) if group.volumes.is_empty() => out.push(format!(
                "{}: LVM physical volume of group {}, which has no RAID volume",
                device.name, group.group.identity.name
            )),
            Some(_) => {}
            None if of_broken => {}
            None => out.push(format!(
                "{}: LVM physical volume {}, which no group on the named devices uses",
                device.name, header.id
            )),
        }
    }
    out
}

impl ArrayFormat for Lvm {
    fn name(&self) -> &'static str {
        "LVM"
    }

    fn structure(&self) -> &'static str {
        "LVM label"
    }

    fn probe(&self, devices: &[&dyn ReadAt], _asked: Asked) -> Vec<Result<Option<Found>, String>> {
        let one = |device: &&dyn ReadAt| match label::read(*device) {
            Ok(Label::None) => Ok(None),
            Ok(Label::Found(Ok(header))) => Ok(Some(Found::new::<Header>(header))),
            Ok(Label::Found(Err(error)) | Label::Damaged(error)) => Err(error.to_string()),
            Err(error) => Err(format!("LVM label cannot be read: {error}")),
        };
        devices.iter().map(one).collect()
    }

    fn survey(&self, devices: &[Seen<'_>]) -> Surveyed {
        let found = look(devices);
        let arrays = volumes(&found).into_iter().filter_map(|of| {
            let report = describe::report(&of, devices)?;
            Some(FoundArray { devices: describe::devices_of(&of), report })
        });
        let arrays = arrays.collect();
        let mut problems = problems(&found);
        problems.extend(without_arrays(&found));
        Surveyed { arrays, problems }
    }

    fn assemble(&self, devices: &[Seen<'_>], which: Option<&str>) -> Result<Placed, Unfit> {
        let found = look(devices);
        let volumes = volumes(&found);
        let problems = problems(&found);
        if volumes.is_empty() && !problems.is_empty() {
            return Err(Unfit::new(problems.join("; ")));
        }
        let names: Vec<_> = volumes.iter().map(|of| (of.name(), of.uuid())).collect();
        // As a path of the device that it appears as.
        let which = which.map(|which| which.strip_prefix("/dev/").unwrap_or(which));
        let of = &volumes[choose(&names, which)?];
        let mut placed = array::placed(of, devices)?;
        placed.array.note(problems);
        Ok(placed)
    }
}

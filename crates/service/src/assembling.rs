//! Assembles an array from devices that were probed, whatever their format.

use crate::access::Access;
use crate::failure::Failure;
use crate::mapped::{MappedDevice, Run};
use crate::probed::{Place, Probed};
use pumice_host::again::ReadAgain;
use pumice_raid::assembly::AgainError;
use pumice_raid::format::{ArrayFormat, Asked, FoundArray, MemberPlace, Placed, Seen, Unfit};
use pumice_raid::{Array, ProbeError, ReadAt};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// A member's name and place.
#[derive(Clone)]
pub struct Site {
    /// The name of its device.
    pub path: String,
    /// The place.
    pub place: Place,
}

/// An array with the places of its members.
pub struct Assembled {
    /// The array.
    pub array: Array,
    /// By role; `None` if the member is absent.
    pub sites: Vec<Option<Site>>,
    /// The reader of its structures, if it is not md's.
    pub again: Option<Arc<dyn ReadAgain>>,
    /// The reason why nothing of it may be repaired, if there is one.
    pub fixed: Option<String>,
}

impl Assembled {
    /// Checks that it may be opened in this way: for writing, only if its format allows a repair.
    ///
    /// # Errors
    /// If it may not.
    pub fn may_be(&self, access: Access) -> Result<(), Failure> {
        match &self.fixed {
            Some(why) if access.write => Err(Failure::new(why.clone())),
            _ => Ok(()),
        }
    }
}

/// The reason why devices make no array.
#[derive(Debug)]
pub enum Trouble {
    /// Devices of other kinds.
    Devices(Failure),
    /// They make no array that can be checked.
    Unfit(Unfit),
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Devices(failure) => failure,
            Trouble::Unfit(unfit) => Self::new(unfit.why),
        }
    }
}

/// A device as formats read it. Notes the first read that failed.
struct Reader<'p> {
    place: &'p Place,
    size: u64,
    failed: Mutex<Option<(u64, String)>>,
}

impl<'p> Reader<'p> {
    fn new(place: &'p Place) -> Self {
        Self { place, size: place.size_bytes(), failed: Mutex::new(None) }
    }

    /// The first read that failed: its offset, and the reason.
    fn failed(&self) -> Option<(u64, String)> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ReadAt for Reader<'_> {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let read = self.place.read(offset, buf);
        if let Err(error) = &read {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| (offset, error.to_string()));
        }
        read
    }
}

/// The formats of devices, each with the devices that have it.
fn by_format(probed: &[Probed]) -> Vec<(&'static dyn ArrayFormat, Vec<&Probed>)> {
    let mut out: Vec<(&'static dyn ArrayFormat, Vec<&Probed>)> = Vec::new();
    for device in probed {
        let Some(recognised) = &device.found else { continue };
        match out.iter_mut().find(|(format, _)| format.name() == recognised.format.name()) {
            Some((_, devices)) => devices.push(device),
            None => out.push((recognised.format, vec![device])),
        }
    }
    out
}

/// Calls `ask` with devices as a format sees them.
fn seen_by<T>(devices: &[&Probed], readers: &[Reader<'_>], ask: impl FnOnce(&[Seen<'_>]) -> T) -> T {
    let seen = devices.iter().zip(readers).filter_map(|(device, reader)| {
        let found = &device.found.as_ref()?.found;
        Some(Seen { name: &device.path, bytes: reader, found })
    });
    ask(&seen.collect::<Vec<_>>())
}

fn readers<'p>(devices: &[&'p Probed]) -> Vec<Reader<'p>> {
    devices.iter().map(|device| Reader::new(&device.place)).collect()
}

/// The arrays on devices, format by format, and problems that belong to none. The devices of an
/// array are indices into `probed`.
#[must_use]
pub fn survey(probed: &[Probed]) -> (Vec<FoundArray>, Vec<String>) {
    let (mut arrays, mut problems) = (Vec::new(), Vec::new());
    for (format, devices) in by_format(probed) {
        let found = seen_by(&devices, &readers(&devices), |seen| format.survey(seen));
        let index = |of: &usize| probed.iter().position(|device| std::ptr::eq(device, devices[*of]));
        arrays.extend(
            found.arrays.into_iter().map(|array| FoundArray {
                devices: array.devices.iter().filter_map(index).collect(),
                ..array
            }),
        );
        problems.extend(found.problems);
    }
    (arrays, problems)
}

/// The failure for a device on which no format found anything.
fn nothing_on(device: &Probed, formats: &[(&'static dyn ArrayFormat, Vec<&Probed>)]) -> Failure {
    let structure = formats.first().map_or("md superblock", |(format, _)| format.structure());
    // That of version 0.90 or 1.0 is at the end, and missing where the end is.
    let advice = match formats.first() {
        Some((format, _)) if format.name() == "md" => {
            "; leave it out, with --degraded if it is a member whose end was cut off"
        }
        Some(_) => "; leave it out",
        None => "",
    };
    Failure::new(format!("{}: no {structure}{}{advice}", device.path, device.holds))
}

/// Assembles the array of which all devices are members, or, of several, the one that `which`
/// names.
///
/// # Errors
/// If a device is of no array, or they make none that can be checked.
pub fn assemble_probed(probed: &[Probed], which: Option<&str>) -> Result<Assembled, Trouble> {
    let formats = by_format(probed);
    if let Some(device) = probed.iter().find(|device| device.found.is_none()) {
        return Err(Trouble::Devices(nothing_on(device, &formats)));
    }
    let mut found = Vec::new();
    for (format, devices) in &formats {
        let readers = readers(devices);
        let placed = seen_by(devices, &readers, |seen| format.assemble(seen, which));
        found.push(placed.map(|placed| assembled(*format, devices, &readers, placed)));
    }
    match found.len() {
        0 => Err(Trouble::Devices(Failure::new("no device was given"))),
        1 => found.remove(0).map_err(Trouble::Unfit),
        _ if which.is_none() => {
            let of = |(format, devices): &(&dyn ArrayFormat, Vec<&Probed>)| {
                format!("{} of {}", devices[0].path, format.name())
            };
            let list: Vec<String> = formats.iter().map(of).collect();
            let why = format!("the devices are of different formats: {}: name one array", list.join(", "));
            Err(Trouble::Devices(Failure::new(why)))
        }
        _ => {
            let (mut good, bad): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
            match (good.len(), bad.into_iter().find_map(Result::err)) {
                (1, _) => good.remove(0).map_err(Trouble::Unfit),
                (0, Some(unfit)) => Err(Trouble::Unfit(unfit)),
                _ => Err(Trouble::Unfit(Unfit::new("arrays of several formats have this name"))),
            }
        }
    }
}

fn assembled(
    format: &'static dyn ArrayFormat,
    devices: &[&Probed],
    readers: &[Reader<'_>],
    placed: Placed,
) -> Assembled {
    let site = |(role, place): (usize, &Option<MemberPlace>)| {
        let name = placed.array.members().get(role)?.as_ref()?.device.clone();
        let place = match place.as_ref()? {
            MemberPlace::Device(device) => devices[*device].place.clone(),
            MemberPlace::Pieces(pieces) => {
                let run = |piece: &pumice_raid::format::Piece| Run {
                    place: devices[piece.device].place.clone(),
                    start: piece.start,
                    bytes: piece.bytes,
                };
                Place::Here(Arc::new(MappedDevice::new(&name, pieces.iter().map(run).collect())))
            }
        };
        Some(Site { path: name, place })
    };
    let sites = placed.places.iter().enumerate().map(site).collect();
    let again = placed.array.metadata().is_none().then(|| {
        let device = |(device, reader): (&&Probed, &Reader<'_>)| Watched {
            name: device.path.clone(),
            place: device.place.clone(),
            was_bad: reader.failed().is_some(),
        };
        let devices = devices.iter().zip(readers).map(device).collect();
        let which = placed.array.uuid().to_string();
        Arc::new(Again { format, devices, which, places: placed.places.clone() }) as Arc<dyn ReadAgain>
    });
    Assembled { array: placed.array, sites, again, fixed: placed.fixed }
}

/// A device that is read again.
struct Watched {
    name: String,
    place: Place,
    /// A read of it failed when the array was assembled: it is absent.
    was_bad: bool,
}

/// Reads an array again by its format.
struct Again {
    format: &'static dyn ArrayFormat,
    devices: Vec<Watched>,
    which: String,
    places: Vec<Option<MemberPlace>>,
}

impl ReadAgain for Again {
    fn read_again(&self) -> Result<Array, AgainError> {
        let readers: Vec<Reader<'_>> = self.devices.iter().map(|device| Reader::new(&device.place)).collect();
        let bytes: Vec<&dyn ReadAt> = readers.iter().map(|reader| reader as &dyn ReadAt).collect();
        let probed = self.format.probe(&bytes, Asked::default());
        let mut founds = Vec::with_capacity(probed.len());
        for (device, found) in self.devices.iter().zip(probed) {
            let gone = |why: String| Unfit { why: format!("{}: {why}", device.name), may_pass: true };
            let found = found.map_err(gone);
            let missing = || gone(format!("its {} is gone", self.format.structure()));
            founds.push(found.and_then(|found| found.ok_or_else(missing)));
        }
        let result = founds.into_iter().collect::<Result<Vec<_>, Unfit>>().and_then(|founds| {
            let seen: Vec<Seen<'_>> = (self.devices.iter().zip(&readers).zip(&founds))
                .map(|((device, reader), found)| Seen { name: &device.name, bytes: reader, found })
                .collect();
            self.format.assemble(&seen, Some(&self.which))
        });
        // A read that failed explains whatever else is missing.
        for (device, reader) in self.devices.iter().zip(&readers).filter(|(device, _)| !device.was_bad) {
            if let Some((offset, why)) = reader.failed() {
                let source =
                    ProbeError::Read { what: self.format.structure(), offset, source: io::Error::other(why) };
                return Err(AgainError::Member { device: device.name.clone(), source });
            }
        }
        let placed = result?;
        let moved = |(then, now): (&Option<MemberPlace>, &Option<MemberPlace>)| matches!((then, now), (Some(then), Some(now)) if then != now);
        if self.places.iter().zip(&placed.places).any(moved) {
            return Err(Unfit::new("a member lies at another place than before").into());
        }
        Ok(placed.array)
    }
}

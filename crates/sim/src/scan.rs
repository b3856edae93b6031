//! The first reading of a trace: what is in it.

use crate::drive::Drive;
use crate::scrub::StudyError;
use crate::trace::{Devices, Format, Request, TraceError, TraceReader};
use pumice_pacer::Nanos;
use std::path::Path;

/// Requests a second above which a device cannot be one disk: a disk serves fewer than 200 random ones.
const MORE_THAN_A_DISK: f64 = 140.0;

/// What is known of a device after the first reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Reads and writes.
    pub requests: u64,
    /// The end of the last byte that is addressed.
    pub capacity: u64,
    /// The last arrival.
    pub last: Nanos,
    /// Requests with a response time.
    pub recorded: u64,
}

/// What is in a trace.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Its format.
    pub format: Format,
    /// Its devices.
    pub devices: Devices,
    /// What is known of each.
    pub seen: Vec<Seen>,
}

impl Scan {
    /// Reads a whole trace.
    ///
    /// # Errors
    /// Where it is damaged.
    pub fn of(path: &Path, format: Option<Format>) -> Result<Self, TraceError> {
        let mut reader = TraceReader::open(path, format)?;
        let mut seen: Vec<Seen> = Vec::new();
        while let Some(request) = reader.next_request()? {
            let index = request.device as usize;
            if index >= seen.len() {
                seen.resize(index + 1, Seen::default());
            }
            let device = &mut seen[index];
            device.requests += 1;
            device.capacity = device.capacity.max(request.offset.saturating_add(request.bytes));
            device.last = request.at;
            device.recorded += u64::from(request.response.is_some());
        }
        Ok(Self { format: reader.format(), devices: reader.devices().clone(), seen })
    }

    /// The device with the most requests (the first of them).
    #[must_use]
    pub fn busiest(&self) -> u32 {
        let most = self.seen.iter().map(|s| s.requests).max().unwrap_or(0);
        self.seen.iter().position(|s| s.requests == most).unwrap_or(0) as u32
    }

    /// The device with a name, or without one the busiest.
    ///
    /// # Errors
    /// Where there is no such device.
    pub fn choose(&self, path: &Path, name: Option<&str>) -> Result<u32, StudyError> {
        let Some(name) = name else { return Ok(self.busiest()) };
        self.devices.find(name).ok_or_else(|| StudyError::Device {
            path: path.display().to_string(),
            device: name.to_owned(),
            known: self.listed().into_iter().map(|d| d.0).collect::<Vec<_>>().join(", "),
        })
    }

    /// The devices with their numbers of requests.
    #[must_use]
    pub fn listed(&self) -> Vec<(String, u64)> {
        self.seen.iter().enumerate().map(|(i, s)| (self.devices.name(i as u32), s.requests)).collect()
    }

    /// A model that can have served a device's load.
    #[must_use]
    pub fn fitting_drive(&self, device: u32) -> Drive {
        let seen = self.seen[device as usize];
        let rate = seen.requests as f64 / (seen.last.max(1) as f64 / 1e9);
        if seen.recorded == 0 && rate > MORE_THAN_A_DISK { Drive::Nvme } else { Drive::Ultrastar }
    }
}

/// Reads the requests of one device.
///
/// # Errors
/// Where the trace is damaged.
pub fn each_request(
    path: &Path,
    format: Option<Format>,
    device: u32,
    mut see: impl FnMut(&Request),
) -> Result<(), TraceError> {
    let mut reader = TraceReader::open(path, format)?;
    while let Some(request) = reader.next_request()? {
        if request.device == device {
            see(&request);
        }
    }
    Ok(())
}

//! The first reading of a trace: what is in it.

use crate::drive::Drive;
use crate::error::StudyError;
use crate::trace::{Devices, Format, Kept, Request, TraceError, TraceReader, read_csv};
use pumice_pacer::Nanos;
use std::path::{Path, PathBuf};

/// Requests a second above which a device cannot be one disk: a disk serves fewer than 200 random
/// ones.
const MORE_THAN_A_DISK: f64 = 140.0;

/// Facts about a device from the first reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceFacts {
    /// Reads and writes.
    pub requests: u64,
    /// The end of the last byte that is addressed.
    pub capacity: u64,
    /// The last arrival.
    pub last: Nanos,
    /// Requests with a response time.
    pub recorded: u64,
}

/// Content of a trace.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Its format.
    pub format: Format,
    /// Its devices.
    pub devices: Devices,
    /// Facts about each device.
    pub seen: Vec<DeviceFacts>,
    path: PathBuf,
    kept: Kept,
}

#[derive(Default)]
struct Contents {
    seen: Vec<DeviceFacts>,
    kept: Kept,
}

impl Contents {
    fn add(&mut self, request: &Request) {
        self.kept.push(request);
        let index = request.device as usize;
        if index >= self.seen.len() {
            self.seen.resize(index + 1, DeviceFacts::default());
        }
        let device = &mut self.seen[index];
        device.requests += 1;
        device.capacity = device.capacity.max(request.offset.saturating_add(request.bytes));
        device.last = request.at;
        device.recorded += u64::from(request.response.is_some());
    }
}

impl Scan {
    /// Reads a whole trace.
    ///
    /// # Errors
    /// Where it is damaged.
    pub fn of(path: &Path, format: Option<Format>) -> Result<Self, TraceError> {
        let mut contents = Contents::default();
        if let Some(devices) = read_csv(path, format, |request| contents.add(request)) {
            let Contents { seen, kept } = contents;
            return Ok(Self { format: Format::Csv, devices, seen, path: path.to_owned(), kept });
        }
        contents = Contents::default();
        let mut reader = TraceReader::open(path, format)?;
        while let Some(request) = reader.next_request()? {
            contents.add(&request);
        }
        let Contents { seen, kept } = contents;
        let (format, devices) = (reader.format(), reader.devices().clone());
        Ok(Self { format, devices, seen, path: path.to_owned(), kept })
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
    pub fn choose(&self, name: Option<&str>) -> Result<u32, StudyError> {
        let Some(name) = name else { return Ok(self.busiest()) };
        self.devices.find(name).ok_or_else(|| StudyError::Device {
            path: self.path.display().to_string(),
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

    /// Gives the requests of one device again: from memory, if they fit there, or else from the
    /// file.
    ///
    /// # Errors
    /// Where the trace has been damaged since.
    pub fn each_request(&self, device: u32, mut see: impl FnMut(&Request)) -> Result<(), TraceError> {
        let mut see = |request: &Request| {
            if request.device == device {
                see(request);
            }
        };
        if self.kept.whole() {
            self.kept.each(see);
            return Ok(());
        }
        let mut reader = TraceReader::open(&self.path, Some(self.format))?;
        while let Some(request) = reader.next_request()? {
            see(&request);
        }
        Ok(())
    }
}

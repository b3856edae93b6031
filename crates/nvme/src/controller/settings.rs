//! Settings of a host: the values of features, until the controller is reset.

use crate::spec::Status;
use crate::spec::feature::{self, HOST_BEHAVIOR_FIELDS, HOST_BEHAVIOR_LEN, Timestamp};
use crate::spec::identify::WCTEMP;

/// The temperature that is reported: 25 degrees Celsius, in kelvin.
pub(crate) const TEMPERATURE: u16 = 298;

/// Arbitration burst without a limit: the default.
const NO_LIMIT: u32 = 0b111;
/// Event: health, of the temperature. It is a bit of the critical warnings, too.
pub(crate) const TEMPERATURE_BIT: u32 = 1 << 1;

/// The values of features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) arbitration: u32,
    pub(crate) atomicity: u32,
    /// Queues granted; `None` if the host has not asked.
    pub(crate) queues: Option<u32>,
    /// Events that are reported (feature 0B).
    pub(crate) events: u32,
    /// Temperature thresholds: reaching the first from below, or the second from above, is worth a
    /// warning.
    over: u16,
    under: u16,
    /// The time that was set, and the clock then, in nanoseconds.
    time: (Timestamp, u64),
    behavior: [u8; HOST_BEHAVIOR_FIELDS],
}

impl Settings {
    /// The defaults, in force from `now` on.
    pub(crate) fn new(now: u64) -> Self {
        Self {
            arbitration: NO_LIMIT,
            atomicity: 0,
            queues: None,
            events: 0,
            over: WCTEMP,
            under: 0,
            time: (Timestamp::default(), now),
            behavior: [0; HOST_BEHAVIOR_FIELDS],
        }
    }

    /// A threshold (dword 11: bits 0-15 kelvin, 16-19 the sensor, 20-21 the kind): of the one
    /// temperature there is, or of all.
    fn threshold(&mut self, value: u32) -> Result<&mut u16, Status> {
        match (value >> 16 & 0xF, value >> 20 & 0b11) {
            (0 | 0xF, 0) => Ok(&mut self.over),
            (0 | 0xF, 1) => Ok(&mut self.under),
            _ => Err(Status::INVALID_FIELD.dnr()),
        }
    }

    pub(crate) fn set_threshold(&mut self, value: u32) -> Result<(), Status> {
        *self.threshold(value)? = value as u16;
        Ok(())
    }

    /// The threshold that dword 11 names.
    pub(crate) fn get_threshold(&mut self, value: u32) -> Result<u32, Status> {
        // All sensors at once have no one threshold.
        if value >> 16 & 0xF != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        self.threshold(value).map(|threshold| u32::from(*threshold))
    }

    /// Critical warnings of the health page: the temperature is at a threshold or past it.
    pub(crate) fn warnings(&self) -> u8 {
        let past = TEMPERATURE >= self.over || TEMPERATURE <= self.under;
        if past { TEMPERATURE_BIT as u8 } else { 0 }
    }

    pub(crate) fn set_time(&mut self, bytes: &[u8], now: u64) {
        let ms = Timestamp::decode(bytes).ms;
        self.time = (Timestamp { ms, from_host: true, stopped: false }, now);
    }

    pub(crate) fn time(&self, now: u64) -> Timestamp {
        let (set, then) = self.time;
        Timestamp { ms: set.ms.wrapping_add(now.saturating_sub(then) / 1_000_000), ..set }
    }

    /// Each field is 0 or 1; what else there is, is reserved.
    pub(crate) fn set_behavior(&mut self, bytes: &[u8]) -> Result<(), Status> {
        let (fields, reserved) = bytes.split_at(HOST_BEHAVIOR_FIELDS);
        if fields.iter().any(|field| *field > 1) || reserved.iter().any(|byte| *byte != 0) {
            return Err(Status::INVALID_FIELD.dnr());
        }
        self.behavior.copy_from_slice(fields);
        Ok(())
    }

    /// The data of a feature that has some here.
    pub(crate) fn data(&self, feature: u8, now: u64) -> Option<Vec<u8>> {
        match feature {
            feature::TIMESTAMP => Some(self.time(now).encode().to_vec()),
            feature::HOST_BEHAVIOR => {
                let mut data = vec![0; HOST_BEHAVIOR_LEN];
                data[..HOST_BEHAVIOR_FIELDS].copy_from_slice(&self.behavior);
                Some(data)
            }
            _ => None,
        }
    }
}

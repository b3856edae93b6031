//! Set Features and Get Features.

use super::admin::{Answer, Scope};
use super::association::Controller;
use super::connection::Connection;
use super::fabrics::keep_alive_ns;
use super::settings::{Settings, TEMPERATURE_BIT};
use super::subsystem::Access;
use crate::spec::feature::{self, CHANGEABLE, select};
use crate::spec::identify::{OAES, OAES_DISCOVERY};
use crate::spec::log::lid;
use crate::spec::{Sqe, Status};

/// Dword 10 of Set Features: the value is to outlast resets.
const SAVE: u32 = 1 << 31;
/// Events of the health page: the five critical warnings.
const HEALTH_EVENTS: u32 = 0x1F;
/// Dword 11 of feature 81: identifiers have 128 bits.
const EXTENDED_HOST_ID: u32 = 1;

/// Index of a combination of command sets (dword 11).
const COMBINATION: u32 = 0x1FF;
/// Numbers of queues that nobody may ask for.
const RESERVED_QUEUES: u32 = 0xFFFF;

impl Connection {
    pub(super) fn set_features<A: Access>(&mut self, sqe: &Sqe, data: &[u8], access: &A) -> Answer {
        match self.set_feature(sqe, data, access) {
            Ok(value) => Answer::Number(value),
            Err(status) => Answer::Failed(status.dnr()),
        }
    }

    fn set_feature<A: Access>(&mut self, sqe: &Sqe, data: &[u8], access: &A) -> Result<u32, Status> {
        let (id, value, now) = (sqe.0[40], sqe.dword(11), self.now);
        capabilities(id, self.is_discovery()).ok_or(Status::INVALID_FIELD)?;
        if let Scope::Namespace = self.scope(sqe)? {
            return Err(Status::NOT_OF_NAMESPACE);
        }
        if sqe.dword(10) & SAVE != 0 {
            return Err(Status::NOT_SAVEABLE);
        }
        if data.len() != feature::data_len(id) as usize {
            return Err(Status::SGL_LENGTH);
        }
        let only = |good: bool| if good { Ok(0) } else { Err(Status::NOT_CHANGEABLE) };
        match id {
            // There is one power state, no limit on the time of error recovery; the write cache is
            // the backend's own affair.
            feature::POWER => only(value & 0x1F == 0),
            feature::ERROR_RECOVERY => only(value == 0),
            feature::COMMAND_SETS if value & COMBINATION == 0 => Ok(0),
            feature::COMMAND_SETS => Err(Status::COMMAND_SETS_REJECTED),
            feature::WRITE_CACHE => only(value & 1 == 1),
            feature::KEEP_ALIVE => {
                if let Some(queue) = &mut self.queue {
                    queue.kato_ns = keep_alive_ns(value);
                    queue.last_keep_alive = now;
                }
                self.on_controller(access, |controller| {
                    controller.kato_ms = value;
                    Ok(0)
                })
            }
            feature::QUEUES => {
                if value & 0xFFFF == RESERVED_QUEUES || value >> 16 == RESERVED_QUEUES {
                    return Err(Status::INVALID_FIELD);
                }
                let granted = self.queues_granted(value);
                self.on_controller(access, |controller| {
                    if !controller.queues.is_empty() {
                        return Err(Status::SEQUENCE);
                    }
                    controller.settings.queues = Some(granted);
                    Ok(granted)
                })
            }
            feature::HOST_ID => self.on_controller(access, |controller| {
                // Connect has given it: it may be said again, not changed.
                if value & EXTENDED_HOST_ID == 0 {
                    return Err(Status::INVALID_FIELD);
                }
                if data == controller.hostid { Ok(0) } else { Err(Status::SEQUENCE) }
            }),
            _ => self.on_controller(access, |controller| {
                change(controller, id, value, data, now)?;
                Ok(0)
            }),
        }
    }

    pub(super) fn get_features<A: Access>(&self, sqe: &Sqe, access: &A) -> Answer {
        let (id, value, now) = (sqe.0[40], sqe.dword(11), self.now);
        let failed = |status: Status| Answer::Failed(status.dnr());
        let Some(capabilities) = capabilities(id, self.is_discovery()) else {
            return failed(Status::INVALID_FIELD);
        };
        // A namespace that exists will do: nvme-cli names the one whose device it was given,
        // whatever the feature is of.
        if let Err(status) = self.scope(sqe) {
            return failed(status);
        }
        let current = match sqe.0[41] & 0b111 {
            select::CAPABILITIES => return Answer::Number(capabilities),
            select::CURRENT => true,
            select::DEFAULT | select::SAVED => false,
            _ => return failed(Status::INVALID_FIELD),
        };
        if id == feature::HOST_ID && value & EXTENDED_HOST_ID == 0 {
            return failed(Status::INVALID_FIELD);
        }
        let most = self.queues_granted(u32::MAX);
        let answer = self.on_controller(access, |controller| {
            let mut settings = if current { controller.settings.clone() } else { Settings::new(now) };
            if let Some(data) = settings.data(id, now) {
                return Ok(Answer::Data(data));
            }
            Ok(Answer::Number(match id {
                feature::HOST_ID => return Ok(Answer::Data(controller.hostid.to_vec())),
                feature::KEEP_ALIVE => controller.kato_ms,
                feature::ASYNC_EVENTS => settings.events,
                feature::ARBITRATION => settings.arbitration,
                feature::ATOMICITY => settings.atomicity,
                feature::QUEUES => settings.queues.unwrap_or(most),
                feature::TEMPERATURE => settings.get_threshold(value)?,
                feature::WRITE_CACHE => 1,
                _ => 0,
            }))
        });
        answer.unwrap_or_else(failed)
    }

    /// Runs `f` on the connection's controller; where there is none any more, the association is at
    /// its end.
    fn on_controller<A: Access, R>(
        &self,
        access: &A,
        f: impl FnOnce(&mut Controller) -> Result<R, Status>,
    ) -> Result<R, Status> {
        self.with_controller(access, f).unwrap_or(Err(Status::SEQUENCE))
    }

    /// Queues that are granted, submission in bits 0-15 and completion in 16-31, each less one.
    fn queues_granted(&self, asked: u32) -> u32 {
        let most = u32::from(self.limits.queues) - 1;
        (asked & 0xFFFF).min(most) | (asked >> 16).min(most) << 16
    }
}

/// Capabilities of a feature; `None` if it is not known here. A discovery controller knows two.
fn capabilities(id: u8, discovery: bool) -> Option<u32> {
    match id {
        feature::KEEP_ALIVE | feature::ASYNC_EVENTS => Some(CHANGEABLE),
        _ if discovery => None,
        feature::ARBITRATION
        | feature::TEMPERATURE
        | feature::QUEUES
        | feature::ATOMICITY
        | feature::TIMESTAMP
        | feature::HOST_BEHAVIOR => Some(CHANGEABLE),
        feature::POWER
        | feature::ERROR_RECOVERY
        | feature::WRITE_CACHE
        | feature::COMMAND_SETS
        | feature::HOST_ID => Some(0),
        _ => None,
    }
}

/// Changes a setting of a controller.
fn change(controller: &mut Controller, id: u8, value: u32, data: &[u8], now: u64) -> Result<(), Status> {
    let known = if controller.discovery { OAES_DISCOVERY } else { OAES | HEALTH_EVENTS };
    let settings = &mut controller.settings;
    match id {
        feature::ARBITRATION => settings.arbitration = value,
        feature::ATOMICITY if value <= 1 => settings.atomicity = value,
        feature::ASYNC_EVENTS if value & !known == 0 => settings.events = value,
        feature::TIMESTAMP => settings.set_time(data, now),
        feature::HOST_BEHAVIOR => settings.set_behavior(data)?,
        feature::TEMPERATURE => {
            let before = settings.warnings();
            settings.set_threshold(value)?;
            if settings.warnings() & !before != 0 {
                // Health, temperature threshold.
                controller.event(TEMPERATURE_BIT, 1 | 1 << 8 | u32::from(lid::HEALTH) << 16);
            }
        }
        _ => return Err(Status::INVALID_FIELD),
    }
    Ok(())
}

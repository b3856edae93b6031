//! Get Log Page.

use super::admin::Answer;
use super::connection::Connection;
use super::controller::Controller;
use super::settings::TEMPERATURE;
use super::subsystem::{Access, Subsystem};
use crate::bytes::{put, u16_at, u64_at};
use crate::spec::ana::AnaLog;
use crate::spec::identify::ELPE;
use crate::spec::log::{ErrorEntry, Health, lid};
use crate::spec::{Sqe, Status, effects};
use std::net::SocketAddr;

/// Bytes of one answer, at most: what one command may move.
const MAX_PAGE: u64 = 4096 << crate::spec::identify::MDTS;

impl Connection {
    pub(super) fn log_page<A: Access>(&self, sqe: &Sqe, access: &A) -> Answer {
        let asked = Asked {
            id: sqe.0[40],
            groups_only: sqe.0[41] & AnaLog::GROUPS_ONLY != 0,
            retain: sqe.0[41] & 1 << 7 != 0,
        };
        let dwords = u64::from(u16_at(&sqe.0, 42)) | u64::from(u16_at(&sqe.0, 44)) << 16;
        let (len, offset) = ((dwords + 1) * 4, u64_at(&sqe.0, 48));
        // There is one command set only.
        let other_set = asked.id == lid::EFFECTS && sqe.0[59] != 0;
        if len > MAX_PAGE || !offset.is_multiple_of(4) || other_set {
            return Answer::Failed(Status::INVALID_FIELD.dnr());
        }
        let Some(queue) = &self.queue else { return Answer::Failed(Status::INTERNAL) };
        let (cntlid, seconds) = (queue.cntlid, self.now / 1_000_000_000);
        let page = access.with(|subsystem| {
            if queue.discovery {
                discovery_page(subsystem, cntlid, self.local, asked)
            } else {
                page(subsystem, cntlid, asked, seconds)
            }
        });
        let Some(page) = page else { return Answer::Failed(Status::INVALID_LOG.dnr()) };
        let Some(rest) = usize::try_from(offset).ok().and_then(|offset| page.get(offset..)) else {
            return Answer::Failed(Status::INVALID_FIELD.dnr());
        };
        let mut data = vec![0; len as usize];
        let known = rest.len().min(data.len());
        data[..known].copy_from_slice(&rest[..known]);
        Answer::Data(data)
    }
}

/// Which page, and how.
#[derive(Debug, Clone, Copy)]
struct Asked {
    id: u8,
    groups_only: bool,
    /// Whether events of its kind stay masked.
    retain: bool,
}

fn discovery_page(
    subsystem: &mut Subsystem,
    cntlid: u16,
    local: SocketAddr,
    asked: Asked,
) -> Option<Vec<u8>> {
    match asked.id {
        lid::SUPPORTED => Some(supported(&[lid::SUPPORTED, lid::DISCOVERY])),
        lid::DISCOVERY => {
            let page = subsystem.discovery_log(local);
            unmask(subsystem.controllers.get_mut(&cntlid)?, asked);
            Some(page)
        }
        _ => None,
    }
}

fn page(subsystem: &mut Subsystem, cntlid: u16, asked: Asked, seconds: u64) -> Option<Vec<u8>> {
    let errors = subsystem.controllers.get(&cntlid)?.error_count;
    let health = subsystem.health(errors, seconds);
    let firmware = subsystem.identity().firmware.clone();
    let vendor = subsystem.vendor().commands.clone();
    let ana = subsystem.ana_log(asked.groups_only);
    let controller = subsystem.controllers.get_mut(&cntlid)?;
    let page = match asked.id {
        lid::SUPPORTED => supported(&[
            lid::SUPPORTED,
            lid::ERRORS,
            lid::HEALTH,
            lid::FIRMWARE,
            lid::CHANGED_NAMESPACES,
            lid::EFFECTS,
            lid::ANA,
        ]),
        lid::ERRORS => {
            let mut page: Vec<u8> = controller.errors.iter().flat_map(ErrorEntry::encode).collect();
            page.resize((usize::from(ELPE) + 1) * ErrorEntry::LEN, 0);
            page
        }
        lid::HEALTH => {
            let warnings = controller.settings.warnings();
            Health { warnings, temperature: TEMPERATURE, ..health }.encode()
        }
        lid::FIRMWARE => {
            let mut page = vec![0; 512];
            page[0] = 1;
            crate::bytes::put_padded(&mut page, 8, 8, &firmware);
            page
        }
        lid::CHANGED_NAMESPACES => changed(controller, asked.retain),
        lid::EFFECTS => effects::encode(&vendor),
        lid::ANA => ana.encode(),
        _ => return None,
    };
    unmask(controller, asked);
    Some(page)
}

/// A log page was read: events of its kind may be reported again.
fn unmask(controller: &mut Controller, asked: Asked) {
    if !asked.retain {
        controller.masked.remove(&asked.id);
    }
}

fn supported(pages: &[u8]) -> Vec<u8> {
    let mut page = vec![0; 1024];
    for id in pages {
        put(&mut page, usize::from(*id) * 4, &1_u32.to_le_bytes());
    }
    page
}

fn changed(controller: &mut Controller, retain: bool) -> Vec<u8> {
    let mut page = vec![0; 4096];
    if controller.changed.len() > 1024 {
        put(&mut page, 0, &u32::MAX.to_le_bytes());
    } else {
        for (field, nsid) in page.chunks_exact_mut(4).zip(&controller.changed) {
            field.copy_from_slice(&nsid.to_le_bytes());
        }
    }
    if !retain {
        controller.changed.clear();
    }
    page
}

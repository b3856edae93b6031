//! Get Log Page.

use super::admin::{Answer, Scope, check_room};
use super::association::Controller;
use super::connection::Connection;
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

/// Dword 14: the offset counts entries, not bytes.
const BY_INDEX: u32 = 1 << 23;

impl Connection {
    pub(super) fn log_page<A: Access>(&self, sqe: &Sqe, access: &A) -> Answer {
        self.part_of_page(sqe, access).map_or_else(|status| Answer::Failed(status.dnr()), Answer::Data)
    }

    fn part_of_page<A: Access>(&self, sqe: &Sqe, access: &A) -> Result<Vec<u8>, Status> {
        let asked = PageRequest {
            id: sqe.0[40],
            groups_only: sqe.0[41] & AnaLog::GROUPS_ONLY != 0,
            retain: sqe.0[41] & 1 << 7 != 0,
        };
        let dwords = u64::from(u16_at(&sqe.0, 42)) | u64::from(u16_at(&sqe.0, 44)) << 16;
        let (len, offset) = ((dwords + 1) * 4, u64_at(&sqe.0, 48));
        // There is one command set only.
        let other_set = asked.id == lid::EFFECTS && sqe.0[59] != 0;
        let by_index = sqe.dword(14) & BY_INDEX != 0;
        if len > MAX_PAGE || !offset.is_multiple_of(4) || other_set || by_index {
            return Err(Status::INVALID_FIELD);
        }
        // No page is that of a namespace, health among them (LPA bit 0).
        if let Scope::Namespace = self.scope(sqe)? {
            return Err(Status::INVALID_FIELD);
        }
        let queue = self.queue.as_ref().ok_or(Status::SEQUENCE)?;
        let (cntlid, seconds) = (queue.cntlid, self.now / 1_000_000_000);
        // The lock that all connections share is not held while the host's part is laid out: that
        // may be a thousand times longer than the page.
        let page = access.with(|subsystem| {
            let page = if queue.discovery {
                discovery_page(subsystem, cntlid, self.local, asked)
            } else {
                page(subsystem, cntlid, asked, seconds)
            };
            let page = page.ok_or(Status::INVALID_LOG)?;
            if offset > page.len() as u64 {
                return Err(Status::INVALID_FIELD);
            }
            check_room(sqe, len as usize)?;
            // Not before it is certain that the host gets the page.
            if let Some(controller) = subsystem.controllers.get_mut(&cntlid).filter(|_| !asked.retain) {
                controller.was_read(asked.id);
            }
            Ok(page)
        })?;
        let rest = &page[offset as usize..];
        let mut data = vec![0; len as usize];
        let known = rest.len().min(data.len());
        data[..known].copy_from_slice(&rest[..known]);
        Ok(data)
    }
}

/// Request for a log page.
#[derive(Debug, Clone, Copy)]
struct PageRequest {
    id: u8,
    groups_only: bool,
    /// True if events of its kind stay masked.
    retain: bool,
}

fn discovery_page(
    subsystem: &Subsystem,
    cntlid: u16,
    local: SocketAddr,
    asked: PageRequest,
) -> Option<Vec<u8>> {
    // A host to which none of the namespaces is attached is shown nothing.
    let sees = subsystem.attached(cntlid).is_some_and(|attached| attached.largest() > 0);
    let sees = sees || subsystem.namespaces().is_empty();
    match asked.id {
        lid::SUPPORTED => Some(supported(&[lid::SUPPORTED, lid::DISCOVERY])),
        lid::DISCOVERY => Some(subsystem.discovery_log(local, sees)),
        _ => None,
    }
}

fn page(subsystem: &Subsystem, cntlid: u16, asked: PageRequest, seconds: u64) -> Option<Vec<u8>> {
    let controller = subsystem.controllers.get(&cntlid)?;
    Some(match asked.id {
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
            let warnings = controller.settings.warnings() | subsystem.media_warnings();
            let health = subsystem.health(controller.error_count, seconds);
            Health { warnings, temperature: TEMPERATURE, ..health }.encode()
        }
        lid::FIRMWARE => {
            let mut page = vec![0; 512];
            page[0] = 1;
            crate::bytes::put_padded(&mut page, 8, 8, &subsystem.identity().firmware);
            page
        }
        lid::CHANGED_NAMESPACES => changed(controller),
        lid::EFFECTS => effects::encode(&subsystem.vendor().commands),
        lid::ANA => subsystem.ana_log(&controller.attached, asked.groups_only).encode(),
        _ => return None,
    })
}

fn supported(pages: &[u8]) -> Vec<u8> {
    let mut page = vec![0; 1024];
    for id in pages {
        put(&mut page, usize::from(*id) * 4, &1_u32.to_le_bytes());
    }
    page
}

fn changed(controller: &Controller) -> Vec<u8> {
    let mut page = vec![0; 4096];
    if controller.changed.len() > 1024 {
        put(&mut page, 0, &u32::MAX.to_le_bytes());
    } else {
        for (field, nsid) in page.chunks_exact_mut(4).zip(&controller.changed) {
            field.copy_from_slice(&nsid.to_le_bytes());
        }
    }
    page
}

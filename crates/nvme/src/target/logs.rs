//! Get Log Page.

use super::admin::Answer;
use super::connection::Connection;
use super::controller::Controller;
use super::subsystem::{Access, Subsystem};
use crate::bytes::{put, u16_at, u64_at};
use crate::spec::identify::ELPE;
use crate::spec::log::{ErrorEntry, lid};
use crate::spec::opcode::{admin, io};
use crate::spec::{Sqe, Status};
use std::net::SocketAddr;

/// Bytes of one answer, at most: what one command may move.
const MAX_PAGE: u64 = 4096 << crate::spec::identify::MDTS;

/// Effects: the command is supported.
const SUPPORTED: u32 = 1;
/// Effects: it changes the content of the namespace.
const CHANGES_DATA: u32 = 1 << 1;

impl Connection {
    pub(super) fn log_page<A: Access>(&self, sqe: &Sqe, access: &A) -> Answer {
        let id = sqe.0[40];
        let retain = sqe.0[41] & 1 << 7 != 0;
        let dwords = u64::from(u16_at(&sqe.0, 42)) | u64::from(u16_at(&sqe.0, 44)) << 16;
        let (len, offset) = ((dwords + 1) * 4, u64_at(&sqe.0, 48));
        if len > MAX_PAGE || !offset.is_multiple_of(4) {
            return Answer::Failed(Status::INVALID_FIELD.dnr());
        }
        let Some(queue) = &self.queue else { return Answer::Failed(Status::INTERNAL) };
        let (cntlid, seconds) = (queue.cntlid, self.now / 1_000_000_000);
        let page = access.with(|subsystem| {
            if queue.discovery {
                discovery_page(subsystem, cntlid, self.local, id, retain)
            } else {
                page(subsystem, cntlid, id, retain, seconds)
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

fn discovery_page(
    subsystem: &mut Subsystem,
    cntlid: u16,
    local: SocketAddr,
    id: u8,
    retain: bool,
) -> Option<Vec<u8>> {
    match id {
        lid::SUPPORTED => Some(supported(&[lid::SUPPORTED, lid::DISCOVERY])),
        lid::DISCOVERY => {
            let page = subsystem.discovery_log(local);
            unmask(subsystem.controllers.get_mut(&cntlid)?, id, retain);
            Some(page)
        }
        _ => None,
    }
}

fn page(subsystem: &mut Subsystem, cntlid: u16, id: u8, retain: bool, seconds: u64) -> Option<Vec<u8>> {
    let errors = subsystem.controllers.get(&cntlid)?.error_count;
    let health = subsystem.health(errors, seconds);
    let firmware = subsystem.identity().firmware.clone();
    let vendor = subsystem.vendor().commands.clone();
    let controller = subsystem.controllers.get_mut(&cntlid)?;
    let page = match id {
        lid::SUPPORTED => supported(&[
            lid::SUPPORTED,
            lid::ERRORS,
            lid::HEALTH,
            lid::FIRMWARE,
            lid::CHANGED_NAMESPACES,
            lid::EFFECTS,
        ]),
        lid::ERRORS => {
            let mut page: Vec<u8> = controller.errors.iter().flat_map(ErrorEntry::encode).collect();
            page.resize((usize::from(ELPE) + 1) * ErrorEntry::LEN, 0);
            page
        }
        lid::HEALTH => health.encode(),
        lid::FIRMWARE => {
            let mut page = vec![0; 512];
            page[0] = 1;
            crate::bytes::put_padded(&mut page, 8, 8, &firmware);
            page
        }
        lid::CHANGED_NAMESPACES => changed(controller, retain),
        lid::EFFECTS => effects(&vendor),
        _ => return None,
    };
    unmask(controller, id, retain);
    Some(page)
}

/// A log page was read: events of its kind may be reported again.
fn unmask(controller: &mut Controller, id: u8, retain: bool) {
    if !retain {
        controller.masked.remove(&id);
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

/// Commands Supported and Effects: admin commands at 0, I/O commands at 1024, four bytes each.
fn effects(vendor: &[(u8, u32)]) -> Vec<u8> {
    let mut page = vec![0; 4096];
    for opcode in [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT,
        admin::KEEP_ALIVE,
    ] {
        put(&mut page, usize::from(opcode) * 4, &SUPPORTED.to_le_bytes());
    }
    for (opcode, effect) in [
        (io::FLUSH, SUPPORTED),
        (io::WRITE, SUPPORTED | CHANGES_DATA),
        (io::READ, SUPPORTED),
        (io::COMPARE, SUPPORTED),
        (io::WRITE_ZEROES, SUPPORTED | CHANGES_DATA),
        (io::DATASET_MANAGEMENT, SUPPORTED | CHANGES_DATA),
        (io::VERIFY, SUPPORTED),
    ] {
        put(&mut page, 1024 + usize::from(opcode) * 4, &effect.to_le_bytes());
    }
    for (opcode, effect) in vendor {
        put(&mut page, 1024 + usize::from(*opcode) * 4, &effect.to_le_bytes());
    }
    page
}

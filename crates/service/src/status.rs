//! The state of a volume, made into its document.

use crate::api::{Member, Moved, Parity, Recovered, Served, Survives, Volume, Work};
use crate::members::nodes_survived;
use pumice_base::units::Role;
use pumice_executor::{Class, Consistency, Facts, Standing, Status, Way};
use std::collections::BTreeSet;

const fn word(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Log => "log",
        Consistency::Bitmap => "bitmap",
    }
}

fn work(standing: &Standing) -> Work {
    Work {
        work: match standing.class {
            Class::FullStripes => "full_stripes",
            Class::PartialWrites => "partial_writes",
            Class::LostReads => "lost_reads",
        }
        .to_owned(),
        way: match standing.way {
            Way::Near => "near",
            Way::Far => "far",
        }
        .to_owned(),
        near_bytes_per_s: standing.near_rate,
        far_bytes_per_s: standing.far_rate,
        verdicts: standing.verdicts,
    }
}

/// Members by role. `lost` tells those that do not answer, and of which no superblock says so.
fn members(status: &Status, lost: &impl Fn(&Role) -> bool) -> Vec<Member> {
    let member = |(role, device): &(Role, Option<String>)| {
        let rebuilding = status.rebuilding.iter().find(|(other, ..)| other == role);
        let state = match rebuilding {
            Some(_) => "rebuilding",
            None if status.missing.contains(role) => "missing",
            None if lost(role) => "lost",
            None => "in_sync",
        };
        Member {
            role: role.get(),
            device: device.clone().filter(|_| state != "missing"),
            state: state.to_owned(),
            rebuilt: rebuilding.map(|(_, done, of)| done * 1000 / (*of).max(1)),
        }
    };
    status.devices.iter().map(member).collect()
}

/// The document of a volume.
#[must_use]
pub fn document(status: &Status, served: Option<Served>) -> Volume {
    let Facts { geometry, report, .. } = &status.facts;
    let lost = |role: &Role| status.lost.contains(role) && !status.missing.contains(role);
    let also_lost = status.devices.iter().map(|(role, _)| *role).filter(|role| lost(role));
    let gone: BTreeSet<Role> = status.missing.iter().copied().chain(also_lost).collect();
    let survives = usize::from(status.facts.survives).saturating_sub(gone.len());
    let members = members(status, &lost);
    let here = members.iter().filter(|m| m.state == "in_sync");
    let here = here.filter_map(|m| Some((Role(m.role), m.device.clone()?)));
    let nodes = nodes_survived(here, survives, |lost| status.facts.corrects(&(lost | &gone))).0;
    Volume {
        uuid: status.facts.uuid.to_string(),
        name: status.facts.name.clone(),
        level: u64::from(geometry.level().number().unsigned_abs()),
        layout: geometry.layout().map(|layout| layout.to_string()),
        chunk_bytes: geometry.chunk_bytes(),
        metadata: status.facts.metadata.to_string(),
        bytes: status.facts.bytes,
        block_bytes: status.facts.block,
        consistency: word(status.facts.consistency).to_owned(),
        state: match (status.held, status.clean) {
            (true, _) => "held",
            (false, true) => "clean",
            (false, false) => "dirty",
        }
        .to_owned(),
        survives: Survives { drives: survives, nodes },
        members,
        moved: Moved {
            user_read: status.user_read,
            user_written: status.user_written,
            member_read: status.member_read,
            member_written: status.member_written,
            link_sent: status.link_sent,
            link_received: status.link_received,
            rewritten_blocks: status.rewritten,
        },
        parity: Parity {
            by_nodes: status.near.is_ok(),
            why: status.near.as_ref().err().cloned(),
            near_writes: status.near_writes,
            far_writes: status.far_writes,
            ways: status.ways.as_ref().map(|ways| ways.iter().map(work).collect()),
        },
        recovered: Recovered {
            log_discarded: report.discarded,
            writes_dropped: report.dropped,
            blocks_applied: report.applied,
            windows_resynced: report.resynced,
            members_failed: report.failed.iter().map(|role| role.get()).collect(),
        },
        errors: status.errors.clone(),
        served,
    }
}

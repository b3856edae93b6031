//! The state of a volume, as text and as JSON.

use super::members::nodes_survived;
use crate::text::{count, print, print_json, table};
use pumice_executor::{Class, Consistency, Facts, Standing, Status, Way};
use pumice_units::{Role, format_binary, format_decimal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A volume as it is shown. `docs/reference/json.md` has the fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shown {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) level: u64,
    pub(super) layout: Option<String>,
    pub(super) chunk_bytes: u64,
    pub(super) metadata: String,
    pub(super) bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) consistency: String,
    /// `clean`, `dirty` or `held`.
    pub(super) state: String,
    pub(super) survives: Survives,
    pub(super) members: Vec<Member>,
    pub(super) moved: Moved,
    pub(super) parity: Parity,
    pub(super) recovered: Recovered,
    pub(super) errors: Vec<String>,
    /// Where it is served; `null` if it is not.
    pub(super) served: Option<Served>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Survives {
    pub(super) drives: usize,
    pub(super) nodes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) role: u16,
    pub(super) device: Option<String>,
    /// `in_sync`, `rebuilding`, `missing` or `lost`.
    pub(super) state: String,
    /// Of a rebuild: per mille.
    pub(super) rebuilt: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) user_read: u64,
    pub(super) user_written: u64,
    pub(super) member_read: u64,
    pub(super) member_written: u64,
    pub(super) link_sent: u64,
    pub(super) link_received: u64,
    /// Blocks that a medium did not give, written again.
    pub(super) rewritten_blocks: u64,
}

/// Where parity is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parity {
    /// Nodes can make it.
    pub(super) by_nodes: bool,
    /// Why they cannot.
    pub(super) why: Option<String>,
    pub(super) near_writes: u64,
    pub(super) far_writes: u64,
    /// Where classes of work go; `null` if that is not measured.
    pub(super) ways: Option<Vec<Work>>,
}

/// Where a class of work goes, and the rates that were measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Work {
    /// `full_stripes`, `partial_writes` or `lost_reads`.
    pub(super) work: String,
    /// `near` or `far`.
    pub(super) way: String,
    /// Bytes a second of the time in which such work was under way.
    pub(super) near_bytes_per_s: Option<u64>,
    pub(super) far_bytes_per_s: Option<u64>,
    pub(super) verdicts: u64,
}

impl Work {
    fn of(standing: &Standing) -> Self {
        Self {
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

    fn row(&self) -> Vec<String> {
        let rate = |rate: Option<u64>| {
            rate.map_or_else(|| "not measured".to_owned(), |rate| format!("{}/s", format_decimal(rate)))
        };
        let place = if self.way == "near" { "nodes" } else { "this machine" };
        vec![
            format!("  {}", self.work.replace('_', " ")),
            place.to_owned(),
            format!("nodes {}", rate(self.near_bytes_per_s)),
            format!("this machine {}", rate(self.far_bytes_per_s)),
        ]
    }
}

/// What was found when the volume was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recovered {
    pub(super) log_discarded: bool,
    pub(super) writes_dropped: u64,
    pub(super) blocks_applied: u64,
    pub(super) windows_resynced: u64,
    pub(super) members_failed: Vec<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) addresses: Vec<String>,
    pub(super) nqn: String,
    pub(super) pid: u32,
}

pub(super) const fn word(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Log => "log",
        Consistency::Bitmap => "bitmap",
    }
}

impl Shown {
    pub(super) fn of(status: &Status, served: Option<Served>) -> Self {
        let Facts { geometry, report, .. } = &status.facts;
        let lost = |role: &Role| status.lost.contains(role) && !status.missing.contains(role);
        let also_lost = status.devices.iter().map(|(role, _)| *role).filter(|role| lost(role));
        let gone: BTreeSet<Role> = status.missing.iter().copied().chain(also_lost).collect();
        let survives = usize::from(status.facts.survives).saturating_sub(gone.len());
        let members = status.devices.iter().map(|(role, device)| {
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
        });
        let members: Vec<Member> = members.collect();
        let here = members.iter().filter(|m| m.state == "in_sync");
        let here = here.filter_map(|m| Some((Role(m.role), m.device.clone()?)));
        let nodes = nodes_survived(here, survives, |lost| status.facts.corrects(&(lost | &gone))).0;
        Self {
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
                ways: status.ways.as_ref().map(|ways| ways.iter().map(Work::of).collect()),
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

    /// What recovery did; empty if it had nothing to do.
    pub(super) fn recovery_words(&self) -> Vec<String> {
        let Recovered { log_discarded, writes_dropped, blocks_applied, windows_resynced, members_failed } =
            &self.recovered;
        let mut out = Vec::new();
        if *log_discarded {
            out.push("another system has run the array since: the stripe log was discarded".to_owned());
        }
        if *blocks_applied > 0 {
            out.push(format!("{} copied from the stripe log", count(*blocks_applied, "block")));
        }
        if *writes_dropped > 0 {
            out.push(format!("{} dropped that had not become durable", count(*writes_dropped, "write")));
        }
        if *windows_resynced > 0 {
            out.push(format!("parity of {} computed from data", count(*windows_resynced, "window")));
        }
        for role in members_failed {
            out.push(format!(
                "role {role} is recorded as failed: its device was missing, or its stripe log could not be read"
            ));
        }
        out
    }
}

/// Shows one volume.
pub(super) fn show(shown: &Shown, json: bool) {
    if json {
        return print_json(shown);
    }
    let layout = shown.layout.as_ref().map_or(String::new(), |layout| format!(" {layout}"));
    let name = if shown.name.is_empty() { String::new() } else { format!(" ({})", shown.name) };
    let mut text = format!(
        "{}{name}: RAID-{}{layout}, {}, chunks of {}, {}, consistency by {}\n",
        shown.uuid,
        shown.level,
        format_decimal(shown.bytes),
        format_binary(shown.chunk_bytes),
        shown.state,
        shown.consistency,
    );
    let Survives { drives, nodes } = shown.survives;
    text.push_str(&format!(
        "survives {} and {}\n",
        count(drives as u64, "drive"),
        count(nodes as u64, "node")
    ));
    if shown.state == "held" {
        text.push_str(
            "held: it goes on by itself when the members that are lost can be reached again; if they do not come back, stop it, and see what `pumice volume assemble` says\n",
        );
    }
    let rows = shown.members.iter().map(|member| {
        let rebuilt = member.rebuilt.map_or(String::new(), |n| format!(" {}.{} %", n / 10, n % 10));
        vec![
            format!("  role {}", member.role),
            format!("{}{rebuilt}", member.state.replace('_', " ")),
            member.device.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    });
    text.push_str(&table(&rows.collect::<Vec<_>>()));
    let far = |member: &Member| member.device.as_ref().is_some_and(|device| device.starts_with("nvme://"));
    match (&shown.parity.why, &shown.parity.ways) {
        (None, Some(ways)) => {
            text.push_str("parity and lost blocks are computed where it is faster:\n");
            text.push_str(&table(&ways.iter().map(Work::row).collect::<Vec<_>>()));
        }
        (None, None) => text.push_str("parity is made by the nodes of the drives\n"),
        (Some(why), _) if shown.members.iter().any(far) => {
            text.push_str(&format!("parity is made by this machine: {why}\n"));
        }
        (Some(_), _) => {}
    }
    for line in shown.recovery_words() {
        text.push_str(&format!("when it was opened: {line}\n"));
    }
    for error in shown.errors.iter().rev().take(3) {
        text.push_str(&format!("error: {error}\n"));
    }
    if let Some(served) = &shown.served {
        text.push_str(&format!("served at {} nqn {}\n", served.addresses.join(", "), served.nqn));
    }
    print(&text);
}

/// Names the members of a volume that are lost; empty if none is.
fn lost_words(shown: &Shown) -> String {
    let lost = shown.members.iter().filter(|member| member.state == "lost");
    let roles: Vec<String> = lost.map(|member| member.role.to_string()).collect();
    if roles.is_empty() { String::new() } else { format!(", lost: {}", roles.join(", ")) }
}

/// Lists volumes.
pub(super) fn list(all: &[Shown], json: bool) {
    if json {
        return print_json(&serde_json::json!({ "volumes": all }));
    }
    let row = |shown: &Shown| {
        let here = shown.members.iter().filter(|member| member.state == "in_sync").count();
        vec![
            shown.uuid.clone(),
            shown.name.clone(),
            format!("RAID-{}", shown.level),
            format_decimal(shown.bytes),
            shown.state.clone(),
            format!("{here} of {} in sync{}", shown.members.len(), lost_words(shown)),
        ]
    };
    print(&table(&all.iter().map(row).collect::<Vec<_>>()));
}

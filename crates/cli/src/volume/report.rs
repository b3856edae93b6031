//! The state of a volume, as text and as JSON.

use crate::text::{count, print, print_json, table};
use pumice_base::units::{format_binary, format_decimal};
use pumice_service::api::{Member, Survives, Volume, Work};

/// The row of a class of work.
fn row(work: &Work) -> Vec<String> {
    let rate = |rate: Option<u64>| {
        rate.map_or_else(|| "not measured".to_owned(), |rate| format!("{}/s", format_decimal(rate)))
    };
    let place = if work.way == "near" { "nodes" } else { "this machine" };
    vec![
        format!("  {}", work.work.replace('_', " ")),
        place.to_owned(),
        format!("nodes {}", rate(work.near_bytes_per_s)),
        format!("this machine {}", rate(work.far_bytes_per_s)),
    ]
}

/// Shows one volume.
pub(super) fn show(shown: &Volume, json: bool) {
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
    let far = |member: &Member| member.device.as_ref().is_some_and(|device| device.starts_with("nvme://"));
    let Survives { drives, nodes } = shown.survives;
    // Without a node of another machine, the number of nodes says nothing.
    let is_far = shown.members.iter().any(far);
    let nodes = if is_far { format!(" and {}", count(nodes as u64, "node")) } else { String::new() };
    text.push_str(&format!("survives {}{nodes}\n", count(drives as u64, "drive")));
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
    match (&shown.parity.why, &shown.parity.ways) {
        (None, Some(ways)) => {
            text.push_str("parity and lost blocks are computed where it is faster:\n");
            text.push_str(&table(&ways.iter().map(row).collect::<Vec<_>>()));
        }
        (None, None) => text.push_str("parity is made by the nodes of the drives\n"),
        (Some(why), _) if shown.members.iter().any(far) => {
            text.push_str(&format!("parity is made by this machine: {why}\n"));
        }
        (Some(_), _) => {}
    }
    for event in shown.recovered.events() {
        text.push_str(&format!("when it was opened: {event}\n"));
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
fn lost_words(shown: &Volume) -> String {
    let lost = shown.members.iter().filter(|member| member.state == "lost");
    let roles: Vec<String> = lost.map(|member| member.role.to_string()).collect();
    if roles.is_empty() { String::new() } else { format!(", lost: {}", roles.join(", ")) }
}

/// Lists volumes.
pub(super) fn list(all: &[Volume], json: bool) {
    if json {
        return print_json(&serde_json::json!({ "volumes": all }));
    }
    let line = |shown: &Volume| {
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
    print(&table(&all.iter().map(line).collect::<Vec<_>>()));
}

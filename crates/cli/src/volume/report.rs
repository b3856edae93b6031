//! The state of a volume, as text and as JSON.

use crate::page::Page;
use crate::table::{Cell, Column, Table, Tone};
use crate::text::{count, print_json};
use pumice_base::units::{format_binary, format_date, format_decimal};
use pumice_service::api::{Condition, Events, Member, Severity, Survives, Volume, Work};

/// Classes of work, and where each is done.
fn ways(ways: &[Work]) -> Table {
    let rate = |rate: Option<u64>| {
        rate.map_or_else(|| "not measured".to_owned(), |rate| format!("{}/s", format_decimal(rate)))
    };
    let heads = ["work", "is done by", "nodes", "this machine"];
    let mut table = Table::new(heads.map(|head| Column::left(head).wrapping(1)));
    for work in ways {
        let place = if work.way == "near" { "nodes" } else { "this machine" };
        let rates = [rate(work.near_bytes_per_s), rate(work.far_bytes_per_s)];
        let begin = [work.work.replace('_', " "), place.to_owned()];
        table.row(begin.into_iter().chain(rates).map(Cell::from));
    }
    table
}

/// Members by role.
pub(crate) fn members(members: &[Member]) -> Table {
    let columns = [
        Column::left("member"),
        Column::left("state"),
        Column::right("rebuilt"),
        Column::left("device").wrapping(1),
    ];
    let mut table = Table::new(columns);
    for member in members {
        let tone = match member.state.as_str() {
            "in_sync" => Tone::Plain,
            "rebuilding" => Tone::Warn,
            _ => Tone::Bad,
        };
        table.row([
            Cell::from(format!("role {}", member.role)),
            Cell::toned(&member.state.replace('_', " "), tone),
            Cell::from(member.rebuilt.map_or(String::new(), |n| format!("{}.{} %", n / 10, n % 10))),
            Cell::from(member.device.as_deref().unwrap_or("-")),
        ]);
    }
    table
}

/// Returns whether a member is on a node of another machine.
fn is_far(member: &Member) -> bool {
    member.device.as_ref().is_some_and(|device| device.starts_with("nvme://"))
}

/// Shows one volume.
pub(super) fn show(shown: &Volume, json: bool) {
    if json {
        return print_json(shown);
    }
    let mut page = Page::new();
    human(&mut page, shown);
    page.print();
}

fn human(page: &mut Page, shown: &Volume) {
    let layout = shown.layout.as_ref().map_or(String::new(), |layout| format!(" {layout}"));
    let name = if shown.name.is_empty() { String::new() } else { format!(" ({})", shown.name) };
    page.line(&format!(
        "{}{name}: {}RAID-{}{layout}, {}, chunks of {}, {}, consistency by {}",
        shown.uuid,
        word(shown).map_or(String::new(), |word| format!("{word}, ")),
        shown.level,
        format_decimal(shown.bytes),
        format_binary(shown.chunk_bytes),
        shown.state,
        shown.consistency,
    ));
    let Survives { drives, nodes } = shown.survives;
    // Without a node of another machine, the number of nodes says nothing.
    let far = shown.members.iter().any(is_far);
    let nodes = if far { format!(" and {}", count(nodes as u64, "node")) } else { String::new() };
    page.line(&format!("survives {}{nodes}", count(drives as u64, "drive")));
    if shown.state == "held" {
        page.line(
            "held: it goes on by itself when the members that are lost can be reached again; if they do not come back, stop it, and see what `pumice volume assemble` says",
        );
    }
    page.table(&members(&shown.members));
    shown.members.iter().for_each(|member| absent(page, shown, member));
    match (&shown.parity.why, &shown.parity.ways) {
        (None, Some(all)) => {
            page.line("parity and lost blocks are computed where it is faster:");
            page.table(&ways(all));
        }
        (None, None) => page.line("parity is made by the nodes of the drives"),
        (Some(why), _) if far => page.line(&format!("parity is made by this machine: {why}")),
        (Some(_), _) => {}
    }
    for event in shown.recovered.events() {
        page.line(&format!("when it was opened: {event}"));
    }
    for error in shown.member_errors.iter().rev().take(3) {
        page.line(&format!("error at {}: {}", format_date(error.at), error.text));
    }
    // An older server tells no times.
    let plain = if shown.member_errors.is_empty() { &shown.errors[..] } else { &[] };
    for error in plain.iter().rev().take(3) {
        page.line(&format!("error: {error}"));
    }
    if let Some(served) = &shown.served {
        page.line(&format!("served at {} nqn {}", served.addresses.join(", "), served.nqn));
    }
}

/// The word for the redundancy, if the server says it.
fn word(shown: &Volume) -> Option<&'static str> {
    Some(shown.condition).filter(|condition| *condition != Condition::Unknown).map(Condition::word)
}

/// False if members are missing.
fn is_well(shown: &Volume) -> bool {
    shown.state != "held" && !matches!(shown.condition, Condition::Degraded | Condition::Held)
}

/// Says when and why a member was lost, if it is.
fn absent(page: &mut Page, shown: &Volume, member: &Member) {
    let Some(absent) = &member.absent else { return };
    let volume = if shown.name.is_empty() { &shown.uuid } else { &shown.name };
    page.line(&format!("role {}: lost at {}: {}", member.role, format_date(absent.since), absent.why));
    if let (Some(why), "missing") = (&absent.kept_out, member.state.as_str()) {
        page.line(&format!("  {} answers again, and has not its role back: {why}", absent.device));
        page.line(&format!("  to bring it back: pumice volume add {volume} {}", absent.device));
    }
}

/// Shows events.
pub(super) fn events(all: &Events, json: bool) {
    if json {
        return print_json(all);
    }
    let mut page = Page::new();
    if all.dropped > 0 {
        page.line(&format!("{} no longer kept", count(all.dropped, "earlier event")));
    }
    for told in &all.events {
        let severity = match told.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        };
        page.line(&format!("{:>5}  {}  {severity:<8}  {}", told.id, format_date(told.at), told.text));
    }
    page.print();
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
    let columns = [
        Column::left("name").wrapping(3),
        Column::left("level"),
        Column::right("size"),
        Column::left("state"),
        Column::left("md"),
        Column::left("members").wrapping(2),
        Column::left("uuid").wrapping(1),
    ];
    let mut table = Table::new(columns);
    for shown in all {
        let here = shown.members.iter().filter(|member| member.state == "in_sync").count();
        table.row([
            Cell::from(if shown.name.is_empty() { "-" } else { &shown.name }),
            Cell::from(format!("RAID-{}", shown.level)),
            Cell::from(format_decimal(shown.bytes)),
            Cell::toned(word(shown).unwrap_or("-"), if is_well(shown) { Tone::Plain } else { Tone::Bad }),
            Cell::from(&shown.state),
            Cell::from(format!("{here} of {} in sync{}", shown.members.len(), lost_words(shown))),
            Cell::from(&shown.uuid),
        ]);
    }
    let mut page = Page::new();
    match all {
        [] => {}
        _ => page.table(&table),
    }
    page.print();
}

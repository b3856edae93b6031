//! Entries of the archive, as text and as JSON. `docs/reference/json.md` has the documents.

use crate::text::{count, table};
use pumice_base::units::format_date;
use pumice_host::repair::IntentKind;
use pumice_host::repair::archive::{Entry, EntryId};
use pumice_raid::Uuid;
use serde_json::{Value, json};
use std::fmt::Write;

/// An entry, or the reason why its file is not a valid entry.
pub(super) type Listed = (Uuid, EntryId, Result<Entry, String>);

fn kind(entry: &Entry) -> String {
    match (entry.intent_kind, entry.occasion.undoes) {
        (IntentKind::Repair, _) => "repair".to_owned(),
        (IntentKind::Undo, Some(id)) => format!("undo of {id}"),
        (IntentKind::Undo, None) => "undo".to_owned(),
    }
}

fn bytes(entry: &Entry) -> usize {
    entry.records.iter().map(|record| record.old.bytes().len()).sum()
}

fn members(entry: &Entry) -> String {
    let roles: Vec<String> = entry.records.iter().map(|record| record.role.0.to_string()).collect();
    roles.join(",")
}

/// One line for each entry.
pub(super) fn lines(entries: &[Listed]) -> String {
    if entries.is_empty() {
        return "no repairs are kept\n".to_owned();
    }
    let head =
        ["array", "number", "when", "what", "status", "stripe", "member", "bytes", "verdict", "strength"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (array, id, entry) in entries {
        let mut row = vec![array.to_string(), id.to_string()];
        match entry {
            Ok(entry) => row.extend([
                format_date(entry.occasion.time),
                kind(entry),
                entry.status.words(),
                entry.stripe.to_string(),
                members(entry),
                bytes(entry).to_string(),
                entry.occasion.verdict.clone(),
                entry.occasion.strength.clone(),
            ]),
            Err(why) => row.push(why.clone()),
        }
        rows.push(row);
    }
    table(&rows)
}

/// One entry in full.
pub(super) fn paragraph(array: Uuid, entry: &Entry) -> String {
    let mut out = String::new();
    let (lost, sectors) = entry.sectors();
    let _ = writeln!(out, "{} {}, {}", kind(entry), entry.id, entry.status.words());
    let _ = writeln!(out, "array    {array}, {} events then, stripe {}", entry.events, entry.stripe);
    let _ = writeln!(out, "when     {}", format_date(entry.occasion.time));
    let occasion = &entry.occasion;
    let _ = writeln!(out, "why      {}, {}, policy {}", occasion.verdict, occasion.strength, occasion.policy);
    for record in &entry.records {
        let _ = writeln!(
            out,
            "member   {} ({}), {} at {} of the device",
            record.role,
            record.device,
            count(record.old.bytes().len() as u64, "byte"),
            record.device_offset,
        );
    }
    if lost > 0 {
        let _ = writeln!(
            out,
            "lost     {lost} of {}: the drive had refused them, so there is nothing to put back",
            count(sectors as u64, "sector")
        );
    }
    out
}

/// One entry as JSON.
pub(super) fn one(array: Uuid, entry: &Entry) -> Value {
    let (lost, sectors) = entry.sectors();
    let records: Vec<Value> = entry
        .records
        .iter()
        .map(|record| {
            json!({
                "member": record.role.0,
                "member_uuid": record.member.to_string(),
                "device": record.device,
                "device_offset": record.device_offset,
                "length": record.old.bytes().len(),
                "lost_sectors": record.old.lost_sectors(),
            })
        })
        .collect();
    json!({
        "array": array.to_string(),
        "id": entry.id.0,
        "kind": if entry.intent_kind == IntentKind::Repair { "repair" } else { "undo" },
        "undoes": entry.occasion.undoes.map(|id| id.0),
        "status": entry.status.words(),
        "time": entry.occasion.time,
        "events": entry.events,
        "stripe": entry.stripe,
        "policy": entry.occasion.policy,
        "verdict": entry.occasion.verdict,
        "strength": entry.occasion.strength,
        "sectors": sectors,
        "lost_sectors": lost,
        "records": records,
    })
}

/// All entries as JSON.
pub(super) fn document(entries: &[Listed]) -> Value {
    let listed: Vec<Value> = entries
        .iter()
        .map(|(array, id, entry)| match entry {
            Ok(entry) => one(*array, entry),
            Err(why) => json!({ "array": array.to_string(), "id": id.0, "damaged": why }),
        })
        .collect();
    json!({ "repairs": listed })
}

/// The result of an undo, as JSON.
pub(super) fn undone(done: &[(EntryId, EntryId)], refused: Option<&str>) -> Value {
    let done: Vec<Value> = done.iter().map(|(id, by)| json!({ "id": id.0, "by": by.0 })).collect();
    json!({ "undone": done, "refused": refused })
}

/// The result of an undo, as text.
pub(super) fn undone_words(done: &[(EntryId, EntryId)], refused: Option<&str>) -> String {
    let mut out = String::new();
    for (id, by) in done {
        let _ = writeln!(out, "repair {id} is undone, by entry {by}");
    }
    if done.is_empty() && refused.is_none() {
        out.push_str("there was nothing to undo\n");
    }
    if let Some(why) = refused {
        let _ = writeln!(out, "stopped: {why}");
    }
    out
}

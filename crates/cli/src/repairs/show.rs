//! Entries of the archive, as text and as JSON. `docs/reference/json.md` has the documents.

use crate::page::Page;
use crate::table::{Cell, Column, Table, Tone};
use crate::text::count;
use pumice_base::units::format_date;
use pumice_host::repair::IntentKind;
use pumice_host::repair::archive::{Entry, EntryId};
use pumice_raid::Uuid;
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

/// An entry, or the reason why its file is not a valid entry.
pub(super) type Listed = (Uuid, EntryId, Result<Entry, String>);

/// A repair, as both forms show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Repair {
    array: String,
    id: u64,
    kind: &'static str,
    undoes: Option<u64>,
    status: String,
    time: u64,
    events: u64,
    stripe: u64,
    policy: String,
    verdict: String,
    strength: String,
    sectors: usize,
    lost_sectors: usize,
    records: Vec<Record>,
}

/// A range that it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Record {
    member: u16,
    member_uuid: String,
    device: String,
    device_offset: u64,
    length: usize,
    lost_sectors: Value,
}

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Line {
    Repair(Repair),
    Damaged { array: String, id: u64, damaged: String },
}

impl Line {
    fn place(&self) -> (&str, u64) {
        match self {
            Self::Repair(repair) => (&repair.array, repair.id),
            Self::Damaged { array, id, .. } => (array, *id),
        }
    }

    /// Places the newest first, of whichever array; damaged entries, which have no time, last.
    fn order(&self) -> impl Ord + use<> {
        let (array, id) = self.place();
        let time = match self {
            Self::Repair(repair) => Some(repair.time),
            Self::Damaged { .. } => None,
        };
        (Reverse(time), Reverse(id), array.to_owned())
    }
}

fn kind(kind: &str, undoes: Option<u64>) -> String {
    match undoes {
        Some(id) if kind == "undo" => format!("undo of {id}"),
        _ => kind.to_owned(),
    }
}

/// One entry as JSON.
pub(super) fn one(array: Uuid, entry: &Entry) -> Repair {
    let (lost, sectors) = entry.sectors();
    let records = entry.records.iter().map(|record| Record {
        member: record.role.0,
        member_uuid: record.member.to_string(),
        device: record.device.clone(),
        device_offset: record.device_offset,
        length: record.old.bytes().len(),
        lost_sectors: json!(record.old.lost_sectors()),
    });
    Repair {
        array: array.to_string(),
        id: entry.id.0,
        kind: if entry.intent_kind == IntentKind::Repair { "repair" } else { "undo" },
        undoes: entry.occasion.undoes.map(|id| id.0),
        status: entry.status.words(),
        time: entry.occasion.time,
        events: entry.events,
        stripe: entry.stripe,
        policy: entry.occasion.policy.clone(),
        verdict: entry.occasion.verdict.clone(),
        strength: entry.occasion.strength.clone(),
        sectors,
        lost_sectors: lost,
        records: records.collect(),
    }
}

/// The list, the newest repair of all arrays first.
pub(super) fn list(entries: &[Listed]) -> Vec<Line> {
    let line = |(array, id, entry): &Listed| match entry {
        Ok(entry) => Line::Repair(one(*array, entry)),
        Err(why) => Line::Damaged { array: array.to_string(), id: id.0, damaged: why.clone() },
    };
    let mut lines: Vec<Line> = entries.iter().map(line).collect();
    lines.sort_by_cached_key(Line::order);
    lines
}

/// All entries as JSON.
pub(super) fn document(lines: &[Line]) -> Value {
    json!({ "repairs": lines })
}

/// Characters of a UUID that tell arrays apart: one group of it, or more if two arrays share it.
fn short(arrays: &BTreeSet<&str>) -> usize {
    let tells = |length: &usize| {
        let begins: BTreeSet<&str> = arrays.iter().map(|uuid| uuid.get(..*length).unwrap_or(uuid)).collect();
        begins.len() == arrays.len()
    };
    [8, 17, 26, 35].into_iter().find(tells).unwrap_or(35)
}

/// A table with a row for each entry; then the arrays.
pub(super) fn lines(page: &mut Page, lines: &[Line]) {
    if lines.is_empty() {
        return page.line("no repairs are kept");
    }
    let arrays: BTreeSet<&str> = lines.iter().map(|line| line.place().0).collect();
    let short = short(&arrays);
    let several = arrays.len() > 1;
    let mut columns = vec![Column::right("number")];
    if several {
        columns.push(Column::left("array"));
    }
    columns.extend([
        Column::left("when (UTC)"),
        Column::left("what"),
        Column::left("status").wrapping(1),
        Column::right("stripe"),
        Column::left("member").wrapping(2),
        Column::left("verdict").wrapping(3),
    ]);
    let mut table = Table::new(columns);
    for line in lines {
        let (array, id) = line.place();
        let array = several.then(|| Cell::from(array.get(..short).unwrap_or(array)));
        table.row(std::iter::once(Cell::from(id.to_string())).chain(array).chain(match line {
            Line::Repair(repair) => row(repair),
            Line::Damaged { damaged, .. } => {
                let mut cells: Vec<Cell> = ["-", "-"].map(Cell::from).to_vec();
                cells.push(Cell::toned("damaged", Tone::Bad));
                cells.extend(["-", "-", damaged].map(Cell::from));
                cells
            }
        }));
    }
    page.table(&table);
    page.blank();
    if let (false, Some(array)) = (several, arrays.first()) {
        return page.field("array", array);
    }
    let mut named = Table::new([Column::left("array"), Column::left("uuid")]);
    for array in arrays {
        named.row([array.get(..short).unwrap_or(array), array].map(Cell::from));
    }
    page.table(&named);
}

fn row(repair: &Repair) -> Vec<Cell> {
    let when = format_date(repair.time);
    let roles: Vec<String> = repair.records.iter().map(|record| record.member.to_string()).collect();
    let bytes: usize = repair.records.iter().map(|record| record.length).sum();
    let tone = if repair.status == "begun" { Tone::Warn } else { Tone::Plain };
    vec![
        Cell::from(when.get(..16).unwrap_or(&when)),
        Cell::from(kind(repair.kind, repair.undoes)),
        Cell::toned(&repair.status, tone),
        Cell::from(repair.stripe.to_string()),
        Cell::from(roles.join(", ")),
        Cell::from(format!("{}, {}, {}", repair.verdict, repair.strength, count(bytes as u64, "byte"))),
    ]
}

/// One entry in full.
pub(super) fn paragraph(page: &mut Page, repair: &Repair) {
    page.line(&format!("{} {}, {}", kind(repair.kind, repair.undoes), repair.id, repair.status));
    page.field(
        "array",
        &format!("{}, {} events then, stripe {}", repair.array, repair.events, repair.stripe),
    );
    page.field("when", &format_date(repair.time));
    page.field("why", &format!("{}, {}, policy {}", repair.verdict, repair.strength, repair.policy));
    for record in &repair.records {
        page.field(
            "member",
            &format!(
                "{} ({}), {} at {} of the device",
                record.member,
                record.device,
                count(record.length as u64, "byte"),
                record.device_offset,
            ),
        );
    }
    if repair.lost_sectors > 0 {
        page.field(
            "lost",
            &format!(
                "{} of {}: the drive had refused them, so there is nothing to put back",
                repair.lost_sectors,
                count(repair.sectors as u64, "sector")
            ),
        );
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn repair(array: &str, id: u64, time: u64) -> Line {
        Line::Repair(Repair {
            array: array.to_owned(),
            id,
            kind: "repair",
            undoes: None,
            status: "written".to_owned(),
            time,
            events: 12,
            stripe: 12_345_678,
            policy: "strong".to_owned(),
            verdict: "data damaged".to_owned(),
            strength: "strong evidence".to_owned(),
            sectors: 1,
            lost_sectors: 0,
            records: vec![Record {
                member: 3,
                member_uuid: String::new(),
                device: "/dev/sdd".to_owned(),
                device_offset: 0,
                length: 300,
                lost_sectors: json!([]),
            }],
        })
    }

    #[test]
    fn the_newest_of_all_arrays_is_first_and_arrays_are_told_apart() {
        let a = "01234567:00000000:00000000:00000000";
        let b = "01234567:11111111:00000000:00000000";
        let damaged = Line::Damaged { array: a.to_owned(), id: 9, damaged: "too short".to_owned() };
        let mut all = vec![damaged, repair(a, 1, 100), repair(a, 2, 300), repair(b, 1, 200)];
        all.sort_by_cached_key(Line::order);
        let order: Vec<(&str, u64)> = all.iter().map(Line::place).collect();
        assert_eq!(order, [(a, 2), (b, 1), (a, 1), (a, 9)]);
        let mut page = Page::of(80, false);
        lines(&mut page, &all);
        let text = page.into_text();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        for word in ["00000000", "11111111", "300", "too", "short", a, b] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

//! Pages of the history.

use super::{Drive, Pass};
use crate::daytime::local;
use crate::page::Page;
use crate::progress::for_people;
use crate::scrub::human::{by_member, findings};
use crate::table::{Cell, Column, Table, Tone};
use crate::text::count;
use pumice_base::units::format_decimal;
use pumice_host::finding::Finding;
use pumice_monitor::history::FindingRow;
use serde::Deserialize;

/// Rows of findings that are shown; `--json` has all.
const ROWS: usize = 40;
/// Digits of a pass that are shown.
const DIGITS: usize = 8;

/// Findings of a pass.
pub(super) enum Findings {
    /// As the scrub reported them.
    Whole(Vec<Finding>),
    /// As the database has them, if the report is no longer kept.
    Rows(Vec<FindingRow>),
}

/// The findings of a scrub's document; `None` if they are of another version.
pub(super) fn findings_of(document: &[u8]) -> Option<Vec<Finding>> {
    #[derive(Deserialize)]
    struct Document {
        findings: Vec<Finding>,
    }
    serde_json::from_slice::<Document>(document).ok().map(|document| document.findings)
}

fn tone(result: &str) -> Tone {
    match result {
        "clean" => Tone::Good,
        "findings" => Tone::Bad,
        _ => Tone::Warn,
    }
}

fn dash(text: Option<String>) -> Cell {
    Cell::from(text.unwrap_or_else(|| "-".to_owned()))
}

/// Name of the array of a pass.
fn name(pass: &Pass) -> &str {
    let named = pass.name.as_deref().filter(|name| !name.is_empty());
    named.or(pass.array.as_deref()).unwrap_or("-")
}

/// Passes, one a row.
pub(super) fn passes(page: &mut Page, all: &[Pass]) {
    if all.is_empty() {
        return page.line("no pass is known");
    }
    let columns = [
        Column::left("pass"),
        Column::left("ended"),
        Column::left("array").wrapping(2),
        Column::left("result"),
        Column::right("found"),
        Column::right("repaired"),
        Column::right("read"),
        Column::left("by").wrapping(1),
    ];
    let mut table = Table::new(columns);
    for pass in all {
        let result = pass.result.replace('_', " ");
        let part = if pass.complete || pass.result == "incomplete" { "" } else { ", part" };
        table.row([
            Cell::from(pass.pass.get(..DIGITS).unwrap_or(&pass.pass)),
            Cell::from(local(pass.ended)),
            Cell::from(name(pass)),
            Cell::toned(&format!("{result}{part}"), tone(&pass.result)),
            Cell::from(pass.findings.to_string()),
            Cell::from(pass.repaired.to_string()),
            Cell::from(for_people(pass.seconds as u64)),
            Cell::from(pass.by.strip_prefix("pumice-").unwrap_or(&pass.by)),
        ]);
    }
    page.table(&table);
}

/// One pass, and what it found.
pub(super) fn report(pass: &Pass, found: &Findings) {
    let mut page = Page::new();
    let word = pass.result.replace('_', " ").to_uppercase();
    let repaired = if pass.repaired > 0 { format!(", {} repaired", pass.repaired) } else { String::new() };
    let what = match pass.findings {
        0 => "nothing inconsistent found".to_owned(),
        n => format!("{}{repaired}", count(n, "finding")),
    };
    page.headline(tone(&pass.result), &word, &format!("{}: {what}", name(pass)));
    page.blank();
    page.field("array", &format!("{}, {}", name(pass), pass.array.as_deref().unwrap_or("-")));
    let of = if pass.complete { "" } else { ", a part of the array" };
    page.field("pass", &format!("{}, by {}", pass.pass, pass.by));
    page.field("", &format!("from {} to {}", local(pass.begun), local(pass.ended)));
    let rate = pass.bytes_checked as f64 / pass.seconds.max(1e-9);
    page.field(
        "checked",
        &format!(
            "{} of {}..{}{of}, {} in {} of reading ({}/s), method {}",
            count(pass.stripes_checked, "stripe"),
            pass.range.start,
            pass.range.end,
            format_decimal(pass.bytes_checked),
            for_people(pass.seconds as u64),
            format_decimal(rate as u64),
            pass.method,
        ),
    );
    if let Some(why) = &pass.stopped {
        page.field("stopped", why);
    }
    if pass.busy > 0 {
        page.field("busy", &format!("{} could not be judged", count(pass.busy, "stripe")));
    }
    match found {
        Findings::Rows(rows) if !rows.is_empty() => {
            page.blank();
            page.table(&table(rows));
            if rows.len() > ROWS {
                page.line(&format!("… and {} more", rows.len() - ROWS));
            }
            page.line("The report of this pass is no longer kept, or is of another version.");
        }
        _ => {}
    }
    if let Findings::Whole(all) = found
        && !all.is_empty()
    {
        page.lines(&by_member(all, true));
        page.blank();
        page.lines(&findings(all));
    }
    page.print();
}

fn table(rows: &[FindingRow]) -> Table {
    let columns = [
        Column::right("stripe"),
        Column::left("member"),
        Column::left("device").wrapping(2),
        Column::right("at"),
        Column::right("bytes"),
        Column::left("verdict").wrapping(1),
        Column::left("evidence"),
    ];
    let mut table = Table::new(columns);
    for row in rows.iter().take(ROWS) {
        let finding = &row.finding;
        let repaired = if finding.repaired { ", repaired" } else { "" };
        table.row([
            Cell::from(finding.stripe.get().to_string()),
            dash(finding.member.map(|role| format!("role {role}"))),
            dash(finding.device.as_ref().map(ToString::to_string)),
            dash(finding.device_offset.map(|offset| offset.get().to_string())),
            Cell::from(finding.length.get().to_string()),
            Cell::from(format!("{}{repaired}", finding.verdict.as_str().replace('_', " "))),
            Cell::from(finding.strength.as_str()),
        ]);
    }
    table
}

/// Drives, one a row.
pub(super) fn drives(page: &mut Page, all: &[Drive]) {
    if all.is_empty() {
        return page.line("no drive is known");
    }
    let columns = [
        Column::left("device").wrapping(1),
        Column::left("model").wrapping(3),
        Column::left("serial").wrapping(2),
        Column::left("health"),
        Column::right("°C"),
        Column::right("errors"),
        Column::right("worn"),
        Column::right("hours"),
        Column::left("asked"),
    ];
    let mut table = Table::new(columns);
    for drive in all {
        let tone = match drive.state {
            "failing" => Tone::Bad,
            "suspect" => Tone::Warn,
            "well" => Tone::Good,
            _ => Tone::Plain,
        };
        table.row([
            Cell::from(if drive.device.is_empty() { &drive.drive } else { &drive.device }),
            Cell::from(&drive.model),
            Cell::from(&drive.serial),
            Cell::toned(drive.state, tone),
            dash(drive.celsius.map(|degrees| degrees.to_string())),
            dash(drive.media_errors.map(|errors| errors.to_string())),
            dash(drive.worn_percent.map(|percent| format!("{percent} %"))),
            dash(drive.power_on_hours.map(|hours| hours.to_string())),
            dash(drive.sampled.map(local)),
        ]);
    }
    page.table(&table);
}

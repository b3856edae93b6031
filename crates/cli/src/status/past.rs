//! The history of arrays: their last passes, and places that are still damaged.

use super::document::{Alert, Damage, DamageOf, Pass};
use pumice_monitor::history::{ArrayRow, Error, Event, FindingRow, Limit, PassRow, Reader, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Passes of an array that are looked at: the last ones.
const PASSES: usize = 100;
/// Findings of a pass that are looked at.
const FINDINGS: usize = 5_000;

/// Contents of the history.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) arrays: Vec<PastArray>,
    pub(super) alerts: Vec<Alert>,
}

/// An array that passes were made of.
#[derive(Debug, Clone)]
pub(super) struct PastArray {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) level: i16,
    pub(super) last_complete: Option<Pass>,
    pub(super) last: Option<Pass>,
    pub(super) damage: Option<Damage>,
}

pub(super) const fn seconds(time: Time) -> u64 {
    time.micros().unsigned_abs() / 1_000_000
}

fn pass(row: &PassRow) -> Pass {
    Pass {
        pass: row.pass.to_string(),
        by: row.by.to_string(),
        begun: seconds(row.begun),
        ended: seconds(row.ended),
        seconds: row.reading_us.get() / 1_000_000,
        result: row.result.to_string(),
        findings: row.findings.get(),
        repaired: row.repaired.get(),
    }
}

/// Reads the history.
pub(super) fn read(path: &Path) -> Result<Past, Error> {
    let reader = Reader::open(path)?;
    let mut past = Past::default();
    let mut after = None;
    loop {
        let page = reader.arrays(after.as_ref(), Limit::MAX)?;
        for row in &page {
            past.arrays.push(array(&reader, row)?);
        }
        match page.into_iter().last() {
            Some(last) => after = Some(last.uuid),
            None => break,
        }
    }
    let open = reader.open_alerts(0, Limit::MAX)?;
    let alert = |event: Event| Alert {
        array: event.array.map(|uuid| uuid.to_string()),
        kind: event.kind.to_string(),
        severity: event.severity.as_str(),
        subject: event.subject.to_string(),
        text: event.text.to_string(),
        since: seconds(event.at),
    };
    past.alerts = open.into_iter().map(|row| alert(row.event)).collect();
    past.alerts.retain(|alert| alert.severity != "info");
    Ok(past)
}

fn array(reader: &Reader, row: &ArrayRow) -> Result<PastArray, Error> {
    let passes = reader.passes(Some(row), None, Limit::nearest(PASSES))?;
    let last = passes.first().map(pass);
    let complete = reader.last_complete(row)?;
    // Those since the last one that judged the whole array, the oldest first.
    let since: Vec<PassRow> = match &complete {
        Some(complete) => {
            let later = passes.into_iter().take_while(|pass| pass.pass != complete.pass);
            let mut since: Vec<PassRow> = later.collect();
            since.push(complete.clone());
            since
        }
        None => passes,
    };
    Ok(PastArray {
        uuid: row.uuid.to_string(),
        name: row.name.to_string(),
        level: row.level,
        last_complete: complete.as_ref().map(pass),
        last,
        damage: damage(reader, since.iter().rev())?,
    })
}

/// A place that is damaged, and the end of the pass that found it first.
struct Open {
    finding: FindingRow,
    since: u64,
}

/// The places that passes, the oldest first, leave damaged.
fn damage<'p>(reader: &Reader, passes: impl Iterator<Item = &'p PassRow>) -> Result<Option<Damage>, Error> {
    let mut open: Vec<Open> = Vec::new();
    for pass in passes {
        let mut found = findings(reader, pass)?;
        found.retain(|row| is_damage(row.finding.verdict.as_str()) && !row.finding.repaired);
        let judged = matches!(pass.result.as_str(), "clean" | "findings" | "copies_differ");
        let key = |row: &FindingRow| (row.finding.stripe, row.finding.member, row.finding.chunk_offset);
        let named: BTreeSet<_> = found.iter().map(key).collect();
        let mut before: BTreeMap<_, u64> = BTreeMap::new();
        open.retain(|place| {
            let stripe = place.finding.finding.stripe;
            let again = named.contains(&key(&place.finding));
            if again {
                before.insert(key(&place.finding), place.since);
            }
            // A pass that judged the stripe and does not name the place found it well, or has
            // repaired it.
            let is_judged = judged && (pass.first_stripe..pass.end_stripe).contains(&stripe);
            !(again || is_judged)
        });
        let ended = seconds(pass.ended);
        open.extend(found.into_iter().map(|finding| {
            let since = before.get(&key(&finding)).copied().unwrap_or(ended);
            Open { finding, since }
        }));
    }
    Ok(summed(&open))
}

fn findings(reader: &Reader, pass: &PassRow) -> Result<Vec<FindingRow>, Error> {
    let mut all: Vec<FindingRow> = Vec::new();
    if pass.findings.get() == 0 {
        return Ok(all);
    }
    while all.len() < FINDINGS {
        let page = reader.findings(pass, all.last().map_or(0, |last| last.number + 1), Limit::MAX)?;
        let is_last = page.len() < 1000;
        all.extend(page);
        if is_last {
            break;
        }
    }
    Ok(all)
}

/// Returns whether a verdict is damage: copies may differ without any, and a stripe that was being
/// written, or not asked for, says nothing.
fn is_damage(verdict: &str) -> bool {
    !matches!(verdict, "busy" | "copy" | "copies_differ" | "not_asked")
}

/// The words for verdicts of the history.
pub(super) fn verdict_words(verdict: &str) -> String {
    match verdict {
        "member" => "data damaged".to_owned(),
        "parity_p" => "parity P damaged".to_owned(),
        "parity_q" => "parity Q damaged".to_owned(),
        "tag_damaged" => "tag damaged, data good".to_owned(),
        "unlocated" => "member unknown".to_owned(),
        other => other.replace('_', " "),
    }
}

fn summed(open: &[Open]) -> Option<Damage> {
    let since = open.iter().map(|place| place.since).min()?;
    let mut kinds: BTreeMap<(Option<u16>, String, String), DamageOf> = BTreeMap::new();
    let mut repairable = 0;
    for Open { finding, .. } in open {
        let finding = &finding.finding;
        let (verdict, strength) = (finding.verdict.to_string(), finding.strength.as_str());
        repairable += u64::from(finding.member.is_some() && matches!(strength, "strong" | "proven"));
        let evidence = if finding.member.is_some() { strength } else { "-" };
        let device = finding.device.as_ref().map(ToString::to_string);
        let key = (finding.member, verdict.clone(), evidence.to_owned());
        let evidence = evidence.to_owned();
        let member = finding.member;
        let new = DamageOf { member, device, places: 0, verdict, evidence, serial: None, health: None };
        kinds.entry(key).or_insert(new).places += 1;
    }
    let mut kinds: Vec<DamageOf> = kinds.into_values().collect();
    kinds.sort_by_key(|kind| (kind.member.is_none(), std::cmp::Reverse(kind.places), kind.member));
    Some(Damage { places: open.len() as u64, repairable, since, kinds })
}

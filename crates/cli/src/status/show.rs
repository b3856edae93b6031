//! The page of `pumice status`, made from the document alone.

use super::document::{Absent, Array, Damage, Document, Kind, Member, Pass, Rebuild, Scrub, State};
use super::past::verdict_words;
use crate::daytime::local;
use crate::page::Page;
use crate::progress::for_people;
use crate::table::{Cell, Column, Table, Tone};
use crate::text::count;
use pumice_base::units::format_decimal;
use std::collections::BTreeSet;

/// Arrays that are shown one by one on a page of many.
const SHOWN: usize = 8;
/// Errors of a volume that are shown.
const ERRORS: usize = 3;
/// Places from which one member is called suspect, and the share of them.
const MANY: u64 = 8;
const SHARE: u64 = 80;

/// Choice of a person.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    /// Names of arrays; none: all.
    pub(super) names: &'a [String],
    /// Only what is not well.
    pub(super) only_wrong: bool,
}

/// The page.
pub(super) fn page(page: &mut Page, document: &Document, asked: Asked<'_>) {
    if !asked.names.is_empty() {
        for (number, array) in document.arrays.iter().enumerate() {
            if number > 0 {
                page.blank();
            }
            detail(page, document, array);
        }
        return footer(page, document, asked);
    }
    let mut wrong: Vec<&Array> = document.arrays.iter().filter(|array| array.state > State::Ok).collect();
    wrong.sort_by_key(|array| std::cmp::Reverse(array.state));
    let one = match document.arrays.as_slice() {
        [one] if one.state == document.state => Some(one),
        _ => None,
    };
    match (one, wrong.first()) {
        (Some(array), _) => detail(page, document, array),
        (None, Some(first)) if first.state == document.state => {
            for (number, array) in wrong.iter().take(SHOWN).enumerate() {
                if number > 0 {
                    page.blank();
                }
                detail(page, document, array);
            }
            if wrong.len() > SHOWN {
                page.blank();
                page.line(&format!("and {} more arrays that need you", wrong.len() - SHOWN));
            }
        }
        (None, _) => page.headline(tone(document.state), document.state.word(), &summary(document)),
    }
    if one.is_none() && !document.arrays.is_empty() && !asked.only_wrong {
        page.blank();
        page.table(&overview(document));
    }
    footer(page, document, asked);
}

const fn tone(state: State) -> Tone {
    match state {
        State::Ok => Tone::Good,
        State::Unknown | State::Warning => Tone::Warn,
        State::Damage | State::Degraded | State::Held => Tone::Bad,
    }
}

/// The words after the state of the machine, if no array is the reason for it.
fn summary(document: &Document) -> String {
    match document.state {
        State::Warning => match document.alerts.first() {
            Some(alert) => alert.text.clone(),
            None if document.monitor.running => "alerts do not get through".to_owned(),
            None => "the monitor is not running: no pass begins by itself, and nobody is told".to_owned(),
        },
        State::Unknown => match document.silent.len() {
            0 => "the history could not be read".to_owned(),
            1 => "one of those that were asked gave no answer".to_owned(),
            n => format!("{n} of those that were asked gave no answer"),
        },
        _ if document.arrays.is_empty() => "no array runs or is served here".to_owned(),
        _ => {
            let volumes = document.arrays.iter().filter(|array| array.kind == Kind::Volume).count();
            let mut parts = vec![count(document.arrays.len() as u64, "array")];
            if volumes > 0 {
                parts.push(count(volumes as u64, "volume"));
            }
            parts.push(count(document.drives as u64, "drive"));
            format!("{}; nothing needs you", parts.join(", "))
        }
    }
}

fn overview(document: &Document) -> Table {
    let columns = [
        Column::left("array").wrapping(3),
        Column::left("level"),
        Column::right("size"),
        Column::left("state").wrapping(2),
        Column::left("last complete pass").wrapping(1),
        Column::right("found"),
        Column::left("next"),
    ];
    let mut table = Table::new(columns);
    for array in &document.arrays {
        let pass = |pass: &Pass| format!("{}, {}", local(pass.ended), for_people(pass.seconds));
        let found = array.damage.as_ref().map_or(0, |damage| damage.places);
        let next = match array.next {
            None => "-".to_owned(),
            Some(next) if next <= document.at => "due".to_owned(),
            Some(next) => format!("in {}", for_people(next - document.at)),
        };
        table.row([
            Cell::from(&array.name),
            Cell::from(&array.level),
            Cell::from(array.bytes.map_or_else(|| "-".to_owned(), format_decimal)),
            Cell::toned(
                &array.condition,
                if array.state == State::Ok { Tone::Plain } else { tone(array.state) },
            ),
            Cell::from(array.last_complete.as_ref().map_or_else(|| "-".to_owned(), pass)),
            Cell::from(if array.last.is_none() { "-".to_owned() } else { found.to_string() }),
            Cell::from(next),
        ]);
    }
    table
}

/// One array.
fn detail(page: &mut Page, document: &Document, array: &Array) {
    page.headline(tone(array.state), array.state.word(), &headline(document, array));
    page.blank();
    let is_lost = matches!(array.state, State::Degraded | State::Held);
    match &array.damage {
        Some(damage) if !is_lost => damaged(page, array, damage),
        other => {
            page.field(if array.kind == Kind::Volume { "volume" } else { "array" }, &about(array));
            if is_lost {
                lost(page, array);
            }
            if let Some(damage) = other {
                page.blank();
                damaged(page, array, damage);
            }
        }
    }
    if let Some(rebuild) = array.rebuild.as_ref().filter(|rebuild| !is_lost || rebuild.action != "recover") {
        page.field("kernel", &format!("{}: {}", rebuild.action, progress(rebuild)));
    }
    match &array.scrub {
        Some(scrub) => scrubbed(page, array, scrub),
        None => page.field("scrubs", &scrubs(document, array)),
    }
    for error in array.errors.iter().rev().take(ERRORS) {
        page.field("error", error);
    }
}

fn plural_failures(survives: usize) -> String {
    match survives {
        0 => "no further failure is survived".to_owned(),
        1 => "one more failure is survived".to_owned(),
        n => format!("{n} more failures are survived"),
    }
}

fn roles(array: &Array, states: &[&str]) -> Vec<String> {
    let of = array.members.iter().filter(|member| states.contains(&member.state.as_str()));
    of.map(|member| member.role.to_string()).collect()
}

fn named(roles: &[String]) -> String {
    format!("{} {}", if roles.len() == 1 { "role" } else { "roles" }, roles.join(", "))
}

fn headline(document: &Document, array: &Array) -> String {
    let name = &array.name;
    let survives = array.survives.map_or(String::new(), |n| format!("; {}", plural_failures(n)));
    match array.state {
        State::Held if array.kind == Kind::Volume => {
            format!("{name}: more members are missing than it survives; nothing is written")
        }
        State::Held => format!("{name} does not run: the kernel says that it is {}", array.condition),
        State::Degraded => {
            let (gone, new) = (roles(array, &["missing", "lost"]), roles(array, &["rebuilding"]));
            match (gone.is_empty(), new.is_empty()) {
                (false, _) => format!("{name} has lost {}{survives}", named(&gone)),
                (true, false) => format!("{name} is rebuilding {}{survives}", named(&new)),
                (true, true) => format!("{name} has lost members{survives}"),
            }
        }
        State::Damage => array.damage.as_ref().map_or_else(
            || format!("{name} is damaged"),
            |Damage { places, repairable, .. }| {
                let places = match places {
                    1 => "1 place is damaged".to_owned(),
                    n => format!("{n} places are damaged"),
                };
                match repairable {
                    0 => format!("{name}: {places}, and the evidence names no member strongly enough"),
                    n => format!("{name}: {places}, {n} of them can be repaired"),
                }
            },
        ),
        State::Warning | State::Unknown => {
            let alert = document.alerts.iter().find(|alert| alert.array == array.uuid);
            alert.map_or_else(|| name.clone(), |alert| format!("{name}: {}", alert.text))
        }
        State::Ok if array.scrub.is_some() => format!("{name} is being scrubbed"),
        State::Ok => format!("{name} is {}", array.condition),
    }
}

/// An array in a line.
fn about(array: &Array) -> String {
    let mut parts = vec![array.name.clone(), array.level.clone()];
    if !array.members.is_empty() {
        let far = array.members.iter().filter_map(|member| member.device.as_deref()?.strip_prefix("nvme://"));
        let hosts: BTreeSet<&str> = far.filter_map(|place| place.split('/').next()).collect();
        let on = if hosts.is_empty() {
            String::new()
        } else {
            format!(" on {}", count(hosts.len() as u64, "node"))
        };
        parts.push(format!("{}{on}", count(array.members.len() as u64, "drive")));
    }
    parts.extend(array.bytes.map(format_decimal));
    match (array.kind, array.state) {
        (Kind::Volume, State::Degraded | State::Held) => parts.push("in service".to_owned()),
        _ => parts.push(array.condition.clone()),
    }
    if let Some(survives) = array.survives.filter(|_| array.state < State::Degraded) {
        parts.push(format!("survives {}", count(survives as u64, "more failure")));
    }
    parts.join(", ")
}

/// Members that are not in sync, and what can be done.
fn lost(page: &mut Page, array: &Array) {
    for member in array.members.iter().filter(|member| member.state != "in_sync") {
        let title = format!("role {}", member.role);
        let device = member.device.as_deref().unwrap_or("its drive");
        match (member.state.as_str(), &member.absent) {
            ("rebuilding", _) => page.field(&title, &rebuilding(array, member)),
            (_, Some(Absent { since, device, why, kept_out })) => {
                page.field(&title, &format!("{device} failed {}: {why}", local(*since)));
                if let Some(why) = kept_out {
                    page.field("", &format!("the drive answers again, and has not its role back: {why}"));
                    page.field("", &format!("pumice volume add {} {device}", array.name));
                }
            }
            ("lost", None) => page.field(&title, &format!("{device} does not answer")),
            (_, None) => {
                page.field(&title, "has no drive; give it one:");
                page.field(
                    "",
                    &match array.kind {
                        Kind::Volume => format!("pumice volume add {} DEVICE", array.name),
                        _ => format!("mdadm /dev/{} --add DEVICE", array.name),
                    },
                );
            }
        }
    }
}

fn rebuilding(array: &Array, member: &Member) -> String {
    match (member.rebuilt, &array.rebuild) {
        (Some(n), _) => format!("rebuilding: {}.{} %", n / 10, n % 10),
        (None, Some(rebuild)) => format!("rebuilding: {}", progress(rebuild)),
        (None, None) => "waits for its rebuild".to_owned(),
    }
}

fn progress(rebuild: &Rebuild) -> String {
    let done = rebuild.done_per_mille.map(|n| format!("{}.{} %", n / 10, n % 10));
    let rate = rebuild.bytes_per_s.map(|rate| format!("{}/s", format_decimal(rate)));
    let left = rebuild.seconds_left.map(|left| format!("about {} left", for_people(left)));
    let parts: Vec<String> = [done, rate, left].into_iter().flatten().collect();
    if parts.is_empty() { "under way".to_owned() } else { parts.join(", ") }
}

/// The line about passes.
fn scrubs(document: &Document, array: &Array) -> String {
    let last = match &array.last_complete {
        Some(pass) => {
            let age = for_people(document.at.saturating_sub(pass.ended));
            format!("last complete pass {} ({age} ago), {}", local(pass.ended), pass.result.replace('_', " "))
        }
        None if document.history.why.is_some() && !document.history.missing => {
            "the history has no passes to tell".to_owned()
        }
        None => "no complete pass is known".to_owned(),
    };
    if array.condition == "rebuilding" { format!("wait until the rebuild has ended; {last}") } else { last }
}

fn scrubbed(page: &mut Page, array: &Array, scrub: &Scrub) {
    let per_mille = u128::from(scrub.stripes) * 1000 / u128::from(scrub.of_stripes.max(1));
    let mut first = format!("{}.{} % of {}", per_mille / 10, per_mille % 10, stripes(scrub.of_stripes));
    if let Some(begun) = scrub.begun {
        first += &format!(", begun {}", local(begun));
    }
    if let Some(by) = &scrub.by {
        first += &format!(" by {by}");
    }
    page.field("pass", &first);
    let mut pace = Vec::new();
    pace.extend(scrub.rate.map(|rate| format!("at most {}/s from each drive", format_decimal(rate))));
    pace.extend(
        scrub.slowdown_ns.map(|ns| format!("slows other users by {:.1} ms at most", ns as f64 / 1e6)),
    );
    if !pace.is_empty() {
        page.field("", &pace.join("; "));
    }
    let found = match scrub.findings {
        0 => "nothing found".to_owned(),
        n => count(n, "finding"),
    };
    let state = if scrub.state == "running" { String::new() } else { format!("; {}", scrub.state) };
    page.field("", &format!("{found}{state}"));
    if let Some(note) = &scrub.note {
        page.field("", note);
    }
    let name = &array.name;
    page.field(
        "control",
        &format!("pumice scrub pause {name} | go-on {name} | stop {name} | pace {name} --rate 50MB"),
    );
}

/// A number of stripes with commas between thousands.
fn stripes(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + if number == 1 { " stripe" } else { " stripes" }
}

fn damaged(page: &mut Page, array: &Array, damage: &Damage) {
    page.table(&places(damage));
    page.blank();
    let mut by_member: Vec<(u16, u64, Option<&str>)> = Vec::new();
    for kind in &damage.kinds {
        let Some(member) = kind.member else { continue };
        match by_member.iter_mut().find(|(role, ..)| *role == member) {
            Some((_, places, _)) => *places += kind.places,
            None => by_member.push((member, kind.places, kind.device.as_deref())),
        }
    }
    if let Some((member, places, device)) = by_member.into_iter().max_by_key(|(_, places, _)| *places)
        && damage.places >= MANY
        && places * 100 >= damage.places * SHARE
    {
        let share = (places * 100 + damage.places / 2) / damage.places;
        page.line(&format!(
            "role {member} has {share} % of the places: a failing drive is likely. Its SMART data:"
        ));
        let device = device.filter(|device| device.starts_with("/dev/")).unwrap_or("DEVICE");
        page.field("", &format!("smartctl -x {device}"));
    }
    page.field("look", &format!("pumice report {}   each place, and what else it could be", array.name));
    for (title, line) in ["next", "", ""].into_iter().zip(repair(array)) {
        page.field(title, &line);
    }
    page.field("since", &local(damage.since));
}

/// The commands of a repair.
fn repair(array: &Array) -> Vec<String> {
    let devices: Vec<&str> = array.members.iter().filter_map(|member| member.device.as_deref()).collect();
    let devices = devices.join(" ");
    match array.kind {
        Kind::Md => vec![
            format!("pumice scrub --dry-run --allow-in-use /dev/{}   writes nothing", array.name),
            format!("mdadm --stop /dev/{}, then pumice scrub --repair {devices}", array.name),
        ],
        Kind::Volume => vec![
            format!("pumice scrub --repair --dry-run {devices}"),
            "then without --dry-run; the volume stays in service".to_owned(),
        ],
        Kind::Known => {
            vec!["pumice scrub --repair --dry-run MEMBERS   then without --dry-run".to_owned()]
        }
    }
}

fn places(damage: &Damage) -> Table {
    let has_health = damage.kinds.iter().any(|kind| kind.health.is_some());
    let mut columns = vec![
        Column::left("member"),
        Column::left("device").wrapping(4),
        Column::right("places"),
        Column::left("verdict").wrapping(3),
        Column::left("evidence").wrapping(2),
        Column::left("serial").wrapping(1),
    ];
    if has_health {
        columns.push(Column::left("SMART"));
    }
    let mut table = Table::new(columns);
    for kind in &damage.kinds {
        let member = kind.member.map_or_else(|| "(no member)".to_owned(), |role| format!("role {role}"));
        let health = kind.health.as_deref().unwrap_or("-");
        let mut row = vec![
            Cell::from(member),
            Cell::from(kind.device.as_deref().unwrap_or("-")),
            Cell::from(kind.places.to_string()),
            Cell::from(verdict_words(&kind.verdict)),
            Cell::from(&kind.evidence),
            Cell::from(kind.serial.as_deref().unwrap_or("-")),
        ];
        if has_health {
            row.push(Cell::toned(health, if health == "failing" { Tone::Bad } else { Tone::Plain }));
        }
        table.row(row);
    }
    table
}

/// Lines that are not about one array: alerts, who gave no answer, the monitor, the history.
fn footer(page: &mut Page, document: &Document, asked: Asked<'_>) {
    let mut lines: Vec<(&str, String)> = Vec::new();
    let of_all = asked.names.is_empty();
    for alert in document.alerts.iter().filter(|alert| of_all || alert.array.is_some()) {
        let of = if alert.subject.is_empty() { String::new() } else { format!(" {}", alert.subject) };
        lines.push(("alert", format!("{} ({}{of}, since {})", alert.text, alert.kind, local(alert.since))));
    }
    for silent in &document.silent {
        lines.push(("silent", format!("{}: {}", silent.what, silent.why)));
    }
    if of_all && !document.nodes.is_empty() && !asked.only_wrong {
        let drives: usize = document.nodes.iter().filter_map(|node| node.drives).sum();
        let nodes = count(document.nodes.len() as u64, "node process").replace("processs", "processes");
        lines.push(("nodes", format!("{nodes} here, {}", count(drives as u64, "drive"))));
    }
    match (document.monitor.running, document.monitor.expected) {
        (true, _) => {}
        (false, true) => lines.push((
            "monitor",
            "is not running: no pass begins by itself, and nobody is told (pumice-monitor.service)"
                .to_owned(),
        )),
        (false, false) if !asked.only_wrong => {
            lines.push((
                "monitor",
                "is not used here: no pass begins by itself, and nobody is told".to_owned(),
            ));
        }
        (false, false) => {}
    }
    for failed in &document.monitor.failed {
        lines.push(("channel", format!("{} fails: {}", failed.channel, failed.why)));
    }
    if let (Some(why), false) = (&document.history.why, document.history.missing) {
        lines.push(("history", why.clone()));
    }
    if !lines.is_empty() {
        page.blank();
    }
    for (title, line) in lines {
        page.field(title, &line);
    }
}

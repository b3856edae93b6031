//! Findings as text, one paragraph each.

use crate::table::{COLUMNS, Cell, Column, Table};
use crate::text::count;
use pumice_host::finding::{Certainty, Finding, Says, Strength, Verdict, WitnessFigures};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Findings that are listed in full.
const LISTED: usize = 40;

/// The findings, one paragraph each.
pub(crate) fn findings(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings.iter().take(LISTED) {
        let _ = writeln!(out, "stripe {}: {}", finding.stripe, headline(finding));
        let _ = writeln!(out, "    {}", place(finding));
        out.push_str(&evidence(finding));
        out.push_str(&alternatives(finding));
        if let Some(why) = finding.unsettled {
            let clause = finding.clause.map_or_else(String::new, |clause| format!(" ({clause})"));
            let _ = writeln!(out, "    because {}{clause}", why.words());
        }
    }
    if findings.len() > LISTED {
        let _ = writeln!(out, "… and {} more; --json lists them all", findings.len() - LISTED);
    }
    out
}

/// Fewest places of damage for which members are counted.
const MANY: usize = 8;
/// Of ten places of damage, the number on one member from which its drive may be failing.
const MOST_OF_TEN: usize = 8;
/// Rows of members, at most.
const MEMBERS: usize = 6;

/// Damage of one member, by verdict and evidence.
struct Damaged<'f> {
    member: Option<u16>,
    device: Option<&'f str>,
    verdict: &'static str,
    evidence: &'static str,
    places: usize,
}

/// Places of damage by member, verdict and evidence: the most first, those of no member last.
fn damaged<'f>(findings: &[&'f Finding]) -> Vec<Damaged<'f>> {
    let mut kinds: BTreeMap<(Option<u16>, &str, &str), Damaged<'f>> = BTreeMap::new();
    for finding in findings {
        let named = finding.names_a_member() || finding.verdict == Verdict::Unreadable;
        let member = finding.member.filter(|_| named);
        let verdict = finding.verdict.words();
        let word = finding.strength.word();
        let evidence = if member.is_some() { word.strip_suffix(" evidence").unwrap_or(word) } else { "-" };
        let device = finding.device.as_deref().filter(|_| member.is_some());
        let new = Damaged { member, device, verdict, evidence, places: 0 };
        kinds.entry((member, verdict, evidence)).or_insert(new).places += 1;
    }
    let mut all: Vec<Damaged<'f>> = kinds.into_values().collect();
    all.sort_by_key(|kind| (kind.member.is_none(), std::cmp::Reverse(kind.places), kind.member));
    all
}

/// The places of damage by member, the most damaged one first, if there are many places. A member
/// with most of them may be a failing drive, unless a pattern (`has_pattern`) has another cause.
pub(crate) fn by_member(findings: &[Finding], has_pattern: bool) -> String {
    let counted: Vec<&Finding> = findings.iter().filter(|finding| counts(finding)).collect();
    if counted.len() < MANY {
        return String::new();
    }
    let kinds = damaged(&counted);
    let columns = [
        Column::left("member"),
        Column::left("device").wrapping(1),
        Column::right("places"),
        Column::left("verdict").wrapping(2),
        Column::left("evidence").wrapping(3),
    ];
    let mut table = Table::new(columns);
    for kind in kinds.iter().take(MEMBERS) {
        let member = kind.member.map_or_else(|| "(no member)".to_owned(), |role| format!("role {role}"));
        let places = kind.places.to_string();
        table
            .row([&member, kind.device.unwrap_or("-"), &places, kind.verdict, kind.evidence].map(Cell::from));
    }
    let mut out = format!("\n{}", table.text(COLUMNS, false));
    if kinds.len() > MEMBERS {
        let _ = writeln!(out, "… and {} more kinds of damage", kinds.len() - MEMBERS);
    }
    let mut members: BTreeMap<u16, (usize, Option<&str>)> = BTreeMap::new();
    for kind in &kinds {
        let Some(member) = kind.member else { continue };
        let entry = members.entry(member).or_default();
        *entry = (entry.0 + kind.places, kind.device);
    }
    if let Some((member, (places, device))) = members.into_iter().max_by_key(|(_, (places, _))| *places)
        && !has_pattern
        && places * 10 >= counted.len() * MOST_OF_TEN
    {
        let device = device.filter(|device| device.starts_with("/dev/")).unwrap_or("DEVICE");
        let share = places * 100 / counted.len();
        let _ = writeln!(
            out,
            "role {member} has {share} % of the places: the drive may be failing. Its SMART data:\n         smartctl -x {device}"
        );
    }
    out
}

/// Returns whether a finding counts as damage of a drive. Copies may differ without damage; damage
/// of tags leaves the data good; and a place that was not asked for says nothing.
fn counts(finding: &Finding) -> bool {
    let verdict = finding.verdict;
    let other = matches!(verdict, Verdict::NotAsked | Verdict::TagDamaged | Verdict::TagLost);
    is_damage(finding) && !verdict.is_of_copies() && !other
}

/// Returns whether a finding is damage. A stripe that is being written is none.
pub(crate) fn is_damage(finding: &Finding) -> bool {
    finding.verdict != Verdict::Busy
}

/// The other explanations, one line for each kind.
fn alternatives(finding: &Finding) -> String {
    let mut kinds: Vec<(&str, Vec<String>)> = Vec::new();
    for alternative in &finding.alternatives {
        let members: Vec<String> = alternative.members.iter().map(ToString::to_string).collect();
        let members = members.join(" and ");
        match kinds.iter_mut().find(|(reason, _)| *reason == alternative.reason) {
            Some((_, all)) => all.push(members),
            None => kinds.push((&alternative.reason, vec![members])),
        }
    }
    let mut out = String::new();
    for (reason, members) in kinds {
        let _ = match members.as_slice() {
            [none] if none.is_empty() => writeln!(out, "    or: {reason}"),
            all => writeln!(out, "    or members {}: {reason}", all.join(", or ")),
        };
    }
    out
}

/// The error of the named member, and why the evidence is strong or weak.
fn evidence(finding: &Finding) -> String {
    let mut out = String::new();
    for lost in finding.lost.iter().take(LISTED) {
        let _ = writeln!(
            out,
            "    member {}: {} at {} of the chunk{}",
            lost.member,
            count(u64::from(lost.length), "byte"),
            lost.chunk_offset,
            lost.device_offset.map_or_else(String::new, |offset| format!(", {offset} of the device")),
        );
    }
    if let Some(error) = finding.error {
        let _ = writeln!(
            out,
            "    {}: {} in error, {}{}",
            finding.strength.word(),
            count(u64::from(error.bytes), "byte"),
            count(u64::from(error.distinct_values), "different value"),
            error.period.map_or_else(String::new, |period| match period {
                1 => ", one constant".to_owned(),
                period => format!(", repeating every {period} bytes"),
            }),
        );
        if finding.strength == Strength::Strong && error.mistaken_one_in > 0 {
            let _ = writeln!(
                out,
                "    other members, damaged at random there, would look the same with a chance of at most {:.0e}",
                1.0 / error.mistaken_one_in as f64,
            );
        }
    }
    if finding.assumes_one_hit {
        out.push_str("    assumes that no two members are damaged in the very same bytes\n");
    }
    if let Some(WitnessFigures { says: Says::Convicts, origin, guard_bits, mistaken_one_in }) =
        &finding.witness
    {
        let origin = origin.as_deref().unwrap_or_default();
        let _ = writeln!(
            out,
            "    the bytes rebuilt from the other members match the stored tags ({origin}, guards of {guard_bits} bits); the chance of a false match is at most {:.0e}",
            1.0 / mistaken_one_in.unwrap_or(1).max(1) as f64,
        );
    }
    if let Some(misdirected) = &finding.misdirected {
        let _ = writeln!(
            out,
            "    the bytes at {} of the device belong at {} of it: the drive wrote them to the wrong place",
            misdirected.device_offset, misdirected.belongs_at,
        );
    }
    for doubt in &finding.doubts {
        let _ = writeln!(out, "    because {}", doubt.words());
    }
    if let Some(why) = &finding.left_alone {
        let _ = writeln!(out, "    left alone: {why}");
    }
    if finding.would_repair {
        out.push_str("    a repair would rewrite it\n");
    }
    out
}

fn headline(finding: &Finding) -> String {
    let mut out = finding.verdict.words().to_owned();
    if let (Some(role), Some(device)) = (finding.member, &finding.device) {
        let _ = write!(out, " on member {role} ({device})");
    }
    if !finding.members.is_empty() {
        let roles: Vec<String> = finding.members.iter().map(ToString::to_string).collect();
        let word = if finding.verdict == Verdict::Ambiguous { "candidates" } else { "members" };
        let _ = write!(out, " ({word} {})", roles.join(", "));
    }
    match finding.certainty {
        // The difference is a fact; only its cause is unknown.
        _ if finding.verdict.is_of_copies() => {}
        Certainty::Proven => out.push_str(", proven"),
        Certainty::Likely => out.push_str(", likely"),
        Certainty::None => {}
    }
    if finding.repaired {
        out.push_str(", repaired");
    }
    out
}

fn place(finding: &Finding) -> String {
    let bytes = count(finding.length, "byte");
    let mut out = format!("{bytes} at {} of the chunk", finding.chunk_offset);
    if let Some(offset) = finding.device_offset {
        let _ = write!(out, ", {offset} of the device");
    }
    if let Some(offset) = finding.array_offset {
        let _ = write!(out, ", {offset} of the array");
    } else if !finding.array_places.is_empty() {
        let listed: Vec<String> = finding.array_places.iter().take(LISTED).map(ToString::to_string).collect();
        let more = if finding.array_places.len() > LISTED { ", …" } else { "" };
        // A single place is certain, and so are the places of named members.
        let certain = finding.array_places.len() == 1 || !finding.verdict.leaves_members_open();
        let word = if certain { "" } else { "one or more of " };
        let _ = write!(out, "\n    in the array at {word}{}{more}", listed.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings of these members, or of none.
    fn of(members: &[Option<u16>]) -> Vec<Finding> {
        let finding = |member: &Option<u16>| {
            let device = member.map(|member| format!("/dev/sd{member}"));
            serde_json::from_value(serde_json::json!({
                "stripe": 5, "verdict": if member.is_some() { "member" } else { "ambiguous" },
                "member": member, "members": [], "device": device, "device_offset": 0,
                "chunk_offset": 0, "length": 512, "array_offset": 0, "certainty": "likely",
                "alternatives": [], "strength": "strong", "doubts": [], "assumes_one_hit": false,
                "error": null, "lost": [], "repaired": false, "would_repair": false,
                "left_alone": null, "unsettled": null,
            }))
            .unwrap()
        };
        members.iter().map(finding).collect()
    }

    #[test]
    fn a_failing_drive_is_named() {
        let mut members = [Some(3); 10];
        (members[0], members[1]) = (Some(1), None);
        let text = by_member(&of(&members), false);
        assert!(text.starts_with("\nmember       device    places  verdict"), "{text}");
        let line =
            |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or_default().to_owned();
        assert!(line("role 3").contains("/dev/sd3       8  data damaged"), "{text}");
        assert!(line("role 1").contains("/dev/sd1       1  data damaged"), "{text}");
        assert!(line("(no member)").contains("-              1  "), "{text}");
        assert!(text.contains("role 3 has 80 % of the places"), "{text}");
        assert!(text.ends_with("smartctl -x /dev/sd3\n"), "{text}");
        assert!(!by_member(&of(&members), true).contains("failing"), "a pattern has another cause");
        members[2] = None;
        assert!(!by_member(&of(&members), false).contains("failing"), "7 of 10 are not most of them");
        assert_eq!(by_member(&of(&members[..7]), false), "", "a few places are read one by one");
    }

    #[test]
    fn sectors_that_a_drive_refuses_count_and_copies_that_differ_do_not() {
        let mut findings = of(&[Some(3); 8]);
        findings.iter_mut().for_each(|finding| finding.verdict = Verdict::Unreadable);
        assert!(by_member(&findings, false).contains("role 3 has 100 % of the places"));
        for verdict in [Verdict::Copy, Verdict::TagDamaged, Verdict::NotAsked] {
            findings[0].verdict = verdict;
            assert_eq!(by_member(&findings, false), "", "{verdict:?}");
        }
    }

    #[test]
    fn a_stripe_that_is_being_written_is_no_damage() {
        let mut findings = of(&[Some(1); 8]);
        findings[0].verdict = Verdict::Busy;
        assert_eq!(by_member(&findings, false), "");
        assert_eq!(findings.iter().filter(|finding| is_damage(finding)).count(), 7);
    }
}

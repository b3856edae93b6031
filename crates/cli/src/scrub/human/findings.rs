//! Findings as text, one paragraph each.

use crate::text::count;
use pumice_host::finding::{Certainty, Finding, Says, Strength, Verdict, WitnessFigures};
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
            "    {}: {} in error, {} different values{}",
            finding.strength.word(),
            count(u64::from(error.bytes), "byte"),
            error.distinct_values,
            error.period.map_or_else(String::new, |period| match period {
                1 => ", one constant".to_owned(),
                period => format!(", repeating every {period} bytes"),
            }),
        );
        if finding.strength == Strength::Strong && error.mistaken_one_in > 0 {
            let _ = writeln!(
                out,
                "    two other members, damaged at random there, would look the same with a chance of at most {:.0e}",
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

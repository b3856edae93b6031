//! The report as text: the verdict first, in one line.

mod findings;

pub(crate) use self::findings::findings;

use self::findings::{by_member, is_damage};

use crate::text::{count, table};
use pumice_base::telemetry::{Ledger, Place};
use pumice_base::units::{format_binary, format_decimal};
use pumice_host::Method;
use pumice_host::members::Absence;
use pumice_host::pass::StopReason;
use pumice_host::plan::{Batches, PassShape, actual};
use pumice_host::report::{ArrayResult, Pacing, Report};
use pumice_host::scrub::{Outcome, Unfinished};
use pumice_host::target::Target;
use pumice_raid::assembly::Note;
use std::fmt::Write;

/// The whole report.
pub(crate) fn report(target: &Target, outcome: &Outcome, report: &Report, repairing: bool) -> String {
    let mut out = verdict_line(outcome, report, repairing);
    out.push_str(&array_line(report));
    out.push_str(&degraded(report));
    out.push_str(&checked(report));
    out.push_str(&skipped(target, outcome));
    out.push_str(&tags(report));
    out.push_str(&pace(&report.pacing));
    let _ = writeln!(out, "missed   {}", bound_words(report, outcome.batches));
    if matches!(report.array.level, 4 | 5) && report.result == ArrayResult::Clean {
        out.push_str(
            "         (a wrong order of members, chunk or layout leaves this parity right, and is not seen)\n",
        );
    }
    out.push_str(&wire(report));
    for (role, stripes) in &outcome.read_again {
        let _ = writeln!(
            out,
            "retried  {role}: refused bytes of {} at first, and returned them later",
            count(*stripes, "stripe")
        );
    }
    out.push_str(&by_member(&report.findings, !report.patterns.is_empty()));
    for pattern in &report.patterns {
        let _ = writeln!(out, "pattern  {pattern}");
    }
    out.push('\n');
    out.push_str(&findings(&report.findings));
    if !report.findings.is_empty() {
        out.push('\n');
    }
    out.push_str(&ledger_table(&[
        ("this scrub", report.ledger),
        ("conventional", conventional(target, report)),
    ]));
    out
}

/// The array, in one line.
fn array_line(report: &Report) -> String {
    let mut out = String::new();
    let array = &report.array;
    let layout = array.layout.as_deref().unwrap_or(match array.level {
        4 => "parity on the last",
        _ => "copies",
    });
    let chunks = match array.level {
        1 => "stripes",
        _ => "chunks",
    };
    let name = if array.name.is_empty() { String::new() } else { format!("{}  ", array.name) };
    let _ = writeln!(
        out,
        "\narray    {name}{}  RAID-{} {layout}, {} members, {chunks} of {}, metadata {}",
        array.uuid,
        array.level,
        array.raid_disks,
        format_binary(array.chunk_bytes),
        array.metadata,
    );
    out
}

/// The stripes that were checked, and those that were checked again.
fn checked(report: &Report) -> String {
    let (mut out, array) = (String::new(), &report.array);
    let rate = report.bytes_checked as f64 / report.seconds.max(1e-9);
    let _ = writeln!(
        out,
        "checked  {} of {}{}, {} in {:.1} s ({}/s), method {}",
        report.stripes_checked,
        count(array.stripes, "stripe"),
        if is_part(report) {
            format!(", of which {}..{} were asked for", report.range.start, report.range.end)
        } else {
            String::new()
        },
        format_decimal(report.bytes_checked),
        report.seconds,
        format_decimal(rate as u64),
        report.method,
    );
    if report.stripes_rechecked > 0 {
        let _ = writeln!(
            out,
            "again    {}: inconsistent at the first look, consistent at a later one (written meanwhile, or read wrongly once)",
            count(report.stripes_rechecked, "stripe")
        );
    }
    out
}

/// The stripes that were left out, and the reasons that the array itself gives.
fn skipped(target: &Target, outcome: &Outcome) -> String {
    let mut out = String::new();
    for (reason, stripes) in &outcome.skipped {
        let _ = writeln!(out, "skipped  {}: {}", count(*stripes, "stripe"), reason.words());
    }
    let explains = |note: &&Note| {
        use Note::{BitmapStale, JournalMissing, JournalPending, JournalUnknown, PplUnreadable};
        matches!(
            note,
            JournalMissing
                | JournalPending { .. }
                | JournalUnknown { .. }
                | PplUnreadable { .. }
                | BitmapStale { .. }
        )
    };
    for note in target.array().notes().iter().filter(explains).filter(|_| outcome.unsettled_stripes() > 0) {
        let _ = writeln!(out, "         {note}");
    }
    out
}

/// The blocks that tags spoke of.
fn tags(report: &Report) -> String {
    let mut out = String::new();
    if let Some(tags) = &report.tags {
        let now = match tags.vouched_now {
            0 => String::new(),
            n => format!("; {n} of the adopted tags are vouched from now on"),
        };
        let _ = writeln!(
            out,
            "tags     {} written, {} vouched, {} adopted blocks fit, {} have none{now}",
            tags.written, tags.vouched, tags.adopted, tags.unchecked
        );
    }
    out
}

/// The effect of the pace, in one line: the drive whose users were slowed most, and the age of the
/// oldest check.
fn pace(drives: &[Pacing]) -> String {
    let slowdown = |drive: &&Pacing| drive.mean_slowdown_ms.unwrap_or(f64::MIN);
    let Some(worst) = drives.iter().max_by(|a, b| slowdown(a).total_cmp(&slowdown(b))) else {
        return String::new();
    };
    let rate: f64 = drives.iter().map(|drive| drive.bytes_per_s).sum();
    let mut out = format!("pace     {}/s from the drives together", format_decimal(rate as u64));
    if let (Some(slowdown), Some(clear)) = (worst.mean_slowdown_ms, worst.clear_mean_ms) {
        let _ = write!(
            out,
            "; foreground slowed most on {}{}: by {slowdown:.3} ms on average, from {clear:.3} ms; {} of {} met a scrub read",
            worst.device,
            match worst.shares_disks_with.len() {
                0 => String::new(),
                n => format!(" and {n} more on the same disks"),
            },
            worst.collisions,
            count(worst.foreground, "request"),
        );
    }
    if let Some(oldest) = drives.iter().filter_map(|drive| drive.oldest_check_s).max() {
        let _ = write!(out, "; oldest check {oldest} s ago");
    }
    out.push('\n');
    out
}

/// Returns whether only a part of the array was asked for.
fn is_part(report: &Report) -> bool {
    (report.range.start, report.range.end) != (0, report.array.stripes)
}

/// The members that were absent, and what that leaves to be checked.
fn degraded(report: &Report) -> String {
    let mut out = String::new();
    for member in &report.absent {
        let role = member.role;
        let _ = match (member.reason, &member.device) {
            (Absence::NotNamed, _) => {
                writeln!(out, "degraded member {role} was not named, although it is part of the array")
            }
            (Absence::Missing, _) => {
                writeln!(out, "degraded member {role} is missing, and md reports it as missing")
            }
            (Absence::Recovering, device) => writeln!(
                out,
                "degraded member {role} ({}) is being rebuilt; stripes {}..{} were checked without it",
                device.as_deref().unwrap_or("-"),
                member.stripes.start,
                member.stripes.end
            ),
        };
    }
    let equations = &report.equations;
    if equations.reduced_stripes > 0 {
        let stripes = count(equations.reduced_stripes, "stripe");
        let _ = match (report.array.level, equations.left) {
            // Each copy but one is an equation.
            (1 | 10, 0 | 1) => writeln!(
                out,
                "         2 copies left in {stripes}: that they differ is found, and not which of them is right"
            ),
            (1 | 10, left) => writeln!(
                out,
                "         {} of {} copies left in {stripes}: a copy that differs from the others is found and named",
                left + 1,
                equations.full + 1,
            ),
            (_, left) => writeln!(
                out,
                "         {left} of {} equations left in {stripes}: damage of one member is found but not located; damage of several can go unseen",
                equations.full,
            ),
        };
    }
    out
}

/// Advice about members that were not named.
fn not_named(outcome: &Outcome) -> String {
    let roles: Vec<String> = outcome.not_named.iter().map(ToString::to_string).collect();
    let word = if roles.len() == 1 { "member" } else { "members" };
    format!(
        "{word} {} not named, although part of the array; name all members, or accept a check without some of them with --degraded",
        roles.join(", ")
    )
}

fn verdict_line(outcome: &Outcome, report: &Report, repairing: bool) -> String {
    let damage = || report.findings.iter().filter(|finding| is_damage(finding));
    let found = damage().count() as u64;
    let repaired = damage().filter(|finding| finding.repaired).count() as u64;
    let planned = damage().filter(|finding| finding.would_repair).count() as u64;
    let findings = match (found, repairing) {
        (0, _) if !report.findings.is_empty() => "no damage found".to_owned(),
        (0, _) => "nothing inconsistent found".to_owned(),
        (n, _) if planned > 0 => format!(
            "{}; dry run: {planned} of them would be rewritten, {} left alone; this run wrote nothing",
            count(n, "finding"),
            n - planned - repaired
        ),
        (n, false) => format!("{}, nothing was written", count(n, "finding")),
        (n, true) if repaired < n => {
            format!("{}, {repaired} repaired, {} left alone", count(n, "finding"), n - repaired)
        }
        (n, true) => format!("{}, {repaired} repaired", count(n, "finding")),
    };
    match report.result {
        ArrayResult::Clean => {
            let stripes = match is_part(report) {
                true => format!("every stripe of {}..{}", report.range.start, report.range.end),
                false => "every stripe".to_owned(),
            };
            match report.degraded {
                true => {
                    format!(
                        "CLEAN, DEGRADED: {stripes} is consistent, as far as the members present can tell\n"
                    )
                }
                false => format!("CLEAN: {stripes} is consistent\n"),
            }
        }
        ArrayResult::CopiesDiffer => format!(
            "COPIES DIFFER: {findings}\nCopies of a mirror may differ without any damage: swap, pages that \
             changed while being written, a member that was written alone. See docs/guide/verdicts.md.\n"
        ),
        ArrayResult::Findings => format!("FINDINGS: {findings}\n"),
        ArrayResult::Incomplete => {
            let why = match &outcome.stopped {
                Some(StopReason::Interrupted) => "interrupted; --resume continues".to_owned(),
                Some(StopReason::Failed(_)) => "stopped by a failure; --resume continues".to_owned(),
                Some(StopReason::ArrayChanged(what)) => {
                    format!("the array changed during the scrub: {what}; scrub it again from the start")
                }
                Some(StopReason::TakenIntoUse(_)) => {
                    "devices were taken into use meanwhile; scrub again with --allow-in-use".to_owned()
                }
                Some(StopReason::TooManyFindings) => {
                    "stopped: too many findings; --resume continues with as many more".to_owned()
                }
                None if outcome.unsettled_stripes() > 0 => {
                    format!("{} could not be judged", count(outcome.unsettled_stripes(), "stripe"))
                }
                None if report.incomplete.contains(&Unfinished::Busy) => "some stripes are busy".to_owned(),
                None => not_named(outcome),
            };
            format!("INCOMPLETE: {why}; {findings}\n")
        }
    }
}

/// The line about the network: the chance that it hid damage or made damage appear.
fn wire(report: &Report) -> String {
    let Some(wire) = &report.wire else { return String::new() };
    let amount = format!("{} in {}", format_decimal(wire.bytes), count(wire.messages, "message"));
    let mut out = match wire.miss_bound {
        None => format!(
            "wire     {amount}, protected only by TCP's checksum: an error on the network could hide damage, or look like damage; see --digest\n"
        ),
        Some(_) if wire.loopback && !wire.digests => format!("wire     {amount}, within this machine\n"),
        Some(bound) => format!(
            "wire     {amount}, each with a CRC-32C of header and data: even if every message had been damaged, the chance that one passed is at most {bound:.1e}\n"
        ),
    };
    if report.reconnections > 0 {
        let _ = writeln!(
            out,
            "         connections were lost, and re-established {}",
            count(report.reconnections, "time")
        );
    }
    out
}

fn bound_words(report: &Report, batches: usize) -> String {
    let bound = report.miss_bound;
    let reduced = report.equations.reduced_stripes > 0;
    if bound == 0.0 {
        return match reduced {
            false => "impossible: every equation of every stripe checked was checked exactly".to_owned(),
            true => {
                "impossible, for damage that breaks the equations that were left: those were checked exactly"
                    .to_owned()
            }
        };
    }
    format!(
        "with a chance of at most {bound:.1e} per batch ({}), for damage that {}",
        if batches == 1 { "1 batch".to_owned() } else { format!("{batches} batches") },
        if reduced { "breaks the equations that were left" } else { "parity can see" },
    )
}

/// The bytes that the conventional method moves for the same stripes.
fn conventional(target: &Target, report: &Report) -> Ledger {
    let present = target.members().count() as u64;
    let shape = PassShape {
        members_of_node: vec![present],
        rows: 1,
        chunk: report.array.chunk_bytes,
        batches: Batches::of_run(report.stripes_checked, report.stripes_checked.max(1)),
        accumulators: 1,
        powers: 2,
    };
    actual(Method::Host, &shape)
}

/// Ledgers side by side.
pub(crate) fn ledger_table(ledgers: &[(&str, Ledger)]) -> String {
    let mut rows = vec![
        std::iter::once("bytes moved")
            .chain(ledgers.iter().map(|(name, _)| *name))
            .map(str::to_owned)
            .collect(),
    ];
    for place in Place::ALL {
        if ledgers.iter().any(|(_, ledger)| ledger[place] != 0) {
            let cells = ledgers.iter().map(|(_, ledger)| format_decimal(ledger[place]));
            rows.push(std::iter::once(place.label().to_owned()).chain(cells).collect());
        }
    }
    table(&rows)
}

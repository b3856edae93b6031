//! Notes for the reader of the table.

use super::Study;
use super::contender::PolicyName;
use super::outcome::Row;
use crate::drive::Drive;
use crate::scan::Scan;
use pumice_pacer::{Nanos, SIZES};

pub(super) fn notes(study: &Study, scan: &Scan, device: u32, drive: Drive, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    if study.device.is_none() && scan.seen.len() > 1 {
        notes.push(format!(
            "device {} of {}: the one with the most requests; --device chooses another",
            scan.devices.name(device),
            scan.seen.len()
        ));
    }
    let seen = scan.seen[device as usize];
    if seen.recorded == 0 {
        notes.push(format!("the trace has no completion times: they come from the model of {drive}"));
    } else if seen.recorded < seen.requests {
        let missing = seen.requests - seen.recorded;
        notes.push(format!(
            "{} without a completion time: taken from the model of {drive}",
            requests(missing)
        ));
    }
    let least = drive.curve().time(SIZES[0]);
    if let Some(maximum) = study.goal.maximum.filter(|m| *m < least) {
        notes.push(format!(
            "no policy that holds the goal starts anything: the smallest request takes {:.2} ms on {drive}, the maximum is {:.2} ms",
            least as f64 / 1e6,
            maximum as f64 / 1e6
        ));
    }
    if rows.iter().any(|r| !r.in_sample && r.foreground == 0) {
        notes.push("no request is in the held-out part: it has no slowdowns to measure".to_owned());
    }
    for row in rows.iter().filter(|r| r.holds_goal && !r.goal_held) {
        let mean_held = within(row.mean_slowdown_ms, study.goal.mean);
        let part = if row.in_sample { "in sample" } else { "on the held-out part" };
        let goal = study.goal.mean as f64 / 1e6;
        let why = why(study, row);
        if let Some((percentile, value)) = study.goal.percentile.zip(row.share_ms)
            && !limited(value, percentile.limit)
        {
            let (most, limit) = ((1.0 - percentile.share) * 110.0, percentile.limit as f64 / 1e6);
            notes.push(format!(
                "{} missed the percentile {part}: more than {most:.2} % of requests are slowed by more than {limit} ms",
                row.policy
            ));
        }
        if !mean_held {
            notes.push(format!(
                "{} missed the goal {part}: {:.3} ms instead of {goal:.3} ms; {why}",
                row.policy, row.mean_slowdown_ms
            ));
        }
    }
    notes
}

fn requests(count: u64) -> String {
    if count == 1 { "1 request".to_owned() } else { format!("{count} requests") }
}

/// Returns whether milliseconds are within a limit and a tenth.
pub(super) fn within(ms: f64, limit: Nanos) -> bool {
    ms <= limit as f64 / 1e6 * 1.1
}

/// Returns whether milliseconds are within a limit, as exactly as percentiles are counted.
pub(super) fn limited(ms: f64, limit: Nanos) -> bool {
    ms <= limit as f64 / 1e6 * (1.0 + 1.0 / 64.0)
}

/// Reason why a policy missed the goal's mean.
fn why(study: &Study, row: &Row) -> String {
    let over = (row.mean_slowdown_ms - study.goal.mean as f64 / 1e6) * row.foreground as f64;
    let bound = matches!(row.name, PolicyName::Priced | PolicyName::WaitingLive);
    if bound && over <= row.max_slowdown_ms * 1.02 {
        // An account starts nothing in debt, so the last collision alone can be too much.
        let (earners, most) = (requests(row.foreground), row.max_slowdown_ms);
        return format!("one collision of up to {most:.2} ms is more than {earners} can earn");
    }
    let known = match (row.name, study.queued, row.in_sample) {
        (PolicyName::Priced | PolicyName::WaitingLive, ..) => "its account saw other slowdowns",
        (PolicyName::Oracle, true, _) => {
            "its account does not count requests that queue behind a slowed one: it stays an upper bound"
        }
        (_, true, _) => "the replay that tunes does not count requests that queue behind a slowed one",
        (_, _, true) => {
            "collisions delay requests past the idle interval they end, which the replay that tunes does not see"
        }
        _ => "its parameters were fixed on the first part, and idle times ended more often afterwards",
    };
    known.to_owned()
}

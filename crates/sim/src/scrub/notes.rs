//! What a reader of the table should know.

use super::Study;
use super::outcome::Row;
use crate::drive::Drive;
use crate::scan::Scan;
use pumice_pacer::SIZES;

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
            "{missing} requests have no completion time: theirs come from the model of {drive}"
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
        let part = if row.in_sample { "in sample" } else { "on the held-out part" };
        let goal = study.goal.mean as f64 / 1e6;
        let why = if row.in_sample {
            "collisions delay requests past the idle interval they end, which the replay that tunes does not see"
        } else {
            "its parameters were fixed on the first part, and idle times ended more often afterwards"
        };
        notes.push(format!(
            "{} missed the goal {part}: {:.3} ms instead of {goal:.3} ms; {why}",
            row.policy, row.mean_slowdown_ms
        ));
    }
    notes
}

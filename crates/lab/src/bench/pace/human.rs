//! The table for a person.

use super::Document;
use pumice::text::table;

pub(super) fn human(document: &Document) -> String {
    let mut rows = vec![
        [
            "load",
            "requests/s",
            "alone ms",
            "scrub",
            "MB/s",
            "slowdown ms",
            "by node ms",
            "p99 ms",
            "of fixed",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let mut notes = String::new();
    for case in &document.loads {
        let scrubs = [("paced", Some(&case.paced)), ("fixed rate", case.fixed.as_ref())];
        for (name, measured) in scrubs.into_iter().filter_map(|(name, measured)| Some((name, measured?))) {
            rows.push(vec![
                case.load.to_owned(),
                format!("{:.0}", case.foreground_per_s),
                format!("{:.3}", case.clear_mean_ms),
                name.to_owned(),
                format!("{:.1}", measured.bytes_per_s / 1e6),
                format!("{:.3}", measured.mean_slowdown_ms),
                measured.node_slowdown_ms.map_or_else(String::new, |ms| format!("{ms:.3}")),
                format!("{:.2}", measured.p99_ms),
                case.ratio_to_fixed
                    .filter(|_| name == "paced")
                    .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            ]);
        }
        if let (Some(up), Some(down)) = (case.full_speed_after_s, case.yields_after_s) {
            notes = format!(
                "the scrub is at full speed {up:.1} s after the clients fall silent, and gives way {down:.1} s after they come back, at most\n"
            );
        }
    }
    format!("goal: {} ms mean slowdown\n\n{}{notes}", document.goal_ms, table(&rows))
}

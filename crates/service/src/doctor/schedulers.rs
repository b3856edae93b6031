//! Other programs that check arrays at times of their own, and two schedules of Pumice's own.

use super::root::Root;
use super::{Trouble, Urgency};

/// Timers of distributions that have md check its arrays.
const TIMERS: [&str; 3] = ["mdcheck_start.timer", "mdcheck_continue.timer", "raid-check.timer"];
const CHECK: &str = "md-check";
const TWO: &str = "md's own check and a scrub then read every drive at the same time";

pub(super) fn checks(root: &Root) -> Vec<Trouble> {
    let mut out = Vec::new();
    for timer in root.enabled(|name| TIMERS.contains(&name)) {
        // Where the configuration turns off what the timer starts.
        if timer == "raid-check.timer" && raid_check_is_off(root) {
            continue;
        }
        out.push(Trouble {
            check: CHECK,
            urgency: Urgency::Warning,
            words: format!("it is enabled: {TWO}"),
            mend: format!("systemctl mask --now {timer}"),
            subject: timer,
        });
    }
    if calls(root, "etc/cron.d/mdadm", "checkarray") && !debian_is_off(root) {
        out.push(Trouble {
            check: CHECK,
            urgency: Urgency::Warning,
            subject: "/etc/cron.d/mdadm".to_owned(),
            words: format!("it runs checkarray: {TWO}"),
            mend: "sed -i 's/^AUTOCHECK=.*/AUTOCHECK=false/' /etc/default/mdadm".to_owned(),
        });
    }
    if calls(root, "etc/cron.d/raid-check", "raid-check") && !raid_check_is_off(root) {
        out.push(Trouble {
            check: CHECK,
            urgency: Urgency::Warning,
            subject: "/etc/cron.d/raid-check".to_owned(),
            words: format!("it runs raid-check: {TWO}"),
            mend: "sed -i 's/^ENABLED=.*/ENABLED=no/' /etc/sysconfig/raid-check".to_owned(),
        });
    }
    out.extend(own_schedules(root));
    out
}

/// The monitor and timers at once; or neither.
fn own_schedules(root: &Root) -> Option<Trouble> {
    let timers = root.enabled(|name| name.starts_with("pumice-scrub@") && name.ends_with(".timer"));
    let monitor = !root.enabled(|name| name == "pumice-monitor.service").is_empty();
    match (monitor, timers.is_empty()) {
        (true, false) => Some(Trouble {
            check: "two-schedules",
            urgency: Urgency::Warning,
            words: "the monitor and this timer both begin scrubs".to_owned(),
            mend: format!("systemctl disable --now {}", timers.join(" ")),
            subject: timers.join(" "),
        }),
        (false, true) => Some(Trouble {
            check: "no-schedule",
            urgency: Urgency::Note,
            subject: "pumice-monitor.service".to_owned(),
            words: "neither the monitor nor a timer is enabled: nothing is scrubbed by itself".to_owned(),
            mend: "systemctl enable --now pumice-monitor.service".to_owned(),
        }),
        _ => None,
    }
}

/// Returns whether a line of a table of cron, not a comment, has a word.
fn calls(root: &Root, path: &str, word: &str) -> bool {
    root.words(path).lines().any(|line| !line.trim_start().starts_with('#') && line.contains(word))
}

/// The last value of a variable in a file of settings of shell.
fn setting(root: &Root, path: &str, name: &str) -> Option<String> {
    let text = root.words(path);
    let value = |line: &str| Some(line.trim().strip_prefix(name)?.strip_prefix('=')?.trim().to_owned());
    text.lines().filter_map(value).next_back().map(|value| value.trim_matches(['"', '\'']).to_lowercase())
}

fn debian_is_off(root: &Root) -> bool {
    setting(root, "etc/default/mdadm", "AUTOCHECK").is_some_and(|value| value != "true")
}

fn raid_check_is_off(root: &Root) -> bool {
    setting(root, "etc/sysconfig/raid-check", "ENABLED").is_some_and(|value| value != "yes")
}

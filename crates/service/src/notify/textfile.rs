//! Metrics as a text file for node_exporter: `docs/reference/channels.md` has their names.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Figures of one array. A figure that is not known has no line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArrayFigures {
    /// Its UUID.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Its level, such as `raid6`.
    pub level: String,
    /// Its state, such as `healthy`.
    pub state: String,
    /// Members that are missing.
    pub members_missing: Option<u64>,
    /// Time of the oldest check, in seconds since 1970.
    pub oldest_cell: Option<i64>,
    /// End of the last complete pass.
    pub last_complete: Option<i64>,
    /// Time of the next pass.
    pub due: Option<i64>,
    /// Progress of a pass, 0 to 1.
    pub progress: Option<f64>,
    /// Findings that are open, by verdict.
    pub findings: BTreeMap<String, u64>,
    /// Stripes that could not be judged.
    pub busy_stripes: Option<u64>,
    /// Places that were repaired.
    pub repairs: Option<u64>,
    /// Drives that may still fail, of a volume.
    pub survives: Option<u64>,
    /// Progress of a rebuild of a volume, 0 to 1.
    pub rebuild: Option<f64>,
    /// True while a volume is held; `None` if it is no volume.
    pub held: Option<bool>,
}

/// Figures of this machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Arrays and volumes.
    pub arrays: Vec<ArrayFigures>,
    /// Open alerts, by severity.
    pub alerts_open: BTreeMap<String, u64>,
    /// Channels, and whether each fails.
    pub channels: BTreeMap<String, bool>,
    /// Time of the last look, in seconds since 1970.
    pub last_look: i64,
}

/// A kind of metric.
#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

/// The text as it grows.
struct Text(String);

/// Labels of a line.
type Labels<'a> = &'a [(&'static str, &'a str)];

impl Text {
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{}\"", if i == 0 { '{' } else { ',' }, escaped(text));
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family with a line for each array that has the figure.
    fn arrays<V: Display>(
        &mut self,
        figures: &Figures,
        (name, kind, help): (&str, Kind, &str),
        of: impl Fn(&ArrayFigures) -> Option<V>,
    ) {
        self.family(name, kind, help);
        for array in &figures.arrays {
            if let Some(value) = of(array) {
                self.line(name, &[("array", &array.uuid)], value);
            }
        }
    }
}

/// A label's value in the text format of Prometheus, version 0.0.4.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The figures in the text format of Prometheus, version 0.0.4.
#[must_use]
pub fn text(figures: &Figures) -> String {
    let mut text = Text(String::new());
    named(&mut text, figures);
    passes(&mut text, figures);
    volumes(&mut text, figures);
    let name = "pumice_alerts_open";
    text.family(name, Kind::Gauge, "Alerts that are open.");
    for (severity, count) in &figures.alerts_open {
        text.line(name, &[("severity", severity)], count);
    }
    let name = "pumice_channel_failed";
    text.family(name, Kind::Gauge, "1 while a channel of alerts fails.");
    for (channel, failed) in &figures.channels {
        text.line(name, &[("channel", channel)], u8::from(*failed));
    }
    let name = "pumice_monitor_last_look_timestamp_seconds";
    text.family(name, Kind::Gauge, "Time at which the monitor last looked.");
    text.line(name, &[], figures.last_look);
    text.0
}

fn named(text: &mut Text, figures: &Figures) {
    let name = "pumice_array_info";
    text.family(name, Kind::Gauge, "Names of arrays.");
    for array in &figures.arrays {
        let labels = [("array", &*array.uuid), ("name", &*array.name), ("level", &*array.level)];
        text.line(name, &labels, 1);
    }
    let name = "pumice_array_state";
    text.family(name, Kind::Gauge, "1 for the state that an array has.");
    for array in figures.arrays.iter().filter(|array| !array.state.is_empty()) {
        text.line(name, &[("array", &array.uuid), ("state", &array.state)], 1);
    }
    let missing = ("pumice_array_members_missing", Kind::Gauge, "Members that are missing.");
    text.arrays(figures, missing, |array| array.members_missing);
}

fn passes(text: &mut Text, figures: &Figures) {
    use Kind::{Counter, Gauge};
    let oldest = ("pumice_scrub_oldest_cell_timestamp_seconds", Gauge, "Time of the oldest check.");
    text.arrays(figures, oldest, |array| array.oldest_cell);
    let last = "pumice_scrub_last_complete_timestamp_seconds";
    text.arrays(figures, (last, Gauge, "End of the last complete pass."), |array| array.last_complete);
    let due = ("pumice_scrub_due_timestamp_seconds", Gauge, "Time of the next pass.");
    text.arrays(figures, due, |array| array.due);
    let progress = ("pumice_scrub_progress_ratio", Gauge, "Progress of the pass that runs.");
    text.arrays(figures, progress, |array| array.progress);
    let name = "pumice_scrub_findings";
    text.family(name, Gauge, "Findings that are open.");
    for array in &figures.arrays {
        for (verdict, count) in &array.findings {
            text.line(name, &[("array", &array.uuid), ("verdict", verdict)], count);
        }
    }
    let busy = ("pumice_scrub_busy_stripes", Gauge, "Stripes that could not be judged.");
    text.arrays(figures, busy, |array| array.busy_stripes);
    let repairs = ("pumice_repairs_total", Counter, "Places that were repaired.");
    text.arrays(figures, repairs, |array| array.repairs);
}

fn volumes(text: &mut Text, figures: &Figures) {
    let survives = ("pumice_volume_survives_drives", Kind::Gauge, "Drives that may still fail.");
    text.arrays(figures, survives, |array| array.survives);
    let rebuild = ("pumice_volume_rebuild_ratio", Kind::Gauge, "Progress of the rebuild that runs.");
    text.arrays(figures, rebuild, |array| array.rebuild);
    let held = ("pumice_volume_held", Kind::Gauge, "1 while a volume is held.");
    text.arrays(figures, held, |array| array.held.map(u8::from));
}

/// Replaces a file by a text. Nobody sees a part of it, and a collector never takes up the
/// unfinished file. It need not survive a power cut: the next look writes it anew.
///
/// # Errors
/// If the file, or one beside it, cannot be written.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.tmp", std::process::id()));
    // One that an earlier process with this number left.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&unfinished)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // It is of no use, and was perhaps not made.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests;

//! The progress of a pass: a bar on a terminal, plain lines otherwise, nothing with `-q`.

use crate::say::{line, say};
use indicatif::{ProgressBar, ProgressStyle};
use pumice_host::finding::Finding;
use pumice_host::pass::{Observer, Progress};
use pumice_units::format_decimal;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// How often a line is written if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows progress on standard error.
pub(crate) struct Display {
    kind: Kind,
}

enum Kind {
    Quiet,
    Bar(ProgressBar),
    Lines { began: Instant, bytes_before: Option<u64>, last: Instant },
}

impl Display {
    pub(crate) fn new(quiet: bool) -> Self {
        let now = Instant::now();
        let kind = if quiet {
            Kind::Quiet
        } else if stderr().is_terminal() {
            let bar = ProgressBar::new(0);
            let style = "{bar:30} {percent:>3}%  {msg}  {elapsed} (about {eta} left)";
            bar.set_style(ProgressStyle::with_template(style).expect("a template of known keys"));
            Kind::Bar(bar)
        } else {
            Kind::Lines { began: now, bytes_before: None, last: now }
        };
        Self { kind }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Kind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

fn words(progress: &Progress, rate: f64) -> String {
    let findings = match progress.findings {
        0 => "nothing found".to_owned(),
        n => crate::text::count(n as u64, "finding"),
    };
    format!("{} at {}/s, {findings}", format_decimal(progress.bytes), format_decimal(rate as u64))
}

impl Observer for Display {
    fn progress(&mut self, progress: &Progress) {
        match &mut self.kind {
            Kind::Quiet => {}
            Kind::Bar(bar) => {
                if bar.length() != Some(progress.of_stripes) {
                    bar.set_length(progress.of_stripes);
                    // A resumed pass: earlier runs do not count in the rate.
                    bar.set_position(progress.stripes);
                    bar.reset_eta();
                }
                bar.set_position(progress.stripes);
                let per_stripe = progress.bytes as f64 / progress.stripes.max(1) as f64;
                bar.set_message(words(progress, bar.per_sec() * per_stripe));
            }
            Kind::Lines { began, bytes_before, last } => {
                let before = *bytes_before.get_or_insert(progress.bytes);
                if last.elapsed() >= LINE_EVERY {
                    *last = Instant::now();
                    let seconds = began.elapsed().as_secs_f64();
                    let rate = (progress.bytes - before) as f64 / seconds;
                    let per_second = (progress.bytes - before) as f64 / progress.bytes.max(1) as f64
                        * progress.stripes as f64
                        / seconds;
                    let left =
                        (progress.of_stripes - progress.stripes) as f64 / per_second.max(f64::MIN_POSITIVE);
                    line(&format!(
                        "{:>3}%  {}, about {left:.0} s left",
                        progress.stripes * 100 / progress.of_stripes.max(1),
                        words(progress, rate)
                    ));
                }
            }
        }
    }

    fn finding(&mut self, _finding: &Finding) {
        // Each line has the count; the report lists the findings.
    }

    fn note(&mut self, note: &str) {
        match &self.kind {
            Kind::Quiet => {}
            Kind::Bar(bar) => bar.suspend(|| say(note)),
            Kind::Lines { .. } => say(note),
        }
    }
}

/// Shows nothing.
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
    fn finding(&mut self, _: &Finding) {}
    fn note(&mut self, _: &str) {}
}

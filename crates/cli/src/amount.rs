//! The progress of work that moves a known number of bytes: a bar on a terminal, a line for each
//! percent or ten minutes otherwise.

use indicatif::{ProgressBar, ProgressStyle};
use pumice_base::units::format_decimal;
use pumice_service::say::line;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// The longest time between two lines.
const LONGEST: Duration = Duration::from_secs(600);
/// Work that takes less is not worth a line.
const WORTH: Duration = Duration::from_secs(5);

/// Shows the progress of one piece of work on standard error.
pub(crate) struct Amount {
    what: &'static str,
    bar: Option<ProgressBar>,
    lines: Lines,
    began: Instant,
}

/// The lines that are due.
#[derive(Debug, Default)]
struct Lines {
    percent: u64,
    last: Duration,
}

impl Lines {
    /// Returns whether a line is due after `since` the beginning, at so many bytes of all.
    fn is_due(&mut self, since: Duration, done: u64, of: u64) -> bool {
        let percent = (u128::from(done) * 100 / u128::from(of.max(1))) as u64;
        let due = since >= WORTH && (percent > self.percent || since - self.last >= LONGEST);
        // A line each second at most.
        if !due || since - self.last < Duration::from_secs(1) {
            return false;
        }
        (self.percent, self.last) = (percent, since);
        true
    }
}

impl Amount {
    /// Nothing done yet. `what` says what is being done.
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = "{msg} {bar:30} {percent:>3}%  {bytes} of {total_bytes}, about {eta} left";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.set_message(what);
            bar
        });
        Self { what, bar, lines: Lines::default(), began: Instant::now() }
    }

    /// So many bytes are done, of all.
    pub(crate) fn at(&mut self, done: u64, of: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(of);
            bar.set_position(done);
        } else if self.lines.is_due(self.began.elapsed(), done, of) {
            let (what, percent) = (self.what, self.lines.percent);
            line(&format!("{what}: {percent} %, {} of {}", format_decimal(done), format_decimal(of)));
        }
    }
}

impl Drop for Amount {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_line_for_each_percent_or_ten_minutes() {
        let due = |seconds: u64, bytes_a_second: u64| {
            let mut lines = Lines::default();
            let all = seconds * bytes_a_second;
            (0..=seconds)
                .filter(|second| lines.is_due(Duration::from_secs(*second), second * bytes_a_second, all))
                .count()
        };
        assert_eq!(due(4, 1), 0, "soon over");
        assert_eq!(due(1000, 7), 100);
        assert_eq!(due(50, 1 << 40), 46, "not more than one a second");
        // Four weeks: a percent takes 40 times ten minutes and a bit.
        assert_eq!(due(28 * 86_400, 1), 100 * 41);
    }
}

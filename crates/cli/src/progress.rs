//! The progress of a pass: a bar on a terminal, plain lines otherwise, nothing with `-q`.

use crate::daytime::next_opening;
use indicatif::{ProgressBar, ProgressStyle};
use pumice_base::units::format_decimal;
use pumice_host::finding::Finding;
use pumice_host::pass::{Observer, Progress};
use pumice_service::say::{line, say};
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The shortest time between two lines if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The longest time without a line: while a pass waits, or while it does less than 1 %.
const LONGEST_SILENCE: Duration = Duration::from_secs(600);

/// Shows progress on standard error.
pub(crate) struct Display {
    kind: Kind,
}

enum Kind {
    Quiet,
    Bar(ProgressBar, Watch),
    Lines { began: Instant, bytes_before: Option<u64>, last: Instant, percent: u64, watch: Watch },
}

/// Says that the pass waits when it has done nothing for [`LINE_EVERY`]: a batch of stripes can
/// take long when reads are paced, and a bar shows the time.
struct Watch {
    /// Each piece of progress; its end is the end of the watch.
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn new(every: Duration, mut tell: impl FnMut(Duration) + Send + 'static) -> Self {
        let (done, progress) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let (mut since, mut silence) = (Instant::now(), every);
            loop {
                match progress.recv_timeout(silence) {
                    Ok(()) => (since, silence) = (Instant::now(), every),
                    Err(RecvTimeoutError::Timeout) => {
                        tell(since.elapsed());
                        // A night outside its hours is not a line every ten seconds.
                        silence = since.elapsed().min(LONGEST_SILENCE);
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Self { done: Some(done), thread: Some(thread) }
    }

    fn progress(&self) {
        if let Some(done) = &self.done {
            // The thread ends only when this end is gone.
            let _ = done.send(());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.done = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic, and has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Windows in which a pass reads, in UTC.
type Windows = Vec<(u32, u32)>;

/// The words for a pass that has done nothing for a while.
fn waiting(windows: &Windows, elapsed: Duration) -> String {
    match next_opening(windows) {
        Some((time, seconds)) => format!("waiting for {time} (in {})", for_people(u64::from(seconds))),
        None => format!(
            "waiting for reads: no stripe was done for {} s; a pace (--rate, --slowdown, --window or the nodes' own) \
             holds them back, or drives are slow",
            elapsed.as_secs()
        ),
    }
}

/// The same on the line of a bar, which has little room.
fn waiting_briefly(windows: &Windows, elapsed: Duration) -> String {
    match next_opening(windows) {
        Some(_) => waiting(windows, elapsed),
        None => format!("waiting for reads, for {}", for_people(elapsed.as_secs())),
    }
}

/// A time in the unit that people would use: `40 s`, `12 min`, `9 h`, `3 d`.
pub(crate) fn for_people(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", (seconds + 30) / 60),
        7_200..=172_799 => format!("{} h", (seconds + 1_800) / 3_600),
        _ => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

impl Display {
    /// The display of a pass that reads in these windows, which are in UTC.
    pub(crate) fn new(quiet: bool, windows: Vec<(u32, u32)>) -> Self {
        let now = Instant::now();
        let kind = if quiet {
            Kind::Quiet
        } else if stderr().is_terminal() {
            let bar = ProgressBar::new(0);
            // The message is cut at the width of the terminal: a bar that wraps leaves lines.
            let style = "{bar:16} {percent:>3}%  {wide_msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("a template of known keys"));
            let waits = bar.clone();
            if next_opening(&windows).is_some() {
                waits.set_message(waiting_briefly(&windows, Duration::ZERO));
            }
            let tell = move |elapsed| waits.set_message(waiting_briefly(&windows, elapsed));
            Kind::Bar(bar, Watch::new(LINE_EVERY, tell))
        } else {
            if next_opening(&windows).is_some() {
                line(&waiting(&windows, Duration::ZERO));
            }
            let watch = Watch::new(LINE_EVERY, move |elapsed| line(&waiting(&windows, elapsed)));
            Kind::Lines { began: now, bytes_before: None, last: now, percent: 0, watch }
        };
        Self { kind }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Kind::Bar(bar, _) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

/// Returns whether a line is due: one for each 1 %, and one in 10 min.
fn is_due(since_last: Duration, is_further: bool) -> bool {
    since_last >= LONGEST_SILENCE || (is_further && since_last >= LINE_EVERY)
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
            Kind::Bar(bar, watch) => {
                watch.progress();
                if bar.length() != Some(progress.of_stripes) {
                    bar.set_length(progress.of_stripes);
                    // A resumed pass: earlier runs do not count in the rate.
                    bar.set_position(progress.stripes);
                    bar.reset_eta();
                }
                bar.set_position(progress.stripes);
                let per_stripe = progress.bytes as f64 / progress.stripes.max(1) as f64;
                let left = for_people(bar.eta().as_secs());
                let words = words(progress, bar.per_sec() * per_stripe);
                bar.set_message(format!("{words}, about {left} left"));
            }
            Kind::Lines { began, bytes_before, last, percent, watch } => {
                watch.progress();
                let before = *bytes_before.get_or_insert(progress.bytes);
                let now = progress.stripes * 100 / progress.of_stripes.max(1);
                if is_due(last.elapsed(), now > *percent) {
                    (*last, *percent) = (Instant::now(), now);
                    let seconds = began.elapsed().as_secs_f64();
                    let rate = (progress.bytes - before) as f64 / seconds;
                    let per_second = (progress.bytes - before) as f64 / progress.bytes.max(1) as f64
                        * progress.stripes as f64
                        / seconds;
                    let left =
                        (progress.of_stripes - progress.stripes) as f64 / per_second.max(f64::MIN_POSITIVE);
                    line(&format!(
                        "{now:>3}%  {}, about {} left",
                        words(progress, rate),
                        for_people(left as u64)
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
            Kind::Bar(bar, _) => bar.suspend(|| say(note)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_for_each_percent_and_each_ten_minutes() {
        let seconds = Duration::from_secs;
        assert!(!is_due(seconds(9), true), "a fast pass makes no flood");
        assert!(is_due(seconds(10), true) && !is_due(seconds(599), false) && is_due(seconds(600), false));
    }

    #[test]
    fn a_pass_outside_its_windows_says_what_it_waits_for() {
        // Windows of one minute, one of them in nine hours from now.
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
        let opens = (since_1970.unwrap().as_secs() as u32 + 9 * 3600) % 86_400;
        let words = waiting(&vec![(opens, (opens + 60) % 86_400)], Duration::from_secs(20));
        assert!(words.starts_with("waiting for ") && words.ends_with(" (in 9 h)"), "{words}");
        assert!(waiting(&vec![(0, 86_400)], Duration::from_secs(20)).contains("for 20 s"));
    }

    #[test]
    fn a_pass_that_does_nothing_says_so_and_one_that_goes_on_does_not() {
        let every = Duration::from_millis(200);
        let (told, words) = mpsc::channel();
        let watch = Watch::new(every, move |elapsed| told.send(elapsed).unwrap());
        for _ in 0..20 {
            watch.progress();
            std::thread::sleep(every / 20);
        }
        assert_eq!(words.try_iter().count(), 0);
        let first = words.recv_timeout(Duration::from_secs(10)).unwrap();
        let second = words.recv_timeout(Duration::from_secs(10)).unwrap();
        let third = words.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(
            first >= every && second >= 2 * first && third >= 2 * second,
            "{first:?} {second:?} {third:?}"
        );
        drop(watch);
        words.try_iter().for_each(drop);
        assert!(words.recv().is_err(), "its thread is gone");
    }
}

//! The progress of a pass: a bar on a terminal, plain lines otherwise, nothing with `-q`.

use indicatif::{ProgressBar, ProgressStyle};
use pumice_base::units::format_decimal;
use pumice_host::finding::Finding;
use pumice_host::pass::{Observer, Progress};
use pumice_service::say::{line, say};
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two lines if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The longest time without a line while a pass waits.
const LONGEST_SILENCE: Duration = Duration::from_secs(600);

/// Shows progress on standard error.
pub(crate) struct Display {
    kind: Kind,
}

enum Kind {
    Quiet,
    Bar(ProgressBar),
    Lines { began: Instant, bytes_before: Option<u64>, last: Instant, watch: Watch },
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

/// The word for a pass that has done nothing for a while.
fn tell_that_it_waits(elapsed: Duration) {
    line(&format!(
        "waiting for reads: no stripe was done for {} s; a pace (--rate, --slowdown, --window or the nodes' own) \
         holds them back, or drives are slow",
        elapsed.as_secs()
    ));
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
            let watch = Watch::new(LINE_EVERY, tell_that_it_waits);
            Kind::Lines { began: now, bytes_before: None, last: now, watch }
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
            Kind::Lines { began, bytes_before, last, watch } => {
                watch.progress();
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

#[cfg(test)]
mod tests {
    use super::*;

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

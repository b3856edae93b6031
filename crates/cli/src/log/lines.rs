//! Lines on their way to whoever reads them, by a thread of their own.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tracing::warn;

/// Lines that wait to be written, at most. What hosts can provoke is about 100 lines at once and 6
/// a second, and a line is shorter than 2 KiB.
const WAITING: usize = 1024;
/// Time that the end of the program gives the last lines to be written.
const LAST: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Counts {
    /// Lines that were handed over, and those of them that are written, or were tried to be.
    taken: AtomicU64,
    done: AtomicU64,
    /// Lines that were lost since that was last said.
    lost: AtomicU64,
}

/// The way there. Writing one line a call never waits and never fails: a line for which there is no
/// room is lost, and so is one that cannot be written. The next line that is written says how many
/// were lost.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    queue: SyncSender<Vec<u8>>,
    counts: Arc<Counts>,
    is_json: bool,
    /// Lines begin with a priority.
    with_priorities: bool,
    /// The one of this writer.
    priority: &'static str,
}

impl Lines {
    /// Lines that are written to `out`; what is [said](Self::say) takes the form of JSON there if
    /// the log has it.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub(crate) fn to(out: impl Write + Send + 'static, is_json: bool) -> io::Result<Self> {
        let (queue, lines) = sync_channel(WAITING);
        let counts = Arc::<Counts>::default();
        let of_thread = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(&lines, out, &of_thread))?;
        Ok(Self { queue, counts, is_json, with_priorities: false, priority: "<6>" })
    }

    /// The same, whose lines begin with priorities if `with` says so.
    #[must_use]
    pub(crate) fn with_priorities(self, with: bool) -> Self {
        Self { with_priorities: with, ..self }
    }

    /// A way for lines of this priority.
    pub(super) fn of_priority(&self, priority: &'static str) -> Self {
        Self { priority, ..self.clone() }
    }

    /// Says something that no level of the log leaves out.
    pub(crate) fn say(&self, words: &str) {
        let line = match self.is_json {
            true => serde_json::json!({ "message": words }).to_string(),
            false => format!("pumice: {words}"),
        };
        self.push(format!("{line}\n").into_bytes());
    }

    /// Waits until all lines so far are written, but not for long.
    pub(crate) fn finish(&self) {
        let (began, taken) = (Instant::now(), self.counts.taken.load(Ordering::Acquire));
        while self.counts.done.load(Ordering::Acquire) < taken && began.elapsed() < LAST {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn push(&self, mut line: Vec<u8>) {
        if self.with_priorities {
            line.splice(0..0, self.priority.bytes());
        }
        // Counted first: it may be written before this goes on.
        self.counts.taken.fetch_add(1, Ordering::AcqRel);
        if self.queue.try_send(line).is_err() {
            self.counts.taken.fetch_sub(1, Ordering::AcqRel);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(lines: &Receiver<Vec<u8>>, mut out: impl Write, counts: &Counts) {
    while let Ok(line) = lines.recv() {
        if out.write_all(&line).is_err() {
            counts.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            let lost = counts.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                // By the log, for its form; it comes back here.
                warn!(lost, "lines lost");
            }
        }
        counts.done.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};

    #[derive(Default)]
    struct Read {
        goes_on: bool,
        bytes: Vec<u8>,
    }

    /// A thread that reads, stands still until it is let go on.
    #[derive(Clone, Default)]
    struct Reader(Arc<(Mutex<Read>, Condvar)>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.0.lock().unwrap();
            while !state.goes_on {
                state = self.0.1.wait(state).unwrap();
            }
            state.bytes.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stands_still_holds_nobody_up() {
        let reader = Reader::default();
        let mut lines = Lines::to(reader.clone(), false).unwrap();
        for i in 0..3 * WAITING {
            assert_eq!(lines.write(format!("{i}\n").as_bytes()).unwrap(), format!("{i}\n").len());
        }
        let lost = lines.counts.lost.load(Ordering::Relaxed) as usize;
        // One more may be with the thread.
        assert!((2 * WAITING - 1..=2 * WAITING).contains(&lost), "{lost}");
        reader.0.0.lock().unwrap().goes_on = true;
        reader.0.1.notify_all();
        let until = Instant::now() + Duration::from_secs(60);
        while lines.counts.done.load(Ordering::Acquire) < lines.counts.taken.load(Ordering::Acquire) {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
        let written = reader.0.0.lock().unwrap().bytes.clone();
        assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 3 * WAITING - lost);
        assert!(written.starts_with(b"0\n1\n2\n"), "the oldest are kept, in order");
    }

    #[test]
    fn beside_a_log_in_json_what_is_said_is_json_too() {
        for is_json in [true, false] {
            let reader = Reader::default();
            reader.0.0.lock().unwrap().goes_on = true;
            let lines = Lines::to(reader.clone(), is_json).unwrap();
            lines.say("a \"word\"");
            lines.finish();
            let written = reader.0.0.lock().unwrap().bytes.clone();
            let expected: &[u8] =
                if is_json { b"{\"message\":\"a \\\"word\\\"\"}\n" } else { b"pumice: a \"word\"\n" };
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lines = Lines::to(Full, false).unwrap();
        (0..10).for_each(|_| lines.say("words"));
        lines.finish();
        assert!(lines.counts.lost.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn in_the_journal_each_line_begins_with_its_priority() {
        let reader = Reader::default();
        reader.0.0.lock().unwrap().goes_on = true;
        let lines = Lines::to(reader.clone(), false).unwrap().with_priorities(true);
        lines.of_priority("<3>").write_all(b"lost\n").unwrap();
        lines.say("words");
        lines.finish();
        assert_eq!(reader.0.0.lock().unwrap().bytes, b"<3>lost\n<6>pumice: words\n");
    }
}

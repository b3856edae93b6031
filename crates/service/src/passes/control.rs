//! Orders to a pass, from any thread: pause, go on, another pace, stop.
//!
//! Every order but `go_on` ends the run that is under way as a stop does, and the command then goes
//! on from what was saved. So an order acts wherever the pass waits, and a pause holds nothing.

use super::file::now_us;
use crate::api::{Code, Fault, PassAnswer, PassPhase, PassRequest, PassState};
use pumice_host::pass::Progress;
use pumice_host::stop::{Stop, Stopped};
use pumice_offload::PaceRequest;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Most characters of a note.
const NOTE: usize = 500;

/// The last order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// None: the pass runs to its end.
    Run,
    /// It ends, and goes on at once.
    Again,
    /// It ends, and goes on when told to, before this time.
    Pause(Instant),
    /// It ends.
    Stop,
}

/// The step after the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The command reports and ends.
    Over,
    /// It goes on from what was saved.
    Again,
}

struct State {
    wish: Wish,
    /// The stop of the run under way.
    stop: Option<Arc<Stop>>,
    may_pause: bool,
    may_slow: bool,
    array: (String, String),
    pace: (Option<u64>, Option<u64>),
    progress: Progress,
    note: Option<String>,
}

/// The orders to a pass, and its state for those who ask.
pub struct PassControl {
    state: Mutex<State>,
    changed: Condvar,
    begun_us: u64,
    by: String,
    pause: Duration,
}

impl PassControl {
    /// The control of a command that begins now.
    #[must_use]
    pub fn new(by: &str, pace: &PaceRequest) -> Self {
        let state = State {
            wish: Wish::Run,
            stop: None,
            may_pause: false,
            may_slow: false,
            array: (String::new(), String::new()),
            pace: (pace.rate, pace.slowdown_ns),
            progress: Progress { stripes: 0, of_stripes: 0, bytes: 0, findings: 0 },
            note: None,
        };
        let (begun_us, by) = (now_us(), by.to_owned());
        Self { state: Mutex::new(state), changed: Condvar::new(), begun_us, by, pause: LONGEST_PAUSE }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run. The stop that it heeds is raised already if an order came while everything was
    /// opened: the run has not seen it.
    #[must_use]
    pub fn begin(&self) -> Arc<Stop> {
        let stop = Arc::new(Stop::new());
        let mut state = self.lock();
        state.stop = Some(Arc::clone(&stop));
        let raised = state.wish != Wish::Run;
        drop(state);
        if raised {
            stop.raise();
        }
        stop
    }

    /// Names the array, and says whether the pass can go on from what was saved, and whether the
    /// requests of others can be seen, as nodes see them.
    pub fn knows(&self, uuid: &str, name: &str, is_saved: bool, sees_others: bool) {
        let mut state = self.lock();
        state.array = (uuid.to_owned(), name.to_owned());
        (state.may_pause, state.may_slow) = (is_saved, sees_others);
    }

    /// Waits during a pause, after a run ended early; `say` is told of it.
    pub fn ended(&self, say: &mut dyn FnMut(&str)) -> Next {
        let mut state = self.lock();
        state.stop = None;
        let mut told = false;
        loop {
            match state.wish {
                Wish::Run | Wish::Stop => return Next::Over,
                Wish::Again => {
                    state.wish = Wish::Run;
                    return Next::Again;
                }
                Wish::Pause(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        state.wish = Wish::Stop;
                        return Next::Over;
                    }
                    if !told {
                        told = true;
                        say(&format!("paused: waits to be told to go on, and ends in {} s", left.as_secs()));
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Returns whether an order has ended the run under way.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.lock().wish != Wish::Run
    }

    /// Waits for `time`, between two runs.
    ///
    /// # Errors
    /// If an order has come.
    pub fn wait(&self, time: Duration) -> Result<(), Stopped> {
        let until = Instant::now() + time;
        let mut state = self.lock();
        loop {
            if state.wish != Wish::Run {
                return Err(Stopped);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The pace that was asked for last.
    #[must_use]
    pub fn pace(&self, begun_with: PaceRequest) -> PaceRequest {
        let (rate, slowdown_ns) = self.lock().pace;
        PaceRequest { rate, slowdown_ns, ..begun_with }
    }

    fn wish(&self, wish: Wish) {
        let mut state = self.lock();
        if state.wish != Wish::Stop {
            state.wish = wish;
        }
        let stop = state.stop.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(stop) = stop {
            stop.raise();
        }
    }

    /// Saves and ends. Returns whether that was asked for before.
    pub fn stop(&self) -> bool {
        let before = self.lock().wish == Wish::Stop;
        self.wish(Wish::Stop);
        before
    }

    /// Takes the progress of the run.
    pub fn progress(&self, progress: &Progress) {
        self.lock().progress = *progress;
    }

    /// Takes a note of the run.
    pub fn note(&self, note: &str) {
        self.lock().note = Some(note.chars().take(NOTE).collect());
    }

    /// Carries out a request.
    #[must_use]
    pub fn answer(&self, request: &PassRequest) -> PassAnswer {
        let done = match request {
            PassRequest::Status => Ok(()),
            PassRequest::Pause => self.pause(),
            PassRequest::GoOn => {
                if matches!(self.lock().wish, Wish::Pause(_)) {
                    self.wish(Wish::Again);
                }
                Ok(())
            }
            PassRequest::Pace { rate, slowdown_ns } => self.set_pace(*rate, *slowdown_ns),
            PassRequest::Stop => {
                self.stop();
                Ok(())
            }
        };
        match done {
            Ok(()) => PassAnswer::Scrub(Box::new(self.state())),
            Err(fault) => PassAnswer::Error(fault),
        }
    }

    fn saved(&self, doing: &str) -> Result<(), Fault> {
        let text = format!("{doing} needs saved progress, and this scrub keeps none (--state-dir)");
        if self.lock().may_pause { Ok(()) } else { Err(Fault::new(Code::NotSaved, text)) }
    }

    fn pause(&self) -> Result<(), Fault> {
        self.saved("a pause")?;
        if !matches!(self.lock().wish, Wish::Pause(_)) {
            self.wish(Wish::Pause(Instant::now() + self.pause));
        }
        Ok(())
    }

    fn set_pace(&self, rate: Option<u64>, slowdown_ns: Option<u64>) -> Result<(), Fault> {
        self.saved("another pace")?;
        let paused = {
            let mut state = self.lock();
            if slowdown_ns.is_some() && !state.may_slow {
                let text = "slowdown_ns: only nodes see the requests of others; rate works here too";
                return Err(Fault::new(Code::InvalidRequest, text));
            }
            let (old_rate, old_slowdown) = state.pace;
            let pace = (rate.or(old_rate), slowdown_ns.or(old_slowdown));
            let asked = PaceRequest { rate: pace.0, slowdown_ns: pace.1, ..PaceRequest::default() };
            asked.validate().map_err(|(field, why)| {
                Fault::new(Code::InvalidRequest, format!("the request is invalid: {field}: {why}"))
            })?;
            state.pace = pace;
            matches!(state.wish, Wish::Pause(_))
        };
        if !paused {
            self.wish(Wish::Again);
        }
        Ok(())
    }

    /// The state for those who ask.
    #[must_use]
    pub fn state(&self) -> PassState {
        let state = self.lock();
        let phase = match (state.wish, &state.stop) {
            (Wish::Stop, _) => PassPhase::Stopping,
            (Wish::Pause(_), Some(_)) => PassPhase::Pausing,
            (Wish::Pause(_), None) => PassPhase::Paused,
            (Wish::Run | Wish::Again, _) => PassPhase::Running,
        };
        let left = match state.wish {
            Wish::Pause(until) => Some(until.saturating_duration_since(Instant::now()).as_secs()),
            _ => None,
        };
        PassState {
            array: state.array.0.clone(),
            name: state.array.1.clone(),
            state: phase,
            stripes: state.progress.stripes,
            of_stripes: state.progress.of_stripes,
            bytes: state.progress.bytes,
            findings: state.progress.findings,
            begun_us: self.begun_us,
            pause_left_s: left,
            note: state.note.clone(),
            rate: state.pace.0,
            slowdown_ns: state.pace.1,
            pid: std::process::id(),
            by: self.by.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> PassControl {
        let control = PassControl::new("a test", &PaceRequest::default());
        control.knows("u", "n", true, false);
        control
    }

    fn phase(control: &PassControl) -> PassPhase {
        control.state().state
    }

    #[test]
    fn a_pause_ends_the_run_and_lasts_until_told() {
        let control = control();
        let stop = control.begin();
        assert!(matches!(control.answer(&PassRequest::Pause), PassAnswer::Scrub(_)));
        assert!(stop.is_raised());
        assert_eq!(phase(&control), PassPhase::Pausing);
        std::thread::scope(|scope| {
            let next = scope.spawn(|| control.ended(&mut |_| ()));
            while phase(&control) != PassPhase::Paused {
                std::thread::yield_now();
            }
            let _ = control.answer(&PassRequest::GoOn);
            assert_eq!(next.join().unwrap(), Next::Again);
        });
        assert!(!control.begin().is_raised());
        assert_eq!(phase(&control), PassPhase::Running);
        assert_eq!(control.ended(&mut |_| ()), Next::Over);
    }

    #[test]
    fn a_pause_that_nobody_ends_is_a_stop() {
        let control = PassControl { pause: Duration::from_millis(30), ..control() };
        let _stop = control.begin();
        let _ = control.answer(&PassRequest::Pause);
        assert_eq!(control.ended(&mut |_| ()), Next::Over);
        assert!(control.begin().is_raised() && phase(&control) == PassPhase::Stopping);
    }

    #[test]
    fn a_stop_is_never_taken_back() {
        let control = control();
        assert!(!control.stop() && control.stop());
        let _ = control.answer(&PassRequest::Pause);
        let _ = control.answer(&PassRequest::Pace { rate: Some(1 << 20), slowdown_ns: None });
        assert!(control.begin().is_raised());
        assert_eq!(control.ended(&mut |_| ()), Next::Over);
    }

    #[test]
    fn a_pace_goes_on_at_once_and_is_kept_in_a_pause() {
        let control = control();
        let stop = control.begin();
        let _ = control.answer(&PassRequest::Pace { rate: Some(1 << 20), slowdown_ns: None });
        assert!(stop.is_raised() && control.ended(&mut |_| ()) == Next::Again);
        assert_eq!(control.pace(PaceRequest::default()).rate, Some(1 << 20));
        let _stop = control.begin();
        let _ = control.answer(&PassRequest::Pause);
        let _ = control.answer(&PassRequest::Pace { rate: Some(2 << 20), slowdown_ns: None });
        assert_eq!(phase(&control), PassPhase::Pausing, "a pace does not end a pause");
        for (rate, slowdown_ns) in [(Some(1), None), (None, Some(1_000_000))] {
            let refused = control.answer(&PassRequest::Pace { rate, slowdown_ns });
            assert!(matches!(refused, PassAnswer::Error(fault) if fault.code == Some(Code::InvalidRequest)));
        }
        assert_eq!(control.state().rate, Some(2 << 20));
    }

    /// A run reads its pace before it begins.
    #[test]
    fn a_pace_that_comes_while_a_run_opens_ends_that_run() {
        let control = control();
        let _stop = control.begin();
        let pace = |rate| control.answer(&PassRequest::Pace { rate: Some(rate), slowdown_ns: None });
        let _ = pace(1 << 20);
        assert_eq!(control.ended(&mut |_| ()), Next::Again);
        let _ = pace(2 << 20);
        assert!(control.begin().is_raised());
        assert_eq!(control.ended(&mut |_| ()), Next::Again);
        assert!(!control.begin().is_raised());
        assert_eq!(control.pace(PaceRequest::default()).rate, Some(2 << 20));
    }

    #[test]
    fn without_saved_progress_nothing_pauses() {
        let control = control();
        control.knows("u", "n", false, false);
        let stop = control.begin();
        let refused = control.answer(&PassRequest::Pause);
        assert!(matches!(refused, PassAnswer::Error(fault) if fault.code == Some(Code::NotSaved)));
        assert!(!stop.is_raised());
    }
}

//! The course of a pass: its batches, one after another, independent of the work on each.

use super::observer::{Observer, Progress, StopReason};
use super::retry::{Retry, reconnect};
use super::schedule::Schedule;
use crate::error::HostError;
use crate::stop::Stop;
use crate::target::Target;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The work of a pass on each batch. A scrub checks it.
pub(crate) trait Work {
    /// Does one batch. After an error, nothing of the batch counts, and it is repeated.
    ///
    /// # Errors
    /// If a node fails, or the pass must not go on.
    fn batch(&mut self, stripes: Range<u64>, observer: &mut dyn Observer) -> Result<(), HostError>;

    /// Completed batches, including those of earlier runs of the pass.
    fn batches_done(&self) -> usize;

    /// Counts the last batch as completed.
    fn count_batch(&mut self);

    /// Progress of the work.
    fn progress(&self) -> Progress;

    /// Returns whether the pass has reached its limit of findings.
    fn is_too_much(&self) -> bool;

    /// Saves progress if it is time to, and looks whether what was read still holds.
    ///
    /// # Errors
    /// If it does not.
    fn save_in_time(&mut self, observer: &mut dyn Observer) -> Result<(), HostError>;

    /// Drops all knowledge of the nodes' local memory, because the connections are new.
    fn forget_connections(&mut self);
}

/// Runs the batches of a schedule.
pub(crate) struct Course<'t> {
    pub(crate) target: &'t Target,
    pub(crate) stop: &'t Stop,
    pub(crate) schedule: Schedule,
    retry: Retry,
    /// True if lost connections are re-established. Not while members are held for writing, because
    /// others may have written since the hold was lost.
    may_reconnect: bool,
    /// Number of times that lost connections were re-established.
    pub(crate) reconnections: u64,
}

impl<'t> Course<'t> {
    pub(crate) fn new(
        target: &'t Target,
        stop: &'t Stop,
        schedule: Schedule,
        reconnect: Duration,
        may_reconnect: bool,
    ) -> Self {
        Self { target, stop, schedule, retry: Retry::new(reconnect), may_reconnect, reconnections: 0 }
    }

    /// Does the remaining batches. Returns the reason if it ended before the last one; the resumed
    /// pass repeats the failed batch.
    pub(crate) fn run(&mut self, work: &mut impl Work, observer: &mut dyn Observer) -> Option<StopReason> {
        observer.progress(&work.progress());
        while let Some(stripes) = self.schedule.batches.get(work.batches_done()).cloned() {
            if self.stop.is_raised() {
                return Some(StopReason::Interrupted);
            }
            while let Err(error) = work.batch(stripes.clone(), observer) {
                if let Err(error) = self.try_again(error, observer) {
                    return Some(self.reason(&error));
                }
                work.forget_connections();
            }
            self.retry.succeeded();
            work.count_batch();
            observer.progress(&work.progress());
            let more = work.batches_done() < self.schedule.batches.len();
            if more && work.is_too_much() {
                return Some(StopReason::TooManyFindings);
            }
            if let Err(error) = work.save_in_time(observer) {
                return Some(self.reason(&error));
            }
        }
        self.stop.is_raised().then_some(StopReason::Interrupted)
    }

    /// The reason why the pass ends, if this error ends it.
    pub(crate) fn reason(&self, error: &HostError) -> StopReason {
        // Failures that the operator caused by asking for the end: of a wait, or of a command of a
        // node.
        let cut_short = matches!(error, HostError::Interrupted) || error.is_lost_connection();
        match error {
            HostError::ArrayChanged(what) => StopReason::ArrayChanged(what.clone()),
            _ if self.stop.is_raised() && cut_short => StopReason::Interrupted,
            _ => StopReason::Failed(error.to_string()),
        }
    }

    /// After a batch failed with `error`: waits and reconnects, if that can help.
    fn try_again(&mut self, mut error: HostError, observer: &mut dyn Observer) -> Result<(), HostError> {
        loop {
            if self.stop.is_raised() || !self.may_reconnect || !error.is_lost_connection() {
                return Err(error);
            }
            let Some(wait) = self.retry.failed(Instant::now()) else { return Err(error) };
            observer.note(&format!("{error}; trying again in {:.2} s", wait.as_secs_f64()));
            self.stop.wait(wait).map_err(|_| HostError::Interrupted)?;
            match reconnect(self.target, self.stop) {
                Ok(()) => break,
                Err(again) => error = again,
            }
        }
        self.reconnections += 1;
        Ok(())
    }
}

//! The course of a pass: its batches, one after another, independent of the work on each.

use super::observer::{Observer, Progress, StopReason};
use super::retry::{Retry, reconnect};
use super::schedule::Schedule;
use crate::error::HostError;
use crate::stop::Stop;
use crate::target::Target;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What a pass does to a batch. A scrub checks it.
pub(crate) trait Work {
    /// Does one batch. After an error nothing of the batch counts, and it is done again.
    ///
    /// # Errors
    /// If a node fails, or the pass must not go on.
    fn batch(&mut self, stripes: Range<u64>, observer: &mut dyn Observer) -> Result<(), HostError>;

    /// Batches that are done, those of an interrupted pass included.
    fn batches_done(&self) -> usize;

    /// Counts the batch that was done last.
    fn count_batch(&mut self);

    /// How far the work is.
    fn progress(&self) -> Progress;

    /// Whether the pass has found more than it is made for.
    fn is_too_much(&self) -> bool;

    /// Saves progress if it is time to.
    fn save_in_time(&mut self, observer: &mut dyn Observer);

    /// Drops what was learned of the nodes' local memory: the connections are new.
    fn forget_connections(&mut self);
}

/// Runs the batches of a schedule.
pub(crate) struct Course<'t> {
    pub(crate) target: &'t Target,
    pub(crate) stop: &'t Stop,
    pub(crate) schedule: Schedule,
    retry: Retry,
    /// Lost connections are made anew. Not while members are held for writing: others may have
    /// written since the hold was lost.
    may_reconnect: bool,
    /// How often lost connections were made anew.
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

    /// Does the batches that are left. Why it ended before the last one, if it did: the pass that
    /// resumes does the failed batch again.
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
            work.save_in_time(observer);
        }
        self.stop.is_raised().then_some(StopReason::Interrupted)
    }

    /// Why the pass ends, if this error ends it.
    pub(crate) fn reason(&self, error: &HostError) -> StopReason {
        // What failed because the operator wants the end: a wait, or a command of a node.
        let cut_short = matches!(error, HostError::Interrupted) || error.is_lost_connection();
        if self.stop.is_raised() && cut_short {
            StopReason::Interrupted
        } else {
            StopReason::Failed(error.to_string())
        }
    }

    /// After a batch failed with `error`: waits and connects anew, if that can help.
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

//! Media: what commands read of them, and zeros.

use super::LocalNode;
use crate::engine::{Fold, MediaJob, MediaSource, Permit};
use crate::memory::MemoryAccess;
use pumice_offload::{DriveRange, Drives, NodeError, ParityCommand, ParityResult, Source};
use std::ops::Range;

impl LocalNode {
    /// Executes a command over media without regard to the pace of scrubs: users of a volume wait
    /// for the stripes.
    ///
    /// # Errors
    /// As [`parity_while`](Self::parity_while).
    pub(crate) fn fold_at_once(
        &self,
        command: &ParityCommand,
        memory: &dyn MemoryAccess,
        permit: &dyn Permit,
    ) -> Result<ParityResult, NodeError> {
        command.validate()?;
        let sources = self.media_sources(command)?;
        let fold = Fold::new(command, self.options.kernels, memory)?;
        let job = MediaJob::new(command, &self.drives, sources, fold, self.options.error_time, permit);
        self.run_job(&job, permit)
    }

    pub(super) fn media_sources(&self, command: &ParityCommand) -> Result<Vec<MediaSource>, NodeError> {
        command
            .sources
            .iter()
            .map(|source| {
                let Source::Media { drive, base } = *source else {
                    return Err(NodeError::invalid("sources", "media and memory in one command"));
                };
                // To the end of the last window, where the medium may end: chunks can be shorter
                // than the distance between them. A valid command has a stripe.
                let window = u64::from(command.window.start) + u64::from(command.window.len);
                let len = (command.stripes.end - 1)
                    .checked_mul(u64::from(command.chunk))
                    .and_then(|len| len.checked_add(window))
                    .filter(|len| base.checked_add(*len).is_some())
                    .ok_or_else(|| NodeError::invalid("sources", "a range past 64 bits"))?;
                self.checked(drive, base, len)?;
                Ok(MediaSource { device: self.index(drive)?, base })
            })
            .collect()
    }

    /// Notes what a check has read of each drive. A window of a chunk is a second look at a
    /// suspect, unless it begins with the chunk in stripe after stripe: chunks of a mirror may be
    /// further apart than they are long.
    pub(super) fn note_checked(&self, command: &ParityCommand, ranges: &[(usize, Range<u64>)]) {
        let (window, chunk) = (u64::from(command.window.len), u64::from(command.chunk));
        if window == chunk {
            ranges.iter().for_each(|(index, bytes)| self.pacing.checked(*index, bytes));
        } else if command.window.start == 0 && command.count() > 1 {
            for (index, bytes) in ranges {
                let starts = (0..command.count()).map(|repetition| bytes.start + repetition * chunk);
                starts.for_each(|start| self.pacing.checked(*index, &(start..start + window)));
            }
        }
    }
}

/// Zeroes ranges, all at a time.
pub(super) fn zero_ranges(node: &LocalNode, ranges: &[DriveRange]) -> Result<(), (usize, NodeError)> {
    let results: Vec<_> = std::thread::scope(|scope| {
        let zero = |range: &DriveRange| {
            let DriveRange { drive, offset, len } = *range;
            scope.spawn(move || node.zero(drive, offset, len))
        };
        let threads: Vec<_> = ranges.iter().map(zero).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let failed = results.into_iter().enumerate().find_map(|(i, result)| Some((i, result.err()?)));
    failed.map_or(Ok(()), Err)
}

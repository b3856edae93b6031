//! The conventional method: every chunk travels to the host, and the host folds.

use super::checked::Checked;
use crate::error::HostError;
use crate::stripes::{Stripes, Tags};
use crate::target::View;
use pumice_base::telemetry::Ledger;
use pumice_parity::class_plan::ClassPlan;
use pumice_parity::kernels::Kernels;
use pumice_protect::origin::{Opinion, Origin};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that fetch and fold, each one stripe at a time: some wait for the nodes while others
/// fold.
const THREADS: u64 = 4;

/// The state of the method.
pub(super) struct Conventional<'p> {
    pub(super) view: &'p View,
    pub(super) chunk: u32,
    pub(super) kernels: Kernels,
}

impl Conventional<'_> {
    /// Checks a run of stripes.
    ///
    /// # Errors
    /// If a node fails for a reason other than unreadable media.
    pub(super) fn check(&self, stripes: Range<u64>, out: &mut Checked) -> Result<(), HostError> {
        let next = AtomicU64::new(stripes.start);
        let shared = Mutex::new(out);
        let classes: Vec<ClassPlan> = self.view.plans();
        let work = || -> Result<(), HostError> {
            let mut reader = Stripes::new(self.view, self.chunk);
            let mut mine = Checked::default();
            loop {
                // Relaxed: only the number is shared; the join orders the rest.
                let stripe = next.fetch_add(1, Ordering::Relaxed);
                if stripe >= stripes.end {
                    break;
                }
                self.one(&classes, &mut reader, stripe, &mut mine)?;
            }
            let mut out = shared.lock().expect("no thread panics while it holds the lock");
            out.suspects.extend(mine.suspects);
            out.holes.extend(mine.holes);
            out.moved += mine.moved;
            if let Some(tags) = mine.tags {
                let sums = out.tags.get_or_insert_default();
                sums.iter_mut().zip(tags).for_each(|(sum, fit)| *sum += fit);
            }
            Ok(())
        };
        let threads = THREADS.min(stripes.end - stripes.start);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a thread does not panic"))
        })
    }

    fn one(
        &self,
        classes: &[ClassPlan],
        reader: &mut Stripes<'_>,
        stripe: u64,
        out: &mut Checked,
    ) -> Result<(), HostError> {
        let mut start = 0;
        while start < self.chunk {
            let len = reader.window_bytes().min(self.chunk - start);
            let read = reader.read(stripe, start, len)?;
            out.moved += Ledger::read_from_drives(read.bytes) + Ledger::arrived_at_host(read.bytes);
            for tags in read.tags.iter().flatten() {
                let sums = out.tags.get_or_insert_default();
                for judged in &tags.judged {
                    match judged.opinion {
                        Opinion::Fits(origin) => sums[origin as usize] += 1,
                        Opinion::Unchecked => sums[Origin::Unknown as usize] += 1,
                        Opinion::Differs(_) | Opinion::Lost => {}
                    }
                }
            }
            if !read.holes.is_empty() {
                // Which bytes exactly, the examination finds out: it reads block by block.
                out.holes.entry(stripe).or_default();
            } else {
                let class = &classes[self.view.class(stripe)];
                if read.tags.iter().flatten().any(Tags::is_faulty)
                    || class.check(&self.kernels, &read.chunks).0 != 0
                {
                    out.suspects.insert(stripe);
                }
            }
            start += len;
        }
        Ok(())
    }
}

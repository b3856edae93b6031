//! Counts of a drive's work.

/// The most that is taken over of a counter: no drive counts so far, and what is added to it, or
/// several of them together, fit into 64 bits.
const MOST: u64 = 1 << 60;

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Pages that were written by the host.
    pub host_writes: u64,
    /// Pages that were programmed for the host.
    pub host_programs: u64,
    /// Pages that garbage collection moved.
    pub copies: u64,
    /// Blocks that were erased.
    pub erases: u64,
    /// Writes that needed no program, as their content was there.
    pub inline_hits: u64,
    /// Pages that were merged away in idle time.
    pub idle_merges: u64,
    /// Pages that were merged away by garbage collection.
    pub gc_merges: u64,
    /// Pages that the filter could not tell to be unique, looked up.
    pub lookups: u64,
    /// Of those, pages that were unique after all.
    pub false_undetermined: u64,
    /// Equal keys of contents that were not equal.
    pub key_collisions: u64,
    /// Pages read to compare or to hash contents.
    pub dedup_reads: u64,
    /// Pages whose data were lost before they could be moved.
    pub lost_pages: u64,
    /// Blocks that were retired.
    pub retired: u64,
    /// The most memory that the scheme needed, in bytes, as sampled at idle times and at the end.
    pub scheme_bytes: u64,
}

impl Stats {
    /// Counters that a checkpoint keeps.
    pub(crate) const KEPT: usize = 13;

    /// Those counters, in the order of the byte map in `docs/reference/on-disk/flash-journal.md`.
    pub(crate) fn kept(&self) -> [u64; Self::KEPT] {
        [
            self.host_writes,
            self.host_programs,
            self.copies,
            self.erases,
            self.inline_hits,
            self.idle_merges,
            self.gc_merges,
            self.lookups,
            self.false_undetermined,
            self.key_collisions,
            self.dedup_reads,
            self.lost_pages,
            self.retired,
        ]
    }

    /// The counters as a checkpoint kept them, each up to [`MOST`].
    pub(crate) fn from_kept(kept: &[u64; Self::KEPT]) -> Self {
        let [
            host_writes,
            host_programs,
            copies,
            erases,
            inline_hits,
            idle_merges,
            gc_merges,
            lookups,
            false_undetermined,
            key_collisions,
            dedup_reads,
            lost_pages,
            retired,
        ] = kept.map(|count| count.min(MOST));
        Self {
            host_writes,
            host_programs,
            copies,
            erases,
            inline_hits,
            idle_merges,
            gc_merges,
            lookups,
            false_undetermined,
            key_collisions,
            dedup_reads,
            lost_pages,
            retired,
            scheme_bytes: 0,
        }
    }

    /// Programs for each page that the host wrote; 1 before the first.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_writes == 0 {
            return 1.0;
        }
        (self.host_programs + self.copies) as f64 / self.host_writes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_no_drive_reaches_can_still_be_added_to() {
        let mut stats = Stats::from_kept(&[u64::MAX; Stats::KEPT]);
        stats.copies += 1;
        assert!((stats.write_amplification() - 2.0).abs() < 1e-9);
        assert_eq!(Stats::from_kept(&[7; Stats::KEPT]).kept(), [7; Stats::KEPT]);
    }
}

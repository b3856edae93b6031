//! Counters of a flash translation layer.

/// Work of a device's flash translation layer since the format, and its present content. Pages and
/// blocks are those of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FlashCounts {
    /// Pages that hosts wrote.
    pub host_writes: u64,
    /// Pages that were programmed for them. Pages that the journal programs are not counted.
    pub host_programs: u64,
    /// Pages that garbage collection moved.
    pub copies: u64,
    /// Writes that needed no program, because their content was already there.
    pub inline_hits: u64,
    /// Pages that were merged away in idle time.
    pub idle_merges: u64,
    /// Pages that were merged away by garbage collection.
    pub gc_merges: u64,
    /// Pages that were looked up for their contents.
    pub lookups: u64,
    /// Pages that were read to hash or to compare contents.
    pub dedup_reads: u64,
    /// Blocks that were erased.
    pub erases: u64,
    /// Pages whose data were lost before they could be moved.
    pub lost_pages: u64,
    /// Logical pages that hold something.
    pub mapped_pages: u64,
    /// Physical pages that hold something.
    pub live_pages: u64,
    /// Approximate number of logical pages whose contents are still to be looked up.
    pub waiting_pages: u64,
    /// Blocks of data.
    pub blocks: u64,
    /// Blocks of data that hold nothing.
    pub free_blocks: u64,
    /// Blocks of data that are no longer used.
    pub retired_blocks: u64,
    /// Erases of the least erased block of data.
    pub fewest_erases: u64,
    /// Mean number of erases of a block of data.
    pub mean_erases: f64,
    /// Erases of the most erased block of data.
    pub most_erases: u64,
}

impl FlashCounts {
    /// Programs for each page that hosts wrote; 1 before the first.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_writes == 0 {
            return 1.0;
        }
        (self.host_programs + self.copies) as f64 / self.host_writes as f64
    }
}

//! The translation layer of a drive.

use crate::device::nand::FileNand;
use crate::device::page::Page;
use crate::device::superblock::Superblock;
use crate::ftl::{Coded, Config, Ftl, FtlError, NandJournal, Progress, Scheme, recover_telling};
use pumice_base::durable::Medium;
use pumice_blockdev::FlashCounts;

/// The translation layer over a medium.
pub(crate) type Layer<M> = Ftl<Coded<FileNand<M>>, NandJournal, Page>;

/// The settings of the translation layer of a drive.
pub(crate) fn config(superblock: &Superblock, scheme: Scheme) -> Config {
    let logical = superblock.logical;
    Config {
        fingerprint: superblock.fingerprint,
        checkpoint_every: checkpoint_every(logical),
        // The more blocks share a sync, the fewer syncs are made for erases alone.
        erase_at_once: (superblock.layout.geometry().blocks / 16).clamp(16, 128),
        ahead: (superblock.layout.geometry().blocks / 128).clamp(2, 32),
        ..Config::new(logical, scheme)
    }
}

/// Programs from one checkpoint to the next. A checkpoint stops all others, and is two copies of
/// the map; recovery reads the footers of what was programmed since, 32 MiB for a GiB of data. From
/// 256 GiB on recovery is what counts, from 1 TiB on the checkpoint: a 16th of what is written.
fn checkpoint_every(logical: u32) -> u64 {
    u64::from(logical / 8).clamp(262_144, u64::from(logical / 32).max(8 << 20))
}

/// Recovers what a medium holds.
pub(crate) fn mount<M: Medium>(
    medium: M,
    superblock: &Superblock,
    scheme: Scheme,
    accept_lost_tags: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Layer<M>, FtlError> {
    let nand = Coded::with_sums(FileNand::new(medium, superblock.layout), superblock.sums());
    recover_telling(nand, config(superblock, scheme), accept_lost_tags, progress)
}

/// The counts of a translation layer's work and contents.
pub(crate) fn counts<M: Medium>(layer: &mut Layer<M>) -> FlashCounts {
    let (stats, (blocks, free)) = (layer.stats(), layer.block_counts());
    let (fewest, mean_erases, most) = layer.wear();
    FlashCounts {
        host_writes: stats.host_writes,
        host_programs: stats.host_programs,
        copies: stats.copies,
        inline_hits: stats.inline_hits,
        idle_merges: stats.idle_merges,
        gc_merges: stats.gc_merges,
        lookups: stats.lookups,
        dedup_reads: stats.dedup_reads,
        erases: stats.erases,
        lost_pages: stats.lost_pages,
        mapped_pages: layer.map().mapped().into(),
        live_pages: layer.live_pages().into(),
        waiting_pages: layer.waiting() as u64,
        blocks: blocks.into(),
        free_blocks: free.into(),
        retired_blocks: stats.retired,
        fewest_erases: fewest.into(),
        mean_erases,
        most_erases: most.into(),
    }
}

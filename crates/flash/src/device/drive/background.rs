//! The work of a flash drive besides commands: in idle time, and ahead of need.

use super::{FlashDrive, PAGE};
use crate::chip::Nand as _;
use crate::device::ahead::Ahead;
use crate::ftl::FtlError;
use pumice_blockdev::{Background, IoError, Operation};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Blocks that background work keeps free beyond those that garbage collection needs.
const FREE_AHEAD: u32 = 4;
/// Pages that are looked at for duplicates under one lock.
const LOOKS: u64 = 64;
/// Pages that wait for a look and are passed over, as they need none any more, under one lock.
const PASSES: usize = 4096;
/// The quiet time that is needed for a checkpoint that nothing else asks for.
const QUIET: Duration = Duration::from_secs(5);

impl FlashDrive {
    /// Collects a block before a write has to wait for that, unless another thread does so. The
    /// block is read without the lock.
    pub(super) fn collect_ahead(&self) -> Result<(), FtlError> {
        let Ok(_turn) = self.collecting.try_lock() else { return Ok(()) };
        let mut state = self.lock();
        let Some((block, pages)) = state.layer.next_victim() else { return Ok(()) };
        let erases = state.layer.nand().erases(block);
        drop(state);
        let ahead = Ahead::read(&self.medium, self.layout, &pages, &self.buffers, Some(&self.sums));
        let mut state = self.lock();
        // Another may have collected it meanwhile, and it may be in use again.
        if state.layer.nand().erases(block) != erases {
            return Ok(());
        }
        if let Some(ahead) = ahead {
            state.layer.nand_mut().inner_mut().know(ahead);
        }
        state.layer.collect_block(block, 0)?;
        let number = self.medium.accepted();
        drop(state);
        self.carry(number)
    }
}

impl Background for FlashDrive {
    fn wanted(&self) -> u64 {
        let Ok(state) = self.state.try_lock() else { return 0 };
        if state.layer.needs_mark() {
            2 * PAGE as u64
        } else if state.layer.is_short(FREE_AHEAD) && !state.rested {
            // Half of the pages of a block are moved, at most: read and written.
            u64::from(self.layout.geometry().pages_per_block) * PAGE as u64
        } else if !state.rested {
            LOOKS * PAGE as u64
        } else if self.quiet() >= QUIET && state.layer.checkpoint_pays() {
            2 * 4 * u64::from(state.layer.map().logical())
        } else {
            0
        }
    }

    fn quiet(&self) -> Duration {
        self.opened.elapsed().saturating_sub(Duration::from_nanos(self.last.load(Ordering::Relaxed)))
    }

    fn work(&self, most: u64) -> Result<u64, IoError> {
        let fail = |error| self.error(Operation::Write, 0, 0, error);
        let mut guard = self.lock();
        let state = &mut *guard;
        let before = state.layer.stats();
        if state.layer.needs_mark() {
            state.layer.mark().map_err(fail)?;
            return Ok(2 * PAGE as u64);
        }
        let moved = state.layer.collect_ahead(0, FREE_AHEAD).map_err(fail)?;
        if !moved && !state.layer.erase_ahead(0).map_err(fail)? {
            if state.layer.waiting() > 0 {
                let looks = (most / PAGE as u64).clamp(1, LOOKS);
                state.layer.idle_piece(0, looks, PASSES).map_err(fail)?;
            } else if state.rested {
                state.layer.checkpoint().map_err(fail)?;
            } else {
                state.rested = true;
            }
        }
        self.show(state);
        let after = state.layer.stats();
        let pages = 2 * (after.copies - before.copies) + after.dedup_reads - before.dedup_reads;
        let footers = (after.erases - before.erases) * self.layout.footer_bytes() as u64;
        let number = self.medium.accepted();
        drop(guard);
        self.carry(number).map_err(fail)?;
        Ok(pages * PAGE as u64 + footers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{BlockId, Ppn, Random};
    use crate::device::place::{format, open_device, plan, superblock_of};
    use crate::ftl::Scheme;
    use pumice_blockdev::{BlockDevice as _, HookedDevice};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};

    /// The gate at which a read of one byte waits: it says when it is there, and until when it
    /// waits.
    type Gate = Arc<Mutex<Option<(u64, Sender<()>, Receiver<()>)>>>;

    /// A drive of 4 MiB, and its device's gate.
    fn gated(folder: &tempfile::TempDir) -> (FlashDrive, Gate) {
        let path = folder.path().join("flash");
        let spec = format!("{},capacity=4MiB,op=7%", path.display()).parse().unwrap();
        format(&spec, &plan(&spec).unwrap(), false).unwrap();
        let device = Arc::new(open_device(&path).unwrap());
        let superblock = superblock_of(&path, &device).unwrap();
        let gate = Gate::default();
        let at = Arc::clone(&gate);
        let hooked = HookedDevice::over(device).at_reads(move |offset, bytes| {
            let covers = |at: u64| (offset..offset + bytes.len() as u64).contains(&at);
            let here = at.lock().unwrap().take_if(|(at, _, _)| covers(*at));
            if let Some((_, there, go)) = here {
                there.send(()).unwrap();
                // It goes on when the other end is gone, even if the test fails.
                let _ = go.recv();
            }
        });
        (FlashDrive::open(Arc::new(hooked), &superblock, Scheme::None, "flash").unwrap(), gate)
    }

    /// Writes a page whose bytes say how often it was written.
    fn write(drive: &FlashDrive, model: &mut [u8], lpn: usize) {
        model[lpn] = model[lpn].wrapping_add(1);
        let bytes: Vec<u8> = (0..PAGE).map(|at| model[lpn] ^ (lpn % 251) as u8 ^ at as u8).collect();
        drive.write_at((lpn * PAGE) as u64, &bytes).unwrap();
    }

    /// The logical pages that a block holds, and where.
    fn live(drive: &FlashDrive, block: BlockId, pages: usize) -> Vec<(usize, Ppn)> {
        let state = drive.lock();
        let place = |lpn| Some((lpn, state.layer.map().lookup(lpn as u32)?));
        let here = |page: &(usize, Ppn)| drive.layout.geometry().block_of(page.1) == block;
        (0..pages).filter_map(place).filter(here).collect()
    }

    #[test]
    fn what_was_read_of_a_victim_is_forgotten_if_the_block_was_used_again_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, gate) = gated(&folder);
        let (pages, mut random) = (drive.capacity as usize / PAGE, Random::new(16));
        let mut model = vec![0; pages];
        (0..pages).for_each(|lpn| write(&drive, &mut model, lpn));
        // Nobody collects beforehand, until a victim is wanted.
        let turn = drive.collecting.lock().unwrap();
        let (block, before) = loop {
            write(&drive, &mut model, random.below(pages as u64) as usize);
            let victim = drive.lock().layer.next_victim();
            if let Some((block, live)) = victim.filter(|(_, live)| live.len() >= 8) {
                break (block, live);
            }
        };
        drop(turn);
        let (there, wait) = channel();
        let (go, held) = channel();
        let last = drive.layout.data_at(*before.last().unwrap());
        *gate.lock().unwrap() = Some((last, there, held));
        let erases = || drive.lock().layer.nand().erases(block);
        let geometry = drive.layout.geometry();
        let full = geometry.page(block, geometry.pages_per_block - 1);
        std::thread::scope(|scope| {
            let collector = scope.spawn(|| drive.collect_ahead());
            wait.recv().unwrap();
            let (first, mut used) = (erases(), Vec::new());
            // The block is filled again, and other pages than those that were read die in it.
            while used.is_empty() {
                while erases() == first || drive.lock().layer.nand().sum(full).is_none() {
                    write(&drive, &mut model, random.below(pages as u64) as usize);
                }
                for (lpn, place) in live(&drive, block, pages) {
                    if !before.contains(&place) {
                        write(&drive, &mut model, lpn);
                    }
                }
                used = live(&drive, block, pages);
                if used.iter().any(|(_, place)| !before.contains(place)) {
                    used.clear();
                }
            }
            drop(go);
            collector.join().unwrap().unwrap();
        });
        assert_eq!(drive.stats().lost_pages, 0);
        let mut back = vec![0; PAGE];
        for (lpn, times) in model.iter().enumerate() {
            drive.read_at((lpn * PAGE) as u64, &mut back).unwrap();
            assert!(back[1] == times ^ (lpn % 251) as u8 ^ 1, "page {lpn}");
        }
    }
}

//! Checks that the file behind a device is unchanged: its lock is advisory, so another program can
//! remove or truncate it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Least time between two looks at the file before direct writes.
const PAUSE: Duration = Duration::from_millis(1);

/// Facts about a file that tell whether it is intact.
#[derive(Debug)]
pub(super) struct Intact {
    /// It had a name when it was opened. One without can lose none.
    linked: bool,
    /// Bytes when it was opened.
    size: u64,
    /// The shortest that it was seen since: what lies behind may be lost.
    kept: AtomicU64,
    /// It was seen without a name.
    removed: AtomicBool,
    opened: Instant,
    /// Time of the last look, in nanoseconds after the file was opened.
    looked: AtomicU64,
}

impl Intact {
    /// The facts about a file that was just opened and has `size` bytes.
    pub(super) fn new(file: &File, size: u64) -> io::Result<Self> {
        Ok(Self {
            linked: file.metadata()?.nlink() != 0,
            size,
            kept: AtomicU64::new(size),
            removed: AtomicBool::new(false),
            opened: Instant::now(),
            looked: AtomicU64::new(0),
        })
    }

    /// Looks at the file. A part that was lost once stays lost, whatever its length is later.
    pub(super) fn look(&self, file: &File) -> io::Result<()> {
        let about = file.metadata()?;
        // Relaxed, all of them: each says something by itself, and none is ever taken back.
        if about.len() < self.size {
            self.kept.fetch_min(about.len(), Ordering::Relaxed);
        }
        if self.linked && about.nlink() == 0 {
            self.removed.store(true, Ordering::Relaxed);
        }
        self.lost()
    }

    /// The same before a direct write that ends at `end`, where it is due. A file that was
    /// truncated is as long as before once its last byte is written: so that is never written
    /// without a look.
    pub(super) fn look_at_times(&self, file: &File, end: u64) -> bool {
        let now = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let due = now.saturating_sub(self.looked.load(Ordering::Relaxed)) >= PAUSE.as_nanos() as u64;
        if !due && end < self.size {
            return !self.is_lost();
        }
        self.looked.store(now, Ordering::Relaxed);
        self.look(file).is_ok()
    }

    /// Returns whether anything of it was seen to be lost.
    pub(super) fn is_lost(&self) -> bool {
        self.removed.load(Ordering::Relaxed) || self.kept.load(Ordering::Relaxed) < self.size
    }

    fn lost(&self) -> io::Result<()> {
        if self.removed.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its file was removed"));
        }
        self.check_read(self.size)
    }

    /// Refuses to read, up to `end`, what a truncation has removed.
    pub(super) fn check_read(&self, end: u64) -> io::Result<()> {
        let kept = self.kept.load(Ordering::Relaxed);
        if end <= kept {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("its file was truncated to {kept} bytes")))
    }
}

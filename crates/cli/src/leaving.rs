//! Things to remove when a signal ends the program: temporary folders and files, child processes.
//!
//! Commands that clean up when they return do not return if a signal ends them. They register here
//! what they make.

use crate::system::on_signals;
use pumice_blockdev::remove_unfinished;
use pumice_service::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The exit code after a signal.
const INTERRUPTED: i32 = 3;
/// Attempts to remove a folder in which something is made meanwhile.
const TRIES: u32 = 200;

static THINGS: Mutex<Vec<(u64, Thing)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
static IS_LEAVING: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
enum Thing {
    Folder(PathBuf),
    File(PathBuf),
    Child(Arc<Mutex<Child>>),
}

fn things() -> MutexGuard<'static, Vec<(u64, Thing)>> {
    THINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a thing until this value is dropped. Whoever made the thing removes it before.
#[derive(Debug)]
pub struct Registered(u64);

impl Drop for Registered {
    fn drop(&mut self) {
        things().retain(|(id, _)| *id != self.0);
    }
}

fn register(things: &mut Vec<(u64, Thing)>, thing: Thing) -> Registered {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    things.push((id, thing));
    Registered(id)
}

/// Registers a file that may be made from now on.
pub fn file(path: &Path) -> Registered {
    register(&mut things(), Thing::File(path.to_owned()))
}

/// A temporary folder, which is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFolder {
    folder: tempfile::TempDir,
    _registered: Registered,
}

impl TemporaryFolder {
    /// Makes one.
    pub(crate) fn new(prefix: &str) -> Result<Self, Failure> {
        let mut things = things();
        let folder = tempfile::Builder::new().prefix(prefix).tempdir()?;
        let registered = register(&mut things, Thing::Folder(folder.path().to_owned()));
        Ok(Self { folder, _registered: registered })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A child process, which is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Arc<Mutex<Child>>,
    _registered: Registered,
}

impl ChildProcess {
    /// Starts one.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self, Failure> {
        let mut things = things();
        let child = Arc::new(Mutex::new(command.spawn()?));
        let registered = register(&mut things, Thing::Child(Arc::clone(&child)));
        Ok(Self { child, _registered: registered })
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Child) -> T) -> T {
        act(&mut self.child.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.with(end);
    }
}

fn end(child: &mut Child) {
    // It may have ended already; either way it is waited for.
    let _ = child.kill();
    let _ = child.wait();
}

/// From now on a signal (SIGINT, SIGTERM, SIGHUP) removes what is registered, and ends the program
/// with 3.
///
/// # Errors
/// If the program has a handler of signals already.
pub fn on_signal() -> Result<(), Failure> {
    Ok(on_signals(|| leave())?)
}

/// Removes what is registered, and ends the program.
pub(crate) fn leave() -> ! {
    IS_LEAVING.store(true, Ordering::SeqCst);
    // Never released: nothing is made any more.
    let things = things();
    for (_, thing) in things.iter() {
        if let Thing::Child(child) = thing {
            end(&mut child.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
    for (_, thing) in things.iter() {
        match thing {
            Thing::Child(_) => {}
            Thing::File(path) => {
                // It may not have been made, or be gone.
                let _ = std::fs::remove_file(path);
            }
            Thing::Folder(path) => {
                // The other threads go on, and may make a file while the folder is emptied.
                for _ in 0..TRIES {
                    if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
    remove_unfinished();
    std::process::exit(INTERRUPTED)
}

/// Returns unless a signal is ending the program. What fails then, fails because of that, and is no
/// error to tell.
pub(crate) fn unless_leaving() {
    while IS_LEAVING.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_secs(1));
    }
}

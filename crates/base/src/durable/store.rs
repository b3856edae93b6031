//! The trait of a folder of small files.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A folder of small files, with the few operations that durable structures need.
///
/// A file system can fail or lose each operation separately, so a test can cut the power between
/// any two of them.
pub trait Store: Send + Sync + fmt::Debug {
    /// The path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// The names of the files, in no order. Folders are left out.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Reads a whole file; `None` if there is none of that name.
    ///
    /// # Errors
    /// If it cannot be read, or is longer than `limit` bytes (kind `FileTooLarge`).
    fn read(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>>;

    /// Fills `buf` from a file, beginning at `offset`.
    ///
    /// # Errors
    /// If it cannot be read, or ends before that (kind `UnexpectedEof`).
    fn read_at(&self, name: &str, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Makes a new file with some content. Neither the content nor the name is durable yet.
    ///
    /// # Errors
    /// If a file of that name is there (kind `AlreadyExists`), or it cannot be made or written. In
    /// the latter case a part of it may be left.
    fn create(&self, name: &str, content: &[u8]) -> io::Result<()>;

    /// Writes into a file that is there. Not durable yet.
    ///
    /// # Errors
    /// If it is not there, or cannot be written.
    fn write_at(&self, name: &str, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes the content of a file durable.
    ///
    /// # Errors
    /// If that cannot be guaranteed. Then data written since the last sync may be lost.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// Renames a file, replacing any file of the new name. Not durable yet.
    ///
    /// # Errors
    /// If it cannot be renamed.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; false if there was none. Not durable yet.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn remove(&self, name: &str) -> io::Result<bool>;

    /// Makes the names in the folder durable: creations, renames and removals.
    ///
    /// # Errors
    /// If that cannot be promised.
    fn sync_folder(&self) -> io::Result<()>;

    /// A folder within this one. It need not exist; [`make`](Self::make) makes it.
    fn folder(&self, name: &str) -> Arc<dyn Store>;

    /// Makes this folder, durably, if it is not there; only its owner may read it (mode 0700).
    ///
    /// # Errors
    /// If it cannot be made.
    fn make(&self) -> io::Result<()>;
}

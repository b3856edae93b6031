//! Bytes at offsets: the trait of media for records and logs.

use crate::durable::{Held, Store};
use std::any::Any;
use std::io;

/// A medium that is read and written by byte range: a file, or a part of a drive.
pub trait Medium {
    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// If it cannot be read, or ends before that.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at `offset`. Durable after a subsequent [`sync`](Self::sync).
    ///
    /// # Errors
    /// If it cannot be written.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Writes `data` at `offset` in the way that returns soonest: the data need not have reached
    /// the medium, but they outlive this process.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    fn write_soon(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset, data)
    }

    /// Does the same with bytes that others hold as well: a medium that writes later may hold them
    /// instead of a copy.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    fn write_held(&self, offset: u64, data: &Held) -> io::Result<()> {
        self.write_soon(offset, data)
    }

    /// Fills `buf` from `offset` if all of that is in memory and it need not wait for the medium;
    /// else says false, and `buf` holds anything.
    fn read_cached(&self, _offset: u64, _buf: &mut [u8]) -> bool {
        false
    }

    /// Begins to bring to the medium what [`write_soon`](Self::write_soon) wrote to a range; with
    /// `wait`, returns when that has been done. A [`sync`](Self::sync) has less to do then, and is
    /// needed all the same.
    ///
    /// # Errors
    /// If the medium fails: what was written to the range, and not synced, is perhaps lost.
    fn write_back(&self, _offset: u64, _len: u64, _wait: bool) -> io::Result<()> {
        Ok(())
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// If that cannot be guaranteed.
    fn sync(&self) -> io::Result<()>;

    /// Its bytes, if it knows them without delay.
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    /// Itself, for those who know a way around it.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// One file of a store, which must exist.
#[derive(Debug, Clone, Copy)]
pub struct StoreFile<'s> {
    /// The store.
    pub store: &'s dyn Store,
    /// The file's name.
    pub name: &'s str,
}

impl Medium for StoreFile<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.store.read_at(self.name, offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.store.write_at(self.name, offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.store.sync(self.name)
    }
}

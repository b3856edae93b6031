//! A store in memory that fails as file systems and drives do, from a seed.
//!
//! The fault model is that of `docs/reference/on-disk/durable.md`.

use crate::durable::Store;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a drive writes all or nothing.
const SECTOR: usize = 512;

/// A store in memory with faults. Clones, and folders within it, are the same store.
#[derive(Clone)]
pub struct FaultyStore {
    state: Arc<Mutex<State>>,
    /// The first characters of all names in this folder.
    prefix: String,
}

/// A file's content, whatever its name.
#[derive(Default)]
struct Content {
    durable: Vec<u8>,
    live: Vec<u8>,
    /// Writes since the last sync, in order.
    pending: Vec<(usize, Vec<u8>)>,
}

/// One change of names, done whole or not at all: each name with the file that it stands for then.
type Renaming = Vec<(String, Option<u64>)>;

struct State {
    files: BTreeMap<u64, Content>,
    next_file: u64,
    live: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    /// Changes of names since their folder was synced, in order.
    pending: Vec<Renaming>,
    /// Operations until the power goes; `None` for never.
    budget: Option<u64>,
    /// Bytes that still fit.
    free: Option<usize>,
    read_only: bool,
    /// The operation that fails with EIO, counted from the start.
    failing: Option<u64>,
    operations: u64,
    random: u64,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyStore({:?})", self.prefix)
    }
}

impl FaultyStore {
    /// An empty store without faults yet. The seed decides what a crash does.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            files: BTreeMap::new(),
            next_file: 0,
            live: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            budget: None,
            free: None,
            read_only: false,
            failing: None,
            operations: 0,
            random: seed,
        };
        Self { state: Arc::new(Mutex::new(state)), prefix: String::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The power goes after `operations` more operations: from then on each fails. One that changes
    /// something and meets the cut may have had its effect.
    pub fn cut_power_after(&self, operations: u64) {
        self.state().budget = Some(operations);
    }

    /// Fails one operation with EIO: the one after `operations` more.
    pub fn fail_after(&self, operations: u64) {
        let mut state = self.state();
        state.failing = Some(state.operations + operations);
    }

    /// Leaves room for so many bytes more; `None` for any number.
    pub fn set_free_bytes(&self, bytes: Option<usize>) {
        self.state().free = bytes;
    }

    /// Refuses changes with EROFS, or not.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// Operations so far, failed ones included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The power goes now and comes back: what was not synced is kept, dropped or torn.
    pub fn crash(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        for renaming in std::mem::take(&mut state.pending) {
            if state.flips() {
                apply(&mut state.durable, renaming);
            }
        }
        let mut files = std::mem::take(&mut state.files);
        for content in files.values_mut() {
            for (offset, data) in std::mem::take(&mut content.pending) {
                match state.next_random() % 4 {
                    0 => {}
                    1 => put(&mut content.durable, offset, &data),
                    _ => state.tear(&mut content.durable, offset, &data),
                }
            }
            content.live.clone_from(&content.durable);
        }
        files.retain(|file, _| state.durable.values().any(|named| named == file));
        state.files = files;
        state.live.clone_from(&state.durable);
        state.budget = None;
        state.failing = None;
    }
}

fn apply(names: &mut BTreeMap<String, u64>, renaming: Renaming) {
    for (name, file) in renaming {
        match file {
            Some(file) => names.insert(name, file),
            None => names.remove(&name),
        };
    }
}

fn put(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}

impl State {
    /// SplitMix64 (Steele, Lea, Flood, 2014).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn flips(&mut self) -> bool {
        self.next_random().is_multiple_of(2)
    }

    /// Keeps each sector of a write, or not.
    fn tear(&mut self, content: &mut Vec<u8>, offset: usize, data: &[u8]) {
        let mut at = 0;
        while at < data.len() {
            let len = (SECTOR - (offset + at) % SECTOR).min(data.len() - at);
            if self.flips() {
                put(content, offset + at, &data[at..at + len]);
            }
            at += len;
        }
    }

    /// Counts an operation, and fails it if the power is gone or it is its turn to fail.
    fn spend(&mut self) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        match &mut self.budget {
            Some(0) => return Err(io::Error::from_raw_os_error(libc::ENODEV)),
            Some(left) => *left -= 1,
            None => {}
        }
        match self.failing {
            Some(at) if at == number => Err(io::Error::from_raw_os_error(libc::EIO)),
            _ => Ok(()),
        }
    }

    /// The same for an operation that changes something, which is done by `change`. One that meets
    /// the cut may be done all the same.
    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        let at_the_cut = self.budget == Some(0);
        if let Err(error) = self.spend() {
            if at_the_cut && self.flips() {
                let _ = change(self);
            }
            return Err(error);
        }
        if self.read_only {
            return Err(io::Error::from_raw_os_error(libc::EROFS));
        }
        change(self)
    }

    fn file(&mut self, name: &str) -> io::Result<&mut Content> {
        let file = self.live.get(name).copied().ok_or(ErrorKind::NotFound)?;
        Ok(self.files.get_mut(&file).expect("a name stands for a file"))
    }

    fn rename(&mut self, renaming: Renaming) {
        apply(&mut self.live, renaming.clone());
        self.pending.push(renaming);
    }

    fn write(&mut self, name: &str, offset: usize, data: &[u8]) -> io::Result<()> {
        let have = self.file(name)?.live.len();
        let more = (offset + data.len()).saturating_sub(have);
        // A full file system takes what fits.
        let fits = self.free.map_or(more, |free| free.min(more));
        let data = &data[..data.len() - (more - fits).min(data.len())];
        if let Some(free) = &mut self.free {
            *free -= fits;
        }
        let file = self.file(name)?;
        put(&mut file.live, offset, data);
        file.pending.push((offset, data.to_vec()));
        if fits < more { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
    }
}

impl Store for FaultyStore {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("faulty").join(self.full_name(name))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.spend()?;
        let here = state.live.keys().filter_map(|name| name.strip_prefix(&self.prefix));
        Ok(here.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.state();
        state.spend()?;
        match state.file(&self.full_name(name)) {
            Ok(file) if file.live.len() as u64 > limit => Err(ErrorKind::FileTooLarge.into()),
            Ok(file) => Ok(Some(file.live.clone())),
            Err(_) => Ok(None),
        }
    }

    fn read_at(&self, name: &str, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        state.spend()?;
        let file = state.file(&self.full_name(name))?;
        let from = usize::try_from(offset).map_err(|_| ErrorKind::UnexpectedEof)?;
        let range = from..from.saturating_add(buf.len());
        buf.copy_from_slice(file.live.get(range).ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn create(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let name = self.full_name(name);
        self.state().change(|state| {
            if state.live.contains_key(&name) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            let file = state.next_file;
            state.next_file += 1;
            state.files.insert(file, Content::default());
            state.rename(vec![(name.clone(), Some(file))]);
            state.write(&name, 0, content)
        })
    }

    fn write_at(&self, name: &str, offset: u64, data: &[u8]) -> io::Result<()> {
        let name = self.full_name(name);
        let offset = usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge)?;
        self.state().change(|state| state.write(&name, offset, data))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let synced = state.spend();
        let file = state.file(&self.full_name(name))?;
        // After a sync that failed, what it should have written may be lost for good.
        let pending = std::mem::take(&mut file.pending);
        synced?;
        for (offset, data) in pending {
            put(&mut file.durable, offset, &data);
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.full_name(from), self.full_name(to));
        self.state().change(|state| {
            let file = state.live.get(&from).copied().ok_or(ErrorKind::NotFound)?;
            state.rename(vec![(from, None), (to, Some(file))]);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<bool> {
        let name = self.full_name(name);
        self.state().change(|state| {
            let there = state.live.contains_key(&name);
            if there {
                state.rename(vec![(name, None)]);
            }
            Ok(there)
        })
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.spend()?;
        let here = |renaming: &Renaming| {
            renaming
                .iter()
                .all(|(name, _)| name.strip_prefix(&self.prefix).is_some_and(|name| !name.contains('/')))
        };
        let (synced, left) = std::mem::take(&mut state.pending).into_iter().partition(here);
        state.pending = left;
        for renaming in synced {
            apply(&mut state.durable, renaming);
        }
        Ok(())
    }

    fn folder(&self, name: &str) -> Arc<dyn Store> {
        Arc::new(Self { state: Arc::clone(&self.state), prefix: format!("{}{name}/", self.prefix) })
    }

    fn make(&self) -> io::Result<()> {
        // Folders need no making here, but a read-only or dead store cannot make one.
        self.state().change(|_| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{remove, replace, sweep};
    use std::collections::BTreeSet;

    #[test]
    fn a_replaced_file_is_old_or_new_whatever_operation_the_power_goes_at() {
        let mut seen = BTreeSet::new();
        for seed in 0..500 {
            let store = FaultyStore::new(seed);
            let (old, new) = (vec![1; 3000], vec![2; 5000]);
            replace(&store, "f", &old).unwrap();
            store.cut_power_after(seed % 5);
            let replaced = replace(&store, "f", &new);
            store.crash();
            let found = store.read("f", 10_000).unwrap().unwrap();
            assert!(found == old || found == new, "seed {seed}: {} bytes", found.len());
            assert!(found == new || replaced.is_err(), "seed {seed}: it was said to be durable");
            let left = sweep(&store, "f").unwrap();
            assert_eq!(store.names().unwrap(), ["f"]);
            seen.insert((found == new, left));
        }
        assert_eq!(seen.len(), 3, "old with and without a temporary file, and new: {seen:?}");
    }

    #[test]
    fn without_the_syncs_a_file_is_lost_empty_torn_or_whole() {
        let mut seen = BTreeSet::new();
        for seed in 0..500 {
            let store = FaultyStore::new(seed);
            store.create("t", &[2; 1024]).unwrap();
            store.rename("t", "f").unwrap();
            store.crash();
            let found = store.read("f", 10_000).unwrap();
            seen.insert(found.map(|f| (f.len(), f.iter().filter(|b| **b == 2).count())));
        }
        let all = [None, Some((0, 0)), Some((512, 512)), Some((1024, 512)), Some((1024, 1024))];
        assert_eq!(seen, all.into_iter().collect());
    }

    #[test]
    fn a_full_a_read_only_and_a_failing_store_keep_the_old_content() {
        let store = FaultyStore::new(1);
        replace(&store, "f", b"old").unwrap();
        let errno = |result: io::Result<()>| result.unwrap_err().raw_os_error();
        store.set_free_bytes(Some(2));
        assert_eq!(errno(replace(&store, "f", b"newer")), Some(libc::ENOSPC));
        store.set_free_bytes(None);
        store.set_read_only(true);
        assert_eq!(errno(replace(&store, "f", b"new")), Some(libc::EROFS));
        assert_eq!(errno(remove(&store, "f")), Some(libc::EROFS));
        store.set_read_only(false);
        // Create, sync, rename.
        for operation in 0..3 {
            store.fail_after(operation);
            assert_eq!(errno(replace(&store, "f", b"new")), Some(libc::EIO));
            assert_eq!(store.read("f", 10).unwrap().unwrap(), b"old");
        }
        assert_eq!(store.names().unwrap(), ["f"], "nothing temporary is left");
    }

    #[test]
    fn a_folder_within_is_synced_by_itself() {
        for seed in 0..20 {
            let store = FaultyStore::new(seed);
            let inner = store.folder("in");
            replace(&*inner, "f", b"inner").unwrap();
            store.create("g", b"outer").unwrap();
            assert_eq!(store.names().unwrap(), ["g"]);
            inner.sync_folder().unwrap();
            store.crash();
            assert_eq!(inner.read("f", 10).unwrap().unwrap(), b"inner");
        }
    }
}

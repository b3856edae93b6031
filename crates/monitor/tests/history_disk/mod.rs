//! A disk that keeps unsynced writes and names apart, fed with the calls that `strace` recorded.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The calls that change files, or what is known of them, and those that say.
pub(crate) const TRACED: &str = "trace=openat,open,creat,write,pwrite64,writev,pwritev,lseek,ftruncate,truncate,fsync,fdatasync,sync,rename,\
     renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,fallocate,copy_file_range,sendfile,mmap";

/// A sector: torn writes keep or drop each of them.
const SECTOR: usize = 512;

/// File number of a name that is a folder.
const FOLDER: usize = usize::MAX;

/// A call on a path relative to the folder.
#[derive(Debug)]
pub(crate) enum Call {
    Create(String),
    Folder(String),
    Write(String, usize, Vec<u8>),
    Truncate(String, usize),
    Sync(String),
    Rename(String, String),
    Remove(String),
    Said(String, u64),
}

/// A string as `strace -xx` prints it, without its quotation marks.
fn unhex(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits.map(|digits| u8::from_str_radix(digits, 16).expect("two digits")).collect()
}

fn string(text: &str) -> Vec<u8> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    unhex(inner.unwrap_or_else(|| panic!("not a whole string: {text:.40}")))
}

/// The number and the path of a descriptor: `3</a/b>`, where the path may be in hexadecimal.
fn descriptor(text: &str) -> (String, String) {
    let (number, path) = text.split_once('<').unwrap_or((text, ">"));
    let path = path.strip_suffix('>').unwrap_or(path);
    let path = if path.starts_with("\\x") {
        String::from_utf8(unhex(path)).expect("a path")
    } else {
        path.to_owned()
    };
    (number.to_owned(), path)
}

/// The calls on files of a folder.
pub(crate) fn parse(text: &str, folder: &Path) -> Vec<Call> {
    let folder = folder.to_str().expect("a path");
    let inside = |path: &str| {
        let rest = path.strip_prefix(folder)?;
        if rest.is_empty() { Some(String::new()) } else { rest.strip_prefix('/').map(str::to_owned) }
    };
    let path = |text: &str| inside(&String::from_utf8_lossy(&string(text)));
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        assert!(!line.contains("unfinished ...>"), "two threads: {line:.80}");
        let line = line.trim_start().trim_start_matches(|char: char| char.is_ascii_digit()).trim_start();
        let Some((name, rest)) = line.split_once('(') else { continue };
        let Some((arguments, result)) = rest.rsplit_once(") ") else { continue };
        let result = result.trim_start().trim_start_matches("= ");
        if result.starts_with('-') {
            continue;
        }
        let arguments: Vec<&str> = arguments.split(", ").collect();
        match name {
            "openat" => {
                let (number, opened) = descriptor(result.split(' ').next().expect("a result"));
                let Some(at) = inside(&opened) else { continue };
                places.insert(number, 0);
                if arguments[2].contains("O_CREAT") {
                    calls.push(Call::Create(at.clone()));
                }
                if arguments[2].contains("O_TRUNC") {
                    calls.push(Call::Truncate(at, 0));
                }
            }
            "write" if arguments[0].starts_with("1<") || arguments[0] == "1" => {
                let said = String::from_utf8_lossy(&string(arguments[1])).into_owned();
                if let Some((word, number)) = said.trim().split_once(' ')
                    && let (true, Ok(number)) = (word == "filed" || word == "taken", number.parse())
                {
                    calls.push(Call::Said(word.to_owned(), number));
                }
            }
            "write" | "pwrite64" => {
                let (number, at) = descriptor(arguments[0]);
                let Some(at) = inside(&at) else { continue };
                let bytes = string(arguments[1]);
                assert_eq!(result.parse(), Ok(bytes.len()), "a short write");
                let offset = if name == "write" {
                    let place = places.get_mut(&number).expect("opened");
                    *place += bytes.len();
                    *place - bytes.len()
                } else {
                    arguments[3].parse().expect("an offset")
                };
                calls.push(Call::Write(at, offset, bytes));
            }
            "lseek" => {
                places.insert(descriptor(arguments[0]).0, result.parse().expect("an offset"));
            }
            "ftruncate" => {
                let (_, at) = descriptor(arguments[0]);
                let length = arguments[1].parse().expect("a length");
                calls.extend(inside(&at).map(|at| Call::Truncate(at, length)));
            }
            "fsync" | "fdatasync" => calls.extend(inside(&descriptor(arguments[0]).1).map(Call::Sync)),
            "rename" => {
                let ends = path(arguments[0]).zip(path(arguments[1]));
                calls.extend(ends.map(|(from, to)| Call::Rename(from, to)));
            }
            "unlink" => calls.extend(path(arguments[0]).map(Call::Remove)),
            "mkdir" => calls.extend(path(arguments[0]).filter(|at| !at.is_empty()).map(Call::Folder)),
            // What reads; and `mmap`, of files that are not ours.
            "mmap" if !arguments.iter().any(|argument| argument.contains(folder)) => {}
            other => panic!("a call that the model does not know: {other}({arguments:?}"),
        }
    }
    calls
}

#[derive(Debug, Clone)]
enum Pending {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Pending {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Length(length) => to.resize(*length, 0),
            Self::Write(at, bytes) => {
                to.resize(to.len().max(at + bytes.len()), 0);
                to[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Debug, Clone)]
enum Naming {
    Set(String, usize),
    Gone(String),
    Moved(String, String, usize),
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Set(name, file) => drop(names.insert(name.clone(), *file)),
            Self::Gone(name) => drop(names.remove(name)),
            Self::Moved(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
        }
    }

    fn folder(&self) -> &str {
        let (Self::Set(name, _) | Self::Gone(name) | Self::Moved(_, name, _)) = self;
        name.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// The disk: files, durable names, names now.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    durable: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    pending: Vec<Naming>,
}

/// Files that a cut left.
#[derive(Debug)]
pub(crate) struct After {
    files: Vec<(String, Vec<u8>)>,
    pub(crate) lost_something: bool,
}

impl Disk {
    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        self.pending.push(naming);
    }

    fn file(&mut self, name: &str) -> &mut File {
        let at = *self.names.get(name).unwrap_or_else(|| panic!("no file {name}"));
        &mut self.files[at]
    }

    pub(crate) fn call(&mut self, call: &Call) {
        match call {
            Call::Create(name) if self.names.contains_key(name) => {}
            Call::Create(name) => {
                self.files.push(File::default());
                self.name(Naming::Set(name.clone(), self.files.len() - 1));
            }
            Call::Folder(name) => self.name(Naming::Set(name.clone(), FOLDER)),
            Call::Said(..) => {}
            Call::Write(name, at, bytes) => self.file(name).pending.push(Pending::Write(*at, bytes.clone())),
            Call::Truncate(name, length) => self.file(name).pending.push(Pending::Length(*length)),
            Call::Sync(name) if self.names.get(name).is_some_and(|file| *file != FOLDER) => {
                let file = self.file(name);
                for pending in std::mem::take(&mut file.pending) {
                    pending.apply(&mut file.durable);
                }
            }
            Call::Sync(folder) => {
                let (synced, rest) = std::mem::take(&mut self.pending)
                    .into_iter()
                    .partition(|naming: &Naming| naming.folder() == folder);
                self.pending = rest;
                synced.iter().for_each(|naming: &Naming| naming.apply(&mut self.durable));
            }
            Call::Rename(from, to) => {
                let file = self.names[from];
                self.name(Naming::Moved(from.clone(), to.clone(), file));
            }
            Call::Remove(name) => self.name(Naming::Gone(name.clone())),
        }
    }

    /// The contents of a file now.
    pub(crate) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let file = &self.files[*self.names.get(name)?];
        let mut bytes = file.durable.clone();
        file.pending.iter().for_each(|pending| pending.apply(&mut bytes));
        Some(bytes)
    }

    /// Draws the files that a cut at this moment leaves.
    pub(crate) fn cut(&self, random: &mut ChaCha8Rng) -> After {
        let mut names = self.durable.clone();
        let mut lost_something = false;
        for naming in &self.pending {
            if random.next_u32().is_multiple_of(2) {
                naming.apply(&mut names);
            } else {
                lost_something = true;
            }
        }
        // All, nothing, or some of what is not synced.
        let mood = random.next_u32() % 3;
        let mut files = Vec::new();
        let above = |name: &str| -> Vec<String> {
            name.match_indices('/').map(|(end, _)| name[..end].to_owned()).collect()
        };
        let is_there = |name: &str| above(name).iter().all(|folder| names.contains_key(folder));
        for (name, file) in names.iter().filter(|(name, file)| **file != FOLDER && is_there(name)) {
            let file = &self.files[*file];
            let mut bytes = file.durable.clone();
            for pending in &file.pending {
                match (mood, random.next_u32() % 3) {
                    (0, _) | (2, 0) => pending.apply(&mut bytes),
                    (1, _) | (2, 1) => lost_something = true,
                    _ => {
                        lost_something = true;
                        tear(pending, &mut bytes, random);
                    }
                }
            }
            files.push((name.clone(), bytes));
        }
        After { files, lost_something }
    }
}

/// Keeps or drops each sector of a write.
fn tear(pending: &Pending, to: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    let Pending::Write(at, bytes) = pending else { return };
    let mut from = 0;
    while from < bytes.len() {
        let end = bytes.len().min((at + from) / SECTOR * SECTOR + SECTOR - at);
        if random.next_u32().is_multiple_of(2) {
            Pending::Write(at + from, bytes[from..end].to_vec()).apply(to);
        }
        from = end;
    }
}

impl After {
    /// Makes the files.
    pub(crate) fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).expect("made");
        for (name, bytes) in &self.files {
            let parent = folder.join(name).parent().map(Path::to_owned);
            parent.map_or(Ok(()), std::fs::create_dir_all).expect("made");
            std::fs::write(folder.join(name), bytes).expect("written");
        }
    }
}

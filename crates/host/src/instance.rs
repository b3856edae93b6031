//! The instance of this machine, and the identities that are derived from it:
//! `docs/reference/on-disk/instance.md`.

use crate::error::HostError;
use pumice_base::durable::{Folder, Lock, Store, replace};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

const NAME: &str = "instance";
const LOCK: &str = "instance.lock";
const FIRST_LINE: &str = "pumice instance 1";
/// Most bytes of the file.
const LIMIT: u64 = 4096;
/// Longest time for another process to make the file.
const PATIENCE: Duration = Duration::from_secs(5);
/// Numbers of processes of one machine that connect to nodes at a time, at most.
const PROCESSES: u32 = 4096;

/// Mark of a machine that a clone of it does not share: a kind, and a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    kind: &'static str,
    digest: String,
}

/// Identity of this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Instance {
    id: [u8; 16],
    kept: bool,
}

impl std::fmt::Debug for Instance {
    /// The number is not shown: identities of others are derived from it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Machine {
    /// Looks at the board and the network devices; `sysfs` is `/sys`.
    #[must_use]
    pub fn find(sysfs: &Path) -> Self {
        let known = |kind, found: String| Self { kind, digest: hex(&Sha256::digest(found)) };
        if let Some(uuid) = board(sysfs) {
            return known("board", uuid);
        }
        match addresses(sysfs) {
            Some(addresses) => known("mac", addresses),
            None => Self { kind: "none", digest: "-".to_owned() },
        }
    }

    /// Returns whether a file that was made for `kind` and `digest` may be this machine's.
    fn may_be(&self, kind: &str, digest: &str) -> bool {
        self.kind != kind || self.digest == digest
    }
}

/// The UUID of the board.
fn board(sysfs: &Path) -> Option<String> {
    let uuid = fs::read_to_string(sysfs.join("class/dmi/id/product_uuid")).ok()?;
    let uuid = uuid.trim().to_lowercase();
    let digits: Vec<char> = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    // All zeros or all ones: nobody has set it.
    let set = digits.len() == 32 && digits.iter().any(|digit| *digit != digits[0]);
    set.then_some(uuid)
}

/// The addresses of the network devices, one after another.
fn addresses(sysfs: &Path) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for entry in fs::read_dir(sysfs.join("class/net")).ok()?.flatten() {
        let (path, read) = (entry.path(), |name: &str| fs::read_to_string(entry.path().join(name)));
        let given = read("addr_assign_type").is_ok_and(|kind| kind.trim() == "0");
        if given
            && path.join("device").exists()
            && let Ok(address) = read("address")
        {
            all.push(address.trim().to_lowercase());
        }
    }
    all.sort_unstable();
    (!all.is_empty()).then(|| all.join(" "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 16]> {
    let valid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}

fn random() -> io::Result<[u8; 16]> {
    let mut id = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut id)?;
    Ok(id)
}

/// Content of a file.
struct FileContent<'t> {
    id: [u8; 16],
    kind: &'t str,
    digest: &'t str,
}

fn parse(text: &str) -> Option<FileContent<'_>> {
    let mut lines = text.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let id = from_hex(lines.next()?.strip_prefix("id ")?)?;
    let (kind, digest) = lines.next()?.strip_prefix("machine ")?.split_once(' ')?;
    if let Some(former) = lines.next() {
        from_hex(former.strip_prefix("former ")?)?;
    }
    (lines.next().is_none() && matches!(kind, "board" | "mac" | "none")).then_some(FileContent {
        id,
        kind,
        digest,
    })
}

fn text(id: &[u8; 16], machine: &Machine, former: Option<&[u8; 16]>) -> String {
    let former = former.map_or_else(String::new, |former| format!("former {}\n", hex(former)));
    format!("{FIRST_LINE}\nid {}\nmachine {} {}\n{former}", hex(id), machine.kind, machine.digest)
}

impl Instance {
    /// The instance that is kept in a state folder, which is made if it is not there. If the folder
    /// was made on another machine, the instance is a new one, and `note` is told. Without a folder
    /// that can be written, it is one for this process.
    ///
    /// # Errors
    /// If the file is damaged, or no random numbers are to be had.
    pub fn of(
        folder: Option<&Path>,
        machine: &Machine,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, HostError> {
        let alone = || -> io::Result<Self> { Ok(Self { id: random()?, kept: false }) };
        let Some(path) = folder else {
            return alone().map_err(|error| HostError::state(Path::new(""), "no random numbers", error));
        };
        let failed = |what, error| HostError::state(path, what, error);
        if let Some(known) = read(path, machine)? {
            return Ok(known);
        }
        match make(path, machine, note) {
            Ok(made) => made,
            Err(error) => {
                note(&format!("{}: which machine this is cannot be kept: {error}", path.display()));
                alone().map_err(|error| failed("no random numbers", error))
            }
        }
    }

    /// Returns whether it is the same at the next start.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.kept
    }

    /// An identity: the first 16 bytes of a digest of what it is for, the instance, and what else
    /// it depends on.
    #[must_use]
    pub fn derive(&self, what: &str, also: &[u8]) -> [u8; 16] {
        let digest = Sha256::new_with_prefix(b"pumice instance ")
            .chain_update(what)
            .chain_update([0])
            .chain_update(self.id)
            .chain_update(also)
            .finalize();
        std::array::from_fn(|i| digest[i])
    }
}

/// The instance that is kept; `None` if there is none, or it is another machine's.
fn read(path: &Path, machine: &Machine) -> Result<Option<Instance>, HostError> {
    let folder = Folder::new(path);
    let damaged = |why: &str| {
        let error = io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let way_out = "is damaged; without it, this machine gets a new identity";
        HostError::state(folder.path(NAME), way_out, error)
    };
    let bytes = match folder.read(NAME, LIMIT) {
        Ok(None) => return Ok(None),
        Ok(Some(bytes)) => bytes,
        // A process that may not read it, or has no folder for it, goes on without.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(damaged(&error.to_string())),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| damaged("it is no text"))?;
    let kept = parse(text).ok_or_else(|| damaged("its lines are not those of an instance"))?;
    Ok(machine.may_be(kept.kind, kept.digest).then_some(Instance { id: kept.id, kept: true }))
}

/// Makes the file, or replaces that of another machine.
fn make(
    path: &Path,
    machine: &Machine,
    note: &mut dyn FnMut(&str),
) -> io::Result<Result<Instance, HostError>> {
    let folder = Folder::new(path);
    folder.make()?;
    let until = Instant::now() + PATIENCE;
    let _lock = loop {
        match folder.lock(LOCK)? {
            Some(lock) => break lock,
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            None => return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{LOCK} is held"))),
        }
    };
    // Another process may have made it meanwhile.
    match read(path, machine) {
        Ok(None) => {}
        Ok(Some(known)) => return Ok(Ok(known)),
        Err(error) => return Ok(Err(error)),
    }
    let bytes = folder.read(NAME, LIMIT)?;
    let former = bytes.and_then(|bytes| parse(&String::from_utf8(bytes).ok()?).map(|kept| kept.id));
    let id = random()?;
    replace(&folder, NAME, text(&id, machine, former.as_ref()).as_bytes())?;
    if let Some(former) = former {
        note(&format!(
            "{}: it was made on another machine: this one gets an identity of its own. If its board was exchanged, and it is to keep the former one: stop what runs, and put {} into the line 'id'",
            folder.path(NAME).display(),
            hex(&former)
        ));
    }
    Ok(Ok(Instance { id, kept: true }))
}

/// The number of a process among those of its machine, which no other has while this lives.
#[derive(Debug)]
pub struct Numbered {
    number: u32,
    _lock: Lock,
}

impl Numbered {
    /// The number, from 0.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }
}

/// Takes the least number from 0 on that no other process of the machine has. `None` without a
/// folder that can be written, or if all are taken.
#[must_use]
pub fn number(folder: &Path) -> Option<Numbered> {
    let store = Folder::new(folder);
    (0..PROCESSES).find_map(|number| match store.lock(&format!("host-{number}.lock")) {
        Ok(lock) => lock.map(|lock| Some(Numbered { number, _lock: lock })),
        Err(_) => Some(None),
    })?
}

/// Keeps a name of a node for the process that has it, while this lives.
#[derive(Debug)]
pub struct NameLock {
    _lock: Option<Lock>,
}

/// Locks the name of a node in a state folder. A folder that cannot be written locks nothing.
///
/// # Errors
/// If another process has it.
pub fn lock_name(folder: &Path, nqn: &str) -> Result<NameLock, NameTaken> {
    let name = format!("node-{}.lock", hex(&Sha256::digest(nqn)[..16]));
    match Folder::new(folder).lock(&name) {
        Ok(None) => Err(NameTaken { nqn: nqn.to_owned() }),
        lock => Ok(NameLock { _lock: lock.ok().flatten() }),
    }
}

/// Another node of this machine has the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "nqn: another node of this machine serves under the name {nqn}: hosts would take the drives of both for the same ones; give one of them another name with --nqn, or a folder of its own with --state-dir"
)]
pub struct NameTaken {
    /// The name.
    pub nqn: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A system with a board, network devices, both, or neither.
    fn system(board: Option<&str>, addresses: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        if let Some(board) = board {
            write(folder.path().join("class/dmi/id/product_uuid"), board);
        }
        for (i, address) in addresses.iter().enumerate() {
            let net = folder.path().join(format!("class/net/eth{i}"));
            write(net.join("address"), address);
            write(net.join("addr_assign_type"), "0");
            write(net.join("device/vendor"), "1");
        }
        folder
    }

    fn of(folder: &Path, machine: &Machine) -> (Instance, String) {
        let mut notes = String::new();
        let instance = Instance::of(Some(folder), machine, &mut |note| notes += note).unwrap();
        (instance, notes)
    }

    #[test]
    fn a_clone_gets_an_identity_of_its_own_and_a_restart_does_not() {
        let uuids = ["4c4c4544-0043-3510-8052-b4c04f4d4d32", "4C4C4544-0043-3510-8052-B4C04F4D4D33"];
        let addresses = [["02:00:00:00:00:01"], ["02:00:00:00:00:02"]];
        let boards = uuids.map(|uuid| Machine::find(system(Some(uuid), &[]).path()));
        let macs = addresses.map(|address| Machine::find(system(None, &address).path()));
        for [one, other] in [boards, macs] {
            assert_ne!(one, other);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("state");
            let (first, notes) = of(&path, &one);
            assert!(first.is_kept() && notes.is_empty());
            assert_eq!(of(&path, &one), (first.clone(), String::new()));
            // The image of the disk is started as another machine.
            let (clone, notes) = of(&path, &other);
            assert!(clone != first && notes.contains("another machine"), "{notes}");
            assert_eq!(of(&path, &other).0, clone, "and is that from then on");
            assert_ne!(first.derive("x", b""), clone.derive("x", b""));
            // The way out that the note names.
            let text = fs::read_to_string(path.join(NAME)).unwrap();
            let value = |line: &str| text.lines().find_map(|l| l.strip_prefix(line)).unwrap().to_owned();
            fs::write(path.join(NAME), text.replace(&value("id "), &value("former "))).unwrap();
            assert_eq!(of(&path, &other), (first, String::new()));
        }
    }

    #[test]
    fn what_cannot_be_looked_at_says_nothing_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let root = Machine::find(system(Some("4c4c4544-0043-3510-8052-b4c04f4d4d32"), &[]).path());
        let (first, _) = of(folder.path(), &root);
        // Not root: the board cannot be read.
        for system in [system(None, &["02:00:00:00:00:01"]), system(None, &[])] {
            assert_eq!(of(folder.path(), &Machine::find(system.path())).0, first);
        }
        let unset = Machine::find(system(Some("00000000-0000-0000-0000-000000000000"), &[]).path());
        assert_eq!(unset.kind, "none");
    }

    #[test]
    fn damage_is_told_and_a_folder_that_cannot_be_written_is_no_folder() {
        let none = Machine { kind: "none", digest: "-".to_owned() };
        let folder = tempfile::tempdir().unwrap();
        for bad in ["", "pumice instance 2\n", "pumice instance 1\nid 12\nmachine none -\n", "\u{0}"] {
            fs::write(folder.path().join(NAME), bad).unwrap();
            let error = Instance::of(Some(folder.path()), &none, &mut |_| ()).unwrap_err().to_string();
            assert!(error.contains("damaged") && error.contains(NAME), "{error}");
        }
        let file = folder.path().join(NAME).join("x");
        let (one, notes) = of(&file, &none);
        assert!(!one.is_kept() && !notes.is_empty());
        assert_ne!(of(&file, &none).0, one);
    }

    #[test]
    fn identities_do_not_meet() {
        let instance = Instance { id: [1; 16], kept: true };
        let other = Instance { id: [2; 16], kept: true };
        let all = [
            instance.derive("a", b""),
            instance.derive("b", b""),
            instance.derive("a", b"c"),
            other.derive("a", b""),
        ];
        assert!((1..4).all(|i| !all[..i].contains(&all[i])));
    }

    #[test]
    fn names_and_numbers_are_one_processs_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock_name(folder.path(), "nqn.x").unwrap();
        assert!(lock_name(folder.path(), "nqn.x").is_err());
        assert!(lock_name(folder.path(), "nqn.y").is_ok());
        drop(first);
        assert!(lock_name(folder.path(), "nqn.x").is_ok());
        let (zero, one) = (number(folder.path()).unwrap(), number(folder.path()).unwrap());
        assert_eq!((zero.number(), one.number()), (0, 1));
        drop(zero);
        assert_eq!(number(folder.path()).unwrap().number(), 0, "the least that is free");
    }
}

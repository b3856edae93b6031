//! Identities of this machine and this process, for nodes and volumes:
//! `docs/reference/on-disk/instance.md`.

use crate::failure::Failure;
use crate::say::say;
use pumice_host::instance::{Instance, Machine, Numbered, number};
use pumice_nvme::spec::Nqn;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The prefix of the NQNs under which this program connects.
const HOST_NQN: &str = "nqn.2026-11.invalid.pumice:host:";

/// Returns whether this process is the superuser's.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// `/var/lib/pumice` for root, the user's own state directory otherwise.
#[must_use]
pub fn default_state_dir() -> Option<PathBuf> {
    if is_root() {
        return Some(PathBuf::from("/var/lib/pumice"));
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .map(|p| p.join("pumice"))
}

/// The instance that a state folder keeps; `note` is told what an operator has to know.
///
/// # Errors
/// If its file is damaged.
pub fn instance(folder: Option<&Path>, note: &mut dyn FnMut(&str)) -> Result<Instance, Failure> {
    Ok(Instance::of(folder, &Machine::find(Path::new("/sys")), note)?)
}

/// This process as a host.
struct Host {
    instance: Instance,
    /// Its number among the processes of the machine, which it has until it ends.
    number: Option<Numbered>,
}

/// The same for the whole life of the process.
fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        let folder = default_state_dir();
        let kept = instance(folder.as_deref(), &mut |_| ()).or_else(|failure| {
            say(&format!("{failure}; this process goes on under a new identity"));
            instance(None, &mut |_| ())
        });
        let instance = kept.expect("the system has random numbers");
        let number = folder.filter(|_| instance.is_kept()).and_then(|folder| number(&folder));
        Host { instance, number }
    })
}

/// The NQN under which this program connects: this machine's.
#[must_use]
pub fn host_nqn() -> Nqn {
    let id = host().instance.derive("host name", &[]);
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{HOST_NQN}{hex}").parse().expect("a name of the right form")
}

/// The host identifier of this process: to a node, two processes of one machine are two hosts. It
/// comes again when the process does, so that the node knows whose late writes it still has.
pub(crate) fn host_id() -> [u8; 16] {
    let Host { instance, number } = host();
    let also = number.as_ref().map_or(std::process::id() | 1 << 31, Numbered::number);
    let mut id = instance.derive("host identifier", &also.to_le_bytes());
    // A UUID of version 8 (made by a rule of one's own), variant 1. (RFC 9562, section 5.8.)
    id[6] = id[6] & 0x0F | 0x80;
    id[8] = id[8] & 0x3F | 0x80;
    id
}

/// This machine as the writer of volumes, and as earlier versions of this program called it: by the
/// bare machine id, which clones share, and 0 without one.
///
/// # Errors
/// If the file of its instance is damaged.
pub(crate) fn writer() -> Result<(u128, u128), Failure> {
    let text = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let formerly = u128::from_str_radix(text.trim(), 16).unwrap_or(0);
    let instance = instance(default_state_dir().as_deref(), &mut |note| say(note))?;
    // A mark that nobody could ever recognise would keep the machine itself out after a crash.
    let mark = if instance.is_kept() {
        u128::from_be_bytes(instance.derive("volume writer", &[])).max(1)
    } else {
        formerly
    };
    Ok((mark, formerly))
}

//! The entries as the file has them, and their checks.

use super::{AccessConfig, AccessMode, HostEntry, KeyPaths, OwnDrives, PeerEntry, TlsUse};
use crate::serve::host_faces::Faces;
use crate::serve::rights::Rights;
use pumice_nvme::auth::group::Group;
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::spec::Nqn;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A path, or two: the current file and the next one.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a path, or a list of two: the current one and the next")]
enum OneOrTwo {
    One(PathBuf),
    Two(Vec<PathBuf>),
}

/// The fields of keys.
#[derive(Debug, Clone, Default)]
struct Paths {
    key: Option<OneOrTwo>,
    controller_key: Option<OneOrTwo>,
    psk: Option<OneOrTwo>,
    hashes: Option<Vec<String>>,
    groups: Option<Vec<String>>,
}

impl Paths {
    fn is_empty(&self) -> bool {
        self.key.is_none()
            && self.controller_key.is_none()
            && self.psk.is_none()
            && self.hashes.is_none()
            && self.groups.is_none()
    }

    fn parse(self) -> Result<KeyPaths, String> {
        let keys = KeyPaths {
            key: paths("key", self.key)?,
            controller_key: paths("controller_key", self.controller_key)?,
            psk: paths("psk", self.psk)?,
            policy: policy(self.hashes.as_deref(), self.groups.as_deref())?,
        };
        let needs = |given: bool, field: &str| match given && keys.key.is_empty() {
            true => Err(format!("{field}: it needs `key`, which the host proves")),
            false => Ok(()),
        };
        needs(!keys.controller_key.is_empty(), "controller_key")?;
        needs(self.hashes.is_some(), "hashes")?;
        needs(self.groups.is_some(), "groups")?;
        let all: Vec<_> = keys.all().collect();
        for (i, (field, path)) in all.iter().enumerate() {
            if all[..i].iter().any(|(_, before)| before == path) {
                return Err(format!("{field}: {} is given twice", path.display()));
            }
        }
        Ok(keys)
    }
}

/// The paths of a field: one or two, each not empty.
fn paths(field: &str, given: Option<OneOrTwo>) -> Result<Vec<PathBuf>, String> {
    let paths = match given {
        None => return Ok(Vec::new()),
        Some(OneOrTwo::One(path)) => vec![path],
        Some(OneOrTwo::Two(paths)) => paths,
    };
    if !(1..=2).contains(&paths.len()) {
        return Err(format!("{field}: {} paths: one, or the current one and the next", paths.len()));
    }
    if paths.iter().any(|path| path.as_os_str().is_empty()) {
        return Err(format!("{field}: a path is empty"));
    }
    Ok(paths)
}

fn policy(hashes: Option<&[String]>, groups: Option<&[String]>) -> Result<Policy, String> {
    fn all<T>(field: &str, words: Option<&[String]>, usual: &[T]) -> Result<Vec<T>, String>
    where
        T: FromStr<Err: std::fmt::Display> + Clone,
    {
        let Some(words) = words else { return Ok(usual.to_vec()) };
        words.iter().map(|word| word.parse().map_err(|e| format!("{field}: '{word}': {e}"))).collect()
    }
    let usual = Policy::default();
    let hashes: Vec<Hash> = all("hashes", hashes, usual.hashes())?;
    let groups: Vec<Group> = all("groups", groups, usual.groups())?;
    Policy::new(&hashes, &groups).map_err(|error| error.to_string())
}

/// A drive of a host: its number, or its label.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "the number of a drive, or its label")]
enum DriveName {
    Number(usize),
    Label(String),
}

/// `[[host]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct FileHost {
    nqn: String,
    id: Option<String>,
    may: Option<Vec<String>>,
    drives: Option<Vec<DriveName>>,
    faces: Option<Vec<String>>,
    key: Option<OneOrTwo>,
    controller_key: Option<OneOrTwo>,
    psk: Option<OneOrTwo>,
    hashes: Option<Vec<String>>,
    groups: Option<Vec<String>>,
}

impl FileHost {
    /// The entry, where drives have these labels.
    fn parse(self, mode: AccessMode, labels: &[String]) -> Result<HostEntry, String> {
        fn named<T>(field: &'static str) -> impl Fn(T) -> String
        where
            T: std::fmt::Display,
        {
            move |why| format!("{field}: {why}")
        }
        let keys = Paths {
            key: self.key,
            controller_key: self.controller_key,
            psk: self.psk,
            hashes: self.hashes,
            groups: self.groups,
        };
        let says_nothing = self.id.is_none()
            && self.may.is_none()
            && self.drives.is_none()
            && self.faces.is_none()
            && keys.is_empty();
        if says_nothing && mode != AccessMode::Listed {
            return Err(
                "faces: nothing is said of the host: it has what hosts without an entry have".to_owned()
            );
        }
        let may = match &self.may {
            Some(words) => Rights::parse(words).map_err(named("may"))?,
            None => AccessConfig::usual(mode)
                .ok_or("may: it is needed with access = \"listed\": read, write, scrub, repair or serve")?,
        };
        Ok(HostEntry {
            nqn: self.nqn.parse().map_err(named("nqn"))?,
            id: self.id.as_deref().map(identifier).transpose().map_err(named("id"))?,
            may,
            drives: match &self.drives {
                Some(names) => own(names, labels).map_err(named("drives"))?,
                None => OwnDrives::All,
            },
            faces: match &self.faces {
                Some(words) => Faces::parse(words).map_err(named("faces"))?,
                None => Faces::default(),
            },
            keys: keys.parse()?,
        })
    }
}

/// Parses a host identifier: a UUID, or 32 hexadecimal digits.
fn identifier(text: &str) -> Result<[u8; 16], String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let dashes = text.bytes().enumerate().filter(|(_, byte)| *byte == b'-').map(|(at, _)| at);
    let is_uuid = [8, 13, 18, 23].into_iter().eq(dashes);
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) || text.contains('-') && !is_uuid {
        return Err(format!("{text:?} is neither a UUID nor 32 hexadecimal digits"));
    }
    let nibble = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
    let id = std::array::from_fn(|i| nibble(digits[2 * i]) << 4 | nibble(digits[2 * i + 1]));
    if id == [0; 16] {
        return Err("no host has the identifier 0".to_owned());
    }
    Ok(id)
}

fn own(names: &[DriveName], labels: &[String]) -> Result<OwnDrives, String> {
    if names.is_empty() {
        return Err("one at least; without the field all drives are the host's".to_owned());
    }
    let mut drives: Vec<usize> = Vec::new();
    for name in names {
        let drive = match name {
            DriveName::Number(number) => number.checked_sub(1).filter(|drive| *drive < labels.len()),
            DriveName::Label(label) => labels.iter().position(|known| known == label),
        };
        let shown = match name {
            DriveName::Number(number) => number.to_string(),
            DriveName::Label(label) => format!("{label:?}"),
        };
        let drive = drive.ok_or_else(|| format!("there is no drive {shown}"))?;
        if drives.contains(&drive) {
            return Err(format!("drive {shown} is given twice"));
        }
        drives.push(drive);
    }
    Ok(OwnDrives::only(drives))
}

/// `[[peer]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct FilePeer {
    pub(in crate::serve) address: SocketAddr,
    pub(in crate::serve) nqn: Option<String>,
    pub(in crate::serve) digest: Option<String>,
    key: Option<OneOrTwo>,
    controller_key: Option<OneOrTwo>,
    psk: Option<OneOrTwo>,
    hashes: Option<Vec<String>>,
    groups: Option<Vec<String>>,
}

impl FilePeer {
    fn parse(&self, mode: AccessMode) -> Result<Option<PeerEntry>, String> {
        let keys = Paths {
            key: self.key.clone(),
            controller_key: self.controller_key.clone(),
            psk: self.psk.clone(),
            hashes: self.hashes.clone(),
            groups: self.groups.clone(),
        };
        let Some(nqn) = &self.nqn else {
            return match mode == AccessMode::Listed || !keys.is_empty() {
                true => Err("nqn: it is needed with access = \"listed\", and with keys".to_owned()),
                false => Ok(None),
            };
        };
        let nqn: Nqn = nqn.parse().map_err(|e| format!("nqn: {e}"))?;
        Ok(Some(PeerEntry { nqn, keys: keys.parse()? }))
    }
}

/// The fields about access.
pub(in crate::serve) struct FileAccess<'a> {
    pub(in crate::serve) access: Option<&'a str>,
    pub(in crate::serve) mark_secret: Option<PathBuf>,
    pub(in crate::serve) hosts: Vec<FileHost>,
    pub(in crate::serve) peers: &'a [FilePeer],
}

impl FileAccess<'_> {
    /// All of them, for drives with these labels, and addresses of which these ask for TLS.
    pub(in crate::serve) fn parse(self, labels: &[String], tls: &[TlsUse]) -> Result<AccessConfig, String> {
        let mode = match self.access {
            None => AccessMode::Open,
            Some("anyone") => AccessMode::Anyone,
            Some("listed") => AccessMode::Listed,
            Some(other) => return Err(format!("access is {other:?}: it must be \"listed\" or \"anyone\"")),
        };
        if self.mark_secret.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err("mark_secret: the path is empty".to_owned());
        }
        let host =
            |(i, host): (usize, FileHost)| host.parse(mode, labels).map_err(|why| format!("host {i}: {why}"));
        let hosts = (1..).zip(self.hosts).map(host).collect::<Result<Vec<_>, _>>()?;
        let peer = |(i, peer): (usize, &FilePeer)| {
            peer.parse(mode).map_err(|why| format!("peer {i}: {why}")).transpose()
        };
        let peers = (1..).zip(self.peers).filter_map(peer).collect::<Result<Vec<_>, _>>()?;
        let has_psk = hosts.iter().map(|host| &host.keys).chain(peers.iter().map(|peer| &peer.keys));
        if tls.contains(&TlsUse::Required) && !{ has_psk }.any(|keys| !keys.psk.is_empty()) {
            return Err("listen: tls = \"required\" needs a host or a peer with `psk`".to_owned());
        }
        AccessConfig::new(mode, hosts, peers, self.mark_secret)
    }
}

//! Keys for the nodes that this machine connects to: `[[target]]` of `pumice.toml`.
//! `docs/reference/configuration.md`, *Keys of targets*, has the fields.

use crate::failure::Failure;
use crate::identity::host_nqn;
use pumice_node::serve::read_key;
use pumice_nvme::auth::keys::KeyError;
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::spec::Nqn;
use pumice_remote::initiator::OwnKeys;
use serde::Deserialize;
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// The file that the monitor has too.
const FILE: &str = "/etc/pumice/pumice.toml";
/// Variable with the path of another one.
const VARIABLE: &str = "PUMICE_CONFIG";
/// Targets, at most.
const MOST: usize = 1024;

/// The name and the keys of this machine for a node.
#[derive(Debug, Clone)]
pub struct Face {
    /// The name under which it connects.
    pub host: Nqn,
    /// The keys, if there are any.
    pub keys: Option<Arc<OwnKeys>>,
}

/// The target of an entry: a network address, with a port or for all ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Host(IpAddr),
    Port(SocketAddr),
}

#[derive(Debug)]
struct Target {
    at: At,
    host: Option<Nqn>,
    keys: Arc<OwnKeys>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTarget {
    address: String,
    host: Option<String>,
    key: PathBuf,
    controller_key: Option<OneOrTwo>,
    hashes: Option<Vec<String>>,
    groups: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a path, or a list of one or two")]
enum OneOrTwo {
    One(PathBuf),
    Two(Vec<PathBuf>),
}

/// The rest of the file is the monitor's.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    target: Vec<FileTarget>,
}

/// The name and the keys for a node. The file is read once.
///
/// # Errors
/// If the file has a fault, or a file of a key is not safe.
pub fn face(address: SocketAddr) -> Result<Face, Failure> {
    static TARGETS: OnceLock<Result<Vec<Target>, Failure>> = OnceLock::new();
    let targets = TARGETS.get_or_init(|| {
        let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        read(path.as_deref(), credentials.as_deref())
    });
    let targets = targets.as_ref().map_err(Clone::clone)?;
    let found = find(targets, address);
    let host = found.and_then(|target| target.host.clone()).unwrap_or_else(host_nqn);
    Ok(Face { host, keys: found.map(|target| Arc::clone(&target.keys)) })
}

/// The entry with the port, or else the one for all ports.
fn find(targets: &[Target], address: SocketAddr) -> Option<&Target> {
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let at = |at: At| targets.iter().find(move |target| target.at == at);
    at(At::Port(address)).or_else(|| at(At::Host(address.ip())))
}

fn read(given: Option<&Path>, credentials: Option<&Path>) -> Result<Vec<Target>, Failure> {
    let path = given.unwrap_or(Path::new(FILE));
    let failed = |why: String| Failure::new(format!("{}: {why}", path.display()));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        // One that was named must be there.
        Err(error) if given.is_none() && error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error.to_string())),
    };
    parse(&text, credentials).map_err(failed)
}

fn parse(text: &str, credentials: Option<&Path>) -> Result<Vec<Target>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    if file.target.len() > MOST {
        return Err(format!("target: {} entries: there may be {MOST}", file.target.len()));
    }
    let mut targets: Vec<Target> = Vec::new();
    for (number, entry) in (1..).zip(file.target) {
        let target = entry.checked(credentials).map_err(|why| format!("target {number}: {why}"))?;
        if targets.iter().any(|other| other.at == target.at) {
            return Err(format!("target {number}: address: it is given twice"));
        }
        targets.push(target);
    }
    Ok(targets)
}

impl FileTarget {
    fn checked(&self, credentials: Option<&Path>) -> Result<Target, String> {
        let key = |field: &str, path: &PathBuf| -> Result<ChapKey, String> {
            let text = read_key(path, credentials).map_err(|error| format!("{field}: {error}"))?;
            text.parse().map_err(|error: KeyError| format!("{field}: {}: {error}", path.display()))
        };
        let controller = match &self.controller_key {
            None => &[][..],
            Some(OneOrTwo::One(path)) => std::slice::from_ref(path),
            Some(OneOrTwo::Two(paths)) => paths,
        };
        let controller =
            controller.iter().map(|path| key("controller_key", path)).collect::<Result<Vec<_>, _>>()?;
        let host = self.host.as_ref().map(|host| host.parse::<Nqn>()).transpose();
        let keys = OwnKeys::new(vec![key("key", &self.key)?], controller, self.policy()?);
        Ok(Target {
            at: at(&self.address)?,
            host: host.map_err(|error| format!("host: {error}"))?,
            keys: Arc::new(keys.map_err(|error| error.to_string())?),
        })
    }

    fn policy(&self) -> Result<Policy, String> {
        fn list<T: Copy + FromStr<Err: Display>>(
            texts: Option<&Vec<String>>,
            usual: &[T],
            field: &str,
        ) -> Result<Vec<T>, String> {
            let Some(texts) = texts else { return Ok(usual.to_vec()) };
            texts.iter().map(|text| text.parse().map_err(|why| format!("{field}: {why}"))).collect()
        }
        let usual = Policy::default();
        let hashes = list(self.hashes.as_ref(), usual.hashes(), "hashes")?;
        let groups = list(self.groups.as_ref(), usual.groups(), "groups")?;
        Policy::new(&hashes, &groups).map_err(|error| error.to_string())
    }
}

/// An address with or without a port. Names are not looked up: another machine could get the name.
fn at(text: &str) -> Result<At, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(At::Port(SocketAddr::new(address.ip().to_canonical(), address.port())));
    }
    let ip = text.parse::<IpAddr>().map(|ip| At::Host(ip.to_canonical()));
    ip.map_err(|_| format!("address: {text:?} is no IP address, with or without a port"))
}

#[cfg(test)]
mod tests;

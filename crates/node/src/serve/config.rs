//! `node.toml`.

use super::access::{Faces, HostFaces};
use super::backend::Backend;
use super::drive::has_visible_face;
use super::listen::{self, listen_address};
use super::tagging::{TagFields, Tagging, TaggingError};
use pumice_base::units::{parse_duration, parse_size};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::Nqn;
use pumice_offload::{PaceRequest, parse_window};
use pumice_protect::format::Type;
use pumice_remote::initiator::{BusyPoll, DigestPolicy};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a block, where nothing else is said.
const BLOCK_SIZE: u32 = 512;
/// Connections that a node may be told to take.
const MAX_CONNECTIONS: usize = 65_536;

/// The configuration of a node: its drives and addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// Addresses at which it listens; port 0 picks one.
    pub listen: Vec<SocketAddr>,
    /// The subsystem's name; `None` for one made from the machine and the drives.
    pub nqn: Option<Nqn>,
    /// Bytes of a block: 512 or 4096.
    pub block_size: u32,
    /// Threads that serve connections.
    pub cores: usize,
    /// Connections at a time.
    pub connections: usize,
    /// Time that a core looks for work before it sleeps, if that has paid of late; zero for never.
    pub busy_poll: Duration,
    /// Folder of the records of blocks that hosts have made unreadable; `None` for the usual one.
    pub state_dir: Option<PathBuf>,
    /// The drives, in the order of their namespaces.
    pub drives: Vec<DriveConfig>,
    /// The faces of drives with tags that each host has.
    pub faces: HostFaces,
    /// Address at which the counters are served; `None` for none.
    pub metrics: Option<SocketAddr>,
    /// True if hosts are shown the whole paths of drives without labels.
    pub show_paths: bool,
    /// The nodes that local memory may be sent to.
    pub peers: Vec<Peer>,
    /// The pace of parity work on its drives, whoever asks for it; windows in local time.
    pub pacing: PaceRequest,
}

/// A node that local memory may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// Its subsystem; `None` for the one that its discovery service lists.
    pub nqn: Option<Nqn>,
    /// The policy for digests of what is sent to it.
    pub digests: DigestPolicy,
}

/// A drive of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveConfig {
    /// The place of its blocks.
    pub backend: Backend,
    /// The tags beside it, if any.
    pub tagging: Option<Tagging>,
    /// The meaning of reference tags on its visible face.
    pub pi_type: Type,
    /// The bits of the storage tag that are compared there.
    pub storage_tag_mask: u64,
    /// Bytes of a block, where not as the node's.
    pub block_size: Option<u32>,
    /// The name that hosts are shown; `None` for the last part of its path, or its size in memory.
    pub label: Option<String>,
}

/// Reasons to refuse a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is no TOML, or has fields that make no sense.
    #[error("{path}: {why}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        why: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: OneOrMore,
    nqn: Option<String>,
    block_size: Option<u32>,
    cores: Option<usize>,
    connections: Option<usize>,
    busy_poll: Option<String>,
    state_dir: Option<PathBuf>,
    metrics: Option<String>,
    #[serde(default)]
    show_paths: bool,
    #[serde(default)]
    drive: Vec<FileDrive>,
    #[serde(default)]
    host: Vec<FileHost>,
    #[serde(default)]
    peer: Vec<FilePeer>,
    #[serde(default)]
    pacing: FilePacing,
}

/// One text, or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an address, or a list of addresses")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn addresses(self) -> Result<Vec<SocketAddr>, String> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        };
        let addresses = texts.iter().map(|text| listen_address(text)).collect::<Result<Vec<_>, _>>();
        let addresses = addresses.map_err(|why| format!("listen: {why}"))?;
        listen::check(&addresses).map_err(|why| format!("listen: {why}"))?;
        Ok(addresses)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePacing {
    slowdown: Option<String>,
    rate: Option<String>,
    policy: Option<String>,
    #[serde(default)]
    window: Vec<String>,
}

impl FilePacing {
    fn request(&self) -> Result<PaceRequest, String> {
        let field = |field: &'static str, why: String| format!("pacing: {field}: {why}");
        let slowdown = self.slowdown.as_deref().map(parse_duration).transpose();
        let rate = self.rate.as_deref().map(parse_size).transpose();
        let windows = self.window.iter().map(|text| parse_window(text)).collect::<Result<_, _>>();
        let request = PaceRequest {
            policy: self.policy.as_deref().map(str::parse).transpose().map_err(|e| field("policy", e))?,
            slowdown_ns: slowdown.map_err(|e| field("slowdown", e.to_string()))?,
            rate: rate.map_err(|e| field("rate", e.to_string()))?,
            windows: windows.map_err(|e| field("window", e))?,
        };
        if !request.is_empty() {
            request.validate().map_err(|(name, why)| field(name, why))?;
        }
        Ok(request)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHost {
    nqn: String,
    faces: Vec<String>,
}

impl FileHost {
    fn host_faces(hosts: &[Self]) -> Result<HostFaces, String> {
        let host = |(i, host): (usize, &Self)| {
            let field = |field, why: String| format!("host {i}: {field}: {why}");
            let nqn = host.nqn.parse::<Nqn>().map_err(|e| field("nqn", e.to_string()))?;
            Ok((nqn, Faces::parse(&host.faces).map_err(|e| field("faces", e))?))
        };
        let hosts = (1..).zip(hosts).map(host).collect::<Result<Vec<_>, String>>()?;
        HostFaces::new(hosts).map_err(|nqn| format!("host: nqn: {nqn} is given twice"))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePeer {
    address: SocketAddr,
    nqn: Option<String>,
    digest: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDrive {
    backend: String,
    pi: Option<u32>,
    pi_type: Option<u8>,
    metadata: Option<u32>,
    pi_place: Option<String>,
    storage_tag: Option<u32>,
    storage_tag_mask: Option<u64>,
    atomic: Option<u32>,
    on_stale: Option<String>,
    tags: Option<String>,
    block_size: Option<u32>,
    label: Option<String>,
}

impl FileDrive {
    /// The tags that it is to have.
    fn tagging(&self, in_memory: bool) -> Result<Option<Tagging>, TaggingError> {
        let [pi, metadata, storage_tag, atomic] = [self.pi, self.metadata, self.storage_tag, self.atomic]
            .map(|number| number.map(|number| number.to_string()));
        let fields = TagFields {
            pi: pi.as_deref(),
            metadata: metadata.as_deref(),
            place: self.pi_place.as_deref(),
            storage_tag: storage_tag.as_deref(),
            atomic: atomic.as_deref(),
            on_stale: self.on_stale.as_deref(),
            tags: self.tags.as_deref(),
        };
        // The fields are the options with another dash.
        Tagging::parse(&fields, in_memory).map_err(|error| match error {
            TaggingError::Field { field: "pi-place", why } => TaggingError::Field { field: "pi_place", why },
            TaggingError::Field { field: "on-stale", why } => TaggingError::Field { field: "on_stale", why },
            TaggingError::Field { field: "storage-tag", why } => {
                TaggingError::Field { field: "storage_tag", why }
            }
            other => other,
        })
    }
}

impl NodeConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// Names the file and the field.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|why| ConfigError::Parse { path: path.to_owned(), why })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let drives = file.drive.iter().enumerate().map(|(i, drive)| {
            let field = |why: String| format!("drive {}: {why}", i + 1);
            let backend = drive.backend.parse().map_err(|e| field(format!("backend: {e}")))?;
            let in_memory = matches!(backend, Backend::Memory(_));
            let tagging = drive.tagging(in_memory).map_err(|e| field(e.to_string()))?;
            let block_size = drive.block_size.map(block_size).transpose().map_err(field)?;
            let visible = is_visible(tagging.as_ref(), block_size.or(file.block_size));
            Ok(DriveConfig {
                backend,
                pi_type: pi_type(drive.pi_type, visible).map_err(field)?,
                storage_tag_mask: storage_tag_mask(drive.storage_tag_mask, tagging.as_ref())
                    .map_err(field)?,
                tagging,
                block_size,
                label: drive.label.as_deref().map(label).transpose().map_err(field)?,
            })
        });
        let peers = file.peer.iter().enumerate().map(|(i, peer)| {
            let nqn = peer.nqn.as_ref().map(|nqn| nqn.parse()).transpose();
            let digests = peer.digest.as_deref().map(str::parse).transpose();
            Ok(Peer {
                address: peer.address,
                nqn: nqn.map_err(|e| format!("peer {}: nqn: {e}", i + 1))?,
                digests: digests.map_err(|e| format!("peer {}: digest: {e}", i + 1))?.unwrap_or_default(),
            })
        });
        let drives: Vec<DriveConfig> = drives.collect::<Result<_, String>>()?;
        let faces = FileHost::host_faces(&file.host)?;
        let visible =
            |drive: &DriveConfig| is_visible(drive.tagging.as_ref(), drive.block_size.or(file.block_size));
        if faces.has_visible() && !drives.iter().any(visible) {
            return Err("host: faces: 'visible' needs a drive with `pi`, and with blocks of 4096 bytes \
                        unless `pi` is 16"
                .to_owned());
        }
        Ok(Self {
            faces,
            listen: file.listen.addresses()?,
            nqn: file.nqn.map(|nqn| nqn.parse().map_err(|e| format!("nqn: {e}"))).transpose()?,
            block_size: block_size(file.block_size.unwrap_or(BLOCK_SIZE))?,
            cores: match file.cores {
                Some(cores @ 1..=256) => cores,
                Some(cores) => return Err(format!("cores is {cores}: it must be 1 to 256")),
                None => 1,
            },
            connections: match file.connections {
                Some(connections @ 1..=MAX_CONNECTIONS) => connections,
                Some(connections) => {
                    return Err(format!("connections is {connections}: it must be 1 to {MAX_CONNECTIONS}"));
                }
                None => Limits::default().connections,
            },
            busy_poll: match &file.busy_poll {
                Some(text) => busy_poll(text).map_err(|why| format!("busy_poll: {why}"))?,
                None => BusyPoll::USUAL,
            },
            state_dir: file.state_dir,
            drives,
            metrics: match &file.metrics {
                Some(text) => Some(metrics_address(text).map_err(|why| format!("metrics: {why}"))?),
                None => None,
            },
            show_paths: file.show_paths,
            peers: peers.collect::<Result<_, String>>()?,
            pacing: file.pacing.request()?,
        })
    }

    /// The name of drive `index`, from 0, that hosts are shown.
    ///
    /// # Panics
    /// Where there is no such drive.
    #[must_use]
    pub fn label(&self, index: usize) -> String {
        let label = |drive: &DriveConfig| match (&drive.label, &drive.backend) {
            (Some(label), _) => label.clone(),
            (None, backend) => match backend.path().filter(|_| !self.show_paths) {
                Some(path) => path
                    .file_name()
                    .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned()),
                None => backend.to_string(),
            },
        };
        let own = label(&self.drives[index]);
        // Drives in memory are alike, and files of two folders may be.
        if self.drives.iter().filter(|drive| label(drive) == own).count() > 1 {
            return format!("{own} ({})", index + 1);
        }
        own
    }

    /// The subsystem's name: as given, or made from the machine's instance and the drives, so that
    /// it is the same after a restart, and another on a clone of the machine.
    #[must_use]
    pub fn nqn_or_made(&self, instance: &[u8; 16]) -> Nqn {
        if let Some(nqn) = &self.nqn {
            return nqn.clone();
        }
        let mut hash = Sha256::new();
        hash.update(b"pumice node ");
        hash.update(instance);
        for drive in &self.drives {
            let place = match drive.backend.path() {
                Some(path) => real_path(path),
                None => drive.backend.to_string().into(),
            };
            hash.update(b"\n");
            hash.update(place.as_os_str().as_encoded_bytes());
        }
        let bytes = hash.finalize();
        let hex = |range: std::ops::Range<usize>| {
            bytes[range].iter().map(|b| format!("{b:02x}")).collect::<String>()
        };
        let uuid =
            format!("{}-{}-8{}-a{}-{}", hex(0..4), hex(4..6), &hex(6..8)[1..], &hex(8..10)[1..], hex(10..16));
        format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}").parse().expect("a name of the UUID form")
    }
}

/// The path without links. A drive that is made at the first start has the same one before and
/// after.
fn real_path(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_folder = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

/// Parses the time that a core may look for work before it sleeps.
///
/// # Errors
/// Where it is no duration, or longer than 10 ms: to be woken never takes as long.
pub fn busy_poll(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_millis(10);
    let wait = Duration::from_nanos(parse_duration(text).map_err(|error| error.to_string())?);
    if wait > MOST {
        return Err(format!("'{text}' is longer than 10ms"));
    }
    Ok(wait)
}

/// An address to serve the counters at: a port, of 127.0.0.1 then, or an address with a port. Port
/// 0 lets the system pick one.
///
/// # Errors
/// Where it is neither.
pub fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    port.or_else(|| text.parse().ok()).ok_or_else(|| {
        format!("{text:?} is neither a port nor an address with a port, such as 127.0.0.1:9420")
    })
}

/// Checks a drive's label.
fn label(text: &str) -> Result<String, String> {
    const MOST: usize = 64;
    let good = (1..=MOST).contains(&text.len()) && !text.chars().any(char::is_control);
    if good {
        Ok(text.to_owned())
    } else {
        Err(format!("label is {text:?}: it must have 1 to {MOST} bytes without control characters"))
    }
}

/// Returns whether a drive has a visible face.
fn is_visible(tagging: Option<&Tagging>, block: Option<u32>) -> bool {
    tagging.is_some_and(|tagging| has_visible_face(tagging.metadata.guard(), block.unwrap_or(BLOCK_SIZE)))
}

/// Checks the type of protection information of a drive that has a visible face or not.
fn pi_type(kind: Option<u8>, visible: bool) -> Result<Type, String> {
    match kind {
        Some(_) if !visible => Err("pi_type: the drive has no visible face: it needs `pi`, and blocks of \
                                    4096 bytes unless `pi` is 16"
            .to_owned()),
        None | Some(1) => Ok(Type::One),
        Some(2) => Ok(Type::Two),
        Some(3) => Ok(Type::Three),
        Some(kind) => Err(format!("pi_type is {kind}: 1, 2 or 3")),
    }
}

/// Checks which bits of the storage tag of a drive are compared; without a mask, all.
fn storage_tag_mask(mask: Option<u64>, tagging: Option<&Tagging>) -> Result<u64, String> {
    let Some(mask) = mask else { return Ok(u64::MAX) };
    let bits = tagging.map_or(0, |tagging| tagging.metadata.storage_bits());
    if mask.checked_shr(bits).unwrap_or(0) != 0 {
        return Err(format!("storage_tag_mask is {mask:#x}: the storage tag has {bits} bits"));
    }
    Ok(mask)
}

/// Checks a block size.
fn block_size(bytes: u32) -> Result<u32, String> {
    if matches!(bytes, 512 | 4096) {
        Ok(bytes)
    } else {
        Err(format!("block_size is {bytes}: it must be 512 or 4096"))
    }
}

#[cfg(test)]
mod tests;

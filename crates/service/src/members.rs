//! Devices of volumes: opened for writing, with exclusive access.

use crate::api::Code;
use crate::failure::Failure;
use crate::name::RemoteName;
use crate::opening::loop_over;
use crate::place::RemotePlace;
use crate::probed::Place;
use crate::probing::probe_drives;
use crate::remote::{connect, hold, told_apart};
use pumice_base::units::Role;
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options};
use pumice_executor::MemberDrive;
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId, Drives};
use pumice_raid::{Metadata, ReadAt};
use pumice_remote::RemoteNode;
use pumice_remote::initiator::DigestPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The path in a form that means the same to a process in another folder.
///
/// # Errors
/// If it begins as the name of a drive of a node and is none, or is no file of this machine.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    if RemoteName::of(path)?.is_some() {
        return Ok(path.to_owned());
    }
    path.canonicalize().map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// A member as an operator names it, a role or a device, in a form that means the same to a process
/// in another folder. A device that is gone is left as it is.
#[must_use]
pub fn named(member: &str) -> String {
    let is_role = member.parse::<u16>().is_ok();
    let path = Path::new(member).canonicalize().ok().filter(|_| !is_role);
    path.map_or_else(|| member.to_owned(), |path| path.display().to_string())
}

/// Returns whether two names are of the same device: alike, or of one file.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let file = |name: &str| Path::new(name).canonicalize().ok();
    one == other || file(one).is_some_and(|path| file(other) == Some(path))
}

/// Devices that this process has opened, and nodes that it holds.
#[derive(Default)]
pub struct Devices {
    digests: DigestPolicy,
    metadata: Option<Metadata>,
    nodes: BTreeMap<SocketAddr, Arc<RemoteNode>>,
    seen: Vec<PathBuf>,
    opened: BTreeMap<PathBuf, MemberDrive>,
}

/// The devices and nodes that were open before a request.
struct Before {
    nodes: Vec<SocketAddr>,
    seen: Vec<PathBuf>,
    opened: Vec<PathBuf>,
}

impl Devices {
    /// None yet. Connections to nodes carry digests as `digests` says.
    #[must_use]
    pub fn new(digests: DigestPolicy) -> Self {
        Self { digests, ..Self::default() }
    }

    /// Of an array with superblocks of this version, if its operator names it.
    #[must_use]
    pub fn with_metadata(self, metadata: Option<Metadata>) -> Self {
        Self { metadata, ..self }
    }

    /// Returns whether some device is a node's.
    #[must_use]
    pub fn any_far(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Opens devices; none may be named twice. A node named without a drive means all of its drives
    /// that have a superblock, if `nodes` allows that.
    ///
    /// # Errors
    /// If a device is named twice or cannot be opened, or a node cannot be reached or held.
    pub fn open(&mut self, paths: &[PathBuf], nodes: bool) -> Result<Vec<MemberDrive>, Failure> {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for path in paths {
            match RemoteName::of(path)? {
                Some(name) if name.nsid.is_none() && !nodes => {
                    return Err(Failure::new(format!("{name}: name one of its drives, such as {name}/1")));
                }
                Some(name) => far.push(RemotePlace::of(&name)?),
                None => near.push(path.as_path()),
            }
        }
        let mut out = self.open_here(&near)?;
        for name in far {
            out.extend(self.open_there(&name)?);
        }
        let path = |name: &str| Path::new(name).canonicalize().unwrap_or_else(|_| PathBuf::from(name));
        self.opened.extend(out.iter().map(|drive| (path(drive.name()), drive.clone())));
        Ok(out)
    }

    /// Opens a device for a request, and closes it again, with the node that was connected for it,
    /// if the request is refused. The volume keeps what it has taken.
    pub(crate) fn open_for<T>(
        &mut self,
        path: &Path,
        request: impl FnOnce(MemberDrive) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = self.before();
        let opened = self.open_one(path).map_err(|failure| failure.or(Code::Device));
        let done = opened.and_then(request);
        if done.is_err() {
            self.back_to(&before);
        }
        done
    }

    fn before(&self) -> Before {
        Before {
            nodes: self.nodes.keys().copied().collect(),
            seen: self.seen.clone(),
            opened: self.opened.keys().cloned().collect(),
        }
    }

    /// Closes everything that was opened since.
    fn back_to(&mut self, before: &Before) {
        self.opened.retain(|path, _| before.opened.contains(path));
        self.seen.retain(|path| before.seen.contains(path));
        self.nodes.retain(|address, _| before.nodes.contains(address));
    }

    /// Opens a device that is to be added. One that this process has opened before is still open,
    /// but a node that was lost is connected anew.
    fn open_one(&mut self, path: &Path) -> Result<MemberDrive, Failure> {
        let known = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Some(drive) = self.opened.get(&known) {
            if drive.read_exact_at(0, &mut [0; 512]).is_ok() {
                return Ok(drive.clone());
            }
            self.seen.retain(|seen| *seen != known);
            let named = RemoteName::of(path)?.map(|name| RemotePlace::of(&name)).transpose()?;
            if let Some(RemotePlace { address, nsid: Some(nsid) }) = named
                && let Some(node) = self.nodes.get(&address)
                && node.read(DriveId(nsid), 0, &mut [0; 512]).is_err()
            {
                self.nodes.remove(&address);
            }
        }
        let drives = self.open(&[path.to_owned()], false)?;
        drives.into_iter().next().ok_or_else(|| Failure::new("no device"))
    }

    fn take(&mut self, path: PathBuf) -> Result<(), Failure> {
        if self.seen.contains(&path) {
            return Err(Failure::new(format!("{}: the device is named twice", path.display())));
        }
        if let Some(other) = self.seen.iter().find(|seen| is_hard_link(seen, &path)) {
            let (path, other) = (path.display(), other.display());
            return Err(Failure::new(format!("{path} and {other} are the same file or device")));
        }
        self.seen.push(path);
        Ok(())
    }

    fn open_here(&mut self, paths: &[&Path]) -> Result<Vec<MemberDrive>, Failure> {
        let mut devices: Vec<Arc<dyn BlockDevice>> = Vec::with_capacity(paths.len());
        for path in paths {
            self.take(path.canonicalize().unwrap_or_else(|_| (*path).to_owned()))?;
            let device = FileDevice::open(path, OpenMode::ReadWrite, Options::default())?;
            if let Some(name) = loop_over(path, Path::new("/sys")) {
                let what = format!("{}: the kernel serves the file as /dev/{name}", path.display());
                return Err(Failure::new(what));
            }
            devices.push(Arc::new(device));
        }
        let options = NodeOptions { memory_bytes: 0, ..NodeOptions::default() };
        let node: Arc<dyn DataNode> = Arc::new(LocalNode::new("here", devices, &Peers::new(), options));
        let drive = |(i, path): (usize, &&Path)| {
            let id = DriveId(i as u32 + 1);
            // A name that means the same to a process in another folder.
            let name = std::path::absolute(path)?.display().to_string();
            Ok(MemberDrive::new(name, Arc::clone(&node), id)?)
        };
        paths.iter().enumerate().map(drive).collect()
    }

    fn open_there(&mut self, name: &RemotePlace) -> Result<Vec<MemberDrive>, Failure> {
        if !self.nodes.contains_key(&name.address) {
            let node = connect(name.address, self.digests)?;
            told_apart(self.nodes.values().chain([&node]))?;
            hold(&node, "a volume")?;
            self.nodes.insert(name.address, node);
        }
        let node = &self.nodes[&name.address];
        let Some(nsid) = name.nsid else {
            return self.all_of(name);
        };
        let (node, id) = (Arc::clone(node), DriveId(nsid));
        self.take(PathBuf::from(name.to_string()))?;
        Ok(vec![MemberDrive::new(name.to_string(), node, id)?])
    }

    /// All drives of a node that have a superblock.
    fn all_of(&mut self, name: &RemotePlace) -> Result<Vec<MemberDrive>, Failure> {
        let node = Arc::clone(&self.nodes[&name.address]);
        let mut out = Vec::new();
        for probed in probe_drives(&node, name, self.metadata) {
            let probed = probed?;
            let Place::There(node, id) = probed.place else { continue };
            self.take(PathBuf::from(&probed.path))?;
            out.push(MemberDrive::new(probed.path, node as _, id)?);
        }
        Ok(out)
    }
}

/// Returns whether two paths are names of one file, or of one block device.
fn is_hard_link(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        let is_device = found.file_type().is_block_device();
        Some(if is_device { (true, found.rdev(), 0) } else { (false, found.dev(), found.ino()) })
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// The number of nodes that may be lost, whichever they are, and the number of all nodes. All local
/// drives count as one node. Any `survives` members may be lost; of more, those for which
/// `corrects` is true.
pub fn nodes_survived(
    drives: impl IntoIterator<Item = (Role, String)>,
    survives: usize,
    corrects: impl Fn(&BTreeSet<Role>) -> bool,
) -> (usize, usize) {
    let mut nodes: BTreeMap<String, Vec<Role>> = BTreeMap::new();
    for (role, name) in drives {
        let node = match name.rsplit_once('/') {
            Some((node, _)) if node.starts_with("nvme://") => node.to_owned(),
            _ => String::new(),
        };
        nodes.entry(node).or_default().push(role);
    }
    let mut nodes: Vec<Vec<Role>> = nodes.into_values().collect();
    nodes.sort_by_key(|roles| std::cmp::Reverse(roles.len()));
    let mut lost = 0;
    let by_count = nodes.iter().take_while(|roles| {
        lost += roles.len();
        lost <= survives
    });
    let mut survived = by_count.count();
    // The largest nodes come first, so this ends at once if the code corrects no more than any.
    while survived < nodes.len() && all_of(&nodes, survived + 1, &BTreeSet::new(), &corrects) {
        survived += 1;
    }
    (survived, nodes.len())
}

/// Returns whether every choice of `more` nodes, with the members `lost`, is corrected.
fn all_of(
    nodes: &[Vec<Role>],
    more: usize,
    lost: &BTreeSet<Role>,
    corrects: &impl Fn(&BTreeSet<Role>) -> bool,
) -> bool {
    if more == 0 {
        return corrects(lost);
    }
    (0..=nodes.len().saturating_sub(more)).all(|first| {
        let with = lost.iter().chain(&nodes[first]).copied().collect();
        all_of(&nodes[first + 1..], more - 1, &with, corrects)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_parity::code::CodeSpec;

    #[test]
    fn a_device_has_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("drive"), folder.path().join("by-id"));
        std::fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let name = |path: &Path| path.to_str().unwrap().to_owned();
        let canonical = name(&file.canonicalize().unwrap());
        assert_eq!(named(&name(&link)), canonical);
        let hard = folder.path().join("hard");
        std::fs::hard_link(&file, &hard).unwrap();
        assert!(is_hard_link(&file, &hard) && !is_hard_link(&file, folder.path()));
        for other in ["2", "nvme://10.0.0.1:4420/1", "/no/such/device"] {
            assert_eq!(named(other), other);
        }
        assert!(is_same(&name(&link), &name(&file)));
        assert!(is_same("nvme://10.0.0.1:4420/1", "nvme://10.0.0.1:4420/1"));
        assert!(!is_same("/no/such/device", "/nor/this/one"), "neither is there");
    }

    #[test]
    fn the_largest_nodes_are_lost_first() {
        let drives = |counts: &[usize]| {
            let of = |(node, count): (usize, &usize)| {
                (0..*count).map(move |drive| format!("nvme://10.0.0.{node}:4420/{drive}")).collect::<Vec<_>>()
            };
            (0..).map(Role).zip(counts.iter().enumerate().flat_map(of)).collect::<Vec<_>>()
        };
        let survived = |counts: &[usize]| nodes_survived(drives(counts), 2, |lost| lost.len() <= 2);
        assert_eq!(survived(&[8, 8, 8]), (0, 3));
        assert_eq!(survived(&[2, 2, 2]), (1, 3));
        assert_eq!(survived(&[1, 1, 1, 1]), (2, 4));
        assert_eq!(survived(&[1, 3]), (0, 2), "the smaller one is no comfort");
        let local = ["/dev/sda".to_owned(), "/dev/sdb".to_owned()];
        assert_eq!(nodes_survived((0..).map(Role).zip(local), 2, |_| false), (1, 1));
        assert_eq!(nodes_survived([], 2, |_| true), (0, 0));
    }

    /// Any three members of lrc:12,2,2,data may be lost, and four if they are well chosen.
    #[test]
    fn nodes_are_lost_by_rank() {
        let code = "lrc:12,2,2,data".parse::<CodeSpec>().unwrap().code();
        let survived = |nodes: [[u16; 4]; 4]| {
            let drives = nodes.iter().enumerate().flat_map(|(node, roles)| {
                roles.iter().map(move |role| (Role(*role), format!("nvme://10.0.0.{node}:4420/{role}")))
            });
            let columns = |lost: &BTreeSet<Role>| lost.iter().map(|role| role.index()).collect::<Vec<_>>();
            nodes_survived(drives, 3, |lost| code.check().corrects(&columns(lost)))
        };
        // x 0 to 5, y 6 to 11, Px 12, Py 13, P0 14, P1 15.
        assert_eq!(survived([[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 14], [12, 11, 13, 15]]), (1, 4));
        assert_eq!(survived([[0, 1, 2, 3], [4, 5, 12, 14], [6, 7, 8, 9], [10, 11, 13, 15]]), (0, 4));
        // Only the last node is not survived.
        assert_eq!(survived([[0, 6, 7, 14], [1, 8, 9, 15], [10, 11, 12, 13], [2, 3, 4, 5]]), (0, 4));
    }
}

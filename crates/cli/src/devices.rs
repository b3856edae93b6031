//! From what the operator names to an array on its nodes: opening devices, reading superblocks, grouping members.

use crate::access::Access;
use crate::failure::Failure;
use crate::probed::{Place, Probed};
use crate::remote::{RemoteName, look_remote};
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options};
use pumice_host::probe::DriveReader;
use pumice_host::target::{JournalDrive, Member, Target};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId};
use pumice_raid::{Array, assemble, probe};
use pumice_units::Role;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Local memory of a drive beyond what the largest set of interims needs.
const SPARE_MEMORY: u64 = 1 << 20;

/// The members behind what was named: an assembled array stands for its members.
pub(crate) fn expand(paths: &[PathBuf], sysfs: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut out = Vec::new();
    for path in paths {
        if RemoteName::of(path)?.is_some() {
            out.push(path.clone());
            continue;
        }
        match md_members(path, sysfs)? {
            Some(members) => out.extend(members),
            None => out.push(path.clone()),
        }
    }
    Ok(out)
}

/// The members of an assembled md array, found through sysfs; `None` where the path is no such array.
fn md_members(path: &Path, sysfs: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    // /dev/md/name is a link to /dev/mdX.
    let Ok(real) = path.canonicalize() else { return Ok(None) };
    let Some(name) = real.file_name().filter(|_| real.starts_with("/dev")) else { return Ok(None) };
    let block = sysfs.join("class/block").join(name);
    if !block.join("md").is_dir() {
        return Ok(None);
    }
    let entries = std::fs::read_dir(block.join("slaves")).map_err(|error| {
        Failure::new(format!("{}: its members cannot be listed: {error}", path.display()))
    })?;
    let mut members = Vec::new();
    for entry in entries {
        members.push(Path::new("/dev").join(entry?.file_name()));
    }
    if members.is_empty() {
        return Err(Failure::new(format!("{}: the array is not running, it has no members", path.display())));
    }
    members.sort();
    Ok(Some(members))
}

/// Opens devices.
pub(crate) fn open(paths: &[PathBuf], access: Access) -> Result<Vec<Arc<dyn BlockDevice>>, Failure> {
    let mode = if access.write { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
    let mut out: Vec<Arc<dyn BlockDevice>> = Vec::with_capacity(paths.len());
    let mut seen: Vec<(PathBuf, &Path)> = Vec::new();
    for path in paths {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if let Some((_, first)) = seen.iter().find(|(known, _)| *known == real) {
            let (first, second) = (first.display(), path.display());
            return Err(Failure::new(format!("{first} and {second} are the same device: it is named twice")));
        }
        seen.push((real, path));
        let device = FileDevice::open(path, mode, Options::default())?;
        if !access.write && !access.allow_in_use && device.held_by_kernel()? {
            return Err(Failure::new(format!(
                "{}: the kernel holds the device (an assembled array, or a mount); stop the array first, or check it as it is with --allow-in-use",
                path.display()
            )));
        }
        out.push(Arc::new(device));
    }
    Ok(out)
}

/// Opens devices, and connects to nodes, and reads superblocks. A node that is named without a drive stands for all of its drives that carry one.
pub(crate) fn probe_all(paths: &[PathBuf], access: Access) -> Result<Vec<Probed>, Failure> {
    let mut remote: Vec<RemoteName> = Vec::new();
    let mut far_paths: Vec<&Path> = Vec::new();
    let mut local: Vec<PathBuf> = Vec::new();
    for path in paths {
        match RemoteName::of(path)? {
            Some(name) => {
                if let Some(at) = remote.iter().position(|known| *known == name) {
                    let (first, second) = (far_paths[at].display(), path.display());
                    let what = format!("{first} and {second} are the same: it is named twice");
                    return Err(Failure::new(what));
                }
                remote.push(name);
                far_paths.push(path);
            }
            None => local.push(path.clone()),
        }
    }
    // Other hosts are kept away first: what is read afterwards stays as it is.
    let far = look_remote(&remote, access).collect::<Result<Vec<_>, _>>()?;
    let mut out = Vec::with_capacity(paths.len());
    let devices = open(&local, access)?;
    let node = LocalNode::new("probe", devices.clone(), &Peers::new(), NodeOptions::default());
    for (i, (path, device)) in local.iter().zip(devices).enumerate() {
        let path = path.display().to_string();
        let reader = DriveReader::new(&node, DriveId(i as u32 + 1), device.size_bytes());
        let record = probe(&reader).map_err(|error| Failure::new(format!("{path}: {error}")))?;
        out.push(Probed { path, place: Place::Here(device), record });
    }
    out.extend(far);
    Ok(out)
}

/// Assembles the array of which all devices are members.
pub(crate) fn assemble_from(probed: &mut [Probed]) -> Result<Array, Failure> {
    let mut records = Vec::new();
    for probed in probed {
        let record =
            probed.record.take().ok_or_else(|| Failure::new(format!("{}: no md superblock", probed.path)))?;
        records.push((probed.path.clone(), record));
    }
    Ok(assemble(records)?)
}

/// Which members share a data node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placement {
    /// All on one.
    One,
    /// Contiguous runs of roles, as equal as can be.
    Runs(usize),
    /// As named: node, then its devices.
    Named(Vec<(String, Vec<PathBuf>)>),
}

/// Puts an array's members on in-process nodes. `index_of` maps a role to the device's place in `probed`.
pub(crate) fn place(
    array: Array,
    probed: &[Probed],
    placement: &Placement,
    options: &NodeOptions,
) -> Result<Target, Failure> {
    let geometry = array.geometry();
    let raid_disks = usize::from(geometry.raid_disks());
    let mut device_of: Vec<Option<usize>> = vec![None; raid_disks];
    for member in array.members().iter().flatten() {
        let index = probed
            .iter()
            .position(|p| p.path == member.device)
            .ok_or_else(|| Failure::new(format!("{}: not among the devices", member.device)))?;
        device_of[member.role.index()] = Some(index);
    }
    let groups = groups(&device_of, probed, placement)?;
    let mut options = options.clone();
    let interims = groups.len() as u64 * geometry.chunk_bytes() * 8;
    options.memory_bytes = options.memory_bytes.max(interims + SPARE_MEMORY);
    options.workers = options.workers.div_ceil(groups.len().max(1)).max(1);
    let peers = Peers::new();
    let mut members: Vec<Option<Member>> = (0..raid_disks).map(|_| None).collect();
    for (name, roles) in groups {
        let devices = roles.iter().filter_map(|role| probed[device_of[*role]?].here().cloned());
        let node: Arc<dyn DataNode> =
            Arc::new(LocalNode::new(&name, devices.collect(), &peers, options.clone()));
        for (i, role) in roles.iter().enumerate() {
            members[*role] = Some(member(&array, *role, Arc::clone(&node), &name, DriveId(i as u32 + 1)));
        }
    }
    for (role, index) in device_of.iter().enumerate() {
        if let Some(index) = index
            && let Place::There(node, drive) = &probed[*index].place
        {
            if *placement != Placement::One {
                return Err(Failure::new(
                    "--nodes and --node spread devices of this machine over nodes of this process; a drive on nvme:// is read by the node that serves it",
                ));
            }
            members[role] = Some(member(&array, role, Arc::clone(node) as _, node.name(), *drive));
        }
    }
    let journal = array.journal_device().and_then(|device| probed.iter().find(|p| p.path == device));
    let journal = journal.map(|journal| match &journal.place {
        Place::There(node, drive) => JournalDrive { node: Arc::clone(node) as _, drive: *drive },
        Place::Here(device) => {
            // A node of its own, which no other knows: nothing but the journal is read of it.
            let options = NodeOptions { workers: 1, memory_bytes: 0, ..options };
            let node = LocalNode::new("journal", vec![Arc::clone(device)], &Peers::new(), options);
            JournalDrive { node: Arc::new(node), drive: DriveId(1) }
        }
    });
    Ok(Target::new(array, members).with_journal(journal))
}

fn member(array: &Array, role: usize, node: Arc<dyn DataNode>, name: &str, drive: DriveId) -> Member {
    let info = array.member(Role(role as u16)).expect("a role that is present has a member");
    Member {
        node,
        node_name: name.to_owned(),
        drive,
        device: info.device.clone(),
        data_offset: info.data_offset_bytes(),
        valid_stripes: info.valid_stripes(array.geometry()),
    }
}

/// Node names with the roles on them; roles that are missing are left out.
fn groups(
    device_of: &[Option<usize>],
    probed: &[Probed],
    placement: &Placement,
) -> Result<Vec<(String, Vec<usize>)>, Failure> {
    let present = |role: &usize| device_of[*role].is_some_and(|i| probed[i].here().is_some());
    let roles = 0..device_of.len();
    let mut out = match placement {
        Placement::One => vec![("node1".to_owned(), roles.filter(present).collect())],
        Placement::Runs(nodes) => {
            if *nodes == 0 || *nodes > device_of.len() {
                return Err(Failure::new(format!(
                    "--nodes is {nodes}: 1 to {} for this array",
                    device_of.len()
                )));
            }
            let mut out: Vec<(String, Vec<usize>)> =
                (1..=*nodes).map(|i| (format!("node{i}"), Vec::new())).collect();
            for role in roles.filter(present) {
                out[role * nodes / device_of.len()].1.push(role);
            }
            out
        }
        Placement::Named(named) => {
            let mut out: Vec<(String, Vec<usize>)> = Vec::new();
            let mut left: Vec<usize> = roles.filter(present).collect();
            for (name, paths) in named {
                if out.iter().any(|(taken, _)| taken == name) {
                    return Err(Failure::new(format!("--node {name}: the name is given twice")));
                }
                let mut on_node = Vec::new();
                for path in paths {
                    let text = path.display().to_string();
                    let at = left
                        .iter()
                        .position(|role| device_of[*role].is_some_and(|i| probed[i].path == text))
                        .ok_or_else(|| {
                            Failure::new(format!(
                                "--node {name}: {text} is not a member, or on another node already"
                            ))
                        })?;
                    on_node.push(left.remove(at));
                }
                on_node.sort_unstable();
                out.push((name.clone(), on_node));
            }
            if let Some(role) = left.first() {
                let path = device_of[*role].map_or("", |i| probed[i].path.as_str());
                return Err(Failure::new(format!("--node: {path} is on no node")));
            }
            out
        }
    };
    out.retain(|(_, roles)| !roles.is_empty());
    Ok(out)
}

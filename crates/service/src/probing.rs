//! Reads the structures of array formats of everything that is named, together: where one device
//! leaves it open which of its superblocks counts, the others decide, on whatever machine they are.

use crate::access::Access;
use crate::failure::Failure;
use crate::formats::FORMATS;
use crate::name::RemoteName;
use crate::opening::open_beside;
use crate::part;
use crate::place::RemotePlace;
use crate::probed::{Place, Probed, Recognised};
use crate::remote::{connect, hold, told_apart};
use crate::tagged;
use pumice_blockdev::BlockDevice;
use pumice_host::probe::DriveReader;
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DriveId, Presence};
use pumice_raid::format::{ArrayFormat, Asked};
use pumice_raid::probe::probed_spans;
use pumice_raid::{Metadata, ReadAt};
use pumice_remote::RemoteNode;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A device that is open, and whose superblock has not been read.
struct Unread {
    path: String,
    place: Place,
    size: u64,
    /// It was not named itself, but its node was: without a superblock it is left out.
    of_node: Option<RemotePlace>,
}

/// A result for each device.
pub type Each<T> = Vec<Result<T, Failure>>;

/// Opens devices, and connects to nodes, and reads superblocks. A node that is named without a
/// drive stands for all of its drives that carry one.
///
/// # Errors
/// If a device cannot be opened, reached or read.
pub fn probe_all(paths: &[PathBuf], access: Access) -> Result<Vec<Probed>, Failure> {
    let (far, local) = split(paths)?;
    if let Some((first, second)) = far.iter().enumerate().find_map(|(i, (name, path))| {
        let (_, first) = far[..i].iter().find(|(known, _)| known == name)?;
        Some((first.display(), path.display()))
    }) {
        return Err(Failure::new(format!("{first} and {second} are the same drive, named twice")));
    }
    // Keep other hosts away first: what is read afterwards does not change.
    let far: Vec<_> =
        reach(far.iter().map(|(name, _)| *name), access).into_iter().collect::<Result<_, _>>()?;
    let nodes: Vec<_> = far.iter().filter_map(Unread::node).collect();
    told_apart(nodes)?;
    let devices = open_beside(&local, access, !far.is_empty())?;
    let here = local.iter().zip(devices).map(|(path, device)| Unread::here(path, device));
    let all = here.chain(far.into_iter().map(Ok)).collect();
    read(all, access.metadata, &FORMATS).into_iter().collect()
}

/// The same, where a device that cannot be opened, reached or read does not affect the others.
///
/// # Errors
/// If a name is none.
pub fn probe_each(paths: &[PathBuf], access: Access) -> Result<Each<Probed>, Failure> {
    let (far, local) = split(paths)?;
    let beside = !far.is_empty();
    let here = local.into_iter().map(|path| {
        let device = open_beside(std::slice::from_ref(&path), access, beside)?.remove(0);
        Unread::here(&path, device)
    });
    let mut all: Each<Unread> = here.collect();
    all.extend(reach(far.into_iter().map(|(name, _)| name), access));
    Ok(read(all, access.metadata, &FORMATS))
}

/// The drives of a node that a name stands for, with their structures of some formats.
pub(crate) fn probe_drives(
    node: &Arc<RemoteNode>,
    name: &RemotePlace,
    metadata: Option<Metadata>,
    formats: Formats<'_>,
) -> Each<Probed> {
    read(drives(node, name, formats), metadata, formats)
}

/// Formats that are looked for, in this order.
pub type Formats<'f> = &'f [&'static dyn ArrayFormat];

/// Drives of nodes, and devices of this machine, among what is named.
type Split = (Vec<(RemotePlace, PathBuf)>, Vec<PathBuf>);

fn split(paths: &[PathBuf]) -> Result<Split, Failure> {
    let (mut far, mut local) = (Vec::new(), Vec::new());
    for path in paths {
        match RemoteName::of(path)? {
            Some(name) => far.push((RemotePlace::of(&name)?, path.clone())),
            None => local.push(path.clone()),
        }
    }
    Ok((far, local))
}

impl Unread {
    fn here(name: &Path, device: Arc<dyn BlockDevice>) -> Result<Self, Failure> {
        let path = match part::split(name)? {
            (_, Some(_)) => name.display().to_string(),
            (path, None) => tagged::split(&path)?.0.display().to_string(),
        };
        let size = device.size_bytes();
        Ok(Self { path, place: Place::Here(device), size, of_node: None })
    }

    const fn node(&self) -> Option<&Arc<RemoteNode>> {
        match &self.place {
            Place::Here(_) => None,
            Place::There(node, _) => Some(node),
        }
    }
}

/// Connects to each node once. An error of one drive or node is returned in its place and does not
/// affect the others. For writing, other hosts are kept away from a node before anything is read
/// from it.
fn reach(names: impl Iterator<Item = RemotePlace>, access: Access) -> Each<Unread> {
    // `None`: it did not answer, and that has been told.
    let mut nodes: BTreeMap<SocketAddr, Option<Arc<RemoteNode>>> = BTreeMap::new();
    names
        .flat_map(|name| match nodes.get(&name.address) {
            Some(Some(node)) => drives(node, &name, &FORMATS),
            Some(None) => Vec::new(),
            None => {
                let connected = connect(name.address, access.digests).and_then(|node| match access.write {
                    true => hold(&node, "--repair").map(|()| node),
                    // Others can then tell it from a host that runs an array.
                    false => node.observe().map(|()| node).map_err(Failure::from),
                });
                nodes.insert(name.address, connected.as_ref().ok().cloned());
                connected.map_or_else(|failure| vec![Err(failure)], |node| drives(&node, &name, &FORMATS))
            }
        })
        .collect()
}

/// The drives of a node that a name stands for. All of them means those that carry a superblock,
/// whole or damaged.
fn drives(node: &Arc<RemoteNode>, name: &RemotePlace, formats: Formats<'_>) -> Each<Unread> {
    let named = node.drives().iter().filter(|d| name.nsid.is_none_or(|nsid| d.id == DriveId(nsid)));
    let drives: Each<Unread> = named
        .map(|drive| {
            Ok(Unread {
                path: RemotePlace { nsid: Some(drive.id.0), ..*name }.to_string(),
                place: Place::There(Arc::clone(node), drive.id),
                size: drive.size_bytes,
                of_node: name.nsid.is_none().then_some(*name),
            })
        })
        .collect();
    match name.nsid {
        Some(nsid) if drives.is_empty() => {
            vec![Err(Failure::new(format!("{name}: the node has no drive {nsid}")))]
        }
        None if drives.is_empty() => vec![Err(nothing_on(name, formats))],
        _ => drives,
    }
}

fn nothing_on(name: &RemotePlace, formats: Formats<'_>) -> Failure {
    let structures: Vec<&str> = formats.iter().map(|format| format.structure()).collect();
    Failure::new(format!("{name}: none of its drives has an {}", structures.join(", or ")))
}

/// Reads the structures of all that is open.
fn read(all: Each<Unread>, metadata: Option<Metadata>, formats: Formats<'_>) -> Each<Probed> {
    let found = look(all.iter().filter_map(|one| one.as_ref().ok()), metadata, formats);
    let mut found = found.into_iter();
    let mut out = Vec::new();
    // Nodes whose drives have all been left out so far.
    let mut empty: Vec<RemotePlace> = Vec::new();
    let mut filled: Vec<RemotePlace> = Vec::new();
    for one in all {
        let Unread { path, place, of_node, .. } = match one {
            Ok(one) => one,
            Err(failure) => {
                out.push(Err(failure));
                continue;
            }
        };
        let (found, holds) = match found.next().expect("a result for each device that is open") {
            Ok(found) => found,
            Err(error) => {
                filled.extend(of_node);
                out.push(Err(Failure::new(format!("{path}: {error}"))));
                continue;
            }
        };
        match (of_node, &found) {
            (Some(name), None) => empty.push(name),
            (of_node, _) => {
                filled.extend(of_node);
                out.push(Ok(Probed { path, place, found, holds }));
            }
        }
    }
    empty.dedup();
    empty.retain(|name| !filled.contains(name));
    out.extend(empty.iter().map(|name| Err(nothing_on(name, formats))));
    out
}

/// A structure, or the words for what a device without one holds.
type Looked = Result<(Option<Recognised>, String), String>;

/// The result of the probe of each device, in their order.
fn look<'u>(
    all: impl Iterator<Item = &'u Unread>,
    metadata: Option<Metadata>,
    formats: Formats<'_>,
) -> Vec<Looked> {
    let all: Vec<&Unread> = all.collect();
    let devices: Vec<_> = all.iter().filter_map(|one| one.place.here().cloned()).collect();
    let here = LocalNode::new("probe", devices, &Peers::new(), NodeOptions::default());
    let mut nodes: Vec<&Arc<RemoteNode>> = Vec::new();
    for node in all.iter().filter_map(|one| one.node()) {
        if !nodes.iter().any(|known| Arc::ptr_eq(known, node)) {
            nodes.push(node);
        }
    }
    let mut readers: Vec<Option<DriveReader<'_>>> = all.iter().map(|_| None).collect();
    let local = all.iter().enumerate().filter(|(_, one)| one.node().is_none());
    for (number, (at, one)) in (1..).zip(local) {
        readers[at] = Some(DriveReader::new(&here, DriveId(number), one.size));
    }
    for node in &nodes {
        let of_it = all.iter().enumerate().filter_map(|(i, one)| match &one.place {
            Place::There(of, drive) if Arc::ptr_eq(of, node) => Some((i, (*drive, one.size))),
            _ => None,
        });
        let (places, drives): (Vec<usize>, Vec<_>) = of_it.unzip();
        for (at, reader) in places.into_iter().zip(DriveReader::ahead(&***node, &drives, probed_spans)) {
            readers[at] = Some(reader);
        }
    }
    let readers: Vec<&dyn ReadAt> = readers.iter().flatten().map(|reader| reader as &dyn ReadAt).collect();
    assert_eq!(readers.len(), all.len(), "every device is read");
    let recognised = recognise(&readers, Asked { metadata }, formats);
    let looked = |((found, reader), one): ((Result<Option<_>, _>, &&dyn ReadAt), &&Unread)| {
        found.map(|found| match found {
            // What is left out if it has no structure is not read again for its name.
            None if one.of_node.is_none() => (None, pumice_raid::foreign::holds(*reader)),
            found => (found, String::new()),
        })
    };
    recognised.into_iter().zip(&readers).zip(&all).map(looked).collect()
}

/// The structure on each device of the first of `formats` that finds one there.
///
/// # Errors
/// In the place of a device on which the first that finds something finds damage.
pub fn recognise(
    devices: &[&dyn ReadAt],
    asked: Asked,
    formats: Formats<'_>,
) -> Vec<Result<Option<Recognised>, String>> {
    let mut out: Vec<Result<Option<Recognised>, String>> = devices.iter().map(|_| Ok(None)).collect();
    for format in formats {
        let left: Vec<usize> = (0..out.len()).filter(|i| matches!(out[*i], Ok(None))).collect();
        let bytes: Vec<&dyn ReadAt> = left.iter().map(|i| devices[*i]).collect();
        for (i, found) in left.into_iter().zip(format.probe(&bytes, asked)) {
            out[i] = found.map(|found| found.map(|found| Recognised { format: *format, found }));
        }
    }
    out
}

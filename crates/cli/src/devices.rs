//! Turns named devices into an array on its nodes: opens them, reads superblocks, groups members.

use pumice_base::units::Role;
use pumice_blockdev::{FileDevice, OpenMode, Options};
use pumice_host::target::{JournalDrive, Member, Target};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId};
use pumice_raid::{Array, AssemblyError, assemble};
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::opening::user_of;
use pumice_service::probed::{Place, Probed, records};
use pumice_service::probing::probe_all;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Local memory of a drive beyond what the largest set of interims needs.
const SPARE_MEMORY: u64 = 1 << 20;

/// The device of this machine that somebody has taken into use since it was opened, and who; `None`
/// if nobody is known to have.
///
/// # Errors
/// If the state of a device cannot be read.
pub(crate) fn taken_into_use(probed: &[Probed], sysfs: &Path) -> Result<Option<String>, Failure> {
    for device in probed.iter().filter(|device| device.here().is_some()) {
        let path = Path::new(&device.path);
        let opened = FileDevice::open(path, OpenMode::ReadOnly, Options::default())?;
        if let Some(who) = user_of(path, &opened, false, sysfs)? {
            return Ok(Some(format!("{}: {who}", device.path)));
        }
    }
    Ok(None)
}

/// Attempts to read superblocks again that do not fit together, if somebody may be writing them.
const AGAIN: u32 = 5;
/// Between two such reads: md writes the superblocks of all members within milliseconds.
const PAUSE: Duration = Duration::from_millis(300);

/// Opens devices, reads superblocks and assembles the array of which all of them are members. If
/// superblocks do not fit together and somebody may be writing them, one member after another, they
/// are read again before an error is returned.
pub(crate) fn assemble_of(paths: &[PathBuf], access: Access) -> Result<(Vec<Probed>, Array), Failure> {
    let read = || {
        let mut probed = probe_all(paths, access)?;
        let shared = !access.write && (access.allow_in_use || probed.iter().any(|p| p.here().is_none()));
        let array = assemble(records(&mut probed)?);
        Ok((shared, array.map(|array| (probed, array))))
    };
    read_again(read, || std::thread::sleep(PAUSE))
}

/// Repeats `read` while another attempt may help. `read` returns whether somebody else may be
/// writing, and its result.
fn read_again<T>(
    mut read: impl FnMut() -> Result<(bool, Result<T, AssemblyError>), Failure>,
    mut pause: impl FnMut(),
) -> Result<T, Failure> {
    let mut left = AGAIN;
    loop {
        match read()? {
            (_, Ok(read)) => return Ok(read),
            (true, Err(error)) if error.may_pass() && left > 0 => {
                left -= 1;
                pause();
            }
            (_, Err(error)) => return Err(error.into()),
        }
    }
}

/// Assembles the array of which all devices are members.
///
/// # Errors
/// If a device has no superblock, or they are not of one array.
pub fn assemble_from(probed: &mut [Probed]) -> Result<Array, Failure> {
    Ok(assemble(records(probed)?)?)
}

/// The members that share a data node of this process.
#[derive(Debug, Clone, Default)]
pub enum Placement {
    /// All on one.
    #[default]
    One,
    /// Contiguous runs of roles, as equal as can be, on so many.
    Runs(usize),
    /// As somebody else spreads them.
    By(Arc<dyn Spread>),
}

/// A way to spread the members of an array over nodes.
pub trait Spread: fmt::Debug + Send + Sync {
    /// Node names, each with the roles on it. `devices` has the device of each role, as it was
    /// named; `None` where the role is missing, or its device is on another machine.
    ///
    /// # Errors
    /// If these devices cannot be spread in this way.
    fn groups(&self, devices: &[Option<&str>]) -> Result<Vec<(String, Vec<usize>)>, Failure>;
}

/// Puts an array's members on nodes of this process; drives of other nodes stay where they are.
///
/// # Errors
/// If the members cannot be placed in this way.
pub fn place(
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
            if !matches!(placement, Placement::One) {
                return Err(Failure::new(
                    "--nodes and --node spread devices of this machine over nodes of this process; a drive named nvme:// is read by the node that serves it",
                ));
            }
            members[role] = Some(member(&array, role, Arc::clone(node) as _, node.name(), *drive));
        }
    }
    let journal = array.journal_device().and_then(|device| probed.iter().find(|p| p.path == device));
    let journal = journal.map(|journal| match &journal.place {
        Place::There(node, drive) => JournalDrive { node: Arc::clone(node) as _, drive: *drive },
        Place::Here(device) => {
            // A separate node without peers: only the journal is read from it.
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
        Placement::By(spread) => {
            let here = |index: &Option<usize>| index.map(|i| &probed[i]).filter(|p| p.here().is_some());
            let devices: Vec<_> =
                device_of.iter().map(|index| here(index).map(|p| p.path.as_str())).collect();
            spread.groups(&devices)?
        }
    };
    out.retain(|(_, roles)| !roles.is_empty());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_raid::layout::Level;
    use pumice_service::opening::open_beside;
    use std::fs;

    fn device(path: &Path, mode: OpenMode) -> FileDevice {
        FileDevice::open(path, mode, Options::default()).unwrap()
    }

    #[test]
    fn a_file_that_is_locked_after_it_was_opened_is_taken_into_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, vec![0; 8192]).unwrap();
        let opened = open_beside(std::slice::from_ref(&path), Access::default(), false).unwrap();
        let place = Place::Here(Arc::clone(&opened[0]));
        let probed = [Probed { path: path.display().to_string(), place, record: None, holds: String::new() }];
        let taken = || taken_into_use(&probed, folder.path()).unwrap();
        assert_eq!(taken(), None, "not by this scrub");
        let served = device(&path, OpenMode::ReadWrite);
        assert!(taken().unwrap().contains("another program has the file locked"));
        drop(served);
        assert_eq!(taken(), None);
    }

    #[test]
    fn superblocks_in_the_middle_of_an_update_are_read_again_before_one_is_called_out_of_date() {
        let behind = || AssemblyError::OutOfDate {
            device: "m0".to_owned(),
            events: 65,
            other: "m5".to_owned(),
            newest: 68,
            level: Level::Raid6,
            spare: true,
        };
        // How often it is read, and what comes of it, where the update is over after so many reads.
        let reads = |shared: bool, over_after: u32| {
            let (mut reads, mut pauses) = (0, 0);
            let read = || {
                reads += 1;
                Ok((shared, if reads > over_after { Ok(()) } else { Err(behind()) }))
            };
            let outcome = read_again(read, || pauses += 1);
            assert_eq!(pauses + 1, reads);
            (reads, outcome.is_ok())
        };
        assert_eq!(reads(true, 0), (1, true));
        assert_eq!(reads(true, 2), (3, true));
        assert_eq!(reads(true, 100), (1 + AGAIN, false), "it is said in the end");
        assert_eq!(reads(false, 2), (1, false), "nobody else writes");
        let mut count = 0;
        let empty = || {
            count += 1;
            Ok((true, Err::<(), _>(AssemblyError::Empty)))
        };
        assert!(read_again(empty, || ()).is_err());
        assert_eq!(count, 1, "what an update does not explain is said at once");
    }
}

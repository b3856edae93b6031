//! `pumice scrub --heal`: the orders to md, through sysfs. `docs/design/healing.md` has the
//! conditions.

use crate::progress::Silent;
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options};
use pumice_host::finding::Finding;
use pumice_host::heal::{BEGIN, Healing, Md, Order, PAUSE, Plan, SyncAction, is_refused};
use pumice_host::probe::DriveReader;
use pumice_host::scrub::{Options as PassOptions, Outcome, run as run_pass};
use pumice_host::state::{HealRecord, StateFiles};
use pumice_host::stop::Stop;
use pumice_host::target::Target;
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::DriveId;
use pumice_raid::probe_at;
use pumice_service::failure::Failure;
use pumice_service::name::RemoteName;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kernel's identifier of this boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The limits of md's check could not be restored.
const STILL_LIMITED: &str =
    "md is busy, and its check is still limited: the next scrub of the array removes the limits";

/// Outcome of an order to md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// md has taken it.
    Taken,
    /// Not at this moment (`EBUSY`).
    Busy,
}

/// An array that runs on this machine.
#[derive(Debug)]
pub(super) struct Array {
    /// The kernel's name of it.
    name: String,
    /// Its `md` folder.
    md: PathBuf,
}

/// The stripes that were healed, and the reasons for the rest.
#[derive(Debug)]
pub(super) struct Healed {
    /// Stripes that md has checked.
    pub(super) stripes: Vec<u64>,
    /// Stripes that were left alone, and why.
    pub(super) left: Vec<(u64, String)>,
    /// Reason for an early end.
    pub(super) stopped: Option<String>,
}

/// Separates the array to heal from the other named devices. The others are scrubbed; if there are
/// none, the members of the array are.
pub(super) fn named(devices: &[PathBuf], sysfs: &Path) -> Result<(Array, Vec<PathBuf>), Failure> {
    let mut arrays = Vec::new();
    let mut others = Vec::new();
    for path in devices {
        if RemoteName::of(path)?.is_some() {
            others.push(path.clone());
            continue;
        }
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let md = sysfs.join("class/block").join(&name).join("md");
        if !md.is_dir() {
            let what = "--heal needs an md array that runs on this machine; the other devices must be drives of nodes";
            return Err(Failure::new(format!("{}: {what}", path.display())));
        }
        arrays.push((path.clone(), Array { name, md }));
    }
    let mut arrays = arrays.into_iter();
    match (arrays.next(), arrays.next()) {
        (Some((path, array)), None) => {
            let scrubbed = if others.is_empty() { vec![path] } else { others };
            Ok((array, scrubbed))
        }
        _ => Err(Failure::new("--heal takes one md array, such as /dev/md0, and its nodes")),
    }
}

/// Checks that the array to heal is the array that was scrubbed, by the superblock of one of its
/// members.
pub(super) fn is_of(array: &Array, scrubbed: &pumice_raid::Array, sysfs: &Path) -> Result<(), Failure> {
    if is_same(array, scrubbed, sysfs)? {
        return Ok(());
    }
    let uuid = scrubbed.uuid();
    Err(Failure::new(format!("/dev/{} is not array {uuid}, to which the other devices belong", array.name)))
}

/// Returns whether an array is the one that was scrubbed, by the superblock of one of its members.
pub(super) fn is_same(array: &Array, scrubbed: &pumice_raid::Array, sysfs: &Path) -> Result<bool, Failure> {
    let slaves = sysfs.join("class/block").join(&array.name).join("slaves");
    for entry in std::fs::read_dir(&slaves)? {
        let path = Path::new("/dev").join(entry?.file_name());
        if is_member(&path, scrubbed)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a device is a member of an array. Its users may have written superblocks of its
/// UUID into it: those in another format than that of the array do not count.
fn is_member(path: &Path, of: &pumice_raid::Array) -> Result<bool, Failure> {
    let device = Arc::new(FileDevice::open(path, OpenMode::ReadOnly, Options::default())?);
    let size = device.size_bytes();
    let node = LocalNode::new("member", vec![device], &Peers::new(), NodeOptions::default());
    let reader = DriveReader::new(&node, DriveId(1), size);
    let Some(metadata) = of.metadata() else { return Ok(false) };
    let found = probe_at(&[&reader], metadata).swap_remove(0);
    let record = found.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(record.is_some_and(|record| record.superblock.array_uuid == of.uuid()))
}

/// Has md check the stripes in which drives refuse blocks, scrubs these stripes again, and enters
/// the outcome in the findings.
pub(super) fn run(
    array: &Array,
    target: &Target,
    state: &StateFiles,
    options: &PassOptions,
    outcome: &mut Outcome,
    stop: &Stop,
) -> Result<(), Failure> {
    let layout = target.layout();
    if !matches!(target.array().geometry().level().number(), 4..=6) {
        return Err(Failure::new(
            "--heal is for RAID-4, RAID-5 and RAID-6: on mirrors, md fails a member after few errors",
        ));
    }
    let chunk = u64::from(layout.chunk_bytes());
    let plan = Plan::of(&outcome.findings, chunk, layout.rows());
    let healed = array.heal(&plan, layout.stripes() * chunk / 512, state, stop)?;
    for stripe in &healed.stripes {
        // Only a new look shows that the stripe is healed.
        let range = Some(*stripe..*stripe + 1);
        let again =
            run_pass(target, None, &PassOptions { range, ..options.clone() }, &mut Silent, &Stop::new())?;
        let clean = again.findings.is_empty() && again.stopped.is_none();
        let healed = |finding: &&mut Finding| finding.stripe == *stripe && is_refused(finding);
        for finding in outcome.findings.iter_mut().filter(healed) {
            finding.repaired = clean;
            if !clean {
                finding.left_alone = Some("md has checked the stripe, and it is still damaged".to_owned());
            }
        }
    }
    let rest = healed.stopped.unwrap_or_else(|| "no drive refuses it, so md cannot heal it".to_owned());
    for finding in outcome.findings.iter_mut().filter(|f| !f.repaired && f.left_alone.is_none()) {
        let left = healed.left.iter().find(|(stripe, _)| *stripe == finding.stripe);
        finding.left_alone = Some(left.map_or_else(|| rest.clone(), |(_, why)| why.clone()));
    }
    Ok(())
}

/// Ends an interrupted healing: restores md's limits. Returns a description of what was done.
/// `is_same` says whether an array is still the one that was healed, because another array may have
/// its name now.
pub(super) fn recover(
    state: &StateFiles,
    sysfs: &Path,
    is_same: impl Fn(&Array) -> Result<bool, Failure>,
) -> Result<Option<String>, Failure> {
    let Some(record) = state.heal_record()? else { return Ok(None) };
    let said = match boot_id() {
        Ok(boot) if boot == record.boot => {
            let array = Array { md: sysfs.join("class/block").join(&record.md).join("md"), name: record.md };
            if array.md.is_dir() && is_same(&array)? {
                array.take_back()?;
                format!(
                    "an interrupted healing of {} is ended: the limits of md's check are removed",
                    array.name
                )
            } else {
                "an interrupted healing has ended with its array".to_owned()
            }
        }
        // A restart has removed the limits.
        _ => "an interrupted healing was ended by a restart".to_owned(),
    };
    state.forget_heal()?;
    Ok(Some(said))
}

fn boot_id() -> Result<String, Failure> {
    Ok(std::fs::read_to_string(BOOT)?.trim().to_owned())
}

impl Array {
    fn word(&self, file: &str) -> Result<String, Failure> {
        let path = self.md.join(file);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(text.trim().to_owned())
    }

    fn number(&self, file: &str) -> Result<u64, Failure> {
        let word = self.word(file)?;
        // "max" has no number; "123 (local)" has.
        let number = word.split_whitespace().next().and_then(|first| first.parse().ok());
        number.ok_or_else(|| Failure::new(format!("{}: '{word}'", self.md.join(file).display())))
    }

    fn write(&self, file: &str, value: &str) -> Result<Told, Failure> {
        let path = self.md.join(file);
        match std::fs::write(&path, value) {
            Ok(()) => Ok(Told::Taken),
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => Ok(Told::Busy),
            Err(error) => Err(Failure::new(format!("{}: {value}: {error}", path.display()))),
        }
    }

    /// Sets where a check begins and pauses. In between, the beginning is never above the pause. If
    /// md is busy, a part may be done; the order can be repeated.
    fn limit(&self, min: u64, max: Option<u64>) -> Result<Told, Failure> {
        let max = max.map_or_else(|| "max".to_owned(), |max| max.to_string());
        for (file, value) in [("sync_min", "0"), ("sync_max", &max), ("sync_min", &min.to_string())] {
            if self.write(file, value)? == Told::Busy {
                return Ok(Told::Busy);
            }
        }
        Ok(Told::Taken)
    }

    /// Ends a check and removes the limits, outside a healing.
    fn take_back(&self) -> Result<(), Failure> {
        if self.word("sync_action")? == "check" {
            self.write("sync_action", "idle")?;
        }
        let begun = Instant::now();
        while self.limit(0, None)? == Told::Busy {
            if begun.elapsed() >= BEGIN {
                return Err(Failure::new(format!("{}: {STILL_LIMITED}", self.name)));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The present state, as md shows it.
    fn now(&self) -> Result<Md, Failure> {
        let runs = matches!(
            self.word("array_state")?.as_str(),
            "clean" | "active" | "active-idle" | "write-pending"
        );
        let action = match self.word("sync_action")?.as_str() {
            "idle" => SyncAction::Idle,
            "check" => SyncAction::Check,
            other => SyncAction::Other(other.to_owned()),
        };
        let max = self.word("sync_max")?;
        let mut errors = BTreeMap::new();
        for entry in std::fs::read_dir(&self.md)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let Some(device) = name.strip_prefix("dev-") else { continue };
            if self.word(&format!("{name}/state"))?.split(',').any(|word| word == "in_sync") {
                errors.insert(device.to_owned(), self.number(&format!("{name}/errors"))?);
            }
        }
        Ok(Md {
            runs,
            action,
            degraded: u32::try_from(self.number("degraded")?).unwrap_or(u32::MAX),
            sync_min: self.number("sync_min")?,
            sync_max: if max == "max" { None } else { Some(self.number("sync_max")?) },
            completed: self.number("sync_completed").ok(),
            cache: self.number("stripe_cache_size")?,
            errors,
        })
    }

    /// Has md check the stripes of a plan. `end` is how many sectors of each member are in use.
    pub(super) fn heal(
        &self,
        plan: &Plan,
        end: u64,
        state: &StateFiles,
        stop: &Stop,
    ) -> Result<Healed, Failure> {
        let mut healing = Healing::new(plan.tasks.clone(), end);
        let begun = Instant::now();
        let mut recorded = false;
        let mut failure = None;
        loop {
            if stop.is_raised() {
                healing.stop();
            }
            let done = self.step(&mut healing, begun.elapsed(), state, &mut recorded);
            match done {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    // The limits are removed, whatever else fails.
                    let restored = self.take_back();
                    failure = Some(error);
                    recorded &= restored.is_err();
                    if !recorded {
                        state.forget_heal()?;
                    }
                    break;
                }
            }
        }
        if failure.is_none() && recorded {
            if healing.is_restored() {
                state.forget_heal()?;
            } else {
                failure = Some(Failure::new(STILL_LIMITED));
            }
        }
        let stopped = failure.map(|error| error.to_string());
        Ok(Healed {
            stripes: healing.healed().to_vec(),
            left: plan.left.iter().map(|(stripe, why)| (*stripe, why.to_string())).collect(),
            stopped: stopped.or_else(|| healing.why().map(ToString::to_string)),
        })
    }

    /// One step; false at the end.
    fn step(
        &self,
        healing: &mut Healing,
        now: Duration,
        state: &StateFiles,
        recorded: &mut bool,
    ) -> Result<bool, Failure> {
        let told = match healing.next(now, &self.now()?) {
            Order::Limit { min, max } => {
                if !*recorded {
                    state.record_heal(&HealRecord { md: self.name.clone(), boot: boot_id()? })?;
                    *recorded = true;
                }
                self.limit(min, max)?
            }
            Order::Check => self.write("sync_action", "check")?,
            Order::Idle => self.write("sync_action", "idle")?,
            Order::Wait(time) => {
                std::thread::sleep(time);
                Told::Taken
            }
            Order::Done => return Ok(false),
        };
        if told == Told::Busy {
            healing.busy(now);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_raid::layout::{Layout, Level};
    use pumice_raid::{FormatSpec, Metadata, Uuid};
    use pumice_service::access::Access;
    use std::fs;
    use std::os::unix::fs::FileExt;

    /// A folder like an array's in sysfs.
    fn sysfs(folder: &Path) -> PathBuf {
        let md = folder.join("class/block/md7/md");
        fs::create_dir_all(md.join("dev-sda")).unwrap();
        fs::create_dir_all(md.join("dev-sdb")).unwrap();
        for (file, text) in [
            ("array_state", "active\n"),
            ("sync_action", "check\n"),
            ("degraded", "0\n"),
            ("sync_min", "1280\n"),
            ("sync_max", "2560\n"),
            ("sync_completed", "1408 / 20480\n"),
            ("stripe_cache_size", "256\n"),
            ("dev-sda/state", "in_sync\n"),
            ("dev-sda/errors", "3\n"),
            ("dev-sdb/state", "faulty\n"),
            ("dev-sdb/errors", "300\n"),
        ] {
            fs::write(md.join(file), text).unwrap();
        }
        md
    }

    /// An array in image files, of which users have written superblocks into the data as well.
    #[test]
    fn a_member_is_known_by_the_superblock_in_the_format_of_its_array() {
        let folder = tempfile::tempdir().unwrap();
        let uuid = Uuid([7; 16]);
        let format = |metadata, array_uuid, offset| {
            let spec = FormatSpec {
                metadata,
                level: Level::Raid5,
                layout: Some(Layout::LeftSymmetric),
                chunk_bytes: 65_536,
                component_bytes: Some(1 << 20),
                device_bytes: vec![4 << 20; 3],
                array_uuid,
                device_uuids: (0..3).map(|i| Uuid([i; 16])).collect(),
                name: "heal".to_owned(),
                ctime: 1_700_000_000,
                bitmap: false,
                bad_block_log: false,
                data_offset: offset,
            };
            spec.format().unwrap()
        };
        let write = |metadata, array_uuid, offset| {
            for (i, member) in format(metadata, array_uuid, offset).members.iter().enumerate() {
                let path = folder.path().join(i.to_string());
                let file = fs::File::options().create(true).truncate(false).write(true).open(path).unwrap();
                file.set_len(4 << 20).unwrap();
                for (at, bytes) in &member.writes {
                    file.write_all_at(bytes, *at).unwrap();
                }
            }
        };
        let paths = [0, 1, 2].map(|i| folder.path().join(i.to_string()));
        write(Metadata::V1_2, uuid, Some(1 << 20));
        let array = crate::devices::assemble_of(&paths, Access::default(), None).unwrap().1.array;
        assert!(is_member(&paths[0], &array).unwrap());
        write(Metadata::V1_0, uuid, None);
        assert!(is_member(&paths[0], &array).unwrap(), "users cannot keep it from being healed");
        write(Metadata::V1_2, Uuid([8; 16]), Some(1 << 20));
        assert!(!is_member(&paths[0], &array).unwrap(), "nor make another array that one");
    }

    #[test]
    fn md_is_read_word_by_word() {
        let folder = tempfile::tempdir().unwrap();
        let md = sysfs(folder.path());
        let now = Array { name: "md7".to_owned(), md: md.clone() }.now().unwrap();
        assert!(now.runs && now.action == SyncAction::Check);
        assert_eq!((now.sync_min, now.sync_max, now.completed), (1280, Some(2560), Some(1408)));
        assert_eq!(now.errors, BTreeMap::from([("sda".to_owned(), 3)]), "members in use only");
        fs::write(md.join("sync_max"), "max\n").unwrap();
        fs::write(md.join("sync_completed"), "none\n").unwrap();
        let now = Array { name: "md7".to_owned(), md }.now().unwrap();
        assert_eq!((now.sync_max, now.completed), (None, None));
    }

    #[test]
    fn a_healing_that_was_killed_is_ended_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let md = sysfs(folder.path());
        let state = StateFiles::open(&folder.path().join("state"), Uuid([3; 16])).unwrap();
        assert_eq!(recover(&state, folder.path(), |_| Ok(true)).unwrap(), None);
        let record = |boot: String| state.record_heal(&HealRecord { md: "md7".to_owned(), boot }).unwrap();
        // A record of an earlier boot: md is not touched.
        record("another".to_owned());
        assert!(recover(&state, folder.path(), |_| Ok(true)).unwrap().unwrap().contains("restart"));
        assert_eq!(fs::read_to_string(md.join("sync_max")).unwrap(), "2560\n");
        // While nobody can tell which array it is, the record stays.
        record(boot_id().unwrap());
        assert!(recover(&state, folder.path(), |_| Err(Failure::new("a member cannot be read"))).is_err());
        assert!(state.heal_record().unwrap().is_some());
        // The array was stopped, and another one has its name.
        record(boot_id().unwrap());
        let said = recover(&state, folder.path(), |_| Ok(false)).unwrap().unwrap();
        assert!(said.contains("ended with its array"));
        assert_eq!(fs::read_to_string(md.join("sync_max")).unwrap(), "2560\n");
        record(boot_id().unwrap());
        assert!(recover(&state, folder.path(), |_| Ok(true)).unwrap().unwrap().contains("md7"));
        let word = |file: &str| fs::read_to_string(md.join(file)).unwrap();
        assert_eq!(
            (word("sync_action"), word("sync_min"), word("sync_max")),
            ("idle".into(), "0".into(), "max".into())
        );
        assert_eq!(recover(&state, folder.path(), |_| Ok(true)).unwrap(), None, "once");
    }
}

//! Arrays that the kernel runs, by sysfs: `/sys/block/md*/md`, as the kernel's own page on md
//! (`Documentation/admin-guide/md`) describes its files.

use super::document::{Array, Kind, Member, Rebuild, State};
use pumice_base::units::SECTOR;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Arrays and members that are looked at, at most.
const MOST: usize = 1024;

/// The arrays with redundancy that run under a root folder, which is `/` but in tests.
pub(super) fn arrays(root: &Path) -> Vec<Array> {
    let uuids = uuids(root);
    let mut names = names(&root.join("sys/block"), |name| name.starts_with("md"));
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.into_iter().filter_map(|name| array(root, &name, &uuids)).collect()
}

fn names(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| wanted(name)).take(MOST).collect()
}

/// UUIDs of arrays by the kernel's name, from the links of udev.
fn uuids(root: &Path) -> BTreeMap<String, String> {
    let folder = root.join("dev/disk/by-id");
    let links = names(&folder, |name| name.starts_with("md-uuid-") && !name.contains("-part"));
    let of = |link: &String| {
        let to = fs::read_link(folder.join(link)).ok()?;
        let name = to.file_name()?.to_str()?.to_owned();
        Some((name, link.strip_prefix("md-uuid-")?.to_owned()))
    };
    links.iter().filter_map(of).collect()
}

fn word(path: PathBuf) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: PathBuf) -> Option<u64> {
    word(path)?.parse().ok()
}

/// Losses that an array without any survives.
fn survives(level: &str, disks: u64) -> Option<u64> {
    match level {
        "raid1" => Some(disks.saturating_sub(1)),
        "raid4" | "raid5" | "raid10" => Some(1),
        "raid6" => Some(2),
        _ => None,
    }
}

fn array(root: &Path, name: &str, uuids: &BTreeMap<String, String>) -> Option<Array> {
    let block = root.join("sys/block").join(name);
    let md = block.join("md");
    let level = word(md.join("level"))?;
    let disks = number(md.join("raid_disks"))?.min(MOST as u64);
    let survives = survives(&level, disks)?;
    let runs = word(md.join("array_state")).unwrap_or_default();
    if runs == "clear" {
        return None;
    }
    let members = members(&md, disks);
    let rebuild = rebuild(&md);
    let gone = members.iter().filter(|member| member.state != "in_sync").count() as u64;
    let gone = gone.max(number(md.join("degraded")).unwrap_or(0));
    let (state, condition) = match runs.as_str() {
        "inactive" => (State::Held, "inactive"),
        "broken" => (State::Held, "broken"),
        _ if gone > 0 && members.iter().any(|member| member.state == "rebuilding") => {
            (State::Degraded, "rebuilding")
        }
        _ if gone > 0 => (State::Degraded, "degraded"),
        _ => (State::Ok, "healthy"),
    };
    // Of RAID-10 it depends on which member fails next.
    let left = if level == "raid10" && gone > 0 { 0 } else { survives.saturating_sub(gone) };
    Some(Array {
        kind: Kind::Md,
        name: name.to_owned(),
        uuid: uuids.get(name).cloned(),
        level,
        bytes: number(block.join("size")).and_then(|sectors| sectors.checked_mul(SECTOR)),
        state,
        condition: condition.to_owned(),
        survives: Some(left as usize),
        members,
        rebuild,
        errors: Vec::new(),
        last_complete: None,
        last: None,
        damage: None,
        next: None,
        scrub: None,
    })
}

/// Members by role: those that have one, and the roles without any.
fn members(md: &Path, disks: u64) -> Vec<Member> {
    let mut roles: BTreeMap<u64, (String, String)> = BTreeMap::new();
    for entry in names(md, |name| name.starts_with("dev-")) {
        let Some(role) = number(md.join(&entry).join("slot")) else { continue };
        let state = word(md.join(&entry).join("state")).unwrap_or_default();
        let name = entry.trim_start_matches("dev-").replace('!', "/");
        roles.insert(role, (format!("/dev/{name}"), state));
    }
    let member = |role: u64| {
        let (device, state) = match roles.get(&role) {
            Some((device, state)) if state.split(',').any(|word| word == "in_sync") => {
                (Some(device.clone()), "in_sync")
            }
            Some((device, state)) if state.split(',').any(|word| word == "faulty") => {
                (Some(device.clone()), "lost")
            }
            Some((device, _)) => (Some(device.clone()), "rebuilding"),
            None => (None, "missing"),
        };
        Member { role: role as u16, device, state: state.to_owned(), rebuilt: None, absent: None }
    };
    (0..disks).map(member).collect()
}

/// Work of the kernel on the array, if there is any.
fn rebuild(md: &Path) -> Option<Rebuild> {
    let action = word(md.join("sync_action")).filter(|action| action != "idle")?;
    let completed = word(md.join("sync_completed")).unwrap_or_default();
    let part = completed.split_once('/').and_then(|(done, all)| {
        Some((done.trim().parse::<u64>().ok()?, all.trim().parse::<u64>().ok().filter(|all| *all > 0)?))
    });
    let kib = number(md.join("sync_speed")).filter(|speed| *speed > 0);
    let bytes_per_s = kib.map(|kib| kib.saturating_mul(1024));
    let left = part.zip(bytes_per_s);
    let left = left.map(|((done, all), rate)| all.saturating_sub(done).saturating_mul(SECTOR) / rate);
    let done_per_mille = part.map(|(done, all)| (u128::from(done) * 1000 / u128::from(all)).min(1000) as u64);
    Some(Rebuild { action, done_per_mille, bytes_per_s, seconds_left: left })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let path = root.join("sys/block").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn made(root: &Path, name: &str, level: &str, states: &[&str]) {
        for (file, text) in [
            ("size", "2000"),
            ("md/level", level),
            ("md/raid_disks", &states.len().to_string()),
            ("md/array_state", "clean"),
            ("md/sync_action", "idle"),
            ("md/degraded", &states.iter().filter(|state| !state.starts_with("in_sync")).count().to_string()),
        ] {
            put(root, &format!("{name}/{file}"), text);
        }
        for (role, state) in states.iter().enumerate().filter(|(_, state)| !state.is_empty()) {
            put(root, &format!("{name}/md/dev-sd{role}/slot"), &role.to_string());
            put(root, &format!("{name}/md/dev-sd{role}/state"), state);
        }
    }

    #[test]
    fn arrays_and_members_are_those_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        made(root.path(), "md0", "raid6", &["in_sync", "in_sync,write_mostly", "in_sync", "in_sync"]);
        made(root.path(), "md10", "raid5", &["in_sync", "spare", "in_sync"]);
        made(root.path(), "md2", "raid1", &["in_sync", ""]);
        made(root.path(), "md3", "raid0", &["in_sync"]);
        put(root.path(), "md10/md/sync_action", "recover");
        put(root.path(), "md10/md/sync_completed", "250 / 2000");
        put(root.path(), "md10/md/sync_speed", "1");
        let links = root.path().join("dev/disk/by-id");
        fs::create_dir_all(&links).unwrap();
        std::os::unix::fs::symlink("../../md0", links.join("md-uuid-01:02:03:04")).unwrap();
        let all = arrays(root.path());
        let short: Vec<(&str, State, &str, Option<usize>)> =
            all.iter().map(|a| (a.name.as_str(), a.state, a.condition.as_str(), a.survives)).collect();
        assert_eq!(
            short,
            [
                ("md0", State::Ok, "healthy", Some(2)),
                ("md2", State::Degraded, "degraded", Some(0)),
                ("md10", State::Degraded, "rebuilding", Some(0)),
            ]
        );
        assert_eq!((all[0].uuid.as_deref(), all[0].bytes), (Some("01:02:03:04"), Some(1_024_000)));
        assert_eq!((&*all[1].members[1].state, &all[1].members[1].device), ("missing", &None));
        let rebuild = all[2].rebuild.as_ref().unwrap();
        assert_eq!((rebuild.done_per_mille, rebuild.seconds_left), (Some(125), Some(875)));
    }

    #[test]
    fn an_array_that_does_not_run_is_held() {
        let root = tempfile::tempdir().unwrap();
        made(root.path(), "md0", "raid6", &["in_sync", "", "", ""]);
        put(root.path(), "md0/md/array_state", "inactive");
        assert_eq!(arrays(root.path())[0].state, State::Held);
        assert!(arrays(&root.path().join("nothing")).is_empty());
    }
}

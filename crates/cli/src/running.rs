//! The state of an array that the kernel has assembled.
//!
//! The superblocks of a running array look like those of an array that was not stopped cleanly:
//! `resync_offset` is 0 from the first write on. Only the kernel can tell the two apart.

use std::path::{Path, PathBuf};

/// An array that runs on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    /// The kernel's name of it.
    pub(crate) name: String,
    array_state: String,
    sync_action: String,
    resync_start: String,
}

impl Running {
    /// Returns whether its parity agrees with its data apart from writes that are under way: the
    /// array runs, and no resync, recovery or reshape is running or due. An unclean array that is
    /// assembled read-only until its first write (`read-auto`) shows no action although its resync
    /// is still due.
    pub(crate) fn is_settled(&self) -> bool {
        let runs = matches!(
            self.array_state.as_str(),
            "clean" | "active" | "active-idle" | "write-pending" | "readonly"
        );
        // A check reads only.
        runs && matches!(self.sync_action.as_str(), "idle" | "check") && self.resync_start == "none"
    }

    /// Words for the operator if md checks the array itself at the moment.
    pub(crate) fn check_words(&self) -> Option<String> {
        let name = &self.name;
        (self.sync_action == "check").then(|| {
            format!(
                "md's own check of {name} runs, so every drive is read twice at the same time: `pumice doctor` names what began it; echo idle > /sys/block/{name}/md/sync_action ends it"
            )
        })
    }

    /// The kernel's description of the state, and what the operator should do.
    pub(crate) fn words(&self) -> String {
        let Self { name, array_state, sync_action, resync_start } = self;
        match sync_action.as_str() {
            "idle" | "check" | "frozen" if resync_start != "none" => format!(
                "{name} is {array_state}, its sync_action {sync_action}, and a resync is due (resync_start is {resync_start}): it begins with the first write, or with mdadm --readwrite /dev/{name}; scrub the array after the resync"
            ),
            "idle" | "check" => format!("{name} is {array_state}"),
            "frozen" => format!(
                "the sync_action of {name} is frozen: a resync or recovery may be held back; scrub it when sync_action is idle"
            ),
            action => format!(
                "the kernel is working on {name} (sync_action is {action}); scrub it when that is over"
            ),
        }
    }
}

/// The array that holds every one of the devices, by sysfs (`class/block/DEVICE/holders`).
pub(crate) fn running(devices: &[PathBuf], sysfs: &Path) -> Option<Running> {
    let mut found: Option<String> = None;
    for device in devices {
        let real = device.canonicalize().ok()?;
        let holders = sysfs.join("class/block").join(real.file_name()?).join("holders");
        let mut names =
            std::fs::read_dir(holders).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let name = names.find(|name| sysfs.join("class/block").join(name).join("md").is_dir())?;
        if found.as_ref().is_some_and(|known| *known != name) {
            return None;
        }
        found = Some(name);
    }
    let name = found?;
    let md = sysfs.join("class/block").join(&name).join("md");
    let word = |file: &str| std::fs::read_to_string(md.join(file)).map(|text| text.trim().to_owned()).ok();
    Some(Running {
        array_state: word("array_state")?,
        sync_action: word("sync_action")?,
        resync_start: word("resync_start")?,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_kernel_is_asked_by_every_member() {
        let folder = tempfile::tempdir().unwrap();
        let sysfs = folder.path().join("sys");
        let devices: Vec<PathBuf> =
            ["sda", "sdb", "sdc"].iter().map(|name| folder.path().join(name)).collect();
        for device in &devices {
            fs::write(device, "").unwrap();
        }
        let holders = |device: &str, array: &str| {
            fs::create_dir_all(sysfs.join("class/block").join(device).join("holders").join(array)).unwrap();
        };
        holders("sda", "md0");
        holders("sdb", "md0");
        holders("sdc", "md1");
        for (array, action) in [("md0", "idle"), ("md1", "resync")] {
            let md = sysfs.join("class/block").join(array).join("md");
            fs::create_dir_all(&md).unwrap();
            fs::write(md.join("array_state"), "active\n").unwrap();
            fs::write(md.join("sync_action"), format!("{action}\n")).unwrap();
            fs::write(md.join("resync_start"), "none\n").unwrap();
        }
        let found = running(&devices[..2], &sysfs).unwrap();
        assert_eq!((found.name.as_str(), found.is_settled()), ("md0", true));
        assert_eq!(running(&devices, &sysfs), None, "members of two arrays");
        assert!(!running(&devices[2..], &sysfs).unwrap().is_settled(), "a resync is under way");
        assert_eq!(running(&[folder.path().join("nothing")], &sysfs), None);
    }

    #[test]
    fn a_resync_that_is_still_due_is_not_settled() {
        let array = |state: &str, action: &str, start: &str| Running {
            name: "md0".to_owned(),
            array_state: state.to_owned(),
            sync_action: action.to_owned(),
            resync_start: start.to_owned(),
        };
        for state in ["clean", "active", "active-idle", "write-pending", "readonly"] {
            assert!(array(state, "idle", "none").is_settled(), "{state}");
            assert!(array(state, "check", "none").is_settled(), "{state}");
            assert!(array(state, "check", "none").check_words().is_some_and(|words| words.contains("md0")));
            assert_eq!(array(state, "idle", "none").check_words(), None);
            assert!(!array(state, "idle", "0").is_settled(), "{state}: auto-read-only, resync=PENDING");
        }
        for (state, action) in [
            ("read-auto", "idle"),
            ("active", "frozen"),
            ("active", "recover"),
            ("active", "repair"),
            ("active", "reshape"),
            ("inactive", "idle"),
        ] {
            assert!(!array(state, action, "none").is_settled(), "{state} {action}");
        }
    }

    #[test]
    fn the_message_says_what_the_kernel_does() {
        let words = |action: &str, start: &str| {
            Running {
                name: "md0".to_owned(),
                array_state: "active".to_owned(),
                sync_action: action.to_owned(),
                resync_start: start.to_owned(),
            }
            .words()
        };
        for action in ["resync", "recover", "reshape"] {
            assert!(words(action, "0").contains(&format!("sync_action is {action}")));
        }
        assert!(
            words("idle", "0").contains("resync_start is 0") && words("idle", "0").contains("--readwrite")
        );
        assert!(words("frozen", "none").contains("frozen"));
    }
}

//! Volumes that this machine serves, and whether udev may give their members to md.

use super::mdadm::Ignored;
use super::root::Root;
use super::{Trouble, Urgency};

/// The rule by which udev has mdadm assemble arrays.
const RULE: &str = "64-md-raid-assembly.rules";
/// Folders of udev's rules; a file of the first ones hides those of the later.
const RULES: [&str; 4] = ["etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d"];
/// Folder of the sockets of volumes in service.
const SOCKETS: &str = "run/pumice/volumes";

pub(super) fn checks(root: &Root) -> Vec<Trouble> {
    let rule = RULES.iter().map(|folder| format!("{folder}/{RULE}")).find(|path| root.exists(path));
    let Some(rule) = rule.filter(|path| !root.is_masked(path)) else { return Vec::new() };
    let ignored = Ignored::read(root);
    let file = match root.exists("etc/mdadm") {
        true => "/etc/mdadm/mdadm.conf",
        false => "/etc/mdadm.conf",
    };
    let uuids = root.names(SOCKETS).into_iter().filter_map(|name| {
        let uuid = name.strip_suffix(".sock")?;
        let is_one = uuid.len() == 32 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_one.then(|| [&uuid[..8], &uuid[8..16], &uuid[16..24], &uuid[24..]].join(":"))
    });
    let trouble = |uuid: String| Trouble {
        check: "udev-assembles",
        urgency: Urgency::Wrong,
        words: format!("udev lets md take the members of this volume when nobody serves it (/{rule})"),
        mend: format!("echo 'ARRAY <ignore> UUID={uuid}' >> {file}, then bring the initramfs up to date"),
        subject: uuid,
    };
    uuids.filter(|uuid| !ignored.leaves(uuid)).map(trouble).collect()
}

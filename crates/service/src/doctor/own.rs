//! Pumice's own group, folders, configuration, and the programs that it uses.

use super::root::{Root, mode};
use super::{Trouble, Urgency};
use crate::notify::programs::programs;
use pumice_monitor::config::{Config, DriveConfig};
use pumice_node::serve::NodeConfig;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;

const CONFIG: &str = "/etc/pumice/pumice.toml";
const NODE: &str = "/etc/pumice/node.toml";
const STATE: &str = "/var/lib/pumice";
/// Folders and files, and the bits that they must not have.
const MODES: [(&str, u32); 6] = [
    (STATE, 0o027),
    ("/run/pumice", 0o022),
    ("/etc/pumice", 0o022),
    (CONFIG, 0o022),
    ("/etc/pumice/webhook.curl", 0o077),
    ("/etc/pumice/ntfy.curl", 0o077),
];

pub(super) fn checks(root: &Root) -> Vec<Trouble> {
    let mut out = group(root).into_iter().chain(modes(root)).collect::<Vec<_>>();
    match root.text(CONFIG) {
        Ok(text) => match Config::parse(&text.unwrap_or_default()) {
            Ok(config) => configured(root, &config, &mut out),
            Err(error) => out.push(wrong_file(CONFIG, &error.to_string())),
        },
        Err(error) => out.push(wrong_file(CONFIG, &error.to_string())),
    }
    if root.exists(NODE)
        && let Err(error) = NodeConfig::read(&root.at(NODE))
    {
        // The path is the subject already.
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        out.push(wrong_file(NODE, &format!("{error}{}", source.unwrap_or_default())));
    }
    out
}

fn wrong_file(path: &str, words: &str) -> Trouble {
    Trouble {
        check: "configuration",
        urgency: Urgency::Wrong,
        subject: path.to_owned(),
        words: words.to_owned(),
        mend: format!("edit {path}"),
    }
}

fn group(root: &Root) -> Option<Trouble> {
    let has = root.words("etc/group").lines().any(|line| line.starts_with("pumice:"));
    (!has).then(|| Trouble {
        check: "group",
        urgency: Urgency::Warning,
        subject: "pumice".to_owned(),
        words: "there is no such group: only root can look at arrays and volumes".to_owned(),
        mend: "groupadd --system pumice".to_owned(),
    })
}

fn modes(root: &Root) -> Vec<Trouble> {
    let own = fs::metadata("/proc/self").map_or(0, |own| own.uid());
    let mut out = Vec::new();
    for (path, forbidden) in MODES {
        let Some(meta) = root.meta(path) else { continue };
        let is_own = |meta: &Metadata| meta.uid() == 0 || meta.uid() == own;
        let (words, mend) = if !is_own(&meta) {
            (format!("it belongs to user {}", meta.uid()), format!("chown root {path}"))
        } else if mode(&meta) & forbidden != 0 {
            let right = mode(&meta) & !forbidden;
            (
                format!("its mode is {:04o}: others have rights", mode(&meta)),
                format!("chmod {right:04o} {path}"),
            )
        } else {
            continue;
        };
        out.push(Trouble { check: "modes", urgency: Urgency::Wrong, subject: path.to_owned(), words, mend });
    }
    out
}

fn configured(root: &Root, config: &Config, out: &mut Vec<Trouble>) {
    out.extend(config.drives.iter().filter_map(|drive| tags(root, drive)));
    let missing = |program: &str, urgency, words: String, mend: &str| Trouble {
        check: "programs",
        urgency,
        subject: program.to_owned(),
        words,
        mend: mend.to_owned(),
    };
    if let Some(to) = &config.alerts.mail
        && !root.has_program("sendmail")
    {
        let words = format!("it is missing: no mail can be sent to {to}");
        let mend = "install a package that has /usr/sbin/sendmail, or write mail = \"never\" in [alerts]";
        out.push(missing("sendmail", Urgency::Wrong, words, mend));
    }
    if !root.has_program("smartctl") {
        let words = "it is missing: reports name it for a look at a drive's own data".to_owned();
        out.push(missing("smartctl", Urgency::Note, words, "install smartmontools"));
    }
    let named = match programs(&root.at(&config.alerts.exec)) {
        Ok(programs) => programs,
        Err(why) => {
            out.push(Trouble {
                check: "modes",
                urgency: Urgency::Wrong,
                subject: config.alerts.exec.display().to_string(),
                words: why.to_string(),
                mend: format!("chmod go-w {}", config.alerts.exec.display()),
            });
            return;
        }
    };
    let uses_curl = |name: &str| name.contains("webhook") || name.contains("ntfy");
    if named.iter().any(|program| uses_curl(program.name())) && !root.has_program("curl") {
        let words = "it is missing: webhook and ntfy cannot send".to_owned();
        out.push(missing("curl", Urgency::Wrong, words, "install curl"));
    }
    if config.alerts.mail.is_none() && named.is_empty() {
        out.push(Trouble {
            check: "no-channel",
            urgency: Urgency::Wrong,
            subject: CONFIG.to_owned(),
            words: "there is neither mail nor a program for alerts: nobody hears of a fault".to_owned(),
            mend: "write mail = \"root\" in [alerts], then `pumice alerts test`".to_owned(),
        });
    }
}

fn tags(root: &Root, drive: &DriveConfig) -> Option<Trouble> {
    let (device, tags) = (drive.device.display(), drive.tags.display());
    let (words, mend) = if !root.exists(&drive.tags) {
        // The configuration has the bytes of a tuple, the command the bits of its guard.
        let bits = if drive.pi == 16 { 64 } else { 16 };
        let make = format!("pumice protect {device},pi={bits},tags={tags}");
        (format!("{CONFIG} names this tag file for {device}: it is missing"), make)
    } else if !root.exists(&drive.device) {
        (format!("{CONFIG} has tags for {device}: there is no such device"), format!("edit {CONFIG}"))
    } else {
        return None;
    };
    Some(Trouble { check: "tags", urgency: Urgency::Wrong, subject: tags.to_string(), words, mend })
}

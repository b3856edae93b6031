//! Programs of a folder as channels: `docs/reference/channels.md` has the rules.

use super::program::Call;
use super::words::{change, seconds, severity};
use super::{Channel, ChannelFailure, Message};
use pumice_base::units::printable;
use pumice_monitor::alerts::{Event, MAIL};
use serde::Serialize;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Programs of a folder at most.
const MOST: usize = 64;
/// Bytes of a name at most.
const NAME: usize = 64;
/// Time of a program.
const TIME: Duration = Duration::from_secs(30);
/// Version of the JSON object.
const FORMAT: u32 = 1;

/// A program of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    name: String,
    path: PathBuf,
}

/// The programs of a folder, in the order of their names. A folder that does not exist has none.
///
/// # Errors
/// If the folder cannot be read, has more than 64 programs, or others may write it.
pub fn programs(folder: &Path) -> Result<Vec<Program>, ChannelFailure> {
    let failure = |why: String| ChannelFailure(format!("{}: {why}", folder.display()));
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| failure(error.to_string()))?,
    };
    let meta = fs::metadata(folder).map_err(|error| failure(error.to_string()))?;
    if let Some(why) = untrusted(&meta) {
        return Err(failure(why.to_owned()));
    }
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failure(error.to_string()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        let runs = |meta: &Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        if !is_name(&name) || !fs::metadata(&path).is_ok_and(|meta| runs(&meta)) {
            continue;
        }
        if out.len() == MOST {
            return Err(failure(format!("more than {MOST} programs")));
        }
        out.push(Program { name, path });
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(out)
}

/// Returns whether a file of that name is a program: not what an editor or a package manager left.
fn is_name(name: &str) -> bool {
    let left = [".bak", ".orig", ".conf", ".md"].iter().any(|ending| name.ends_with(ending))
        || [".dpkg-", ".rpm"].iter().any(|part| name.contains(part));
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME).contains(&name.len()) && !name.starts_with(['.', '-']) && name.chars().all(letters) && !left
}

/// The reason why a file or folder is not trusted: somebody else may have written it.
fn untrusted(meta: &Metadata) -> Option<&'static str> {
    let own = fs::metadata("/proc/self").map_or(0, |own| own.uid());
    if meta.uid() != 0 && meta.uid() != own {
        return Some("it belongs to another user: not run");
    }
    (meta.permissions().mode() & 0o022 != 0).then_some("others may write it: not run")
}

impl Program {
    /// The name of its file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// An event as a program reads it.
#[derive(Debug, Serialize)]
struct Document<'a> {
    format: u32,
    id: String,
    at: u64,
    host: &'a str,
    change: &'static str,
    kind: &'static str,
    severity: &'static str,
    subject: &'a str,
    detail: &'a str,
    lost: u64,
}

impl<'a> Document<'a> {
    fn new(message: &'a Message, event: &'a Event) -> Self {
        let kind = event.key.kind();
        Self {
            format: FORMAT,
            id: event.id.to_string(),
            at: seconds(event),
            host: &message.host,
            change: change(event.change),
            kind: kind.name(),
            severity: severity(kind.severity()),
            subject: event.key.subject(),
            detail: &event.detail,
            lost: message.sending.lost,
        }
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("PUMICE_FORMAT", self.format.to_string()),
            ("PUMICE_ID", self.id.clone()),
            ("PUMICE_AT", self.at.to_string()),
            ("PUMICE_HOST", printable(self.host)),
            ("PUMICE_CHANGE", self.change.to_owned()),
            ("PUMICE_KIND", self.kind.to_owned()),
            ("PUMICE_SEVERITY", self.severity.to_owned()),
            ("PUMICE_SUBJECT", printable(self.subject)),
            ("PUMICE_DETAIL", printable(self.detail)),
            ("PUMICE_LOST", self.lost.to_string()),
        ]
    }
}

impl Channel for Program {
    fn name(&self) -> &str {
        &self.name
    }

    /// Sends each event of the message. If one is not taken, the message is not.
    fn send(&mut self, message: &Message, deadline: Instant) -> Result<(), ChannelFailure> {
        let failure = |why: String| ChannelFailure(format!("{}: {why}", self.path.display()));
        if self.name == MAIL {
            return Err(failure("a program cannot have the name of the channel for mail".to_owned()));
        }
        // It may have changed since the folder was read.
        let meta = fs::metadata(&self.path).map_err(|error| failure(error.to_string()))?;
        if let Some(why) = untrusted(&meta) {
            return Err(failure(why.to_owned()));
        }
        for event in &message.sending.events {
            let document = Document::new(message, event);
            let mut input = serde_json::to_vec(&document).map_err(|error| failure(error.to_string()))?;
            input.push(b'\n');
            Call {
                program: &self.path,
                args: &[],
                variables: &document.variables(),
                input: &input,
                reads_all: false,
                deadline: deadline.min(Instant::now() + TIME),
            }
            .run()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

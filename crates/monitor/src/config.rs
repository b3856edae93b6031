//! `pumice.toml`, parsed once. `docs/reference/monitor-configuration.md` has the fields.

mod fields;
#[cfg(test)]
mod tests;

use crate::time::{DAY, HOUR, MINUTE};
use crate::window::Window;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Seconds in a year of 365 days.
const YEAR: i64 = 365 * DAY;

/// The reason why a configuration is refused: the field, and its fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The damage that is repaired without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// Nothing is written.
    #[default]
    Never,
    /// Damage is repaired if checksums or copies prove the new bytes.
    Proven,
    /// Damage is repaired if the evidence is strong.
    Strong,
}

/// The times and the pace of an array's scrubs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Seconds between passes, 1 day to 5 years; `None` for never.
    pub every: Option<i64>,
    /// Seconds after which a cell is late; longer than `every`.
    pub late: i64,
    /// Windows of reading, 1 to 64.
    pub windows: Vec<Window>,
    /// Nanoseconds by which requests of others may be slowed down, 1 us to 1 s.
    pub slowdown: u64,
    /// Bytes a second from each drive, 1 MB to 100 GB.
    pub rate: u64,
    /// Seconds of reading in a night at most, 10 min to 24 h.
    pub nightly: i64,
    /// The damage that is repaired.
    pub repair: Repair,
}

/// An array with settings of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayConfig {
    /// Its name or UUID.
    pub name: String,
    /// Hosts of its nodes; empty for drives of this machine.
    pub nodes: Vec<String>,
    /// The machine that scrubs it if nobody serves it.
    pub owner: Option<String>,
    /// Times and pace.
    pub policy: Policy,
}

/// A drive with tags beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveConfig {
    /// Its path.
    pub device: PathBuf,
    /// Bytes of a tuple: 8 or 16.
    pub pi: u8,
    /// The tag file.
    pub tags: PathBuf,
}

/// The channels of alerts, and their repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertsConfig {
    /// The address of mails; `None` for no mail.
    pub mail: Option<String>,
    /// The folder of programs.
    pub exec: PathBuf,
    /// Seconds from an opening to its repeats, and between them; the last one is used again.
    pub repeat: Vec<i64>,
    /// Seconds between words that all is well; `None` for none.
    pub well: Option<i64>,
}

/// The file of metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricsConfig {
    /// A file for node_exporter, which ends in `.prom`; `None` for none.
    pub textfile: Option<PathBuf>,
}

/// The address of the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebConfig {
    /// Address and port.
    pub listen: SocketAddr,
    /// `Host` headers that are answered.
    pub names: Vec<String>,
}

/// Ages at which results are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryConfig {
    /// Seconds for which reports are kept.
    pub reports: i64,
    /// Seconds for which findings are kept.
    pub findings: i64,
}

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The policy of arrays that are not named.
    pub defaults: Policy,
    /// Runs at a time, 1 to 64.
    pub parallel: usize,
    /// Arrays that are named.
    pub arrays: Vec<ArrayConfig>,
    /// Drives with tags.
    pub drives: Vec<DriveConfig>,
    /// Alerts.
    pub alerts: AlertsConfig,
    /// Metrics.
    pub metrics: MetricsConfig,
    /// Pages.
    pub web: WebConfig,
    /// History.
    pub history: HistoryConfig,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    defaults: FileDefaults,
    array: Vec<FileArray>,
    drive: Vec<FileDrive>,
    alerts: FileAlerts,
    metrics: FileMetrics,
    web: FileWeb,
    history: FileHistory,
    /// Keys of nodes, which other programs read.
    #[serde(rename = "target")]
    _target: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileDefaults {
    every: Option<String>,
    late: Option<String>,
    window: Option<Vec<String>>,
    slowdown: Option<String>,
    rate: Option<String>,
    nightly: Option<String>,
    repair: Option<String>,
    parallel: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileArray {
    name: String,
    nodes: Option<Vec<String>>,
    owner: Option<String>,
    every: Option<String>,
    late: Option<String>,
    window: Option<Vec<String>>,
    slowdown: Option<String>,
    rate: Option<String>,
    nightly: Option<String>,
    repair: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDrive {
    device: String,
    pi: Option<u8>,
    tags: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileAlerts {
    mail: Option<String>,
    exec: Option<String>,
    repeat: Option<Vec<String>>,
    well: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileMetrics {
    textfile: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileWeb {
    listen: Option<String>,
    names: Option<Vec<String>>,
    open: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileHistory {
    reports: Option<String>,
    findings: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            every: Some(30 * DAY),
            late: 45 * DAY,
            windows: vec!["22:00-06:00".parse().expect("a window")],
            slowdown: 1_000_000,
            rate: 100_000_000,
            nightly: 8 * HOUR,
            repair: Repair::Never,
        }
    }
}

impl Policy {
    /// This policy with the fields that are given.
    fn with(&self, file: &FileDefaults) -> Result<Self, String> {
        let at = |field: &'static str| move |why: String| format!("{field}: {why}");
        let mut policy = self.clone();
        if let Some(text) = &file.every {
            policy.every = fields::duration_or_never(text, DAY, 5 * YEAR).map_err(at("every"))?;
            policy.late = policy.every.map_or(policy.late, |every| every + every / 2);
        }
        if let Some(text) = &file.late {
            policy.late = fields::duration(text, DAY, 10 * YEAR).map_err(at("late"))?;
        }
        if policy.every.is_some_and(|every| policy.late <= every) {
            return Err("late: it must be longer than every".to_owned());
        }
        if let Some(list) = &file.window {
            if list.is_empty() || list.len() > 64 {
                return Err(format!("window: {} entries: there must be 1 to 64", list.len()));
            }
            let windows = list.iter().map(|text| text.parse()).collect::<Result<_, _>>();
            policy.windows = windows.map_err(at("window"))?;
        }
        if let Some(text) = &file.slowdown {
            policy.slowdown = fields::nanoseconds(text, 1_000, 1_000_000_000).map_err(at("slowdown"))?;
        }
        if let Some(text) = &file.rate {
            policy.rate = fields::rate(text).map_err(at("rate"))?;
        }
        if let Some(text) = &file.nightly {
            policy.nightly = fields::duration(text, 10 * MINUTE, DAY).map_err(at("nightly"))?;
        }
        policy.repair = match file.repair.as_deref() {
            None => policy.repair,
            Some("never") => Repair::Never,
            Some("proven") => Repair::Proven,
            Some("strong") => Repair::Strong,
            Some(other) => return Err(format!("repair: '{other}' is not never, proven or strong")),
        };
        Ok(policy)
    }
}

impl FileArray {
    fn checked(&self, defaults: &Policy) -> Result<ArrayConfig, String> {
        let own = FileDefaults {
            every: self.every.clone(),
            late: self.late.clone(),
            window: self.window.clone(),
            slowdown: self.slowdown.clone(),
            rate: self.rate.clone(),
            nightly: self.nightly.clone(),
            repair: self.repair.clone(),
            parallel: None,
        };
        let nodes = self.nodes.as_deref().map(|list| fields::texts(list, 255)).transpose();
        let owner = self.owner.as_deref().map(|text| fields::text(text, 255)).transpose();
        Ok(ArrayConfig {
            name: fields::text(&self.name, 255).map_err(|why| format!("name: {why}"))?,
            nodes: nodes.map_err(|why| format!("nodes: {why}"))?.unwrap_or_default(),
            owner: owner.map_err(|why| format!("owner: {why}"))?,
            policy: defaults.with(&own)?,
        })
    }
}

impl FileDrive {
    fn checked(&self) -> Result<DriveConfig, String> {
        Ok(DriveConfig {
            device: fields::path(&self.device).map_err(|why| format!("device: {why}"))?,
            pi: match self.pi {
                None | Some(8) => 8,
                Some(16) => 16,
                Some(other) => return Err(format!("pi: {other} is not 8 or 16")),
            },
            tags: fields::path(&self.tags).map_err(|why| format!("tags: {why}"))?,
        })
    }
}

impl FileAlerts {
    fn checked(&self) -> Result<AlertsConfig, String> {
        let mail = match self.mail.as_deref() {
            None => Some("root".to_owned()),
            Some("never") => None,
            // A leading dash would be an option of the mail program.
            Some(text) if text.starts_with('-') || text.contains(char::is_whitespace) => {
                return Err(format!("mail: '{text}' is no address"));
            }
            Some(text) => Some(fields::text(text, 254).map_err(|why| format!("mail: {why}"))?),
        };
        let repeat = match &self.repeat {
            None => vec![DAY, 2 * DAY, 4 * DAY, 8 * DAY],
            Some(list) if list.len() > 16 => {
                return Err(format!("repeat: {} entries: there may be 16", list.len()));
            }
            Some(list) => {
                let times = list.iter().map(|text| fields::duration(text, HOUR, YEAR));
                times.collect::<Result<_, _>>().map_err(|why| format!("repeat: {why}"))?
            }
        };
        let exec = self.exec.as_deref().unwrap_or("/etc/pumice/alert.d");
        let well = self.well.as_deref().unwrap_or("never");
        Ok(AlertsConfig {
            mail,
            exec: fields::path(exec).map_err(|why| format!("exec: {why}"))?,
            repeat,
            well: fields::duration_or_never(well, DAY, YEAR).map_err(|why| format!("well: {why}"))?,
        })
    }
}

impl FileMetrics {
    fn checked(&self) -> Result<MetricsConfig, String> {
        let textfile = self.textfile.as_deref().map(fields::path).transpose();
        let textfile = textfile.map_err(|why| format!("textfile: {why}"))?;
        match &textfile {
            // node_exporter reads no other.
            Some(path) if path.extension().is_none_or(|ending| ending != "prom") => {
                Err(format!("textfile: '{}' does not end in .prom", path.display()))
            }
            _ => Ok(MetricsConfig { textfile }),
        }
    }
}

impl FileWeb {
    fn checked(&self) -> Result<WebConfig, String> {
        let listen = self.listen.as_deref().unwrap_or("127.0.0.1:9421");
        let listen: SocketAddr = listen
            .parse()
            .map_err(|_| format!("listen: '{listen}' is no address with a port, such as 127.0.0.1:9421"))?;
        if !listen.ip().is_loopback() && !self.open {
            return Err(format!("open: must be true for {listen}, which others can reach"));
        }
        let names = self.names.as_deref().map(|list| fields::texts(list, 255)).transpose();
        let names = names.map_err(|why| format!("names: {why}"))?;
        Ok(WebConfig { listen, names: names.unwrap_or_else(|| vec!["localhost".to_owned()]) })
    }
}

impl FileHistory {
    fn checked(&self) -> Result<HistoryConfig, String> {
        let field = |text: &Option<String>, usual| match text {
            None => Ok(usual),
            Some(text) => fields::duration(text, DAY, 100 * YEAR),
        };
        Ok(HistoryConfig {
            reports: field(&self.reports, 2 * YEAR).map_err(|why| format!("reports: {why}"))?,
            findings: field(&self.findings, YEAR).map_err(|why| format!("findings: {why}"))?,
        })
    }
}

impl Config {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// Names the field, or the line that is no TOML.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File =
            toml::from_str(text).map_err(|error| ConfigError(error.to_string().trim_end().to_owned()))?;
        Self::checked(&file).map_err(ConfigError)
    }

    fn checked(file: &File) -> Result<Self, String> {
        let parallel = file.defaults.parallel.unwrap_or(2);
        if !(1..=64).contains(&parallel) {
            return Err(format!("defaults: parallel: {parallel} is not 1 to 64"));
        }
        let defaults = Policy::default().with(&file.defaults).map_err(|why| format!("defaults: {why}"))?;
        if file.array.len() > 1024 {
            return Err(format!("array: {} of them: there may be 1024", file.array.len()));
        }
        if file.drive.len() > 4096 {
            return Err(format!("drive: {} of them: there may be 4096", file.drive.len()));
        }
        let arrays = (1..)
            .zip(&file.array)
            .map(|(i, array)| array.checked(&defaults).map_err(|why| format!("array {i}: {why}")));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let drives = (1..)
            .zip(&file.drive)
            .map(|(i, drive)| drive.checked().map_err(|why| format!("drive {i}: {why}")));
        let drives = drives.collect::<Result<Vec<_>, _>>()?;
        let names = arrays.iter().map(|array| array.name.clone());
        twice(names).map_err(|name| format!("array: name: '{name}' is given twice"))?;
        let devices = drives.iter().map(|drive| drive.device.display().to_string());
        twice(devices).map_err(|device| format!("drive: device: '{device}' is given twice"))?;
        Ok(Self {
            defaults,
            parallel,
            arrays,
            drives,
            alerts: file.alerts.checked().map_err(|why| format!("alerts: {why}"))?,
            metrics: file.metrics.checked().map_err(|why| format!("metrics: {why}"))?,
            web: file.web.checked().map_err(|why| format!("web: {why}"))?,
            history: file.history.checked().map_err(|why| format!("history: {why}"))?,
        })
    }

    /// The policy of an array: by its UUID, else by its name, else the defaults.
    #[must_use]
    pub fn policy(&self, uuid: &str, name: &str) -> &Policy {
        let named = |wanted: &str| self.arrays.iter().find(|array| array.name == wanted);
        named(uuid).or_else(|| named(name)).map_or(&self.defaults, |array| &array.policy)
    }
}

/// The first text that is there twice, as an error.
fn twice(texts: impl Iterator<Item = String>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for text in texts {
        if !seen.insert(text.clone()) {
            return Err(text);
        }
    }
    Ok(())
}

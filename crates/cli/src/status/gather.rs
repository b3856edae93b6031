//! Asks everything at once, until a moment, and puts the answers together.

use super::document::{
    Alert, Array, ChannelFailed, Document, History, Kind, Member, Monitor, Node, Scrub, Silent, State,
};
use super::past::{Past, PastArray};
use super::{drive, md, past};
use crate::daytime::local;
use pumice_monitor::history::Error;
use pumice_service::failure::Failure;
use pumice_service::look::{Looked, at, in_folder};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

/// Time for all answers. With what comes before and after, a status takes 1.2 s at most.
const PATIENCE: Duration = Duration::from_millis(900);
/// Drives that are asked for their health, at most.
const DRIVES: usize = 16;

/// Places that answers come from.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// Folders with the sockets of all processes.
    pub(super) run: Vec<PathBuf>,
    /// A folder with sockets of volumes alone, if one was named.
    pub(super) volumes: Option<PathBuf>,
    pub(super) history: PathBuf,
    /// `/`, but in tests.
    pub(super) root: PathBuf,
}

/// Kinds of sockets, by folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Volumes,
    Scrubs,
    Nodes,
    Monitor,
}

/// Asks everything.
pub(super) fn all(places: &Places) -> Document {
    let until = Instant::now() + PATIENCE;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let history = begin({
        let path = places.history.clone();
        move || past::read(&path)
    });
    let kernel = begin({
        let root = places.root.clone();
        move || md::arrays(&root)
    });
    let mut silent = Vec::new();
    let (kinds, looked) = look(places, until, &mut silent);
    let mut sorted = Sorted::default();
    for Looked { socket, answer } in looked {
        let of = kinds.get(&socket).copied().unwrap_or(Of::Volumes);
        let taken = answer.and_then(|fields| sorted.take(of, &socket, fields));
        if let Err(failure) = taken {
            let what = socket.display().to_string();
            let why = failure.to_string();
            let why = why.strip_prefix(&format!("{what}: ")).unwrap_or(&why).to_owned();
            silent.push(Silent { what, why });
        }
    }
    let md = wait(&kernel, until).unwrap_or_else(|| {
        let why = "the kernel did not say in time which arrays run".to_owned();
        silent.push(Silent { what: places.root.join("sys/block").display().to_string(), why });
        Vec::new()
    });
    let path = places.history.display().to_string();
    let (past, history) = match wait(&history, until) {
        Some(Ok(past)) => (past, History { path, why: None, missing: false }),
        Some(Err(error)) => {
            let missing = matches!(error, Error::Missing { .. });
            (Past::default(), History { path, why: Some(error.to_string()), missing })
        }
        None => {
            let why = Some(format!("{path}: it could not be read in time"));
            (Past::default(), History { path, why, missing: false })
        }
    };
    let mut arrays = md;
    arrays.extend(sorted.volumes.iter().map(of_volume));
    arrays.iter_mut().for_each(|array| sorted.complete(array));
    let drives = arrays.iter().flat_map(|array| &array.members).filter(|m| m.device.is_some()).count();
    join(&mut arrays, past.arrays, &sorted);
    ask_drives(&mut arrays, &places.root, until);
    let failed = sorted.failed.into_iter().map(|(channel, why)| ChannelFailed { channel, why });
    let monitor = Monitor { running: sorted.monitor, expected: !history.missing, failed: failed.collect() };
    let mut document = Document {
        format: 1,
        version: env!("CARGO_PKG_VERSION"),
        host: host(&places.root),
        at: now,
        state: State::Ok,
        drives,
        arrays,
        nodes: sorted.nodes,
        alerts: past.alerts,
        monitor,
        history,
        silent,
    };
    document.state = judged(&mut document);
    document
}

fn host(root: &Path) -> String {
    let name = std::fs::read_to_string(root.join("proc/sys/kernel/hostname")).unwrap_or_default();
    name.trim().chars().take(255).collect()
}

/// Does something on a thread of its own, which nobody has to wait for.
fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (tell, answer) = mpsc::channel();
    let run = move || {
        // Nobody waits for an answer that comes too late.
        let _ = tell.send(work());
    };
    // Without a thread the sender is gone, and there is no answer.
    drop(std::thread::Builder::new().name("ask".to_owned()).spawn(run));
    answer
}

fn wait<T>(answer: &mpsc::Receiver<T>, until: Instant) -> Option<T> {
    answer.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
}

/// Asks all sockets.
fn look(places: &Places, until: Instant, silent: &mut Vec<Silent>) -> (BTreeMap<PathBuf, Of>, Vec<Looked>) {
    let mut folders: Vec<(PathBuf, Of)> = Vec::new();
    for run in &places.run {
        let of = [("volumes", Of::Volumes), ("scrubs", Of::Scrubs), ("nodes", Of::Nodes)];
        folders.extend(of.map(|(name, of)| (run.join(name), of)));
    }
    folders.extend(places.volumes.iter().map(|folder| (folder.clone(), Of::Volumes)));
    let mut kinds = BTreeMap::new();
    for (folder, of) in folders {
        match in_folder(&folder) {
            Ok(sockets) => kinds.extend(sockets.into_iter().map(|socket| (socket, of))),
            Err(failure) => {
                let what = folder.display().to_string();
                silent.push(Silent { what, why: failure.to_string() });
            }
        }
    }
    for run in places.run.iter().chain(&places.volumes) {
        let socket = run.join("monitor.sock");
        if socket.exists() {
            kinds.insert(socket, Of::Monitor);
        }
    }
    let looked = at(kinds.keys().cloned().collect(), until);
    (kinds, looked)
}

/// Answers, by what they are of.
#[derive(Debug, Default)]
struct Sorted {
    volumes: Vec<VolumeSaid>,
    scrubs: Vec<(String, Scrub)>,
    nodes: Vec<Node>,
    monitor: bool,
    /// Times of the next passes, by UUID.
    next: BTreeMap<String, u64>,
    /// Channels of alerts that fail, and why.
    failed: Vec<(String, String)>,
}

/// The fields of a volume's document that are used: those of its server's version.
#[derive(Debug, Deserialize)]
struct VolumeSaid {
    uuid: String,
    name: String,
    level: u64,
    bytes: u64,
    state: String,
    survives: Survives,
    members: Vec<Member>,
    errors: Vec<String>,
    /// The same errors with their times, if the server tells them.
    #[serde(default)]
    member_errors: Vec<MemberError>,
}

#[derive(Debug, Deserialize)]
struct Survives {
    drives: usize,
}

#[derive(Debug, Deserialize)]
struct MemberError {
    at: u64,
    text: String,
}

/// The status of a scrub's socket, of which fields may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ScrubSaid {
    /// UUID of the array.
    array: String,
    state: Option<String>,
    stripes: u64,
    of_stripes: u64,
    findings: u64,
    begun_us: Option<u64>,
    note: Option<String>,
    rate: Option<u64>,
    slowdown_ns: Option<u64>,
    by: Option<String>,
}

/// The status of the monitor's socket, of which fields may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MonitorSaid {
    arrays: Vec<Due>,
    channels: Vec<Channel>,
}

#[derive(Debug, Deserialize)]
struct Due {
    uuid: String,
    #[serde(default)]
    due: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Channel {
    name: String,
    #[serde(default)]
    failed: Option<String>,
}

/// The status of a node's socket, of which every field may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSaid {
    name: Option<String>,
    drives: Option<Value>,
}

fn field<T: serde::de::DeserializeOwned>(
    socket: &Path,
    mut fields: Map<String, Value>,
    name: &str,
) -> Result<T, Failure> {
    let wrong = |what: String| Failure::new(format!("{}: {what}", socket.display()));
    let value = fields.remove(name).ok_or_else(|| wrong(format!("the answer has no '{name}'")))?;
    serde_json::from_value(value).map_err(|error| wrong(format!("the answer is invalid: {name}: {error}")))
}

impl Sorted {
    fn take(&mut self, of: Of, socket: &Path, fields: Map<String, Value>) -> Result<(), Failure> {
        match of {
            Of::Volumes => self.volumes.push(field(socket, fields, "volume")?),
            Of::Scrubs => {
                let said: ScrubSaid = field(socket, fields, "scrub")?;
                let scrub = Scrub {
                    state: said.state.unwrap_or_else(|| "running".to_owned()),
                    stripes: said.stripes,
                    of_stripes: said.of_stripes,
                    findings: said.findings,
                    begun: said.begun_us.map(|micros| micros / 1_000_000),
                    by: said.by,
                    rate: said.rate,
                    slowdown_ns: said.slowdown_ns,
                    note: said.note,
                };
                self.scrubs.push((said.array, scrub));
            }
            Of::Nodes => {
                let said: NodeSaid = field(socket, fields, "node")?;
                let drives = said.drives.and_then(|drives| match drives {
                    Value::Array(all) => Some(all.len()),
                    number => number.as_u64().map(|number| number as usize),
                });
                let socket = socket.display().to_string();
                self.nodes.push(Node { socket, name: said.name, drives });
            }
            Of::Monitor => {
                let said: MonitorSaid = field(socket, fields, "monitor")?;
                self.monitor = true;
                self.next = said.arrays.into_iter().filter_map(|due| Some((due.uuid, due.due?))).collect();
                let failed = |channel: Channel| Some((channel.name, channel.failed?));
                self.failed = said.channels.into_iter().filter_map(failed).collect();
            }
        }
        Ok(())
    }

    /// Adds what scrubs and the monitor say of an array.
    fn complete(&self, array: &mut Array) {
        let Some(uuid) = &array.uuid else { return };
        array.next = self.next.get(uuid).copied();
        array.scrub = self.scrubs.iter().find(|(of, _)| of == uuid).map(|(_, scrub)| scrub.clone());
    }
}

fn of_volume(volume: &VolumeSaid) -> Array {
    let timed = volume.member_errors.iter().map(|error| format!("{} {}", local(error.at), error.text));
    let timed: Vec<String> = timed.collect();
    let has = |state: &str| volume.members.iter().any(|member| member.state == state);
    let (state, condition) = match volume.state.as_str() {
        "held" => (State::Held, "held"),
        _ if has("missing") || has("lost") => (State::Degraded, "degraded"),
        _ if has("rebuilding") => (State::Degraded, "rebuilding"),
        _ => (State::Ok, "healthy"),
    };
    Array {
        kind: Kind::Volume,
        name: if volume.name.is_empty() { volume.uuid.clone() } else { volume.name.clone() },
        uuid: Some(volume.uuid.clone()),
        level: format!("raid{}", volume.level),
        bytes: Some(volume.bytes),
        state,
        condition: condition.to_owned(),
        survives: Some(volume.survives.drives),
        members: volume.members.clone(),
        rebuild: None,
        errors: if timed.is_empty() { volume.errors.clone() } else { timed },
        last_complete: None,
        last: None,
        damage: None,
        next: None,
        scrub: None,
    }
}

/// Adds what the history says; arrays that are only known from it come last.
fn join(arrays: &mut Vec<Array>, past: Vec<PastArray>, sorted: &Sorted) {
    for known in past {
        let PastArray { uuid, name, level, last_complete, last, damage } = known;
        let at = arrays.iter().position(|array| array.uuid.as_deref() == Some(&uuid));
        let array = match at {
            Some(at) => &mut arrays[at],
            None => {
                let name = if name.is_empty() { uuid.clone() } else { name };
                let mut array = Array {
                    kind: Kind::Known,
                    name,
                    uuid: Some(uuid),
                    level: format!("raid{level}"),
                    bytes: None,
                    state: State::Ok,
                    condition: "not running".to_owned(),
                    survives: None,
                    members: Vec::new(),
                    rebuild: None,
                    errors: Vec::new(),
                    last_complete: None,
                    last: None,
                    damage: None,
                    next: None,
                    scrub: None,
                };
                sorted.complete(&mut array);
                arrays.push(array);
                let last = arrays.len() - 1;
                &mut arrays[last]
            }
        };
        (array.last_complete, array.last, array.damage) = (last_complete, last, damage);
        if array.damage.is_some() && array.state < State::Damage {
            array.state = State::Damage;
            if array.kind != Kind::Known {
                array.condition = "damaged".to_owned();
            }
        }
    }
}

/// Asks the drives on which damage lies for serial number and health.
fn ask_drives(arrays: &mut [Array], root: &Path, until: Instant) {
    let kinds = || arrays.iter().filter_map(|array| array.damage.as_ref()).flat_map(|damage| &damage.kinds);
    let devices: BTreeSet<String> = kinds().filter_map(|kind| kind.device.clone()).take(DRIVES).collect();
    if devices.is_empty() {
        return;
    }
    let devices: Vec<String> = devices.into_iter().collect();
    let said: BTreeMap<&String, drive::Said> =
        devices.iter().zip(drive::ask(&devices, root, until)).collect();
    for kind in arrays.iter_mut().filter_map(|array| array.damage.as_mut()).flat_map(|d| &mut d.kinds) {
        if let Some(said) = kind.device.as_ref().and_then(|device| said.get(device)) {
            (kind.serial, kind.health) = (said.serial.clone(), said.health.clone());
        }
    }
}

/// Returns whether an alert says what is seen here anyway, or no longer: losses of an array that
/// answers, and damage that is counted above.
fn is_seen(alert: &Alert, arrays: &[Array]) -> bool {
    let of = arrays.iter().find(|array| array.uuid.is_some() && array.uuid == alert.array);
    of.is_some_and(|array| match alert.kind.as_str() {
        "degraded" | "held" => array.kind != Kind::Known,
        "damage" => array.damage.is_some(),
        _ => false,
    })
}

/// The state of the machine: the most urgent one of anything.
fn judged(document: &mut Document) -> State {
    let unseen: Vec<Alert> =
        document.alerts.iter().filter(|alert| !is_seen(alert, &document.arrays)).cloned().collect();
    for alert in &unseen {
        let array =
            document.arrays.iter_mut().find(|array| array.uuid.is_some() && array.uuid == alert.array);
        if let Some(array) = array {
            let state = if alert.kind == "damage" { State::Damage } else { State::Warning };
            array.state = array.state.max(state);
        }
    }
    let arrays = document.arrays.iter().map(|array| array.state);
    let mut states: Vec<State> = arrays.collect();
    if !unseen.is_empty() {
        states.push(State::Warning);
    }
    let no_monitor = document.monitor.expected && !document.monitor.running;
    if no_monitor || !document.monitor.failed.is_empty() {
        states.push(State::Warning);
    }
    if !document.silent.is_empty() || (document.history.why.is_some() && !document.history.missing) {
        states.push(State::Unknown);
    }
    states.into_iter().max().unwrap_or(State::Ok)
}

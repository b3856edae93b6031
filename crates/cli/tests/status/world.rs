//! A machine: a tree like `/sys`, sockets that are answered by threads, a database.

use pumice_monitor::history::{Drive, DriveState, Event, History, PassFile, Sample, Time};
use pumice_service::api::{Answer, Request, Volume, encode};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

pub(crate) const MD0: &str = "00000000:00000000:00000000:000000a0";
pub(crate) const MD1: &str = "00000000:00000000:00000000:000000a1";
pub(crate) const VAULT: &str = "00000000:00000000:00000000:000000f0";

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
}

/// Output of a command.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) text: String,
    pub(crate) errors: String,
    pub(crate) took: Duration,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["sys/block", "dev/disk/by-id", "run/volumes", "run/scrubs", "proc/sys/kernel"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("proc/sys/kernel/hostname"), "machine-a\n").unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.path("sys/block").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// An array of the kernel; `false`: the role has no member.
    pub(crate) fn md(&self, name: &str, uuid: &str, level: &str, bytes: u64, members: &[bool]) {
        let gone = members.iter().filter(|there| !**there).count();
        for (file, text) in [
            ("size", (bytes / 512).to_string()),
            ("md/level", level.to_owned()),
            ("md/raid_disks", members.len().to_string()),
            ("md/array_state", "clean".to_owned()),
            ("md/sync_action", "idle".to_owned()),
            ("md/degraded", gone.to_string()),
        ] {
            self.put(&format!("{name}/{file}"), &text);
        }
        for (role, _) in members.iter().enumerate().filter(|(_, there)| **there) {
            self.put(&format!("{name}/md/dev-sd{name}{role}/slot"), &role.to_string());
            self.put(&format!("{name}/md/dev-sd{name}{role}/state"), "in_sync");
        }
        let link = self.path("dev/disk/by-id").join(format!("md-uuid-{uuid}"));
        std::os::unix::fs::symlink(format!("../../{name}"), link).unwrap();
    }

    pub(crate) fn kernel_says(&self, array: &str, file: &str, text: &str) {
        self.put(&format!("{array}/md/{file}"), text);
    }

    /// A socket whose requests are answered by a thread as a served volume answers them.
    pub(crate) fn volume(&self, name: &str, volume: &Value) {
        let volume: Volume = serde_json::from_value(volume.clone()).unwrap();
        let listener = UnixListener::bind(self.path("run/volumes").join(format!("{name}.sock"))).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut line = Vec::new();
                BufReader::new(&stream).read_until(b'\n', &mut line).unwrap();
                let (version, request) = Request::decode(&line).unwrap();
                assert_eq!(request, Request::Status);
                (&stream).write_all(&encode(version, &Answer::Volume(Box::new(volume.clone())))).unwrap();
            }
        });
    }

    /// A socket that gives one answer to all requests.
    pub(crate) fn answers(&self, socket: &str, answer: &Value) {
        let listener = UnixListener::bind(self.path("run").join(socket)).unwrap();
        let line = format!("{answer}\n");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut request = Vec::new();
                BufReader::new(&stream).read_until(b'\n', &mut request).unwrap();
                (&stream).write_all(line.as_bytes()).unwrap();
            }
        });
    }

    /// The history, with these passes.
    pub(crate) fn history(&self, passes: &[Pass]) -> History {
        let (mut history, _) = History::open(&self.path("history.db")).unwrap();
        for (number, pass) in passes.iter().enumerate() {
            history.take_up(&pass.file(number), &[]).unwrap();
        }
        history
    }

    pub(crate) fn pumice(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
        command.args(args).env("TZ", "UTC").env_remove("XDG_RUNTIME_DIR");
        command.arg("--history").arg(self.path("history.db"));
        if args[0] == "status" {
            command.arg("--run-dir").arg(self.path("run")).arg("--root").arg(self.folder.path());
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(&mut self.pumice(args))
    }
}

pub(crate) fn said(command: &mut Command) -> Said {
    let begun = Instant::now();
    let output = command.output().unwrap();
    let took = begun.elapsed();
    let text = String::from_utf8(output.stdout).unwrap();
    // Documents are for programs.
    let is_page = !text.starts_with('{');
    assert!(!is_page || text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    let errors = String::from_utf8(output.stderr).unwrap();
    Said { code: output.status.code().unwrap(), text, errors, took }
}

/// A pass of the history.
#[derive(Clone)]
pub(crate) struct Pass {
    pub(crate) uuid: &'static str,
    pub(crate) name: &'static str,
    /// Seconds since 1970.
    pub(crate) ended: u64,
    pub(crate) hours: u64,
    pub(crate) result: &'static str,
    pub(crate) range: (u64, u64),
    pub(crate) findings: Vec<Value>,
}

pub(crate) const STRIPES: u64 = 15_000_000;

impl Pass {
    pub(crate) fn clean(uuid: &'static str, name: &'static str, ended: u64, hours: u64) -> Self {
        Self { uuid, name, ended, hours, result: "clean", range: (0, STRIPES), findings: Vec::new() }
    }

    fn file(&self, number: usize) -> PassFile {
        let report = json!({
            "array": { "uuid": self.uuid, "name": self.name, "level": 6, "raid_disks": 8,
                "stripes": STRIPES, "chunk_bytes": 524_288 },
            "method": "fingerprint", "result": self.result, "stopped": null,
            "range": { "start": self.range.0, "end": self.range.1 }, "degraded": false,
            "stripes_checked": self.range.1 - self.range.0, "stripes_skipped": 0,
            "stripes_rechecked": 0, "bytes_checked": 1_000_000, "seconds": self.hours * 3600,
            "findings": self.findings,
        });
        let file = json!({
            "format": 1, "pass": format!("{:032x}", 0xabcd_0000_u64 + number as u64 + (self.ended << 32)),
            "by": "pumice-monitor", "begun_us": (self.ended - self.hours * 3600) * 1_000_000,
            "ended_us": self.ended * 1_000_000, "checked": [], "report": report,
        });
        PassFile::parse("test", &serde_json::to_vec(&file).unwrap()).unwrap()
    }
}

/// A finding, as the document of a scrub has it.
pub(crate) fn finding(stripe: u64, member: Option<(u16, &str)>, verdict: &str, strength: &str) -> Value {
    json!({
        "stripe": stripe, "verdict": verdict, "member": member.map(|member| member.0),
        "members": [], "device": member.map(|member| member.1), "device_offset": 4096,
        "chunk_offset": 512, "length": 300, "array_offset": 9000, "array_places": [9000],
        "certainty": "likely", "witness": null, "wrong_blocks": [], "misdirected": null,
        "alternatives": [{ "verdict": "several", "members": [1, 2], "reason": "two members at once" }],
        "strength": strength, "doubts": [], "assumes_one_hit": false, "error": null, "lost": [],
        "repaired": false, "would_repair": false, "left_alone": null, "unsettled": null, "clause": null,
    })
}

/// The document of a volume: states of its members by role.
pub(crate) fn vault(members: &[(&str, Option<&str>, Option<u64>)], survives: usize) -> Value {
    let members: Vec<Value> = members
        .iter()
        .enumerate()
        .map(|(role, (state, device, rebuilt))| {
            json!({ "role": role, "device": device, "state": state, "rebuilt": rebuilt })
        })
        .collect();
    json!({
        "uuid": VAULT, "name": "vault", "level": 6, "layout": "left-symmetric", "chunk_bytes": 65536,
        "metadata": "1.2", "bytes": 64_000_000_000_000_u64, "block_bytes": 4096, "consistency": "log",
        "state": "dirty", "survives": { "drives": survives, "nodes": 0 }, "members": members,
        "moved": { "user_read": 0, "user_written": 0, "member_read": 0, "member_written": 0,
            "link_sent": 0, "link_received": 0, "rewritten_blocks": 0 },
        "parity": { "by_nodes": false, "why": null, "near_writes": 0, "far_writes": 0, "ways": null },
        "recovered": { "log_discarded": false, "writes_dropped": 0, "blocks_applied": 0,
            "windows_resynced": 0, "members_failed": [] },
        "errors": [], "served": null,
    })
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// 2026-11-21 04:12:00 UTC.
pub(crate) const LONG_AGO: u64 = 1_795_234_320;

pub(crate) fn time(seconds: u64) -> Time {
    Time::try_from(seconds * 1_000_000).unwrap()
}

pub(crate) fn alert(array: &str, kind: &str, text: &str, at: u64) -> Event {
    Event {
        event: format!("{at:032x}").as_str().try_into().unwrap(),
        at: time(at),
        array: Some(array.try_into().unwrap()),
        pass: None,
        kind: kind.try_into().unwrap(),
        severity: pumice_monitor::history::Severity::Warning,
        change: pumice_monitor::history::Change::Opened,
        subject: "".try_into().unwrap(),
        text: text.try_into().unwrap(),
    }
}

pub(crate) fn sampled(history: &mut History, name: &str, state: DriveState, at: u64) {
    let text = |text: &str| text.try_into().unwrap();
    let drive = Drive {
        drive: text(name),
        device: text(&format!("/dev/{name}")),
        model: text("A Model of Drives 16000"),
        serial: text("ZR50A1B2"),
    };
    let sample = Sample {
        at: time(at),
        state,
        celsius: Some(34),
        media_errors: Some(7_u64.try_into().unwrap()),
        worn_percent: None,
        power_on_hours: Some(12_345_u64.try_into().unwrap()),
    };
    history.add_health(&drive, &sample).unwrap();
}

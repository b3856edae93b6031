//! Passes from numbers.
#![allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "each test uses a part")]

use pumice_monitor::history::{
    ArrayUuid, Change, Event, Id, Kind, Limit, PassFile, Reader, Retention, Severity, Text, Time,
};
use pumice_monitor::history::{Error, History};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stripes of the arrays.
pub const STRIPES: u64 = 5000;

pub fn time(micros: u64) -> Time {
    Time::try_from(micros).expect("a time")
}

pub fn text(text: &str) -> Text {
    Text::try_from(text).expect("a text")
}

pub fn uuid(array: u64) -> ArrayUuid {
    ArrayUuid::try_from(format!("{array:08x}:00000000:00000000:00000001")).expect("a UUID")
}

pub fn id(number: u64) -> Id {
    Id::try_from(format!("{number:032x}")).expect("an identity")
}

pub fn kind(text: &str) -> Kind {
    Kind::try_from(text).expect("a kind")
}

/// The document of pass `number`: it has `number % 7` findings, and ends at `1000 * number + 500`.
pub fn pass(number: u64) -> Value {
    let finding = |at: u64| {
        json!({"stripe": number * 3 + at, "verdict": if at == 3 { "busy" } else { "member" },
            "certainty": "likely", "strength": "strong", "member": 2, "device": "/dev/sdc",
            "device_offset": 4096 * at, "array_offset": null, "chunk_offset": 512, "length": 512 + number,
            "repaired": at == 1, "members": [], "alternatives": [{"reason": "text"}]})
    };
    let findings: Vec<Value> = (0..number % 7).map(finding).collect();
    json!({
        "format": 1, "pass": id(number).as_str(), "by": "a test", "begun_us": 1000 * number,
        "ended_us": 1000 * number + 500, "later": "a field of a newer version",
        "checked": [{"start": 0, "end": STRIPES, "at_us": 1000 * number + 400}],
        "report": {
            "array": {"uuid": uuid(number % 2).as_str(), "name": "md0", "level": 6, "layout": "left-symmetric",
                "metadata": "1.2", "chunk_bytes": 524_288, "raid_disks": 8, "stripes": STRIPES},
            "method": "host", "result": if findings.is_empty() { "clean" } else { "findings" },
            "incomplete": [], "stopped": null, "range": {"start": 0, "end": STRIPES}, "degraded": false,
            "stripes_checked": STRIPES, "stripes_skipped": 0, "stripes_rechecked": number,
            "bytes_checked": 1_000_000 + number, "findings": findings, "seconds": 1.5,
        },
    })
}

pub fn parsed(number: u64) -> PassFile {
    PassFile::parse("a test", pass(number).to_string().as_bytes()).expect("a pass file")
}

/// The event of pass `number`.
pub fn event(number: u64) -> Event {
    Event {
        event: id(number),
        at: time(1000 * number + 500),
        array: Some(uuid(number % 2)),
        pass: Some(id(number)),
        kind: kind("damage"),
        severity: Severity::Critical,
        change: if number % 4 < 2 { Change::Opened } else { Change::Closed },
        subject: text(""),
        text: text(&format!("pass {number}")),
    }
}

/// Compares all that there is of pass `number` with what was written; `None` if there is no pass.
pub fn compare(history: &Reader, number: u64) -> Option<()> {
    let row = history.pass(&id(number)).expect("readable")?;
    let file = parsed(number);
    assert_eq!((row.begun, row.ended, &row.by), (file.begun, file.ended, &file.by));
    assert_eq!(row.bytes_checked, file.report.bytes_checked);
    assert_eq!(row.findings.get() + row.busy.get(), number % 7);
    assert_eq!(row.repaired.get(), u64::from(number % 7 > 1));
    let findings = history.findings(&row, 0, Limit::MAX).expect("readable");
    let findings: Vec<_> = findings.into_iter().map(|row| row.finding).collect();
    assert_eq!(findings, file.report.findings);
    let report = history.report(&row).expect("readable").expect("kept");
    assert_eq!(report, file.document.get().as_bytes());
    let array = history.array_of(&row).expect("readable").expect("known");
    assert_eq!(array.uuid, file.report.array.uuid);
    let cells = history.cells(&array).expect("readable");
    assert!(cells.iter().all(|cell| cell.is_some_and(|cell| cell >= time(1000 * number + 400))));
    let events = history.events(0, Limit::MAX).expect("readable");
    // Above a page of events only the first page is compared.
    if events.len() < 1000 {
        let ours: Vec<_> = events.into_iter().filter(|row| row.event.event == id(number)).collect();
        assert_eq!(ours.len(), 1);
        assert_eq!(ours[0].event, event(number));
    }
    Some(())
}

/// The folder of a child that writes passes; see [`write_passes`].
pub const CHILD: &str = "PUMICE_HISTORY_CHILD";

/// Prepares a command that runs this test program again, as the child of test `name`.
pub fn child(program: &mut Command, name: &str, folder: &Path, from: u64) {
    let value = format!("{from}:{}", folder.display());
    program.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, value);
}

pub fn long() -> bool {
    std::env::var_os("PUMICE_LONG").is_some_and(|value| value == "1")
}

pub fn file_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.json"))
}

/// Takes up the pass files of a folder.
pub fn take_files(history: &mut History, folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        if let (Some("json"), Ok(number)) = (path.extension().and_then(|end| end.to_str()), name.parse()) {
            history.take_file(&path, |_| vec![event(number)])?;
        }
    }
    Ok(())
}

/// A run of long ago, which retention empties. Its identity is no pass's number.
fn old(number: u64) -> (PassFile, Event) {
    let run = id((1 << 32) + number);
    let mut value = pass(6);
    value["pass"] = run.as_str().into();
    (value["begun_us"], value["ended_us"], value["checked"]) = (0.into(), 1.into(), json!([]));
    let file = PassFile::parse("a test", value.to_string().as_bytes()).expect("a pass file");
    (file, Event { event: run.clone(), at: time(1), pass: Some(run), change: Change::Note, ..event(6) })
}

/// Writes passes in the child, one after another: each is first a durable file ("filed N"), then
/// taken up ("taken N"). After every eighth pass, retention removes report, findings and
/// event of a run of long ago.
pub fn write_passes(until: u64) {
    let Some(value) = std::env::var(CHILD).ok() else { return };
    let (from, folder) = value.split_once(':').expect("number and folder");
    let folder = Path::new(folder);
    let say = |word: &str, number: u64| {
        let line = format!("{word} {number}\n");
        std::io::stdout().write_all(line.as_bytes()).expect("the pipe is there");
        std::io::stdout().flush().expect("the pipe is there");
    };
    let mut history = History::open(&folder.join("var/state/history.db")).expect("opens").0;
    take_files(&mut history, folder).expect("taken up");
    let from: u64 = from.parse().expect("a number");
    for number in from..from.saturating_add(until) {
        if number % 8 == 7 {
            let (file, event) = old(number);
            history.take_up(&file, &[event]).expect("taken up");
        }
        let unfinished = folder.join("unfinished");
        let mut file = File::create(&unfinished).expect("made");
        file.write_all(pass(number).to_string().as_bytes()).expect("written");
        file.sync_all().expect("synced");
        fs::rename(&unfinished, file_of(folder, number)).expect("renamed");
        File::open(folder).and_then(|folder| folder.sync_all()).expect("synced");
        say("filed", number);
        history.take_file(&file_of(folder, number), |_| vec![event(number)]).expect("taken up");
        say("taken", number);
        if number % 8 == 7 {
            let old = Retention { reports: time(500), findings: time(500), channels: &[] };
            let removed = history.retain(&old).expect("done");
            assert!(removed.reports > 0 && removed.findings > 0 && removed.events > 0, "{removed:?}");
        }
    }
}

//! Values that are written and read again; pages, retention, readers, failures.

#[path = "history_common/mod.rs"]
mod common;

use common::{STRIPES, compare, event, id, kind, parsed, pass, text, time, uuid};
use pumice_monitor::history::{
    ArrayUuid, Change, Count, Drive, DriveState, Error, History, Limit, Opened, PassFile, Reader, Retention,
    Sample, Taken, cells,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("state/history.db")
    }

    fn open(&self) -> History {
        History::open(&self.path()).expect("opens").0
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn what_is_taken_up_is_read_again_with_the_modes_of_the_page() {
    let place = Place::new();
    let (mut history, opened) = History::open(&place.path()).expect("opens");
    assert_eq!(opened, Opened::New);
    for number in 0..20 {
        assert_eq!(history.take_up(&parsed(number), &[event(number)]).expect("taken up"), Taken::New);
    }
    drop(history);
    let (history, opened) = History::open(&place.path()).expect("opens");
    assert_eq!(opened, Opened::Found);
    for number in 0..20 {
        compare(history.reader(), number).expect("there");
    }
    assert_eq!(mode(&place.path()), 0o640);
    assert_eq!(mode(&place.path().with_file_name("history.db-journal")), 0o640);
    assert_eq!(mode(&place.folder.path().join("state")), 0o750);
}

#[test]
fn a_file_that_is_taken_up_twice_gives_one_pass_and_goes_when_it_is_durable() {
    let place = Place::new();
    let mut history = place.open();
    let file = place.folder.path().join("pass.json");
    for taken in [Taken::New, Taken::Already] {
        fs::write(&file, pass(5).to_string()).expect("written");
        assert_eq!(history.take_file(&file, |_| vec![event(5)]).expect("taken up"), taken);
        assert!(!file.exists());
    }
    assert_eq!(history.reader().passes(None, None, Limit::MAX).expect("read").len(), 1);
    assert_eq!(history.reader().events(0, Limit::MAX).expect("read").len(), 1);
    // A file that is none stays.
    fs::write(&file, "{}").expect("written");
    assert!(matches!(history.take_file(&file, |_| Vec::new()), Err(Error::Invalid { .. })));
    assert!(file.exists());
}

#[test]
fn each_needed_field_is_named_when_it_is_missing() {
    let whole = pass(1);
    let paths = |value: &Value, skip: &[&str]| -> Vec<String> {
        let object = value.as_object().expect("an object");
        object.keys().filter(|key| !skip.contains(&key.as_str())).cloned().collect()
    };
    let refused = |value: Value, key: &str| {
        let error = PassFile::parse("x", value.to_string().as_bytes()).expect_err(key).to_string();
        assert!(error.contains(&format!("`{key}`")), "{error}");
    };
    for key in paths(&whole, &["later"]) {
        let mut value = whole.clone();
        value.as_object_mut().expect("an object").remove(&key);
        refused(value, &key);
    }
    let others = [("/report", vec!["incomplete"]), ("/report/array", vec!["layout", "metadata"])];
    let finding = ("/report/findings/0", vec!["members", "alternatives"]);
    for (place, skip) in others.into_iter().chain([finding]) {
        for key in paths(whole.pointer(place).expect("there"), &skip) {
            let mut value = whole.clone();
            let at = value.pointer_mut(place).expect("there");
            at.as_object_mut().expect("an object").remove(&key);
            refused(value, &key);
        }
    }
}

#[test]
fn values_out_of_range_are_refused() {
    for (place, value) in [
        ("/format", json!(2)),
        ("/pass", json!("12")),
        ("/by", json!("a\0b")),
        ("/by", json!("x".repeat(4097))),
        ("/ended_us", json!(0)),
        ("/begun_us", json!(u64::MAX)),
        ("/checked/0/end", json!(STRIPES + 1)),
        ("/checked/0/start", json!(STRIPES + 1)),
        ("/report/range/end", json!(STRIPES + 1)),
        ("/report/array/stripes", json!(0)),
        ("/report/array/raid_disks", json!(0)),
        ("/report/array/level", json!(300)),
        ("/report/array/uuid", json!("1:2:3:4")),
        ("/report/seconds", json!(-1.0)),
        ("/report/seconds", json!(1e13)),
        ("/report/bytes_checked", json!(u64::MAX)),
        ("/report/findings/0/member", json!(70_000)),
    ] {
        let mut whole = pass(1);
        *whole.pointer_mut(place).expect("there") = value;
        PassFile::parse("x", whole.to_string().as_bytes()).expect_err(place);
    }
    let mut many = pass(1);
    many["checked"] = vec![json!({"start": 0, "end": 1, "at_us": 0}); 10_001].into();
    PassFile::parse("x", many.to_string().as_bytes()).expect_err("many parts");
    for bytes in [&b""[..], b"[]", b"{", b"\xff", b"{\"format\":1}", b"null"] {
        PassFile::parse("x", bytes).expect_err("no pass file");
    }
}

#[test]
fn pages_have_every_row_once() {
    let place = Place::new();
    let mut history = place.open();
    for number in 0..25 {
        history.take_up(&parsed(number), &[event(number)]).expect("taken up");
    }
    let reader = history.reader();
    for array in [None, Some(reader.array(&uuid(1)).expect("read").expect("known"))] {
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let page = reader.passes(array.as_ref(), before, Limit::nearest(4)).expect("read");
            let Some(last) = page.last() else { break };
            before = Some(last.cursor());
            assert!(page.len() <= 4);
            found.extend(page.into_iter().map(|row| row.pass));
        }
        let of_array = |number: &u64| array.is_none() || number % 2 == 1;
        let wanted: Vec<_> = (0..25).rev().filter(of_array).map(id).collect();
        assert_eq!(found, wanted);
    }
    let ids = |after| reader.events(after, Limit::nearest(10)).expect("read");
    assert_eq!(ids(0).len(), 10);
    assert_eq!(ids(20).len(), 5);
    let last = reader.last_complete(&reader.array(&uuid(0)).expect("read").expect("known"));
    assert_eq!(last.expect("read").expect("there").pass, id(24));
    let arrays = reader.arrays(None, Limit::nearest(1)).expect("read");
    assert_eq!(arrays[0].uuid, uuid(0));
    assert_eq!(reader.arrays(Some(&uuid(0)), Limit::MAX).expect("read").len(), 1);
}

fn part(number: u64, start: u64, end: u64, at: u64) -> PassFile {
    let mut value = pass(number);
    value["report"]["array"]["uuid"] = uuid(9).as_str().into();
    value["report"]["result"] = "incomplete".into();
    value["checked"] = json!([{"start": start, "end": end, "at_us": at}]);
    PassFile::parse("x", value.to_string().as_bytes()).expect("a pass file")
}

#[test]
fn cells_keep_the_latest_check_and_forget_what_is_another_array() {
    let place = Place::new();
    let mut history = place.open();
    let cells = |history: &History, cell: usize| {
        let array = history.reader().array(&uuid(9)).expect("read").expect("known");
        history.reader().cells(&array).expect("read")[cell]
    };
    // Five stripes a cell.
    history.take_up(&part(1, 0, 14, 100), &[]).expect("taken up");
    assert_eq!([0, 1, 2].map(|cell| cells(&history, cell)), [Some(time(100)), Some(time(100)), None]);
    history.take_up(&part(2, 5, 15, 50), &[]).expect("taken up");
    assert_eq!(
        [0, 1, 2].map(|cell| cells(&history, cell)),
        [Some(time(100)), Some(time(100)), Some(time(50))]
    );
    assert!(
        history
            .reader()
            .last_complete(&history.reader().array(&uuid(9)).unwrap().unwrap())
            .unwrap()
            .is_none()
    );
    history.member_joined(&uuid(9), time(80)).expect("noted");
    assert_eq!([1, 2].map(|cell| cells(&history, cell)), [Some(time(100)), None]);
    let mut grown = pass(3);
    grown["report"]["array"]["uuid"] = uuid(9).as_str().into();
    grown["report"]["array"]["stripes"] = (STRIPES * 2).into();
    grown["checked"] = json!([{"start": 0, "end": 10, "at_us": 3400}]);
    history.take_up(&PassFile::parse("x", grown.to_string().as_bytes()).unwrap(), &[]).expect("taken up");
    assert_eq!([0, 1].map(|cell| cells(&history, cell)), [Some(time(3400)), None]);
    // An older pass of the smaller array, taken up late, checks none of the cells of the grown one.
    let mut late = pass(1);
    late["pass"] = id(77).as_str().into();
    late["report"]["array"]["uuid"] = uuid(9).as_str().into();
    let file = PassFile::parse("x", late.to_string().as_bytes()).unwrap();
    let before = cells(&history, 500);
    history.take_up(&file, &[]).expect("taken up");
    assert_eq!(cells(&history, 500), before);
    assert_eq!(cells::stripes_of(999, STRIPES), (4995, 5000));
}

#[test]
fn events_come_once_and_stay_until_every_channel_has_them() {
    let place = Place::new();
    let mut history = place.open();
    let (mail, exec) = (kind("mail"), kind("exec"));
    let events: Vec<_> = (0..8).map(event).collect();
    history.add_events(&events).expect("added");
    history.add_events(&events).expect("added");
    assert_eq!(history.reader().events(0, Limit::MAX).expect("read").len(), 8);
    history.delivered(&mail, &[1, 2, 3, 4, 99], time(9)).expect("noted");
    let open = |channel| history.reader().undelivered(channel, Limit::MAX).expect("read").len();
    assert_eq!((open(&mail), open(&exec)), (4, 8));
    // The last of array 0 is event 6 (closed), of array 1 event 7 (closed); 4 and 5 opened.
    let alerts = |history: &History| history.reader().open_alerts(0, Limit::MAX).expect("read");
    assert!(alerts(&history).is_empty());
    history.add_events(&[event(8)]).expect("added");
    assert_eq!(alerts(&history)[0].event, event(8));
    // A note changes no alert.
    let note = pumice_monitor::history::Event { change: Change::Note, ..event(10) };
    history.add_events(&[note]).expect("added");
    assert_eq!(alerts(&history).len(), 1);
    let all = Retention { reports: time(1 << 50), findings: time(0), channels: &[mail, exec] };
    assert_eq!(history.retain(&all).expect("done").events, 0);
    history.delivered(&kind("exec"), &[1, 2, 3, 4, 5, 6, 9, 10], time(9)).expect("noted");
    history.delivered(&kind("mail"), &[9, 10], time(9)).expect("noted");
    // Ids 1 to 4 have gone through both channels; 9 is an open alert, 10 the newest.
    assert_eq!(history.retain(&all).expect("done").events, 4);
    let left: Vec<i64> =
        history.reader().events(0, Limit::MAX).expect("read").iter().map(|row| row.id).collect();
    assert_eq!(left, [5, 6, 7, 8, 9, 10]);
}

#[test]
fn retention_removes_reports_and_findings_and_leaves_passes() {
    let place = Place::new();
    let mut history = place.open();
    for number in 0..20 {
        history.take_up(&parsed(number), &[]).expect("taken up");
    }
    let removed = history.retain(&Retention { reports: time(5000), findings: time(15_000), channels: &[] });
    let removed = removed.expect("done");
    assert_eq!(removed.reports, 5);
    assert_eq!(removed.findings as u64, (0..15).map(|number| number % 7).sum::<u64>());
    let passes = history.reader().passes(None, None, Limit::MAX).expect("read");
    assert_eq!(passes.len(), 20);
    let kept = passes.iter().filter(|row| history.reader().report(row).expect("read").is_some());
    assert_eq!(kept.count(), 15);
}

#[test]
fn health_is_read_again() {
    let place = Place::new();
    let mut history = place.open();
    let drive = Drive { drive: text("wwn-1"), device: text("/dev/sda"), model: text("m"), serial: text("s") };
    let sample = |at: u64, celsius: i16| Sample {
        at: time(at),
        state: DriveState::Suspect,
        celsius: Some(celsius),
        media_errors: None,
        worn_percent: Some(101),
        power_on_hours: 3.try_into().ok(),
    };
    for at in 1..=5 {
        history.add_health(&drive, &sample(at, 30)).expect("added");
    }
    assert!(matches!(history.add_health(&drive, &sample(6, 1001)), Err(Error::Invalid { .. })));
    let found = history.reader().health(&drive.drive, time(5), Limit::nearest(2)).expect("read");
    assert_eq!(found, [sample(4, 30), sample(3, 30)]);
    assert_eq!(history.reader().drives(None, Limit::MAX).expect("read"), [(drive, time(5))]);
}

#[test]
fn one_process_writes_and_a_reader_needs_a_database() {
    let place = Place::new();
    assert!(matches!(Reader::open(&place.path()), Err(Error::Missing { .. })));
    let _history = place.open();
    assert!(matches!(History::open(&place.path()), Err(Error::Held { .. })));
    Reader::open(&place.path()).expect("opens");
    assert!(ArrayUuid::try_from("0:0:0:0").is_err());
}

#[test]
fn a_backup_is_a_whole_database_and_replaces_nothing() {
    let place = Place::new();
    let mut history = place.open();
    for number in 0..10 {
        history.take_up(&parsed(number), &[event(number)]).expect("taken up");
    }
    let made = history.reader().backup(place.folder.path(), time(7)).expect("made");
    assert_eq!(made, place.folder.path().join("history-7.db"));
    assert_eq!(mode(&made), 0o640);
    assert!(history.reader().backup(place.folder.path(), time(7)).is_err());
    history.take_up(&parsed(10), &[event(10)]).expect("taken up");
    let copy = Reader::open(&made).expect("opens");
    for number in 0..10 {
        compare(&copy, number).expect("there");
    }
    assert!(copy.pass(&id(10)).expect("read").is_none());
    let names = fs::read_dir(place.folder.path()).expect("a folder").count();
    assert_eq!(names, 2, "the database's folder and the backup");
}

/// Makes the database of which `tests/dumps/1.sql` is the dump, at `PUMICE_HISTORY_DUMP`.
#[test]
fn database_of_the_dump() {
    let Some(path) = std::env::var_os("PUMICE_HISTORY_DUMP") else { return };
    let mut history = History::open(Path::new(&path)).expect("opens").0;
    for number in 0..4 {
        let mut whole = pass(number);
        whole["checked"] = json!([{"start": 0, "end": 50, "at_us": 1000 * number + 400}]);
        let file = PassFile::parse("x", whole.to_string().as_bytes()).expect("a pass file");
        history.take_up(&file, &[event(number)]).expect("taken up");
    }
    let drive = Drive { drive: text("wwn-1"), device: text("/dev/sda"), model: text("m"), serial: text("s") };
    let sample = Sample {
        at: time(1),
        state: DriveState::Well,
        celsius: Some(30),
        media_errors: None,
        worn_percent: None,
        power_on_hours: None,
    };
    history.add_health(&drive, &sample).expect("added");
    history.delivered(&kind("mail"), &[1], time(9)).expect("noted");
}

/// `pumice scrub --json` of the array of `pumice demo --keep`.
#[test]
fn the_document_of_a_real_scrub_is_taken_up() {
    let report: Value = serde_json::from_str(include_str!("history_documents/scrub.json")).expect("JSON");
    let mut whole = pass(1);
    whole["report"] = report.clone();
    whole["checked"] = json!([{"start": 0, "end": 192, "at_us": 1400}]);
    let file = PassFile::parse("x", whole.to_string().as_bytes()).expect("a pass file");
    let place = Place::new();
    let mut history = place.open();
    history.take_up(&file, &[]).expect("taken up");
    let reader = history.reader();
    let row = reader.pass(&id(1)).expect("read").expect("there");
    assert_eq!((row.findings.get(), row.result.as_str(), row.complete), (13, "findings", true));
    let findings = reader.findings(&row, 0, Limit::MAX).expect("read");
    let wanted = report["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), wanted.len());
    for (found, wanted) in findings.iter().zip(wanted) {
        assert_eq!(wanted["verdict"], found.finding.verdict.as_str());
        assert_eq!(wanted["device_offset"].as_u64(), found.finding.device_offset.map(Count::get));
    }
    let kept: Value =
        serde_json::from_slice(&reader.report(&row).expect("read").expect("kept")).expect("JSON");
    assert_eq!(kept, report);
    let array = reader.array_of(&row).expect("read").expect("known");
    let checked = reader.cells(&array).expect("read").iter().flatten().count();
    assert_eq!(checked, 192, "as many cells as stripes have one");
}

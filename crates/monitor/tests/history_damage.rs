//! Bytes of the database that somebody changed: right data, or set aside and begun anew.

#[path = "history_common/mod.rs"]
mod common;

use common::{compare, event, long, parsed, text, time};
use pumice_monitor::history::{
    Drive, DriveState, Error, History, Kind, Limit, Opened, Reader, Sample, Taken,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PASSES: u64 = 12;

fn folder() -> tempfile::TempDir {
    // In memory if possible: no sync counts here.
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// Everything that can be asked, row by row.
fn dump(reader: &Reader) -> Result<BTreeSet<String>, Error> {
    let mut all = BTreeSet::new();
    let mut add = |thing: &dyn std::fmt::Debug| {
        all.insert(format!("{thing:?}"));
    };
    for array in reader.arrays(None, Limit::MAX)? {
        add(&array);
        for (cell, time) in reader.cells(&array)?.into_iter().enumerate().filter(|(_, time)| time.is_some()) {
            add(&(&array.uuid, cell, time));
        }
        reader.last_complete(&array)?.iter().for_each(|row| add(row));
        reader.passes(Some(&array), None, Limit::MAX)?.iter().for_each(|row| add(row));
    }
    for pass in reader.passes(None, None, Limit::MAX)? {
        add(&pass);
        reader.pass(&pass.pass)?.iter().for_each(|row| add(row));
        reader.findings(&pass, 0, Limit::MAX)?.iter().for_each(|row| add(&(&pass.pass, row)));
        reader.report(&pass)?.iter().for_each(|row| add(&(&pass.pass, row)));
    }
    reader.events(0, Limit::MAX)?.iter().for_each(|row| add(row));
    reader.open_alerts(0, Limit::MAX)?.iter().for_each(|row| add(row));
    let mail = Kind::try_from("mail").expect("a kind");
    reader.undelivered(&mail, Limit::MAX)?.iter().for_each(|row| add(&("undelivered", row)));
    for (drive, seen) in reader.drives(None, Limit::MAX)? {
        add(&(&drive, seen));
        let samples = reader.health(&drive.drive, time(1 << 50), Limit::MAX)?;
        samples.iter().for_each(|row| add(&(&drive.drive, row)));
    }
    Ok(all)
}

fn make(path: &Path) -> BTreeSet<String> {
    let mut history = History::open(path).expect("opens").0;
    for number in 0..PASSES {
        history.take_up(&parsed(number), &[event(number)]).expect("taken up");
    }
    let drive = Drive { drive: text("wwn-1"), device: text("/dev/sda"), model: text("m"), serial: text("s") };
    for at in 0..50 {
        let sample = Sample {
            at: time(at),
            state: DriveState::Well,
            celsius: Some(30),
            media_errors: None,
            worn_percent: Some(1),
            power_on_hours: None,
        };
        history.add_health(&drive, &sample).expect("added");
    }
    history.delivered(&Kind::try_from("mail").expect("a kind"), &[1, 2, 3], time(5)).expect("noted");
    dump(history.reader()).expect("read")
}

fn harm(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) -> String {
    let mut below = |end: usize| random.next_u32() as usize % end.max(1);
    let length = bytes.len();
    // The header and the schema as often as the rest.
    let at = if below(4) == 0 { below(200.min(length)) } else { below(length) };
    match below(5) {
        0 | 1 => {
            let bit = below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
        2 => {
            let value = below(256) as u8;
            bytes[at] = value;
            format!("byte {at} is {value}")
        }
        3 => {
            let many = (1 + below(6000)).min(length - at);
            let value = if below(2) == 0 { 0 } else { 0xff };
            bytes[at..at + many].fill(value);
            format!("{many} bytes from {at} are {value}")
        }
        _ => {
            bytes.truncate(at);
            format!("{at} bytes are left")
        }
    }
}

#[test]
fn a_damaged_database_is_right_or_set_aside() {
    let place = folder();
    let source = place.path().join("source/history.db");
    let wanted = make(&source);
    let sound = fs::read(&source).expect("read");
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let cases = if long() { 10_000 } else { 1000 };
    let (mut aside, mut right, mut empty) = (0, 0, 0);
    for case in 0..cases {
        let path = place.path().join(format!("{case}/history.db"));
        fs::create_dir(path.parent().expect("a folder")).expect("made");
        let mut bytes = sound.clone();
        let what = harm(&mut bytes, &mut random);
        fs::write(&path, &bytes).expect("written");
        // A reader gives right rows, or an error. It may miss rows: only the writer checks that all
        // are there.
        if let Ok(found) = Reader::open(&path).and_then(|reader| dump(&reader)) {
            let is_event = |row: &&String| row.starts_with("(\"undelivered\"");
            let other: Vec<_> = found.difference(&wanted).filter(|row| !is_event(row)).collect();
            assert!(other.is_empty(), "case {case}: {what}: a reader sees {other:?}");
        }
        let (mut history, opened) =
            History::open(&path).unwrap_or_else(|error| panic!("{case}: {what}: {error}"));
        match opened {
            Opened::Found => {
                right += 1;
                let found = dump(history.reader()).unwrap_or_else(|error| panic!("{case}: {what}: {error}"));
                assert!(found == wanted, "case {case}: {what}: other data");
            }
            Opened::SetAside { kept, why } => {
                aside += 1;
                assert_eq!(kept, path.with_file_name("history.db.damaged-1"));
                assert!(fs::read(&kept).is_ok_and(|kept| kept.len() == bytes.len()), "{case}: {what}: {why}");
            }
            Opened::Empty => {
                empty += 1;
                // SQLite takes one byte for none.
                assert!(bytes.len() <= 1, "case {case}: {what}: {opened:?}");
            }
            other => panic!("case {case}: {what}: {other:?}"),
        }
        let taken = history
            .take_up(&parsed(500), &[event(500)])
            .unwrap_or_else(|error| panic!("{case}: {what}: {error}"));
        assert_eq!(taken, Taken::New);
        compare(history.reader(), 500).expect("there");
        drop(history);
        fs::remove_dir_all(path.parent().expect("a folder")).expect("removed");
    }
    println!("{cases} cases: {aside} set aside, {right} right, {empty} empty");
    assert!(aside > cases / 3 && right > 0);
}

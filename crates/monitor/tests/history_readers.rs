//! Readers beside a writer that ended badly, is slow, or has another version.

#[path = "history_common/mod.rs"]
mod common;

use common::{event, id, parsed};
use pumice_monitor::history::{Error, History, Opened, Reader};
use rusqlite::Connection;
use std::fs;
use std::time::{Duration, Instant};

/// Copies database and journal in the middle of a transaction that has written to the database.
fn hot(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("history.db");
    History::open(&path).expect("opens").0.take_up(&parsed(5), &[event(5)]).expect("taken up");
    let other = Connection::open(&path).expect("opens");
    let script = "PRAGMA journal_mode = TRUNCATE; PRAGMA cache_size = 1; BEGIN;
        UPDATE passes SET method = 'half'; UPDATE reports SET document = zeroblob(200000);
        UPDATE events SET text = 'half';";
    other.execute_batch(script).expect("done");
    let hot = folder.join("hot");
    fs::create_dir(&hot).expect("made");
    for name in ["history.db", "history.db-journal"] {
        fs::copy(folder.join(name), hot.join(name)).expect("copied");
    }
    assert!(fs::metadata(hot.join("history.db-journal")).expect("there").len() > 0);
    hot.join("history.db")
}

#[test]
fn a_reader_that_meets_a_hot_journal_says_so_and_the_writer_rolls_it_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = hot(folder.path());
    let before = fs::read(&path).expect("read");
    let error = Reader::open(&path).expect_err("a hot journal");
    assert!(matches!(error, Error::HotJournal { .. }), "{error}");
    assert!(error.to_string().ends_with("the monitor did not end well; start it"));
    assert!(fs::read(&path).expect("read") == before, "a reader changes nothing");
    let (history, opened) = History::open(&path).expect("opens");
    assert_eq!(opened, Opened::Found);
    common::compare(history.reader(), 5).expect("rolled back");
    assert!(Reader::open(&path).expect("opens").pass(&id(5)).expect("read").is_some());
}

#[test]
fn a_locked_database_is_waited_for_two_seconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    let mut history = History::open(&path).expect("opens").0;
    let reader = Reader::open(&path).expect("opens");
    let other = Connection::open(&path).expect("opens");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let waits = |result: Result<(), Error>, since: Instant| {
        let error = result.expect_err("locked");
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        let waited = since.elapsed();
        assert!(waited > Duration::from_millis(1900) && waited < Duration::from_secs(20), "{waited:?}");
    };
    let since = Instant::now();
    waits(reader.pass(&id(1)).map(drop), since);
    let since = Instant::now();
    waits(history.take_up(&parsed(1), &[]).map(drop), since);
    drop(other);
    history.take_up(&parsed(1), &[]).expect("taken up");
    assert!(reader.pass(&id(1)).expect("read").is_some());
}

#[test]
fn a_newer_database_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    drop(History::open(&path).expect("opens"));
    let sum = {
        let mut crc = crc32c::crc32c(b"meta");
        crc = crc32c::crc32c_append(crc, &[3, 7, 0, 0, 0, 0, 0, 0, 0]);
        crc = crc32c::crc32c_append(crc, b"version\x01\x09\0\0\0\0\0\0\0");
        crc
    };
    let other = Connection::open(&path).expect("opens");
    other.execute("UPDATE meta SET value = 9, sum = ?1", [sum]).expect("done");
    other.execute_batch("PRAGMA user_version = 9").expect("done");
    drop(other);
    let before = fs::read(&path).expect("read");
    assert!(matches!(History::open(&path), Err(Error::Newer { found: 9, known: 1, .. })));
    assert!(matches!(Reader::open(&path), Err(Error::Newer { found: 9, known: 1, .. })));
    assert!(fs::read(&path).expect("read") == before);
}

#[test]
fn a_version_that_only_one_place_has_is_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    drop(History::open(&path).expect("opens"));
    Connection::open(&path).expect("opens").execute_batch("PRAGMA user_version = 9").expect("done");
    assert!(matches!(Reader::open(&path), Err(Error::Damaged { .. })));
    assert!(matches!(History::open(&path).expect("opens").1, Opened::SetAside { .. }));
}

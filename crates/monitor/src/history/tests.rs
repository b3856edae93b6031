//! Tests of what is not public: migrations, a full disk, what is set aside.

use crate::history::open::Target;
use crate::history::rows::PassRow;
use crate::history::schema::{self, MIGRATIONS, Migration, TABLES};
use crate::history::table::Table;
use crate::history::values::Time;
use crate::history::{Error, Event, History, Limit, Opened, PassFile, Reader, Taken, place};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

const DUMP_1: &str = include_str!("../../tests/history_dumps/1.sql");

static DRIVES_2: Table =
    Table { name: "drives", columns: &["id", "drive", "device", "model", "serial", "seen_us", "bay"] };

/// All tables of version 1, with drives that have a bay.
static TABLES_2: [&Table; 10] = {
    let mut tables = TABLES;
    tables[8] = &DRIVES_2;
    tables
};

/// A version that is not: drives have a bay, before `sum`, as a real step would have it.
const STEPS_2: &[Migration] = &[
    Migration { script: MIGRATIONS[0].script, changed: MIGRATIONS[0].changed },
    Migration {
        script: "CREATE TABLE newer (id INTEGER PRIMARY KEY, drive TEXT NOT NULL UNIQUE, device TEXT NOT NULL,
                model TEXT NOT NULL, serial TEXT NOT NULL, seen_us INTEGER NOT NULL, bay INTEGER, sum INTEGER NOT NULL)
                STRICT;
            INSERT INTO newer SELECT id, drive, device, model, serial, seen_us, 7, 0 FROM drives;
            DROP TABLE drives;
            ALTER TABLE newer RENAME TO drives;",
        changed: &[&DRIVES_2],
    },
];

const VERSION_2: Target = Target { steps: STEPS_2, tables: &TABLES_2 };
/// The same without the sums that the step must compute.
const FORGETFUL: Target = Target {
    steps: &[
        Migration { script: MIGRATIONS[0].script, changed: &[] },
        Migration { script: STEPS_2[1].script, changed: &[] },
    ],
    tables: &TABLES_2,
};

fn from_dump(path: &Path) {
    let database = Connection::open(path).expect("opens");
    database.execute_batch("PRAGMA foreign_keys = OFF").expect("done");
    database.execute_batch(DUMP_1).expect("loads");
    let settings = format!("PRAGMA application_id = {}; PRAGMA user_version = 1", schema::APPLICATION);
    database.execute_batch(&settings).expect("done");
}

fn passes(reader: &Reader) -> Vec<PassRow> {
    reader.passes(None, None, Limit::MAX).expect("read")
}

#[test]
fn a_stored_dump_of_version_1_is_a_sound_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    from_dump(&path);
    let (history, opened) = History::open(&path).expect("opens");
    assert_eq!(opened, Opened::Found);
    assert_eq!(passes(history.reader()).len(), 4);
}

#[test]
fn a_stored_dump_becomes_the_next_version_and_is_refused_by_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    from_dump(&path);
    let before = passes(&Reader::open(&path).expect("opens"));
    let (history, opened) = History::open_as(&path, &VERSION_2).expect("opens");
    assert_eq!(opened, Opened::Migrated { from: 1 });
    assert_eq!(passes(history.reader()), before);
    let bays = "SELECT count(*) FROM drives WHERE bay = 7";
    let bays: i64 = history.reader().database.query_row(bays, [], |row| row.get(0)).expect("read");
    assert_eq!(bays, 1);
    drop(history);
    assert_eq!(History::open_as(&path, &VERSION_2).expect("opens").1, Opened::Found);
    assert!(matches!(History::open(&path), Err(Error::Newer { found: 2, known: 1, .. })));
    assert!(matches!(Reader::open(&path), Err(Error::Newer { found: 2, known: 1, .. })));
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    from_dump(&path);
    let mut database = Connection::open(&path).expect("opens");
    let steps = [
        Migration { script: MIGRATIONS[0].script, changed: &[] },
        Migration { script: "DELETE FROM events; CREATE TABLE passes (x);", changed: &[] },
    ];
    schema::migrate(&mut database, 1, &steps).expect_err("there is such a table");
    drop(database);
    let (history, opened) = History::open(&path).expect("opens");
    assert_eq!(opened, Opened::Found);
    assert_eq!(history.reader().events(0, Limit::MAX).expect("read").len(), 4);
}

#[test]
fn a_step_that_forgets_sums_is_found_by_the_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    from_dump(&path);
    let opened = History::open_as(&path, &FORGETFUL).expect("opens").1;
    assert!(matches!(opened, Opened::SetAside { .. }), "{opened:?}");
}

/// A pass whose report has many bytes that zstd cannot make fewer.
fn long_pass(number: u32) -> PassFile {
    let mut word = number;
    let mut step = || {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        format!("{word:x}")
    };
    let noise: String = (0..20_000).map(|_| step()).collect();
    let text = format!(
        r#"{{"format":1,"pass":"{number:032x}","by":"","begun_us":1,"ended_us":2,"checked":[],"report":{{
        "array":{{"uuid":"00000000:00000000:00000000:00000001","name":"","level":5,"raid_disks":3,"stripes":9,
        "chunk_bytes":1}},"method":"host","result":"clean","stopped":null,"range":{{"start":0,"end":9}},
        "degraded":false,"stripes_checked":9,"stripes_skipped":0,"stripes_rechecked":0,"bytes_checked":0,
        "findings":[],"seconds":0,"noise":"{noise}"}}}}"#
    );
    PassFile::parse("x", text.as_bytes()).expect("a pass file")
}

#[test]
fn a_full_disk_is_said_and_leaves_the_database_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    let mut history = History::open(&path).expect("opens").0;
    history.take_up(&long_pass(1), &[]).expect("taken up");
    let database = &history.reader.database;
    let pages: i64 = database.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("read");
    let most = format!("PRAGMA max_page_count = {}", pages + 2);
    database.query_row(&most, [], |_| Ok(())).expect("set");
    let none: &[Event] = &[];
    let error = history.take_up(&long_pass(2), none).expect_err("full");
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert_eq!(passes(history.reader()).len(), 1);
    history.reader.database.query_row("PRAGMA max_page_count = 100000", [], |_| Ok(())).expect("set");
    assert_eq!(history.take_up(&long_pass(2), none).expect("taken up"), Taken::New);
    drop(history);
    assert_eq!(History::open(&path).expect("opens").1, Opened::Found);
}

#[test]
fn the_journal_is_set_aside_before_its_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.db");
    let journal = place::with(&path, "-journal");
    fs::write(&journal, "journal").expect("written");
    // There is no database, so the second step fails, as a cut would end it.
    place::set_aside(&path).expect_err("there is none");
    assert!(!journal.exists());
    fs::write(&path, "database").expect("written");
    let kept = place::set_aside(&path).expect("set aside");
    assert_eq!(kept, place::with(&path, ".damaged-2"), "the number of the journal is taken");
    assert_eq!(fs::read(&kept).expect("read"), b"database");
}

#[test]
fn settings_are_those_of_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = History::open(&folder.path().join("history.db")).expect("opens").0;
    let of = |name: &str| -> String {
        let ask = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
        history.reader.database.query_row(&ask, [], |row| row.get(0)).expect(name)
    };
    let found = ["journal_mode", "synchronous", "foreign_keys", "cell_size_check", "trusted_schema"].map(of);
    assert_eq!(found, ["truncate", "3", "1", "1", "0"]);
    let timeout = "SELECT timeout FROM pragma_busy_timeout";
    let timeout: i64 = history.reader.database.query_row(timeout, [], |row| row.get(0)).expect("read");
    assert_eq!(timeout, 2000);
    assert!(Time::try_from(1 << 53).is_ok() && Time::try_from((1 << 53) + 1).is_err());
}

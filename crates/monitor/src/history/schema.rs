//! The schema, and how a database of an older version becomes one of this version.

use crate::history::error::Fault;
use crate::history::table::Table;
use rusqlite::types::Value;
use rusqlite::{Connection, TransactionBehavior};

/// `PUMH`, so that `file` and others tell what the database is.
pub(crate) const APPLICATION: i64 = 0x5055_4D48;

const VERSION_1: &str = include_str!("schema/1.sql");

/// The step from one version to the next.
#[derive(Debug)]
pub(crate) struct Migration {
    /// SQL of the step.
    pub(crate) script: &'static str,
    /// Tables whose rows have other columns afterwards, as they are then.
    pub(crate) changed: &'static [&'static Table],
}

/// The step to version n is at n - 1.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration { script: VERSION_1, changed: &[] }];

pub(crate) static META: Table = Table { name: "meta", columns: &["key", "value"] };
pub(crate) static ARRAYS: Table = Table {
    name: "arrays",
    columns: &["id", "uuid", "name", "level", "raid_disks", "stripes", "chunk_bytes", "seen_us", "joined_us"],
};
pub(crate) static PASSES: Table = Table {
    name: "passes",
    columns: &[
        "id",
        "pass",
        "array",
        "by_whom",
        "begun_us",
        "ended_us",
        "method",
        "result",
        "stopped",
        "first_stripe",
        "end_stripe",
        "complete",
        "degraded",
        "stripes_checked",
        "stripes_skipped",
        "stripes_rechecked",
        "bytes_checked",
        "reading_us",
        "findings",
        "busy",
        "repaired",
    ],
};
pub(crate) static FINDINGS: Table = Table {
    name: "findings",
    columns: &[
        "pass",
        "number",
        "stripe",
        "verdict",
        "certainty",
        "strength",
        "member",
        "device",
        "device_offset",
        "array_offset",
        "chunk_offset",
        "length",
        "repaired",
    ],
};
pub(crate) static REPORTS: Table = Table { name: "reports", columns: &["pass", "bytes", "document"] };
pub(crate) static CELLS: Table = Table { name: "cells", columns: &["array", "cell", "checked_us"] };
pub(crate) static EVENTS: Table = Table {
    name: "events",
    columns: &["id", "event", "at_us", "array", "pass", "kind", "severity", "change", "subject", "text"],
};
pub(crate) static DELIVERIES: Table = Table { name: "deliveries", columns: &["channel", "event", "at_us"] };
pub(crate) static DRIVES: Table =
    Table { name: "drives", columns: &["id", "drive", "device", "model", "serial", "seen_us"] };
pub(crate) static HEALTH: Table = Table {
    name: "health",
    columns: &["drive", "at_us", "state", "celsius", "media_errors", "worn_percent", "power_on_hours"],
};

/// All tables.
pub(crate) static TABLES: [&Table; 10] =
    [&META, &ARRAYS, &PASSES, &FINDINGS, &REPORTS, &CELLS, &EVENTS, &DELIVERIES, &DRIVES, &HEALTH];

/// The version in the header of a database.
pub(crate) fn version(of: &Connection) -> Result<i64, Fault> {
    Ok(of.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// The version that the table `meta` has.
pub(crate) fn version_in_table(of: &Connection) -> Result<Option<i64>, Fault> {
    let row = META.row(of, "WHERE key = 'version'", &[])?;
    row.map(|row| row.integer("value")).transpose()
}

/// Returns whether a database has nothing in it yet. Pages without a table are damage: the creation
/// is one transaction, and a cut in it leaves no page.
pub(crate) fn is_new(of: &Connection) -> Result<bool, Fault> {
    let number = |ask: &str| of.query_row(ask, [], |row| row.get::<_, i64>(0));
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    match (tables, number("PRAGMA page_count")?) {
        (0, 0) => Ok(true),
        (0, _) => Err(Fault::Damaged("it has pages and no table".to_owned())),
        _ => Ok(false),
    }
}

/// Brings a database to the version that the list ends with: one transaction for each step.
pub(crate) fn migrate(database: &mut Connection, from: usize, steps: &[Migration]) -> Result<(), Fault> {
    // A step may replace a table that others refer to; the check afterwards looks at references.
    database.pragma_update(None, "foreign_keys", false)?;
    for (at, step) in steps.iter().enumerate().skip(from) {
        let version = at as i64 + 1;
        let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        change.execute_batch(step.script)?;
        for table in step.changed {
            table.sum_again(&change)?;
        }
        META.put(&change, [vec![Value::Text("version".to_owned()), Value::Integer(version)]])?;
        change.pragma_update(None, "application_id", APPLICATION)?;
        change.pragma_update(None, "user_version", version)?;
        change.commit()?;
    }
    database.pragma_update(None, "foreign_keys", true)?;
    Ok(())
}

/// The text of the schema: what a file must have, and what a new one has.
pub(crate) fn text(of: &Connection) -> Result<Vec<[String; 4]>, Fault> {
    let mut statement =
        of.prepare("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name")?;
    let found = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Checks everything that can be checked: schema, structure, references, the sum of each row.
pub(crate) fn check(
    database: &Connection,
    steps: &[Migration],
    tables: &[&'static Table],
) -> Result<(), Fault> {
    let mut new = Connection::open_in_memory()?;
    migrate(&mut new, 0, steps)?;
    if text(database)? != text(&new)? {
        return Err(Fault::Damaged("its schema is another one".to_owned()));
    }
    let sound: String = database.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Err(Fault::Damaged(sound));
    }
    if database.prepare("PRAGMA foreign_key_check")?.exists([])? {
        return Err(Fault::Damaged("a row belongs to one that is missing".to_owned()));
    }
    for table in tables {
        table.each(database, "", &[], |_| Ok(()))?;
    }
    if version_in_table(database)? != Some(steps.len() as i64) {
        return Err(Fault::Damaged("its two versions differ".to_owned()));
    }
    Ok(())
}

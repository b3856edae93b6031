//! Rows with checksums: SQLite has none, and a flipped bit in a number is a number.

use crate::history::error::Fault;
use crate::history::values::{Count, Time};
use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params_from_iter};

/// A table: its name, and its columns in order without `sum`.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
}

impl Table {
    /// The checksum of a row, as `docs/reference/on-disk/history.md` has it.
    pub(crate) fn sum(&self, values: &[Value]) -> i64 {
        let mut crc = crc32c::crc32c(self.name.as_bytes());
        let mut add = |kind: u8, length: Option<usize>, bytes: &[u8]| {
            crc = crc32c::crc32c_append(crc, &[kind]);
            if let Some(length) = length {
                crc = crc32c::crc32c_append(crc, &(length as u64).to_le_bytes());
            }
            crc = crc32c::crc32c_append(crc, bytes);
        };
        for value in values {
            match value {
                Value::Null => add(0, None, &[]),
                Value::Integer(number) => add(1, None, &number.to_le_bytes()),
                // No column is real: the schema is strict.
                Value::Real(number) => add(2, None, &number.to_le_bytes()),
                Value::Text(text) => add(3, Some(text.len()), text.as_bytes()),
                Value::Blob(bytes) => add(4, Some(bytes.len()), bytes),
            }
        }
        i64::from(crc)
    }

    /// Writes rows; one with the same key is replaced.
    pub(crate) fn put<I: IntoIterator<Item = Vec<Value>>>(
        &self,
        to: &Connection,
        rows: I,
    ) -> Result<(), Fault> {
        let marks = vec!["?"; self.columns.len() + 1].join(", ");
        let columns = self.columns.join(", ");
        let sql = format!("INSERT OR REPLACE INTO {} ({columns}, sum) VALUES ({marks})", self.name);
        let mut statement = to.prepare(&sql)?;
        for mut row in rows {
            row.push(Value::Integer(self.sum(&row)));
            statement.execute(params_from_iter(row))?;
        }
        Ok(())
    }

    /// Reads rows: `rest` follows the name of the table.
    pub(crate) fn rows(
        &'static self,
        of: &Connection,
        rest: &str,
        values: &[&dyn ToSql],
    ) -> Result<Vec<Record>, Fault> {
        let mut found = Vec::new();
        self.each(of, rest, values, |record| {
            found.push(record);
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads at most one row.
    pub(crate) fn row(
        &'static self,
        of: &Connection,
        rest: &str,
        values: &[&dyn ToSql],
    ) -> Result<Option<Record>, Fault> {
        Ok(self.rows(of, &format!("{rest} LIMIT 1"), values)?.pop())
    }

    /// Hands over one row after another, each checked.
    pub(crate) fn each(
        &'static self,
        of: &Connection,
        rest: &str,
        values: &[&dyn ToSql],
        mut take: impl FnMut(Record) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let columns = self.columns.iter().map(|column| format!("{}.{column}", self.name));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let mut statement = of.prepare(&format!("SELECT {columns}, {0}.sum FROM {0} {rest}", self.name))?;
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            let count = self.columns.len();
            let values = (0..count).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>()?;
            if row.get::<_, i64>(count)? != self.sum(&values) {
                let key = values.iter().take(2).map(shown).collect::<Vec<_>>().join(", ");
                return Err(Fault::Damaged(format!(
                    "a row of '{}' (beginning with {key}) is wrong",
                    self.name
                )));
            }
            take(Record { table: self, values })?;
        }
        Ok(())
    }

    /// Computes the sums of all rows anew, after a migration that changed them.
    pub(crate) fn sum_again(&self, of: &Connection) -> Result<(), Fault> {
        let columns = self.columns.join(", ");
        let mut rows = Vec::new();
        let mut statement = of.prepare(&format!("SELECT {columns} FROM {}", self.name))?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            rows.push((0..self.columns.len()).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>()?);
        }
        drop(found);
        self.put(of, rows)
    }

    /// The key after the highest one of a table with a column `id`.
    pub(crate) fn next_id(&self, of: &Connection) -> Result<i64, Fault> {
        let sql = format!("SELECT coalesce(max(id), 0) FROM {}", self.name);
        let last: i64 = of.query_row(&sql, [], |row| row.get(0))?;
        last.checked_add(1).ok_or_else(|| Fault::Damaged(format!("no key is left in '{}'", self.name)))
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text.chars().filter(|char| !char.is_control()).take(64).collect(),
        _ => "-".to_owned(),
    }
}

/// A row whose sum is right.
#[derive(Debug)]
pub(crate) struct Record {
    table: &'static Table,
    values: Vec<Value>,
}

impl Record {
    fn wrong(&self, column: &str) -> Fault {
        Fault::Damaged(format!("'{}.{column}' is not what it must be", self.table.name))
    }

    fn value(&self, column: &str) -> Option<&Value> {
        let at = self.table.columns.iter().position(|name| *name == column);
        at.and_then(|at| self.values.get(at))
    }

    pub(crate) fn optional_integer(&self, column: &str) -> Result<Option<i64>, Fault> {
        match self.value(column) {
            Some(Value::Integer(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.wrong(column)),
        }
    }

    pub(crate) fn integer(&self, column: &str) -> Result<i64, Fault> {
        self.optional_integer(column)?.ok_or_else(|| self.wrong(column))
    }

    pub(crate) fn number<T: TryFrom<i64>>(&self, column: &str) -> Result<T, Fault> {
        T::try_from(self.integer(column)?).map_err(|_| self.wrong(column))
    }

    pub(crate) fn optional_number<T: TryFrom<i64>>(&self, column: &str) -> Result<Option<T>, Fault> {
        let number = self.optional_integer(column)?;
        number.map(|number| T::try_from(number).map_err(|_| self.wrong(column))).transpose()
    }

    pub(crate) fn count(&self, column: &str) -> Result<Count, Fault> {
        Count::try_from(self.number::<u64>(column)?).map_err(|_| self.wrong(column))
    }

    pub(crate) fn optional_count(&self, column: &str) -> Result<Option<Count>, Fault> {
        let number = self.optional_number::<u64>(column)?;
        number.map(|number| Count::try_from(number).map_err(|_| self.wrong(column))).transpose()
    }

    pub(crate) fn flag(&self, column: &str) -> Result<bool, Fault> {
        Ok(self.integer(column)? != 0)
    }

    pub(crate) fn optional_time(&self, column: &str) -> Result<Option<Time>, Fault> {
        let number = self.optional_number::<u64>(column)?;
        number.map(|number| Time::try_from(number).map_err(|_| self.wrong(column))).transpose()
    }

    pub(crate) fn time(&self, column: &str) -> Result<Time, Fault> {
        self.optional_time(column)?.ok_or_else(|| self.wrong(column))
    }

    pub(crate) fn optional_text<T: TryFrom<String>>(&self, column: &str) -> Result<Option<T>, Fault> {
        match self.value(column) {
            Some(Value::Text(text)) => T::try_from(text.clone()).map(Some).map_err(|_| self.wrong(column)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.wrong(column)),
        }
    }

    pub(crate) fn text<T: TryFrom<String>>(&self, column: &str) -> Result<T, Fault> {
        self.optional_text(column)?.ok_or_else(|| self.wrong(column))
    }

    pub(crate) fn word<T>(&self, column: &str, parse: fn(&str) -> Option<T>) -> Result<T, Fault> {
        let text: String = self.text(column)?;
        parse(&text).ok_or_else(|| self.wrong(column))
    }

    pub(crate) fn blob(&self, column: &str) -> Result<&[u8], Fault> {
        match self.value(column) {
            Some(Value::Blob(bytes)) => Ok(bytes),
            _ => Err(self.wrong(column)),
        }
    }
}

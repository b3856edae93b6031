//! Text on standard output.

use crate::system::stdout_was_closed;
use pumice_base::units::{is_shown, printable_lines};
use pumice_service::say::say;
pub use pumice_service::words::count;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when a text could not be written.
static UNDELIVERED: AtomicBool = AtomicBool::new(false);

/// Returns whether a text could not be printed: then the command ends with 2, whatever it found.
pub(crate) fn is_undelivered() -> bool {
    UNDELIVERED.load(Ordering::Relaxed)
}

/// Writes a text to standard output.
///
/// # Errors
/// If it cannot be written, or the program was started without a standard output.
pub(crate) fn write(text: &str) -> io::Result<()> {
    if stdout_was_closed() {
        return Err(io::Error::other("it is closed"));
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Says what became of a text that was written: if that failed, the command says so once, and ends
/// with 2. A reader that has closed the pipe (`| head`) is no exception: it did not get the report.
pub(crate) fn delivered(written: io::Result<()>) {
    if let Err(error) = written
        && !UNDELIVERED.swap(true, Ordering::Relaxed)
    {
        say(&format!("the report could not be written to standard output: {error}"));
    }
}

/// Writes a text for people to standard output. Names that others chose are part of it: what a
/// terminal would obey is escaped. If that fails, see `delivered`.
pub fn print(text: &str) {
    delivered(write(&printable_lines(text)));
}

/// Writes a JSON document and a newline.
pub fn print_json(document: &impl serde::Serialize) {
    print(&json_text(document));
}

/// A document as [`print_json`] prints it. Characters that a terminal does not show, which only
/// texts have, are written by number: the document is the same.
pub(crate) fn json_text(document: &impl serde::Serialize) -> String {
    let plain = serde_json::to_string_pretty(document).expect("plain data has a JSON form");
    let mut text = String::with_capacity(plain.len() + 1);
    for c in plain.chars() {
        if c == '\n' || is_shown(c) {
            text.push(c);
        } else {
            let _ = c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(text, "\\u{unit:04x}"));
        }
    }
    text.push('\n');
    text
}

/// A table: columns as wide as their widest cell, the first left-aligned, the others right-aligned,
/// two spaces between.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[i] - cell.chars().count());
            if i == 0 {
                line.push_str(cell);
                line.push_str(&pad);
            } else {
                line.push_str("  ");
                line.push_str(&pad);
                line.push_str(cell);
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_shows_every_character_and_stays_the_same() {
        let name = "a\u{202e}\u{7f}\u{1b}\u{e0041}é";
        let text = json_text(&serde_json::json!({ "name": name }));
        assert!(text.chars().all(|c| c == '\n' || is_shown(c)), "{text}");
        assert_eq!(printable_lines(&text), text);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["name"], name);
    }

    #[test]
    fn tables_line_up() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "1000".to_owned()]];
        assert_eq!(table(&rows), "a       1\nbcd  1000\n");
    }
}

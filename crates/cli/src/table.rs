//! Tables for people: columns side by side, and no line past a limit.
//!
//! A table that is too wide gives up width in a known order: columns that may wrap first, at their
//! spaces, then within words; then every column. If even that is too wide, each row becomes a list
//! of its cells. Nothing is left out.

use pumice_base::units::printable;
use std::io::{IsTerminal, stdout};
use unicode_width::UnicodeWidthChar;

/// Columns between two cells.
const GAP: usize = 2;
/// Columns that a column which may wrap keeps while others can still give some up.
const NARROW: usize = 8;
/// Columns that every column keeps: the widest character has two.
const LEAST: usize = 2;
/// The smallest limit, and the narrowest terminal for which lines are made.
const LIMIT: usize = 20;

/// Columns if there is no terminal, or it does not say its width.
pub(crate) const COLUMNS: usize = 80;

/// Returns whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Returns whether standard output shows colours: it is a terminal that can, and nobody has said
/// otherwise (<https://no-color.org>).
pub(crate) fn is_coloured() -> bool {
    let asked_not_to = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let cannot = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    is_terminal() && !asked_not_to && !cannot
}

/// Columns of standard output.
pub(crate) fn columns() -> usize {
    match terminal_size::terminal_size_of(stdout()) {
        Some((terminal_size::Width(columns), _)) if columns > 0 => usize::from(columns).max(LIMIT),
        _ => COLUMNS,
    }
}

/// Side of a column at which its cells are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Meaning of a cell, shown by colour beside its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// None.
    Plain,
    /// All is well.
    Good,
    /// A person should look, not at once.
    Warn,
    /// Data are damaged or in danger.
    Bad,
}

impl Tone {
    /// Words in their colour (ECMA-48, SGR), if there are colours.
    #[must_use]
    pub fn paint(self, words: &str, colour: bool) -> String {
        let code = match self {
            _ if !colour || words.is_empty() => return words.to_owned(),
            Self::Plain => return words.to_owned(),
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "1;31",
        };
        format!("\x1b[{code}m{words}\x1b[0m")
    }
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    head: String,
    align: Align,
    /// Columns with a higher number wrap before others; 0: after all that may.
    wraps: u8,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub fn left(head: &str) -> Self {
        Self { head: shown(head), align: Align::Left, wraps: 0 }
    }

    /// A column of numbers.
    #[must_use]
    pub fn right(head: &str) -> Self {
        Self { head: shown(head), align: Align::Right, wraps: 0 }
    }

    /// The same, which wraps if the table is too wide: those with the highest number first.
    #[must_use]
    pub const fn wrapping(mut self, first: u8) -> Self {
        self.wraps = first;
        self
    }
}

/// A cell: its words and what they mean.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell in a colour.
    #[must_use]
    pub fn toned(text: &str, tone: Tone) -> Self {
        Self { text: shown(text), tone }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text.as_ref(), Tone::Plain)
    }
}

/// Words of others as a terminal shows them, without blanks at the end.
fn shown(text: &str) -> String {
    printable(text).trim_end().to_owned()
}

/// Columns of a terminal that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Length in bytes of the beginning of a word that fits: up to the last character after which a
/// long name may be broken, or else as much as there is room for. At least one character.
fn piece(word: &str, room: usize) -> usize {
    let (mut used, mut fits, mut good) = (0, 0, 0);
    for (at, c) in word.char_indices() {
        used += c.width().unwrap_or(0);
        if used > room && at > 0 {
            break;
        }
        fits = at + c.len_utf8();
        if matches!(c, '/' | ':' | ',' | '-' | '_' | '.') {
            good = fits;
        }
    }
    // A break that leaves most of the line empty helps nobody.
    if fits < word.len() && width(&word[..good]) * 2 > room { good } else { fits }
}

/// A text in lines of at most `room` columns: the first has `first` of them.
pub(crate) fn wrapped(text: &str, first: usize, room: usize) -> Vec<String> {
    if width(text) <= first {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    for mut word in text.split(' ').filter(|word| !word.is_empty()) {
        loop {
            let most = if lines.is_empty() { first } else { room };
            let gap = usize::from(!line.is_empty());
            if width(&line) + gap + width(word) <= most {
                line.push_str(&" "[..gap]);
                line.push_str(word);
                break;
            }
            if line.is_empty() {
                let (begin, rest) = word.split_at(piece(word, most));
                lines.push(begin.to_owned());
                word = rest;
                if word.is_empty() {
                    break;
                }
            } else {
                lines.push(std::mem::take(&mut line));
            }
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table. If no column has a head, there is no line of heads.
    #[must_use]
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells that are missing at its end are empty; those beyond the columns are left
    /// out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize_with(self.columns.len(), || Cell::from(""));
        self.rows.push(row);
    }

    /// Returns whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, each of at most `limit` columns (at least 20), without blanks at their ends.
    #[must_use]
    pub fn text(&self, limit: usize, colour: bool) -> String {
        let limit = limit.max(LIMIT);
        match self.widths(limit) {
            Some(widths) => self.side_by_side(&widths, colour),
            None => self.lists(limit, colour),
        }
    }

    /// Cells of a column, its head first.
    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        let head = std::iter::once(self.columns[column].head.as_str());
        head.chain(self.rows.iter().map(move |row| row[column].text.as_str()))
    }

    /// Widths of the columns, if they have room side by side.
    fn widths(&self, limit: usize) -> Option<Vec<usize>> {
        let all = 0..self.columns.len();
        let widest = |column: usize| self.cells(column).map(width).max().unwrap_or(0);
        let word = |column: usize| self.cells(column).flat_map(|cell| cell.split(' ')).map(width).max();
        let mut widths: Vec<usize> = all.clone().map(widest).collect();
        let room = limit.checked_sub(GAP * self.columns.len().saturating_sub(1))?;
        let over = |widths: &[usize]| widths.iter().sum::<usize>().saturating_sub(room);
        let mut order: Vec<usize> = all.clone().filter(|column| self.columns[*column].wraps > 0).collect();
        order.sort_by_key(|column| std::cmp::Reverse(self.columns[*column].wraps));
        for column in &order {
            let keeps = word(*column).unwrap_or(0).max(NARROW).min(widths[*column]);
            widths[*column] -= over(&widths).min(widths[*column] - keeps);
        }
        for column in order.iter().copied().chain(all) {
            let keeps = NARROW.min(widths[column]);
            widths[column] -= over(&widths).min(widths[column] - keeps);
        }
        while over(&widths) > 0 {
            let most = widths.iter_mut().max_by_key(|width| **width).filter(|width| **width > LEAST)?;
            *most -= 1;
        }
        Some(widths)
    }

    fn side_by_side(&self, widths: &[usize], colour: bool) -> String {
        let mut out = String::new();
        if self.columns.iter().any(|column| !column.head.is_empty()) {
            let heads: Vec<Cell> = self.columns.iter().map(|column| Cell::from(&column.head)).collect();
            self.put(&mut out, &heads, widths, colour);
        }
        for row in &self.rows {
            self.put(&mut out, row, widths, colour);
        }
        out
    }

    fn put(&self, out: &mut String, row: &[Cell], widths: &[usize], colour: bool) {
        let cells: Vec<Vec<String>> =
            row.iter().zip(widths).map(|(cell, width)| wrapped(&cell.text, *width, *width)).collect();
        let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..lines {
            let mut text = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let words = cell.get(line).map_or("", |words| words.trim_end());
                let pad = " ".repeat(widths[column].saturating_sub(width(words)));
                let painted = row[column].tone.paint(words, colour);
                let gap = if column == 0 { "" } else { "  " };
                text += gap;
                text += &match self.columns[column].align {
                    Align::Left => painted + &pad,
                    Align::Right => pad + &painted,
                };
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
    }

    /// Each row as a list of its cells.
    fn lists(&self, limit: usize, colour: bool) -> String {
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                out.push('\n');
            }
            for (column, cell) in self.columns.iter().zip(row).filter(|(_, cell)| !cell.text.is_empty()) {
                let head = if column.head.is_empty() { String::new() } else { format!("{}: ", column.head) };
                for line in wrapped(&format!("{head}{}", cell.text), limit, limit) {
                    out.push_str(&cell.tone.paint(line.trim_end(), colour));
                    out.push('\n');
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn people() -> Table {
        let columns = [Column::left("name"), Column::right("size"), Column::left("place").wrapping(1)];
        let mut table = Table::new(columns);
        table.row(["a".into(), "1".into(), "/dev/disk/by-id/one two three".into()]);
        table.row(["bcd".into(), "1000".into(), "x".into()]);
        table
    }

    #[test]
    fn a_table_with_room_lines_up() {
        let expected = "name  size  place\na        1  /dev/disk/by-id/one two three\nbcd   1000  x\n";
        assert_eq!(people().text(80, false), expected);
    }

    #[test]
    fn a_column_wraps_at_blanks_then_after_slashes() {
        let blanks =
            "name  size  place\na        1  /dev/disk/by-id/one\n            two three\nbcd   1000  x\n";
        assert_eq!(people().text(34, false), blanks);
        let slashes = "name  size  place\na        1  /dev/disk/\n            by-id/one\n            two three\nbcd   1000  x\n";
        assert_eq!(people().text(24, false), slashes);
    }

    #[test]
    fn a_table_without_heads_has_no_line_for_them() {
        let mut table = Table::new([Column::left(""), Column::right("")]);
        table.row(["a".into(), "12".into()]);
        assert_eq!(table.text(80, false), "a  12\n");
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let mut table = Table::new([Column::left("state"), Column::left("why")]);
        table.row([Cell::toned("degraded", Tone::Bad), "role 2".into()]);
        assert_eq!(table.text(80, true), "state     why\n\x1b[1;31mdegraded\x1b[0m  role 2\n");
        assert_eq!(table.text(80, false), "state     why\ndegraded  role 2\n");
    }

    /// Cells of anything: words, long names, wide and invisible characters, escapes.
    fn cell() -> impl Strategy<Value = String> {
        prop_oneof![
            proptest::string::string_regex("[ -~]{0,60}").unwrap(),
            proptest::string::string_regex("(/[a-z0-9:._-]{1,30}){1,6}").unwrap(),
            proptest::collection::vec(any::<char>(), 0..40).prop_map(|all| all.into_iter().collect()),
            proptest::collection::vec(prop_oneof![Just('日'), Just('é'), Just('\u{301}'), Just(' ')], 0..60)
                .prop_map(|all| all.into_iter().collect()),
        ]
    }

    fn content(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// No line is wider than the limit or ends in a blank, and no character of a cell is lost.
        #[test]
        fn any_cells_fit_80_columns(
            heads in proptest::collection::vec((cell(), any::<bool>(), 0_u8..4), 1..12),
            rows in proptest::collection::vec(proptest::collection::vec(cell(), 12), 0..6),
            limit in prop_oneof![Just(80_usize), 20_usize..200],
        ) {
            let columns = heads.iter().map(|(head, left, wraps)| {
                let column = if *left { Column::left(head) } else { Column::right(head) };
                column.wrapping(*wraps)
            });
            let mut table = Table::new(columns);
            for row in &rows {
                table.row(row.iter().map(Cell::from));
            }
            let text = table.text(limit, false);
            for line in text.lines() {
                prop_assert!(width(line) <= limit, "{} columns: {line:?}", width(line));
                prop_assert_eq!(line.trim_end(), line);
            }
            let mut all: Vec<char> = content(&text).chars().collect();
            for cell in rows.iter().flat_map(|row| row.iter().take(heads.len())) {
                for c in content(&printable(cell)).chars() {
                    let at = all.iter().position(|other| *other == c);
                    prop_assert!(at.is_some(), "{c:?} of {cell:?} is lost");
                    all.swap_remove(at.unwrap());
                }
            }
        }
    }
}

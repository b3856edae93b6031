//! Pages that commands show to people: a first line, paragraphs with a title, tables. No line is
//! wider than the terminal, or than 80 columns if there is none.

use crate::table::{Table, Tone, columns, is_coloured, is_terminal, width, wrapped};
use crate::text::{delivered, write};
use pumice_units::{printable, printable_lines};

/// Columns of the title of a paragraph.
const TITLE: usize = 9;
/// Columns of the first word of a page, if it is short.
const WORD: usize = 7;

/// A page that is being made.
#[derive(Debug, Clone)]
pub struct Page {
    columns: usize,
    colour: bool,
    out: String,
}

impl Page {
    /// An empty page for standard output.
    #[must_use]
    pub fn new() -> Self {
        Self::of(columns(), is_coloured())
    }

    /// An empty page of so many columns.
    #[must_use]
    pub const fn of(columns: usize, colour: bool) -> Self {
        Self { columns, colour, out: String::new() }
    }

    /// Adds lines: `begin`, which has `indent` columns on the screen, and the text; further lines
    /// have as many blanks.
    fn hang(&mut self, begin: &str, indent: usize, text: &str) {
        let room = self.columns.saturating_sub(indent).max(2);
        for (number, line) in wrapped(&printable(text), room, room).iter().enumerate() {
            let begin = if number == 0 { begin.to_owned() } else { " ".repeat(indent) };
            self.out.push_str(format!("{begin}{line}").trim_end());
            self.out.push('\n');
        }
    }

    /// Adds the first line of a page or of a part of it: the state in one word, and what it is of.
    pub fn headline(&mut self, tone: Tone, word: &str, text: &str) {
        let word = printable(word);
        let indent = if width(&word) < WORD { WORD } else { width(&word) + 2 };
        let begin = tone.paint(&word, self.colour) + &" ".repeat(indent - width(&word));
        self.hang(&begin, indent, text);
    }

    /// Adds a paragraph with a title; further paragraphs of the same title have an empty one.
    pub fn field(&mut self, title: &str, text: &str) {
        let title = printable(title);
        let indent = if width(&title) < TITLE { TITLE } else { width(&title) + 2 };
        let begin = format!("{title}{}", " ".repeat(indent - width(&title)));
        self.hang(&begin, indent, text);
    }

    /// Adds a paragraph.
    pub fn line(&mut self, text: &str) {
        self.hang("", 0, text);
    }

    /// Adds lines as they are; what does not fit goes on below, as far in as its line begins.
    pub fn lines(&mut self, text: &str) {
        for line in text.lines() {
            let begins = line.trim_start_matches(' ');
            let indent = line.len() - begins.len();
            self.hang(&" ".repeat(indent), indent, begins);
        }
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.out.push('\n');
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        self.out += &table.text(self.columns, self.colour);
    }

    /// The text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.out
    }

    /// Writes the page to standard output.
    pub fn print(self) {
        delivered(write(&self.out));
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes a report to standard output that begins with its result in words, before a colon: these
/// get the colour of their meaning. On a terminal, lines that do not fit go on below.
pub(crate) fn print_result(text: &str) {
    let result = text.split(':').next().filter(|word| !word.contains('\n'));
    let tone = match result {
        Some("CLEAN" | "SOUND") => Tone::Good,
        Some("CLEAN, DEGRADED" | "COPIES DIFFER" | "INCOMPLETE" | "REPAIRED") => Tone::Warn,
        Some("FINDINGS" | "DAMAGED") => Tone::Bad,
        _ => Tone::Plain,
    };
    let text = match result {
        Some(_) if is_terminal() => {
            let mut page = Page::of(columns(), false);
            page.lines(text);
            page.into_text()
        }
        _ => printable_lines(text),
    };
    let (word, rest) = text.split_at(result.filter(|word| text.starts_with(word)).map_or(0, str::len));
    delivered(write(&format!("{}{rest}", tone.paint(word, is_coloured()))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_and_titles_hang() {
        let mut page = Page::of(30, false);
        page.headline(Tone::Good, "OK", "3 arrays, and nothing needs you");
        page.headline(Tone::Bad, "DAMAGE", "md0: 41 places");
        page.headline(Tone::Bad, "DEGRADED", "vault has lost role 2");
        page.field("pass", "41 % of its stripes, begun by somebody");
        let expected = "OK     3 arrays, and nothing\n       needs you\nDAMAGE md0: 41 places\n\
                        DEGRADED  vault has lost role\n          2\n\
                        pass     41 % of its stripes,\n         begun by somebody\n";
        assert_eq!(page.into_text(), expected);
    }

    #[test]
    fn only_the_word_is_coloured_and_names_cannot_bring_colours() {
        let mut page = Page::of(80, true);
        page.headline(Tone::Bad, "DAMAGE", "md\x1b[0m0");
        assert_eq!(page.into_text(), "\x1b[1;31mDAMAGE\x1b[0m md\\u{1b}[0m0\n");
    }

    proptest! {
        /// No line of any text is wider than the page.
        #[test]
        fn any_text_fits(text in any::<String>(), title in "[a-z]{0,12}", columns in 20_usize..120) {
            let mut page = Page::of(columns, false);
            page.headline(Tone::Good, &title, &text);
            page.field(&title, &text);
            page.line(&text);
            for line in page.into_text().lines() {
                prop_assert!(width(line) <= columns, "{line:?}");
                prop_assert_eq!(line.trim_end(), line);
            }
        }
    }
}

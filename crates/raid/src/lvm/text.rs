//! The grammar of the text: sections, values, bounds.
//!
//! `docs/reference/on-disk/lvm.md` has the grammar.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use thiserror::Error;

use crate::lvm::area::MAX_TEXT;

/// Most levels of sections, the file itself not counted.
const MAX_DEPTH: usize = 8;
/// Most entries and list items of a text.
const MAX_ITEMS: usize = 1_000_000;
/// The longest name, in bytes.
const MAX_NAME: usize = 127;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer without a sign.
    Integer(u64),
    /// Another number, as it is written.
    Number(String),
    /// A string, without quotes and backslashes.
    Text(String),
    /// A list of values that are not lists.
    List(Vec<Value>),
}

/// Meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A section.
    Section(Section),
    /// A value.
    Value(Value),
}

/// The entries of a section, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section(BTreeMap<String, Entry>);

impl Section {
    /// The entries, in the order of their names.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// The sections in it, in the order of their names.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Section)> {
        self.entries().filter_map(|(name, entry)| match entry {
            Entry::Section(section) => Some((name, section)),
            Entry::Value(_) => None,
        })
    }

    /// Finds the meaning of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.0.get(name)
    }
}

/// The place and the kind of an error of grammar.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("text: line {line}: {what}")]
pub struct TextError {
    /// The line, from 1 on.
    pub line: usize,
    /// The problem there.
    pub what: Wrong,
}

/// The kinds of errors of grammar.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Wrong {
    /// A text longer than 16 MiB.
    #[error("the text is longer than 16 MiB")]
    Length,
    /// A byte that begins nothing.
    #[error("a byte that does not belong here: '{}'", .0.escape_default())]
    Byte(char),
    /// Something else was expected.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A string without its second quote.
    #[error("a string does not end")]
    OpenString,
    /// An integer beyond 64 bits, or a number that is none.
    #[error("'{0}' is not a number of 64 bits")]
    Number(String),
    /// A name with more than 127 bytes.
    #[error("a name has more than 127 bytes")]
    Name,
    /// A name that stands in the section already.
    #[error("'{0}' is there twice")]
    Twice(String),
    /// Sections in more than 8 levels.
    #[error("sections in more than 8 levels")]
    Depth,
    /// Too many entries and list items.
    #[error("more than 1000000 entries")]
    Items,
}

/// Reads a text. Its top level holds the section of the group, and values.
///
/// # Errors
/// Names the line.
pub fn parse(bytes: &[u8]) -> Result<Section, TextError> {
    if bytes.len() as u64 > MAX_TEXT {
        return Err(TextError { line: 1, what: Wrong::Length });
    }
    // A sequence that is not UTF-8 becomes a character that is an error anywhere but in strings and
    // comments.
    let text = String::from_utf8_lossy(bytes);
    let mut parser = Parser { rest: &text, line: 1, items: 0 };
    let read = parser.section(0);
    read.map_err(|what| TextError { line: parser.line, what })
}

struct Parser<'t> {
    rest: &'t str,
    line: usize,
    items: usize,
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._+-".contains(c)
}

impl<'t> Parser<'t> {
    /// The next character that is neither white space nor in a comment; it is not taken.
    fn peek(&mut self) -> Option<char> {
        loop {
            let c = self.rest.chars().next()?;
            match c {
                '\n' => self.line += 1,
                ' ' | '\t' | '\r' => {}
                '#' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                    continue;
                }
                _ => return Some(c),
            }
            self.rest = &self.rest[1..];
        }
    }

    /// Takes an ASCII character, if it is the next.
    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn word(&mut self) -> &'t str {
        let (word, rest) = self.rest.split_at(self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn count(&mut self) -> Result<(), Wrong> {
        self.items += 1;
        if self.items > MAX_ITEMS { Err(Wrong::Items) } else { Ok(()) }
    }

    /// The entries up to the end of the text at level 0, up to a closing brace at others.
    fn section(&mut self, depth: usize) -> Result<Section, Wrong> {
        if depth > MAX_DEPTH {
            return Err(Wrong::Depth);
        }
        let mut out = BTreeMap::new();
        loop {
            match self.peek() {
                None if depth == 0 => return Ok(Section(out)),
                None => return Err(Wrong::Missing("a closing brace")),
                Some('}') if depth > 0 => {
                    self.rest = &self.rest[1..];
                    return Ok(Section(out));
                }
                Some(c) if is_name(c) => {}
                Some(c) => return Err(Wrong::Byte(c)),
            }
            self.count()?;
            let name = self.word();
            if name.len() > MAX_NAME {
                return Err(Wrong::Name);
            }
            let Slot::Vacant(slot) = out.entry(name.to_owned()) else {
                return Err(Wrong::Twice(name.to_owned()));
            };
            slot.insert(if self.take('{') {
                Entry::Section(self.section(depth + 1)?)
            } else if self.take('=') {
                Entry::Value(self.value()?)
            } else {
                return Err(Wrong::Missing("'{' or '='"));
            });
        }
    }

    fn value(&mut self) -> Result<Value, Wrong> {
        if !self.take('[') {
            return self.scalar();
        }
        let mut items = Vec::new();
        while !self.take(']') {
            self.count()?;
            items.push(self.scalar()?);
            if !self.take(',') && self.peek() != Some(']') {
                return Err(Wrong::Missing("',' or ']'"));
            }
        }
        Ok(Value::List(items))
    }

    fn scalar(&mut self) -> Result<Value, Wrong> {
        match self.peek() {
            Some('"') => self.string().map(Value::Text),
            Some(c) if is_name(c) => {
                let word = self.word();
                let bad = || Wrong::Number(word.chars().take(MAX_NAME).collect());
                if word.bytes().all(|b| b.is_ascii_digit()) {
                    return word.parse().map(Value::Integer).map_err(|_| bad());
                }
                // Of what Rust reads as a number, words like "inf" are none here.
                let numeric = word.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
                let number = numeric && word.parse::<f64>().is_ok();
                if number { Ok(Value::Number(word.to_owned())) } else { Err(bad()) }
            }
            Some(c) => Err(Wrong::Byte(c)),
            None => Err(Wrong::Missing("a value")),
        }
    }

    fn string(&mut self) -> Result<String, Wrong> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    self.line += out.matches('\n').count();
                    return Ok(out);
                }
                '\\' => out.push(chars.next().ok_or(Wrong::OpenString)?.1),
                c => out.push(c),
            }
        }
        Err(Wrong::OpenString)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (usize, Wrong) {
        let error = parse(text.as_bytes()).unwrap_err();
        (error.line, error.what)
    }

    fn value(text: &str) -> Value {
        let parsed = parse(format!("k = {text}").as_bytes()).unwrap();
        let Some(Entry::Value(value)) = parsed.get("k").cloned() else { panic!("{parsed:?}") };
        value
    }

    #[test]
    fn the_grammar() {
        let text = "# first\nvg-0 {\nid = \"a\\\"b\\\\c#\" # no\nlist = [ \"x\", 5,\n\"y\" ]\nempty=[]s{}}\nversion=1";
        let file = parse(text.as_bytes()).unwrap();
        let (name, group) = file.sections().next().unwrap();
        assert_eq!(name, "vg-0");
        assert_eq!(group.get("id"), Some(&Entry::Value(Value::Text("a\"b\\c#".to_owned()))));
        let items = [Value::Text("x".to_owned()), Value::Integer(5), Value::Text("y".to_owned())].to_vec();
        assert_eq!(group.get("list"), Some(&Entry::Value(Value::List(items))));
        assert_eq!(group.get("empty"), Some(&Entry::Value(Value::List(vec![]))));
        assert_eq!(group.get("s"), Some(&Entry::Section(Section::default())));
        assert_eq!(file.get("version"), Some(&Entry::Value(Value::Integer(1))));
        assert_eq!(file.entries().count(), 2);
    }

    #[test]
    fn numbers() {
        assert_eq!(value("18446744073709551615"), Value::Integer(u64::MAX));
        assert_eq!(value("-1"), Value::Number("-1".to_owned()));
        assert_eq!(value("0.50"), Value::Number("0.50".to_owned()));
        for bad in ["18446744073709551616", "inf", "1x", "-", "0x10", "1.2.3"] {
            assert_eq!(wrong(&format!("a {{}}\nk = {bad}")), (2, Wrong::Number(bad.to_owned())));
        }
    }

    #[test]
    fn errors_name_line_and_kind() {
        assert_eq!(wrong("a {\nb = 1\n"), (3, Wrong::Missing("a closing brace")));
        assert_eq!(wrong("a {\nb = 1 b = 2 }"), (2, Wrong::Twice("b".to_owned())));
        assert_eq!(wrong("a {} }"), (1, Wrong::Byte('}')));
        assert_eq!(wrong("a\n\n5"), (3, Wrong::Missing("'{' or '='")));
        assert_eq!(wrong("a = \"x"), (1, Wrong::OpenString));
        assert_eq!(wrong("a = \"x\\"), (1, Wrong::OpenString));
        assert_eq!(wrong("a = [1 2]"), (1, Wrong::Missing("',' or ']'")));
        assert_eq!(wrong("a = [1,"), (1, Wrong::Missing("a value")));
        assert_eq!(wrong("a = [[1]]"), (1, Wrong::Byte('[')));
        assert_eq!(wrong("a = \0"), (1, Wrong::Byte('\0')));
        assert_eq!(wrong("a = \"\n\n\" ä"), (3, Wrong::Byte('ä')));
        assert_eq!(parse(b"a = \"\xFF\"").unwrap().entries().count(), 1, "not UTF-8, inside a string");
        assert!(parse(b"\xFF = 1").is_err());
    }

    #[test]
    fn bounds() {
        let deep = |levels: usize| format!("{}{}", "a {".repeat(levels), "}".repeat(levels));
        assert!(parse(deep(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(wrong(&deep(MAX_DEPTH + 1)).1, Wrong::Depth);
        assert_eq!(wrong(&deep(1 << 20)).1, Wrong::Depth);
        let list = |items: usize| format!("a = [{}]", "1,".repeat(items));
        assert!(parse(list(MAX_ITEMS - 1).as_bytes()).is_ok());
        assert_eq!(wrong(&list(MAX_ITEMS)).1, Wrong::Items);
        assert!(parse(format!("{} = 1", "n".repeat(MAX_NAME)).as_bytes()).is_ok());
        assert_eq!(wrong(&format!("{} = 1", "n".repeat(MAX_NAME + 1))).1, Wrong::Name);
        assert_eq!(parse(&vec![b' '; MAX_TEXT as usize + 1]).unwrap_err().what, Wrong::Length);
        assert!(parse(&vec![b' '; MAX_TEXT as usize]).is_ok());
    }
}

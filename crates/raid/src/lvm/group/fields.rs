//! Typed fields of sections, with errors that name their place.

use std::fmt;

use thiserror::Error;

use crate::lvm::id::Id;
use crate::lvm::text::{Entry, Section, Value};

/// A field of the text with a value that it cannot have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("text: {place}{field} is {found}; must be {allowed}")]
pub struct FieldError {
    /// The sections that lead to it, each with a colon and a blank; empty for the file.
    pub place: String,
    /// Its name.
    pub field: String,
    /// Its value.
    pub found: String,
    /// The allowed values.
    pub allowed: String,
}

/// A section, and its place in messages.
#[derive(Debug, Clone)]
pub(super) struct Fields<'s> {
    section: &'s Section,
    place: String,
}

impl<'s> Fields<'s> {
    pub(super) fn new(section: &'s Section, place: impl fmt::Display) -> Self {
        Self { section, place: place.to_string() }
    }

    /// A section inside this one.
    pub(super) fn inner(&self, section: &'s Section, name: &str) -> Self {
        Self::new(section, format_args!("{}{name}: ", self.place))
    }

    pub(super) fn error(
        &self,
        field: &str,
        found: impl fmt::Display,
        allowed: impl fmt::Display,
    ) -> FieldError {
        let (field, found, allowed) = (field.to_owned(), found.to_string(), allowed.to_string());
        FieldError { place: self.place.clone(), field, found, allowed }
    }

    pub(super) fn section(&self, name: &str) -> Result<Option<&'s Section>, FieldError> {
        match self.section.get(name) {
            None => Ok(None),
            Some(Entry::Section(section)) => Ok(Some(section)),
            Some(Entry::Value(_)) => Err(self.error(name, "a value", "a section")),
        }
    }

    fn value(&self, name: &str) -> Result<Option<&'s Value>, FieldError> {
        match self.section.get(name) {
            None => Ok(None),
            Some(Entry::Value(value)) => Ok(Some(value)),
            Some(Entry::Section(_)) => Err(self.error(name, "a section", "a value")),
        }
    }

    /// An integer, if it is there.
    pub(super) fn given(&self, name: &str) -> Result<Option<u64>, FieldError> {
        match self.value(name)? {
            None => Ok(None),
            Some(Value::Integer(number)) => Ok(Some(*number)),
            Some(other) => Err(self.error(name, shown(other), "an integer")),
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<u64, FieldError> {
        self.given(name)?.ok_or_else(|| self.error(name, "missing", "an integer"))
    }

    /// An integer in a range.
    pub(super) fn within(&self, name: &str, least: u64, most: u64) -> Result<u64, FieldError> {
        let found = self.integer(name)?;
        let ok = (least..=most).contains(&found);
        if ok { Ok(found) } else { Err(self.error(name, found, format_args!("{least} to {most}"))) }
    }

    pub(super) fn string(&self, name: &str) -> Result<Option<&'s str>, FieldError> {
        match self.value(name)? {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.error(name, shown(other), "a string")),
        }
    }

    pub(super) fn id(&self) -> Result<Id, FieldError> {
        let text = self.string("id")?.ok_or_else(|| self.error("id", "missing", "an id"))?;
        Id::from_text(text).ok_or_else(|| self.error("id", text, "32 letters and digits in seven groups"))
    }

    pub(super) fn list(&self, name: &str) -> Result<Option<&'s [Value]>, FieldError> {
        match self.value(name)? {
            None => Ok(None),
            Some(Value::List(items)) => Ok(Some(items)),
            Some(other) => Err(self.error(name, shown(other), "a list")),
        }
    }

    /// A list of words, such as `status`; empty if it is not there. A lone word is a list of one.
    pub(super) fn words(&self, name: &str) -> Result<Vec<String>, FieldError> {
        let items = match self.value(name)? {
            None => &[],
            Some(Value::List(items)) => items.as_slice(),
            Some(item) => std::slice::from_ref(item),
        };
        let word = |item: &Value| match item {
            Value::Text(text) => Ok(text.clone()),
            other => Err(self.error(name, shown(other), "a list of strings")),
        };
        items.iter().map(word).collect()
    }

    /// All strings in the section, in lists as well.
    pub(super) fn all_strings(&self) -> Vec<&'s str> {
        let mut out = Vec::new();
        for (_, entry) in self.section.entries() {
            match entry {
                Entry::Value(Value::Text(text)) => out.push(text.as_str()),
                Entry::Value(Value::List(items)) => out.extend(items.iter().filter_map(|item| match item {
                    Value::Text(text) => Some(text.as_str()),
                    _ => None,
                })),
                _ => {}
            }
        }
        out
    }
}

/// A value in a message.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Number(text) => text.clone(),
        Value::Text(text) => format!("\"{text}\""),
        Value::List(items) => format!("a list of {}", items.len()),
    }
}

//! Values of single fields.

use super::YEAR;
use crate::time::DAY;
use pumice_base::units::{parse_duration, parse_size};
use std::path::PathBuf;

/// Parses a duration with a unit, years included, in whole seconds.
fn seconds(text: &str) -> Result<i64, String> {
    let wrong = || format!("'{text}' is not a duration: write a number with s, m, h, d or y");
    if let Some(years) = text.strip_suffix('y') {
        let years: i64 = years.trim().parse().map_err(|_| wrong())?;
        return (0..=200).contains(&years).then(|| years * YEAR).ok_or_else(wrong);
    }
    let nanos = parse_duration(text).map_err(|_| wrong())?;
    Ok(i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX))
}

/// Parses a duration of `least` to `most` seconds.
pub(super) fn duration(text: &str, least: i64, most: i64) -> Result<i64, String> {
    let value = seconds(text)?;
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(format!("'{text}' is out of range: it must be {} to {}", shown(least), shown(most)))
    }
}

/// Parses a duration that may be `never`.
pub(super) fn duration_or_never(text: &str, least: i64, most: i64) -> Result<Option<i64>, String> {
    if text == "never" { Ok(None) } else { duration(text, least, most).map(Some) }
}

/// Parses a duration below a second or so, in nanoseconds.
pub(super) fn nanoseconds(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let value = parse_duration(text).map_err(|error| error.to_string())?;
    let range = least..=most;
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(format!("'{text}' is out of range: it must be {least} ns to {most} ns"))
    }
}

/// Parses bytes a second.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    let value = parse_size(text).map_err(|error| error.to_string())?;
    if (1_000_000..=100_000_000_000).contains(&value) {
        Ok(value)
    } else {
        Err(format!("'{text}' is out of range: it must be 1MB to 100GB a second"))
    }
}

/// Checks a text of 1 to `most` bytes without control characters.
pub(super) fn text(text: &str, most: usize) -> Result<String, String> {
    if (1..=most).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!("it must have 1 to {most} bytes without control characters"))
    }
}

/// Checks a list of texts.
pub(super) fn texts(list: &[String], most: usize) -> Result<Vec<String>, String> {
    if list.is_empty() || list.len() > 64 {
        return Err(format!("{} entries: there must be 1 to 64", list.len()));
    }
    list.iter().map(|entry| text(entry, most)).collect()
}

/// Checks an absolute path.
pub(super) fn path(value: &str) -> Result<PathBuf, String> {
    let value = text(value, 4095)?;
    if value.starts_with('/') { Ok(value.into()) } else { Err(format!("'{value}' is no absolute path")) }
}

/// Seconds with the largest unit that divides them.
fn shown(seconds: i64) -> String {
    for (unit, name) in [(YEAR, "y"), (DAY, "d"), (3600, "h"), (60, "m")] {
        if seconds >= unit && seconds % unit == 0 {
            return format!("{}{name}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

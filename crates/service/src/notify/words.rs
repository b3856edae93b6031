//! Words about an event. Names of arrays and drives are chosen by others: nothing in them may end a
//! line.

use pumice_base::units::{format_date, printable};
use pumice_monitor::alerts::{Change, Event, Severity};

/// A text cut to some bytes at a character's end; what was cut is told by three dots.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most.saturating_sub(3);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

/// The name of a severity.
pub(super) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}

/// The name of a change.
pub(super) const fn change(change: Change) -> &'static str {
    match change {
        Change::Opened => "opened",
        Change::Repeated => "repeated",
        Change::Acknowledged => "acknowledged",
        Change::Closed => "closed",
        Change::Told => "told",
    }
}

/// The seconds of an event's time, not before 1970.
pub(super) fn seconds(event: &Event) -> u64 {
    u64::try_from(event.at.0).unwrap_or(0)
}

/// The subject of an event in one line of at most 120 bytes.
pub(super) fn subject(event: &Event) -> String {
    cut(&printable(event.key.subject()), 120)
}

/// One event in a few words: `CRITICAL: damage, md0`.
pub(super) fn short(event: &Event) -> String {
    let kind = event.key.kind();
    let urgency = match kind.severity() {
        Severity::Critical => "CRITICAL",
        Severity::Warning => "WARNING",
        Severity::Info => "info",
    };
    let state = match event.change {
        Change::Opened | Change::Told => urgency.to_owned(),
        Change::Repeated => format!("{urgency}, still open"),
        Change::Acknowledged => "acknowledged".to_owned(),
        Change::Closed => "closed".to_owned(),
    };
    format!("{state}: {kind}, {}", subject(event))
}

/// The same with its time.
pub(super) fn dated(event: &Event) -> String {
    format!("{} {}", format_date(seconds(event)), short(event))
}

/// Breaks a text into lines of at most `width` characters, at blanks where there are some; at most
/// `most` lines.
pub(super) fn lines(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut wide = 0;
    for word in printable(text).split_whitespace() {
        let chars: Vec<char> = word.chars().collect();
        for piece in chars.chunks(width) {
            if wide > 0 && wide + 1 + piece.len() > width {
                out.push(std::mem::take(&mut line));
                wide = 0;
            }
            if wide > 0 {
                line.push(' ');
                wide += 1;
            }
            line.extend(piece);
            wide += piece.len();
        }
    }
    out.push(line);
    if out.len() > most {
        out.truncate(most);
        if let Some(last) = out.last_mut() {
            *last = format!("{} ...", last.chars().take(width.saturating_sub(4)).collect::<String>());
        }
    }
    out
}

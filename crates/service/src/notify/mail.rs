//! Mail by sendmail(8): `docs/reference/channels.md` has the form.

use super::program::Call;
use super::words::{cut, dated, lines, short};
use super::{Channel, ChannelFailure, Message};
use base64ct::{Base64, Encoding};
use jiff::Timestamp;
use pumice_base::units::printable;
use pumice_monitor::alerts::{Event, MAIL};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The program for mail.
pub const SENDMAIL: &str = "/usr/sbin/sendmail";
/// Lines for events in one mail.
const ROWS: usize = 40;
/// Characters of a line of details.
const WIDTH: usize = 74;
/// Bytes of the line of an event that has no lines for its details.
const ROW: usize = 240;
/// Bytes of a subject.
const SUBJECT: usize = 180;
/// Bytes that are encoded in one word of a header: a word has 75 characters at most (RFC 2047,
/// section 2).
const WORD: usize = 42;

/// Mail to one address.
#[derive(Debug)]
pub struct Mail {
    program: PathBuf,
    to: String,
}

impl Mail {
    /// Mail to an address of the configuration, by a program that understands `-t -oi`.
    ///
    /// # Errors
    /// If the address has a character that would end the header, or begins as an option does.
    pub fn new(program: &Path, to: &str) -> Result<Self, ChannelFailure> {
        let is_address = !to.is_empty() && !to.starts_with('-');
        if !is_address || to.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(ChannelFailure(format!("'{}' is no address", printable(to))));
        }
        Ok(Self { program: program.to_owned(), to: to.to_owned() })
    }
}

impl Channel for Mail {
    fn name(&self) -> &str {
        MAIL
    }

    fn send(&mut self, message: &Message, deadline: Instant) -> Result<(), ChannelFailure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let text = text(&self.to, message, now);
        Call {
            program: &self.program,
            args: &["-t", "-oi"],
            variables: &[],
            input: text.as_bytes(),
            reads_all: true,
            deadline,
        }
        .run()
    }
}

/// The whole mail, at `now` in seconds since 1970.
fn text(to: &str, message: &Message, now: u64) -> String {
    let events = &message.sending.events;
    let mut out = String::new();
    let _ = writeln!(out, "To: {to}");
    let _ = writeln!(out, "Subject: {}", header(&cut(&subject(message), SUBJECT)));
    let _ = writeln!(out, "Date: {}", date(now));
    let _ = writeln!(out, "Message-ID: <{}>", message_id(message));
    out.push_str("Auto-Submitted: auto-generated\nMIME-Version: 1.0\n");
    out.push_str("Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n");
    // A line for each, and the rest for details.
    let rows = ROWS / events.len().max(1);
    for event in events.iter().take(ROWS) {
        if rows < 2 {
            let _ = writeln!(out, "{}", cut(&format!("{}: {}", dated(event), printable(&event.detail)), ROW));
            continue;
        }
        let _ = writeln!(out, "{}", dated(event));
        for line in lines(&event.detail, WIDTH, rows - 1) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out.push('\n');
    let more = message.sending.more + events.len().saturating_sub(ROWS);
    if more > 0 {
        let _ = writeln!(out, "{more} more events are not listed.");
    }
    if message.sending.lost > 0 {
        let _ = writeln!(out, "{} older events were lost: too many waited.", message.sending.lost);
    }
    let _ = writeln!(out, "Look with `pumice status` on {}.", host(&message.host));
    out
}

fn host(name: &str) -> String {
    cut(&printable(name), 64)
}

fn subject(message: &Message) -> String {
    let events = &message.sending.events;
    let first = events.first().map_or_else(|| "nothing".to_owned(), short);
    let others = message.sending.more + events.len().saturating_sub(1);
    let digest = if message.sending.digest { "digest: " } else { "" };
    let also = if others == 0 { String::new() } else { format!(" and {others} more") };
    format!("[pumice {}] {digest}{first}{also}", host(&message.host))
}

/// The same for the same events, and for no others.
fn message_id(message: &Message) -> String {
    let ids = message.sending.events.iter().map(|event: &Event| event.id);
    let series = ids.clone().next().map_or(0, |id| id.series);
    let numbers = ids.map(|id| id.number);
    let (first, last) = (numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0));
    let count = message.sending.events.len() + message.sending.more;
    let host: String = message.host.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    let host = if host.is_empty() { "localhost".to_owned() } else { host };
    format!("{series:016x}-{first}-{last}-{count}@{host}.pumice")
}

/// A date of RFC 5322, section 3.3.
fn date(now: u64) -> String {
    let time = i64::try_from(now).ok().and_then(|now| Timestamp::from_second(now).ok()).unwrap_or_default();
    time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

/// The text of a header field without its name: ASCII as it is, else encoded words of RFC 2047.
fn header(text: &str) -> String {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && !text.contains("=?") {
        return text.to_owned();
    }
    let mut words: Vec<String> = vec![String::new()];
    for c in text.chars() {
        let word = words.last_mut().filter(|word| word.len() + c.len_utf8() <= WORD);
        match word {
            Some(word) => word.push(c),
            None => words.push(c.to_string()),
        }
    }
    let encoded = words.iter().map(|word| format!("=?UTF-8?B?{}?=", Base64::encode_string(word.as_bytes())));
    encoded.collect::<Vec<_>>().join("\n ")
}

#[cfg(test)]
mod tests;

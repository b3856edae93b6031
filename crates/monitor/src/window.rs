//! Windows of the week in local time, and nights.

use crate::time::Wall;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};
use std::str::FromStr;

/// A window of reading: days of the week, and times of day in minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The days on which it begins: bit 0 is Monday.
    days: u8,
    /// Minutes from midnight at which it begins, below 1440.
    from: u16,
    /// Minutes from midnight at which it ends, 1 to 1440; not after `from`: on the next day.
    to: u16,
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a window: write '22:00-06:00' or 'Sat,Sun 00:00-24:00'");
        let (days, hours) = match text.trim().rsplit_once(' ') {
            Some((days, hours)) => (parse_days(days.trim()).ok_or_else(wrong)?, hours),
            None => (0x7f, text.trim()),
        };
        let (from, to) = hours.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (minutes(from).ok_or_else(wrong)?, minutes(to).ok_or_else(wrong)?);
        if from == to || from == 1440 {
            return Err(format!("'{text}' is empty, or begins at 24:00"));
        }
        // An end at 00:00 is the midnight after the beginning.
        Ok(Self { days, from, to: if to == 0 { 1440 } else { to } })
    }
}

/// Parses `Sat`, `Mon-Fri`, `Sat,Sun` into bits of days.
fn parse_days(text: &str) -> Option<u8> {
    let day = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
    let mut bits = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first.trim())?, day(last.trim())?);
        let mut at = first;
        loop {
            bits |= 1 << at;
            if at == last {
                break;
            }
            at = (at + 1) % 7;
        }
    }
    Some(bits)
}

/// Parses `HH:MM` up to 24:00.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse::<u16>().ok())?
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let all = hours * 60 + minutes;
    (minutes < 60 && all <= 1440).then_some(all)
}

/// A stretch of time: from a moment up to another one, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first second.
    pub from: Wall,
    /// The second after its last.
    pub to: Wall,
}

/// A night: the days from 1970-01-01 to the date on which its noon-to-noon begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Night(pub i32);

/// Local time: when windows are open, and which night it is.
#[derive(Debug, Clone)]
pub struct Calendar {
    zone: TimeZone,
}

/// The place of a window's end in a repeated hour.
#[derive(Clone, Copy, PartialEq)]
enum Occurrence {
    First,
    Second,
}

impl Calendar {
    /// A calendar of a time zone.
    #[must_use]
    pub const fn new(zone: TimeZone) -> Self {
        Self { zone }
    }

    fn local(&self, at: Wall) -> DateTime {
        self.zone.to_datetime(Timestamp::from_second(at.bounded().0).unwrap_or_default())
    }

    /// The moment at which a clock on the wall shows this time; in a missing hour, the moment of
    /// the change.
    fn moment(&self, local: DateTime, occurrence: Occurrence) -> Wall {
        let seconds = |offset: jiff::tz::Offset| offset.to_timestamp(local).map_or(0, Timestamp::as_second);
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => Wall(seconds(offset)),
            AmbiguousOffset::Fold { before, .. } if occurrence == Occurrence::First => Wall(seconds(before)),
            AmbiguousOffset::Fold { after, .. } => Wall(seconds(after)),
            AmbiguousOffset::Gap { before, after } => {
                // The offset that rules later gives the earlier time: one before the change.
                let earlier = Timestamp::from_second(seconds(after)).unwrap_or_default();
                let change = self.zone.following(earlier).next();
                Wall(change.map_or(seconds(before), |change| change.timestamp().as_second()))
            }
        }
        .bounded()
    }

    /// The span of a window that begins on a date; `None` if it does not happen.
    fn span_on(&self, window: &Window, date: Date) -> Option<Span> {
        if window.days & (1 << date.weekday().to_monday_zero_offset()) == 0 {
            return None;
        }
        let at = |minutes: u16| {
            let date = if minutes >= 1440 { date.checked_add(1.day()).ok()? } else { date };
            let minutes = minutes % 1440;
            Some(date.at((minutes / 60) as i8, (minutes % 60) as i8, 0, 0))
        };
        let from = at(window.from)?;
        let to = if window.to > window.from { at(window.to)? } else { at(window.to + 1440)? };
        let strict =
            Span { from: self.moment(from, Occurrence::Second), to: self.moment(to, Occurrence::First) };
        let span = if strict.from < strict.to {
            strict
        } else {
            Span { from: self.moment(from, Occurrence::First), ..strict }
        };
        (span.from < span.to).then_some(span)
    }

    /// The spans of windows that may contain or follow a moment, in order, over `days` dates.
    fn spans(&self, windows: &[Window], at: Wall, days: i32) -> Vec<Span> {
        let today = self.local(at).date();
        let dates = (-2..days).filter_map(|day| today.checked_add(day.days()).ok());
        let mut spans: Vec<Span> =
            dates.flat_map(|date| windows.iter().filter_map(move |w| self.span_on(w, date))).collect();
        spans.sort_by_key(|span| span.from);
        let mut joined: Vec<Span> = Vec::new();
        for span in spans {
            match joined.last_mut() {
                Some(last) if span.from <= last.to => last.to = last.to.max(span.to),
                _ => joined.push(span),
            }
        }
        joined
    }

    /// The open stretch around a moment, windows that touch being one; its end is seen at most a
    /// day or two ahead.
    #[must_use]
    pub fn open(&self, windows: &[Window], at: Wall) -> Option<Span> {
        self.spans(windows, at, 2).into_iter().find(|span| span.from <= at && at < span.to)
    }

    /// The first moment from `at` on at which a window is open. `None`: not within nine days.
    #[must_use]
    pub fn next_open(&self, windows: &[Window], at: Wall) -> Option<Wall> {
        for days in [2, 9] {
            let next = self.spans(windows, at, days).into_iter().find(|span| at < span.to);
            if let Some(next) = next {
                return Some(next.from.max(at));
            }
        }
        None
    }

    /// Seconds within a stretch in which a window is open; for stretches of at most two days.
    #[must_use]
    pub fn open_seconds(&self, windows: &[Window], within: Span) -> i64 {
        let overlap = |span: Span| span.to.min(within.to).since(span.from.max(within.from)).max(0);
        self.spans(windows, within.from, 4).into_iter().map(overlap).sum()
    }

    /// The night of a moment.
    #[must_use]
    pub fn night(&self, at: Wall) -> Night {
        let local = self.local(at);
        let days = local.date().duration_since(jiff::civil::date(1970, 1, 1)).as_hours() / 24;
        Night(days as i32 - i32::from(local.hour() < 12))
    }

    /// The noon at which a night begins.
    #[must_use]
    pub fn noon(&self, night: Night) -> Wall {
        let date = jiff::civil::date(1970, 1, 1).checked_add(night.0.days()).unwrap_or(Date::MAX);
        self.moment(date.at(12, 0, 0, 0), Occurrence::First)
    }

    /// The span of a night.
    #[must_use]
    pub fn span(&self, night: Night) -> Span {
        Span { from: self.noon(night), to: self.noon(Night(night.0.saturating_add(1))) }
    }
}

#[cfg(test)]
mod tests;

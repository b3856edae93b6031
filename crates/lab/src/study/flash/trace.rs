//! Traces that tell contents by their hashes.
//!
//! Two formats, comma-separated with a header, plain or packed: `ts_us,op,lpn,crc32,sha1_64` with
//! the operations W (write), T (trim) and I (idle; `lpn` is then its length in microseconds), and
//! the FIU traces with `md5`, whose sparse places are numbered in the order of their first
//! appearance and whose gaps of a second or more are idle.

use crate::study::trace::{TraceError, input, leaps};
use pumice_flash::chip::Nanos;
use pumice_flash::ftl::ContentId;
use std::collections::HashMap;
use std::path::Path;

/// Gaps of the FIU format that are idle time, in microseconds.
const GAP: u64 = 1_000_000;

/// An operation of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentOp {
    /// A page is written.
    Write(u32, ContentId),
    /// A page is trimmed.
    Trim(u32),
    /// Nothing happens for so many microseconds.
    Idle(u64),
}

/// A trace in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentTrace {
    /// Its operations in order.
    pub ops: Vec<ContentOp>,
    /// The highest page number, plus 1.
    pub pages: u32,
    /// The line, from 1, and the field that have that page; line 0 of a generated trace.
    pub highest: (u64, &'static str),
}

/// State that is kept from line to line.
#[derive(Debug, Default)]
struct Past {
    /// The numbers of sparse places.
    places: HashMap<u64, u32>,
    /// The time of the line before, in microseconds.
    last: Option<u64>,
    /// Idle time in all, in nanoseconds.
    idle: Nanos,
}

impl Past {
    /// An idle time of so many microseconds, if a trace can have it.
    fn idle(&mut self, field: &'static str, us: u64) -> Result<ContentOp, Wrong> {
        let at = us.checked_mul(1_000).and_then(|ns| self.idle.checked_add(ns));
        let at = at.filter(|at| !leaps(*at, 0, self.idle)).ok_or_else(|| {
            let seconds = us / 1_000_000;
            (field, format!("idle for {seconds} s: at most 30 days at a time, and ten years in all"))
        })?;
        self.idle = at;
        Ok(ContentOp::Idle(us))
    }
}

/// The columns of a format.
#[derive(Debug, Clone, Copy)]
enum Columns {
    Pages,
    Fiu,
}

impl Columns {
    /// The field with the place.
    fn place(self) -> &'static str {
        match self {
            Self::Pages => "lpn",
            Self::Fiu => "lbn512",
        }
    }
}

type Wrong = (&'static str, String);

fn hex(field: &'static str, text: Option<&str>, digits: usize) -> Result<u64, Wrong> {
    let text = text.unwrap_or("").get(..digits).unwrap_or("");
    u64::from_str_radix(text, 16).map_err(|_| (field, format!("{digits} hexadecimal digits are needed")))
}

fn whole(field: &'static str, text: Option<&str>) -> Result<u64, Wrong> {
    text.unwrap_or("").parse().map_err(|_| (field, "a whole number is needed".to_owned()))
}

impl ContentTrace {
    /// Reads a trace.
    ///
    /// # Errors
    /// If the file cannot be read, its format is unknown, or a field makes no sense.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let shown = path.display().to_string();
        let mut file =
            input::open(path).map_err(|source| TraceError::Open { path: shown.clone(), source })?;
        let (mut line, mut number, mut columns) = (Vec::new(), 0, None);
        let (mut trace, mut past) = (Self::default(), Past::default());
        loop {
            number += 1;
            let more = input::read_line(&mut *file, &mut line).map_err(|source| TraceError::Read {
                path: shown.clone(),
                line: number,
                source,
            })?;
            if !more {
                break;
            }
            let text = str::from_utf8(&line).unwrap_or("");
            let Some(known) = columns else {
                columns = match text {
                    "ts_us,op,lpn,crc32,sha1_64" => Some(Columns::Pages),
                    "ts_us,op,lbn512,size_bytes,process,pid,dev,md5" => Some(Columns::Fiu),
                    _ => {
                        let what = "no known header of a trace with contents".to_owned();
                        return Err(TraceError::Field { path: shown, line: 1, field: "header", what });
                    }
                };
                continue;
            };
            let (pages, field) = (trace.pages, known.place());
            let taken = match known {
                Columns::Pages => trace.take_page_line(text, &mut past),
                Columns::Fiu => trace.take_fiu_line(text, &mut past),
            };
            taken.map_err(|(field, what)| TraceError::Field {
                path: shown.clone(),
                line: number,
                field,
                what,
            })?;
            if trace.pages > pages {
                trace.highest = (number, field);
            }
        }
        if trace.pages == 0 {
            let what = "the trace has no writes".to_owned();
            return Err(TraceError::Field { path: shown, line: number, field: "op", what });
        }
        Ok(trace)
    }

    fn take_page_line(&mut self, line: &str, past: &mut Past) -> Result<(), Wrong> {
        let mut fields = line.split(',').skip(1);
        let op = fields.next();
        let place = whole("lpn", fields.next())?;
        let lpn = || u32::try_from(place).ok().filter(|lpn| *lpn < 1 << 31);
        let lpn = || lpn().ok_or(("lpn", "at most 2^31 pages".to_owned()));
        match op {
            Some("W") => {
                let weak = hex("crc32", fields.next(), 8)? as u32;
                let strong = hex("sha1_64", fields.next(), 16)?;
                self.pages = self.pages.max(lpn()? + 1);
                self.ops.push(ContentOp::Write(lpn()?, ContentId { strong, weak }));
            }
            Some("T") => self.ops.push(ContentOp::Trim(lpn()?)),
            Some("I") => self.ops.push(past.idle("lpn", place)?),
            _ => return Err(("op", "one of W, T and I is needed".to_owned())),
        }
        Ok(())
    }

    fn take_fiu_line(&mut self, line: &str, past: &mut Past) -> Result<(), Wrong> {
        let fields: Vec<&str> = line.split(',').collect();
        let at = whole("ts_us", fields.first().copied())?;
        let gap = at.saturating_sub(past.last.replace(at).unwrap_or(at));
        if gap >= GAP {
            self.ops.push(past.idle("ts_us", gap)?);
        }
        match fields.get(1) {
            Some(&"W") => {}
            Some(&"R") => return Ok(()),
            _ => return Err(("op", "R or W is needed".to_owned())),
        }
        let place = whole("lbn512", fields.get(2).copied())?;
        let strong = hex("md5", fields.get(7).copied(), 16)?;
        let lpn = *past.places.entry(place).or_insert(self.pages);
        self.pages = self.pages.max(lpn + 1);
        // The trace has no CRC-32; bits of its hash stand for it.
        self.ops.push(ContentOp::Write(lpn, ContentId { strong, weak: strong as u32 }));
        Ok(())
    }
}

//! Detection of a trace's format, by its first line.

use super::fields::{seconds, split, whole, words};
use std::fmt;
use std::str::FromStr;

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated with a header line that names the columns.
    Csv,
    /// MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` without a
    /// header.
    Msr,
    /// Storage Performance Council: `ASU,LBA,Size,Opcode,Timestamp` without a header.
    Spc,
    /// The text that blkparse prints.
    Blkparse,
    /// fio's latency logs, and its I/O logs of version 3.
    Fio,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Csv, Self::Msr, Self::Spc, Self::Blkparse, Self::Fio];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Msr => "msr",
            Self::Spc => "spc",
            Self::Blkparse => "blkparse",
            Self::Fio => "fio",
        }
    }

    /// The format of a trace whose first line that is not empty is `line`.
    #[must_use]
    pub fn detect(line: &[u8]) -> Option<Self> {
        if line.starts_with(b"fio version") {
            return Some(Self::Fio);
        }
        let fields: Vec<&[u8]> = split(line, b',').collect();
        let lower = line.to_ascii_lowercase();
        if lower.starts_with(b"timestamp,hostname,") {
            return Some(Self::Msr);
        }
        if fields.len() >= 3 && fields.iter().any(|f| f.starts_with(b"ts_") || *f == b"op") {
            return Some(Self::Csv);
        }
        let number = |i: usize| fields.get(i).is_some_and(|f| whole("", Some(f)).is_ok());
        if fields.len() >= 6 && number(0) && number(2) && number(4) && number(5) && fields[0].len() > 6 {
            return Some(Self::Msr);
        }
        let letter = |i: usize| fields.get(i).is_some_and(|f| matches!(f, [b'r' | b'R' | b'w' | b'W']));
        if fields.len() >= 5
            && number(0)
            && number(1)
            && number(2)
            && letter(3)
            && seconds("", Some(fields[4])).is_ok()
        {
            return Some(Self::Spc);
        }
        let parts: Vec<&[u8]> = words(line).collect();
        let device =
            |w: &[u8]| split(w, b',').count() == 2 && split(w, b',').all(|p| whole("", Some(p)).is_ok());
        if parts.len() >= 7 && device(parts[0]) && seconds("", Some(parts[3])).is_ok() {
            return Some(Self::Blkparse);
        }
        if fields.len() >= 4 && (0..4).all(number) {
            return Some(Self::Fio);
        }
        None
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|f| f.name() == text);
        found.ok_or_else(|| format!("'{text}' is none of csv, msr, spc, blkparse and fio"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_tell() {
        let cases: [(&[u8], Option<Format>); 9] = [
            (b"ts_us,dev,op,offset_bytes,size_bytes,svc_start_us,svc_stop_us,lvdev,pid", Some(Format::Csv)),
            (b"ts_us,op,lbn512,size_bytes", Some(Format::Csv)),
            (b"128166372003061629,src1,1,Read,7014609920,24576,41286", Some(Format::Msr)),
            (b"0,20941264,8192,W,0.551706", Some(Format::Spc)),
            (
                b"  8,0    3        1     0.000000000   697  Q  WS 223490 + 8 [kjournald]",
                Some(Format::Blkparse),
            ),
            (b"12, 433000, 0, 4096", Some(Format::Fio)),
            (b"fio version 3 iolog", Some(Format::Fio)),
            (b"hello world", None),
            (b"\x00\x01\x02", None),
        ];
        for (line, expected) in cases {
            assert_eq!(Format::detect(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }
}

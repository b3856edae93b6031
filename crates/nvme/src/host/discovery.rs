//! Reading a discovery log that may change while it is read.
//!
//! ```text
//! Header ──▶ Records, in parts ──▶ Header again ──▶ done
//!   ▲                                  │ another generation
//!   └──────────────────────────────────┘
//! ```

use crate::bytes::{u16_at, u64_at};
use crate::spec::log::DiscoveryEntry;

/// Most records of a log that are read.
pub const MAX_RECORDS: u64 = 1024;
/// Most attempts to read a log from its beginning.
pub const TRIES: u32 = 8;
/// Bytes that are read at a time.
const PART: u64 = 64 << 10;
/// Bytes of the header and of each record.
const LEN: u64 = DiscoveryEntry::LEN as u64;

/// Errors of reading a discovery log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// It changes all the time.
    #[error("the discovery log changed each of {TRIES} times that it was read")]
    Restless,
    /// It is longer than it may be.
    #[error("the discovery log has {0} records: {MAX_RECORDS} are read at most")]
    TooMany(u64),
    /// Its records are of a format that is not known.
    #[error("the discovery log is of format {0}, which is not known here")]
    Format(u16),
    /// The answer is shorter than what was asked for.
    #[error("the discovery log ends early")]
    Short,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The header is read for the first time.
    Header,
    /// So many records of a generation are here.
    Records { generation: u64, count: u64 },
    /// The header is read again.
    Check { generation: u64 },
}

/// A part of the log that is to be read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPart {
    /// Byte offset in the log.
    pub offset: u64,
    /// Bytes, a multiple of four.
    pub len: u32,
}

/// Reads a log: asks for [parts](LogPart), takes what they hold, and says when it is done.
#[derive(Debug)]
pub struct DiscoveryReader {
    state: State,
    entries: Vec<DiscoveryEntry>,
    /// Records that are here, those of other transports among them.
    read: u64,
    tries: u32,
}

impl Default for DiscoveryReader {
    fn default() -> Self {
        Self { state: State::Header, entries: Vec::new(), read: 0, tries: 0 }
    }
}

impl DiscoveryReader {
    /// The part to read next.
    #[must_use]
    pub fn wanted(&self) -> LogPart {
        match self.state {
            State::Header | State::Check { .. } => LogPart { offset: 0, len: LEN as u32 },
            State::Records { count, .. } => {
                let len = ((count - self.read) * LEN).min(PART);
                LogPart { offset: (1 + self.read) * LEN, len: len as u32 }
            }
        }
    }

    /// Takes the bytes of [`wanted`](Self::wanted). Returns the records when the log has stood
    /// still all the while.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Vec<DiscoveryEntry>>, DiscoveryError> {
        if bytes.len() < self.wanted().len as usize {
            return Err(DiscoveryError::Short);
        }
        match self.state {
            State::Header => self.begin(bytes)?,
            State::Records { generation, count } => {
                let records = bytes[..self.wanted().len as usize].chunks_exact(DiscoveryEntry::LEN);
                self.read += records.len() as u64;
                self.entries.extend(records.filter_map(DiscoveryEntry::decode));
                if self.read == count {
                    self.state = State::Check { generation };
                }
            }
            State::Check { generation } if generation == u64_at(bytes, 0) => {
                return Ok(Some(std::mem::take(&mut self.entries)));
            }
            // The header that told it is the new one's.
            State::Check { .. } => self.begin(bytes)?,
        }
        Ok(None)
    }

    fn begin(&mut self, header: &[u8]) -> Result<(), DiscoveryError> {
        self.tries += 1;
        self.entries.clear();
        self.read = 0;
        if self.tries > TRIES {
            return Err(DiscoveryError::Restless);
        }
        let (generation, count, format) = (u64_at(header, 0), u64_at(header, 8), u16_at(header, 16));
        if format != 0 {
            return Err(DiscoveryError::Format(format));
        }
        if count > MAX_RECORDS {
            return Err(DiscoveryError::TooMany(count));
        }
        self.state =
            if count == 0 { State::Check { generation } } else { State::Records { generation, count } };
        Ok(())
    }
}

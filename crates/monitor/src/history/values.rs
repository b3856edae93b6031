//! Values of the database, parsed once.

use serde::Deserialize;
use std::fmt;
use thiserror::Error;

/// The rule that a refused value breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Invalid(&'static str);

/// A time: Unix microseconds, 0 to 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "u64")]
pub struct Time(i64);

impl Time {
    /// The latest: some year after 200,000. Any JSON reader keeps it exactly.
    pub const MAX: Self = Self(1 << 53);

    /// The microseconds since 1970.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }
}

impl TryFrom<u64> for Time {
    type Error = Invalid;

    fn try_from(micros: u64) -> Result<Self, Invalid> {
        let micros = i64::try_from(micros).ok().filter(|micros| *micros <= Self::MAX.0);
        micros.map(Self).ok_or(Invalid("a time is 0 to 2^53 microseconds since 1970"))
    }
}

/// A number of things or bytes: 0 to 2^63 - 1, what a column can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(try_from = "u64")]
pub struct Count(i64);

impl Count {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.cast_unsigned()
    }

    pub(crate) const fn column(self) -> i64 {
        self.0
    }
}

impl TryFrom<u64> for Count {
    type Error = Invalid;

    fn try_from(number: u64) -> Result<Self, Invalid> {
        i64::try_from(number).map(Self).map_err(|_| Invalid("a number here is less than 2^63"))
    }
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $is:expr, $wrong:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                let is: fn(&str) -> bool = $is;
                if is(&text) { Ok(Self(text)) } else { Err(Invalid($wrong)) }
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Invalid;

            fn try_from(text: &str) -> Result<Self, Invalid> {
                Self::try_from(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

const fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

text!(
    /// A text of at most 4096 bytes without zero bytes.
    Text,
    |text| text.len() <= 4096 && !text.contains('\0'),
    "a text here has at most 4096 bytes, and no zero bytes"
);
text!(
    /// The identity of a pass or an event: 32 hexadecimal digits in lower case.
    Id,
    |text| text.len() == 32 && text.bytes().all(is_hex),
    "an identity has 32 hexadecimal digits"
);
text!(
    /// The UUID of an array in mdadm's form: four groups of 8 hexadecimal digits.
    ArrayUuid,
    |text| text.split(':').count() == 4 && text.split(':').all(|part| part.len() == 8 && part.bytes().all(is_hex)),
    "the UUID of an array has four groups of 8 hexadecimal digits"
);
text!(
    /// The kind of an event, or the name of a channel: 1 to 32 characters `a` to `z` and `-`.
    Kind,
    |text| (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
    "a kind of event, or a channel, has 1 to 32 characters 'a' to 'z' and '-'"
);

/// The number of rows of a page: 1 to 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(u16);

impl Limit {
    /// The largest page.
    pub const MAX: Self = Self(1000);

    /// The nearest limit to a number.
    #[must_use]
    pub fn nearest(rows: usize) -> Self {
        Self(u16::try_from(rows.clamp(1, 1000)).unwrap_or(1000))
    }

    pub(crate) fn column(self) -> i64 {
        i64::from(self.0)
    }
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$of])* $variant),+ }

        impl $name {
            /// The word in the database.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            pub(crate) fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

word! {
    /// Urgency of an event.
    Severity {
        /// Data are damaged or in danger.
        Critical = "critical",
        /// A person should act, not at once.
        Warning = "warning",
        /// Nothing needs to be done.
        Info = "info",
    }
}
word! {
    /// Effect of an event on the alert of its array, kind and subject.
    Change {
        /// The alert opens.
        Opened = "opened",
        /// The alert closes.
        Closed = "closed",
        /// It changes no alert.
        Note = "note",
    }
}
word! {
    /// Health of a drive.
    DriveState {
        /// Nothing is wrong.
        Well = "well",
        /// It may be failing.
        Suspect = "suspect",
        /// It says itself that it fails.
        Failing = "failing",
        /// It could not be asked.
        Unknown = "unknown",
    }
}

//! Kinds of alerts, and events.

use crate::time::Wall;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The urgency of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Data or service is at stake.
    Critical,
    /// Something must be done.
    Warning,
    /// Nothing needs to be done.
    Info,
}

impl Severity {
    /// The level of a line in the journal (syslog's numbers).
    #[must_use]
    pub const fn journal_level(self) -> u8 {
        match self {
            Self::Critical => 3,
            Self::Warning => 4,
            Self::Info => 6,
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal $severity:ident $ends:literal,)*) => {
        /// The kind of an alert.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns its urgency.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$kind => Severity::$severity,)* }
            }

            /// Returns whether it closes when a person acknowledges it.
            #[must_use]
            pub const fn ends_when_acknowledged(self) -> bool {
                match self { $(Self::$kind => $ends,)* }
            }
        }
    };
}

kinds! {
    /// Members are missing.
    Degraded "degraded" Critical false,
    /// A volume waits for its nodes.
    Held "held" Critical false,
    /// A drive failed.
    DriveFailed "drive-failed" Critical false,
    /// Tags do not belong to their drive's data.
    TagsStale "tags-stale" Critical false,
    /// An array is not there.
    ArrayGone "array-gone" Critical false,
    /// An array takes no writes.
    ReadOnly "read-only" Critical false,
    /// Data are damaged.
    Damage "damage" Critical false,
    /// Most damage is on one drive.
    DriveSuspect "drive-suspect" Warning true,
    /// A drive refused reads or writes.
    IoErrors "io-errors" Warning true,
    /// A drive is hot.
    Hot "hot" Warning true,
    /// The bitmap is lost.
    BitmapLost "bitmap-lost" Warning true,
    /// A spare is missing.
    SpareMissing "spare-missing" Warning true,
    /// Flash is worn.
    FlashWorn "flash-worn" Warning true,
    /// Cells were not checked in time.
    ScrubLate "scrub-late" Warning false,
    /// Stripes stayed busy.
    ScrubIncomplete "scrub-incomplete" Warning false,
    /// The limits do not let an array be read in time.
    ScrubInfeasible "scrub-infeasible" Warning false,
    /// Work of others keeps an array from being read.
    ScrubBlocked "scrub-blocked" Warning false,
    /// A channel does not take events.
    ChannelFailed "channel-failed" Warning false,
    /// The clock is, or was, wrong.
    Clock "clock" Warning false,
    /// There is no room for state.
    StateFull "state-full" Warning false,
    /// A unit of the system's manager failed.
    UnitFailed "unit-failed" Critical false,
    /// Copies of a mirror differ.
    CopiesDiffer "copies-differ" Info false,
    /// Damage was repaired.
    Repaired "repaired" Info false,
    /// A rebuild goes on or has ended.
    Rebuild "rebuild" Info false,
    /// An array is new.
    ArrayNew "array-new" Info false,
    /// A first complete pass found nothing.
    FirstClean "first-clean" Info false,
    /// All is well.
    Well "well" Info false,
    /// A test of the channels.
    Test "test" Info false,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The identity of an alert: kind and subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    kind: Kind,
    subject: String,
}

impl Key {
    /// A key. The subject, an array, drive or channel, is cut to 512 bytes.
    #[must_use]
    pub fn new(kind: Kind, subject: &str) -> Self {
        Self { kind, subject: bounded(subject, 512) }
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

/// The id of an event: the same each time that the event is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId {
    /// A random number, drawn when the state was made.
    pub series: u64,
    /// The event's number, from 1.
    pub number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.series, self.number)
    }
}

/// A change of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It opened.
    Opened,
    /// It is still open.
    Repeated,
    /// A person knows of it.
    Acknowledged,
    /// It closed.
    Closed,
    /// Information: nothing is open because of it.
    Told,
}

/// A change of an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Time of the change.
    pub at: Wall,
    /// The change.
    pub change: Change,
    /// To which alert.
    pub key: Key,
    /// The words for it, 2,048 bytes at most.
    pub detail: String,
}

/// A text cut to some bytes, at a character's end.
pub(super) fn bounded(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

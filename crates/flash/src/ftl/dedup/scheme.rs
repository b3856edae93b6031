//! The schemes, and the parts that they are made of.

use super::streams::Way;
use std::fmt;
use std::str::FromStr;

/// The filter of unique contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterKind {
    Absent,
    Ever,
    Live,
}

/// The pages that are looked up in idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// None.
    Never,
    /// All that were written since.
    All,
    /// Pages that the filter could not tell to be unique; the others are only indexed.
    Undetermined,
}

/// The collector of garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The translation layer: it chooses where each page goes, and sees each page that it moves.
    Own,
    /// A drive below, to which streams are placement handles, as with NVMe flexible data placement.
    /// It moves pages as it sees fit.
    Handles {
        /// Pages of different handles are never moved into the same block (persistently isolated);
        /// otherwise all moved pages share blocks (initially isolated).
        isolated: bool,
    },
}

/// The plan of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Each write is hashed and looked up before it is programmed.
    pub inline: bool,
    /// The pages that are looked up in idle time.
    pub idle: Lookup,
    /// The filter.
    pub(super) filter: FilterKind,
    /// Garbage collection looks up the pages that it meets.
    pub in_gc: bool,
    /// The way in which streams are chosen.
    pub way: Way,
}

impl Plan {
    /// Returns whether each write is hashed weakly.
    #[must_use]
    pub fn uses_weak(&self) -> bool {
        self.filter != FilterKind::Absent
    }
}

/// A named scheme. `docs/design/flash-study.md`, *Schemes*, says what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// No deduplication.
    None,
    /// Before each write.
    Inline,
    /// In idle time, one stream.
    Offline,
    /// As published: unique and undetermined contents apart.
    Separated,
    /// The same, with a stream for garbage collection.
    OwnGc,
    /// The filter forgets dead contents.
    Live,
    /// Streams by the last life of contents.
    Lives,
    /// Streams by the last life of logical pages, and by age in garbage collection.
    Ages,
    /// Streams as the best ghost chooses them.
    Measured,
}

impl Scheme {
    /// All schemes, plain ones first.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Inline,
        Self::Offline,
        Self::Separated,
        Self::OwnGc,
        Self::Live,
        Self::Lives,
        Self::Ages,
        Self::Measured,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Inline => "inline",
            Self::Offline => "offline",
            Self::Separated => "separated",
            Self::OwnGc => "own-gc",
            Self::Live => "live",
            Self::Lives => "lives",
            Self::Ages => "ages",
            Self::Measured => "measured",
        }
    }

    /// Memory for the tables of a drive of so many logical and physical pages in bytes, at most;
    /// the table in `docs/design/ftl.md` has the terms. What shared pages need is not in it, nor is
    /// the filter of the published scheme, which has no bound.
    #[must_use]
    pub fn memory_bytes(self, logical: u64, physical: u64) -> u64 {
        let tables = 4 * logical + 8 * physical;
        let index = 4 * physical.next_power_of_two() + 13 * physical;
        let looks = 8 * logical + physical;
        // Tables by weak hash have 8 bytes and a sign for each place, and seven eighths are used.
        let by_weak = |entries: u64| 9 * (entries * 8).div_ceil(7).next_power_of_two();
        let live = 4 * physical + by_weak(logical);
        let lives = 8 * physical + by_weak(physical);
        let ghosts = 4 * physical;
        tables
            + match self {
                Self::None => 0,
                Self::Inline => index,
                Self::Offline | Self::Separated | Self::OwnGc => index + looks,
                Self::Live => index + looks + live,
                Self::Lives | Self::Ages => index + looks + live + lives,
                Self::Measured => index + looks + live + lives + ghosts,
            }
    }

    /// The plan of it.
    #[must_use]
    pub fn plan(self) -> Plan {
        let none = Plan {
            inline: false,
            idle: Lookup::Never,
            filter: FilterKind::Absent,
            in_gc: false,
            way: Way::Single,
        };
        let separated =
            Plan { idle: Lookup::Undetermined, filter: FilterKind::Ever, way: Way::SplitGcInU, ..none };
        let live = Plan { filter: FilterKind::Live, way: Way::Split, ..separated };
        let full = Plan { in_gc: true, ..live };
        match self {
            Self::None => none,
            Self::Inline => Plan { inline: true, ..none },
            Self::Offline => Plan { idle: Lookup::All, ..none },
            Self::Separated => separated,
            Self::OwnGc => Plan { way: Way::Split, ..separated },
            Self::Live => live,
            Self::Lives => Plan { way: Way::Lives, ..full },
            Self::Ages => Plan { way: Way::Ages, ..full },
            Self::Measured => Plan { way: Way::Measured, ..full },
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == text).ok_or_else(|| {
            format!("'{text}' is no scheme; schemes are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

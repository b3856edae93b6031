//! Write streams, and ways to choose them.

/// A write stream: pages of one stream share blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(pub u8);

impl Stream {
    /// Streams at most.
    pub const COUNT: usize = 8;
    /// Unique contents, and everything if there is one stream.
    pub const UNIQUE: Self = Self(0);
    /// Contents that may be duplicates.
    pub const UNDETERMINED: Self = Self(1);
    /// Pages that are expected to die soon.
    pub const SHORT: Self = Self(2);
    /// Contents that died before, after a long life.
    pub const LONG: Self = Self(3);
    /// The first stream of garbage collection: the youngest pages.
    pub const COLLECTED: Self = Self(4);

    /// The stream for pages of this one that a drive moves without mixing streams.
    #[must_use]
    pub(super) fn collected_apart(self) -> Self {
        Self(Self::COLLECTED.0 + self.0 % Self::COLLECTED.0)
    }

    /// Returns whether its pages are expected to stay: such streams take worn blocks.
    #[must_use]
    pub fn stays(self) -> bool {
        self.0 >= Self::COLLECTED.0
    }
}

/// A content that died before lived shortly, if less than the drive's mean life divided by this.
const SHORT_CONTENT: f32 = 16.0;

/// The facts of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Features {
    pub(super) duplicate: bool,
    pub(super) content_life: Option<u32>,
    pub(super) lpn_life: Option<u32>,
    pub(super) mean_life: f32,
}

/// A way to choose streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One stream for writes, one for garbage collection.
    Single,
    /// Unique and undetermined contents; garbage collection writes to the unique ones.
    SplitGcInU,
    /// Unique and undetermined contents, and garbage collection.
    Split,
    /// As `Split`, and contents that died before count as undetermined: they tend to die soon
    /// again.
    Died,
    /// As `Split`, and contents that died before by their last life.
    Lives,
    /// As `Split`, and LPNs by the life of the version that is overwritten; garbage collection by
    /// age.
    Ages,
    /// Only LPNs by the life of the version that is overwritten; garbage collection by age.
    AgesOnly,
    /// `Lives` and `Ages` together.
    Both,
    /// The way of the best ghost.
    Measured,
}

impl Way {
    /// The ways that are compared with each other.
    pub(super) const GHOSTS: [Self; 7] =
        [Self::Split, Self::Single, Self::Died, Self::Lives, Self::Ages, Self::AgesOnly, Self::Both];

    pub(super) fn uses_lives(self) -> bool {
        !matches!(self, Self::Single | Self::SplitGcInU | Self::Split)
    }

    fn by_age(self) -> bool {
        matches!(self, Self::Ages | Self::AgesOnly | Self::Both | Self::Measured)
    }

    /// Streams that may be open, and how many of them are of garbage collection alone.
    pub(super) fn streams(self) -> (u32, u32) {
        match self {
            Self::Single => (2, 1),
            Self::SplitGcInU => (2, 0),
            Self::Split | Self::Died => (3, 1),
            Self::Lives => (5, 1),
            Self::Ages => (6, 3),
            Self::AgesOnly => (5, 3),
            Self::Both | Self::Measured => (7, 3),
        }
    }

    /// Returns whether pages may be written to a stream.
    pub(super) fn uses(self, stream: Stream) -> bool {
        match stream {
            Stream::UNIQUE => true,
            Stream::UNDETERMINED => !matches!(self, Self::Single | Self::AgesOnly),
            Stream::SHORT => self.by_age() || self == Self::Lives,
            Stream::LONG => matches!(self, Self::Lives | Self::Both | Self::Measured),
            Stream::COLLECTED => self != Self::SplitGcInU,
            _ => self.by_age(),
        }
    }

    pub(super) fn host(self, write: &Features) -> Stream {
        let by_content = match write.content_life {
            Some(life) if (life as f32) < write.mean_life / SHORT_CONTENT => Some(Stream::SHORT),
            Some(_) => Some(Stream::LONG),
            None => None,
        };
        let short = write.lpn_life.is_some_and(|life| (life as f32) < write.mean_life / 2.0);
        let by_lpn = short.then_some(Stream::SHORT);
        let duplicate = write.duplicate.then_some(Stream::UNDETERMINED);
        let chosen = match self {
            Self::Single | Self::Measured => None,
            Self::SplitGcInU | Self::Split => duplicate,
            Self::Died => duplicate.or(by_content.map(|_| Stream::UNDETERMINED)),
            Self::Lives => duplicate.or(by_content),
            Self::Ages => duplicate.or(by_lpn),
            Self::AgesOnly => by_lpn,
            Self::Both => duplicate.or(by_content).or(by_lpn),
        };
        chosen.unwrap_or(Stream::UNIQUE)
    }

    /// The stream of a page that garbage collection moves, of the age and the mean life given.
    pub(super) fn collected(self, age: Option<(u32, f32)>) -> Stream {
        match (self, age) {
            (Self::SplitGcInU, _) => Stream::UNIQUE,
            (way, Some((age, mean))) if way.by_age() => match age as f32 {
                age if age < mean => Stream::COLLECTED,
                age if age < 4.0 * mean => Stream(Stream::COLLECTED.0 + 1),
                _ => Stream(Stream::COLLECTED.0 + 2),
            },
            _ => Stream::COLLECTED,
        }
    }
}

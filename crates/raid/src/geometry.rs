//! The place of each chunk of an array on its members.
//!
//! # The formulas
//! n members, stripe s, data chunk d of the stripe. *P* is:
//!
//! | layout | P | Q (RAID-6) |
//! |---|---|---|
//! | left-* | n-1 - s mod n | P+1 mod n |
//! | right-*, ddf-zero-restart | s mod n | P+1 mod n |
//! | ddf-N-restart | n-1 - (s+1) mod n | P+1 mod n |
//! | ddf-N-continue | n-1 - s mod n | P-1 mod n |
//! | parity-first | 0 | 1 |
//! | parity-last, RAID-4 | n-1 (RAID-6: n-2) | n-1 |
//! | *-6 | as RAID-5 on n-1 members | n-1 |
//!
//! Data chunks go to the remaining members, either in ascending order (asymmetric, parity-first,
//! parity-last, the two *restart*), or in ascending order with wrap-around from the member after
//! the parities (symmetric, ddf-N-continue). "After the parities" means after Q; for
//! ddf-N-continue, whose Q comes before P, it means after P.
//!
//! # The exponent of Q
//! Q is the sum of g^e * data with g = 2. In md's own layouts e counts the *data* members, from the
//! member after Q round to Q. With asymmetric rotation this differs from the data index, which
//! begins at member 0. The DDF layouts count P and Q as blocks of zeros, so e is the member's
//! number. In the `*-6` layouts Q stays on the last member, and e begins at member 0.
//!
//! Sources: md's documented layouts, verified with arrays made by Linux (see `tests/images.rs`);
//! H. P. Anvin, *The mathematics of RAID-6*; SNIA *Common RAID Disk Data Format* 2.0, section 4.

mod rotation;
#[cfg(test)]
mod tests;

use std::fmt;

use pumice_base::units::{Role, StripeIndex};
use pumice_parity::array_layout::{ArrayLayout, Band, StripeClass};
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::code::{Code, ColumnRole};

use crate::copies::Copies;
use crate::layout::{Layout, Level};

/// The smallest chunk of md: a page.
pub const MIN_CHUNK: u64 = 4096;

/// The largest supported chunk.
pub const MAX_CHUNK: u64 = 1 << 30;

/// An impossible geometry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The level does not know the layout, or has none and one was given, or needs one.
    #[error("{level} cannot have {}", layout.map_or("no layout".to_owned(), |l| format!("layout {l}")))]
    Layout {
        /// The level.
        level: Level,
        /// The layout.
        layout: Option<Layout>,
    },
    /// Too few or too many members.
    #[error("raid_disks is {found}; {level} has {} to {}", level.min_disks(), level.max_disks())]
    RaidDisks {
        /// The level.
        level: Level,
        /// The number given.
        found: u16,
    },
    /// A chunk that is no power of two, or too small or too large.
    #[error("chunk is {found} bytes; must be a power of two from {MIN_CHUNK} to {MAX_CHUNK}")]
    Chunk {
        /// The size given, in bytes.
        found: u64,
    },
    /// An unsupported layout of copies.
    #[error("{copies} on {raid_disks} members: {why}")]
    Copies {
        /// The layout.
        copies: Copies,
        /// Members.
        raid_disks: u16,
        /// The reason.
        why: &'static str,
    },
    /// A member that does not hold one chunk, or an array whose size does not fit 64 bits.
    #[error("component size is {found} bytes; must hold a chunk, and the array's size must fit 64 bits")]
    Component {
        /// The size given, in bytes.
        found: u64,
    },
}

/// The layout of an array's chunks on its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    level: Level,
    layout: Option<Layout>,
    raid_disks: u16,
    chunk_bytes: u64,
    stripes: u64,
}

/// The members of one stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeMap {
    /// The member with the XOR parity.
    pub p: Role,
    /// The member with the second parity, at RAID-6.
    pub q: Option<Role>,
    /// The members with data, in the order of the array's addresses.
    pub data: Vec<Role>,
    /// For each of `data` the exponent of its coefficient in Q; empty without Q.
    pub exponents: Vec<u8>,
}

/// A place in the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location {
    /// The stripe.
    pub stripe: StripeIndex,
    /// The member.
    pub role: Role,
    /// Bytes from the start of the chunk.
    pub offset: u64,
}

impl Geometry {
    /// The geometry of an array of `raid_disks` members that each give `component_bytes` to it. The
    /// rest of a member after its last whole chunk is not used.
    ///
    /// # Errors
    /// If a number is out of its range, see [`GeometryError`].
    pub fn new(
        level: Level,
        layout: Option<Layout>,
        raid_disks: u16,
        chunk_bytes: u64,
        component_bytes: u64,
    ) -> Result<Self, GeometryError> {
        let parity = !level.is_mirror();
        if !parity || layout.map_or(level != Level::Raid4, |l| !l.is_of(level)) {
            return Err(GeometryError::Layout { level, layout });
        }
        if !(level.min_disks()..=level.max_disks()).contains(&raid_disks) {
            return Err(GeometryError::RaidDisks { level, found: raid_disks });
        }
        if !chunk_bytes.is_power_of_two() || !(MIN_CHUNK..=MAX_CHUNK).contains(&chunk_bytes) {
            return Err(GeometryError::Chunk { found: chunk_bytes });
        }
        let stripes = component_bytes / chunk_bytes;
        // All members together bound the array, and with it every product below.
        if stripes == 0 || component_bytes.checked_mul(u64::from(raid_disks)).is_none() {
            return Err(GeometryError::Component { found: component_bytes });
        }
        Ok(Self { level, layout, raid_disks, chunk_bytes, stripes })
    }

    /// The level.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The layout; `None` for RAID-4.
    #[must_use]
    pub const fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Members, parity included.
    #[must_use]
    pub const fn raid_disks(&self) -> u16 {
        self.raid_disks
    }

    /// Members' worth of data.
    #[must_use]
    pub const fn data_disks(&self) -> u16 {
        self.raid_disks - self.level.parities()
    }

    /// Bytes of a chunk.
    #[must_use]
    pub const fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Stripes of the array.
    #[must_use]
    pub const fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Bytes of data in a stripe.
    #[must_use]
    pub const fn stripe_bytes(&self) -> u64 {
        self.data_disks() as u64 * self.chunk_bytes
    }

    /// Bytes of the array.
    #[must_use]
    pub const fn array_bytes(&self) -> u64 {
        self.stripes * self.stripe_bytes()
    }

    /// Number of stripes after which the places of parity and data repeat.
    #[must_use]
    pub const fn period(&self) -> u64 {
        let n = self.raid_disks as u64;
        match self.layout {
            None | Some(Layout::ParityFirst | Layout::ParityLast | Layout::ParityFirst6) => 1,
            Some(
                Layout::LeftAsymmetric6
                | Layout::RightAsymmetric6
                | Layout::LeftSymmetric6
                | Layout::RightSymmetric6,
            ) => n - 1,
            Some(_) => n,
        }
    }

    /// The code of its stripes. Data columns are numbered by the exponent with which they enter Q,
    /// so some are not used.
    pub(crate) fn code(&self) -> Code {
        let data = usize::from(self.raid_disks);
        match self.level {
            Level::Raid4 | Level::Raid5 => Code::raid5(data),
            Level::Raid6 => Code::raid6(data),
            Level::Raid1 | Level::Raid10 => unreachable!("copies have an arrangement of their own"),
        }
        .expect("a geometry has as many members as a code has columns")
    }

    /// The column of [`code`](Self::code) that each role holds in `stripe`.
    pub(crate) fn columns(&self, stripe: StripeIndex) -> Vec<ColumnRole> {
        let (p, q) = self.parity_roles(stripe);
        let column = |role: Role| match role {
            role if role == p => ColumnRole::Parity(0),
            role if Some(role) == q => ColumnRole::Parity(1),
            // Without Q any column of the code does: they are all alike.
            role => ColumnRole::Data(self.q_exponent(p, q, role).map_or(role.index(), usize::from)),
        };
        (0..self.raid_disks).map(Role).map(column).collect()
    }

    /// The parity-check matrix of `stripe`: a row for P and at RAID-6 one for Q, with a coefficient
    /// for each role. The sum over the roles of coefficient times byte is zero in a consistent
    /// stripe.
    #[must_use]
    pub fn check_rows(&self, stripe: StripeIndex) -> Vec<Vec<u8>> {
        let check = self.check_matrix(stripe);
        (0..check.rows()).map(|row| check.row(row).to_vec()).collect()
    }

    /// The same as a matrix, whose columns are the roles. [`CheckMatrix::eliminate`] with the
    /// absent roles returns the equations that remain without them.
    #[must_use]
    pub fn check_matrix(&self, stripe: StripeIndex) -> CheckMatrix {
        self.class(&self.code(), stripe).check().clone()
    }

    fn class(&self, code: &Code, stripe: StripeIndex) -> StripeClass {
        let order: Vec<usize> = self.stripe(stripe).data.iter().map(|role| role.index()).collect();
        StripeClass::of_code(code, &self.columns(stripe), &order)
    }

    /// The same for users that do not depend on md: one band, with the classes of the rotation.
    ///
    /// # Panics
    /// Never: a geometry has stripes, and a chunk of at most 1 GiB.
    #[must_use]
    pub fn array_layout(&self) -> ArrayLayout {
        let code = self.code();
        let band = Band {
            stripes: 0..self.stripes,
            chunk_bytes: u32::try_from(self.chunk_bytes).expect("a chunk is at most 1 GiB"),
            starts: vec![Some(0); usize::from(self.raid_disks)],
            pitch: self.chunk_bytes,
            array_start: 0,
            array_pitch: self.stripe_bytes(),
            classes: (0..self.period()).map(|class| self.class(&code, StripeIndex(class))).collect(),
        };
        ArrayLayout::new(usize::from(self.raid_disks), vec![band]).expect("one band of one shape")
    }

    /// The byte address in the array of the byte at `offset` in the chunk of `role`; `None` for
    /// parity and for places outside the array.
    #[must_use]
    pub fn array_offset(&self, stripe: StripeIndex, role: Role, offset: u64) -> Option<u64> {
        if stripe.get() >= self.stripes || offset >= self.chunk_bytes {
            return None;
        }
        let index = self.data_index(stripe, role)?;
        Some(stripe.get() * self.stripe_bytes() + u64::from(index) * self.chunk_bytes + offset)
    }

    /// The inverse of [`Geometry::array_offset`]; `None` past the end of the array.
    #[must_use]
    pub fn locate(&self, array_offset: u64) -> Option<Location> {
        if array_offset >= self.array_bytes() {
            return None;
        }
        let stripe = StripeIndex(array_offset / self.stripe_bytes());
        let within = array_offset % self.stripe_bytes();
        let role = self.data_role(stripe, (within / self.chunk_bytes) as u16);
        Some(Location { stripe, role, offset: within % self.chunk_bytes })
    }

    /// Bytes from the start of a member's data area to its chunk of `stripe`.
    #[must_use]
    pub const fn chunk_offset(&self, stripe: StripeIndex) -> u64 {
        stripe.get().saturating_mul(self.chunk_bytes)
    }

    /// The stripes that `sectors` (of a member's data area, or of the parity rotation) touch,
    /// clipped to the array.
    pub(crate) fn stripes_of_sectors(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        let chunk = self.chunk_bytes / pumice_base::units::SECTOR;
        let first = (start / chunk).min(self.stripes);
        first..end.div_ceil(chunk).clamp(first, self.stripes)
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        if let Some(layout) = self.layout {
            write!(f, " {layout}")?;
        }
        write!(f, ", {} members, {} KiB chunks", self.raid_disks, self.chunk_bytes / 1024)
    }
}

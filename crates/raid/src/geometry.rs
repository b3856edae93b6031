//! Which chunk of an array lies on which member.
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
//! Data chunks go to the members that are left, either in ascending order (asymmetric, parity-first, parity-last,
//! the two *restart*), or ascending and wrapping round from the member after the parities (symmetric, ddf-N-continue).
//! "After the parities" is after Q, but for ddf-N-continue, whose Q comes before P, after P.
//!
//! # The exponent of Q
//! Q is the sum of g^e * data with g = 2. In md's own layouts e counts the *data* members from the one after Q round to
//! Q again. With asymmetric rotation that is not the data index: it starts anew where Q stands, the index at member
//! 0. The DDF layouts count P and Q as blocks of zeros, so there e is the member's number. In the *-6 layouts
//! Q stays on the last member and e starts at member 0.
//!
//! Sources: md's documented layouts, tried against arrays made by Linux (see `tests/images.rs`); H. P. Anvin, *The
//! mathematics of RAID-6*; SNIA *Common RAID Disk Data Format* 2.0, section 4.

use std::fmt;

use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::gf;
use pumice_units::{Role, StripeIndex};

use crate::layout::{Layout, Level};

/// The smallest chunk of md: a page.
pub const MIN_CHUNK: u64 = 4096;

/// The largest chunk that is worked with.
pub const MAX_CHUNK: u64 = 1 << 30;

/// A geometry that cannot be.
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
    /// A member that does not hold one chunk, or an array whose size does not fit 64 bits.
    #[error("component size is {found} bytes; must hold a chunk, and the array's size must fit 64 bits")]
    Component {
        /// The size given, in bytes.
        found: u64,
    },
}

/// How the chunks of an array lie on its members.
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

/// What a place in the array is made of.
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
    /// The geometry of an array of `raid_disks` members that each give `component_bytes` to it. What is left of a member after the last
    /// whole chunk is not used.
    ///
    /// # Errors
    /// Where a number is out of its range, see [`GeometryError`].
    pub fn new(
        level: Level,
        layout: Option<Layout>,
        raid_disks: u16,
        chunk_bytes: u64,
        component_bytes: u64,
    ) -> Result<Self, GeometryError> {
        if layout.map_or(level != Level::Raid4, |l| !l.is_of(level)) {
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

    /// Stripes after which the places of parity and data repeat.
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

    /// The places of P and Q in `stripe`.
    #[must_use]
    pub fn parity_roles(&self, stripe: StripeIndex) -> (Role, Option<Role>) {
        let n = self.raid_disks;
        // The remainder of a division by a u16 fits one.
        let turn = |by: u16| (stripe.get() % u64::from(by)) as u16;
        let q_after = |p: u16| (p, (p + 1) % n);
        let (p, q) = match self.layout {
            None => (n - 1, 0),
            Some(Layout::ParityLast) if self.level == Level::Raid5 => (n - 1, 0),
            Some(Layout::ParityLast) => (n - 2, n - 1),
            Some(Layout::ParityFirst) => (0, 1),
            Some(Layout::LeftAsymmetric | Layout::LeftSymmetric) => q_after(n - 1 - turn(n)),
            Some(Layout::RightAsymmetric | Layout::RightSymmetric | Layout::DdfZeroRestart) => {
                q_after(turn(n))
            }
            Some(Layout::DdfNRestart) => q_after(n - 1 - (turn(n) + 1) % n),
            Some(Layout::DdfNContinue) => {
                let p = n - 1 - turn(n);
                (p, (p + n - 1) % n)
            }
            Some(Layout::LeftAsymmetric6 | Layout::LeftSymmetric6) => (n - 2 - turn(n - 1), n - 1),
            Some(Layout::RightAsymmetric6 | Layout::RightSymmetric6) => (turn(n - 1), n - 1),
            Some(Layout::ParityFirst6) => (0, n - 1),
        };
        (Role(p), (self.level == Level::Raid6).then_some(Role(q)))
    }

    /// Whether the data members are counted from the one after parity on.
    const fn wraps(&self) -> bool {
        matches!(
            self.layout,
            Some(
                Layout::LeftSymmetric
                    | Layout::RightSymmetric
                    | Layout::LeftSymmetric6
                    | Layout::RightSymmetric6
                    | Layout::DdfNContinue
            )
        )
    }

    /// The members that take part in the rotation: all but the fixed Q of the *-6 layouts.
    const fn rotating(&self) -> u16 {
        match self.layout {
            Some(layout) if layout.number() >= Layout::LeftAsymmetric6.number() => self.raid_disks - 1,
            _ => self.raid_disks,
        }
    }

    /// The members of `stripe`.
    #[must_use]
    pub fn stripe(&self, stripe: StripeIndex) -> StripeMap {
        let (p, q) = self.parity_roles(stripe);
        let rotating = self.rotating();
        let start = if self.wraps() { self.after_parity(p, q) } else { 0 };
        let data: Vec<Role> = (0..self.raid_disks)
            .map(|i| Role(if i < rotating { (start + i) % rotating } else { i }))
            .filter(|role| *role != p && Some(*role) != q)
            .collect();
        let exponents = data.iter().filter_map(|role| self.q_exponent(p, q, *role)).collect();
        StripeMap { p, q, data, exponents }
    }

    /// The member from which a wrapping layout counts its data members.
    fn after_parity(&self, p: Role, q: Option<Role>) -> u16 {
        let n = self.rotating();
        let after_p = (p.get() + 1) % n;
        match q {
            Some(q) if q.get() == after_p => (q.get() + 1) % n,
            _ => after_p,
        }
    }

    /// The data index of `role` in `stripe`; `None` where it holds parity, or is no member.
    #[must_use]
    pub fn data_index(&self, stripe: StripeIndex, role: Role) -> Option<u16> {
        let (p, q) = self.parity_roles(stripe);
        if role.get() >= self.raid_disks || role == p || Some(role) == q {
            return None;
        }
        if self.wraps() {
            // No parity stands between the first data member and Q or P, where the count ends.
            let n = self.rotating();
            return Some((role.get() + n - self.after_parity(p, q)) % n);
        }
        let before = u16::from(p < role) + q.map_or(0, |q| u16::from(q < role));
        Some(role.get() - before)
    }

    /// The exponent of the generator by which the data of `role` enters Q.
    fn q_exponent(&self, p: Role, q: Option<Role>, role: Role) -> Option<u8> {
        let q = q?;
        let exponent = match self.layout {
            Some(Layout::DdfZeroRestart | Layout::DdfNRestart | Layout::DdfNContinue) => role.get(),
            _ => {
                let after_q = |role: Role| (role.get() + self.raid_disks - q.get() - 1) % self.raid_disks;
                after_q(role) - u16::from(after_q(p) < after_q(role))
            }
        };
        u8::try_from(exponent).ok()
    }

    /// The parity-check matrix of `stripe`: a row for P and at RAID-6 one for Q, with a coefficient for each role. The sum over the
    /// roles of coefficient times byte is zero where the stripe is consistent.
    #[must_use]
    pub fn check_rows(&self, stripe: StripeIndex) -> Vec<Vec<u8>> {
        let (p, q) = self.parity_roles(stripe);
        let roles = || (0..self.raid_disks).map(Role);
        let Some(q) = q else { return vec![vec![1; usize::from(self.raid_disks)]] };
        let first = roles().map(|role| u8::from(role != q)).collect();
        let second = roles().map(|role| match role {
            role if role == p => 0,
            role if role == q => 1,
            role => self.q_exponent(p, Some(q), role).map_or(0, |e| gf::EXP[usize::from(e)]),
        });
        vec![first, second.collect()]
    }

    /// The same as a matrix, whose columns are the roles. [`CheckMatrix::eliminate`] with the absent roles gives what is left to check
    /// without them.
    #[must_use]
    pub fn check_matrix(&self, stripe: StripeIndex) -> CheckMatrix {
        let rows = self.check_rows(stripe);
        CheckMatrix::new(rows.len(), usize::from(self.raid_disks), &rows.concat())
            .expect("one or two rows, each with a coefficient for each of at least two roles")
    }

    /// Where in the array, in bytes, the byte at `offset` in the chunk of `role` lies; `None` for parity and for what is
    /// outside the array.
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

    /// The member with data chunk `index` of `stripe`.
    fn data_role(&self, stripe: StripeIndex, index: u16) -> Role {
        let (p, q) = self.parity_roles(stripe);
        if self.wraps() {
            return Role((self.after_parity(p, q) + index) % self.rotating());
        }
        let low = q.map_or(p, |q| p.min(q));
        let high = q.map_or(u16::MAX, |q| p.max(q).get());
        // Step over each parity that stands at or before the place reached so far.
        let role = index + u16::from(low.get() <= index);
        Role(role + u16::from(high <= role))
    }

    /// Bytes from the start of a member's data area to its chunk of `stripe`.
    #[must_use]
    pub const fn chunk_offset(&self, stripe: StripeIndex) -> u64 {
        stripe.get().saturating_mul(self.chunk_bytes)
    }

    /// The stripes that `sectors` (of a member's data area, or of the parity rotation) touch, clipped to the array.
    pub(crate) fn stripes_of_sectors(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        let chunk = self.chunk_bytes / pumice_units::SECTOR;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(level: Level, layout: Option<Layout>, disks: u16) -> Geometry {
        Geometry::new(level, layout, disks, 4096, 4096 * 1000).unwrap()
    }

    fn every_kind() -> Vec<Geometry> {
        let mut all = Vec::new();
        for disks in 2..12 {
            all.push(geometry(Level::Raid4, None, disks));
            for layout in Layout::ALL {
                all.extend(
                    [Level::Raid5, Level::Raid6].into_iter().filter_map(|level| {
                        Geometry::new(level, Some(layout), disks, 4096, 4096 * 1000).ok()
                    }),
                );
            }
        }
        all
    }

    #[test]
    fn period_is_the_smallest() {
        for g in every_kind() {
            let maps: Vec<_> = (0..100).map(|s| g.stripe(StripeIndex(s))).collect();
            let smallest = (1..50).find(|by| (0..50).all(|s| maps[s] == maps[s + by])).unwrap();
            assert_eq!(g.period(), smallest as u64, "{g}");
        }
    }

    #[test]
    fn stripe_map_and_closed_forms_agree() {
        for g in every_kind() {
            for s in (0..2 * g.period()).map(StripeIndex) {
                let map = g.stripe(s);
                assert_eq!(map.data.len(), usize::from(g.data_disks()), "{g}");
                for (d, role) in map.data.iter().enumerate() {
                    assert_eq!(g.data_index(s, *role), Some(d as u16), "{g} stripe {s}");
                    assert_eq!(g.data_role(s, d as u16), *role, "{g} stripe {s}");
                }
                assert_eq!(g.data_index(s, map.p), None);
                assert!(map.q.is_none_or(|q| g.data_index(s, q).is_none()));
            }
        }
    }

    #[test]
    fn array_offsets_go_both_ways_and_cover_the_array_once() {
        for g in every_kind() {
            for chunk in 0..3 * u64::from(g.raid_disks()) * u64::from(g.data_disks()) {
                let at = chunk * g.chunk_bytes() + 17;
                let place = g.locate(at).unwrap();
                assert_eq!(g.array_offset(place.stripe, place.role, place.offset), Some(at), "{g}");
            }
            assert_eq!(g.locate(g.array_bytes()), None);
            assert!(g.locate(g.array_bytes() - 1).is_some());
            assert_eq!(g.array_offset(StripeIndex(g.stripes()), Role(0), 0), None);
            assert_eq!(g.array_offset(StripeIndex(0), Role(g.raid_disks()), 0), None);
            assert_eq!(g.array_offset(StripeIndex(0), Role(0), g.chunk_bytes()), None);
        }
    }

    #[test]
    fn q_coefficients_differ_and_rows_annihilate_codewords() {
        for g in every_kind().into_iter().filter(|g| g.level() == Level::Raid6) {
            for s in (0..g.period()).map(StripeIndex) {
                let map = g.stripe(s);
                let rows = g.check_rows(s);
                let mut exponents = map.exponents.clone();
                exponents.sort_unstable();
                exponents.dedup();
                assert_eq!(exponents.len(), map.data.len(), "{g}");
                let mut bytes = vec![0_u8; usize::from(g.raid_disks())];
                let (mut p, mut q) = (0, 0);
                for (i, role) in map.data.iter().enumerate() {
                    let x = (i as u8).wrapping_mul(73) ^ 0xA5;
                    bytes[role.index()] = x;
                    p ^= x;
                    q ^= gf::mul(x, gf::EXP[usize::from(map.exponents[i])]);
                }
                bytes[map.p.index()] = p;
                bytes[map.q.unwrap().index()] = q;
                let sum = |row: &[u8]| row.iter().zip(&bytes).fold(0, |a, (c, x)| a ^ gf::mul(*c, *x));
                assert!(rows.iter().all(|row| sum(row) == 0), "{g} stripe {s}");
                for absent in (0..g.raid_disks()).map(Role) {
                    let left = g.check_matrix(s).eliminate(&[absent.index()]);
                    assert_eq!((left.rows(), sum(left.row(0))), (1, 0));
                    for role in (0..g.raid_disks()).map(Role) {
                        let coefficient = left.get(0, role.index());
                        assert_eq!(
                            coefficient == 0,
                            role == absent,
                            "{g} stripe {s} without {absent}, role {role}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_what_no_array_can_have() {
        let ls = Some(Layout::LeftSymmetric);
        let new = Geometry::new;
        assert!(matches!(new(Level::Raid4, ls, 4, 4096, 1 << 20), Err(GeometryError::Layout { .. })));
        assert!(matches!(new(Level::Raid5, None, 4, 4096, 1 << 20), Err(GeometryError::Layout { .. })));
        let n6 = Some(Layout::LeftSymmetric6);
        assert!(matches!(new(Level::Raid5, n6, 4, 4096, 1 << 20), Err(GeometryError::Layout { .. })));
        assert!(matches!(new(Level::Raid6, ls, 3, 4096, 1 << 20), Err(GeometryError::RaidDisks { .. })));
        assert!(matches!(new(Level::Raid6, ls, 256, 4096, 1 << 20), Err(GeometryError::RaidDisks { .. })));
        assert!(matches!(new(Level::Raid5, ls, 1, 4096, 1 << 20), Err(GeometryError::RaidDisks { .. })));
        for chunk in [0, 2048, 12288, 1 << 31] {
            assert!(matches!(new(Level::Raid5, ls, 4, chunk, 1 << 40), Err(GeometryError::Chunk { .. })));
        }
        for component in [0, 4095, u64::MAX] {
            assert!(matches!(
                new(Level::Raid5, ls, 4, 4096, component),
                Err(GeometryError::Component { .. })
            ));
        }
        // The largest that fits does not overflow anywhere.
        let large = new(Level::Raid5, ls, 4, 4096, u64::MAX / 4).unwrap();
        let end = large.array_bytes() - 1;
        assert_eq!(large.locate(end).and_then(|l| large.array_offset(l.stripe, l.role, l.offset)), Some(end));
    }

    #[test]
    fn sectors_become_whole_stripes() {
        let g = geometry(Level::Raid5, Some(Layout::LeftSymmetric), 4);
        assert_eq!(g.stripes_of_sectors(0, 1), 0..1);
        assert_eq!(g.stripes_of_sectors(7, 9), 0..2);
        assert_eq!(g.stripes_of_sectors(8, 8), 1..1);
        assert_eq!(g.stripes_of_sectors(9000, u64::MAX), 1000..1000);
    }
}

//! Rows and windows: the units in which an array is written.
//!
//! A *row* is the block of 4096 bytes at the same place of every member; its equations stand alone.
//! A *window* is a run of rows within a chunk. `docs/design/volumes.md`, *Units*.

use pumice_base::units::{Role, StripeIndex};
use pumice_parity::check_matrix::CheckMatrix;
use pumice_raid::geometry::Geometry;
use std::collections::BTreeSet;

pub use pumice_offload::record::{BLOCK, Rows, WINDOW_ROWS, Window};

/// A set of members.
pub type RoleSet = BTreeSet<Role>;

/// The places of data and parity, as far as the volume needs them.
pub trait RowLayout {
    /// Members, parities included.
    fn members(&self) -> u16;
    /// Members' worth of data.
    fn data_members(&self) -> u16;
    /// Bytes of a chunk: a power of two, at least [`BLOCK`].
    fn chunk_bytes(&self) -> u64;
    /// Stripes of the array.
    fn stripes(&self) -> u64;
    /// Stripes after which the places of data and parity repeat.
    fn period(&self) -> u64;
    /// The members with data in `stripe`, in the order of the array's addresses.
    fn data_roles(&self, stripe: StripeIndex) -> Vec<Role>;
    /// The equations of `stripe`. Columns are roles.
    fn equations(&self, stripe: StripeIndex) -> CheckMatrix;

    /// Members' worth of parity: no code corrects more losses.
    fn parities(&self) -> u16 {
        self.members() - self.data_members()
    }

    /// The number of members that may be lost, whichever they are: the parities. A layout whose
    /// code does not correct every set of so many losses has its own, lower number.
    fn survives(&self) -> u16 {
        self.parities()
    }

    /// Returns whether the blocks of `missing` members follow from the others in every row: their
    /// columns are independent in each stripe of the period. `false` if one is no member.
    ///
    /// It makes the equations of a period, so it is for failures, not for every write.
    fn corrects(&self, missing: &RoleSet) -> bool {
        let lost: Vec<usize> = missing.iter().map(|role| role.index()).collect();
        if lost.len() > usize::from(self.parities()) || missing.iter().any(|role| role.0 >= self.members()) {
            return false;
        }
        let stripes = self.period().min(self.stripes());
        lost.is_empty() || (0..stripes).all(|stripe| self.equations(StripeIndex(stripe)).corrects(&lost))
    }
}

impl RowLayout for Geometry {
    fn members(&self) -> u16 {
        self.raid_disks()
    }

    fn data_members(&self) -> u16 {
        self.data_disks()
    }

    fn chunk_bytes(&self) -> u64 {
        Self::chunk_bytes(self)
    }

    fn stripes(&self) -> u64 {
        Self::stripes(self)
    }

    fn period(&self) -> u64 {
        Self::period(self)
    }

    fn data_roles(&self, stripe: StripeIndex) -> Vec<Role> {
        self.stripe(stripe).data
    }

    fn equations(&self, stripe: StripeIndex) -> CheckMatrix {
        self.check_matrix(stripe)
    }
}

/// The bytes of a member's part of a window that a request touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// The member with the data.
    pub role: Role,
    /// First byte, from the start of the window.
    pub start: u64,
    /// End, from the start of the window.
    pub end: u64,
    /// The place of the first one in the request's bytes.
    pub from: u64,
}

impl Touch {
    /// The bytes of `row` that are touched, from the start of the row; `None` if there are none.
    #[must_use]
    pub fn in_row(&self, row: u32) -> Option<(u64, u64)> {
        let base = u64::from(row) * BLOCK;
        let (start, end) = (self.start.max(base), self.end.min(base + BLOCK));
        (start < end).then(|| (start - base, end - base))
    }
}

/// Sizes that follow from a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Rows of a window: 1 to [`WINDOW_ROWS`].
    pub rows: u64,
    /// Windows of a chunk.
    pub per_chunk: u64,
    /// Windows of a member.
    pub count: u64,
    /// Bytes of a chunk.
    chunk: u64,
    /// Bytes of data in a stripe.
    stripe: u64,
}

impl Windows {
    /// The windows of an array.
    #[must_use]
    pub fn new(layout: &dyn RowLayout) -> Self {
        let chunk = layout.chunk_bytes();
        let rows = (chunk / BLOCK).min(WINDOW_ROWS);
        let per_chunk = chunk / BLOCK / rows;
        let stripe = chunk * u64::from(layout.data_members());
        Self { rows, per_chunk, count: per_chunk * layout.stripes(), chunk, stripe }
    }

    /// Bytes of a member's part of a window.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.rows * BLOCK
    }

    /// Bytes of the array.
    #[must_use]
    pub const fn array_bytes(&self) -> u64 {
        self.count / self.per_chunk * self.stripe
    }

    /// The stripe of a window.
    #[must_use]
    pub const fn stripe_of(&self, window: Window) -> StripeIndex {
        StripeIndex(window.0 / self.per_chunk)
    }

    /// The place where a window begins in the members' data areas, in bytes.
    #[must_use]
    pub const fn start(&self, window: Window) -> u64 {
        window.0 * self.bytes()
    }

    /// All rows of a window.
    #[must_use]
    pub const fn all(&self) -> Rows {
        Rows((1 << self.rows) - 1)
    }

    /// The bytes that `len` bytes from `offset` of the array touch, by window, ascending.
    #[must_use]
    pub fn split(&self, layout: &dyn RowLayout, offset: u64, len: u64) -> Vec<(Window, Vec<Touch>)> {
        let end = offset + len;
        let mut out: Vec<(Window, Vec<Touch>)> = Vec::new();
        let mut stripe = offset / self.stripe;
        while stripe * self.stripe < end {
            let roles = layout.data_roles(StripeIndex(stripe));
            for part in 0..self.per_chunk {
                let mut touches = Vec::new();
                for (index, role) in (0_u64..).zip(&roles) {
                    let base = stripe * self.stripe + index * self.chunk + part * self.bytes();
                    let (from, to) = (offset.max(base), end.min(base + self.bytes()));
                    if from < to {
                        let (start, end) = (from - base, to - base);
                        touches.push(Touch { role: *role, start, end, from: from - offset });
                    }
                }
                if !touches.is_empty() {
                    out.push((Window(stripe * self.per_chunk + part), touches));
                }
            }
            stripe += 1;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_raid::layout::{Layout, Level};
    use std::collections::BTreeSet;

    /// Each byte of a request comes back exactly once, where the geometry says.
    #[test]
    fn a_request_is_split_into_its_bytes() {
        for (level, layout, disks) in
            [(Level::Raid5, Layout::LeftSymmetric, 4), (Level::Raid6, Layout::DdfNContinue, 5)]
        {
            let geometry = Geometry::new(level, Some(layout), disks, 128 << 10, 512 << 10).unwrap();
            let windows = Windows::new(&geometry);
            assert_eq!((windows.rows, windows.per_chunk, windows.count), (16, 2, 8));
            for (offset, len) in [(0, 512), (65_024, 1024), (130_560, 400_000 / 512 * 512)] {
                let mut seen = BTreeSet::new();
                for (window, touches) in windows.split(&geometry, offset, len) {
                    for touch in touches {
                        for byte in (0..touch.end - touch.start).step_by(512) {
                            let array = offset + touch.from + byte;
                            let place = geometry.locate(array).unwrap();
                            assert_eq!(place.role, touch.role);
                            let member = place.stripe.get() * (128 << 10) + place.offset;
                            assert_eq!(member, windows.start(window) + touch.start + byte);
                            assert!(seen.insert(array));
                        }
                    }
                }
                assert_eq!(seen.len() as u64, len / 512);
            }
        }
    }
    /// md's codes correct any sets of as many members as they have parities: all layouts, all sets.
    #[test]
    fn losses_of_md_layouts_are_a_matter_of_count() {
        for level in [Level::Raid4, Level::Raid5, Level::Raid6] {
            let layouts = Layout::ALL.into_iter().filter(|layout| layout.is_of(level)).map(Some);
            let only = (level == Level::Raid4).then_some(None);
            for layout in layouts.chain(only) {
                for disks in 4..=7 {
                    let geometry = Geometry::new(level, layout, disks, 4096, 1 << 20).unwrap();
                    for bits in 0..1_u32 << (disks + 1) {
                        let missing: RoleSet =
                            (0..=disks).filter(|role| bits >> role & 1 == 1).map(Role).collect();
                        let fits = missing.len() <= usize::from(level.parities());
                        let are_members = !missing.contains(&Role(disks));
                        assert_eq!(
                            geometry.corrects(&missing),
                            fits && are_members,
                            "{geometry} {missing:?}"
                        );
                    }
                    assert_eq!(geometry.survives(), level.parities());
                }
            }
        }
    }
}

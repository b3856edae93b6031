//! The places of the copies of a chunk: md RAID-1 and RAID-10.
//!
//! # RAID-10
//! R members, n near copies, f far copies. Chunk c of the array has n * f copies. Near copy j =
//! 0..n:
//!
//! ```text
//! p = c * n + j        role d = p mod R        row = p div R, times f with offset copies
//! ```
//!
//! Each near copy has f - 1 far copies, each a *stride* of rows further and n roles on (mod R).
//! With offset copies the stride is one row; else it is the f-th part of a member's rows, and the
//! copies lie in far sections. *Far sets* keep the far copies of a role within a set of S roles: S
//! = R div f, or n * f. If S does not divide R, the last set is longer by the rest.
//!
//! The array has (rows div f) * R div n chunks: multiplied first, divided last.
//!
//! # Stripes
//! A stripe is one chunk of the array with its copies. Chunks that lie on the same roles make one
//! band: chunks c and c + P do, with P = lcm(n, R) / n, and the later one is lcm(n, R) / R rows
//! (times f with offset copies) further on every role. So stripes are numbered band by band, not by
//! address: with two near copies on four members the pair (0, 1) comes first, then the pair (2, 3).
//!
//! # RAID-1
//! Every member holds a full copy. There is no chunk: stripes have 64 KiB. The array may have any
//! size: the remainder is a shorter stripe.
//!
//! # Layouts that are refused
//! If two chunks claim the same cell, or two copies of a chunk share a member, md itself overwrites
//! what it wrote. The check lays out a few periods of chunks. With offset copies, a near copy that
//! wraps to the next row does not lie where the formula above says: md puts it into the row of the
//! far copies. No near copy wraps if n divides R; else the layout is refused. Neither mdadm nor LVM
//! makes such arrays.
//!
//! `docs/design/mirrors.md` has the layout word, the units and far sets.

use std::collections::BTreeSet;
use std::ops::Range;

use pumice_parity::array_layout::{ArrayLayout, Band, MAX_COPIES, StripeClass};

use crate::copies::Copies;
use crate::geometry::{GeometryError, MAX_CHUNK, MIN_CHUNK};
use crate::layout::Level;

/// Bytes of a stripe's chunk at RAID-1.
const RAID1_CHUNK: u64 = 64 << 10;
/// Periods that are laid out to find overlaps: chunks that collide are at most two periods apart.
const PERIODS_TRIED: u64 = 4;

/// Places of the copies of an array of level 1 or 10 on its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrors {
    level: Level,
    copies: Option<Copies>,
    raid_disks: u16,
    array_bytes: u64,
    layout: ArrayLayout,
}

impl Mirrors {
    /// RAID-1 of `raid_disks` members that give `component_bytes` each.
    ///
    /// # Errors
    /// If there are not 2 to 9 members, or they hold less than a page.
    ///
    /// # Panics
    /// Never: the bands follow one another.
    pub fn raid1(raid_disks: u16, component_bytes: u64) -> Result<Self, GeometryError> {
        let level = Level::Raid1;
        if !(level.min_disks()..=level.max_disks()).contains(&raid_disks) {
            return Err(GeometryError::RaidDisks { level, found: raid_disks });
        }
        if !(MIN_CHUNK..=u64::MAX >> 1).contains(&component_bytes) {
            return Err(GeometryError::Component { found: component_bytes });
        }
        let columns = usize::from(raid_disks);
        let all: Vec<usize> = (0..columns).collect();
        let class = StripeClass::of_copies(columns, &all);
        let band = |stripes: Range<u64>, chunk: u64| Band {
            starts: vec![Some(stripes.start * RAID1_CHUNK); columns],
            array_start: stripes.start * RAID1_CHUNK,
            stripes,
            // At most 64 KiB.
            chunk_bytes: chunk as u32,
            pitch: chunk,
            array_pitch: chunk,
            classes: vec![class.clone()],
        };
        let (whole, rest) = (component_bytes / RAID1_CHUNK, component_bytes % RAID1_CHUNK);
        let mut bands = vec![band(0..whole, RAID1_CHUNK), band(whole..whole + 1, rest)];
        bands.retain(|band| !band.stripes.is_empty() && band.chunk_bytes > 0);
        let layout = ArrayLayout::new(columns, bands).expect("the bands follow one another");
        Ok(Self { level, copies: None, raid_disks, array_bytes: component_bytes, layout })
    }

    /// RAID-10 of `raid_disks` members that give `component_bytes` each.
    ///
    /// # Errors
    /// If a number is out of its range, or the layout is one in which chunks overlap.
    ///
    /// # Panics
    /// Never: the bands follow one another.
    pub fn raid10(
        copies: Copies,
        raid_disks: u16,
        chunk_bytes: u64,
        component_bytes: u64,
    ) -> Result<Self, GeometryError> {
        let level = Level::Raid10;
        let refuse = |why| Err(GeometryError::Copies { copies, raid_disks, why });
        if !(level.min_disks()..=level.max_disks()).contains(&raid_disks) {
            return Err(GeometryError::RaidDisks { level, found: raid_disks });
        }
        if !chunk_bytes.is_power_of_two() || !(MIN_CHUNK..=MAX_CHUNK).contains(&chunk_bytes) {
            return Err(GeometryError::Chunk { found: chunk_bytes });
        }
        if component_bytes.checked_mul(u64::from(raid_disks)).is_none() {
            return Err(GeometryError::Component { found: component_bytes });
        }
        let (roles, near, far) = (u64::from(raid_disks), u64::from(copies.near()), u64::from(copies.far()));
        if copies.count() > roles {
            return refuse("it has more copies than members");
        }
        if copies.count() > MAX_COPIES as u64 {
            return refuse("more than 9 copies of a chunk are not supported");
        }
        if copies.is_offset() && far > 1 && roles % near != 0 {
            return refuse(
                "with offset copies the number of members must be a multiple of the near copies: md overwrites \
                 its own data in it",
            );
        }
        let rows = component_bytes / chunk_bytes;
        let chunks = rows / far * roles / near;
        if chunks == 0 {
            return Err(GeometryError::Component { found: component_bytes });
        }
        let stride = if copies.is_offset() { 1 } else { rows / far };
        let common = near * roles / gcd(near, roles);
        let (period, advance) = (common / near, common / roles * if copies.is_offset() { far } else { 1 });
        let pitch = advance * chunk_bytes;
        if u32::try_from(pitch).is_err() {
            return refuse("its chunk is too large for so many copies");
        }
        let mut taken = BTreeSet::new();
        for chunk in 0..chunks.min(period * PERIODS_TRIED) {
            let cells = copies.cells(chunk, roles, stride);
            let mut members: Vec<u64> = cells.iter().map(|(role, _)| *role).collect();
            members.sort_unstable();
            members.dedup();
            if members.len() as u64 != copies.count() {
                return refuse("two copies of a chunk are on one member");
            }
            if !cells.into_iter().all(|cell| taken.insert(cell)) {
                return refuse("md overwrites its own data in this layout: two chunks have the same place");
            }
        }
        let mut bands: Vec<Band> = Vec::new();
        for first in 0..period.min(chunks) {
            let cells = copies.cells(first, roles, stride);
            let mut starts = vec![None; usize::from(raid_disks)];
            cells.iter().for_each(|(role, row)| starts[*role as usize] = Some(row * chunk_bytes));
            let columns: Vec<usize> = cells.iter().map(|(role, _)| *role as usize).collect();
            let begin = bands.last().map_or(0, |band| band.stripes.end);
            bands.push(Band {
                stripes: begin..begin + (chunks - first).div_ceil(period),
                // At most 1 GiB.
                chunk_bytes: chunk_bytes as u32,
                starts,
                pitch,
                array_start: first * chunk_bytes,
                array_pitch: period * chunk_bytes,
                classes: vec![StripeClass::of_copies(usize::from(raid_disks), &columns)],
            });
        }
        let layout = ArrayLayout::new(usize::from(raid_disks), bands).expect("the bands follow one another");
        let array_bytes = chunks * chunk_bytes;
        Ok(Self { level, copies: Some(copies), raid_disks, array_bytes, layout })
    }

    /// The level.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The layout word; `None` for RAID-1.
    #[must_use]
    pub const fn copies(&self) -> Option<Copies> {
        self.copies
    }

    /// Members.
    #[must_use]
    pub const fn raid_disks(&self) -> u16 {
        self.raid_disks
    }

    /// Bytes of the array.
    #[must_use]
    pub const fn array_bytes(&self) -> u64 {
        self.array_bytes
    }

    /// The layout of the stripes.
    #[must_use]
    pub const fn layout(&self) -> &ArrayLayout {
        &self.layout
    }

    /// The stripes whose chunk on `role` touches these sectors of the member's data area.
    #[must_use]
    pub fn stripes_of_member(&self, role: usize, sectors: Range<u64>) -> Vec<Range<u64>> {
        self.touched(&sectors, |band| Some((band.starts.get(role).copied()??, band.pitch)))
    }

    /// The stripes that touch these sectors of the array.
    #[must_use]
    pub fn stripes_of_array(&self, sectors: Range<u64>) -> Vec<Range<u64>> {
        self.touched(&sectors, |band| Some((band.array_start, band.array_pitch)))
    }

    fn touched(&self, sectors: &Range<u64>, place: impl Fn(&Band) -> Option<(u64, u64)>) -> Vec<Range<u64>> {
        let bytes = |sector: u64| sector.saturating_mul(pumice_base::units::SECTOR);
        let (start, end) = (bytes(sectors.start), bytes(sectors.end));
        let of_band = |band: &Band| {
            let (base, pitch) = place(band)?;
            let chunk = u64::from(band.chunk_bytes);
            let count = band.stripes.end - band.stripes.start;
            // The first stripe that ends behind the start, and the first that begins at the end or
            // later.
            let first = if start < base + chunk { 0 } else { (start - base - chunk) / pitch + 1 };
            let last = if end <= base { 0 } else { (end - base - 1) / pitch + 1 };
            let (first, last) = (first.min(count), last.min(count));
            (first < last && start < end).then(|| band.stripes.start + first..band.stripes.start + last)
        };
        self.layout.bands().iter().filter_map(of_band).collect()
    }

    /// The stripes of which fewer than two copies are left without these roles.
    #[must_use]
    pub fn stripes_without_a_second_copy(&self, absent: &[usize]) -> Vec<Range<u64>> {
        let copies = |band: &Band| {
            (0..self.layout.columns()).filter(|c| band.starts[*c].is_some() && !absent.contains(c)).count()
        };
        let lone = self.layout.bands().iter().filter(|band| copies(band) < 2);
        lone.map(|band| band.stripes.clone()).collect()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 4096;

    /// The chunks that a band layout puts into each cell, drawn as rows of roles.
    fn drawn(word: u32, roles: u16, rows: u64) -> Vec<String> {
        let copies = Copies::from_word(word).unwrap();
        let mirrors = Mirrors::raid10(copies, roles, CHUNK, rows * CHUNK).unwrap();
        let layout = mirrors.layout();
        let mut cells = vec![vec!["-".to_owned(); usize::from(roles)]; rows as usize];
        for stripe in 0..layout.stripes() {
            let places = (0..usize::from(roles)).map(|role| (role, layout.place(stripe, role)));
            for (role, place) in places.filter_map(|(role, place)| Some((role, place?))) {
                let chunk = layout.array_offset(stripe, role, 0).unwrap() / CHUNK;
                let cell = &mut cells[(place / CHUNK) as usize][role];
                assert_eq!(cell, "-", "two chunks in one cell");
                *cell = chunk.to_string();
            }
        }
        cells.into_iter().map(|row| row.join(" ")).collect()
    }

    /// Tables drawn by hand from arrays that Linux filled with numbered blocks.
    #[test]
    fn the_tables_of_the_layouts() {
        assert_eq!(drawn(0x102, 4, 3), ["0 0 1 1", "2 2 3 3", "4 4 5 5"]);
        assert_eq!(drawn(0x102, 5, 3), ["0 0 1 1 2", "2 3 3 4 4", "5 5 6 6 -"]);
        assert_eq!(drawn(0x103, 4, 3), ["0 0 0 1", "1 1 2 2", "2 3 3 3"]);
        assert_eq!(drawn(0x103, 5, 3), ["0 0 0 1 1", "1 2 2 2 3", "3 3 4 4 4"]);
        assert_eq!(drawn(0x201, 4, 4), ["0 1 2 3", "4 5 6 7", "3 0 1 2", "7 4 5 6"]);
        assert_eq!(drawn(0x201, 5, 4), ["0 1 2 3 4", "5 6 7 8 9", "4 0 1 2 3", "9 5 6 7 8"]);
        assert_eq!(drawn(0x10201, 4, 4), ["0 1 2 3", "3 0 1 2", "4 5 6 7", "7 4 5 6"]);
        assert_eq!(drawn(0x10201, 5, 4), ["0 1 2 3 4", "4 0 1 2 3", "5 6 7 8 9", "9 5 6 7 8"]);
        assert_eq!(drawn(0x301, 4, 3), ["0 1 2 3", "3 0 1 2", "2 3 0 1"]);
        // Without far copies the bit of offset copies says nothing.
        assert_eq!(drawn(0x10102, 5, 3), drawn(0x102, 5, 3));
        assert_eq!(drawn(0x10301, 5, 3), ["0 1 2 3 4", "4 0 1 2 3", "3 4 0 1 2"]);
        assert_eq!(drawn(0x40201, 4, 4), ["0 1 2 3", "4 5 6 7", "1 0 3 2", "5 4 7 6"]);
        assert_eq!(drawn(0x40201, 5, 4), ["0 1 2 3 4", "5 6 7 8 9", "1 0 4 2 3", "6 5 9 7 8"]);
        assert_eq!(drawn(0x50201, 5, 4), ["0 1 2 3 4", "1 0 4 2 3", "5 6 7 8 9", "6 5 9 7 8"]);
        assert_eq!(drawn(0x20201, 6, 2), ["0 1 2 3 4 5", "2 0 1 5 3 4"]);
        assert_eq!(drawn(0x202, 5, 4), ["0 0 1 1 2", "2 3 3 4 4", "1 2 0 0 1", "4 4 2 3 3"]);
    }

    #[test]
    fn layouts_in_which_md_overlaps_itself_are_refused() {
        for (word, roles) in [(0x10202, 5), (0x40202, 9), (0x20201, 3), (0x20301, 7)] {
            let copies = Copies::from_word(word).unwrap();
            let refused = Mirrors::raid10(copies, roles, CHUNK, 240 * CHUNK);
            assert!(matches!(refused, Err(GeometryError::Copies { .. })), "{word:x} {roles}: {refused:?}");
        }
        for (word, roles) in [(0x202, 4), (0x202, 5), (0x202, 6), (0x40202, 5), (0x40202, 8)] {
            let copies = Copies::from_word(word).unwrap();
            assert!(Mirrors::raid10(copies, roles, CHUNK, 240 * CHUNK).is_ok(), "{word:x} {roles}");
        }
    }

    #[test]
    fn a_mirror_that_ends_anywhere_is_covered() {
        for sectors in [8, 9, 127, 128, 129, 30886] {
            let mirrors = Mirrors::raid1(3, sectors * 512).unwrap();
            let layout = mirrors.layout();
            let mut covered = 0;
            for stripe in 0..layout.stripes() {
                let place = layout.place(stripe, 2).unwrap();
                assert_eq!(place, covered, "no gap, and nothing twice");
                assert_eq!(layout.array_offset(stripe, 1, 0), Some(place));
                covered = place + u64::from(layout.band(stripe).chunk_bytes);
            }
            assert_eq!(covered, sectors * 512);
        }
        assert!(Mirrors::raid1(3, 4095).is_err());
        assert!(Mirrors::raid1(1, 1 << 20).is_err());
        assert!(Mirrors::raid1(10, 1 << 20).is_err());
    }

    #[test]
    fn sectors_name_the_stripes_that_they_touch() {
        for (word, roles) in [(0x102, 5), (0x201, 4), (0x10201, 5), (0x103, 4)] {
            let mirrors =
                Mirrors::raid10(Copies::from_word(word).unwrap(), roles, CHUNK, 12 * CHUNK).unwrap();
            let layout = mirrors.layout();
            let sectors = CHUNK / 512;
            for start in (0..14 * sectors).step_by(3) {
                let range = start..start + 5;
                let touches = |place: u64| place < range.end * 512 && range.start * 512 < place + CHUNK;
                for role in 0..usize::from(roles) {
                    let expected: Vec<u64> = (0..layout.stripes())
                        .filter(|stripe| layout.place(*stripe, role).is_some_and(touches))
                        .collect();
                    let found = mirrors.stripes_of_member(role, range.clone());
                    assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), expected, "{word:x} {role}");
                }
                let address = |stripe: u64| {
                    (0..usize::from(roles)).find_map(|role| layout.array_offset(stripe, role, 0)).unwrap()
                };
                let expected: Vec<u64> = (0..layout.stripes()).filter(|s| touches(address(*s))).collect();
                let found = mirrors.stripes_of_array(range.clone());
                assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), expected, "{word:x}");
            }
        }
    }
}

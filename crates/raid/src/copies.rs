//! The layout word of level 10: near, far and offset copies.

use std::fmt;

/// Most members of a supported RAID-10.
pub const MAX_RAID10_DISKS: u16 = 255;

/// The sets of roles within which far copies stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FarSets {
    /// One set of all roles: all that mdadm makes.
    One,
    /// Sets of R div f roles (bit 17).
    Divided,
    /// Sets of n * f roles (bit 18): what LVM makes.
    Fixed,
}

/// The layout word of level 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Copies {
    near: u8,
    far: u8,
    offset: bool,
    sets: FarSets,
}

impl Copies {
    /// Reads a layout word; `None` for one that md does not start: no copies, one copy, unknown
    /// bits, both kinds of far sets.
    #[must_use]
    pub const fn from_word(word: u32) -> Option<Self> {
        let (near, far) = (word as u8, (word >> 8) as u8);
        let sets = match word >> 17 {
            0 => FarSets::One,
            1 => FarSets::Divided,
            2 => FarSets::Fixed,
            _ => return None,
        };
        if near == 0 || far == 0 || near as u16 * far as u16 == 1 {
            return None;
        }
        Some(Self { near, far, offset: word & 1 << 16 != 0, sets })
    }

    /// The layout word.
    #[must_use]
    pub const fn word(self) -> u32 {
        let sets = match self.sets {
            FarSets::One => 0,
            FarSets::Divided => 1 << 17,
            FarSets::Fixed => 1 << 18,
        };
        self.near as u32 | (self.far as u32) << 8 | (self.offset as u32) << 16 | sets
    }

    /// Near copies.
    #[must_use]
    pub const fn near(self) -> u8 {
        self.near
    }

    /// Far or offset copies of each near one, itself included.
    #[must_use]
    pub const fn far(self) -> u8 {
        self.far
    }

    /// Returns whether the far copies lie in the next rows, not in far sections.
    #[must_use]
    pub const fn is_offset(self) -> bool {
        self.offset
    }

    /// Copies of a chunk.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.near as u64 * self.far as u64
    }

    /// The role and the row of each copy of a chunk, in md's order. `stride` is the number of rows
    /// from one far copy to the next.
    pub(crate) fn cells(self, chunk: u64, roles: u64, stride: u64) -> Vec<(u64, u64)> {
        let (near, far) = (u64::from(self.near), u64::from(self.far));
        let set = match self.sets {
            FarSets::One => roles,
            FarSets::Divided => roles / far,
            FarSets::Fixed => near * far,
        };
        let rest = roles % set;
        let last = (roles / set - 1) * set;
        let mut out = Vec::new();
        for j in 0..near {
            let p = chunk * near + j;
            let mut role = p % roles;
            let mut row = p / roles * if self.offset { far } else { 1 };
            out.push((role, row));
            for _ in 1..far {
                let next = role + near;
                role = match rest != 0 && next > last {
                    true => last + (next - last) % (set + rest),
                    false => role / set * set + next % set,
                };
                row += stride;
                out.push((role, row));
            }
        }
        out
    }
}

impl fmt::Display for Copies {
    /// As mdadm writes it; far sets, which it does not show, in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.offset { "offset" } else { "far" };
        match (self.near, self.far) {
            (near, 1) => write!(f, "near={near}"),
            (1, far) => write!(f, "{kind}={far}"),
            (near, far) => write!(f, "near={near}, {kind}={far}"),
        }?;
        match self.sets {
            FarSets::One => Ok(()),
            FarSets::Divided => f.write_str(" (far sets of members / far)"),
            FarSets::Fixed => f.write_str(" (far sets)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_words_go_both_ways_and_impossible_ones_are_refused() {
        for word in [0x102, 0x103, 0x201, 0x301, 0x10201, 0x10301, 0x202, 0x40201, 0x20201, 0x50201] {
            assert_eq!(Copies::from_word(word).unwrap().word(), word);
        }
        for word in [0, 0x101, 0x001, 0x100, 0x60201, 0x80201, 0x80_0102] {
            assert_eq!(Copies::from_word(word), None, "{word:x}");
        }
        assert_eq!(Copies::from_word(0x102).unwrap().to_string(), "near=2");
        assert_eq!(Copies::from_word(0x10201).unwrap().to_string(), "offset=2");
        assert_eq!(Copies::from_word(0x202).unwrap().to_string(), "near=2, far=2");
    }
}

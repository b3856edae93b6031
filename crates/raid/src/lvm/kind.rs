//! The RAID types of segments, and the md arrays that they are.

use std::fmt;

use crate::arrangement::Arrangement;
use crate::copies::Copies;
use crate::geometry::{Geometry, GeometryError};
use crate::layout::{Layout, Level};
use crate::mirrors::Mirrors;

/// A RAID type: a level, and for levels with parity its layout.
///
/// LVM's `raid4` is RAID-5 with parity on the first image; md's RAID-4 has it on the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RaidKind {
    name: &'static str,
    level: Level,
    layout: Option<Layout>,
}

const fn parity(name: &'static str, level: Level, layout: Layout) -> RaidKind {
    RaidKind { name, level, layout: Some(layout) }
}

/// All types. Source: the level and layout in the RAID superblocks of volumes made by LVM 2.03, and
/// `docs/reference/on-disk/lvm.md`.
const ALL: [RaidKind; 18] = [
    RaidKind { name: "raid1", level: Level::Raid1, layout: None },
    RaidKind { name: "raid10", level: Level::Raid10, layout: None },
    parity("raid4", Level::Raid5, Layout::ParityFirst),
    parity("raid5", Level::Raid5, Layout::LeftSymmetric),
    parity("raid5_ls", Level::Raid5, Layout::LeftSymmetric),
    parity("raid5_la", Level::Raid5, Layout::LeftAsymmetric),
    parity("raid5_ra", Level::Raid5, Layout::RightAsymmetric),
    parity("raid5_rs", Level::Raid5, Layout::RightSymmetric),
    parity("raid5_n", Level::Raid5, Layout::ParityLast),
    parity("raid6", Level::Raid6, Layout::DdfZeroRestart),
    parity("raid6_zr", Level::Raid6, Layout::DdfZeroRestart),
    parity("raid6_nr", Level::Raid6, Layout::DdfNRestart),
    parity("raid6_nc", Level::Raid6, Layout::DdfNContinue),
    parity("raid6_n_6", Level::Raid6, Layout::ParityLast),
    parity("raid6_la_6", Level::Raid6, Layout::LeftAsymmetric6),
    parity("raid6_ra_6", Level::Raid6, Layout::RightAsymmetric6),
    parity("raid6_ls_6", Level::Raid6, Layout::LeftSymmetric6),
    parity("raid6_rs_6", Level::Raid6, Layout::RightSymmetric6),
];

impl RaidKind {
    /// The type with this name, without suffixes.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        ALL.into_iter().find(|kind| kind.name == name)
    }

    /// LVM's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The level in md's terms, which is the one in the RAID superblock.
    #[must_use]
    pub const fn level(self) -> Level {
        self.level
    }

    /// The layout number in the RAID superblock, md's as well. `copies` of a chunk: of RAID-10.
    #[must_use]
    pub const fn layout_number(self, copies: u8) -> u32 {
        match self.layout {
            Some(layout) => layout.number(),
            None if matches!(self.level, Level::Raid10) => 0x100 | copies as u32,
            None => 0,
        }
    }

    /// Extents of data in a volume for so many extents of each image, as a fraction: times, divided
    /// by; `None` if `images` leave no data.
    #[must_use]
    pub fn data_images(self, images: u16, copies: u8) -> Option<(u64, u64)> {
        let (times, by) = match self.level {
            Level::Raid1 => (1, 1),
            Level::Raid10 => (u64::from(images), u64::from(copies)),
            level => (u64::from(images.checked_sub(level.parities())?), 1),
        };
        (times > 0 && by > 0).then_some((times, by))
    }

    /// The array of `images` that each hold `image_bytes` of data.
    ///
    /// # Errors
    /// As for md arrays.
    pub fn arrangement(
        self,
        images: u16,
        copies: u8,
        chunk_bytes: u64,
        image_bytes: u64,
    ) -> Result<Arrangement, GeometryError> {
        match self.level {
            Level::Raid1 => Mirrors::raid1(images, image_bytes).map(Arrangement::Mirrors),
            Level::Raid10 => {
                let word = Copies::from_word(self.layout_number(copies));
                let refuse = GeometryError::Layout { level: self.level, layout: None };
                Mirrors::raid10(word.ok_or(refuse)?, images, chunk_bytes, image_bytes)
                    .map(Arrangement::Mirrors)
            }
            level => {
                Geometry::new(level, self.layout, images, chunk_bytes, image_bytes).map(Arrangement::Parity)
            }
        }
    }
}

impl fmt::Display for RaidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The level and the layout that the kernel's tables and superblocks have for each name.
    #[test]
    fn names_have_the_numbers_of_the_superblock() {
        let expected = [
            ("raid1", 1, 0),
            ("raid4", 5, 4),
            ("raid5", 5, 2),
            ("raid5_n", 5, 5),
            ("raid5_la", 5, 0),
            ("raid5_ra", 5, 1),
            ("raid5_ls", 5, 2),
            ("raid5_rs", 5, 3),
            ("raid6", 6, 8),
            ("raid6_zr", 6, 8),
            ("raid6_nr", 6, 9),
            ("raid6_nc", 6, 10),
            ("raid6_la_6", 6, 16),
            ("raid6_ra_6", 6, 17),
            ("raid6_ls_6", 6, 18),
            ("raid6_rs_6", 6, 19),
            ("raid6_n_6", 6, 5),
            ("raid10", 10, 258),
        ];
        assert_eq!(expected.len(), ALL.len());
        for (name, level, layout) in expected {
            let kind = RaidKind::from_name(name).unwrap();
            assert_eq!((kind.level().number(), kind.layout_number(2)), (level, layout), "{name}");
            let array = kind.arrangement(6, 2, 65536, 1 << 20).unwrap();
            assert_eq!(array.layout().map_or(0, Layout::number), layout, "{name}");
            let (times, by) = kind.data_images(6, 2).unwrap();
            assert_eq!(array.array_bytes(), (1 << 20) * times / by, "{name}");
        }
        for name in ["raid0", "raid0_meta", "raid7", "raid5_", "RAID5", "striped"] {
            assert_eq!(RaidKind::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn too_few_images_leave_no_data() {
        let raid6 = RaidKind::from_name("raid6").unwrap();
        assert_eq!(raid6.data_images(2, 0), None);
        assert_eq!(raid6.data_images(1, 0), None);
        assert!(raid6.arrangement(3, 2, 65536, 1 << 20).is_err());
        assert!(RaidKind::from_name("raid10").unwrap().arrangement(4, 1, 65536, 1 << 20).is_err());
        assert!(RaidKind::from_name("raid10").unwrap().arrangement(4, 0, 65536, 1 << 20).is_err());
    }
}

//! Times of VERIFY requests by size, as the authors of *Practical scrubbing* measured them on three
//! disks (the data of its figure 1), and an NVMe SSD's.

use pumice_pacer::{Nanos, ServiceCurve};
use std::fmt;
use std::str::FromStr;

/// A model of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// Hitachi Ultrastar 15K450, SAS, cache off.
    Ultrastar,
    /// WD Caviar, SATA, cache off.
    Caviar,
    /// Hitachi Deskstar, SATA, cache off.
    Deskstar,
    /// An NVMe SSD with 8 channels.
    Nvme,
}

/// Sizes of the disks' points, in KiB.
const KIB: [u64; 10] = [1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Mean times in microseconds.
const ULTRASTAR: [u64; 10] = [3_911, 4_023, 4_301, 4_610, 5_327, 6_721, 9_288, 14_748, 25_743, 47_537];
const CAVIAR: [u64; 10] = [8_166, 8_348, 8_481, 8_754, 9_309, 10_399, 12_620, 17_087, 25_822, 43_597];
const DESKSTAR: [u64; 10] = [8_166, 8_550, 8_456, 8_817, 9_548, 10_537, 12_395, 16_340, 23_590, 38_457];

impl Drive {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ultrastar, Self::Caviar, Self::Deskstar, Self::Nvme];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ultrastar => "ultrastar",
            Self::Caviar => "caviar",
            Self::Deskstar => "deskstar",
            Self::Nvme => "nvme",
        }
    }

    /// Service times of background requests.
    ///
    /// # Panics
    /// Never: the tables grow, as a test checks.
    #[must_use]
    pub fn curve(self) -> ServiceCurve {
        let nanos = match self {
            Self::Ultrastar => ULTRASTAR.map(|us| us * 1_000),
            Self::Caviar => CAVIAR.map(|us| us * 1_000),
            Self::Deskstar => DESKSTAR.map(|us| us * 1_000),
            Self::Nvme => KIB.map(|kib| super::Nvme::read_time(kib << 10)),
        };
        let points: [(u64, Nanos); KIB.len()] = std::array::from_fn(|i| (KIB[i] << 10, nanos[i]));
        ServiceCurve::new(&points).expect("sizes grow and no time is 0")
    }
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Drive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|d| d.name() == text);
        found.ok_or_else(|| format!("'{text}' is none of ultrastar, caviar, deskstar and nvme"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drive_has_a_curve() {
        for drive in Drive::ALL {
            let curve = drive.curve();
            assert!(curve.time(4 << 20) > curve.time(64 << 10), "{drive}");
        }
        assert_eq!(Drive::Ultrastar.curve().time(64 << 10), 4_610_000);
    }
}

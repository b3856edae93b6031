//! Damage: bytes of a drive's file turned round behind everybody's back, and what a scrub must say
//! of them.
//!
//! Where things lie is worked out here from the superblock's bytes and md's left-symmetric layout,
//! not by the code under test.

use super::scrub::Finding;
use crate::run::Failed;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Place of a 1.2 superblock, and its first bytes.
const SUPERBLOCK: u64 = 4096;
const MAGIC: u32 = 0xA92B_4EFC;
const SECTOR: u64 = 512;
/// Bytes that are damaged at once.
pub(crate) const BLOCK: u64 = 4096;

/// One member's place in the array.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    path: String,
    /// Name of the member in a scrub over nodes.
    served: String,
    role: u64,
    data_offset: u64,
    chunk: u64,
    disks: u64,
    level: u64,
    /// Of the array: chunks of one member.
    pub(crate) stripes: u64,
}

impl Member {
    /// Reads it from a drive's file; a node serves the same as `served`.
    pub(crate) fn read(path: &str, served: &str) -> Result<Self, Failed> {
        let mut block = [0u8; 1024];
        let file = File::open(path).map_err(|error| Failed(format!("{path}: {error}")))?;
        file.read_exact_at(&mut block, SUPERBLOCK).map_err(|error| Failed(format!("{path}: {error}")))?;
        let narrow = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        let wide = |at: usize| u64::from(narrow(at)) | u64::from(narrow(at + 4)) << 32;
        if narrow(0) != MAGIC || narrow(4) != 1 || narrow(76) != 2 {
            return Err(Failed(format!("{path}: no superblock of version 1 and layout left-symmetric")));
        }
        let chunk = u64::from(narrow(88));
        let slot = 256 + 2 * narrow(160) as usize;
        let role = block.get(slot..slot + 2).map_or(0xFFFF, |two| u16::from_le_bytes([two[0], two[1]]));
        let disks = u64::from(narrow(92));
        if u64::from(role) >= disks || chunk == 0 {
            return Err(Failed(format!("{path}: role {role} of {disks}")));
        }
        Ok(Self {
            path: path.to_owned(),
            served: served.to_owned(),
            role: u64::from(role),
            data_offset: wide(128) * SECTOR,
            chunk: chunk * SECTOR,
            disks,
            level: u64::from(narrow(72)),
            stripes: wide(80) / chunk,
        })
    }

    /// The drive's file.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Start of its chunk of a stripe.
    pub(crate) fn offset(&self, stripe: u64) -> u64 {
        self.data_offset + stripe * self.chunk
    }

    /// Returns whether this member holds P of a stripe, or with RAID-6 Q.
    fn holds_p(&self, stripe: u64) -> bool {
        self.role == self.disks - 1 - stripe % self.disks
    }

    fn holds_q(&self, stripe: u64) -> bool {
        self.level == 6 && self.role == (self.disks - stripe % self.disks) % self.disks
    }
}

/// Start of the data area of a drive's file, and the size that the array uses, in bytes.
pub(crate) fn data_area(path: &str) -> Result<(u64, u64), Failed> {
    let wrong = |error: std::io::Error| Failed(format!("{path}: {error}"));
    let mut block = [0u8; 256];
    File::open(path).map_err(wrong)?.read_exact_at(&mut block, SUPERBLOCK).map_err(wrong)?;
    let wide = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| block[at + i]));
    if wide(0) != u64::from(MAGIC) | 1 << 32 {
        return Err(Failed(format!("{path}: no superblock of version 1")));
    }
    Ok((wide(128) * SECTOR, wide(80) * SECTOR))
}

/// Bytes of all members in regions that the array's bitmap calls dirty. A bit that is set on any
/// member counts.
pub(crate) fn dirty_bytes(drives: &[String]) -> Result<u64, Failed> {
    /// Offset of the field of a version 1.2 superblock with the bitmap's place, in sectors from the
    /// superblock.
    const BITMAP_OFFSET: usize = 96;
    /// First bytes of a bitmap, and the bytes before its bits.
    const BITMAP_MAGIC: u32 = 0x6d74_6962;
    const BITMAP_HEADER: u64 = 256;
    let mut dirty = std::collections::BTreeSet::new();
    let mut region = 0;
    for path in drives {
        let wrong = |error: std::io::Error| Failed(format!("{path}: {error}"));
        let file = File::open(path).map_err(wrong)?;
        let read = |at: u64, bytes: &mut [u8]| file.read_exact_at(bytes, at).map_err(wrong);
        let narrow = |bytes: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let mut superblock = [0u8; 256];
        read(SUPERBLOCK, &mut superblock)?;
        let at = SUPERBLOCK + u64::from(narrow(&superblock, BITMAP_OFFSET)) * SECTOR;
        let mut header = [0u8; 256];
        read(at, &mut header)?;
        if narrow(&superblock, 0) != MAGIC || narrow(&header, 0) != BITMAP_MAGIC {
            return Err(Failed(format!("{path}: no bitmap")));
        }
        region = u64::from(narrow(&header, 52));
        let sectors = u64::from_le_bytes(std::array::from_fn(|i| header[40 + i]));
        let regions = (sectors * SECTOR).div_ceil(region);
        let mut bits = vec![0u8; usize::try_from(regions.div_ceil(8)).expect("a bitmap is small")];
        read(at + BITMAP_HEADER, &mut bits)?;
        dirty.extend((0..regions).filter(|n| bits[(n / 8) as usize] >> (n % 8) & 1 == 1));
    }
    Ok(dirty.len() as u64 * region * drives.len() as u64)
}

/// Changes every byte of a block of a file. Done twice, the block is what it was.
pub(crate) fn turn_round(path: &str, offset: u64) -> Result<(), Failed> {
    let wrong = |error: std::io::Error| Failed(format!("{path}: {error}"));
    let file = File::options().read(true).write(true).open(path).map_err(wrong)?;
    let mut bytes = vec![0u8; usize::try_from(BLOCK).expect("a block is small")];
    file.read_exact_at(&mut bytes, offset).map_err(wrong)?;
    // Every byte becomes another, by many values: strong evidence of one member.
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte ^= (i as u8).wrapping_mul(58) | 1;
    }
    file.write_all_at(&bytes, offset).map_err(wrong)
}

/// One planted damage.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    member: Member,
    pub(crate) stripe: u64,
    in_chunk: u64,
}

impl Damage {
    /// The `number`-th damage of a run: in a stripe of `from` or after, no two in the same. RAID-5
    /// cannot say who is wrong, and md's way of repair makes data lasting as they are: there only
    /// parity is damaged.
    pub(crate) fn choose(members: &[Member], from: u64, number: u64) -> Option<Self> {
        let first = members.first()?;
        let count = first.stripes.checked_sub(from).filter(|count| *count > number)?;
        // A stride with no divisor in common walks through all of them.
        let stride = (count / 3..).find(|stride| gcd(*stride, count) == 1)?;
        let stripe = from + (number + 1) * stride % count;
        let member = members.iter().find(|member| {
            if member.level == 5 {
                member.holds_p(stripe)
            } else {
                member.role == (number * 5 + 1) % member.disks
            }
        })?;
        let in_chunk = (number * 7 + 3) % (member.chunk / BLOCK) * BLOCK;
        Some(Self { member: member.clone(), stripe, in_chunk })
    }

    fn offset(&self) -> u64 {
        self.member.offset(self.stripe) + self.in_chunk
    }

    /// Changes every byte of the block.
    pub(crate) fn plant(&self) -> Result<(), Failed> {
        turn_round(&self.member.path, self.offset())
    }

    /// Returns whether a finding is this damage, by its place.
    pub(crate) fn is_at(&self, finding: &Finding) -> bool {
        finding.stripe == self.stripe && finding.chunk_offset == self.in_chunk && finding.length == BLOCK
    }

    /// Returns whether a finding says of this damage all that can be said; RAID-5 has one equation,
    /// and names nobody.
    pub(crate) fn is_named_by(&self, finding: &Finding) -> bool {
        let verdict = if self.member.level == 5 {
            "unlocated"
        } else if self.member.holds_p(self.stripe) {
            "parity_p"
        } else if self.member.holds_q(self.stripe) {
            "parity_q"
        } else {
            "member"
        };
        let device = finding.device.as_ref();
        let located = self.member.level == 5
            || (device.is_some_and(|name| [&self.member.path, &self.member.served].contains(&name))
                && finding.device_offset == Some(self.offset())
                && finding.member == Some(self.member.role));
        self.is_at(finding) && finding.verdict == verdict && located
    }

    /// For people.
    pub(crate) fn words(&self) -> String {
        format!(
            "stripe {}, bytes {} of the chunk, role {}, {} of {}",
            self.stripe,
            self.in_chunk,
            self.member.role,
            self.offset(),
            self.member.path
        )
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::{Damage, Member};
    use std::collections::BTreeSet;

    fn members(level: u64) -> Vec<Member> {
        let member = |role| Member {
            path: String::new(),
            served: String::new(),
            role,
            data_offset: 1 << 20,
            chunk: 65536,
            disks: 6,
            level,
            stripes: 752,
        };
        (0..6).map(member).collect()
    }

    #[test]
    fn parity_goes_round_as_in_left_symmetric() {
        let six = members(6);
        let of = |stripe, holds: fn(&Member, u64) -> bool| six.iter().position(|m| holds(m, stripe));
        assert_eq!([0, 1, 5, 6].map(|s| of(s, Member::holds_p)), [Some(5), Some(4), Some(0), Some(5)]);
        assert_eq!([0, 1, 5, 6].map(|s| of(s, Member::holds_q)), [Some(0), Some(5), Some(1), Some(0)]);
        assert!(members(5).iter().all(|m| !m.holds_q(0)));
    }

    #[test]
    fn damages_are_apart_and_in_the_tail() {
        for level in [5, 6] {
            let all: Vec<Damage> =
                (0..100).map(|n| Damage::choose(&members(level), 600, n).expect("there is room")).collect();
            let stripes: BTreeSet<u64> = all.iter().map(|damage| damage.stripe).collect();
            assert_eq!(stripes.len(), 100);
            assert!(stripes.iter().all(|stripe| (600..752).contains(stripe)));
            assert!(level == 6 || all.iter().all(|damage| damage.member.holds_p(damage.stripe)));
        }
        assert!(Damage::choose(&members(6), 752, 0).is_none());
    }
}

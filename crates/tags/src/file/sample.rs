//! Gathers evidence on whether tags are stale. It reads, and writes nothing.

use super::recover::can_read;
use super::{TagError, TagFile};
use crate::evidence::Evidence;
use crate::page::{Opinion, Origin};
use crate::recovery::{Found, Recovery};
use pumice_blockdev::BlockDevice;
use std::collections::BTreeSet;
use std::ops::Range;

/// Places of a drive that are looked at, evenly over all of it. Few in tests of this crate, whose
/// drives are small and opened very often.
const PLACES: u64 = if cfg!(test) { 16 } else { 256 };
/// Blocks below which the neighbours of the log are looked at too.
const FEW: usize = if cfg!(test) { 8 } else { 64 };
/// The most records of a log of which a block is looked at.
const RECORDS: usize = 256;

/// A drive, its tags and their log, before anything is written.
pub(super) struct Sampling<'s> {
    pub(super) file: &'s TagFile,
    pub(super) recovery: &'s Recovery<'s>,
    pub(super) drive: &'s dyn BlockDevice,
}

/// Blocks that were looked at, and whether each of those that can be read differs from its tag.
#[derive(Default)]
struct Looked {
    blocks: BTreeSet<u64>,
    sample: Vec<(u64, bool)>,
}

impl Sampling<'_> {
    /// The evidence of the drive's blocks about the tags.
    pub(super) fn evidence(&self) -> Result<Evidence, TagError> {
        let header = &self.file.header;
        let blocks = header.geometry.blocks();
        let mut looked = Looked::default();
        let mut places = self.places(0..blocks);
        self.look(&mut places, &mut looked)?;
        if looked.sample.len() < FEW {
            let mut more = self.more_places();
            if (1..blocks).contains(&header.adopted) {
                more.extend(self.places(0..header.adopted));
            }
            self.look(&mut more, &mut looked)?;
            places.extend(more);
        }
        // Few blocks have tags: more of those that lie beside the ones that were found.
        while looked.sample.len() < FEW && !places.is_empty() {
            self.look(&mut places, &mut looked)?;
        }
        looked.sample.sort_unstable();
        let sample = looked.sample.into_iter().map(|(_, differs)| differs).collect();
        let mut evidence = Evidence { sample, known: header.stale, ..Evidence::default() };
        self.look_at_log(&mut evidence)?;
        Ok(evidence)
    }

    /// Places evenly over a range of blocks, each with the blocks of which one is to be looked at.
    fn places(&self, range: Range<u64>) -> Vec<(u64, Range<u64>)> {
        let header = &self.file.header;
        let len = u128::from(range.end - range.start);
        let count = len.min(u128::from(PLACES));
        let border = |place: u128| range.start + (place * len / count) as u64;
        let place = |place: u128| {
            let part = border(place)..border(place + 1);
            // Not the same blocks for ever: what lies at them says nothing of those between.
            let seed = header.identity ^ header.generation.rotate_left(32) ^ place as u64;
            (part.start + mix(seed) % (part.end - part.start), part)
        };
        (0..count).map(place).collect()
    }

    /// Places at the front of the drive, where data of a new drive are, and near the blocks of the
    /// log.
    fn more_places(&self) -> Vec<(u64, Range<u64>)> {
        let geometry = &self.file.header.geometry;
        let front = (0..u64::BITS).map(|bit| 1 << bit);
        let near = self.recovery.newest(FEW).map(|(block, _)| block);
        let all = front.chain(near).filter(|block| *block < geometry.blocks());
        all.map(|block| (block, 0..geometry.blocks())).collect()
    }

    /// Looks at a block of each place. Places without one are left out.
    fn look(&self, places: &mut Vec<(u64, Range<u64>)>, looked: &mut Looked) -> Result<(), TagError> {
        let mut failed = None;
        places.retain(|(start, range)| match self.look_from(*start, range, looked) {
            Ok(found) => found && failed.is_none(),
            Err(error) => {
                failed.get_or_insert(error);
                false
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// Looks at the first block of a range from `start` on, cyclically, that has a tag, is not in
    /// the log and was not looked at, if its page lies with that of `start`. Whether there is one.
    fn look_from(&self, start: u64, range: &Range<u64>, looked: &mut Looked) -> Result<bool, TagError> {
        let geometry = &self.file.header.geometry;
        let number = geometry.groups_of(&(start..start + 1)).start;
        let group = &self.file.load_groups(&[number])?[0];
        let pages = geometry.pages_of(number);
        let each = geometry.blocks_of_page();
        let together = range.start.max(pages.start * each)..range.end.min(pages.end * each);
        for block in (start..together.end).chain(together.start..start) {
            let (page, place) = geometry.place(block);
            let entry = group.pages[(page - pages.start) as usize].entry(geometry, place);
            let has_tag = entry.tag.origin != Origin::Unknown && entry.tag.judge(0) != Opinion::Unchecked;
            if !has_tag || self.recovery.has(block) || !looked.blocks.insert(block) {
                continue;
            }
            let mut bytes = vec![0; geometry.block_bytes()];
            if can_read(self.drive, block * bytes.len() as u64, &mut bytes)? {
                let guard = geometry.format().guard().of(&bytes);
                let differs = matches!(entry.judge(geometry, guard), Opinion::Differs(_));
                looked.sample.push((block, differs));
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Looks at one block of each of some records of the log, if recovery could write over them.
    fn look_at_log(&self, evidence: &mut Evidence) -> Result<(), TagError> {
        let geometry = &self.file.header.geometry;
        if !geometry.carries_data() {
            return Ok(());
        }
        let mut records = BTreeSet::new();
        for (block, record) in self.recovery.newest(RECORDS) {
            if !records.insert(record) {
                continue;
            }
            let mut bytes = vec![0; geometry.block_bytes()];
            if !can_read(self.drive, block * bytes.len() as u64, &mut bytes)? {
                continue;
            }
            let (number, place) = geometry.place(block);
            let home = self.file.load(number)?.page().entry(geometry, place);
            match self.recovery.found(block, &bytes, &home) {
                Found::Version => evidence.records += 1,
                Found::Nothing { runs } => {
                    evidence.records += 1;
                    evidence.strange += 1;
                    evidence.runs += runs;
                }
                Found::Untold => {}
            }
        }
        Ok(())
    }
}

/// SplitMix64's mixing (Steele, Lea, Flood, 2014).
const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

//! A checkpoint as a stream of bytes. The byte map is in `docs/reference/on-disk/flash-journal.md`.

use super::record::Limits;
use crate::chip::Geometry;
use crate::ftl::blocks::{Blocks, State};
use crate::ftl::dedup::Stream;
use crate::ftl::map::{Map, Object};
use crate::ftl::stats::Stats;
use crate::ftl::tag::MAX_SEQ;

const MAGIC: [u8; 4] = *b"PFTC";
const VERSION: u32 = 4;
/// Blocks that were erased are written to without a record in the log.
const EARLIER: [u32; 2] = [2, 3];
const HEADER: usize = 40 + 8 * Stats::KEPT;
const RETIRED: u32 = 1;
const OPEN: u32 = 2;
const ERASED: u32 = 4;
/// The bits from this one on are the stream of a block.
const STREAM_AT: u32 = 8;

/// The contents of a checkpoint.
#[derive(Debug)]
pub struct Image<'a> {
    pub(crate) seq: u64,
    pub(crate) geometry: Geometry,
    pub(crate) map: &'a Map,
    pub(crate) blocks: &'a Blocks,
    pub(crate) stats: &'a Stats,
}

/// The largest stream that a drive of this shape can need, in bytes.
pub(super) fn largest(logical: u32, geometry: Geometry) -> u64 {
    // An object is shared by one LPN at least.
    HEADER as u64 + 20 * u64::from(logical) + 8 * u64::from(geometry.blocks)
}

impl Image<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (objects, renumber) = self.map.compact();
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        let numbers = [self.seq, u64::from(self.map.logical()), objects.len() as u64];
        out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        out.extend(self.geometry.blocks.to_le_bytes());
        out.extend(self.geometry.pages_per_block.to_le_bytes());
        out.extend(self.stats.kept().iter().flat_map(|n| n.to_le_bytes()));
        out.reserve_exact(
            4 * self.map.logical() as usize + 16 * objects.len() + 8 * self.geometry.blocks as usize,
        );
        for lpn in 0..self.map.logical() {
            out.extend_from_slice(&self.map.entry(lpn, &renumber).to_le_bytes());
        }
        for object in objects {
            out.extend(object.ppn.to_le_bytes());
            out.extend([0; 4]);
            out.extend(object.birth.to_le_bytes());
        }
        for block in 0..self.geometry.blocks {
            let flags = match self.blocks.state(block) {
                State::Retired => RETIRED,
                State::Open | State::Failing => OPEN,
                State::Free | State::Closed | State::Reserved => 0,
            };
            out.extend(self.blocks.erases(block).to_le_bytes());
            let stream = u32::from(self.blocks.stream(block).0) << STREAM_AT;
            out.extend((flags | stream).to_le_bytes());
        }
        out
    }
}

/// A block as a checkpoint has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockEntry {
    pub(crate) erases: u32,
    pub(crate) retired: bool,
    pub(crate) open: bool,
    /// It was free and erased.
    pub(crate) erased: bool,
    /// The stream that it was last taken for.
    pub(crate) stream: Stream,
}

/// A checkpoint that was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Its number, by its tags.
    pub(crate) number: u64,
    /// Blocks that were programmed since were open then, or have a record in the log.
    pub(crate) opens_are_recorded: bool,
    pub(crate) seq: u64,
    /// Entries of the table of logical pages; see [`crate::ftl::map::entry_of`].
    pub(crate) table: Vec<u32>,
    pub(crate) objects: Vec<Object>,
    pub(crate) blocks: Vec<BlockEntry>,
    pub(crate) stats: Stats,
}

/// A set of pages: a bit for each.
struct Pages(Vec<u64>);

impl Pages {
    fn none_of(pages: u32) -> Self {
        Self(vec![0; pages.div_ceil(64) as usize])
    }

    /// Adds a page below the number of them; whether it is new.
    fn insert(&mut self, page: u32) -> bool {
        let (word, bit) = (&mut self.0[(page / 64) as usize], 1 << (page % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

/// Takes fields from the front of bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// So many words. A drive of 1 TiB has 2^28 of them, so that they are not taken one by one.
    fn words(&mut self, len: u32) -> Option<Vec<u32>> {
        let (words, rest) = self.0.split_at_checked(4 * len as usize)?;
        self.0 = rest;
        Some(words.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    fn long(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }
}

impl Loaded {
    /// Takes a stream apart; `None` if it is not a checkpoint of a drive of this shape.
    pub(crate) fn decode(stream: &[u8], limits: &Limits) -> Option<Self> {
        let mut fields = Fields(stream);
        if fields.bytes()? != MAGIC {
            return None;
        }
        let version = fields.word()?;
        if version != VERSION && !EARLIER.contains(&version) {
            return None;
        }
        let opens_are_recorded = version == VERSION;
        let (seq, pages, objects) = (fields.long()?, fields.long()?, fields.long()?);
        let (blocks, per_block) = (fields.word()?, fields.word()?);
        let same_shape = pages == u64::from(limits.logical)
            && blocks == limits.blocks
            && per_block == limits.pages_per_block;
        if !same_shape || objects > u64::from(limits.logical) || seq > MAX_SEQ {
            return None;
        }
        let mut kept = [0; Stats::KEPT];
        for number in &mut kept {
            *number = fields.long()?;
        }
        let table = fields.words(limits.logical)?;
        let object = |_| {
            let (ppn, _, birth) = (fields.word()?, fields.word()?, fields.long()?);
            limits.holds_data(ppn).then_some(Object { ppn, refs: 0, birth })
        };
        let objects = (0..objects).map(object).collect::<Option<Vec<_>>>()?;
        let block = |_| {
            let (erases, flags) = (fields.word()?, fields.word()?);
            let stream = u8::try_from(flags >> STREAM_AT).ok().filter(|s| usize::from(*s) < Stream::COUNT)?;
            let (retired, open) = (flags & RETIRED != 0, flags & OPEN != 0);
            let (erased, stream) = (flags & ERASED != 0, Stream(stream));
            Some(BlockEntry { erases, retired, open, erased, stream })
        };
        let blocks = (0..blocks).map(block).collect::<Option<Vec<_>>>()?;
        // Each page belongs to one logical page or one object.
        let mut owned = Pages::none_of(limits.blocks.checked_mul(limits.pages_per_block)?);
        if !objects.iter().all(|object| owned.insert(object.ppn)) || !fields.0.is_empty() {
            return None;
        }
        let known = |entry: &u32| match crate::ftl::map::entry_of(*entry) {
            None => true,
            Some(Ok(page)) => limits.holds_data(page.0) && owned.insert(page.0),
            Some(Err(object)) => (object as usize) < objects.len(),
        };
        let stats = Stats::from_kept(&kept);
        let all_known = table.iter().all(known);
        all_known.then_some(Self { number: 0, opens_are_recorded, seq, table, objects, blocks, stats })
    }
}

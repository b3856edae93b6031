//! The tag of a page, in its out-of-band bytes. The byte map is in
//! `docs/reference/on-disk/flash-journal.md`.

use crate::chip::MIN_OOB_BYTES;
use crate::ftl::sums::DataSum;

const MAGIC: [u8; 4] = *b"PFT1";
const LOST: u8 = 1;
const KEYED: u8 = 2;
/// The highest sequence number. It is never reached: at a million programs a second it takes
/// 146,000 years.
pub(crate) const MAX_SEQ: u64 = 1 << 62;

/// The purpose of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Data of one logical page, by its number.
    Lpn(u32),
    /// Data of a shared object.
    Object,
    /// A page of a checkpoint, by its number in it.
    Checkpoint(u32),
    /// The end of a checkpoint.
    CheckpointEnd(u32),
    /// A page of the log.
    Log {
        /// Its number in the log.
        page: u32,
        /// So many pages of the log, from its start, were durable when this one was programmed.
        durable: u32,
        /// Records in it. Each has a sum of its own, so the tag has none of the data.
        records: u32,
    },
}

/// The tag of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The purpose of the page.
    pub kind: Kind,
    /// The content could not be read when it was moved here; reads of it fail.
    pub lost: bool,
    /// The sequence number of the program that first wrote this content; for pages of the journal,
    /// the number of the checkpoint.
    pub birth: u64,
    /// The sequence number of this program.
    pub seq: u64,
    /// All sequence numbers up to this one were durable when the page was programmed.
    pub durable: u64,
    /// The erase of its block that came before this program: its erase count modulo 65,535, plus 1.
    /// 0: not known.
    pub generation: u16,
    /// Pages that were durable, with those before them in their blocks, when this one was
    /// programmed: the last ones that were programmed before a sync. A page that loses its tag is
    /// known by them to have been there.
    pub tails: Tails,
}

/// The generation of pages that are programmed after so many erases of their block.
pub(crate) fn generation_of(erases: u32) -> u16 {
    (erases % 65_535) as u16 + 1
}

/// Up to four pages, each as its number plus 1, then zeros.
pub type Tails = [u32; 4];

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn tails(oob: &[u8]) -> Option<Tails> {
    let mut tails = Tails::default();
    for (i, tail) in tails.iter_mut().enumerate() {
        *tail = u32::from_le_bytes(field(oob, 44 + 4 * i)?);
    }
    Some(tails)
}

impl Tag {
    /// The out-of-band bytes, with the sum of the data. Of a log page it is not kept.
    #[must_use]
    pub fn encode(&self, data: DataSum) -> Vec<u8> {
        let (kind, number) = match self.kind {
            Kind::Lpn(lpn) => (1, u64::from(lpn)),
            Kind::Object => (2, u64::MAX),
            Kind::Checkpoint(n) => (3, u64::from(n)),
            Kind::CheckpointEnd(n) => (4, u64::from(n)),
            Kind::Log { page, durable, .. } => (5, u64::from(durable) << 32 | u64::from(page)),
        };
        let (about_data, keyed) = match self.kind {
            Kind::Log { records, .. } => (records, 0),
            _ => (data.sum, if data.keyed { KEYED } else { 0 }),
        };
        let mut out = Vec::with_capacity(MIN_OOB_BYTES as usize);
        out.extend(MAGIC);
        out.extend([kind, keyed | if self.lost { LOST } else { 0 }]);
        out.extend(self.generation.to_le_bytes());
        out.extend([number, self.birth, self.seq, self.durable].iter().flat_map(|n| n.to_le_bytes()));
        out.extend(about_data.to_le_bytes());
        out.extend(self.tails.iter().flat_map(|tail| tail.to_le_bytes()));
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out.resize(MIN_OOB_BYTES as usize, 0);
        out
    }

    /// The tag in out-of-band bytes, and the sum of the data, if it has one; `None` if the bytes
    /// are damaged or no tag.
    #[must_use]
    pub fn decode(oob: &[u8]) -> Option<(Self, Option<DataSum>)> {
        let crc = u32::from_le_bytes(field(oob, 60)?);
        if oob[..4] != MAGIC || oob.len() < MIN_OOB_BYTES as usize || crc32c::crc32c(&oob[..60]) != crc {
            return None;
        }
        let number = u64::from_le_bytes(field(oob, 8)?);
        let about_data = u32::from_le_bytes(field(oob, 40)?);
        let short = u32::try_from(number);
        let kind = match oob[4] {
            1 => Kind::Lpn(short.ok()?),
            2 if number == u64::MAX => Kind::Object,
            3 => Kind::Checkpoint(short.ok()?),
            4 => Kind::CheckpointEnd(short.ok()?),
            5 => Kind::Log { page: number as u32, durable: (number >> 32) as u32, records: about_data },
            _ => return None,
        };
        let tag = Self {
            kind,
            lost: oob[5] & LOST != 0,
            birth: u64::from_le_bytes(field(oob, 16)?),
            seq: u64::from_le_bytes(field(oob, 24)?),
            durable: u64::from_le_bytes(field(oob, 32)?),
            generation: u16::from_le_bytes(field(oob, 6)?),
            tails: tails(oob)?,
        };
        let sane = [tag.birth, tag.seq, tag.durable].iter().all(|&seq| seq <= MAX_SEQ);
        let has_sum = !matches!(tag.kind, Kind::Log { .. });
        let data = DataSum { sum: about_data, keyed: oob[5] & KEYED != 0 };
        sane.then_some((tag, has_sum.then_some(data)))
    }
}

//! The translation layer itself.

mod census;
mod collect;
mod flush;
mod merge;
mod recover;
mod tails;
mod write;

pub use census::{BlockCount, Census};
pub use flush::Flush;
pub use recover::{recover, recover_telling};

use crate::chip::{BlockId, Nand, NandError, Nanos, Ppn};
use crate::ftl::blocks::Blocks;
use crate::ftl::content::Content;
use crate::ftl::dedup::{Dedup, Placement, Plan, Scheme, Setup, Stream, Way};
use crate::ftl::error::FtlError;
use crate::ftl::fingerprint::Fingerprint;
use crate::ftl::journal::{Image, Journal};
use crate::ftl::map::{Map, Owner};
use crate::ftl::stats::Stats;
use crate::ftl::tag::{Kind, Tag};
use crate::ftl::victim::{Greedy, Victim};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use tails::DurableTails;

/// The time that hashes of a page take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HashTimes {
    /// The weak hash.
    pub weak: Nanos,
    /// The fingerprint.
    pub strong: Nanos,
}

/// The settings of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Logical pages.
    pub logical: u32,
    /// The treatment of duplicates.
    pub plan: Plan,
    /// The hash that finds candidates.
    pub fingerprint: Fingerprint,
    /// Bits of the fingerprint that are kept, from 1 to 64.
    pub key_bits: u32,
    /// The time that hashes take.
    pub hash: HashTimes,
    /// Free blocks beside those that garbage collection itself may need.
    pub reserve: u32,
    /// Pages of open blocks are not looked at in idle time, but left for the next time.
    pub open_blocks_wait: bool,
    /// The collector of garbage.
    pub placement: Placement,
    /// Erase counts may differ by so much before a cold block is moved.
    pub wear_spread: u32,
    /// Programs from one checkpoint to the next, at most.
    pub checkpoint_every: u64,
    /// Blocks that are erased at a time, at least 1: they share the syncs before.
    pub erase_at_once: u32,
    /// Blocks that are free ahead of need: so those that garbage collection frees are erased in
    /// time, with syncs that are made anyway.
    pub ahead: u32,
}

impl Config {
    /// A drive with the scheme's plan and usual settings.
    #[must_use]
    pub fn new(logical: u32, scheme: Scheme) -> Self {
        Self {
            logical,
            plan: scheme.plan(),
            fingerprint: Fingerprint::Blake3,
            key_bits: 64,
            hash: HashTimes::default(),
            reserve: 1,
            open_blocks_wait: false,
            placement: Placement::Own,
            wear_spread: 64,
            checkpoint_every: u64::MAX,
            erase_at_once: 1,
            ahead: 0,
        }
    }
}

/// The block that a stream writes to, and the page in it that is next.
type OpenBlock = Option<(BlockId, u32)>;

/// A drive of logical pages on flash.
#[derive(Debug)]
pub struct Ftl<N, J, C> {
    nand: N,
    journal: J,
    config: Config,
    map: Map,
    blocks: Blocks,
    dedup: Dedup,
    open: [OpenBlock; Stream::COUNT],
    contents: PhantomData<C>,
    stats: Stats,
    /// The losses that the recovery passed over although they were durable: pages whose tag is
    /// lost, and logical pages whose content is.
    lost_tags: BTreeSet<Ppn>,
    lost_contents: BTreeSet<u32>,
    /// It was recovered from a checkpoint after which nothing happened.
    was_closed: bool,
    /// The next sequence number.
    seq: u64,
    /// All sequence numbers up to this one are durable.
    durable: u64,
    /// The last number that the last checkpoint knows.
    checkpointed: u64,
    /// Programs since the last checkpoint.
    since_checkpoint: u64,
    /// Erases since the wear was last looked at.
    since_wear: u32,
    /// The tails that the next tags say of pages that are durable.
    tails: DurableTails,
    /// The number of the last program, trim or merge, and of the last one before the last sync.
    changed: u64,
    synced: u64,
    /// The highest number that a tag says to be durable.
    said: u64,
    /// Changes were acknowledged that are in records of the journal only, and not in the tag of a
    /// page.
    unlogged: bool,
}

impl<N, J, C> Ftl<N, J, C>
where
    C: Content,
    N: Nand<Page = C, Oob = Tag>,
    J: Journal<N>,
{
    /// A new drive on flash that is erased. What the flash held is gone.
    ///
    /// # Errors
    /// If the flash is too small for the logical pages, or the first checkpoint cannot be written.
    pub fn format(nand: N, journal: J, config: Config) -> Result<Self, FtlError> {
        let geometry = nand.geometry();
        let greedy = Greedy::new(geometry.blocks, geometry.pages_per_block);
        Self::format_choosing(nand, journal, config, Box::new(greedy))
    }

    /// The same, with garbage collection of the victims that somebody else chooses.
    ///
    /// # Errors
    /// As of [`Ftl::format`].
    pub fn format_choosing(
        nand: N,
        journal: J,
        config: Config,
        victim: Box<dyn Victim>,
    ) -> Result<Self, FtlError> {
        let mut new = Self::assemble(nand, journal, config, true, victim)?;
        // Each may be lost.
        new.checkpoint()?;
        new.checkpoint()?;
        Ok(new)
    }

    fn assemble(
        nand: N,
        journal: J,
        config: Config,
        erased: bool,
        victim: Box<dyn Victim>,
    ) -> Result<Self, FtlError> {
        let geometry = nand.geometry();
        if geometry.pages() >= 1 << 31 || config.logical >= 1 << 31 {
            return Err(FtlError::TooLarge);
        }
        let Config { plan, placement, fingerprint, key_bits, logical, .. } = config;
        let setup = Setup { plan, placement, fingerprint, key_bits, logical };
        let dedup = Dedup::new(setup, geometry.pages());
        let (streams, collecting) = dedup.streams();
        let spare = streams + collecting.max(1) + config.reserve;
        let need = journal.reserved() + config.logical.div_ceil(geometry.pages_per_block) + spare;
        if geometry.blocks < need {
            return Err(FtlError::TooSmall { logical: config.logical, have: geometry.blocks, need });
        }
        Ok(Self {
            map: Map::new(config.logical, geometry.pages()),
            blocks: Blocks::new(geometry, journal.reserved(), erased, victim),
            dedup,
            open: [None; Stream::COUNT],
            contents: PhantomData,
            stats: Stats::default(),
            lost_tags: BTreeSet::new(),
            lost_contents: BTreeSet::new(),
            was_closed: false,
            seq: 1,
            durable: 0,
            checkpointed: 0,
            since_checkpoint: 0,
            since_wear: 0,
            changed: 0,
            synced: 0,
            said: 0,
            unlogged: false,
            tails: DurableTails::new(geometry, journal.reserved() > 0),
            nand,
            journal,
            config,
        })
    }

    /// Returns whether the flash was closed when it was recovered: nothing had happened since its
    /// last checkpoint. Of a flash that was not, the recovery cannot know whether pages without a
    /// tag were flushed, if that was the last thing that happened.
    pub fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// The losses that the recovery of this drive passed over although they were durable, because
    /// the caller accepted that: [`FtlError::TagLost`] and [`FtlError::ContentLost`], each once.
    #[must_use]
    pub fn passed_over(&self) -> Vec<FtlError> {
        let tags = self.lost_tags.iter().map(|page| FtlError::TagLost(*page));
        tags.chain(self.lost_contents.iter().map(|lpn| FtlError::ContentLost(*lpn))).collect()
    }

    /// Passes over what was durable and is lost.
    ///
    /// # Errors
    /// The loss itself, unless it is accepted.
    fn pass_over(&mut self, loss: FtlError, accepted: bool) -> Result<(), FtlError> {
        match loss {
            FtlError::TagLost(page) if accepted => drop(self.lost_tags.insert(page)),
            FtlError::ContentLost(lpn) if accepted => drop(self.lost_contents.insert(lpn)),
            other => return Err(other),
        }
        Ok(())
    }

    /// Reads a logical page, not before the time `after`; `None` if nothing was written there.
    ///
    /// # Errors
    /// If the page does not exist, its data are damaged, or are another page's.
    pub fn read(&mut self, lpn: u32, after: Nanos) -> Result<(Option<C>, Nanos), FtlError> {
        self.check(lpn)?;
        let Some(page) = self.map.lookup(lpn) else { return Ok((None, after)) };
        let read = match self.nand.read(page, after) {
            Ok(read) => read,
            Err(NandError::Unreadable(_) | NandError::Erased(_)) => {
                return Err(FtlError::Damaged { lpn, page });
            }
            Err(other) => return Err(other.into()),
        };
        match read.data {
            _ if !self.fits(page, &read.oob) => Err(FtlError::Misplaced { lpn, page }),
            Some(data) if !read.oob.lost => {
                self.nand.vouch(page);
                Ok((Some(data), read.done))
            }
            _ => Err(FtlError::Damaged { lpn, page }),
        }
    }

    /// Returns whether a page holds what the map says it does, by its tag. A write that flash lost,
    /// or put elsewhere, leaves a page whose checksums are right and whose data are another's, or
    /// older.
    fn fits(&self, page: Ppn, tag: &Tag) -> bool {
        let generation = self.blocks.generation(self.blocks.block_of(page));
        if ![0, generation].contains(&tag.generation) {
            return false;
        }
        match (self.map.owner(page), tag.kind) {
            (Some(Owner::Lpn(lpn)), Kind::Lpn(named)) => lpn == named,
            (Some(Owner::Object(object)), Kind::Lpn(_) | Kind::Object) => {
                self.map.object(object).birth == tag.birth
            }
            _ => false,
        }
    }

    /// Writes a checkpoint, so that recovery need not look at what was before.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn checkpoint(&mut self) -> Result<(), FtlError> {
        self.checkpoint_while(&mut || true).map(drop)
    }

    /// Does the same as long as `go_on` says so; it is asked now and then. A checkpoint that is
    /// given up changes nothing: the one before stands. Says whether it was made.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn checkpoint_while(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<bool, FtlError> {
        self.sync()?;
        assert!(self.durable == self.seq - 1, "F16: a checkpoint says nothing that is not durable");
        let seq = self.next_seq();
        let geometry = self.nand.geometry();
        let image = Image { seq, geometry, map: &self.map, blocks: &self.blocks, stats: &self.stats };
        if !self.journal.checkpoint(&mut self.nand, &image, go_on)? {
            return Ok(false);
        }
        (self.durable, self.said, self.checkpointed) = (seq, seq, seq);
        self.tails.clear();
        self.blocks.log_begins();
        self.since_checkpoint = 0;
        Ok(true)
    }

    /// Returns whether the last checkpoint says all that the flash holds.
    pub fn is_at_checkpoint(&self) -> bool {
        self.seq - 1 == self.checkpointed
    }

    /// Returns whether pages, trims or merges are durable of which no tag says so, or records of
    /// which there is one copy. If such a page rots, a recovery takes it for torn, and an older
    /// version stands.
    pub fn needs_mark(&self) -> bool {
        self.synced > self.said || self.tails.are_unsaid() || self.journal.lags()
    }

    /// Programs pages of the log that say what is durable, and where it ends in each block; and the
    /// second copies of pages of the log.
    ///
    /// # Errors
    /// If the flash fails.
    pub fn mark(&mut self) -> Result<(), FtlError> {
        loop {
            // Many blocks may have a page that is named nowhere: their marks can fill the log. A
            // checkpoint says what they would.
            self.checkpoint_if_due()?;
            if !self.needs_mark() {
                return Ok(());
            }
            let seq = self.next_seq();
            // The blocks of the journal are never void: what is said there stays said.
            let tails = self.tails.carry(BlockId(0));
            let marked = self.journal.mark(&mut self.nand, seq, self.durable, tails);
            marked.inspect_err(|_| self.tails.say_again(BlockId(0)))?;
            self.said = self.durable;
            if !self.tails.are_unsaid() {
                break;
            }
        }
        self.sync()
    }

    fn checkpoint_if_due(&mut self) -> Result<(), FtlError> {
        if self.journal.is_full() || self.since_checkpoint >= self.config.checkpoint_every {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Returns whether so much was programmed since the last checkpoint that a new one, of two
    /// copies of the map, costs no more.
    pub fn checkpoint_pays(&self) -> bool {
        let pages = 8 * u64::from(self.config.logical) / u64::from(self.nand.geometry().page_bytes);
        self.since_checkpoint > pages
    }

    fn next_seq(&mut self) -> u64 {
        let seq = self.seq;
        assert!(self.durable < seq, "F15: a number is past all that were given: {seq}");
        self.seq += 1;
        seq
    }

    fn check(&self, lpn: u32) -> Result<(), FtlError> {
        if lpn < self.config.logical { Ok(()) } else { Err(FtlError::OutOfRange(lpn)) }
    }

    /// The counts of the drive's work.
    pub fn stats(&mut self) -> Stats {
        self.stats.scheme_bytes = self.stats.scheme_bytes.max(self.dedup.bytes());
        self.stats
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The flash.
    pub fn nand(&self) -> &N {
        &self.nand
    }

    /// The flash.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
    }

    /// The flash alone, as after a cut of the power: what was in memory is lost.
    pub fn into_nand(self) -> N {
        self.nand
    }

    /// Fewest, mean and most erases of the blocks that hold data.
    pub fn wear(&self) -> (u32, f64, u32) {
        self.blocks.wear()
    }

    /// Blocks of data: all, and those that hold nothing.
    pub fn block_counts(&self) -> (u32, u32) {
        (self.nand.geometry().blocks - self.journal.reserved(), self.blocks.free() as u32)
    }

    /// Physical pages that hold something.
    pub fn live_pages(&self) -> u32 {
        self.blocks.all_live()
    }

    /// The copies that each ghost made, if the scheme has ghosts.
    pub fn ghosts(&self) -> Vec<(Way, u64)> {
        self.dedup.ghost_notes()
    }

    /// Live pages in blocks that are free, mapped pages without an owner, and other contradictions
    /// between the tables; none in a sound drive. It looks at every page: for tests and checks.
    pub fn contradictions(&self) -> Vec<String> {
        let geometry = self.nand.geometry();
        let mut wrong = Vec::new();
        let mut live = vec![0; geometry.blocks as usize];
        for lpn in 0..self.map.logical() {
            if let Some(page) = self.map.lookup(lpn)
                && self.map.owner(page).is_none()
            {
                wrong.push(format!("logical page {lpn} is in page {page}, which is dead"));
            }
        }
        let mapped = (0..self.map.logical()).filter(|&lpn| self.map.lookup(lpn).is_some()).count();
        if mapped != self.map.mapped() as usize {
            wrong.push(format!("{mapped} logical pages are mapped, not {}", self.map.mapped()));
        }
        for page in (0..geometry.pages()).map(Ppn) {
            let Some(owner) = self.map.owner(page) else { continue };
            live[self.blocks.block_of(page) as usize] += 1;
            let back = match owner {
                Owner::Lpn(lpn) => self.map.lookup(lpn) == Some(page),
                Owner::Object(object) => self.map.object(object).ppn == page.0,
            };
            if !back {
                wrong.push(format!("page {page} belongs to {owner:?}, which is elsewhere"));
            }
        }
        if self.blocks.all_live() != live.iter().sum() {
            wrong.push(format!("{} pages are counted as live", self.blocks.all_live()));
        }
        for (block, live) in live.iter().enumerate() {
            if self.blocks.live(block as u32) != *live {
                let counted = self.blocks.live(block as u32);
                wrong.push(format!("block {block} has {live} live pages, not {counted}"));
            }
        }
        wrong
    }
}

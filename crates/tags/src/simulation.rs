//! Power cuts and kills in virtual time, checked against a plain model; and tests that each
//! protective step is needed.

mod asserts;
mod put_back;
mod session;
mod world;

use crate::file::{Log, OnStale, Recovered, SharedMedium, TagFile};
use crate::forge;
use crate::geometry::{GROUP_PAGES, Geometry};
use crate::group::Group;
use crate::kept::KeptError;
use crate::machine::{Action, Machine, Outcome, Request};
use crate::page::{Entry, Opinion, Origin, Page, Tag};
use crate::record::{Change, apart};
use crate::rules::{ALL, Rule};
use crate::sum::{Sums, keyed};
use pumice_base::durable::{FaultyStore, Medium, Store};
use pumice_base::units::Rules;
use pumice_blockdev::{BlockDevice, FaultyDevice, IoError, TagFault};
use pumice_protect::digest::crc32c;
use pumice_protect::format::Place;
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_protect::tuple::Tuple;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks of the drive: two groups of pages, or three.
const BLOCKS: u64 = 600;
/// Most commands under way.
const DEPTH: usize = 12;

/// SplitMix64 (Steele, Lea, Flood, 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The tag file. Once the power is going, syncs do not come to their end.
#[derive(Clone)]
struct StoreMedium {
    store: FaultyStore,
    power_goes: Arc<AtomicBool>,
}

impl Medium for StoreMedium {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.store.read_at("tags", offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.store.write_at("tags", offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        if self.power_goes.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.store.sync("tags")
    }
}

/// A drive that may say that it flushed and has not.
struct Drive<'d> {
    inner: &'d FaultyDevice,
    flushes: bool,
}

impl BlockDevice for Drive<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn logical_block(&self) -> u32 {
        self.inner.logical_block()
    }
    fn atomic_unit(&self) -> u32 {
        self.inner.atomic_unit()
    }
    fn read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.inner.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), IoError> {
        if self.flushes { self.inner.flush() } else { Ok(()) }
    }
}

/// The knowledge of a plain model about a block.
#[derive(Debug, Clone)]
struct Plain {
    /// The versions that were written, oldest first; the first is what was there when the session
    /// began.
    versions: Vec<Vec<u8>>,
    /// The tag and the other metadata that each was written with. `None` if a write that failed
    /// may have left others, and for the first.
    entries: Vec<Option<Entry>>,
    /// The entry of the block after all commands so far, in their order.
    present: Option<Entry>,
    /// True if the first fits its tag, if it has one.
    fits: bool,
    /// The newest that was acknowledged.
    acknowledged: usize,
    /// The newest that must survive.
    durable: usize,
    /// True if the first has a tag, as of the start of the session.
    tagged: bool,
}

/// Something under way: how far it is.
#[derive(Debug)]
struct Job {
    action: Action,
    phase: u8,
    numbers: Vec<u64>,
    full: bool,
    low: bool,
    /// The runs of a commit that are left to be written.
    runs: Vec<(u64, Vec<u8>)>,
    loaded: Vec<Group>,
    read: Option<Vec<u8>>,
    done: bool,
}

impl Job {
    fn new(action: Action) -> Self {
        let (numbers, runs, loaded, read) = (Vec::new(), Vec::new(), Vec::new(), None);
        Self { action, phase: 0, numbers, full: false, low: false, runs, loaded, read, done: true }
    }
}

enum Kind {
    /// `tags`: their tags are read with them.
    Read {
        acknowledged: Vec<usize>,
        tags: bool,
    },
    Write {
        data: Vec<u8>,
        versions: Vec<usize>,
    },
    Adopt,
    Flush {
        acknowledged: Vec<usize>,
    },
}

struct World {
    geometry: Geometry,
    random: Random,
    drive: FaultyDevice,
    store: FaultyStore,
    medium: StoreMedium,
    /// A block that the drive takes no writes of.
    unwritable: Option<u64>,
    model: Vec<Plain>,
    /// The unit that the drive is said to write all or nothing changes between two openings.
    changes_unit: bool,
    /// True if records carried the data before the file was opened.
    carried: bool,
    rules: Rules<Rule>,
    counts: Counts,
}

/// That the simulation does what it is for.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    cuts: u64,
    kills: u64,
    planted: u64,
    rolled_back: u64,
    unacknowledged_kept: u64,
    rewritten: u64,
    checkpoints: u64,
    full: u64,
    failed_writes: u64,
    cut_recoveries: u64,
    /// Blocks that somebody wrote behind the node's back, between a cut and the next start.
    behind: u64,
    /// Blocks that recovery took for torn: they are kept blocks now.
    only_kept: u64,
    /// Torn blocks that were left alone because no copy could be kept.
    not_kept: u64,
    /// Torn blocks without a tag, of which only zeros arrived.
    unseen: u64,
    /// Blocks that had a tuple of their host's after a cut, and reads of such blocks.
    host_tuples: u64,
    read_tuples: u64,
    /// Groups of pages that were newer here than in the file when it told what it has.
    newer: u64,
    /// Looks without a lock that met a write.
    looked_again: u64,
    /// Sessions that were closed, openings that did not read the log, and headers of which the
    /// slot that counts was damaged.
    closed: u64,
    not_read: u64,
    slots_damaged: u64,
    /// Commits of two writes, from which others than the first was done first.
    swapped: u64,
    /// Writes of bytes that came back, and blocks that rightly differed from their tags after a
    /// cut.
    restored: u64,
    differed: u64,
    /// Openings after which records carried the data and had not before, and the other way; and
    /// those that left them as they were because of kept blocks.
    to_data: u64,
    from_data: u64,
    unchanged: u64,
    /// Blocks whose CRC-32C was made to be that of many others.
    forged: u64,
}

impl Counts {
    fn add(&mut self, more: &Self) {
        let Self { cuts, kills, planted, rolled_back, unacknowledged_kept, rewritten, .. } = more;
        self.cuts += cuts;
        self.kills += kills;
        self.planted += planted;
        self.rolled_back += rolled_back;
        self.unacknowledged_kept += unacknowledged_kept;
        self.rewritten += rewritten;
        let Self { checkpoints, full, failed_writes, cut_recoveries, .. } = more;
        self.checkpoints += checkpoints;
        self.full += full;
        self.failed_writes += failed_writes;
        self.cut_recoveries += cut_recoveries;
        self.behind += more.behind;
        self.only_kept += more.only_kept;
        self.not_kept += more.not_kept;
        self.unseen += more.unseen;
        self.host_tuples += more.host_tuples;
        self.read_tuples += more.read_tuples;
        self.newer += more.newer;
        self.looked_again += more.looked_again;
        self.swapped += more.swapped;
        self.restored += more.restored;
        self.differed += more.differed;
        self.to_data += more.to_data;
        self.from_data += more.from_data;
        self.unchanged += more.unchanged;
        self.forged += more.forged;
        self.closed += more.closed;
        self.not_read += more.not_read;
        self.slots_damaged += more.slots_damaged;
    }
}

/// The blocks that were written behind the node's back.
struct Behind {
    bytes: Vec<u8>,
    /// True if a run of it is that of a version which the node was writing.
    like_torn: bool,
}

struct Session<'w> {
    world: &'w mut World,
    machine: Machine,
    log: Log,
    file: TagFile,
    jobs: Vec<Job>,
    commands: BTreeMap<u64, (Range<u64>, Kind)>,
    /// Reads that began at once.
    at_once: BTreeSet<u64>,
    /// Reads that the machine does not know of yet.
    looks: BTreeSet<u64>,
    /// The blocks that commands have read whose tags are to come.
    read: BTreeMap<u64, Vec<(u64, Vec<u8>)>>,
    next: u64,
    /// Checkpoints come last, so that the log gets full.
    slow_checkpoints: bool,
    /// Pages come late, so that they may have changed.
    slow_loads: bool,
    /// Each write of a commit is a step of its own.
    stepped: bool,
}

type Checked<T> = Result<T, String>;

/// The metadata that a block is written with. Half of the data come with those of their host: its
/// tags and the bytes beside the tuple are made from the data, so that metadata of another version
/// are noticed.
fn entry(geometry: &Geometry, block: u64, bytes: &[u8]) -> Entry {
    let guard = geometry.format().guard().of(bytes);
    // Not CRC-32C, which many contents here have in common.
    let sum = keyed(1, bytes);
    if sum & 1 == 0 || bytes.iter().all(|byte| *byte == 0) {
        return Tag::written(geometry.tuple(block, guard)).into();
    }
    let others: Vec<u8> =
        (1..=geometry.other_bytes() as u32).map(|i| (sum.rotate_left(i) | 1) as u8).collect();
    // Not FFFFh, which would ask for no check.
    let application = (sum >> 16) as u16 & 0x7FFF;
    let reference = u64::from(sum.rotate_left(8)) & geometry.format().reference_mask();
    let storage = u64::from(sum) & ((1 << geometry.format().storage_bits()) - 1);
    let tuple = geometry.tuple_over(block, guard, &others);
    Entry { tag: Tag::written(Tuple { application, reference, storage, ..tuple }), others }
}

/// The tag of bytes of which nothing else is known.
fn adopted(geometry: &Geometry, block: u64, bytes: &[u8]) -> Entry {
    let tuple = geometry.tuple(block, geometry.format().guard().of(bytes));
    Tag { origin: Origin::Adopted, tuple }.into()
}

/// The bytes of these metadata.
fn metadata(geometry: &Geometry, entry: &Entry) -> Vec<u8> {
    let mut page = Page::unknown();
    page.set_with(geometry, 0, &entry.tag, &entry.others);
    page.metadata(geometry, 0).to_vec()
}

fn change(geometry: &Geometry, first: u64, data: &[u8], rules: Rules<Rule>) -> Change {
    let blocks = || (first..).zip(data.chunks(geometry.block_bytes()));
    let all: Vec<u8> =
        blocks().flat_map(|(block, bytes)| metadata(geometry, &entry(geometry, block, bytes))).collect();
    let (tags, others) = apart(geometry, &all);
    let sums = match rules.keep(Rule::KeyedSums) {
        false => Sums::Plain(blocks().map(|(_, bytes)| crc32c(bytes)).collect()),
        _ => geometry.sums(data),
    };
    Change::Tags { tags, others, sums, data: geometry.carries_data().then(|| data.to_vec()) }
}

/// The size of blocks, and whether their metadata are more than a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Sectors,
    Blocks,
    LargeMetadata,
}

/// One drive through several cuts.
fn round(seed: u64, shape: Shape, rules: Rules<Rule>) -> Checked<Counts> {
    let mut world = World::new(seed, shape, rules);
    for _ in 0..5 {
        let steps = world.random.below(1000);
        world.change_unit();
        let mut session = world.session()?;
        if session.world.random.one_in(2) {
            session.forget_kept()?;
        }
        if session.world.random.one_in(6) {
            session.fill_kept()?;
        }
        // Blocks that were damaged are repaired first, as a host would.
        session.run(steps)?;
        if session.world.random.one_in(4) {
            session.settle()?;
        }
        if session.world.random.one_in(3) {
            // The end of a checkpoint is short: go there.
            session.machine.begin_checkpoint();
            let releases = |job: &Job| matches!(job.action, Action::Release(_));
            for _ in 0..400 {
                session.run(1)?;
                session.collect()?;
                if session.jobs.iter().any(releases) {
                    break;
                }
            }
        }
        let mut kill = session.world.random.one_in(3);
        if session.world.random.one_in(4) {
            let cut = session.close()?;
            if !cut && world.random.one_in(2) {
                // Started again at once: the header has known one opening when the power goes.
                continue;
            }
            kill &= !cut;
        } else {
            session.cut(kill);
        }
        let mut behind = BTreeMap::new();
        if kill {
            // The process goes, and not the power: nothing is lost but what it had in memory.
            world.counts.kills += 1;
        } else {
            world.counts.cuts += 1;
            world.drive.crash();
            world.store.crash();
            world.medium.power_goes.store(false, Ordering::Relaxed);
            world.damage(&mut behind);
            world.damage_slot()?;
        }
        if world.random.one_in(2) {
            world.write_behind(&mut behind);
        }
        if !(kill && behind.is_empty()) {
            let _ = world.drive.flush();
        }
        world.change_unit();
        drop(world.session()?);
        let left = world.check(&behind)?;
        // Make good again what was damaged, from elsewhere.
        let mut session = world.session()?;
        for block in behind.into_keys().chain(left) {
            session.begin_at(0, block..block + 1);
        }
        session.settle()?;
        session.begin_at(8, 0..0);
        session.settle()?;
    }
    Ok(world.counts)
}

fn rounds(seeds: Range<u64>, shape: Shape) -> Counts {
    let mut sum = Counts::default();
    for seed in seeds {
        let counts = round(seed, shape, Rules::all()).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        sum.add(&counts);
    }
    sum
}

#[test]
fn no_cut_loses_a_write_or_makes_or_hides_a_finding() {
    let counts = rounds(0..700, Shape::Sectors);
    println!("{counts:?}");
    assert!(counts.forged > 10_000, "{counts:?}");
    assert!(counts.cuts > 1500 && counts.kills > 500 && counts.cut_recoveries > 500, "{counts:?}");
    assert!(counts.planted > 500 && counts.failed_writes > 50, "{counts:?}");
    assert!(counts.rolled_back > 500 && counts.unacknowledged_kept > 500, "{counts:?}");
    assert!(counts.checkpoints > 500 && counts.full > 20, "{counts:?}");
    assert!(counts.host_tuples > 1000 && counts.read_tuples > 1000, "{counts:?}");
    assert!(counts.newer > 100 && counts.looked_again > 100, "{counts:?}");
    assert!(counts.swapped > 10, "{counts:?}");
    assert!(counts.restored > 1000 && counts.differed > 100, "{counts:?}");
    assert!(counts.closed > 200 && counts.not_read > 50 && counts.slots_damaged > 100, "{counts:?}");
}

#[test]
fn no_cut_tears_a_block_that_is_larger_than_a_sector() {
    let counts = rounds(10_000..10_900, Shape::Blocks);
    println!("{counts:?}");
    assert!(counts.rewritten > 100 && counts.planted > 100 && counts.full > 100, "{counts:?}");
    assert!(counts.behind > 100 && counts.only_kept > 20, "{counts:?}");
    assert!(counts.not_kept > 20 && counts.unseen > 5, "{counts:?}");
    assert!(counts.restored > 1000 && counts.differed > 100, "{counts:?}");
    assert!(counts.to_data > 100 && counts.from_data > 100 && counts.unchanged > 20, "{counts:?}");
}

/// The bytes beside the tuple come and go with the tuple, and with the data.
#[test]
fn no_cut_parts_a_block_from_its_metadata() {
    let counts = rounds(20_000..20_400, Shape::LargeMetadata);
    println!("{counts:?}");
    assert!(counts.rewritten > 100 && counts.planted > 100 && counts.full > 100, "{counts:?}");
    assert!(counts.rolled_back > 100 && counts.unacknowledged_kept > 100, "{counts:?}");
    assert!(counts.host_tuples > 1000 && counts.read_tuples > 1000, "{counts:?}");
    assert!(counts.failed_writes > 20 && counts.newer > 20, "{counts:?}");
}

#[test]
fn each_protective_step_is_needed() {
    for rule in ALL {
        let shape = if rule.is_of_torn_blocks() { Shape::Blocks } else { Shape::Sectors };
        let rules = Rules::silently_without(rule);
        let found = (0..10_000).find_map(|seed| round(seed, shape, rules).err());
        println!("{rule:?}: {found:?}");
        assert!(found.is_some(), "{rule:?} makes no difference");
    }
}

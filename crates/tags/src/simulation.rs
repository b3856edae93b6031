//! Power cuts and kills in virtual time, against a plain model; and that each protective step is
//! needed.

use crate::file::{Log, Recovered, SharedMedium, TagFile};
use crate::geometry::Geometry;
use crate::machine::{Action, Machine, Outcome, Request};
use crate::page::{Origin, Tag, Verdict};
use crate::record::Change;
use pumice_blockdev::{BlockDevice, FaultyDevice, IoError};
use pumice_durable::{FaultyStore, Medium, Store};
use pumice_protect::guard::Guard;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A protective step that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Commands do not wait for each other.
    NoLocks,
    /// Data are written without a record.
    DataBeforeLog,
    /// The pages of a checkpoint are copied after the flush.
    CopyAfterFlush,
    /// Recovery asks the home tags only.
    HomeOnly,
    /// The log is not synced before the data are written.
    NoLogSync,
    /// Pages are not synced before the log is released.
    NoPageSync,
    /// The drive is not flushed before pages go home.
    NoFlush,
    /// The drive is not flushed at the end of a recovery.
    NoRecoveryFlush,
    /// After a failed write the new tags are taken for granted.
    NoSecondLook,
    /// A write that the drive refused is settled by the next flush.
    RefusedIsSettled,
}

const ALL: [Mutation; 10] = [
    Mutation::NoLocks,
    Mutation::DataBeforeLog,
    Mutation::CopyAfterFlush,
    Mutation::HomeOnly,
    Mutation::NoLogSync,
    Mutation::NoPageSync,
    Mutation::NoFlush,
    Mutation::NoRecoveryFlush,
    Mutation::NoSecondLook,
    Mutation::RefusedIsSettled,
];

/// Blocks of the drive: five pages.
const BLOCKS: u64 = 280;
/// Commands under way, at most.
const DEPTH: usize = 12;

/// SplitMix64 (Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
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

/// What a plain model knows of a block.
#[derive(Debug, Clone)]
struct Plain {
    /// What was written, oldest first; the first is what was there when the session began.
    versions: Vec<Vec<u8>>,
    /// The newest that was acknowledged.
    acknowledged: usize,
    /// The newest that must survive.
    durable: usize,
    /// Whether the first has a tag, as of the start of the session.
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
    read: Option<Vec<u8>>,
    done: bool,
}

enum Kind {
    Read { acknowledged: Vec<usize> },
    Write { data: Vec<u8>, versions: Vec<usize> },
    Adopt,
    Flush { acknowledged: Vec<usize> },
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
    mutation: Option<Mutation>,
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
}

struct Session<'w> {
    world: &'w mut World,
    machine: Machine,
    log: Log,
    file: TagFile,
    jobs: Vec<Job>,
    commands: BTreeMap<u64, (Range<u64>, Kind)>,
    next: u64,
    /// Checkpoints come last, so that the log gets full.
    slow_checkpoints: bool,
}

type Checked<T> = Result<T, String>;

impl World {
    fn new(seed: u64, block: u32, mutation: Option<Mutation>) -> Self {
        let mut random = Random(seed);
        let guard = Guard::ALL[random.below(3) as usize];
        let size = BLOCKS * u64::from(block);
        let geometry = Geometry::new(size, block, 512, guard, 64 << 10).expect("a drive");
        let content: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
        let drive = FaultyDevice::new("d", content.clone(), random.next());
        let fails =
            random.one_in(3) || matches!(mutation, Some(Mutation::NoSecondLook | Mutation::RefusedIsSettled));
        let unwritable = fails.then(|| random.below(BLOCKS));
        if let Some(at) = unwritable.map(|at| at * u64::from(block)) {
            drive.refuse_writes(at..at + u64::from(block));
        }
        let store = FaultyStore::new(random.next());
        store.create("tags", &vec![0; geometry.file_bytes() as usize]).expect("an empty store");
        store.sync("tags").expect("it is new");
        store.sync_folder().expect("it is new");
        let medium = StoreMedium { store: store.clone(), power_goes: Arc::default() };
        TagFile::create(&medium, geometry, seed, "serial").expect("a new tag file");
        let model = content.chunks(block as usize).map(|bytes| Plain {
            versions: vec![bytes.to_vec()],
            acknowledged: 0,
            durable: 0,
            tagged: false,
        });
        let model = model.collect();
        let counts = Counts::default();
        Self { geometry, random, drive, store, medium, unwritable, model, mutation, counts }
    }

    fn open(&mut self) -> Checked<(TagFile, Log, Recovered, u64)> {
        let medium = SharedMedium(Arc::new(self.medium.clone()));
        let flushes = self.mutation != Some(Mutation::NoRecoveryFlush);
        let drive = Drive { inner: &self.drive, flushes };
        let mutation = self.mutation;
        TagFile::open_with(medium, &drive, "serial", |recovery| recovery.mutation = mutation)
            .map_err(|error| format!("open: {error}"))
    }

    fn session(&mut self) -> Checked<Session<'_>> {
        // Sometimes the power goes again during recovery.
        while self.random.one_in(3) {
            self.store.cut_power_after(self.random.below(400));
            if self.random.one_in(2) {
                self.drive.cut_power_after(self.random.below(60));
            }
            let _ = self.open();
            self.counts.cut_recoveries += 1;
            self.store.crash();
            self.drive.crash();
        }
        let (file, log, recovered, last) = self.open()?;
        self.counts.rewritten += recovered.rewritten.len() as u64;
        if !recovered.lost_pages.is_empty() {
            return Err(format!("pages {:?} are lost", recovered.lost_pages));
        }
        let cached = 3 + self.random.below(6) as usize;
        let mut machine = Machine::new(self.geometry, last, cached);
        machine.mutation = self.mutation;
        let (jobs, commands) = (Vec::new(), BTreeMap::new());
        let slow_checkpoints = self.random.one_in(4);
        Ok(Session { world: self, machine, log, file, jobs, commands, next: 1, slow_checkpoints })
    }

    /// After a cut and a recovery: each block against the model.
    fn check(&mut self, damaged: &BTreeSet<u64>) -> Checked<()> {
        let (geometry, size) = (self.geometry, self.geometry.block_bytes());
        let medium = SharedMedium(Arc::new(self.medium.clone()));
        let header = TagFile::peek(&medium).map_err(|error| error.to_string())?;
        for block in 0..BLOCKS {
            let content = self.drive.peek(block * size as u64, size);
            let (number, place) = geometry.place(block);
            let mut sector = [0; 512];
            medium.read_at(geometry.page_at(number), &mut sector).map_err(|error| error.to_string())?;
            let page = crate::page::Page::decode(&geometry, &sector, header.identity, number);
            if page == crate::page::Found::Lost {
                return Err(format!("page {number} is lost"));
            }
            let tag = page.page().tag(&geometry, place);
            let verdict = tag.judge(geometry.format().guard().of(&content));
            let plain = &mut self.model[block as usize];
            let version = plain.versions.iter().rposition(|version| *version == content);
            match version {
                Some(version) if version < plain.durable => {
                    return Err(format!("block {block}: version {version} of {} is lost", plain.durable));
                }
                Some(version) if version > 0 && verdict != Verdict::Fits(Origin::Written) => {
                    return Err(format!("block {block}, version {version}: {verdict:?}"));
                }
                // Neither a mixture nor what was there before, as far as anybody can tell, and it
                // cannot be written again: it is refused.
                Some(0) if geometry.carries_data() && self.unwritable == Some(block) => {}
                Some(0) if matches!(verdict, Verdict::Differs(_)) => {
                    return Err(format!("block {block}, untouched: {verdict:?}"));
                }
                Some(0) if plain.tagged && verdict == Verdict::Unchecked => {
                    return Err(format!("block {block}: its tag is lost"));
                }
                Some(version) => {
                    self.counts.rolled_back += u64::from(version < plain.acknowledged);
                    self.counts.unacknowledged_kept += u64::from(version > plain.acknowledged);
                }
                None if !damaged.contains(&block) => {
                    return Err(format!("block {block} has no version that was written"));
                }
                None if plain.tagged && !matches!(verdict, Verdict::Differs(_)) => {
                    return Err(format!("block {block}: damage was missed, {verdict:?}"));
                }
                None => {}
            }
            let tagged = tag != Tag::UNKNOWN;
            *plain = Plain { versions: vec![content], acknowledged: 0, durable: 0, tagged };
            if version.is_none() {
                // It goes on as it is, and is not looked at again before it is written.
                plain.tagged = false;
            }
        }
        Ok(())
    }
}

impl Session<'_> {
    fn new_data(&mut self, blocks: &Range<u64>) -> Vec<u8> {
        let len = (blocks.end - blocks.start) as usize * self.world.geometry.block_bytes();
        (0..len).map(|_| self.world.random.next() as u8).collect()
    }

    fn begin(&mut self, kind: u64) {
        let geometry = self.world.geometry;
        let count = 1 + self.world.random.below(geometry.max_record_blocks().min(6));
        // A few hot blocks, so that commands meet.
        let hot = self.world.random.one_in(2);
        let first = if hot { self.world.random.below(8) } else { self.world.random.below(BLOCKS) };
        let blocks = first..(first + count).min(BLOCKS);
        self.begin_at(kind, blocks);
    }

    fn begin_at(&mut self, kind: u64, blocks: Range<u64>) {
        let geometry = self.world.geometry;
        let id = self.next;
        self.next += 1;
        let range = blocks.start as usize..blocks.end as usize;
        match kind {
            0..=4 => {
                let zeros = kind == 4;
                let mut data = self.new_data(&blocks);
                if zeros {
                    data.fill(0);
                }
                let mut versions = Vec::new();
                for (plain, bytes) in
                    self.world.model[range].iter_mut().zip(data.chunks(geometry.block_bytes()))
                {
                    plain.versions.push(bytes.to_vec());
                    versions.push(plain.versions.len() - 1);
                }
                let change = if zeros {
                    Change::Zeros(blocks.end - blocks.start)
                } else {
                    change(&geometry, blocks.start, &data)
                };
                self.commands.insert(id, (blocks.clone(), Kind::Write { data, versions }));
                self.machine.begin(id, blocks, Request::Write(change));
            }
            5..=6 => {
                let acknowledged = self.world.model[range].iter().map(|plain| plain.acknowledged).collect();
                self.commands.insert(id, (blocks.clone(), Kind::Read { acknowledged }));
                self.machine.begin(id, blocks, Request::Read);
            }
            7 => {
                self.commands.insert(id, (blocks.clone(), Kind::Adopt));
                self.machine.begin(id, blocks, Request::Adopt);
            }
            8 => {
                let acknowledged = self.world.model.iter().map(|plain| plain.acknowledged).collect();
                self.commands.insert(id, (0..0, Kind::Flush { acknowledged }));
                self.machine.begin_flush(id);
            }
            _ => self.machine.begin_checkpoint(),
        }
    }

    fn collect(&mut self) -> Checked<()> {
        loop {
            let actions = self.machine.take_actions();
            if actions.is_empty() {
                return Ok(());
            }
            for action in actions {
                if let Action::Done { id, outcome } = action {
                    self.done(id, &outcome)?;
                } else {
                    let (numbers, read) = (Vec::new(), None);
                    let (full, low, done) = (false, false, true);
                    self.jobs.push(Job { action, phase: 0, numbers, full, low, read, done });
                }
            }
        }
    }

    fn done(&mut self, id: u64, outcome: &Outcome) -> Checked<()> {
        let (blocks, kind) = self.commands.remove(&id).expect("a command of this session");
        let range = blocks.start as usize..blocks.end as usize;
        match (kind, outcome) {
            (Kind::Write { versions, .. }, Outcome::Done) => {
                for (plain, version) in self.world.model[range].iter_mut().zip(versions) {
                    plain.acknowledged = plain.acknowledged.max(version);
                }
            }
            (Kind::Write { .. }, Outcome::DriveFailed) => self.world.counts.failed_writes += 1,
            (Kind::Flush { acknowledged }, Outcome::Done) => {
                for (plain, version) in self.world.model.iter_mut().zip(acknowledged) {
                    plain.durable = plain.durable.max(version);
                }
            }
            (Kind::Read { .. } | Kind::Adopt, Outcome::Read(verdicts)) => {
                for (block, verdict) in blocks.zip(verdicts) {
                    let excused = self.world.geometry.carries_data() && self.world.unwritable == Some(block);
                    if matches!(verdict, Verdict::Differs(_)) && !excused {
                        return Err(format!("block {block} is refused though nothing is wrong"));
                    }
                }
            }
            (_, outcome) => return Err(format!("command {id}: {outcome:?}")),
        }
        Ok(())
    }

    /// One step of a job. Returns it unless it has ended.
    fn step(&mut self, mut job: Job) -> Checked<Option<Job>> {
        let mutation = self.world.mutation;
        let size = self.world.geometry.block_bytes();
        let text = |error: &dyn std::fmt::Display| error.to_string();
        job.phase += 1;
        match (&job.action, job.phase) {
            (Action::Load { id, pages }, _) => {
                let pages = pages.iter().map(|number| Ok((*number, self.file.load(*number)?)));
                let pages: io::Result<_> = pages.collect();
                self.machine.loaded(*id, pages.map_err(|error| text(&error))?);
                return Ok(None);
            }
            (Action::Commit(records), 1) => {
                let appended = self.log.append(records).map_err(|error| text(&error))?;
                (job.numbers, job.full, job.low) = (appended.numbers, appended.full, appended.low);
                self.world.counts.full += u64::from(job.full);
            }
            (Action::Commit(_), 2) => {
                if mutation != Some(Mutation::NoLogSync) {
                    self.log.sync().map_err(|error| text(&error))?;
                }
            }
            (Action::Commit(_), _) => {
                self.machine.committed(&job.numbers, job.full, job.low);
                return Ok(None);
            }
            (Action::Write(id), 1) => {
                let (blocks, Kind::Write { data, .. }) = &self.commands[id] else { panic!("a write") };
                job.done = self.world.drive.write_at(blocks.start * size as u64, data).is_ok();
            }
            (Action::Write(id), _) => {
                let done = job.done || mutation == Some(Mutation::NoSecondLook);
                self.machine.data_written(*id, done);
                return Ok(None);
            }
            (Action::Read(id), 1) => {
                let (blocks, kind) = &self.commands[id];
                let mut bytes = vec![0; (blocks.end - blocks.start) as usize * size];
                self.world.drive.read_at(blocks.start * size as u64, &mut bytes).map_err(|e| text(&e))?;
                if let Kind::Read { acknowledged } = kind {
                    let plain = &self.world.model[blocks.start as usize..blocks.end as usize];
                    for ((plain, least), found) in plain.iter().zip(acknowledged).zip(bytes.chunks(size)) {
                        let version = plain.versions.iter().rposition(|version| version == found);
                        if version.is_none_or(|version| version < *least) {
                            return Err("a read saw an older version than one acknowledged".to_owned());
                        }
                    }
                }
                job.read = Some(bytes);
            }
            (Action::Read(id), _) => {
                let guard = self.world.geometry.format().guard();
                let bytes = job.read.expect("it was read");
                let guards: Vec<u64> = bytes.chunks(size).map(|block| guard.of(block)).collect();
                self.machine.data_read(*id, Some(&guards));
                return Ok(None);
            }
            (Action::SeeAgain(id), _) => {
                let (blocks, _) = &self.commands[id];
                let seen: Vec<_> =
                    blocks.clone().map(|b| Some(self.world.drive.peek(b * size as u64, size))).collect();
                self.machine.seen_again(*id, &seen);
                return Ok(None);
            }
            (Action::Flush(id), 1) => {
                if id.is_some() || mutation != Some(Mutation::NoFlush) {
                    self.world.drive.flush().map_err(|error| text(&error))?;
                }
            }
            (Action::Flush(id), _) => {
                self.machine.flushed(*id, true);
                return Ok(None);
            }
            (Action::Store(pages), 1) => self.file.store(pages).map_err(|error| text(&error))?,
            (Action::Store(_), 2) => {
                if mutation != Some(Mutation::NoPageSync) {
                    self.file.sync().map_err(|error| text(&error))?;
                }
            }
            (Action::Store(_), _) => {
                self.machine.stored();
                return Ok(None);
            }
            (Action::Release(upto), _) => {
                self.log.release(*upto).map_err(|error| text(&error))?;
                self.world.counts.checkpoints += 1;
                self.machine.released();
                return Ok(None);
            }
            (Action::Done { .. }, _) => unreachable!("it was taken out"),
        }
        Ok(Some(job))
    }

    /// Does so many steps, each of them any that can be done.
    fn run(&mut self, steps: u64) -> Checked<()> {
        for _ in 0..steps {
            self.collect()?;
            let of_checkpoint =
                |job: &Job| matches!(job.action, Action::Flush(None) | Action::Store(_) | Action::Release(_));
            let only_checkpoint = self.slow_checkpoints && self.jobs.iter().all(of_checkpoint);
            let begins = self.commands.len() < DEPTH
                && (self.world.random.one_in(4) || (only_checkpoint && !self.world.random.one_in(128)));
            if self.jobs.is_empty() || begins {
                let kinds = if self.world.random.one_in(8) { 10 } else { 8 };
                let kind = self.world.random.below(kinds);
                self.begin(kind);
                continue;
            }
            let at = self.world.random.below(self.jobs.len() as u64) as usize;
            if self.slow_checkpoints && of_checkpoint(&self.jobs[at]) && !only_checkpoint {
                continue;
            }
            let job = self.jobs.swap_remove(at);
            let again = self.step(job)?;
            self.jobs.extend(again);
        }
        Ok(())
    }

    /// Ends what is under way, and begins nothing.
    fn settle(&mut self) -> Checked<()> {
        self.collect()?;
        while !self.jobs.is_empty() {
            let at = self.world.random.below(self.jobs.len() as u64) as usize;
            let job = self.jobs.swap_remove(at);
            let again = self.step(job)?;
            self.jobs.extend(again);
            self.collect()?;
        }
        if let Some(id) = self.commands.keys().next() {
            return Err(format!("command {id} never ends"));
        }
        Ok(())
    }

    /// The power goes, or the process: of each write under way, some.
    fn cut(mut self, kill: bool) {
        for job in std::mem::take(&mut self.jobs) {
            if job.phase > 0 || self.world.random.one_in(2) {
                continue;
            }
            match &job.action {
                Action::Write(id) => {
                    let (blocks, Kind::Write { data, .. }) = &self.commands[id] else { panic!("a write") };
                    let at = blocks.start * self.world.geometry.block_bytes() as u64;
                    let _ = self.world.drive.write_at(at, data);
                }
                Action::Commit(records) => drop(self.log.append(records)),
                Action::Store(pages) => drop(self.file.store(pages)),
                Action::Release(upto) if !kill => {
                    // Between the marker and its sync.
                    self.world.medium.power_goes.store(true, Ordering::Relaxed);
                    let _ = self.log.release(*upto);
                }
                _ => {}
            }
        }
    }
}

fn change(geometry: &Geometry, first: u64, data: &[u8]) -> Change {
    let guard = geometry.format().guard();
    let blocks = || (first..).zip(data.chunks(geometry.block_bytes()));
    Change::Tags {
        tags: blocks().map(|(block, bytes)| Tag::written(geometry.tuple(block, guard.of(bytes)))).collect(),
        sums: blocks().map(|(_, bytes)| crc32c::crc32c(bytes)).collect(),
        data: geometry.carries_data().then(|| data.to_vec()),
    }
}

/// One drive through several cuts.
fn round(seed: u64, block: u32, mutation: Option<Mutation>) -> Checked<Counts> {
    let mut world = World::new(seed, block, mutation);
    for _ in 0..4 {
        let steps = world.random.below(1000);
        let mut session = world.session()?;
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
        let kill = session.world.random.one_in(3);
        session.cut(kill);
        let mut damaged = BTreeSet::new();
        if kill {
            // The process goes, and not the power: nothing is lost but what it had in memory.
            world.counts.kills += 1;
        } else {
            world.counts.cuts += 1;
            world.drive.crash();
            world.store.crash();
            world.medium.power_goes.store(false, Ordering::Relaxed);
            for _ in 0..world.random.below(4) {
                let block = world.random.below(BLOCKS);
                let size = world.geometry.block_bytes() as u64;
                let at = block * size + world.random.below(size);
                let byte = world.drive.peek(at, 1)[0] ^ 1 << world.random.below(8);
                if damaged.insert(block) && world.drive.write_at(at, &[byte]).is_ok() {
                    world.counts.planted += u64::from(world.model[block as usize].tagged);
                }
            }
            let _ = world.drive.flush();
        }
        drop(world.session()?);
        world.check(&damaged)?;
        // Make good again what was damaged, from elsewhere.
        let mut session = world.session()?;
        for block in damaged {
            session.begin_at(0, block..block + 1);
        }
        session.settle()?;
        session.begin_at(8, 0..0);
        session.settle()?;
    }
    Ok(world.counts)
}

fn rounds(seeds: Range<u64>, block: u32) -> Counts {
    let mut sum = Counts::default();
    for seed in seeds {
        let counts = round(seed, block, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        sum.cuts += counts.cuts;
        sum.kills += counts.kills;
        sum.planted += counts.planted;
        sum.rolled_back += counts.rolled_back;
        sum.unacknowledged_kept += counts.unacknowledged_kept;
        sum.rewritten += counts.rewritten;
        sum.checkpoints += counts.checkpoints;
        sum.full += counts.full;
        sum.failed_writes += counts.failed_writes;
        sum.cut_recoveries += counts.cut_recoveries;
    }
    sum
}

#[test]
fn no_cut_loses_a_write_or_makes_or_hides_a_finding() {
    let counts = rounds(0..700, 512);
    println!("{counts:?}");
    assert!(counts.cuts > 1500 && counts.kills > 500 && counts.cut_recoveries > 500, "{counts:?}");
    assert!(counts.planted > 500 && counts.failed_writes > 50, "{counts:?}");
    assert!(counts.rolled_back > 500 && counts.unacknowledged_kept > 500, "{counts:?}");
    assert!(counts.checkpoints > 500 && counts.full > 20, "{counts:?}");
}

#[test]
fn no_cut_tears_a_block_that_is_larger_than_a_sector() {
    let counts = rounds(10_000..10_300, 4096);
    println!("{counts:?}");
    assert!(counts.rewritten > 100 && counts.planted > 100 && counts.full > 100, "{counts:?}");
}

#[test]
fn each_protective_step_is_needed() {
    for mutation in ALL {
        let found = (0..400).find_map(|seed| round(seed, 512, Some(mutation)).err());
        println!("{mutation:?}: {found:?}");
        assert!(found.is_some(), "{mutation:?} makes no difference");
    }
}

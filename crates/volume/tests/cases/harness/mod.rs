//! A host that runs a volume over drives in memory, in virtual time, and a plain model of its
//! content.

mod claims;
pub(crate) mod disk;
mod drive;
mod held;
mod linux;
mod members;
pub(crate) mod model;
mod nodes;

use claims::Claims;
use disk::{Disk, Random};
use model::Model;
use nodes::Nodes;
use pumice_base::units::{Role, Rules};
use pumice_parity::gf;
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::V1;
use pumice_raid::{FormatSpec, Metadata, Uuid};
use pumice_volume::assemble::Rule;
use pumice_volume::log::{HEAD_BYTES, HEADS, newest_head, scan};
use pumice_volume::member::bad_blocks_of;
use pumice_volume::plan::Term;
use pumice_volume::rows::{BLOCK, Rows, Windows};
use pumice_volume::sequencer::OpId;
use pumice_volume::token::Token;
use pumice_volume::{
    Action, Command, Effect, Event, MemberLook, MemberPlace, Outcome, Refusal, Report, Volume, assemble,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Panics in this thread are expected.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// Volumes that leave a rule out check their assertions.
    static ASSERTS: Cell<bool> = const { Cell::new(false) };
}

/// The text of a panic.
fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_default()
}

/// Returns whether a panic is of an assertion of a rule: its text begins with "V12: ", say.
fn is_of_a_rule(text: &str) -> bool {
    let Some((name, _)) = text.split_once(": ") else { return false };
    name.len() > 1 && name.starts_with(['L', 'V']) && name[1..].bytes().all(|byte| byte.is_ascii_digit())
}

/// The first of some seeds whose history goes wrong, and what its panic says, which is not printed.
fn first_panic(seeds: Range<u64>, history: impl Fn(u64)) -> Option<(u64, String)> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let panic = |seed: u64| catch_unwind(AssertUnwindSafe(|| history(seed))).err();
    let found = seeds.into_iter().find_map(|seed| Some((seed, text(&*panic(seed)?))));
    QUIET.set(false);
    found
}

/// The first of some seeds whose history goes wrong: content is lost, say. That an assertion of a
/// rule fails does not count.
pub(crate) fn first_wrong(seeds: Range<u64>, history: impl Fn(u64)) -> Option<u64> {
    let (seed, text) = first_panic(seeds, history)?;
    assert!(!is_of_a_rule(&text), "nothing went wrong before an assertion failed: {text}");
    Some(seed)
}

/// The text of the first assertion of a rule that fails in histories of some seeds. They leave a
/// rule out.
pub(crate) fn first_assertion(seeds: Range<u64>, history: impl Fn(u64)) -> Option<String> {
    ASSERTS.set(true);
    let found = first_panic(seeds, history);
    ASSERTS.set(false);
    found.map(|(_, text)| text)
}

const SUPERBLOCK: u64 = 4096;
const DATA: u64 = 0x12_0000;
const REGION: u32 = 32768;

#[derive(Default)]
struct Buffers {
    old: BTreeMap<(Role, u32), Vec<u8>>,
    new: BTreeMap<(Role, u32), Vec<u8>>,
}

/// The fault of an executor, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Log records are not durable when they are said to be.
    LazyLog,
    /// Flush does nothing.
    NoFlush,
    /// Superblocks are not written.
    NoSuperblocks,
    /// Bits are not written.
    NoBits,
    /// Bad blocks are not recorded.
    NoBadBlocks,
    /// A stripe log that cannot be read is taken for an empty one.
    UnreadableLogs,
}

/// A small durable write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Head,
    Superblock,
}

impl Put {
    pub(crate) fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Put { at: SUPERBLOCK, .. } => Some(Self::Superblock),
            Command::Put { at, .. } if (DATA - HEADS * HEAD_BYTES..DATA).contains(at) => Some(Self::Head),
            _ => None,
        }
    }
}

pub(crate) struct Setup {
    pub(crate) level: Level,
    pub(crate) layout: Option<Layout>,
    pub(crate) disks: u16,
    pub(crate) chunk: u64,
    pub(crate) stripes: u64,
    pub(crate) log: bool,
    /// Members are on three nodes that make parity.
    pub(crate) near: bool,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) geometry: Geometry,
    pub(crate) windows: Windows,
    region: u64,
    pub(crate) disks: Vec<Disk>,
    pub(crate) volume: Option<Volume>,
    pub(crate) model: Model,
    pub(crate) report: Report,
    pub(crate) fault: Fault,
    pub(crate) omit: Option<Rule>,
    pub(crate) token: Token,
    pub(crate) held: bool,
    pub(crate) again: bool,
    pub(crate) fenced: bool,
    pub(crate) stopped: bool,
    pub(crate) claims: Claims,
    pub(crate) log: bool,
    ready: bool,
    outstanding: Vec<Action>,
    /// The volume is told of several events at once.
    pub(crate) together: bool,
    untold: Vec<Event>,
    buffers: BTreeMap<OpId, Buffers>,
    next_request: u64,
    clock: u64,
    next_device: u8,
    /// Full stripes that were not flushed may be unreadable after a member was lost with the power.
    pub(crate) may_be_unreadable: bool,
    pub(crate) flushes: u64,
    /// Windows of members that were written in place.
    pub(crate) stores: u64,
    failing_puts: Vec<(Role, Put, bool)>,
    /// The node of this member does not log for it the next time.
    pub(crate) refuses: Option<Role>,
    missed: Vec<Role>,
    pub(crate) nodes: Option<Nodes>,
    /// Writes that went near and far before the last crash.
    pub(crate) ways: (u64, u64),
    /// Each operation goes a way of its own.
    pub(crate) ways_of_any: Option<Random>,
    nanoseconds: u64,
}

impl World {
    pub(crate) fn new(seed: u64, setup: &Setup) -> Self {
        Self::with_regions(seed, setup, REGION)
    }

    /// With a bitmap whose regions have so many bytes.
    pub(crate) fn with_regions(seed: u64, setup: &Setup, region: u32) -> Self {
        let size = DATA + setup.stripes * setup.chunk;
        let spec = FormatSpec {
            metadata: Metadata::V1_2,
            level: setup.level,
            layout: setup.layout,
            chunk_bytes: setup.chunk,
            component_bytes: None,
            device_bytes: vec![size; usize::from(setup.disks)],
            array_uuid: Uuid([9; 16]),
            device_uuids: (0..setup.disks).map(|i| Uuid([i as u8 + 1; 16])).collect(),
            name: "volume".to_owned(),
            ctime: 1,
            bitmap: true,
            bad_block_log: true,
            data_offset: Some(DATA),
        };
        let format = spec.format().unwrap();
        let mut disks = Vec::new();
        for member in &format.members {
            let mut disk = Disk::new(size as usize);
            for (at, bytes) in &member.writes {
                disk.put(*at, bytes);
            }
            // A bitmap with many regions, so that bits mean something.
            disk.put(SUPERBLOCK * 2 + 52, &region.to_le_bytes());
            disks.push(disk);
        }
        let windows = Windows::new(&format.geometry);
        let mut world = Self {
            random: Random(seed),
            geometry: format.geometry,
            windows,
            region: u64::from(region),
            disks,
            volume: None,
            model: Model::new(format.geometry.array_bytes()),
            report: Report::default(),
            fault: Fault::None,
            omit: None,
            token: Token { number: 1, host: 1 },
            held: false,
            again: false,
            fenced: false,
            stopped: false,
            claims: Claims::default(),
            log: setup.log,
            ready: false,
            outstanding: Vec::new(),
            together: false,
            untold: Vec::new(),
            buffers: BTreeMap::new(),
            next_request: 0,
            clock: 100,
            next_device: 100,
            may_be_unreadable: false,
            flushes: 0,
            stores: 0,
            failing_puts: Vec::new(),
            refuses: None,
            missed: Vec::new(),
            nodes: setup.near.then(Nodes::default),
            ways: (0, 0),
            ways_of_any: None,
            nanoseconds: 0,
        };
        world.take_tokens();
        world
    }

    fn look(&self, disk: &Disk) -> Option<MemberLook> {
        let bytes = &disk.now[..];
        let superblock = V1::decode(&bytes[SUPERBLOCK as usize..], Metadata::V1_2).ok()?;
        let record = pumice_raid::probe(&disk.now).ok()??;
        let place = MemberPlace::of(&record.superblock, self.log).unwrap();
        let (mut head, mut records) = (None, Vec::new());
        // Also without a log: whose it is, is seen.
        let region = MemberPlace::of(&record.superblock, true).ok().and_then(|place| place.log);
        if let Some(region) = region {
            let slots = disk.read(region.heads(), (HEADS * HEAD_BYTES) as usize);
            let role = superblock.dev_roles[superblock.dev_number as usize];
            // A device may have another number than its role.
            head = (0..self.geometry.raid_disks())
                .map(Role)
                .find_map(|role| newest_head(slots, Uuid(superblock.set_uuid), role, region));
            if let Some(head) = head {
                let log = disk.read(region.start, region.len as usize);
                records = scan(log, &head);
                assert!(role >= 0xFF00 || role == head.role.get());
            } else if self.fault == Fault::UnreadableLogs {
                head = self.made_up_head(disk, &superblock, region);
            }
        }
        let area = place.bitmap.unwrap();
        let bits = 256 + (self.windows.count * self.windows.bytes()).div_ceil(self.region).div_ceil(8);
        let bitmap_bytes = disk.read(area.start, bits.next_multiple_of(512) as usize).to_vec();
        let bad = bad_blocks_of(&record.bad_blocks, &place);
        Some(MemberLook { superblock, place, head, records, bitmap: record.bitmap, bitmap_bytes, bad })
    }

    /// Reads the members and begins. Recovery is not done yet.
    pub(crate) fn begin(&mut self) -> Result<(), Refusal> {
        let looks = self.disks.iter().filter(|d| d.up && !d.lost).filter_map(|d| self.look(d)).collect();
        let nonce = self.random.next(u64::MAX);
        let mut assembly = assemble(&self.geometry, looks, self.log, self.token.host, nonce)?;
        self.report = assembly.report.clone();
        if let Some(rule) = self.omit {
            let loud = ASSERTS.get();
            assembly =
                assembly.under(if loud { Rules::without(rule) } else { Rules::silently_without(rule) });
        }
        (self.held, self.again, self.fenced, self.stopped, self.ready) = (false, false, false, false, false);
        let mut volume = Volume::new(Box::new(self.geometry), assembly, self.clock);
        if self.nodes.is_some() {
            volume.use_near(Nodes::of(self.disks.len()));
        }
        self.volume = Some(volume);
        self.effects();
        Ok(())
    }

    /// Begins and runs recovery to its end, as often as it takes.
    pub(crate) fn start(&mut self) -> Result<(), Refusal> {
        for _ in 0..10 {
            self.begin()?;
            while !self.ready && !self.again && !self.outstanding.is_empty() {
                self.execute();
            }
            if self.ready {
                return Ok(());
            }
            assert!(self.again, "recovery stands still");
            self.outstanding.clear();
        }
        panic!("recovery does not end");
    }

    fn effects(&mut self) {
        let Some(volume) = &mut self.volume else { return };
        let mut claimed = Vec::new();
        for effect in volume.effects() {
            match effect {
                Effect::Issue(action) => self.outstanding.push(action),
                Effect::Deliver { op, request, touches } => {
                    for touch in touches {
                        for row in 0..self.windows.rows as u32 {
                            let Some((start, end)) = touch.in_row(row) else { continue };
                            let bytes = &self.buffers[&op].new[&(touch.role, row)];
                            let from = touch.from + u64::from(row) * BLOCK + start - touch.start;
                            self.model.deliver(request, from, &bytes[start as usize..end as usize]);
                        }
                    }
                }
                Effect::Answer(id, result) => self.model.answered(id, result),
                Effect::Forget(op) => {
                    self.buffers.remove(&op);
                    if let Some(nodes) = &mut self.nodes {
                        nodes.forget(op);
                    }
                }
                Effect::Chosen(_) => {}
                Effect::Claimed(id, result) => claimed.push((id, result)),
                Effect::Held(held) => self.held = held,
                Effect::AssembleAgain => self.again = true,
                Effect::Ready => self.ready = true,
                Effect::Stopped => self.stopped = true,
            }
        }
        claimed.into_iter().for_each(|(id, result)| self.claimed(id, result));
    }

    /// Carries out one action and tells.
    pub(crate) fn execute(&mut self) {
        let i = self.random.next(self.outstanding.len() as u64) as usize;
        self.execute_at(i);
    }

    fn execute_at(&mut self, i: usize) {
        let action = self.outstanding.swap_remove(i);
        let outcome = self.carry_out(&action.command, false);
        self.fenced |= outcome == Outcome::Fenced;
        self.tell(Event::Done(action.id, outcome));
    }

    /// Tells of an event, and of all that happened before it; or later.
    fn tell(&mut self, event: Event) {
        self.untold.push(event);
        let later = self.together && !self.outstanding.is_empty() && !self.fenced;
        if later && self.untold.len() < 9 && self.random.chance(70) {
            return;
        }
        self.prefer_any();
        if let Some(volume) = &mut self.volume {
            volume.handle_all(self.untold.drain(..));
        }
        self.effects();
    }

    fn disk_of(&self, role: Role) -> Option<usize> {
        // Disks stand at their roles; one that was replaced is gone.
        (role.index() < self.disks.len()).then_some(role.index())
    }

    /// `cut`: the power goes while it is carried out.
    fn carry_out(&mut self, command: &Command, cut: bool) -> Outcome {
        let Some(role) = command.role() else {
            self.fold(command);
            return Outcome::Done;
        };
        let i = self.disk_of(role).unwrap();
        if let Command::Update { op, request, step, .. } = command {
            return self.update(*op, role, *request, step, cut);
        }
        if let Command::Gather { op, step, .. } = command {
            return self.gather(*op, role, step);
        }
        if let Command::Fetch { op, of, place, rows, .. } = command {
            return self.fetch(*op, role, *of, *place, *rows);
        }
        if !self.disks[i].up || self.disks[i].lost {
            return Outcome::Failed;
        }
        if command.writes() {
            if !self.disks[i].guard.begin(self.token) {
                return Outcome::Fenced;
            }
            self.disks[i].guard.end();
        }
        self.flushes += u64::from(matches!(command, Command::Flush { .. }));
        self.stores += match command {
            Command::Write { .. } | Command::Store { .. } => 1,
            Command::StoreStretch { bytes, .. } => bytes / self.windows.bytes(),
            _ => 0,
        };
        let fails = |(of, put, _): &(Role, Put, bool)| *of == role && !cut && Put::of(command) == Some(*put);
        let failing = self.failing_puts.iter().position(fails);
        let failing = failing.map(|i| self.failing_puts.remove(i));
        if let Some((_, _, false)) = failing {
            return Outcome::Failed;
        }
        let fault = self.fault;
        let disk = &mut self.disks[i];
        match command {
            Command::Read { op, at, rows, .. } => {
                let old = &mut self.buffers.entry(*op).or_default().old;
                let mut unreadable = Rows::default();
                for row in rows.iter() {
                    let at = at + u64::from(row) * BLOCK;
                    match disk.unreadable.contains(&at) {
                        true => unreadable = unreadable.with(row),
                        false => _ = old.insert((role, row), disk.read(at, BLOCK as usize).to_vec()),
                    }
                }
                if unreadable.count() > 0 {
                    return Outcome::Unreadable(unreadable);
                }
            }
            Command::Log { op, at, position, nonce, record, .. } => {
                let new = &self.buffers.entry(*op).or_default().new;
                let blocks: Vec<&[u8]> = match record.blocks() {
                    0 => Vec::new(),
                    _ => record.rows.iter().map(|row| &new[&(role, row)][..]).collect(),
                };
                let bytes = record.encode(*nonce, *position, &blocks);
                match cut || fault == Fault::LazyLog {
                    true => disk.write(*at, &bytes),
                    false => disk.put(*at, &bytes),
                }
            }
            Command::Write { op, at, rows, .. } => {
                for row in rows.iter() {
                    disk.write(at + u64::from(row) * BLOCK, &self.buffers[op].new[&(role, row)]);
                }
            }
            Command::Copy { from, to, .. } => {
                let block = disk.read(*from, BLOCK as usize).to_vec();
                disk.write(*to, &block);
            }
            Command::Flush { .. } if fault == Fault::NoFlush || cut => {}
            Command::Flush { .. } => disk.flush(),
            Command::Put { at, bytes, .. } => {
                let dropped = match at {
                    0x1000 => fault == Fault::NoSuperblocks,
                    0x2000..0x3000 => fault == Fault::NoBits,
                    0x3000..0x4000 => fault == Fault::NoBadBlocks,
                    _ => false,
                };
                match (dropped, cut) {
                    (true, _) => {}
                    (false, true) => disk.write(*at, bytes),
                    (false, false) => disk.put(*at, bytes),
                }
            }
            Command::Fold { .. }
            | Command::Update { .. }
            | Command::Fetch { .. }
            | Command::Gather { .. } => {}
            Command::StoreStretch { place, at, bytes, .. } => {
                let Some(nodes) = &mut self.nodes else { panic!("there are no nodes") };
                for block in 0..bytes / BLOCK {
                    disk.write(at + block * BLOCK, nodes.stretched(*place, role, block as u32));
                }
            }
            Command::Store { place, at, rows, .. } => {
                let Some(nodes) = &self.nodes else { panic!("there are no nodes") };
                for row in rows.iter() {
                    disk.write(at + u64::from(row) * BLOCK, nodes.made(*place, role, row));
                }
            }
        }
        if failing.is_some() { Outcome::Failed } else { Outcome::Done }
    }

    /// Brings what a node has made to this host.
    fn fetch(&mut self, op: OpId, role: Role, of: Role, place: u32, rows: Rows) -> Outcome {
        let disk = &self.disks[role.index()];
        let (down, fails) = (!disk.up || disk.lost, self.random.chance(2));
        let Some(nodes) = self.nodes.as_ref().filter(|_| !down && !fails) else { return Outcome::Refused };
        let new = &mut self.buffers.entry(op).or_default().new;
        for row in rows.iter() {
            new.insert((of, row), nodes.made(place, role, row).to_vec());
        }
        Outcome::Done
    }

    fn fold(&mut self, command: &Command) {
        let Command::Fold { op, plans, touches, request } = command else { return };
        let buffers = self.buffers.entry(*op).or_default();
        for (row, plan) in plans {
            for output in &plan.outputs {
                let mut block = vec![0; BLOCK as usize];
                for (term, c) in &output.terms {
                    let source = match term {
                        Term::Old(role) => &buffers.old[&(*role, *row)],
                        Term::New(role) => &buffers.new[&(*role, *row)],
                    };
                    gf::add_scaled(&mut block, source, *c);
                }
                let mine = touches.iter().filter(|touch| output.overlay && touch.role == output.role);
                for touch in mine {
                    if let Some((start, end)) = touch.in_row(*row) {
                        let from = touch.from + u64::from(*row) * BLOCK + start - touch.start;
                        let bytes = self.model.bytes(request.unwrap(), from, end - start);
                        block[start as usize..end as usize].copy_from_slice(&bytes);
                    }
                }
                buffers.new.insert((output.role, *row), block);
            }
        }
    }
}

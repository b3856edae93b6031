//! An md array, the host that runs it, and the nodes with its drives, in virtual time.
//!
//! Every write of the host (data, parity, superblock, bitmap, partial parity log) goes to its member on its own: it is sent, may be held back, comes
//! to the node, is applied, and is answered. A crash loses what has not come to a node. Microseconds throughout.

mod array;

use super::random::Random;
use pumice_node::superblocks::{Memory, Written};
use pumice_offload::{AssociatedHost, Hosts, Writes};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

pub(super) const MS: u64 = 1000;
pub(super) const S: u64 = 1_000_000;
/// Stripes of a region: of the counters, and of a bit of the bitmap.
pub(super) const REGION: usize = 2;
/// md's `daemon_sleep`.
pub(super) const DAEMON: u64 = 5 * S;
const SAFE_MODE: u64 = 200 * MS;
const KEEP_ALIVE: u64 = 2_500 * MS;
/// The longest that a node takes for a write.
const SLOWEST: u64 = 3 * S;
const ARRAY: [u8; 16] = [7; 16];

/// What the array keeps of writes under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Nothing,
    Bitmap,
    Ppl,
    Journal,
}

/// What can happen, and how often.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) kept: Kept,
    /// Drives are on nodes, which count writes; else they are devices of the host's own machine.
    pub(super) counted: bool,
    pub(super) nodes: usize,
    pub(super) members: usize,
    pub(super) stripes: usize,
    /// Between two writes to the array, in the mean.
    pub(super) gap: u64,
    /// Only these first stripes are written.
    pub(super) written: usize,
    /// Blocks take two contents in turn.
    pub(super) toggle: bool,
    /// In percent of writes, and for how long at most, the host holds one back.
    pub(super) held: (u64, u64),
    /// Percent: looks and evidence that take long.
    pub(super) slow_looks: u64,
    /// Whether the host stops writing for seconds now and then.
    pub(super) pauses: bool,
    /// A crash is due within this time.
    pub(super) crash: Option<u64>,
    /// The host comes back after it.
    pub(super) comes_back: bool,
    /// Percent: an array that was cut off is assembled read-only until the first write.
    pub(super) read_only: u64,
    /// Of a stripe of a resync.
    pub(super) resync: u64,
    /// Paths are lost now and then.
    pub(super) paths: bool,
    /// Members fail and come back, or the array is reshaped.
    pub(super) changes: bool,
    /// Other hosts come and go.
    pub(super) visitors: bool,
    /// Percent: damage is planted.
    pub(super) damage: u64,
    /// The array begins as one that was cut off.
    pub(super) begins_cut_off: bool,
}

/// A superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Super {
    pub(super) events: u64,
    pub(super) clean: bool,
    /// A resync has a checkpoint.
    pub(super) at: bool,
    /// Counts what changes roles for good.
    pub(super) shape: u32,
    /// Members that are faulty, a bit each.
    pub(super) faulty: u32,
    /// Stripes up to which this member is good.
    pub(super) valid: usize,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Data {
        stripe: usize,
        value: u64,
    },
    Super(Super),
    Bit {
        region: usize,
        set: bool,
    },
    /// A mark names the entry; none is taken away that is not the one meant.
    Ppl {
        stripe: usize,
        mark: u64,
        set: bool,
    },
}

#[derive(Debug, Clone, Copy)]
struct Write {
    member: usize,
    what: What,
    op: usize,
    life: u32,
}

#[derive(Debug, Clone)]
enum Kind {
    Super,
    Bit {
        region: usize,
        set: bool,
    },
    /// The log goes first, then these members.
    Stripe {
        stripe: usize,
        logged: bool,
        writes: Vec<(usize, u64)>,
        absorbs: bool,
        ends: Ends,
    },
}

/// What a change of a stripe was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Write,
    Resync,
    Recovery,
    /// It is left as it is.
    Scribble,
}

#[derive(Debug, Clone)]
struct Op {
    kind: Kind,
    pending: usize,
    life: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick(u32),
    Arrive(usize),
    Apply(usize),
    Answer(usize),
    SafeMode(u32),
    Daemon(u32),
    Crash,
    Boot,
    Assemble(u32),
    Step(u32),
    Expire(usize, u64),
    PathLost,
    PathBack(usize, bool),
    Visitor(bool),
    Damage,
    Change(u32),
    ReAdd(u32, usize),
    Recover(u32, usize, usize),
    Scribble(u32),
    LogMoves(usize, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Up,
    /// Nothing comes through, and the node has not noticed.
    Silent,
    Down,
}

/// An association.
#[derive(Debug, Clone, Copy)]
struct Association {
    serial: u64,
    heard: u64,
    alive: bool,
}

#[derive(Debug)]
struct Node {
    epoch: u64,
    changes: u64,
    associations: Vec<Association>,
    path: Path,
    visitors: u32,
    /// How long the path was silent.
    lost: u64,
    calm_from: u64,
    /// Writes that wait for the path.
    waiting: Vec<usize>,
}

/// The host that runs the array.
#[derive(Debug, Default)]
struct Host {
    /// Counts crashes.
    life: u32,
    assembled: bool,
    read_only: bool,
    events: u64,
    clean: bool,
    busy: bool,
    wanting: Vec<(usize, usize, u64)>,
    locked: Vec<bool>,
    active: usize,
    /// When it was last not idle.
    last: u64,
    /// Rounds until a bit is cleared; 0 is a clear one.
    bits: Vec<u8>,
    bit_busy: Vec<bool>,
    writing: Vec<usize>,
    /// Stripes that wait for a resync.
    needs: Vec<bool>,
    checkpoint: bool,
    faulty: u32,
    valid: Vec<usize>,
    shape: u32,
    logical: Vec<Vec<u64>>,
    paused_until: u64,
    /// Of the newest entries in partial parity logs.
    marks: Vec<u64>,
}

pub(super) struct World {
    pub(super) config: Config,
    pub(super) now: u64,
    pub(super) random: Random,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    /// By stripe and member.
    pub(super) disk: Vec<Vec<u64>>,
    pub(super) supers: Vec<Super>,
    pub(super) bits: Vec<Vec<bool>>,
    /// Marks of entries, by member and stripe; 0 is none.
    pub(super) logs: Vec<Vec<u64>>,
    /// Stripes that the journal names, with what their members will hold.
    pub(super) journal: BTreeMap<usize, (u64, Vec<(usize, u64)>)>,
    counters: Vec<Vec<Writes>>,
    memories: Vec<Memory<u64>>,
    nodes: Vec<Node>,
    host: Host,
    writes: Vec<Write>,
    ops: Vec<Op>,
    /// The syndrome that damage gives each stripe.
    pub(super) damage: Vec<u64>,
    /// All syndromes that damage ever gave it.
    pub(super) ever: Vec<Vec<u64>>,
    /// When it got the one that it has.
    pub(super) damaged_at: Vec<u64>,
    serial: u64,
    /// A whole resync has begun and not ended. (md forgets that when it finds something in a partial parity log; what is torn then stays so, and is no false finding.)
    resyncing: bool,
}

impl World {
    pub(super) fn new(config: Config, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (stripes, members) = (config.stripes, config.members);
        let regions = stripes.div_ceil(REGION);
        let mut disk = Vec::with_capacity(stripes);
        for stripe in 0..stripes {
            let mut row: Vec<u64> = (0..members).map(|_| random.next()).collect();
            row[stripe % members] = 0;
            row[stripe % members] = row.iter().fold(0, |sum, value| sum ^ value);
            disk.push(row);
        }
        let first = Super { events: 10, clean: true, at: false, shape: 0, faulty: 0, valid: stripes };
        let node = |k| Node {
            epoch: 100 + k as u64,
            changes: 0,
            associations: Vec::new(),
            path: Path::Up,
            visitors: 0,
            lost: 0,
            calm_from: 0,
            waiting: Vec::new(),
        };
        let host = Host {
            events: first.events,
            clean: true,
            locked: vec![false; stripes],
            bits: vec![0; regions],
            bit_busy: vec![false; regions],
            writing: vec![0; regions],
            needs: vec![false; stripes],
            marks: vec![1; stripes],
            valid: vec![stripes; members],
            logical: disk.clone(),
            ..Host::default()
        };
        let mut world = Self {
            now: 0,
            queue: BinaryHeap::new(),
            sequence: 0,
            supers: vec![first; members],
            bits: vec![vec![false; regions]; members],
            logs: vec![vec![0; stripes]; members],
            journal: BTreeMap::new(),
            counters: vec![vec![Writes::default(); regions]; members],
            memories: vec![Memory::default(); members],
            nodes: (0..config.nodes).map(node).collect(),
            host,
            writes: Vec::new(),
            ops: Vec::new(),
            damage: vec![0; stripes],
            ever: vec![Vec::new(); stripes],
            damaged_at: vec![0; stripes],
            serial: 0,
            resyncing: false,
            disk,
            random,
            config,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        if self.config.begins_cut_off {
            self.cut_off();
        }
        self.boot();
        let horizon = 90 * S;
        if let Some(due) = self.config.crash {
            let at = self.random.within(S, due.max(2 * S));
            self.at(at, Event::Crash);
        }
        if self.config.paths {
            for _ in 0..3 {
                let at = self.random.below(horizon);
                self.at(at, Event::PathLost);
            }
        }
        if self.config.visitors {
            for _ in 0..4 {
                let at = self.random.below(horizon);
                self.at(at, Event::Visitor(true));
            }
        }
        if self.random.percent(self.config.damage) {
            for _ in 0..=self.random.below(2) {
                let at = self.random.below(horizon / 3);
                self.at(at, Event::Damage);
            }
        }
        if self.config.changes {
            let at = self.random.below(horizon / 2);
            self.at(at, Event::Change(self.host.life));
        }
    }

    /// As a crash in the middle of writes leaves the drives.
    fn cut_off(&mut self) {
        for stripe in 0..self.config.written {
            if self.random.percent(40) {
                let value = self.random.next();
                let (data, parity) = self.places(stripe);
                let row = &mut self.disk[stripe];
                let (old, new) = (row[data], row[parity] ^ row[data] ^ value);
                let torn = if self.random.percent(50) { (value, row[parity]) } else { (old, new) };
                (row[data], row[parity]) = torn;
                for bits in &mut self.bits {
                    bits[stripe / REGION] = true;
                }
                self.logs[parity][stripe] = 1;
                self.journal.insert(stripe, (0, vec![(data, value), (parity, new)]));
            }
        }
        for superblock in &mut self.supers {
            superblock.clean = self.config.kept == Kept::Journal;
            superblock.events += 1;
        }
        self.host.logical = self.disk.clone();
    }

    /// A data member of a stripe by chance, and its parity.
    fn places(&mut self, stripe: usize) -> (usize, usize) {
        let parity = stripe % self.config.members;
        let data = (parity + 1 + self.random.index(self.config.members - 1)) % self.config.members;
        (data, parity)
    }

    pub(super) fn node_of(&self, member: usize) -> usize {
        member * self.config.nodes / self.config.members
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((time.max(self.now), self.sequence, event)));
    }

    fn after(&mut self, low: u64, high: u64, event: Event) {
        let time = self.now + self.random.within(low, high);
        self.at(time, event);
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, by: u64) {
        let until = self.now + by;
        while let Some(Reverse((time, ..))) = self.queue.peek().copied()
            && time <= until
        {
            let Some(Reverse((time, _, event))) = self.queue.pop() else { break };
            self.now = time;
            self.happens(event);
        }
        self.now = until;
    }

    fn happens(&mut self, event: Event) {
        let life = self.host.life;
        match event {
            Event::Tick(of) if of == life => self.tick(),
            Event::Arrive(write) => self.arrive(write),
            Event::Apply(write) => self.apply(write),
            Event::Answer(write) => self.answer(write),
            Event::SafeMode(of) if of == life => self.safe_mode(),
            Event::Daemon(of) if of == life => self.daemon(),
            Event::Crash => self.crash(),
            Event::Boot => self.boot(),
            Event::Assemble(of) if of == life => self.assemble(),
            Event::Step(of) if of == life => self.resync_step(),
            Event::Expire(node, serial) => self.expire(node, serial),
            Event::PathLost => self.path_lost(),
            Event::PathBack(node, lost) => self.path_back(node, lost),
            Event::Visitor(comes) => self.visitor(comes),
            Event::Damage => self.plant(),
            Event::Change(of) if of == life => self.change(),
            Event::ReAdd(of, member) if of == life => self.re_add(member),
            Event::Recover(of, member, stripe) if of == life => self.recover(member, stripe),
            Event::Scribble(of) if of == life => self.scribble(),
            Event::LogMoves(stripe, mark) => {
                self.journal.retain(|named, entry| *named != stripe || entry.0 != mark);
            }
            _ => {}
        }
    }

    // The host's machine and its associations.

    fn boot(&mut self) {
        for node in &mut self.nodes {
            self.serial += 1;
            let association = Association { serial: self.serial, heard: self.now, alive: true };
            node.associations.push(association);
            node.changes += 1;
            node.path = Path::Up;
        }
        let life = self.host.life;
        let slow = if life > 0 && self.random.percent(30) { 20 * S } else { 100 * MS };
        self.after(0, slow, Event::Assemble(life));
    }

    fn crash(&mut self) {
        if self.config.changes {
            // One kind of trouble at a time.
            return;
        }
        let host = &mut self.host;
        host.life += 1;
        (host.assembled, host.busy, host.active) = (false, false, 0);
        host.wanting.clear();
        host.locked.fill(false);
        host.bit_busy.fill(false);
        host.writing.fill(0);
        let noticed = self.random.percent(50);
        for k in 0..self.nodes.len() {
            self.touch(k);
            let node = &mut self.nodes[k];
            node.waiting.clear();
            node.path = Path::Down;
            let own: Vec<u64> = node.associations.iter().filter(|a| a.alive).map(|a| a.serial).collect();
            node.associations.iter_mut().for_each(|a| a.alive = false);
            for serial in own {
                if noticed {
                    self.expire(k, serial);
                } else {
                    self.after(5 * S, 15 * S, Event::Expire(k, serial));
                }
            }
        }
        if self.config.comes_back {
            self.after(SLOWEST, 20 * S, Event::Boot);
        }
    }

    fn expire(&mut self, node: usize, serial: u64) {
        let node = &mut self.nodes[node];
        let before = node.associations.len();
        node.associations.retain(|a| a.serial != serial);
        node.changes += u64::from(node.associations.len() != before);
    }

    /// Notes the last keep alive that has come.
    fn touch(&mut self, node: usize) {
        let beat = self.now - self.now % KEEP_ALIVE;
        let node = &mut self.nodes[node];
        if node.path == Path::Up {
            for association in node.associations.iter_mut().filter(|a| a.alive) {
                association.heard = association.heard.max(beat);
            }
        }
    }

    fn path_lost(&mut self) {
        let k = self.random.index(self.nodes.len());
        // What one outage has delayed is there before the next.
        if self.nodes[k].path != Path::Up || self.now < self.nodes[k].calm_from {
            return;
        }
        self.touch(k);
        let noticed = self.random.percent(60);
        self.nodes[k].path = if noticed { Path::Down } else { Path::Silent };
        if noticed {
            self.lose(k);
            self.after(SLOWEST, 20 * S, Event::PathBack(k, true));
        } else {
            // Long enough to be noticed, or over in less than half of the settle time.
            let long = self.random.percent(60);
            let time = if long { self.random.within(4 * S, 12 * S) } else { self.random.below(1400 * MS) };
            self.nodes[k].lost = time;
            self.at(self.now + time, Event::PathBack(k, false));
        }
    }

    fn lose(&mut self, k: usize) {
        let own: Vec<u64> = self.nodes[k].associations.iter().filter(|a| a.alive).map(|a| a.serial).collect();
        own.into_iter().for_each(|serial| self.expire(k, serial));
    }

    fn path_back(&mut self, k: usize, lost: bool) {
        if self.nodes[k].path == Path::Up
            || !self.nodes.iter().any(|n| n.associations.iter().any(|a| a.alive)) && !lost
        {
            return;
        }
        self.nodes[k].path = Path::Up;
        self.nodes[k].calm_from = self.now + 6 * S;
        if lost {
            self.serial += 1;
            let association = Association { serial: self.serial, heard: self.now, alive: true };
            self.nodes[k].associations.push(association);
            self.nodes[k].changes += 1;
        }
        // A network that was silent delivers what it lost within as long a time again, and within the settle time.
        let late = if lost { 500 * MS } else { self.nodes[k].lost.min(2_800 * MS) };
        for write in std::mem::take(&mut self.nodes[k].waiting) {
            self.after(0, late, Event::Arrive(write));
        }
    }

    fn visitor(&mut self, comes: bool) {
        let all = self.random.percent(70);
        for k in 0..self.nodes.len() {
            if comes && !all && k > 0 {
                continue;
            }
            let node = &mut self.nodes[k];
            match comes {
                true => node.visitors += 1,
                false if node.visitors == 0 => continue,
                false => node.visitors -= 1,
            }
            node.changes += 1;
        }
        if comes {
            self.after(S, 20 * S, Event::Visitor(false));
        }
    }

    // What a scrub can ask a node.

    /// The hosts of a node.
    pub(super) fn hosts(&mut self, k: usize) -> Option<Hosts> {
        if !self.config.counted {
            return None;
        }
        self.touch(k);
        let (node, now) = (&self.nodes[k], self.now);
        let silent = node.associations.iter().map(|a| ((now - a.heard) / MS) as u32).max();
        let owner = silent.map(|silent_ms| AssociatedHost { mark: [1; 32], silent_ms, observer: false });
        let visitor =
            (node.visitors > 0).then_some(AssociatedHost { mark: [2; 32], silent_ms: 0, observer: false });
        let hosts = owner.into_iter().chain(visitor).collect();
        Some(Hosts { epoch: node.epoch, changes: node.changes, hosts })
    }

    /// Whether the node of a member remembers a clean superblock of an association that stands.
    pub(super) fn saw_clean(&self, member: usize) -> bool {
        let stands =
            |serial| self.nodes[self.node_of(member)].associations.iter().any(|a| a.serial == serial);
        self.memories[member].last().is_some_and(|(serial, _, clean)| clean.is_some() && stands(serial))
    }

    /// The counters of a stripe's regions on a node.
    pub(super) fn counters(&self, k: usize, stripe: usize) -> Writes {
        let members = (0..self.config.members).filter(|member| self.node_of(*member) == k);
        members.fold(Writes::default(), |sum, member| {
            let writes = self.counters[member][stripe / REGION];
            Writes { started: sum.started + writes.started, completed: sum.completed + writes.completed }
        })
    }

    /// Whether the kernel that runs the array here would say that nothing but writes is under way.
    pub(super) fn is_settled_here(&self) -> bool {
        self.host.assembled && !self.host.read_only && self.is_whole() && self.host.faulty == 0
    }

    /// Whether anybody has the array.
    pub(super) fn is_assembled(&self) -> bool {
        self.host.assembled
            || self.queue.iter().any(|Reverse((.., e))| matches!(e, Event::Boot | Event::Assemble(_)))
    }

    fn is_whole(&self) -> bool {
        !self.host.needs.contains(&true)
    }

    // Writes on their way.

    fn send(&mut self, member: usize, what: What, op: usize) {
        let write = self.writes.len();
        self.writes.push(Write { member, what, op, life: self.host.life });
        let (percent, longest) = self.config.held;
        let data = matches!(what, What::Data { .. });
        let hold = if data && self.random.percent(percent) { self.random.below(longest) } else { 0 };
        self.after(hold + 50, hold + 2 * MS, Event::Arrive(write));
    }

    fn arrive(&mut self, id: usize) {
        let write = self.writes[id];
        if write.life != self.host.life {
            return;
        }
        let k = self.node_of(write.member);
        if self.nodes[k].path != Path::Up {
            self.nodes[k].waiting.push(id);
            return;
        }
        let now = self.now;
        let own = self.nodes[k].associations.iter_mut().filter(|a| a.alive);
        let Some(association) = own.last() else { return };
        association.heard = now;
        let serial = association.serial;
        match write.what {
            What::Data { stripe, .. } => self.counters[write.member][stripe / REGION].started += 1,
            What::Super(superblock) => {
                let Super { events, clean, at, .. } = superblock;
                let written = Written { array: ARRAY, events, clean: clean && !at };
                self.memories[write.member].wrote(serial, Some(written));
            }
            _ => {}
        }
        let slow = if self.random.percent(2) { SLOWEST - 100 * MS } else { 5 * MS };
        self.after(20, slow, Event::Apply(id));
    }

    fn apply(&mut self, id: usize) {
        let Write { member, what, .. } = self.writes[id];
        match what {
            What::Data { stripe, value } => {
                self.disk[stripe][member] = value;
                self.counters[member][stripe / REGION].completed += 1;
            }
            What::Super(superblock) => self.supers[member] = superblock,
            What::Bit { region, set } => self.bits[member][region] = set,
            What::Ppl { stripe, mark, set: true } => self.logs[member][stripe] = mark,
            What::Ppl { stripe, mark, .. } if self.logs[member][stripe] == mark => {
                self.logs[member][stripe] = 0;
            }
            What::Ppl { .. } => {}
        }
        self.after(20, 2 * MS, Event::Answer(id));
    }

    fn answer(&mut self, id: usize) {
        let write = self.writes[id];
        if write.life != self.host.life {
            return;
        }
        let k = self.node_of(write.member);
        if self.nodes[k].path != Path::Up {
            // It is sent again when the path is back.
            self.nodes[k].waiting.push(id);
            return;
        }
        if write.op == usize::MAX {
            return;
        }
        self.ops[write.op].pending -= 1;
        if self.ops[write.op].pending == 0 {
            self.ended(write.op);
        }
    }

    fn present(&self, member: usize) -> bool {
        self.host.faulty & (1 << member) == 0
    }

    fn op(&mut self, kind: Kind) -> usize {
        self.ops.push(Op { kind, pending: 0, life: self.host.life });
        self.ops.len() - 1
    }

    fn send_all(&mut self, op: usize, writes: &[(usize, What)]) {
        self.ops[op].pending = writes.len();
        for (member, what) in writes {
            self.send(*member, *what, op);
        }
        if writes.is_empty() {
            self.ended(op);
        }
    }

    fn ended(&mut self, op: usize) {
        if self.ops[op].life != self.host.life {
            return;
        }
        match self.ops[op].kind.clone() {
            Kind::Super => self.host.busy = false,
            Kind::Bit { region, set } => {
                self.host.bit_busy[region] = false;
                self.host.bits[region] = if set { 2 } else { 0 };
            }
            Kind::Stripe { stripe, logged: true, writes, absorbs, ends } => {
                self.ops[op].kind =
                    Kind::Stripe { stripe, logged: false, writes: writes.clone(), absorbs, ends };
                self.send_data(op, stripe, &writes);
                return;
            }
            Kind::Stripe { stripe, absorbs, ends, .. } => self.stripe_ended(stripe, absorbs, ends),
        }
        self.pump();
    }

    fn stripe_ended(&mut self, stripe: usize, absorbs: bool, ends: Ends) {
        self.host.locked[stripe] = false;
        self.host.writing[stripe / REGION] -= 1;
        self.host.active -= 1;
        self.host.last = self.now;
        if absorbs {
            self.damage[stripe] = 0;
        }
        if ends == Ends::Resync || absorbs && ends == Ends::Write {
            self.host.needs[stripe] = false;
        }
        if self.config.kept == Kept::Ppl {
            let parity = stripe % self.config.members;
            let mark = self.host.marks[stripe];
            self.send(parity, What::Ppl { stripe, mark, set: false }, usize::MAX);
        }
        if let Some(mark) = self.journal.get(&stripe).map(|entry| entry.0) {
            self.after(MS, 3 * S, Event::LogMoves(stripe, mark));
        }
        if self.host.active == 0 {
            let life = self.host.life;
            self.after(SAFE_MODE, SAFE_MODE + MS, Event::SafeMode(life));
        }
    }

    fn send_data(&mut self, op: usize, _: usize, writes: &[(usize, u64)]) {
        let Kind::Stripe { stripe, .. } = self.ops[op].kind else { return };
        let mut list: Vec<(usize, What)> = writes
            .iter()
            .filter(|(member, _)| self.present(*member))
            .map(|(member, value)| (*member, What::Data { stripe, value: *value }))
            .collect();
        if self.random.percent(50) {
            list.reverse();
        }
        self.send_all(op, &list);
    }
}

//! An md array, the host that runs it, and the nodes with its drives, in virtual time.
//!
//! Every write of the host (data, parity, superblock, bitmap, partial parity log) goes to its
//! member separately: it is sent, may be held back, arrives at the node, is applied, and is
//! answered. A crash loses writes that have not arrived at a node. Microseconds throughout.

mod array;
mod hosts;
mod members;
mod state;
mod writes;

use super::config::{Config, Kept, MS, S};
use super::random::Random;
use pumice_node::superblocks::{Memory, Written};
use pumice_offload::{AssociatedHost, Hosts, Writes};
use state::{Association, Ends, Event, Host, Kind, Node, Op, Path, What, Write};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Most roles of an array.
pub(super) const MOST_MEMBERS: usize = 5;
/// Stripes of a region: of the counters, and of a bit of the bitmap.
pub(super) const REGION: usize = 2;
/// md's `daemon_sleep`.
pub(super) const DAEMON: u64 = 5 * S;
const SAFE_MODE: u64 = 200 * MS;
const KEEP_ALIVE: u64 = 2_500 * MS;
/// The longest that a node takes for a write.
const SLOWEST: u64 = 3 * S;
const ARRAY: [u8; 16] = [7; 16];

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
    /// The drive of each role.
    pub(super) drives: [usize; MOST_MEMBERS],
}

pub(super) struct World {
    pub(super) config: Config,
    pub(super) now: u64,
    pub(super) random: Random,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    /// By stripe and drive. There is one drive more than roles: what a member is replaced by.
    pub(super) disk: Vec<Vec<u64>>,
    pub(super) supers: Vec<Super>,
    pub(super) bits: Vec<Vec<bool>>,
    /// Marks of entries, by drive and stripe; 0 is none.
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
    /// Time of the damage that it has.
    pub(super) damaged_at: Vec<u64>,
    serial: u64,
    /// A whole resync has begun and not ended. (md forgets that when it finds something in a
    /// partial parity log; what is torn then stays so, and is no false finding.)
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
            row.push(random.next());
            disk.push(row);
        }
        let first = Super {
            events: 10,
            clean: true,
            at: false,
            shape: 0,
            faulty: 0,
            valid: stripes,
            drives: std::array::from_fn(|role| role),
        };
        let drives = members + 1;
        let node = |k| Node {
            epoch: 100 + k as u64,
            changes: 0,
            associations: Vec::new(),
            path: Path::Up,
            visitors: 0,
            observers: 0,
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
            drives: (0..members).collect(),
            valid: vec![stripes; members],
            logical: disk.iter().map(|row: &Vec<u64>| row[..members].to_vec()).collect(),
            ..Host::default()
        };
        let mut world = Self {
            now: 0,
            queue: BinaryHeap::new(),
            sequence: 0,
            supers: (0..drives)
                .map(|drive| if drive < members { first } else { Super { events: 0, ..first } })
                .collect(),
            bits: vec![vec![false; regions]; drives],
            logs: vec![vec![0; stripes]; drives],
            journal: BTreeMap::new(),
            counters: vec![vec![Writes::default(); regions]; drives],
            memories: vec![Memory::default(); drives],
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
                let observes = self.random.percent(50);
                self.at(at, Event::Visitor(true, observes));
            }
        }
        if self.random.percent(self.config.damage) {
            for _ in 0..=self.random.below(2) {
                let at = self.random.below(horizon / 3);
                self.at(at, Event::Damage);
            }
        }
        if self.config.restarts {
            let at = self.random.below(horizon);
            self.at(at, Event::Restart);
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
        self.host.logical = self.contents();
    }

    /// Contents of the members of the array, by stripe and role.
    pub(super) fn contents(&self) -> Vec<Vec<u64>> {
        let row = |row: &Vec<u64>| self.host.drives.iter().map(|drive| row[*drive]).collect();
        self.disk.iter().map(row).collect()
    }

    /// A data member of a stripe by chance, and its parity.
    fn places(&mut self, stripe: usize) -> (usize, usize) {
        let parity = stripe % self.config.members;
        let data = (parity + 1 + self.random.index(self.config.members - 1)) % self.config.members;
        (data, parity)
    }

    pub(super) fn node_of(&self, drive: usize) -> usize {
        drive.min(self.config.members - 1) * self.config.nodes / self.config.members
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
            Event::Visitor(comes, observes) => self.visitor(comes, observes),
            Event::Restart => self.restart(),
            Event::Damage => self.plant(),
            Event::Change(of) if of == life => self.change(),
            Event::ReAdd(of, member) if of == life => self.re_add(member),
            Event::Replace(of, stripe) if of == life => self.replace(stripe),
            Event::Replaced(of) if of == life => self.replaced(),
            Event::Recover(of, member, stripe) if of == life => self.recover(member, stripe),
            Event::Scribble(of) if of == life => self.scribble(),
            Event::LogMoves(stripe, mark) => {
                self.journal.retain(|named, entry| *named != stripe || entry.0 != mark);
            }
            _ => {}
        }
    }

    // Questions that a scrub can ask a node.

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
        let observer =
            (node.observers > 0).then_some(AssociatedHost { mark: [3; 32], silent_ms: 0, observer: true });
        let hosts = owner.into_iter().chain(visitor).chain(observer).collect();
        Some(Hosts { epoch: node.epoch, changes: node.changes, hosts })
    }

    /// A node's epoch.
    pub(super) fn epoch(&self, k: usize) -> u64 {
        self.nodes[k].epoch
    }

    /// Returns whether the node of a drive remembers a clean superblock of an association that
    /// stands.
    pub(super) fn saw_clean(&self, drive: usize) -> bool {
        let stands = |serial| self.nodes[self.node_of(drive)].associations.iter().any(|a| a.serial == serial);
        self.memories[drive].last().is_some_and(|(serial, _, clean)| clean.is_some() && stands(serial))
    }

    /// Syndrome of a stripe, by the contents of the drives.
    pub(super) fn syndrome(&self, stripe: usize, drives: &[usize]) -> u64 {
        drives.iter().fold(0, |sum, drive| sum ^ self.disk[stripe][*drive])
    }

    /// Writes to a stripe's region, on all drives: what the oracle knows, if nobody counts as well.
    pub(super) fn all_writes(&self, stripe: usize) -> Writes {
        let drives: Vec<usize> = (0..=self.config.members).collect();
        (0..self.config.nodes).map(|k| self.counters(k, stripe, &drives)).fold(
            Writes::default(),
            |sum, writes| Writes {
                started: sum.started + writes.started,
                completed: sum.completed + writes.completed,
            },
        )
    }

    /// The counters of a stripe's regions on a node, over the drives that are read there.
    pub(super) fn counters(&self, k: usize, stripe: usize, drives: &[usize]) -> Writes {
        let here = drives.iter().filter(|drive| self.node_of(**drive) == k);
        here.fold(Writes::default(), |sum, drive| {
            let writes = self.counters[*drive][stripe / REGION];
            Writes { started: sum.started + writes.started, completed: sum.completed + writes.completed }
        })
    }

    /// Returns whether the kernel that runs the array here would say that nothing but writes is
    /// under way.
    pub(super) fn is_settled_here(&self) -> bool {
        let Host { assembled, read_only, faulty, copying, .. } = &self.host;
        let recovers = copying.is_some() || self.host.valid.iter().any(|v| *v < self.config.stripes);
        *assembled && !read_only && *faulty == 0 && !recovers && self.is_whole()
    }

    /// Returns whether anybody has the array.
    pub(super) fn is_assembled(&self) -> bool {
        self.host.assembled
            || self.queue.iter().any(|Reverse((.., e))| matches!(e, Event::Boot | Event::Assemble(_)))
    }

    fn is_whole(&self) -> bool {
        !self.host.needs.contains(&true)
    }

    // Damage.

    pub(super) fn plant(&mut self) {
        let stripe = self.random.index(self.config.stripes);
        let member = self.random.index(self.config.members);
        let Host { faulty, shape, copying, .. } = &self.host;
        if self.host.locked[stripe] || *faulty != 0 || *shape != 0 || copying.is_some() {
            return;
        }
        let error = self.random.next() | 1;
        self.disk[stripe][self.host.drives[member]] ^= error;
        self.damage[stripe] ^= error;
        // A write may mend one error of several.
        let ever = &mut self.ever[stripe];
        let with: Vec<u64> = ever.iter().map(|other| other ^ error).collect();
        ever.extend(with);
        ever.push(error);
        self.damaged_at[stripe] = self.now;
    }
}

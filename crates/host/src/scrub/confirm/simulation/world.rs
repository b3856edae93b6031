//! An array, its devices with real superblocks, and their truth, in virtual time (microseconds).

mod history;

use history::{Change, Step};
use pumice_base::units::Role;
use pumice_raid::assembly::AgainError;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_SPARE, V1};
use pumice_raid::{Array, FormatSpec, Metadata, ReadAt, Uuid, assemble, probe};
use std::collections::VecDeque;
use std::io;

pub(super) const MS: u64 = 1000;
/// Stripes of the array.
pub(super) const STRIPES: usize = 32;
/// Stripes of a batch.
pub(super) const BATCH: usize = 4;
const MEMBERS: usize = 5;
const CHUNK: u64 = 4096;
/// The place of superblocks of version 1.2.
const PLACE: u64 = 4096;
const OFFSET: u64 = 1 << 20;

/// A generator of numbers. (splitmix64)
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub(super) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        (self.next() % len as u64) as usize
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// The first bytes of a device, up to the end of its superblock.
#[derive(Clone)]
struct Disk(Vec<u8>);

impl ReadAt for Disk {
    fn size_bytes(&self) -> u64 {
        OFFSET + STRIPES as u64 * CHUNK
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        for (i, byte) in buf.iter_mut().enumerate() {
            *byte = self.0.get(offset as usize + i).copied().unwrap_or(0);
        }
        Ok(())
    }
}

/// The array as its kernel knows it: a claim is compared with it.
#[derive(Clone)]
pub(super) struct Truth {
    /// By role: the device, and the stripes to which it is in sync.
    pub(super) roles: Vec<Option<(usize, usize)>>,
    /// By device and stripe: how often a rebuild rewrote it.
    pub(super) rewritten: Vec<Vec<u32>>,
}

impl Truth {
    pub(super) fn members(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        (0..).zip(&self.roles).filter_map(|(role, member)| Some((role, (*member)?.0)))
    }

    pub(super) fn valid(&self, role: u16) -> usize {
        self.roles[usize::from(role)].map_or(0, |member| member.1)
    }

    pub(super) fn rewritten(&self, device: usize, stripe: usize) -> u32 {
        self.rewritten[device][stripe]
    }
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) random: Random,
    disks: Vec<Disk>,
    /// The state that the kernel has.
    pub(super) current: Truth,
    /// The state that all superblocks have: no claim is held against a state that only some have.
    written: Truth,
    pub(super) superblock: V1,
    /// UUID and number of each device.
    pub(super) ids: Vec<(u8, u16)>,
    /// Superblocks that are still to be written, with their time.
    pending: VecDeque<(u64, usize, Vec<u8>)>,
    /// The rest of a change.
    steps: VecDeque<Step>,
    next_step: u64,
    next_change: u64,
    next_toggle: u64,
    active: bool,
    /// The steps of this change follow each other within milliseconds.
    pub(super) fast: bool,
    pub(super) time: u64,
    pub(super) next_id: u8,
    is_calm: bool,
    /// A pass is reading.
    pub(super) in_run: bool,
    /// A change of members or shape has begun.
    pub(super) changed: bool,
    pub(super) log: Vec<(u64, Change)>,
}

/// A superblock of the array's first member.
fn first_superblock() -> V1 {
    let format = FormatSpec {
        metadata: Metadata::V1_2,
        level: Level::Raid6,
        layout: Some(Layout::LeftSymmetric),
        chunk_bytes: CHUNK,
        component_bytes: Some(STRIPES as u64 * CHUNK),
        device_bytes: vec![OFFSET + STRIPES as u64 * CHUNK; MEMBERS],
        array_uuid: Uuid([7; 16]),
        device_uuids: (0..MEMBERS).map(|i| Uuid([i as u8 + 1; 16])).collect(),
        name: "sim".to_owned(),
        ctime: 1_700_000_000,
        bitmap: false,
        bad_block_log: false,
        data_offset: Some(OFFSET),
    };
    let format = format.format().expect("a valid array");
    let place = format.members[0].writes.iter().find(|(at, _)| *at == PLACE).expect("a superblock");
    let mut superblock = V1::decode(&place.1, Metadata::V1_2).expect("its own");
    superblock.dev_roles.resize(256, ROLE_SPARE);
    superblock.events = 17;
    superblock
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self::of(seed, false)
    }

    /// Without changes of members or shape.
    pub(super) fn calm(seed: u64) -> Self {
        Self::of(seed, true)
    }

    fn of(seed: u64, is_calm: bool) -> Self {
        let random = Random(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ 0x5851_F42D);
        let devices = MEMBERS + 2;
        let truth = Truth {
            roles: (0..MEMBERS).map(|device| Some((device, STRIPES))).collect(),
            rewritten: vec![vec![0; STRIPES]; devices],
        };
        let mut world = Self {
            now: 0,
            random,
            disks: vec![Disk(Vec::new()); devices],
            current: truth.clone(),
            written: truth,
            superblock: first_superblock(),
            ids: (0..devices).map(|device| (device as u8 + 1, device as u16)).collect(),
            pending: VecDeque::new(),
            steps: VecDeque::new(),
            next_step: 0,
            next_change: u64::MAX,
            next_toggle: u64::MAX,
            active: false,
            fast: true,
            time: 1_700_000_000,
            next_id: 100,
            is_calm,
            in_run: false,
            changed: false,
            log: Vec::new(),
        };
        world.publish(0);
        world.advance(100 * MS);
        world.next_change = world.now + world.random.within(0, 30_000 * MS);
        world.next_toggle = world.now;
        world
    }

    pub(super) fn has_not_changed(&self) -> bool {
        !self.changed
    }

    /// A device without a role.
    pub(super) fn free(&self) -> Option<usize> {
        (0..self.disks.len()).find(|device| self.current.members().all(|(_, used)| used != *device))
    }

    pub(super) fn is_degraded(&self) -> bool {
        self.current.roles.iter().any(|role| role.is_none_or(|(_, valid)| valid < STRIPES))
    }

    fn bytes_of(&self, device: usize, valid: usize) -> Vec<u8> {
        let mut superblock = self.superblock.clone();
        superblock.dev_roles.fill(ROLE_FAULTY);
        for (role, used) in self.current.members() {
            superblock.dev_roles[usize::from(self.ids[used].1)] = role;
        }
        superblock.dev_number = u32::from(self.ids[device].1);
        superblock.device_uuid = [self.ids[device].0; 16];
        superblock.utime = self.time;
        superblock.resync_offset = if self.active { 0 } else { u64::MAX };
        if valid < STRIPES {
            superblock.feature_map |= Features::RECOVERY_OFFSET;
            superblock.recovery_offset = valid as u64 * CHUNK / 512;
        }
        superblock.encode()
    }

    /// Writes the superblocks of all members one after another, with an event count that has moved.
    pub(super) fn publish(&mut self, events: i64) {
        self.superblock.events = self.superblock.events.wrapping_add_signed(events);
        let mut at = self.now;
        for (role, device) in self.current.members().collect::<Vec<_>>() {
            let bytes = self.bytes_of(device, self.current.valid(role));
            self.pending.push_back((at, device, bytes));
            at += self.random.within(0, if self.fast { MS } else { 15 * MS });
        }
    }

    /// Lets time pass. Nothing else begins while superblocks are being written.
    pub(super) fn advance(&mut self, by: u64) {
        let until = self.now + by;
        loop {
            let write = self.pending.front().map_or(u64::MAX, |(at, ..)| *at);
            let quiet = self.pending.is_empty();
            let step = if quiet && !self.steps.is_empty() { self.next_step } else { u64::MAX };
            let change = if quiet && self.steps.is_empty() { self.next_change } else { u64::MAX };
            let toggle = if quiet { self.next_toggle } else { u64::MAX };
            let next = write.min(step).min(change).min(toggle);
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            if write == next {
                self.write();
            } else if step == next {
                let step = self.steps.pop_front().expect("there is one");
                self.take(step);
                let pause = if self.fast { 2 * MS } else { 3000 * MS };
                self.next_step = self.now + self.random.within(0, pause);
                // A degraded array that changes between two looks is a limit that the page names.
                self.next_change = self.next_change.max(self.now + 4000 * MS);
            } else if change == next {
                let change = Change::draw(&mut self.random, self.is_calm);
                self.begin(change);
                self.next_step = self.now;
                self.next_change = self.now + self.random.within(0, 60_000 * MS);
            } else {
                self.toggle();
                self.next_toggle = self.now + self.random.within(0, 2500 * MS);
            }
        }
        self.now = until;
    }

    fn write(&mut self) {
        let (_, device, bytes) = self.pending.pop_front().expect("there is one");
        self.disks[device].0 = [vec![0; PLACE as usize], bytes].concat();
        if self.pending.is_empty() {
            self.written = self.current.clone();
        }
    }

    /// md's change between clean and active: a whole array takes its count back.
    fn toggle(&mut self) {
        self.active = !self.active;
        let back = !self.active && !self.is_degraded();
        self.publish(if back { -1 } else { 1 });
    }

    /// The state of a stripe on a device, if the device is in sync there in this role.
    pub(super) fn read(&self, role: u16, device: usize, stripe: usize) -> Option<(usize, u32)> {
        let (used, valid) = self.current.roles[usize::from(role)]?;
        (used == device && stripe < valid).then(|| (device, self.current.rewritten(device, stripe)))
    }

    pub(super) fn truth(&self) -> Truth {
        Truth { roles: self.written.roles.clone(), rewritten: self.current.rewritten.clone() }
    }

    /// The array that an operator names, who now and then forgets a device; with the device of each
    /// role. `None` if it is refused.
    pub(super) fn assemble(&mut self) -> Option<(Array, Vec<(Role, usize)>)> {
        let forgotten = match !self.is_calm && self.random.percent(15) {
            true => self.random.index(self.disks.len()),
            false => usize::MAX,
        };
        let record = |device: usize| {
            let found = probe(&self.disks[device]).ok()??;
            Some((format!("/dev/sd{device}"), found))
        };
        let named = (0..self.disks.len()).filter(|device| *device != forgotten);
        let array = assemble(named.filter_map(record).collect()).ok()?;
        let device = |name: &str| name.trim_start_matches("/dev/sd").parse().expect("its own name");
        let names = array.members().iter().flatten().map(|m| (m.role, device(&m.device))).collect();
        Some((array, names))
    }

    /// Reads the superblocks again, one after another; with the truth when that began.
    pub(super) fn look(
        &mut self,
        array: &Array,
        names: &[(Role, usize)],
    ) -> (Result<Array, AgainError>, Truth) {
        let truth = self.truth();
        let mut read = Vec::new();
        for (role, device) in names {
            read.push((*role, self.disks[*device].clone()));
            let by = self.random.within(0, 3 * MS);
            self.advance(by);
        }
        let devices: Vec<(Role, &dyn ReadAt)> =
            read.iter().map(|(role, disk)| (*role, disk as &dyn ReadAt)).collect();
        (array.read_again(&devices, None), truth)
    }
}

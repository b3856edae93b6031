//! Writes that are carried in steps, by a user who does these in any order, stops amid them, and
//! has threads beside it.

use pumice_base::buffer::SharedBuffer;
use pumice_blockdev::{
    BlockDevice, DeviceMedium, DirectMemory, DirectOperation, DirectRequest, FileDevice, IoError, OpenMode,
    Operation, Options, Step, Stepped, SteppedCommand,
};
use pumice_protect::guard::Guard;
use pumice_tags::TaggedDevice;
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::page::{Opinion, Origin};
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SIZE: u64 = 512 << 10;
/// Bytes of a unit of writes: a grain of a file.
const GRAIN: u64 = 4096;
const GRAINS: u64 = SIZE / GRAIN;
/// The first grain that only threads write.
const OF_THREADS: u64 = GRAINS / 2;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// The contents of a grain in a version of it; version 0 is zeros.
fn content(grain: u64, version: u32) -> Vec<u8> {
    if version == 0 {
        return vec![0; GRAIN as usize];
    }
    let mut bytes: Vec<u8> =
        (0..GRAIN).map(|i| (i * 7 + grain * 31 + u64::from(version) * 101 + i / 512) as u8).collect();
    bytes[..4].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// A drive and its tag file in a folder.
struct Files(PathBuf);

impl Files {
    fn make(folder: &Path, block: u32) -> Self {
        let files = Self(folder.to_owned());
        std::fs::write(files.drive(), vec![0; SIZE as usize]).unwrap();
        let geometry = Geometry::new(SIZE, block, 512, Guard::Crc16, 64 << 10).unwrap();
        let len = geometry.file_bytes().next_multiple_of(GRAIN);
        std::fs::write(files.tags(), vec![0; len as usize]).unwrap();
        TagFile::create(&files.medium(), geometry, 7, "").unwrap();
        files
    }

    fn drive(&self) -> PathBuf {
        self.0.join("drive")
    }

    fn tags(&self) -> PathBuf {
        self.0.join("tags")
    }

    fn device(path: &Path) -> Arc<FileDevice> {
        Arc::new(FileDevice::open(path, OpenMode::ReadWrite, Options::default()).unwrap())
    }

    fn medium(&self) -> SharedMedium {
        SharedMedium(Arc::new(DeviceMedium(Self::device(&self.tags()))))
    }

    fn open(&self) -> TaggedDevice {
        TaggedDevice::open(Self::device(&self.drive()), self.medium(), "").unwrap()
    }

    /// As a process leaves them that is killed.
    fn copy(&self, folder: &Path) -> Self {
        let copy = Self(folder.to_owned());
        std::fs::copy(self.drive(), copy.drive()).unwrap();
        std::fs::copy(self.tags(), copy.tags()).unwrap();
        copy
    }
}

/// The versions of a grain: the last that was acknowledged, the last that was sent.
#[derive(Debug, Clone, Copy, Default)]
struct Versions {
    acknowledged: u32,
    sent: u32,
}

struct User<'d> {
    stepped: &'d dyn Stepped,
    number: usize,
    random: Random,
    versions: Vec<Versions>,
    /// Grains and versions of commands under way, by token.
    commands: HashMap<u64, Vec<(u64, u32)>>,
    next: u64,
    ready: Vec<Step>,
    asides: usize,
    /// No other user and no thread does its steps: it sees their order.
    is_alone: bool,
    /// Steps so far; the memory of durable writes, by token; when it was written.
    clock: u64,
    durable: HashMap<u64, usize>,
    written: HashMap<usize, u64>,
    /// The steps at which flushes under way were handed out, and the latest that has ended.
    flushes: HashMap<u64, u64>,
    flushed: u64,
}

impl User<'_> {
    fn begin(&mut self) {
        self.next += 1;
        let token = self.next;
        if self.random.below(12) == 0 {
            self.stepped.begin(self.number, token, SteppedCommand::Flush).unwrap();
            self.commands.insert(token, Vec::new());
            return;
        }
        let (first, count) = (self.random.below(OF_THREADS - 4), 1 + self.random.below(3));
        let mut bytes = Vec::new();
        let mut written = Vec::new();
        for grain in first..first + count {
            let versions = &mut self.versions[grain as usize];
            versions.sent += 1;
            bytes.extend(content(grain, versions.sent));
            written.push((grain, versions.sent));
        }
        let (offset, data) = (first * GRAIN, SharedBuffer::copy_of(&bytes));
        let durable = self.random.below(2) == 0;
        let memory = data.start().as_ptr() as usize;
        let command = SteppedCommand::Write { offset, data, durable };
        self.stepped.begin(self.number, token, command).unwrap();
        self.commands.insert(token, written);
        if durable {
            self.durable.insert(token, memory);
        }
    }

    /// Takes what is to be done, and the ends of commands.
    fn look(&mut self) {
        let mut steps = Vec::new();
        self.stepped.steps(self.number, &mut steps);
        for step in steps {
            match step {
                Step::Done { token, result } => {
                    result.unwrap();
                    let durable = self.durable.remove(&token).filter(|_| self.is_alone);
                    if let Some(memory) = durable {
                        assert!(self.flushed > 2 * self.written[&memory], "it is not flushed");
                    }
                    for (grain, version) in self.commands.remove(&token).unwrap() {
                        let acknowledged = &mut self.versions[grain as usize].acknowledged;
                        *acknowledged = version.max(*acknowledged);
                    }
                }
                step => {
                    if let Step::Carry(number, request) = &step
                        && request.operation == DirectOperation::Flush
                    {
                        self.flushes.insert(*number, self.clock);
                    }
                    self.ready.push(step);
                }
            }
        }
    }

    /// Does any of the steps.
    fn step(&mut self) {
        let at = self.random.below(self.ready.len() as u64) as usize;
        match self.ready.swap_remove(at) {
            Step::Carry(step, mut request) => {
                let result = request.carry_out();
                self.clock += 1;
                if let DirectMemory::Bytes(data) = &request.memory {
                    self.written.insert(data.start().as_ptr() as usize, self.clock);
                }
                if let Some(began) = self.flushes.remove(&step) {
                    // It was handed out after this step, and before the next.
                    self.flushed = self.flushed.max(2 * began + 1);
                }
                self.stepped.carried(self.number, step, request, result);
            }
            Step::Aside(step) => {
                self.asides += 1;
                self.stepped.aside(self.number, step);
            }
            Step::Done { .. } => unreachable!("it was taken out"),
        }
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.look();
            if self.ready.is_empty() || self.commands.len() < 12 && self.random.below(3) == 0 {
                self.begin();
            } else {
                self.step();
            }
        }
    }

    fn settle(&mut self) {
        while self.stepped.is_busy(self.number) {
            self.look();
            if self.ready.is_empty() {
                std::thread::yield_now();
            } else {
                self.step();
            }
        }
    }

    /// The process is killed: of each request under way the kernel does all, a part, or nothing.
    fn kill(&mut self) {
        for step in std::mem::take(&mut self.ready) {
            let Step::Carry(_, mut request) = step else { continue };
            let DirectOperation::Write { .. } = request.operation else { continue };
            let grains = self.random.below(request.len as u64 / GRAIN + 1);
            if grains > 0 {
                request.len = (grains * GRAIN) as usize;
                request.carry_out().unwrap();
            }
        }
    }
}

/// Returns whether this machine's file system takes direct I/O: without that there are no steps.
fn has_steps(device: &TaggedDevice) -> bool {
    if device.stepped().is_none() {
        eprintln!("SKIPPED: no direct I/O here");
    }
    device.stepped().is_some()
}

fn user(device: &TaggedDevice, seed: u64) -> User<'_> {
    let stepped = device.stepped().unwrap();
    let number = stepped.join(Arc::new(|| {})).unwrap();
    User {
        stepped,
        number,
        random: Random(seed),
        versions: vec![Versions::default(); GRAINS as usize],
        commands: HashMap::new(),
        next: 0,
        ready: Vec::new(),
        asides: 0,
        is_alone: true,
        clock: 0,
        durable: HashMap::new(),
        written: HashMap::new(),
        flushes: HashMap::new(),
        flushed: 0,
    }
}

/// Every grain has a version from that which was acknowledged on, and its tag.
fn check(device: &TaggedDevice, versions: &[Versions], what: &str) {
    assert!(device.recovered().damaged.is_empty(), "{what}: {:?}", device.recovered());
    let block = u64::from(device.logical_block());
    for (grain, known) in (0..).zip(versions) {
        let mut bytes = vec![0; GRAIN as usize];
        device.read_at(grain * GRAIN, &mut bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        let version = |bytes: &[u8]| u32::from_le_bytes(std::array::from_fn(|i| bytes[i]));
        // A grain of several blocks can have some of each version.
        for (at, part) in bytes.chunks(block as usize).enumerate() {
            let is = |version: u32| content(grain, version)[at * block as usize..][..part.len()] == *part;
            let found = (known.acknowledged..=known.sent).find(|version| is(*version));
            let Some(found) = found else {
                panic!("{what}: block {at} of grain {grain}, version {}: {known:?}", version(&bytes));
            };
            let number = (grain * GRAIN) / block + at as u64;
            let opinion = device.judge(number..number + 1).unwrap()[0];
            let right = if found == 0 {
                matches!(opinion, Opinion::Unchecked | Opinion::Fits(_))
            } else {
                opinion == Opinion::Fits(Origin::Written)
            };
            assert!(right, "{what}: block {number}, version {found}: {opinion:?}");
        }
    }
}

#[test]
fn a_kill_between_any_two_steps_loses_nothing_that_was_acknowledged() {
    let (mut asides, mut logged) = (0, 0);
    for seed in 1..31_u64 {
        let block = if seed % 2 == 0 { 512 } else { 4096 };
        let (folder, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = Files::make(folder.path(), block);
        let device = files.open();
        if !has_steps(&device) {
            return;
        }
        let mut user = user(&device, seed * 0x9E37_79B9);
        let steps = 50 + user.random.below(900);
        user.run(steps);
        user.look();
        user.kill();
        let copy = files.copy(after.path());
        let again = copy.open();
        logged += again.recovered().logged;
        check(&again, &user.versions, &format!("seed {seed}"));
        asides += user.asides;
    }
    assert!(asides > 80 && logged > 200, "{asides} asides, {logged} blocks in the log");
}

#[test]
fn users_and_threads_write_side_by_side() {
    for block in [512, 4096] {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::make(folder.path(), block);
        let device = files.open();
        if !has_steps(&device) {
            return;
        }
        let left = AtomicUsize::new(3);
        let threads = 3 * 150;
        let mut users = [user(&device, 11), user(&device, 12)];
        users[0].is_alone = false;
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (device, left) = (&device, &left);
                scope.spawn(move || {
                    let mut random = Random(thread + 5);
                    for round in 0..threads / 3 {
                        let grain = OF_THREADS + thread + 3 * random.below((GRAINS - OF_THREADS) / 3 - 1);
                        device.write_at(grain * GRAIN, &content(grain, round + 1)).unwrap();
                        let mut bytes = vec![0; GRAIN as usize];
                        device.read_at(grain * GRAIN, &mut bytes).unwrap();
                        assert!(bytes == content(grain, round + 1));
                        if round % 16 == 3 {
                            device.flush().unwrap();
                        }
                    }
                    left.fetch_sub(1, Ordering::SeqCst);
                });
            }
            while left.load(Ordering::SeqCst) > 0 {
                users[0].run(20);
                // The second has nothing of its own, and carries what is for all.
                users[1].look();
                while !users[1].ready.is_empty() {
                    users[1].step();
                }
            }
        });
        for user in &mut users {
            user.settle();
            user.stepped.leave(user.number);
        }
        let mut versions = users[0].versions.clone();
        versions[OF_THREADS as usize..].iter_mut().for_each(|versions| versions.sent = threads);
        check(&device, &versions, "while it is open");
        device.close().unwrap();
        drop(device);
        check(&files.open(), &versions, "after it was opened again");
    }
}

#[test]
fn a_failed_write_of_the_log_fails_the_command_and_every_later_one() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(folder.path(), 512);
    let device = files.open();
    if !has_steps(&device) {
        return;
    }
    let stepped = device.stepped().unwrap();
    let user = stepped.join(Arc::new(|| {})).unwrap();
    let write = |at: u64| SteppedCommand::Write {
        offset: at * GRAIN,
        data: SharedBuffer::copy_of(&content(at, 1)),
        durable: true,
    };
    stepped.begin(user, 1, write(0)).unwrap();
    let mut ended = Vec::new();
    let mut logs = 0;
    while stepped.is_busy(user) {
        let mut steps = Vec::new();
        stepped.steps(user, &mut steps);
        for step in steps {
            match step {
                Step::Carry(step, mut request) => {
                    let is_log = matches!(request.operation, DirectOperation::Write { durable: true });
                    logs += usize::from(is_log);
                    let result = match is_log {
                        true => {
                            let why = std::io::Error::from_raw_os_error(5);
                            Err(IoError::new("tags", Operation::Write, request.offset, request.len, why))
                        }
                        false => request.carry_out(),
                    };
                    stepped.carried(user, step, request, result);
                }
                Step::Aside(step) => stepped.aside(user, step),
                Step::Done { token, result } => ended.push((token, result.is_err())),
            }
        }
    }
    assert_eq!((logs, &ended[..]), (1, &[(1, true)][..]), "its data are not written");
    assert!(stepped.begin(user, 2, write(1)).is_err());
    assert!(device.write_at(GRAIN, &content(1, 1)).is_err());
    assert!(device.failing().is_some_and(|why| why.contains("tag file")));
    let mut bytes = vec![1; GRAIN as usize];
    device.read_at(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
    stepped.leave(user);
}

/// Does all that a user is to do. `seen` is called with each request.
fn finish(stepped: &dyn Stepped, user: usize, mut seen: impl FnMut(&DirectRequest)) {
    while stepped.is_busy(user) {
        let mut steps = Vec::new();
        stepped.steps(user, &mut steps);
        for step in steps {
            match step {
                Step::Carry(step, mut request) => {
                    seen(&request);
                    let result = request.carry_out();
                    stepped.carried(user, step, request, result);
                }
                Step::Aside(step) => stepped.aside(user, step),
                Step::Done { result, .. } => result.unwrap(),
            }
        }
    }
}

#[test]
fn commits_use_the_same_memory_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(folder.path(), 4096);
    let device = files.open();
    if !has_steps(&device) {
        return;
    }
    let stepped = device.stepped().unwrap();
    let user = stepped.join(Arc::new(|| {})).unwrap();
    let (mut commits, mut memories) = (0, std::collections::HashSet::new());
    for token in 0..60 {
        let data = SharedBuffer::copy_of(&content(token % 7, 1));
        let command = SteppedCommand::Write { offset: token % 7 * GRAIN, data, durable: false };
        stepped.begin(user, token, command).unwrap();
        finish(stepped, user, |request| {
            if let (DirectMemory::Bytes(memory), DirectOperation::Write { durable: true }) =
                (&request.memory, request.operation)
            {
                memories.insert(memory.start().as_ptr() as usize);
                commits += 1;
            }
        });
        // Others want memory meanwhile, which an allocator would take from what was freed.
        std::mem::forget(SharedBuffer::copy_of(&[1; 2 * GRAIN as usize]));
    }
    assert!(commits >= 60 && memories.len() <= 2, "{commits} commits, {} memories", memories.len());
    stepped.leave(user);
}

#[test]
fn blocks_that_are_healed_in_steps_do_not_make_tags_stale() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(folder.path(), 512);
    let device = files.open();
    if !has_steps(&device) {
        return;
    }
    let (stepped, len) = (device.stepped().unwrap(), GRAIN as usize);
    device.write_at(0, &vec![7; 100 * len]).unwrap();
    let raw = std::fs::File::options().write(true).open(files.drive()).unwrap();
    raw.write_all_at(&vec![8; 100 * len], 0).unwrap();
    raw.sync_all().unwrap();
    let user = stepped.join(Arc::new(|| {})).unwrap();
    for token in 0..100 {
        let at = token * GRAIN;
        assert!(device.read_at(at, &mut vec![0; len]).is_err(), "{token}");
        let data = SharedBuffer::copy_of(&vec![7; len]);
        stepped.begin(user, token, SteppedCommand::Write { offset: at, data, durable: false }).unwrap();
        finish(stepped, user, |_| {});
    }
    assert!(!device.is_stale());
    stepped.leave(user);
}

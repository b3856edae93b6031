//! Generated traces of contents: four kinds of load, on a file system that has aged.

use super::trace::{ContentOp, ContentTrace};
use pumice_flash::chip::Random;
use pumice_flash::ftl::ContentId;
use std::fmt;
use std::str::FromStr;

/// Logical pages of the drive.
const PAGES: u32 = 1 << 14;
/// Idle time after each round, in microseconds.
const GAP: u64 = 60_000_000;
/// Pages of a run of free pages that a file gets at most: the file system has aged.
const RUN: u32 = 24;

/// A kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Builds of successive revisions: checkouts, objects and temporary files; the last five are
    /// kept.
    Builds,
    /// Mail for several recipients, beside a database whose pages are overwritten in place.
    Mail,
    /// Releases of packages, installed beside the ones before, which are removed later.
    Releases,
    /// Images of machines that were cloned from one, with writes of their own and updates in
    /// common.
    Images,
}

impl Load {
    /// All loads.
    pub const ALL: [Self; 4] = [Self::Builds, Self::Mail, Self::Releases, Self::Images];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Builds => "builds",
            Self::Mail => "mail",
            Self::Releases => "releases",
            Self::Images => "images",
        }
    }

    /// A trace of it. Equal seeds give equal traces.
    #[must_use]
    pub fn trace(self, seed: u64) -> ContentTrace {
        let mut disk = Disk::new(seed);
        match self {
            Self::Builds => builds(&mut disk),
            Self::Mail => mail(&mut disk),
            Self::Releases => releases(&mut disk),
            Self::Images => images(&mut disk),
        }
        ContentTrace { ops: disk.ops, pages: PAGES, ..ContentTrace::default() }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|load| load.name() == text)
            .ok_or_else(|| format!("'{text}' is no load; loads are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

type File = Vec<u32>;

/// A disk with files, which takes down what is written.
struct Disk {
    random: Random,
    used: Vec<bool>,
    free: u32,
    /// The next content that was never there.
    fresh: u64,
    ops: Vec<ContentOp>,
}

impl Disk {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            used: vec![false; PAGES as usize],
            free: PAGES,
            fresh: 0,
            ops: Vec::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.random.below(100) < chance
    }

    fn fresh(&mut self) -> u64 {
        self.fresh += 1;
        self.fresh
    }

    /// `count` contents that were never there.
    fn all_fresh(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.fresh()).collect()
    }

    fn overwrite(&mut self, lpn: u32, content: u64) {
        let strong = Random::new(content).next_u64();
        self.ops.push(ContentOp::Write(lpn, ContentId { strong, weak: (strong >> 32) as u32 }));
    }

    /// A new file, in runs at random places. What does not fit is left out.
    fn create(&mut self, contents: &[u64]) -> File {
        let mut file = File::new();
        let mut left = contents.len().min(self.free as usize);
        while left > 0 {
            let mut at = self.random.below(u64::from(PAGES)) as u32;
            while self.used[at as usize] {
                at = (at + 1) % PAGES;
            }
            for _ in 0..RUN {
                if left == 0 || self.used[at as usize] {
                    break;
                }
                self.used[at as usize] = true;
                self.free -= 1;
                self.overwrite(at, contents[file.len()]);
                file.push(at);
                left -= 1;
                at = (at + 1) % PAGES;
            }
        }
        file
    }

    fn remove(&mut self, file: &File) {
        for &lpn in file {
            self.used[lpn as usize] = false;
            self.free += 1;
            self.ops.push(ContentOp::Trim(lpn));
        }
    }

    /// Changes each content with the chance given, in percent.
    fn revise(&mut self, contents: &mut [u64], chance: u64) {
        for content in contents {
            if self.percent(chance) {
                *content = self.fresh();
            }
        }
    }

    fn idle(&mut self) {
        self.ops.push(ContentOp::Idle(GAP));
    }
}

fn builds(disk: &mut Disk) {
    let mut sources: Vec<Vec<u64>> = (0..120).map(|_| disk.all_fresh(8)).collect();
    let mut objects: Vec<Vec<u64>> = (0..120).map(|_| disk.all_fresh(10)).collect();
    let mut kept: Vec<Vec<File>> = Vec::new();
    for _ in 0..70 {
        let mut job = Vec::new();
        for i in 0..sources.len() {
            if disk.percent(8) {
                disk.revise(&mut sources[i], 40);
                disk.revise(&mut objects[i], 90);
            }
            job.push(disk.create(&sources[i]));
        }
        for object in &objects {
            let temporary = disk.all_fresh(6);
            let temporary = disk.create(&temporary);
            job.push(disk.create(object));
            disk.remove(&temporary);
        }
        // What is installed are copies.
        for object in objects.iter().take(60) {
            job.push(disk.create(object));
        }
        kept.push(job);
        if kept.len() > 5 {
            for file in kept.remove(0) {
                disk.remove(&file);
            }
        }
        disk.idle();
    }
}

fn mail(disk: &mut Disk) {
    let database = disk.all_fresh(3_000);
    let database = disk.create(&database);
    let mut messages: Vec<File> = Vec::new();
    for _ in 0..80 {
        for _ in 0..350 {
            let (pages, copies) = (1 + disk.below(6), if disk.percent(15) { 1 + disk.below(5) } else { 1 });
            let contents = disk.all_fresh(pages);
            for _ in 0..copies {
                let message = disk.create(&contents);
                messages.push(message);
                // The index, its log and the counters of the mailbox.
                for _ in 0..3 {
                    let range = if disk.percent(90) { database.len() / 10 } else { database.len() };
                    let (at, content) = (disk.below(range), disk.fresh());
                    disk.overwrite(database[at], content);
                }
            }
        }
        while disk.free < PAGES / 12 {
            let at = disk.below(messages.len());
            let message = messages.swap_remove(at);
            disk.remove(&message);
        }
        disk.idle();
    }
}

fn releases(disk: &mut Disk) {
    let mut packages: Vec<Vec<u64>> = (0..60).map(|i| disk.all_fresh(20 + 4 * (i % 30))).collect();
    let mut installed: Vec<Vec<File>> = vec![Vec::new(); packages.len()];
    for _ in 0..90 {
        for i in 0..packages.len() {
            if !disk.percent(35) {
                continue;
            }
            disk.revise(&mut packages[i], 30);
            // The archive, then what is unpacked from it.
            let archive = disk.all_fresh(packages[i].len() / 3);
            let archive = disk.create(&archive);
            let package = disk.create(&packages[i]);
            installed[i].push(package);
            disk.remove(&archive);
            if installed[i].len() > 2 {
                let old = installed[i].remove(0);
                disk.remove(&old);
            }
        }
        disk.idle();
    }
}

fn images(disk: &mut Disk) {
    let template = disk.all_fresh(1_500);
    let mut machines: Vec<File> = (0..8).map(|_| disk.create(&template)).collect();
    for round in 0..100 {
        for machine in &machines {
            for _ in 0..180 {
                let range = if disk.percent(80) { machine.len() / 8 } else { machine.len() };
                let (at, content) = (disk.below(range), disk.fresh());
                disk.overwrite(machine[at], content);
            }
        }
        // An update comes to all machines, at the same places.
        let (from, update) = (disk.below(template.len() - 120), disk.all_fresh(120));
        for machine in &machines {
            for (i, &content) in update.iter().enumerate() {
                disk.overwrite(machine[from + i], content);
            }
        }
        if round % 10 == 9 {
            let old = machines.remove(0);
            disk.remove(&old);
            let clone = disk.create(&template);
            machines.push(clone);
        }
        disk.idle();
    }
}

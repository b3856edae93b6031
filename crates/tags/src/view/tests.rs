//! Reads of much in order, against a model, between writes, lost writes and damage.

use crate::file::{SharedMedium, TagFile};
use crate::geometry::Geometry;
use crate::rules::Rule;
use crate::simulation::Random;
use crate::{DeviceMedium, TaggedDevice};
use pumice_base::units::Rules;
use pumice_blockdev::{BlockDevice, MemoryDevice, Reader, Tagged};
use pumice_protect::guard::Guard;
use std::ops::Range;
use std::sync::Arc;

/// Four groups of pages.
const BLOCKS: u64 = 4 * 480;
const SIZE: usize = 512;

/// A drive, and which of its blocks differ from their tags.
struct History {
    random: Random,
    drive: Arc<MemoryDevice>,
    device: TaggedDevice,
    differs: Vec<bool>,
    readers: [Reader; 2],
    /// Reads that a view answered.
    viewed: u64,
}

impl History {
    fn new(seed: u64, rules: Rules<Rule>) -> Self {
        let size = BLOCKS * SIZE as u64;
        let geometry = Geometry::new(size, SIZE as u32, 512, Guard::Crc16, 128 << 10).unwrap();
        let drive = Arc::new(MemoryDevice::new("d", size));
        let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
        let medium = SharedMedium(Arc::new(DeviceMedium(tags)));
        TagFile::create(&medium, geometry, 77, "serial").unwrap();
        let device = TaggedDevice::open(drive.clone(), medium, "serial").unwrap();
        device.carrier.keep(rules);
        let differs = vec![false; BLOCKS as usize];
        let mut history =
            Self { random: Random(seed), drive, device, differs, readers: Default::default(), viewed: 0 };
        history.write(0..BLOCKS);
        assert!(history.device.carrier.bring_home());
        history
    }

    fn blocks(&mut self, most: u64) -> Range<u64> {
        let first = self.random.below(BLOCKS);
        first..BLOCKS.min(first + 1 + self.random.below(most))
    }

    fn bytes(blocks: &Range<u64>) -> usize {
        (blocks.end - blocks.start) as usize * SIZE
    }

    fn write(&mut self, blocks: Range<u64>) {
        let words = (0..Self::bytes(&blocks) / 8).map(|_| self.random.below(u64::MAX).to_le_bytes());
        let data: Vec<u8> = words.flatten().collect();
        self.device.write_at(blocks.start * SIZE as u64, &data).unwrap();
        self.differs[blocks.start as usize..blocks.end as usize].fill(false);
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(12) {
            0 => {
                let blocks = self.blocks(200);
                self.write(blocks);
            }
            1 => {
                // The drive loses a write that it acknowledged.
                let block = self.random.below(BLOCKS);
                if !self.differs[block as usize] {
                    let mut old = vec![0; SIZE];
                    self.drive.read_at(block * SIZE as u64, &mut old).unwrap();
                    self.write(block..block + 1);
                    self.drive.write_at(block * SIZE as u64, &old).unwrap();
                    self.differs[block as usize] = true;
                }
            }
            2 => {
                let block = self.random.below(BLOCKS);
                if !self.differs[block as usize] {
                    let at = block * SIZE as u64 + self.random.below(SIZE as u64);
                    let mut byte = [0];
                    self.drive.read_at(at, &mut byte).unwrap();
                    self.drive.write_at(at, &[byte[0] ^ 1 << self.random.below(8)]).unwrap();
                    self.differs[block as usize] = true;
                }
            }
            3 => {
                if let Some(block) = self.differs.iter().position(|differs| *differs) {
                    assert!(self.device.release(block as u64).unwrap());
                    self.differs[block] = false;
                }
            }
            4 => assert!(self.device.carrier.bring_home()),
            _ => return self.sweep(),
        }
        Ok(())
    }

    fn sweep(&mut self) -> Result<(), String> {
        let blocks = self.blocks(300);
        let mut buffer = vec![0; Self::bytes(&blocks)];
        let reader = &mut self.readers[self.random.below(2) as usize];
        let before = self.device.carrier.viewed();
        let judgement = self.device.read_checked(blocks.start * SIZE as u64, &mut buffer, reader).unwrap();
        self.viewed += self.device.carrier.viewed() - before;
        let mut found = vec![false; (blocks.end - blocks.start) as usize];
        for faulty in &judgement.faulty {
            found[faulty.at / SIZE..(faulty.at + faulty.len) / SIZE].fill(true);
        }
        if found != self.differs[blocks.start as usize..blocks.end as usize] {
            return Err(format!("blocks {blocks:?}: {judgement:?}"));
        }
        let fit: u64 = judgement.fit.iter().sum();
        assert_eq!(fit, found.iter().filter(|differs| !**differs).count() as u64);
        Ok(())
    }
}

/// Returns how many reads were answered by views.
fn history(seed: u64, rules: Rules<Rule>) -> Result<u64, String> {
    let mut history = History::new(seed, rules);
    for _ in 0..60 {
        history.step()?;
    }
    Ok(history.viewed)
}

#[test]
fn a_sweep_finds_what_the_tags_in_memory_say() {
    let viewed: u64 = (0..300).map(|seed| history(seed, Rules::all()).unwrap()).sum();
    println!("{viewed}");
    assert!(viewed > 1000, "{viewed}");
}

#[test]
fn each_condition_of_a_view_is_needed() {
    for rule in [Rule::CurrentViews, Rule::ViewsOfHome] {
        let found = (0..300).find_map(|seed| history(seed, Rules::silently_without(rule)).err());
        println!("{rule:?}: {found:?}");
        assert!(found.is_some(), "{rule:?} makes no difference");
    }
}

/// Writers and readers at the same time: nothing is wrong, so nothing is found.
#[test]
fn sweeps_beside_writes_find_nothing() {
    let mut history = History::new(1, Rules::all());
    let device = &history.device;
    let write = |seed: u64| {
        let mut random = Random(seed);
        for _ in 0..1500 {
            let first = random.below(BLOCKS - 8);
            let data = vec![random.below(256) as u8; SIZE * (1 + random.below(8)) as usize];
            device.write_at(first * SIZE as u64, &data).unwrap();
            if random.one_in(20) {
                assert!(device.carrier.bring_home());
            }
        }
    };
    let sweep = |mut reader: Reader, rounds: u64| {
        let mut buffer = vec![0; 64 * SIZE];
        for first in (0..rounds).flat_map(|_| (0..BLOCKS).step_by(64)) {
            let judgement = device.read_checked(first * SIZE as u64, &mut buffer, &mut reader).unwrap();
            assert!(judgement.faulty.is_empty(), "{first}: {judgement:?}");
        }
    };
    std::thread::scope(|scope| {
        let writers = [2, 3].map(|seed| scope.spawn(move || write(seed)));
        let readers = [4, 5].map(|_| scope.spawn(|| sweep(Reader::default(), 40)));
        writers.into_iter().for_each(|thread| thread.join().unwrap());
        readers.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // Once all is quiet, views answer again.
    assert!(device.carrier.bring_home());
    let before = device.carrier.viewed();
    sweep(Reader::default(), 2);
    assert!(device.carrier.viewed() > before);
    history.differs.fill(false);
    history.sweep().unwrap();
}

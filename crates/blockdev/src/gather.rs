//! Reads many pieces at once into one buffer.
//!
//! A [`Gatherer`] belongs to one thread. A [`Gather`] is submitted with its buffer and returned, as
//! [`Gathered`], when each of its parts has been read or has failed. Devices that read by DMA go
//! through io_uring (or, if the kernel does not offer it, a few threads), with many parts in
//! flight. Everything else is read at once by the calling thread, because a processor copies the
//! bytes, and they are best folded while they are in its cache.

mod ring;
mod threads;

use crate::{BlockDevice, IoError, Judgement, Reader, read_in_order};
use pumice_base::buffer::{AlignedBuffer, MEMORY_GRAIN};
use ring::Ring;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use threads::Threads;

/// The way in which reads are issued. The environment variable `PUMICE_IO_ENGINE` (`uring`,
/// `threads` or `inline`) overrides [`Engine::Auto`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// io_uring where the kernel offers it, otherwise threads.
    #[default]
    Auto,
    /// io_uring.
    Uring,
    /// A few threads.
    Threads,
    /// The calling thread, one part after the other.
    Inline,
}

impl Engine {
    fn chosen(self) -> Self {
        match (self, std::env::var("PUMICE_IO_ENGINE").as_deref()) {
            (Self::Auto, Ok("uring")) => Self::Uring,
            (Self::Auto, Ok("threads")) => Self::Threads,
            (Self::Auto, Ok("inline")) => Self::Inline,
            (engine, _) => engine,
        }
    }
}

/// One piece of a gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The device, by its place in the gatherer's list.
    pub device: usize,
    /// Byte offset on it.
    pub offset: u64,
    /// Byte offset in the buffer.
    pub at: usize,
    /// Bytes.
    pub len: usize,
}

/// A piece that should be the XOR of the others, so that the guards of its blocks follow from
/// theirs and need not be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// The index of the piece.
    pub part: usize,
    /// The index of a piece that does not count.
    pub without: Option<usize>,
}

/// Pieces to read into a buffer. They must not overlap in the buffer.
#[derive(Debug)]
pub struct Gather {
    /// The caller's own number for it.
    pub tag: u64,
    /// Destination of the bytes.
    pub buffer: AlignedBuffer,
    /// The pieces.
    pub parts: Vec<Part>,
    /// A piece that should be the sum of others. A hint: devices without tags do not need it.
    pub sum: Option<Sum>,
}

/// A finished gather.
#[derive(Debug)]
pub struct Gathered {
    /// The caller's own number for it.
    pub tag: u64,
    /// The bytes.
    pub buffer: AlignedBuffer,
    /// The pieces.
    pub parts: Vec<Part>,
    /// The indices of the pieces that failed; their bytes are undefined.
    pub failures: Vec<(usize, IoError)>,
    /// For devices with tags, the results of checking the other pieces, by index. No piece is
    /// refused because of its tag.
    pub judged: Vec<(usize, Judgement)>,
    /// The same for the piece that should be a [sum](Gather::sum), if it was checked as one: all of
    /// its blocks fit their tags if it is that sum, and nothing is known if it is not.
    pub if_sum: Option<(usize, Judgement)>,
}

/// A gather with parts under way.
#[derive(Debug)]
struct Flight {
    gather: Gathered,
    left: usize,
}

/// The engine for parts that are not read at once.
enum Carrier {
    None,
    Ring(Box<Ring>),
    Threads(Threads),
}

/// Reads gathers from a fixed list of devices.
pub struct Gatherer {
    devices: Vec<Arc<dyn BlockDevice>>,
    /// One for each device.
    readers: Vec<Reader>,
    /// Room for guards.
    guards: Vec<u64>,
    carrier: Carrier,
    ready: VecDeque<Gathered>,
    in_flight: usize,
}

impl Gatherer {
    /// A gatherer with at most `depth` parts in flight.
    ///
    /// # Errors
    /// If [`Engine::Uring`] is asked for by name and the kernel does not offer it, or threads
    /// cannot be made.
    pub fn new(devices: Vec<Arc<dyn BlockDevice>>, depth: u32, engine: Engine) -> io::Result<Self> {
        let any_direct = devices.iter().any(|device| device.direct_fd().is_some());
        let carrier = match engine.chosen() {
            Engine::Inline => Carrier::None,
            Engine::Auto if !any_direct => Carrier::None,
            Engine::Auto => match Ring::new(depth) {
                Ok(ring) => Carrier::Ring(Box::new(ring)),
                // Old kernel, or forbidden to this process.
                Err(_) => Carrier::Threads(Threads::new(depth)?),
            },
            Engine::Uring => Carrier::Ring(Box::new(Ring::new(depth)?)),
            Engine::Threads => Carrier::Threads(Threads::new(depth)?),
        };
        let readers = devices.iter().map(|_| Reader::default()).collect();
        Ok(Self { devices, readers, guards: Vec::new(), carrier, ready: VecDeque::new(), in_flight: 0 })
    }

    /// Gathers submitted and not yet handed back.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Begins a gather. Parts that are read at once are complete when this returns.
    ///
    /// # Panics
    /// If a part names no device, or lies outside the buffer.
    pub fn submit(&mut self, gather: Gather) {
        let Gather { tag, mut buffer, parts, sum } = gather;
        assert!(
            parts.iter().all(|p| p.device < self.devices.len()
                && p.at.checked_add(p.len).is_some_and(|end| end <= buffer.len())),
            "parts lie on known devices and within the buffer"
        );
        self.in_flight += 1;
        let (mut failures, mut judged) = (Vec::new(), Vec::new());
        let mut carried = Vec::new();
        let last = sum.map(|sum| sum.part).filter(|last| *last < parts.len());
        let others = (0..parts.len()).filter(|i| Some(*i) != last);
        let mut if_sum = None;
        for i in others.chain(last) {
            let part = &parts[i];
            let device = &self.devices[part.device];
            let can_carry = match &self.carrier {
                Carrier::None => false,
                Carrier::Ring(_) => fits_ring(&**device, part),
                Carrier::Threads(_) => true,
            };
            if can_carry {
                carried.push(i);
                continue;
            }
            let summed = match sum.filter(|_| Some(i) == last && carried.is_empty()) {
                Some(sum) => self.read_sum(&parts, sum, &mut buffer),
                None => Ok(None),
            };
            match summed {
                Ok(None) => {}
                Ok(Some(judgement)) => {
                    if_sum = Some((i, judgement));
                    continue;
                }
                Err(error) => {
                    failures.push((i, error));
                    continue;
                }
            }
            let device = &self.devices[part.device];
            let (bytes, reader) = (&mut buffer[part.at..part.at + part.len], &mut self.readers[part.device]);
            match read_in_order(&**device, part.offset, bytes, reader) {
                Ok(judgement) => judged.extend(judgement.map(|judgement| (i, judgement))),
                Err(error) => failures.push((i, error)),
            }
        }
        let gather = Gathered { tag, buffer, parts, failures, judged, if_sum };
        let flight = Flight { gather, left: carried.len() };
        match &mut self.carrier {
            _ if carried.is_empty() => self.ready.push_back(flight.gather),
            Carrier::None => unreachable!("nothing is carried without a carrier"),
            Carrier::Ring(ring) => ring.submit(flight, &carried, &self.devices),
            Carrier::Threads(threads) => threads.submit(flight, &carried, &self.devices),
        }
    }

    /// Reads the piece that should be a sum of the others, which were read just now, and checks its
    /// tags by their guards. `None` if that does not show that all its blocks would fit.
    fn read_sum(
        &mut self,
        parts: &[Part],
        sum: Sum,
        buffer: &mut AlignedBuffer,
    ) -> Result<Option<Judgement>, IoError> {
        let part = &parts[sum.part];
        let Some(tagged) = self.devices[part.device].tagged() else { return Ok(None) };
        let (format, mut count) = (tagged.format(), 0);
        let block = format.block_bytes as usize;
        self.guards.clear();
        self.guards.resize(part.len / block, 0);
        for (i, of) in parts.iter().enumerate() {
            if i == sum.part || Some(i) == sum.without {
                continue;
            }
            let tagged = self.devices[of.device].tagged().filter(|tagged| tagged.format() == format);
            let reader = &mut self.readers[of.device];
            let guards = tagged.and_then(|tagged| tagged.guards(of.offset, of.len, reader));
            let Some(guards) = guards.filter(|_| of.len == part.len) else { return Ok(None) };
            self.guards.iter_mut().zip(guards).for_each(|(sum, guard)| *sum ^= guard);
            count += 1;
        }
        // Whole blocks of the others are whole blocks of this one if it begins with one.
        if count == 0 || !part.offset.is_multiple_of(block as u64) {
            return Ok(None);
        }
        format.metadata.guard().sums(&mut self.guards, count, block);
        let (bytes, reader) = (&mut buffer[part.at..part.at + part.len], &mut self.readers[part.device]);
        tagged.read_expecting(part.offset, bytes, &self.guards, reader)
    }

    /// A finished gather. With `wait`, waits for one while any is in flight.
    pub fn next(&mut self, wait: bool) -> Option<Gathered> {
        let done = self.ready.pop_front().or_else(|| match &mut self.carrier {
            Carrier::None => None,
            Carrier::Ring(ring) => ring.next(wait, &self.devices),
            Carrier::Threads(threads) => threads.next(wait),
        });
        self.in_flight -= usize::from(done.is_some());
        done
    }
}

/// Returns whether the ring can read a part as it is: direct I/O, everything aligned.
fn fits_ring(device: &dyn BlockDevice, part: &Part) -> bool {
    device.direct_fd().is_some_and(|direct| {
        let grain = u64::from(direct.grain);
        part.len > 0
            && part.offset.is_multiple_of(grain)
            && (part.len as u64).is_multiple_of(grain)
            && part.at.is_multiple_of(MEMORY_GRAIN)
            && part.offset.checked_add(part.len as u64).is_some_and(|end| end <= device.size_bytes())
            && !device.has_marks(part.offset, part.len as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direct, FaultyDevice, FileDevice, OpenMode, Options};
    use std::io::Write;

    const ENGINES: [Engine; 4] = [Engine::Auto, Engine::Uring, Engine::Threads, Engine::Inline];

    fn content(seed: u8) -> Vec<u8> {
        (0..100 * 4096_u32).map(|i| (i / 7) as u8 ^ seed).collect()
    }

    /// Image files on the disk of the build, where direct I/O is real.
    fn files(count: u8) -> (tempfile::TempDir, Vec<Arc<dyn BlockDevice>>) {
        let folder = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")).unwrap();
        let devices = (0..count)
            .map(|i| {
                let path = folder.path().join(i.to_string());
                std::fs::File::create(&path).unwrap().write_all(&content(i)).unwrap();
                let options = Options { direct: if i % 3 == 2 { Direct::Off } else { Direct::Auto } };
                Arc::new(FileDevice::open(&path, OpenMode::ReadOnly, options).unwrap())
                    as Arc<dyn BlockDevice>
            })
            .collect();
        (folder, devices)
    }

    #[test]
    fn every_engine_brings_every_byte_to_its_place() {
        let (_folder, devices) = files(5);
        for engine in ENGINES {
            let mut gatherer = Gatherer::new(devices.clone(), 4, engine).unwrap();
            let shapes = [(0, 4096), (4096, 40960), (1, 1), (511, 4097), (99 * 4096, 4096), (8192, 512)];
            for (tag, (offset, len)) in shapes.into_iter().enumerate() {
                let pitch = 48 << 10;
                let parts = (0..5).map(|device| Part { device, offset, at: device * pitch, len }).collect();
                gatherer.submit(Gather {
                    tag: tag as u64,
                    buffer: AlignedBuffer::new(5 * pitch),
                    parts,
                    sum: None,
                });
            }
            let mut seen = vec![false; shapes.len()];
            while let Some(done) = gatherer.next(true) {
                assert!(done.failures.is_empty(), "{engine:?} {:?}", done.failures);
                for part in &done.parts {
                    let expected = &content(part.device as u8)[part.offset as usize..][..part.len];
                    assert_eq!(&done.buffer[part.at..part.at + part.len], expected, "{engine:?} {part:?}");
                }
                assert!(!std::mem::replace(&mut seen[done.tag as usize], true));
            }
            assert!(seen.iter().all(|s| *s), "{engine:?}");
            assert_eq!(gatherer.in_flight(), 0);
        }
    }

    /// The parts that have not been handed to the kernel when the file goes are failures, as those
    /// of a later gather are.
    #[test]
    fn a_file_that_is_removed_between_two_parts_fails_the_rest() {
        let folder = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")).unwrap();
        let path = folder.path().join("image");
        std::fs::File::create(&path).unwrap().write_all(&content(1)).unwrap();
        let device: Arc<dyn BlockDevice> =
            Arc::new(FileDevice::open(&path, OpenMode::ReadWrite, Options::default()).unwrap());
        if device.direct_fd().is_none() || Ring::new(1).is_err() {
            eprintln!("SKIPPED: no direct I/O or no io_uring here");
            return;
        }
        // One part at a time is with the kernel.
        let mut gatherer = Gatherer::new(vec![Arc::clone(&device)], 1, Engine::Uring).unwrap();
        let parts: Vec<Part> =
            (0..8).map(|i| Part { device: 0, offset: i * 4096, at: i as usize * 4096, len: 4096 }).collect();
        let buffer = AlignedBuffer::new(8 * 4096);
        gatherer.submit(Gather { tag: 7, buffer, parts, sum: None });
        std::fs::remove_file(&path).unwrap();
        assert!(device.flush().is_err(), "it is seen to be lost");
        let done = gatherer.next(true).unwrap();
        assert!(!done.failures.is_empty() && done.failures.iter().all(|(_, error)| !error.is_media_error()));
        assert!(gatherer.next(true).is_none(), "and nothing is left behind");
    }

    #[test]
    fn failed_parts_are_named_and_the_others_are_good() {
        let (_folder, mut devices) = files(2);
        let faulty = FaultyDevice::new("bad", content(9), 1);
        faulty.lose(4096..8192);
        devices.push(Arc::new(faulty));
        for engine in ENGINES {
            let mut gatherer = Gatherer::new(devices.clone(), 8, engine).unwrap();
            let part = |device, offset, at| Part { device, offset, at, len: 4096 };
            // Past the end of a file; fine; unreadable; fine.
            let parts =
                vec![part(0, 100 * 4096, 0), part(1, 0, 4096), part(2, 4096, 8192), part(2, 0, 12288)];
            gatherer.submit(Gather { tag: 1, buffer: AlignedBuffer::new(16384), parts, sum: None });
            let done = gatherer.next(true).unwrap();
            let mut failed: Vec<usize> = done.failures.iter().map(|(i, _)| *i).collect();
            failed.sort_unstable();
            assert_eq!(failed, [0, 2], "{engine:?}");
            assert!(done.failures.iter().any(|(i, error)| *i == 2 && error.is_media_error()));
            assert_eq!(done.buffer[4096..8192], content(1)[..4096]);
            assert_eq!(done.buffer[12288..], content(9)[..4096]);
        }
    }

    #[test]
    fn a_gatherer_may_be_dropped_with_reads_in_flight() {
        let (_folder, devices) = files(2);
        for engine in ENGINES {
            let mut gatherer = Gatherer::new(devices.clone(), 64, engine).unwrap();
            for tag in 0..20 {
                let parts =
                    (0..50).map(|i| Part { device: i % 2, offset: i as u64 * 4096, at: i * 4096, len: 4096 });
                let buffer = AlignedBuffer::new(50 * 4096);
                gatherer.submit(Gather { tag, buffer, parts: parts.collect(), sum: None });
            }
        }
    }
}

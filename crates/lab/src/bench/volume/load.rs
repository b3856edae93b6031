//! Requests to a volume, many in flight by one thread.

use pumice_base::buffer::SharedBuffer;
use pumice_blockdev::{BlockDevice, IoError};
use pumice_executor::{Answers, Ended, ReadBytes, VolumeDevice};
use pumice_flash::chip::Random;
use pumice_service::failure::Failure;
use std::time::{Duration, Instant};

/// Places of requests.
#[derive(Clone, Copy)]
pub(super) enum Places<'p> {
    /// One after another.
    InOrder,
    Random,
    /// Random ones of these.
    Of(&'p [u64]),
}

/// A kind of request.
pub(super) struct Shape<'p> {
    pub(super) work: &'static str,
    pub(super) writes: bool,
    pub(super) places: Places<'p>,
    pub(super) bytes: u64,
    pub(super) depth: usize,
    /// Flush after so many writes; 0: never.
    pub(super) flush_every: u64,
}

/// One of the requests in flight; the next one follows when it has ended.
struct Slot {
    random: Random,
    /// The data to write. As the server of a volume has what users send.
    data: SharedBuffer,
    /// Of requests in order.
    number: u64,
    asked: Instant,
    /// Its write has ended, and a flush follows.
    flushes: bool,
}

/// The volume, and where its answers come.
struct Client<'c> {
    device: &'c VolumeDevice,
    shape: &'c Shape<'c>,
    /// Requests that the volume has room for.
    count: u64,
    answers: Answers,
}

impl Client<'_> {
    /// Submits a slot's next request.
    fn submit(&self, index: usize, slot: &mut Slot) -> Result<(), IoError> {
        let Shape { places, bytes, depth, writes, .. } = *self.shape;
        let at = match places {
            Places::InOrder => slot.number % self.count * bytes,
            Places::Random => slot.random.next_u64() % self.count * bytes,
            Places::Of(places) => places[(slot.random.next_u64() % places.len() as u64) as usize],
        };
        slot.number += depth as u64;
        slot.asked = Instant::now();
        match writes {
            true => self.device.submit_write(at, slot.data.clone(), &self.answers, index as u64),
            false => self.device.submit_read(at, bytes as usize, &self.answers, index as u64),
        }
    }
}

/// Requests a second, and what each of them took in nanoseconds.
pub(super) fn load(
    device: &VolumeDevice,
    shape: &Shape<'_>,
    seconds: f64,
    round: u64,
) -> Result<(f64, Vec<u64>), Failure> {
    let count = device.size_bytes() / shape.bytes;
    if count < shape.depth as u64 {
        return Err(Failure::new("--drive: the volume is too small"));
    }
    let client = Client { device, shape, count, answers: Answers::default() };
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    let bytes = vec![0x5A; shape.bytes as usize];
    let slot = |number| Slot {
        random: Random::new(round << 32 | number),
        data: SharedBuffer::copy_of(&bytes),
        number,
        asked: began,
        flushes: false,
    };
    let mut slots: Vec<Slot> = (0..shape.depth as u64).map(slot).collect();
    for (index, slot) in slots.iter_mut().enumerate() {
        client.submit(index, slot)?;
    }
    let (mut took, mut written, mut in_flight) = (Vec::new(), 0_u64, slots.len());
    let mut ended = Vec::new();
    while in_flight > 0 {
        client.answers.wait(&mut ended);
        for Ended { number, result } in ended.drain(..) {
            // As who serves the volume does.
            drop(result?.map(ReadBytes::into_shared));
            let index = number as usize;
            let slot = &mut slots[index];
            written += u64::from(!slot.flushes);
            let is_due = shape.flush_every > 0 && written.is_multiple_of(shape.flush_every);
            slot.flushes = is_due && !slot.flushes;
            if slot.flushes {
                device.submit_flush(&client.answers, number);
                continue;
            }
            took.push(u64::try_from(slot.asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
            match Instant::now() < end {
                true => client.submit(index, slot)?,
                false => in_flight -= 1,
            }
        }
    }
    Ok((took.len() as f64 / began.elapsed().as_secs_f64(), took))
}

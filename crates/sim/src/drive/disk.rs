//! A disk with arm and platter: seek by distance, rotation by angle, transfer by length; first
//! come, first served.

use crate::trace::Request;
use pumice_pacer::Nanos;

/// One revolution at 15 000 a minute.
const REVOLUTION: Nanos = 4_000_000;
/// Bytes of a track; one passes in a revolution: 90 MiB/s, as the large requests of the measured
/// disk.
const TRACK: u64 = 368 << 10;
/// Command overhead.
const OVERHEAD: Nanos = 300_000;
/// Seek over one track, and further over the whole surface (with the square root of the distance).
const SEEK_LEAST: f64 = 400_000.0;
const SEEK_REST: f64 = 6_500_000.0;

/// A disk of the Ultrastar's kind: 15 000 revolutions a minute, about 4 ms mean seek.
#[derive(Debug, Clone)]
pub struct Disk {
    tracks: f64,
    head: u64,
    free: Nanos,
}

/// Start of a track: skew, zones and spared sectors put it anywhere, so it is drawn from the
/// track's number.
fn first_sector(track: u64) -> Nanos {
    // The finalizer of splitmix64.
    let mut x = track.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % REVOLUTION
}

impl Disk {
    /// A disk of `capacity` bytes at rest.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self { tracks: (capacity / TRACK).max(1) as f64, head: 0, free: 0 }
    }

    /// Time for the arm over so many tracks, in nanoseconds.
    fn seek(&self, tracks: u64) -> Nanos {
        if tracks == 0 {
            return 0;
        }
        (SEEK_LEAST + SEEK_REST * (tracks as f64 / self.tracks).min(1.0).sqrt()) as Nanos
    }

    /// Serves `bytes` at `offset`, beginning at `begin`: when it is done.
    pub fn serve(&mut self, begin: Nanos, offset: u64, bytes: u64) -> Nanos {
        let track = offset / TRACK;
        let there = begin + OVERHEAD + self.seek(track.abs_diff(self.head));
        // Where the platter stands then, and how far the first sector still has to come.
        let angle = there % REVOLUTION;
        let sector = offset % TRACK * REVOLUTION / TRACK + first_sector(track);
        let rotation = (sector + REVOLUTION - angle) % REVOLUTION;
        let transfer = bytes * REVOLUTION / TRACK;
        self.head = (offset + bytes) / TRACK;
        there + rotation + transfer
    }

    /// Time at which a request is done that queues behind those before it.
    pub fn complete(&mut self, request: &Request) -> Nanos {
        self.free = self.serve(request.at.max(self.free), request.offset, request.bytes);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_read_takes_seek_and_half_a_turn() {
        let capacity = 300_000_000_000;
        let mut disk = Disk::new(capacity);
        let (mut x, mut now, n) = (1_u64, 0, 20_000);
        for _ in 0..n {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now = disk.serve(now, (x >> 8) % (capacity - 4_096), 4_096);
        }
        let mean = now as f64 / f64::from(n) / 1e6;
        assert!((5.5..7.0).contains(&mean), "{mean} ms");
    }

    #[test]
    fn the_next_sector_is_missed() {
        // Each sequential request loses nearly a revolution, as VERIFY does: 4.6 ms for 64 KiB.
        let mut disk = Disk::new(1 << 38);
        let mut now = 0;
        for i in 0..1_000 {
            now = disk.serve(now, i * 65_536, 65_536);
        }
        let mean = now as f64 / 1_000.0 / 1e6;
        assert!((4.3..5.1).contains(&mean), "{mean} ms");
    }
}

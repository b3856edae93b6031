//! A drive that serves foreground and background requests side by side, under virtual time: the
//! ground of the live pacer's tests.
//!
//! Clients keep so many requests in progress, all the time or by turns. The same seed gives the
//! same foreground with and without background work, so the true slowdown is the difference of the
//! means.

use crate::drive::{Baseline, Drive};
use crate::slowdown::TimeCounts;
use crate::trace::{Op, Request};
use pumice_pacer::{Decision, Kind, Nanos, Pacer};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Clients that each have one request in progress, except while they think or rest.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The drive's model.
    pub drive: Drive,
    /// Number of clients.
    pub clients: u32,
    /// Bytes of a request, at a random place.
    pub bytes: u64,
    /// Mean of the exponential pause between a client's requests.
    pub think: Nanos,
    /// Number of clients that never rest.
    pub steady: u32,
    /// Bytes of a request of the others.
    pub burst_bytes: u64,
    /// For how long the others work and then rest; a rest of 0 is a steady load.
    pub on: Nanos,
    /// See `on`.
    pub off: Nanos,
    /// For how long in all.
    pub span: Nanos,
    /// Of the places and the pauses.
    pub seed: u64,
}

/// Source of background requests.
#[derive(Debug)]
pub enum Background {
    /// Nobody.
    None,
    /// One of so many bytes each so many nanoseconds, or as soon as the last one is done.
    Fixed(u64, Nanos),
    /// The live code.
    Pacer(Box<Pacer>),
}

/// Measurements of a run.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Foreground requests done.
    pub requests: u64,
    /// Their mean response in nanoseconds.
    pub mean: f64,
    /// Their responses.
    pub responses: TimeCounts,
    /// Background bytes.
    pub bytes: u64,
    /// Background bytes by the tenth of a second in which they were done.
    pub by_tenth: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Of a client's request that arrived at a time.
    Done(u32, Nanos),
    Background(u64),
    /// Of a client's request.
    Arrive(u32),
}

const CAPACITY: u64 = 300_000_000_000;

struct Run<'a> {
    load: &'a Load,
    drive: Baseline,
    random: ChaCha8Rng,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    order: u64,
    place: u64,
    wake: Nanos,
    flights: u32,
    next_fixed: Nanos,
    sum: f64,
    seen: Measured,
}

/// Plays a load with background work; the pacer comes back as it was left.
pub fn play(load: &Load, background: &mut Background) -> Measured {
    let mut run = Run {
        load,
        drive: Baseline::new(load.drive, CAPACITY),
        random: ChaCha8Rng::seed_from_u64(load.seed),
        events: BinaryHeap::new(),
        order: 0,
        place: 0,
        wake: Nanos::MAX,
        flights: 0,
        next_fixed: 0,
        sum: 0.0,
        seen: Measured {
            requests: 0,
            mean: 0.0,
            responses: TimeCounts::default(),
            bytes: 0,
            by_tenth: vec![0; (load.span / 100_000_000) as usize + 1],
        },
    };
    if let Background::Pacer(pacer) = background {
        pacer.begin_work(Kind::default(), 1);
    }
    (0..load.clients).for_each(|client| run.arrive_later(client, 0));
    run.ask(0, background);
    loop {
        let next = run.events.peek().map_or(Nanos::MAX, |e| e.0.0);
        let now = next.min(run.wake);
        if now >= load.span {
            break;
        }
        if next <= run.wake
            && let Some(Reverse((_, _, event))) = run.events.pop()
        {
            run.happen(now, event, background);
        }
        // Who comes at the same moment comes first.
        if run.events.peek().is_none_or(|e| e.0.0 > now) {
            run.ask(now, background);
        }
    }
    run.seen.mean = run.sum / run.seen.requests.max(1) as f64;
    run.seen
}

impl Run<'_> {
    fn push(&mut self, at: Nanos, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn bytes(&self, client: u32) -> u64 {
        if client < self.load.steady { self.load.bytes } else { self.load.burst_bytes }
    }

    fn arrive_later(&mut self, client: u32, now: Nanos) {
        let think = -(1.0 - self.uniform()).ln() * self.load.think as f64;
        let mut at = now + think as Nanos;
        let cycle = self.load.on + self.load.off;
        if client >= self.load.steady && self.load.off > 0 && at % cycle >= self.load.on {
            at = at - at % cycle + cycle;
        }
        self.push(at, Event::Arrive(client));
    }

    fn serve(&mut self, at: Nanos, offset: u64, bytes: u64) -> Nanos {
        self.drive.complete(&Request { at, device: 0, op: Op::Read, offset, bytes, response: None })
    }

    fn happen(&mut self, now: Nanos, event: Event, background: &mut Background) {
        match event {
            Event::Arrive(client) => {
                let bytes = self.bytes(client);
                let offset = (self.uniform() * (CAPACITY - bytes) as f64) as u64 & !0xfff;
                if let Background::Pacer(pacer) = background {
                    pacer.foreground_arrived(now);
                }
                let done = self.serve(now, offset, bytes);
                self.push(done, Event::Done(client, now));
            }
            Event::Done(client, arrived) => {
                if let Background::Pacer(pacer) = background {
                    let bytes = self.bytes(client);
                    pacer.foreground_completed(now, arrived, 0, bytes);
                }
                self.seen.requests += 1;
                self.sum += (now - arrived) as f64;
                self.seen.responses.add(now - arrived);
                self.arrive_later(client, now);
            }
            Event::Background(bytes) => {
                if let Background::Pacer(pacer) = background {
                    pacer.background_done(now, bytes);
                }
                self.flights -= 1;
                self.seen.bytes += bytes;
                self.seen.by_tenth[(now / 100_000_000) as usize] += bytes;
            }
        }
    }

    fn start(&mut self, now: Nanos, bytes: u64) {
        let place = self.place;
        self.place = (self.place + bytes) % (CAPACITY - (4 << 20));
        let done = self.serve(now, place, bytes);
        self.flights += 1;
        self.push(done, Event::Background(bytes));
    }

    fn ask(&mut self, now: Nanos, background: &mut Background) {
        self.wake = Nanos::MAX;
        match background {
            Background::None => {}
            Background::Fixed(bytes, every) => {
                if self.flights == 0 && now >= self.next_fixed {
                    self.start(now, *bytes);
                    self.next_fixed = self.next_fixed.max(now.saturating_sub(*every)) + *every;
                } else if self.flights == 0 {
                    self.wake = self.next_fixed;
                }
            }
            Background::Pacer(pacer) => loop {
                match pacer.next(now) {
                    Decision::StartRequest { bytes, .. } => self.start(now, bytes),
                    Decision::WaitUntil(at) => break self.wake = at.max(now + 1),
                    Decision::WaitForEvent => break,
                }
            },
        }
    }
}

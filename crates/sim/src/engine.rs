//! One drive under virtual time: the foreground of a trace, and background requests as a player
//! decides.
//!
//! The drive serves one after the other. A background request in progress is never interrupted: who
//! arrives meanwhile waits for its end, and those behind wait as well, until idle time has absorbed
//! the delay (Lindley's recursion).

use crate::player::{Player, lossless};
use crate::slowdown::Slowdowns;
use pumice_pacer::{Decision, Nanos, ServiceCurve};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A simulation of one drive.
#[derive(Debug, Clone)]
pub struct Engine {
    player: Player,
    curve: ServiceCurve,
    /// From when on background work is done and figures are taken.
    from: Nanos,
    measuring: bool,
    /// Time at which the foreground alone would be done with everything that has arrived.
    alone: Nanos,
    /// Time at which the drive is done with everything that has arrived or been started.
    free: Nanos,
    completions: BinaryHeap<Reverse<(Nanos, Nanos)>>,
    flight: Option<Flight>,
    wake: Nanos,
    now: Nanos,
    figures: Slowdowns,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    done: Nanos,
    bytes: u64,
    /// Time at which the drive would be done without it.
    without: Nanos,
    met: bool,
}

impl Engine {
    /// A drive at rest at time 0. The player sees everything; background work begins at `from`.
    #[must_use]
    pub fn new(player: Player, curve: ServiceCurve, from: Nanos) -> Self {
        let mut engine = Self {
            player,
            curve,
            from,
            measuring: false,
            alone: 0,
            free: 0,
            completions: BinaryHeap::new(),
            flight: None,
            wake: Nanos::MAX,
            now: 0,
            figures: Slowdowns::new(),
        };
        if from == 0 {
            engine.begin();
        }
        engine
    }

    fn begin(&mut self) {
        self.measuring = true;
        match &mut self.player {
            Player::Pacer(pacer) => {
                let goal = *pacer.account().goal();
                pacer.set_goal(goal, self.from);
                pacer.begin_work(pumice_pacer::Kind::default(), 1);
                self.now = self.now.max(self.from);
                self.ask();
            }
            Player::Oracle(oracle) => oracle.open_account(),
            Player::Lossless(..) => {}
        }
    }

    /// A foreground request arrives at `at`, which alone would be done at `done`. Requests come by
    /// growing `at`.
    pub fn request(&mut self, at: Nanos, done: Nanos) {
        if !self.measuring && at >= self.from {
            self.advance(self.from);
            self.begin();
        }
        self.advance(at);
        let over = self.play_known(at);
        let begin = at.max(self.alone);
        let delay = self.free.saturating_sub(begin);
        let mut own = over;
        if let Some(flight) = &mut self.flight
            && !flight.met
        {
            flight.met = true;
            own = delay - delay.min(flight.without.saturating_sub(begin));
        }
        if self.measuring {
            self.figures.request(own, delay);
        }
        self.alone = self.alone.max(done);
        self.free = self.free.max(done + delay);
        match &mut self.player {
            Player::Pacer(pacer) => {
                pacer.foreground_arrived(at);
                self.completions.push(Reverse((done + delay, at)));
                self.now = at;
                if self.flight.is_none() && self.measuring {
                    self.ask();
                }
            }
            Player::Oracle(oracle) => oracle.earn(),
            Player::Lossless(..) => {}
        }
    }

    /// Lets those who know the future fill the idle interval that ends at `at`; how far they reach
    /// past its end.
    fn play_known(&mut self, at: Nanos) -> Nanos {
        let begin = self.free.max(self.from);
        if !self.measuring || begin >= at {
            return 0;
        }
        let (bytes, over) = match &mut self.player {
            Player::Pacer(_) => return 0,
            Player::Lossless(start, curve) => lossless(start, curve, at - begin),
            Player::Oracle(oracle) => oracle.play(at - begin),
        };
        self.figures.background(bytes);
        if over > 0 {
            self.free = at + over;
        }
        over
    }

    /// Goes on to the end of the trace.
    pub fn finish(&mut self, end: Nanos) {
        if !self.measuring && end > self.from {
            self.advance(self.from);
            self.begin();
        }
        self.advance(end);
        self.play_known(end);
        self.figures.span = end.saturating_sub(self.from);
    }

    /// Lets everything happen that happens up to `to`.
    fn advance(&mut self, to: Nanos) {
        loop {
            let completion = self.completions.peek().map_or(Nanos::MAX, |c| c.0.0);
            let flight = self.flight.map_or(Nanos::MAX, |f| f.done);
            let next = completion.min(flight).min(self.wake);
            // What happens at `to` comes before the arrival at `to`, but nothing is started then.
            if next > to || (next == to && completion > to && flight > to) {
                break;
            }
            let Player::Pacer(pacer) = &mut self.player else { break };
            self.now = next;
            if completion == next {
                if let Some(Reverse((done, arrived))) = self.completions.pop() {
                    pacer.foreground_completed(done, arrived, 0, 0);
                }
            } else if let Some(flight) = self.flight.take_if(|f| f.done == next) {
                pacer.background_done(next, flight.bytes);
                self.figures.background(flight.bytes);
            }
            self.wake = Nanos::MAX;
            if self.flight.is_none() && self.measuring && next < to {
                self.ask();
            }
        }
    }

    fn ask(&mut self) {
        let Player::Pacer(pacer) = &mut self.player else { return };
        self.wake = Nanos::MAX;
        match pacer.next(self.now) {
            Decision::StartRequest { bytes, .. } => {
                let without = self.free;
                let done = self.free.max(self.now) + self.curve.time(bytes);
                self.flight = Some(Flight { done, bytes, without, met: false });
                self.free = done;
            }
            Decision::WaitUntil(at) => self.wake = at.max(self.now + 1),
            Decision::WaitForEvent => {}
        }
    }

    /// The slowdowns and the bytes.
    #[must_use]
    pub fn figures(&self) -> &Slowdowns {
        &self.figures
    }

    /// The player.
    #[must_use]
    pub fn player(&self) -> &Player {
        &self.player
    }

    /// Gives the player back.
    #[must_use]
    pub fn into_player(self) -> Player {
        self.player
    }
}

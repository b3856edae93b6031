//! Policies of studies on a pacer: the account holds the goal for those that are tuned, and nothing
//! starves.

use proptest::prelude::*;
use pumice_lab::study::{CFQ, Family, Studied};
use pumice_pacer::{Charge, Config, Decision, Goal, Kind, Pacer, Policy, ServiceCurve};

const MILLI: u64 = 1_000_000;

fn curve() -> ServiceCurve {
    ServiceCurve::new(&[(64 << 10, 4_610_000), (1 << 20, 14_748_000), (4 << 20, 47_537_000)]).expect("grows")
}

struct Drive {
    pacer: Pacer<Studied>,
    now: u64,
    flight: Option<(u64, u64, Kind)>,
    starts: Vec<(u64, u64, Kind)>,
}

impl Drive {
    fn new(config: Config<Studied>) -> Self {
        let mut pacer = Pacer::new(config, 0);
        pacer.begin_work(Kind::default(), 1);
        Self { pacer, now: 0, flight: None, starts: Vec::new() }
    }

    /// Background work until `to`; what is in flight then stays so.
    fn idle_until(&mut self, to: u64) {
        while self.now < to {
            if let Some((done, bytes, _)) = self.flight {
                if done > to {
                    break;
                }
                self.now = done;
                self.flight = None;
                self.pacer.background_done(done, bytes);
                continue;
            }
            match self.pacer.next(self.now) {
                Decision::StartRequest { kind, bytes } => {
                    self.starts.push((self.now, bytes, kind));
                    self.flight = Some((self.now + curve().time(bytes), bytes, kind));
                }
                Decision::WaitUntil(at) => self.now = at.max(self.now + 1).min(to),
                Decision::WaitForEvent => self.now = to,
            }
        }
        self.now = to;
    }

    /// One foreground request of 5 ms at `at`.
    fn foreground(&mut self, at: u64) {
        let at = at.max(self.now);
        self.idle_until(at);
        self.pacer.foreground_arrived(at);
        let begin = match self.flight.take() {
            Some((done, bytes, _)) => {
                self.pacer.background_done(done.max(at), bytes);
                done.max(at)
            }
            None => at,
        };
        self.now = begin + 5 * MILLI;
        self.pacer.foreground_completed(self.now, at, 0, 4_096);
    }
}

fn families() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::Waiting), Just(Family::PredictedWaiting)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_goal_is_held_whatever_the_load_does(
        family in families(),
        goal in 0_u64..4 * MILLI,
        gaps in proptest::collection::vec(prop_oneof![0..20 * MILLI, 0..2_000 * MILLI, 0..60_000 * MILLI], 20..400),
    ) {
        let mut config = Config::new(Goal::mean(goal), Policy::Other(Studied::tuned(family)), curve());
        config.charge = Charge::Collision;
        let mut drive = Drive::new(config);
        let largest = curve().time(4 << 20) as f64;
        for (n, gap) in gaps.iter().enumerate() {
            drive.foreground(drive.now + gap);
            let figures = drive.pacer.figures();
            prop_assert!(figures.slowdown.sum <= (goal * (n as u64 + 1)) as f64 + largest);
            prop_assert!(drive.pacer.account().balance() >= -largest, "never in debt by more than one request");
        }
    }
}

#[test]
fn a_drive_without_foreground_is_used() {
    for studied in [Studied::tuned(Family::Waiting), Studied::fixed(CFQ)] {
        let mut drive = Drive::new(Config::new(Goal::mean(MILLI), Policy::Other(studied.clone()), curve()));
        drive.idle_until(60_000 * MILLI);
        assert!(drive.starts.len() > 1_000, "{studied:?}: {}", drive.starts.len());
    }
}

//! The pacer of one serial drive against arbitrary loads: the goal is held, nothing starves, limits
//! are kept.

use proptest::prelude::*;
use pumice_pacer::{Charge, Config, Decision, Goal, Kind, Pacer, Policy, ServiceCurve, Windows};

const MILLI: u64 = 1_000_000;

fn curve() -> ServiceCurve {
    ServiceCurve::new(&[(64 << 10, 4_610_000), (1 << 20, 14_748_000), (4 << 20, 47_537_000)]).expect("grows")
}

struct Drive {
    pacer: Pacer,
    now: u64,
    flight: Option<(u64, u64, Kind)>,
    starts: Vec<(u64, u64, Kind)>,
}

impl Drive {
    fn new(config: Config) -> Self {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_goal_is_held_whatever_the_load_does(
        goal in 0_u64..4 * MILLI,
        gaps in proptest::collection::vec(prop_oneof![0..20 * MILLI, 0..2_000 * MILLI, 0..60_000 * MILLI], 20..400),
    ) {
        let mut config = Config::new(Goal::mean(goal), Policy::Priced, curve());
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

    #[test]
    fn the_rate_and_the_maximum_are_held(rate in 1_000_000_u64..40_000_000, gap in 100 * MILLI..5_000 * MILLI) {
        let goal = Goal { maximum: Some(20 * MILLI), ..Goal::mean(5 * MILLI) };
        let mut config = Config::new(goal, Policy::Priced, curve());
        config.rate = Some((rate, 1 << 20));
        let mut drive = Drive::new(config);
        (0..60).for_each(|_| drive.foreground(drive.now + gap));
        let bytes: u64 = drive.starts.iter().map(|s| s.1).sum();
        let allowed = rate as f64 * drive.now as f64 / 1e9 + f64::from(2 << 20);
        prop_assert!(bytes as f64 <= allowed, "{bytes} > {allowed}");
        prop_assert!(drive.starts.iter().all(|s| curve().time(s.1) <= 20 * MILLI));
    }
}

#[test]
fn a_drive_without_foreground_is_used() {
    for policy in [Policy::Priced, Policy::BackToBack { bytes: 64 << 10 }] {
        let mut drive = Drive::new(Config::new(Goal::mean(MILLI), policy, curve()));
        drive.idle_until(60_000 * MILLI);
        assert!(drive.starts.len() > 1_000, "{policy:?}: {}", drive.starts.len());
    }
}

#[test]
fn kinds_share_by_weight_and_pause_and_windows_hold() {
    let mut config = Config::new(Goal::mean(MILLI), Policy::BackToBack { bytes: 64 << 10 }, curve());
    config.windows = Windows::daily(&[(0, 100)], 0).expect("a window");
    let mut drive = Drive::new(config);
    let rebuild = Kind::new(3).expect("a kind");
    drive.pacer.begin_work(rebuild, 4);
    drive.idle_until(50_000 * MILLI);
    let of = |drive: &Drive, kind| drive.starts.iter().filter(|s| s.2 == kind).count();
    let (scrub, rebuilt) = (of(&drive, Kind::default()), of(&drive, rebuild));
    assert!(scrub > 1_000 && rebuilt.abs_diff(4 * scrub) <= 4, "{scrub} {rebuilt}");
    drive.pacer.pause();
    let before = drive.starts.len();
    drive.idle_until(60_000 * MILLI);
    assert_eq!(drive.starts.len(), before);
    drive.pacer.resume();
    drive.idle_until(200_000 * MILLI);
    assert!(drive.starts.len() > before);
    assert!(drive.starts.iter().all(|s| s.0 < 100_000 * MILLI), "nothing after the window");
}

#[test]
fn a_debt_does_not_stop_work_for_good() {
    let mut drive = Drive::new(Config::new(Goal::mean(MILLI), Policy::Priced, curve()));
    // Each comes while a background request is in progress.
    while drive.pacer.account().balance() >= 0.0 {
        while drive.flight.is_none() {
            drive.idle_until(drive.now + 100 * MILLI);
        }
        drive.foreground(drive.now + 1);
    }
    let (debt, started) = (-drive.pacer.account().balance(), drive.starts.len());
    let minutes = (debt / MILLI as f64).ceil() as u64 + 1;
    drive.idle_until(drive.now + (minutes - 1) * 60_000 * MILLI);
    assert_eq!(drive.starts.len(), started, "in debt by {debt}");
    drive.idle_until(drive.now + 120_000 * MILLI);
    assert!(drive.starts.len() > started + 1_000);
}

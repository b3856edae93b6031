use super::*;

/// An md in virtual time: a check walks from `sync_min` and pauses at `sync_max`.
struct Model {
    md: Md,
    /// Sectors of a member.
    end: u64,
    /// Blocks that are refused, by member and sector.
    bad: Vec<(String, u64)>,
    /// Orders that it was given, in order.
    told: Vec<Order>,
    /// A member fails when the check has come so far.
    fails_at: Option<u64>,
    /// It takes no orders.
    deaf: bool,
    /// So many orders are refused after each order to end a check.
    busy: usize,
    /// So many are refused from now on.
    refuses: usize,
}

impl Model {
    fn new(members: usize, end: u64) -> Self {
        let errors = (0..members).map(|i| (format!("dev-{i}"), 0)).collect();
        let md = Md {
            runs: true,
            action: SyncAction::Idle,
            degraded: 0,
            sync_min: 0,
            sync_max: None,
            completed: None,
            cache: 256,
            errors,
        };
        Self { md, end, bad: Vec::new(), told: Vec::new(), fails_at: None, deaf: false, busy: 0, refuses: 0 }
    }

    /// Returns whether the order was taken.
    fn tell(&mut self, order: &Order) -> bool {
        self.told.push(order.clone());
        if matches!(order, Order::Limit { .. } | Order::Check) && self.refuses > 0 {
            self.refuses -= 1;
            return false;
        }
        if self.deaf {
            return true;
        }
        match order {
            Order::Limit { min, max } => (self.md.sync_min, self.md.sync_max) = (*min, *max),
            Order::Check => {
                self.md.action = SyncAction::Check;
                self.md.completed = Some(self.md.sync_min);
            }
            Order::Idle => {
                self.md.action = SyncAction::Idle;
                self.md.completed = None;
                self.refuses = self.busy;
            }
            Order::Wait(_) | Order::Done => {}
        }
        true
    }

    /// 8 sectors further.
    fn walk(&mut self) {
        let Some(at) = self.md.completed.filter(|_| self.md.action == SyncAction::Check) else { return };
        let limit = self.md.sync_max.unwrap_or(self.end).min(self.end);
        let to = (at + 8).min(limit);
        for (member, _) in self.bad.extract_if(.., |(_, sector)| (at..to).contains(sector)) {
            *self.md.errors.get_mut(&member).unwrap() += 8;
        }
        self.md.completed = Some(to);
        if self.fails_at.is_some_and(|sector| sector < to) {
            self.md.degraded = 1;
            self.md.action = SyncAction::Other("recover".to_owned());
            self.md.completed = None;
        } else if to == self.end {
            self.md.action = SyncAction::Idle;
            self.md.completed = None;
        }
    }

    fn run(&mut self, healing: &mut Healing, stop_after: usize) {
        let mut now = Duration::ZERO;
        for step in 0..100_000 {
            if step == stop_after {
                healing.stop();
            }
            let order = healing.next(now, &self.md.clone());
            if order == Order::Done {
                return;
            }
            if !self.tell(&order) {
                healing.busy(now);
            }
            now += PAUSE;
            self.walk();
        }
        panic!("it does not end: {:?}", self.told);
    }

    fn is_restored(&self) -> bool {
        (self.md.sync_min, self.md.sync_max) == (0, None) && self.md.action != SyncAction::Check
    }
}

fn task(stripe: u64) -> Task {
    Task { stripe, sectors: stripe * 128..(stripe + 1) * 128, blocks: 1 }
}

#[test]
fn each_stripe_is_checked_alone_and_the_limits_are_restored() {
    let mut model = Model::new(4, 1280);
    model.bad = [3 * 128 + 5, 7 * 128, 9 * 128 + 100, 5 * 128].map(|s| ("dev-1".to_owned(), s)).to_vec();
    let mut healing = Healing::new(vec![task(3), task(7), task(9)], 1280);
    model.run(&mut healing, usize::MAX);
    assert_eq!((healing.healed(), healing.why()), (&[3, 7, 9][..], None));
    assert_eq!(model.bad, [("dev-1".to_owned(), 5 * 128)], "what was not asked for is not touched");
    assert!(model.is_restored());
    let limits: Vec<_> = model.told.iter().filter(|order| matches!(order, Order::Limit { .. })).collect();
    assert_eq!(limits.len(), 4);
}

#[test]
fn a_signal_at_any_moment_leaves_md_as_it_was() {
    for step in 0..120 {
        let mut model = Model::new(4, 1280);
        let mut healing = Healing::new(vec![task(3), task(7)], 1280);
        model.run(&mut healing, step);
        assert!(model.is_restored(), "step {step}: {:?}", model.told);
        assert!(healing.why().is_some() || healing.healed().len() == 2, "step {step}");
    }
}

/// A finding, as a document has it.
fn finding(stripe: u64, verdict: &str, chunk_offset: u64, certainty: &str, members: &[u16]) -> Finding {
    let lost: Vec<_> = members
        .iter()
        .filter(|_| verdict == "unreadable")
        .map(|member| {
            serde_json::json!({
                "member": member, "device": null, "device_offset": null,
                "chunk_offset": chunk_offset, "length": 4096,
            })
        })
        .collect();
    let convicts = serde_json::json!({
        "says": "convicts", "origin": "written", "guard_bits": 16, "mistaken_one_in": 65536,
    });
    let value = serde_json::json!({
        "stripe": stripe, "verdict": verdict,
        "member": if members.len() == 1 { Some(members[0]) } else { None },
        "members": if members.len() == 1 { &[] } else { members },
        "device": null, "device_offset": null, "chunk_offset": chunk_offset, "length": 4096,
        "array_offset": null, "certainty": certainty, "alternatives": [],
        "strength": if certainty == "proven" { "proven" } else { "none" }, "doubts": [],
        "assumes_one_hit": false, "error": null,
        "witness": if certainty == "proven" { Some(convicts) } else { None },
        "lost": lost, "repaired": false, "would_repair": false, "left_alone": null, "unsettled": null,
    });
    serde_json::from_value(value).unwrap()
}

/// md corrects all blocks of a chunk if one is refused: a good block would be rebuilt from another
/// member's damage, which no drive refuses.
#[test]
fn a_stripe_with_damage_that_no_drive_refuses_is_left_alone() {
    const CHUNK: u64 = 65_536;
    let unreadable = finding(3, "unreadable", 8192, "none", &[1]);
    let convicted = finding(3, "member", 8192, "proven", &[1]);
    for refused in [&unreadable, &convicted] {
        assert!(is_refused(refused));
        let plan = Plan::of(std::slice::from_ref(refused), CHUNK, 1);
        assert_eq!((plan.tasks.len(), plan.left.len()), (1, 0), "{refused:?}");
        for (verdict, members) in [
            ("unlocated", &[][..]),
            ("member", &[3]),
            ("parity_p", &[4]),
            ("ambiguous", &[1, 3]),
            ("busy", &[]),
            ("not_asked", &[2]),
        ] {
            let other = finding(3, verdict, 36_864, "none", members);
            assert!(!is_refused(&other));
            let plan = Plan::of(&[refused.clone(), other], CHUNK, 1);
            assert_eq!((plan.tasks.len(), &plan.left[..]), (0, &[(3, Reason::Unsound)][..]), "{verdict}");
        }
        let tag = finding(3, "tag_damaged", 36_864, "none", &[2]);
        let plan = Plan::of(&[refused.clone(), tag], CHUNK, 1);
        assert_eq!((plan.tasks.len(), &plan.left[..]), (0, &[(3, Reason::Tags)][..]));
        // Data without a tag are checked by parity.
        let lost = finding(3, "tag_lost", 36_864, "none", &[2]);
        assert_eq!(Plan::of(&[refused.clone(), lost], CHUNK, 1).tasks.len(), 1);
    }
}

#[test]
fn an_md_that_is_busy_for_a_moment_is_told_again() {
    for busy in 1..8 {
        let mut model = Model::new(4, 1280);
        (model.busy, model.refuses) = (busy, busy);
        model.bad = [3 * 128 + 5, 9 * 128].map(|sector| ("dev-1".to_owned(), sector)).to_vec();
        let mut healing = Healing::new(vec![task(3), task(7), task(9)], 1280);
        model.run(&mut healing, usize::MAX);
        assert_eq!((healing.healed(), healing.why()), (&[3, 7, 9][..], None), "busy {busy}");
        assert!(model.bad.is_empty() && model.is_restored() && healing.is_restored(), "busy {busy}");
        // And a signal meanwhile.
        for step in 0..120 {
            let mut model = Model::new(4, 1280);
            (model.busy, model.refuses) = (busy, busy);
            let mut healing = Healing::new(vec![task(3), task(7)], 1280);
            model.run(&mut healing, step);
            assert!(model.is_restored() && healing.is_restored(), "busy {busy}, step {step}");
        }
    }
}

#[test]
fn an_md_that_stays_busy_is_given_up_and_the_limits_are_said_to_be_left() {
    let mut model = Model::new(4, 1280);
    model.busy = usize::MAX;
    let mut healing = Healing::new(vec![task(3), task(7)], 1280);
    model.run(&mut healing, usize::MAX);
    assert_eq!((healing.healed(), healing.why()), (&[3][..], Some(&Reason::Silent)));
    assert!(!model.is_restored() && !healing.is_restored());
    assert!(model.told.len() < 2500, "it ends within two patiences: {}", model.told.len());
}

#[test]
fn nothing_is_told_to_an_array_that_is_not_fit_for_it() {
    type Spoil = fn(&mut Md);
    let cases: [(Spoil, Reason); 7] = [
        (|md| md.runs = false, Reason::NotRunning),
        (|md| md.action = SyncAction::Check, Reason::AtWork("check".to_owned())),
        (|md| md.action = SyncAction::Other("resync".to_owned()), Reason::AtWork("resync".to_owned())),
        (|md| md.degraded = 1, Reason::Degraded),
        (|md| md.sync_min = 8, Reason::Limited),
        (|md| md.sync_max = Some(64), Reason::Limited),
        (|md| md.cache = 3, Reason::NoRoom("dev-0".to_owned())),
    ];
    for (spoil, why) in cases {
        let mut model = Model::new(4, 1280);
        spoil(&mut model.md);
        let mut healing = Healing::new(vec![task(3)], 1280);
        assert_eq!(healing.next(Duration::ZERO, &model.md), Order::Done);
        assert_eq!((healing.why(), healing.healed()), (Some(&why), &[][..]));
    }
}

#[test]
fn it_stops_before_md_gives_a_member_up() {
    let mut model = Model::new(4, 128 * 200);
    model.bad = (0..200).map(|stripe| ("dev-2".to_owned(), stripe * 128)).collect();
    let mut healing = Healing::new((0..200).map(task).collect(), 128 * 200);
    model.run(&mut healing, usize::MAX);
    assert_eq!(healing.why(), Some(&Reason::NoRoom("dev-2".to_owned())));
    assert_eq!((healing.healed().len(), model.md.errors["dev-2"]), (113, 904));
    assert!(model.is_restored());
    // Spread over the members, and more than one run may.
    let mut model = Model::new(4, 128 * 200);
    model.bad = (0..200).map(|stripe| (format!("dev-{}", stripe % 4), stripe * 128)).collect();
    let mut healing = Healing::new((0..200).map(task).collect(), 128 * 200);
    model.run(&mut healing, usize::MAX);
    assert_eq!((healing.why(), healing.healed().len()), (Some(&Reason::Enough), 128));
}

#[test]
fn a_member_that_fails_meanwhile_and_an_md_that_does_nothing_end_it() {
    let mut model = Model::new(4, 1280);
    model.fails_at = Some(3 * 128 + 40);
    let mut healing = Healing::new(vec![task(3), task(7)], 1280);
    model.run(&mut healing, usize::MAX);
    assert_eq!((healing.why(), healing.healed()), (Some(&Reason::Degraded), &[][..]));
    assert_eq!((model.md.sync_min, model.md.sync_max), (0, None));
    assert!(!model.told.contains(&Order::Idle), "a recovery is not interrupted");
    let mut model = Model::new(4, 1280);
    model.deaf = true;
    let mut healing = Healing::new(vec![task(3)], 1280);
    model.run(&mut healing, usize::MAX);
    assert_eq!(healing.why(), Some(&Reason::Silent));
}

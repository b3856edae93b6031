//! The choice of ways against models of links and cores, in virtual time.

use crate::harness::disk::Random;
use pumice_volume::choice::{Begun, Choice, Class, Way};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
/// The time that trials may take beside 3 % of busy time: the account, and one trial to its end.
const ONCE: u64 = 2400 * MS;

/// The costs of an operation on one way: nanoseconds of the host, of its link, of the nodes, and of
/// round trips in which nobody works.
#[derive(Debug, Clone, Copy)]
struct Cost {
    host: u64,
    link: u64,
    nodes: u64,
    trips: u64,
}

impl Cost {
    const fn of_host(ns: u64) -> Self {
        Self { host: ns, link: 0, nodes: 0, trips: ns / 4 }
    }

    const fn of_link(ns: u64) -> Self {
        Self { host: ns / 10, link: ns, nodes: ns / 10, trips: ns / 4 }
    }

    const fn of_nodes(ns: u64) -> Self {
        Self { host: ns / 10, link: ns / 10, nodes: ns, trips: ns }
    }
}

/// Hosts, links and nodes that serve one operation at a time each, in the order in which it came.
struct Model {
    near: Cost,
    far: Cost,
    bytes: u64,
    /// The times when each is free.
    free: [u64; 3],
    random: Random,
}

impl Model {
    fn new(near: Cost, far: Cost, seed: u64) -> Self {
        Self { near, far, bytes: 4096, free: [0; 3], random: Random(seed) }
    }

    /// The time when an operation ends that begins now. Each cost differs by up to 30 %.
    fn end(&mut self, way: Way, now: u64) -> u64 {
        let Cost { host, link, nodes, trips } = match way {
            Way::Near => self.near,
            Way::Far => self.far,
        };
        let mut at = now;
        for (free, cost) in self.free.iter_mut().zip([host, link, nodes]) {
            let took = cost * (70 + self.random.next(61)) / 100;
            at = at.max(*free) + took;
            *free = at;
        }
        at + trips
    }
}

/// Users of a volume that ask again as soon as they are answered, or after a pause.
struct World {
    choice: Choice,
    class: Class,
    now: u64,
    flights: BinaryHeap<Reverse<(u64, u64)>>,
    begun: Vec<Option<Begun>>,
    /// Nanoseconds between an answer and the next request.
    pause: u64,
    /// The number of the users that ask at all.
    active: u64,
    under_way: [u64; 2],
    /// Nanoseconds in which operations were under way, at all and on each way.
    busy: u64,
    busy_of: [u64; 2],
    done: u64,
}

impl World {
    fn new(users: u64) -> Self {
        Self {
            choice: Choice::new(),
            class: Class::PartialWrites,
            now: 0,
            flights: (0..users).map(|user| Reverse((user, user))).collect(),
            begun: vec![None; users as usize],
            pause: 0,
            active: users,
            under_way: [0; 2],
            busy: 0,
            busy_of: [0; 2],
            done: 0,
        }
    }

    fn way(&self) -> Way {
        self.choice.way(self.class)
    }

    /// Runs until a time. `forced`: all operations go this way. Says what was done.
    fn run(
        &mut self,
        model: &mut Model,
        until: u64,
        forced: Option<Way>,
        mut look: impl FnMut(&Self),
    ) -> u64 {
        let before = self.done;
        while let Some(Reverse((at, user))) = self.flights.pop() {
            if at >= until {
                self.flights.push(Reverse((at, user)));
                break;
            }
            let passed = at.saturating_sub(self.now);
            self.busy += if self.under_way == [0; 2] { 0 } else { passed };
            for (busy, under_way) in self.busy_of.iter_mut().zip(self.under_way) {
                *busy += if under_way == 0 { 0 } else { passed };
            }
            self.now = self.now.max(at);
            self.choice.at(self.now);
            if let Some(begun) = self.begun[user as usize].take() {
                self.choice.end(begun, Some(model.bytes));
                self.under_way[begun.way() as usize] -= 1;
                self.done += model.bytes;
                look(self);
                let pause = self.pause * (50 + model.random.next(101)) / 100;
                self.flights.push(Reverse((at + pause, user)));
                continue;
            }
            if user >= self.active {
                self.flights.push(Reverse((at + MS, user)));
                continue;
            }
            let begun = self.choice.begin(self.class);
            self.under_way[begun.way() as usize] += 1;
            self.begun[user as usize] = Some(begun);
            let end = model.end(forced.unwrap_or(begun.way()), at);
            self.flights.push(Reverse((end, user)));
        }
        self.now = self.now.max(until);
        self.done - before
    }
}

/// The better way is in use after a second (four, where operations are slow), and stays; what is
/// tried costs what the page says.
#[test]
fn the_better_way_is_found_kept_and_costs_little_to_keep() {
    let mut seed = 0;
    for (base, users) in [(100_000, 32), (300_000, 1), (300_000, 4), (3 * MS, 1), (3 * MS, 32)] {
        for (near, far) in [(1, 10), (1, 3), (4, 8), (4, 5), (1, 1), (5, 4), (8, 4), (3, 1), (10, 1)] {
            for of in [Cost::of_host, Cost::of_link, Cost::of_nodes] {
                seed += 1;
                let least = near.min(far);
                found(seed, (of(base * near / least), of(base * far / least)), users, base);
            }
        }
    }
}

fn found(seed: u64, (near, far): (Cost, Cost), users: u64, base: u64) {
    let name = format!("seed {seed}: near {near:?}, far {far:?}, {users} users");
    // The rates of both, alone.
    let [near_rate, far_rate] = [Way::Near, Way::Far].map(|way| {
        let mut world = World::new(users);
        world.run(&mut Model::new(near, far, seed), 2 * S, Some(way), |_| {}) as f64
    });
    let better = if far_rate > near_rate { Way::Far } else { Way::Near };
    let (most, least) = (near_rate.max(far_rate), near_rate.min(far_rate));
    let mut model = Model::new(near, far, seed);
    let mut world = World::new(users);
    let settled = if base < MS { S } else { 4 * S };
    world.run(&mut model, settled, None, |_| {});
    // Samples of few operations may err by a tenth.
    let is_clear = most > 1.2 * least;
    let is_even = most < 1.05 * least;
    let length = if base < MS { 10 * S } else { 60 * S };
    let (busy, busy_of) = (world.busy, world.busy_of);
    let bytes = world.run(&mut model, length, None, |world| {
        assert!(!is_clear || world.way() == better, "{name}: left at {} ms", world.now / MS);
    });
    if is_even {
        assert_eq!(world.way(), Way::Near, "{name}");
    }
    if !is_clear {
        return;
    }
    let worse = match better {
        Way::Near => Way::Far,
        Way::Far => Way::Near,
    } as usize;
    let (busy, tried) = (world.busy - busy, world.busy_of[worse] - busy_of[worse]);
    assert!(tried <= busy * 3 / 100 + ONCE, "{name}: {} of {} ms", tried / MS, busy / MS);
    let possible = most * (length - settled) as f64 / (2 * S) as f64;
    assert!(bytes as f64 > 0.95 * possible, "{name}: {:.3}", bytes as f64 / possible);
}

const HOST: Cost = Cost::of_host(400_000);

/// A host's link that is cut to a tenth in the middle, and is whole again later: the far way was
/// better, is worse, and is better again.
#[test]
fn a_change_that_is_seen_in_the_rate_is_followed_within_four_seconds() {
    for seed in 0..10 {
        let (near, far) = (Cost::of_nodes(500_000), Cost::of_link(200_000));
        let mut model = Model::new(near, far, seed);
        let mut world = World::new(8);
        world.run(&mut model, 40 * S, None, |_| {});
        assert_eq!(world.way(), Way::Far, "seed {seed}");
        model.far = Cost::of_link(2 * MS);
        world.run(&mut model, 44 * S, None, |_| {});
        assert_eq!(world.way(), Way::Near, "seed {seed}");
        world.run(&mut model, 80 * S, None, |world| assert_eq!(world.way(), Way::Near, "seed {seed}"));
    }
}

/// The way that is not used becomes better, which only a trial shows.
#[test]
fn a_change_of_the_other_way_is_found_within_31_seconds() {
    for seed in 0..10 {
        let mut model = Model::new(HOST, Cost::of_link(MS), seed);
        let mut world = World::new(8);
        world.run(&mut model, 90 * S + seed * S, None, |_| {});
        assert_eq!(world.way(), Way::Near, "seed {seed}");
        model.far = Cost::of_link(200_000);
        let until = world.now + 31 * S;
        world.run(&mut model, until, None, |_| {});
        assert_eq!(world.way(), Way::Far, "seed {seed}");
    }
}

/// Near is better with one user, far with many: round trips cost the one, cores of nodes the other.
#[test]
fn another_load_is_judged_anew() {
    for seed in 0..10 {
        let near = Cost { host: 0, link: 0, nodes: 100_000, trips: 100_000 };
        let far = Cost { host: 0, link: 0, nodes: 50_000, trips: 400_000 };
        let mut model = Model::new(near, far, seed);
        let mut world = World::new(32);
        for (turn, active, better) in [(1, 1, Way::Near), (2, 32, Way::Far), (3, 1, Way::Near)] {
            world.active = active;
            world.run(&mut model, turn * 20 * S - 16 * S, None, |_| {});
            world.run(&mut model, turn * 20 * S, None, |world| {
                assert_eq!(world.way(), better, "seed {seed} {active} users");
            });
        }
    }
}

/// As many users as before make no way better than it is, and neither do few of them. Their number
/// changes all the time here, and the ways do not.
#[test]
fn a_load_that_changes_all_the_time_does_not_make_the_worse_way_win() {
    for seed in 0..10 {
        for (near, far, better) in [(200_000, 400_000, Way::Near), (400_000, 200_000, Way::Far)] {
            // What a single user waits for is twice what many have to share.
            let cost = |nodes| Cost { host: 0, link: 0, nodes, trips: nodes };
            let mut model = Model::new(cost(near), cost(far), seed);
            let mut world = World::new(16);
            let mut random = Random(seed);
            let (mut right, mut all) = (0, 0);
            while world.now < 60 * S {
                world.active = 1 + random.next(16);
                let until = world.now + 20 * MS + random.next(300 * MS);
                world.run(&mut model, until, None, |world| {
                    all += 1;
                    right += u64::from(world.way() == better);
                });
            }
            assert!(right * 100 > all * 90, "seed {seed} {better:?}: {right} of {all}");
        }
    }
}

/// One user asks while near is measured, and 32 while far is tried. Far does more then, and is the
/// worse way all the same.
#[test]
fn a_way_that_was_tried_under_more_load_does_not_win_by_that() {
    let cost = |trips| Cost { host: 0, link: 0, nodes: 0, trips };
    for seed in 0..10 {
        let mut model = Model::new(cost(400_000), cost(500_000), seed);
        let mut world = World::new(32);
        world.active = 1;
        while world.busy_of[Way::Far as usize] == 0 {
            let until = world.now + MS;
            world.run(&mut model, until, None, |_| {});
        }
        world.active = 32;
        world.run(&mut model, 30 * S, None, |world| {
            assert_eq!(world.way(), Way::Near, "seed {seed}, {} ms", world.now / MS);
        });
    }
}

/// Too little load to judge is near: few operations, or slow ones.
#[test]
fn too_little_load_is_near() {
    for (cost, pause) in [(200_000, 300 * MS), (200 * MS, 0), (300 * MS, 100 * MS)] {
        let mut model = Model::new(Cost::of_nodes(3 * cost), Cost::of_nodes(cost), 1);
        let mut world = World::new(1);
        world.pause = pause;
        world.run(&mut model, 300 * S, None, |world| {
            assert_eq!(world.way(), Way::Near, "{cost} {pause}");
        });
        assert_eq!(world.busy_of[Way::Far as usize], 0, "{cost} {pause}");
    }
}

/// Far is better. While hardly anybody asks it is near; when many ask it is far again, by the last
/// verdict, without a trial.
#[test]
fn a_class_that_rests_is_near_until_it_is_busy_again() {
    let mut model = Model::new(Cost::of_nodes(600_000), HOST, 1);
    let mut world = World::new(8);
    world.run(&mut model, 4 * S, None, |_| {});
    assert_eq!(world.way(), Way::Far);
    (world.active, world.pause) = (1, 500 * MS);
    world.run(&mut model, 20 * S, None, |_| {});
    let far = world.busy_of[Way::Far as usize];
    world.run(&mut model, 60 * S, None, |_| {});
    assert_eq!(world.busy_of[Way::Far as usize], far, "it goes far although nobody asks");
    (world.active, world.pause) = (8, 0);
    let near = world.busy_of[Way::Near as usize];
    world.run(&mut model, 62 * S, None, |_| {});
    let near = world.busy_of[Way::Near as usize] - near;
    assert!(near < 500 * MS, "{} ms near", near / MS);
    assert_eq!(world.way(), Way::Far);
}

/// The way that is tried stands still for five seconds each time.
#[test]
fn a_way_that_stands_still_costs_no_more_than_is_paid_for() {
    let still = Cost { host: 0, link: 0, nodes: 0, trips: 5 * S };
    let mut model = Model::new(HOST, still, 1);
    let mut world = World::new(8);
    world.run(&mut model, 600 * S, None, |_| {});
    assert_eq!(world.way(), Way::Near);
    let tried = world.busy_of[Way::Far as usize];
    // The last one may not be paid for yet.
    assert!(tried <= world.busy * 3 / 100 + ONCE + 5 * S, "{} of {} ms", tried / MS, world.busy / MS);
    assert!(tried > 5 * S);
}

/// Operations that fail, or that turn to the far way, are no proof of its speed.
#[test]
fn what_does_not_count_decides_nothing() {
    let mut choice = Choice::new();
    for i in 1..20_000 {
        choice.at(i * MS / 2);
        let begun = choice.begin(Class::LostReads);
        choice.at((i + 1) * MS / 2);
        choice.end(begun, None);
    }
    let [_, _, reads] = choice.standings();
    assert_eq!((reads.way, reads.near_rate, reads.far_rate), (Way::Near, None, None));
}

#[test]
fn after_a_change_of_members_nothing_is_known() {
    let mut model = Model::new(Cost::of_nodes(600_000), HOST, 1);
    let mut world = World::new(8);
    world.run(&mut model, 4 * S, None, |_| {});
    assert_eq!(world.way(), Way::Far);
    world.choice.restart();
    let [_, writes, _] = world.choice.standings();
    assert_eq!((writes.way, writes.near_rate, writes.far_rate), (Way::Near, None, None));
    world.run(&mut model, 5 * S, None, |_| {});
    assert_eq!(world.way(), Way::Far);
}

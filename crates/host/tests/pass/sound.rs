//! Acts that a repair must never do: `docs/design/repair.md`, rule by rule.

use crate::world::{Kind, RAID5, RAID6, UUID, World, noise, options, pass};
use pumice_base::units::{Role, StripeIndex};
use pumice_host::finding::{Doubt, Finding, Strength, Verdict};
use pumice_host::pattern::Pattern;
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::{Options, Outcome};
use pumice_host::state::StateFiles;
use pumice_host::{ErrorLimit, Method};
use pumice_parity::gf;
use std::time::Duration;

const LARGE: u64 = 128 << 10;

fn repair_with(world: &World, policy: RepairPolicy, without: &[u16]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let options = Options { repair: Some(policy), method: Some(Method::Stripe), ..options(1) };
    pass(&world.target(1, without), Some(&state), &options)
}

fn repair(world: &World) -> Outcome {
    repair_with(world, RepairPolicy::Strong, &[])
}

fn brief(outcome: &Outcome) -> Vec<(u64, Verdict, bool)> {
    outcome.findings.iter().map(|f| (f.stripe, f.verdict, f.repaired)).collect()
}

impl World {
    fn lose(&self, role: u16, stripe: u64, at: u64, len: u64) {
        let place = self.place(stripe, at);
        self.devices[usize::from(role)].lose(place..place + len);
    }

    /// Noise over some bytes of a chunk: every one becomes another.
    fn scramble(&self, role: u16, stripe: u64, at: u64, len: usize, seed: u64) {
        let mut next = noise(seed);
        for i in 0..len {
            self.damage(Role(role), stripe, at + i as u64, 1, (next() % 255 + 1) as u8);
        }
    }

    fn fill(&self, role: u16, stripe: u64, at: u64, bytes: &[u8]) {
        use pumice_blockdev::BlockDevice;
        let device = &self.devices[usize::from(role)];
        device.write_at(self.place(stripe, at), bytes).unwrap();
        device.flush().unwrap();
    }

    fn bytes(&self, role: u16, stripe: u64) -> Vec<u8> {
        let place = self.place(stripe, 0) as usize;
        let content = self.devices[usize::from(role)].content();
        content[place..place + self.geometry.chunk_bytes() as usize].to_vec()
    }
}

/// R9: a member that belongs to the array and was not named could be the witness. Once md holds it
/// to be missing, the last equation is all that there is.
#[test]
fn the_last_equation_is_not_used_while_a_member_is_merely_not_named() {
    for md_misses_it in [false, true] {
        let world = World::new(RAID6, 4);
        let good = world.bytes(1, 3);
        world.lose(1, 3, 4096, 512);
        if md_misses_it {
            world.fail(&[2]);
        }
        let outcome = repair_with(&world, RepairPolicy::Strong, &[2]);
        assert_eq!(brief(&outcome), [(3, Verdict::Unreadable, md_misses_it)]);
        if md_misses_it {
            assert!(world.bytes(1, 3) == good);
        } else {
            let why = outcome.findings[0].left_alone.as_deref().unwrap_or_default();
            assert!(why.contains("was not named"), "{why}");
            assert!(!world.devices[1].lost_sectors().is_empty(), "nothing was written");
        }
    }
}

/// 17 bad sectors in 17 blocks of one chunk; the rest of it reads well.
fn seventeen(kind: Kind) -> World {
    let world = World::new(Kind { chunk: LARGE, stripes: 4, ..kind }, 6);
    (0..17).for_each(|block| world.lose(1, 0, block * 4096, 512));
    world
}

#[test]
fn only_what_the_drive_refuses_is_unreadable() {
    for method in Method::ALL {
        let outcome = seventeen(RAID6).scrub(1, method, 3);
        let blocks: u64 = outcome.findings.iter().map(|f| f.length).sum();
        let lost: u32 = outcome.findings.iter().flat_map(|f| &f.lost).map(|lost| lost.length).sum();
        assert_eq!((blocks, lost), (17 * 4096, 17 * 512), "{method}");
    }
}

#[test]
fn a_stripe_that_reads_well_is_not_called_unreadable() {
    for method in Method::ALL {
        let world = World::new(Kind { chunk: 64 << 10, stripes: 8, ..RAID6 }, 6);
        world.lose(1, 0, 0, 64 << 10);
        let outcome = world.scrub(3, method, 3);
        assert!(outcome.findings.iter().all(|f| f.stripe == 0), "{method}: {:?}", brief(&outcome));
    }
}

#[test]
fn good_bytes_beside_bad_sectors_are_not_overwritten() {
    let world = seventeen(RAID5);
    let good = world.contents();
    // Silent damage of another member, in a block that the drive with bad sectors reads well.
    world.scramble(3, 0, 20 * 4096, 100, 5);
    let damaged = world.contents();
    let outcome = repair(&world);
    let now = world.contents();
    assert!(now[1] == good[1], "the good bytes of member 1 are as they were");
    assert!(now[3] == damaged[3], "nothing is located in RAID-5");
    assert!(brief(&outcome).contains(&(0, Verdict::Unlocated, false)), "{:?}", brief(&outcome));
    assert!(brief(&outcome).contains(&(0, Verdict::Unreadable, true)), "{:?}", brief(&outcome));
}

#[test]
fn a_sector_that_reads_again_is_a_witness_and_is_not_rewritten() {
    for reads in [1, 2, 3, 5] {
        let world = World::new(RAID5, 6);
        let place = world.place(4, 4096);
        world.scramble(3, 4, 4096 + 100, 60, 5);
        let damaged = world.contents();
        world.devices[1].lose_for(place..place + 512, reads);
        let outcome = repair(&world);
        assert!(world.contents() == damaged, "{reads}: every byte that reads is as it was");
        assert!(outcome.findings.iter().all(|f| !f.repaired), "{reads}: {:?}", brief(&outcome));
        let unlocated = outcome.findings.iter().any(|f| f.verdict == Verdict::Unlocated);
        assert!(unlocated, "{reads}: the silent damage is told: {:?}", brief(&outcome));
    }
    // And with nothing else wrong, it is no finding at all.
    let world = World::new(RAID5, 6);
    let place = world.place(4, 4096);
    // Refused once to the node's first read, and once to its second.
    world.devices[1].lose_for(place..place + 512, 2);
    let outcome = world.scrub(1, Method::Stripe, 1);
    assert!(outcome.findings.is_empty());
    assert_eq!(outcome.read_again.get(&Role(1)), Some(&1));
}

/// The rest of the block is the witness where no equation is left: one lost sector on each of two
/// members, and silent damage of a third in another sector of the same block.
#[test]
fn lost_sectors_are_not_rebuilt_from_a_member_that_is_damaged_beside_them() {
    let world = World::new(RAID6, 6);
    world.scramble(0, 7, 1000, 300, 9);
    let before = world.contents();
    world.lose(1, 7, 0, 512);
    world.lose(2, 7, 0, 512);
    let outcome = repair(&world);
    assert!(world.contents() == before, "nothing is written: {:?}", brief(&outcome));
    // Different sectors: each lacks one member, and an equation vouches for each.
    let world = World::new(RAID6, 6);
    let good = world.contents();
    world.scramble(0, 7, 1000, 300, 9);
    world.lose(1, 7, 0, 512);
    world.lose(2, 7, 2048, 512);
    repair(&world);
    let now = world.contents();
    assert!(now[1] == good[1] && now[2] == good[2], "no good byte of 1 or 2 changed");
    // The last equation of a degraded array.
    let world = World::new(RAID6, 6);
    world.scramble(0, 7, 1000, 300, 9);
    world.fail(&[4]);
    let before = world.contents();
    world.lose(1, 7, 0, 512);
    repair_with(&world, RepairPolicy::Strong, &[4]);
    assert!(world.contents() == before);
}

#[test]
fn sectors_lost_on_three_members_of_one_block_are_mended_sector_by_sector() {
    let world = World::new(RAID6, 6);
    let good = world.contents();
    for (role, at) in [(0, 0), (1, 512), (2, 1024), (3, 3584)] {
        world.lose(role, 7, at, 512);
    }
    let outcome = repair(&world);
    assert_eq!(brief(&outcome), [(7, Verdict::Unreadable, true)]);
    assert_eq!(outcome.findings[0].members, [0, 1, 2, 3]);
    assert_eq!(outcome.findings[0].strength, Strength::Proven);
    assert!(world.contents() == good);
    assert!(world.devices.iter().all(|device| device.lost_sectors().is_empty()));
}

/// Only lost sectors are written: the counters of the device say so.
#[test]
fn a_repair_writes_lost_sectors_alone() {
    let world = World::new(RAID6, 6);
    world.lose(1, 7, 512, 1024);
    let outcome = repair(&world);
    assert_eq!(outcome.ledger.media_written, 1024);
    assert_eq!(brief(&outcome), [(7, Verdict::Unreadable, true)]);
}

#[test]
fn what_was_not_asked_for_is_neither_lost_nor_repaired() {
    let world = World::new(RAID6, 6);
    let before = world.contents();
    world.lose(1, 7, 0, 1024);
    world.scramble(3, 7, 8192, 300, 5);
    let damaged = world.contents();
    assert!(before != damaged);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    for limit in [
        ErrorLimit { refusals: 0, ..ErrorLimit::default() },
        ErrorLimit { time: Duration::ZERO, ..ErrorLimit::default() },
    ] {
        let target = world.target(1, &[]).with_error_limit(limit);
        let options = Options { repair: Some(RepairPolicy::Strong), ..options(1) };
        let outcome = pass(&target, Some(&state), &options);
        assert!(!outcome.is_complete());
        assert!(brief(&outcome).contains(&(7, Verdict::NotAsked, false)), "{:?}", brief(&outcome));
        assert!(outcome.findings.iter().all(|f| f.verdict != Verdict::Unreadable));
        assert!(world.contents() == damaged, "nothing is repaired in that stripe");
        assert!(!world.devices[1].lost_sectors().is_empty());
    }
}

fn only(outcome: &Outcome) -> &Finding {
    assert_eq!(outcome.findings.len(), 1, "{:?}", brief(outcome));
    &outcome.findings[0]
}

#[test]
fn noise_on_one_member_is_strong_and_is_repaired() {
    for role in 0..6 {
        for len in [1, 8, 9, 300, 16384] {
            let world = World::new(RAID6, 6);
            let good = world.contents();
            world.scramble(role, 3, 0, len, u64::from(role) + 7);
            let outcome = repair(&world);
            let finding = only(&outcome);
            assert_eq!((finding.strength, finding.repaired), (Strength::Strong, true), "{role} {len}");
            assert_eq!(finding.assumes_one_hit, len == 1, "{role} {len}: {finding:?}");
            assert!(world.contents() == good);
        }
    }
}

/// Asserts that a verdict that is not strong is reported with its doubt, and that nothing was
/// written.
fn left(world: &World, before: &[Vec<u8>], doubt: Doubt) -> Outcome {
    let outcome = repair(world);
    assert!(world.contents() == before, "nothing is written: {:?}", brief(&outcome));
    let named: Vec<&Finding> = outcome.findings.iter().filter(|f| f.names_a_member()).collect();
    assert!(!named.is_empty(), "{:?}", brief(&outcome));
    for finding in named {
        assert!(finding.doubts.contains(&doubt), "{finding:?}");
        assert_eq!(finding.strength, Strength::Weak);
        assert!(finding.left_alone.is_some());
    }
    outcome
}

#[test]
fn few_values_are_weak() {
    let world = World::new(RAID6, 6);
    world.damage(Role(2), 3, 100, 300, 0x5A);
    left(&world, &world.contents(), Doubt::FewValues);
    // Small damage is weak if it is not alone in its stripe.
    let world = World::new(RAID6, 6);
    world.damage(Role(2), 3, 100, 1, 0x5A);
    world.damage(Role(1), 3, 9000, 1, 0x5A);
    left(&world, &world.contents(), Doubt::FewValues);
}

#[test]
fn both_parities_filled_alike_do_not_accuse_the_data() {
    let world = World::new(RAID6, 6);
    let map = world.geometry.stripe(StripeIndex(3));
    let slot0 = map.exponents.iter().position(|e| *e == 0).unwrap();
    // Only slot 0 holds data.
    let data = world.bytes(map.data[slot0].0, 3);
    for (slot, role) in map.data.iter().enumerate() {
        if slot != slot0 {
            world.fill(role.0, 3, 0, &vec![0; data.len()]);
        }
    }
    for parity in [map.p, map.q.unwrap()] {
        world.fill(parity.0, 3, 0, &data);
    }
    assert!(world.scrub(1, Method::Stripe, 1).findings.is_empty());
    for parity in [map.p, map.q.unwrap()] {
        world.fill(parity.0, 3, 4096, &[0xFF; 4096]);
    }
    let outcome = left(&world, &world.contents(), Doubt::Rival);
    let finding = only(&outcome);
    assert_eq!(finding.member, Some(map.data[slot0].0), "parity accuses the data");
    let both = vec![map.p.0.min(map.q.unwrap().0), map.p.0.max(map.q.unwrap().0)];
    assert!(finding.alternatives.iter().any(|a| a.members == both && a.reason.contains("constant")));
}

#[test]
fn members_with_exchanged_data_are_named_and_left_alone() {
    let world = World::new(RAID6, 6);
    for stripe in 0..world.geometry.stripes() {
        let (a, b) = (world.bytes(1, stripe), world.bytes(2, stripe));
        world.fill(1, stripe, 0, &b);
        world.fill(2, stripe, 0, &a);
    }
    let before = world.contents();
    let outcome = repair(&world);
    assert!(world.contents() == before, "nothing is written");
    assert_eq!(outcome.findings.len() as u64, world.geometry.stripes());
    for finding in &outcome.findings {
        let exchange =
            |a: &pumice_host::finding::Alternative| a.members == [1, 2] && a.reason.contains("exchanged");
        assert!(finding.alternatives.iter().any(exchange), "{finding:?}");
    }
}

/// P does not notice exchanges of data, in whatever order: Q alone seems damaged. One stripe, so
/// that no pattern over the pass protects Q.
#[test]
fn exchanges_among_three_and_four_members_are_named_and_left_alone() {
    for ring in [true, false] {
        let world = World::new(RAID6, 6);
        let stripe = 3;
        let data: Vec<u16> = world.geometry.stripe(StripeIndex(stripe)).data.iter().map(|r| r.0).collect();
        let [a, b, c, d] = data[..4] else { panic!("four data members") };
        let now = |role| world.bytes(role, stripe);
        let (of_a, of_b, of_c, of_d) = (now(a), now(b), now(c), now(d));
        let new = match ring {
            true => vec![(a, of_b), (b, of_c), (c, of_a)],
            false => vec![(a, of_b), (b, of_a), (c, of_d), (d, of_c)],
        };
        new.iter().for_each(|(role, bytes)| world.fill(*role, stripe, 0, bytes));
        let outcome = left(&world, &world.contents(), Doubt::Rival);
        let mut members: Vec<u16> = new.iter().map(|(role, _)| *role).collect();
        members.sort_unstable();
        for finding in &outcome.findings {
            assert_eq!(finding.verdict, Verdict::Q);
            assert!(finding.alternatives.iter().any(|a| a.members == members), "{finding:?}");
        }
    }
}

#[test]
fn damage_that_was_overwritten_is_always_listed() {
    let world = World::new(RAID6, 6);
    world.scramble(2, 3, 100, 300, 5);
    let outcome = world.scrub(1, Method::Stripe, 1);
    let map = world.geometry.stripe(StripeIndex(3));
    let finding = only(&outcome);
    if finding.verdict == Verdict::Member {
        let both = vec![map.p.0, map.q.unwrap().0];
        assert!(finding.alternatives.iter().any(|a| a.members == both));
    }
}

#[test]
fn a_pattern_over_the_pass_takes_the_strength_and_is_told() {
    // The same bytes of one member in eight stripes.
    let world = World::new(RAID6, 6);
    (0..8).for_each(|stripe| world.scramble(2, stripe, 4096, 200, stripe + 1));
    let outcome = left(&world, &world.contents(), Doubt::Pattern);
    assert!(matches!(outcome.patterns[..], [Pattern::Place { member: 2, chunk_offset: 4096, .. }]));
    // Q on three members: half of what was found.
    let world = World::new(RAID6, 6);
    for stripe in 0..4 {
        let q = world.geometry.stripe(StripeIndex(stripe)).q.unwrap();
        world.scramble(q.0, stripe, 100 * stripe, 200, stripe + 1);
    }
    let outcome = left(&world, &world.contents(), Doubt::Pattern);
    assert!(matches!(outcome.patterns[..], [Pattern::ParityQ { .. }]), "{:?}", outcome.patterns);
    // A fill with a period.
    let world = World::new(RAID6, 6);
    for stripe in 0..8 {
        for i in 0..64 {
            world.damage(Role((stripe % 6) as u16), stripe, 1000 * stripe + i, 1, (i % 8) as u8 * 3 + 1);
        }
    }
    let outcome = left(&world, &world.contents(), Doubt::Pattern);
    assert!(outcome.patterns.contains(&Pattern::Period { period: 8, findings: 8 }), "{:?}", outcome.patterns);
}

#[test]
fn an_array_that_is_inconsistent_as_a_whole_is_told() {
    // Old contents on one member, which one parity cannot name.
    let scrubbed = |kind: Kind, stripes: u64| {
        let world = World::new(kind, 6);
        (0..stripes).for_each(|stripe| world.scramble(1, stripe, 64 * stripe, 4000, stripe + 1));
        world.scrub(1, Method::Stripe, 1)
    };
    let outcome = scrubbed(RAID5, 19);
    let whole = Pattern::Everywhere { findings: outcome.findings.len(), stripes: 19, checked: 20 };
    assert_eq!(outcome.patterns, [whole]);
    assert_eq!(scrubbed(RAID5, 17).patterns, [], "three stripes of twenty are right");
    assert_eq!(scrubbed(RAID6, 20).patterns, [], "one member explains it");
}

#[test]
fn damages_by_chance_are_no_pattern() {
    let world = World::new(Kind { stripes: 60, ..RAID6 }, 6);
    let good = world.contents();
    let mut next = noise(31);
    for stripe in 0..60 {
        let len = 4 + next() % 400;
        let at = next() % (16384 - len);
        world.scramble((next() % 6) as u16, stripe, at, len as usize, next());
    }
    let outcome = repair(&world);
    assert_eq!(outcome.patterns, []);
    assert!(outcome.findings.iter().all(|f| f.repaired), "{:?}", brief(&outcome));
    assert!(world.contents() == good);
}

#[test]
fn policies_write_what_they_say() {
    let damaged = || {
        let world = World::new(RAID6, 6);
        let data = world.geometry.stripe(StripeIndex(3)).data[1];
        world.damage(data, 3, 100, 300, 0x5A);
        world
    };
    let good = World::new(RAID6, 6).contents();
    let (world, before) = (damaged(), damaged().contents());
    for policy in [RepairPolicy::None, RepairPolicy::Strong] {
        repair_with(&world, policy, &[]);
        assert!(world.contents() == before, "{policy:?}");
    }
    repair_with(&world, RepairPolicy::Likely, &[]);
    assert!(world.contents() == good);
    let world = damaged();
    repair_with(&world, RepairPolicy::Parity, &[]);
    assert!(world.contents() != good && world.contents() != before);
    assert!(world.scrub(1, Method::Stripe, 1).findings.is_empty());
}

#[test]
fn a_dry_run_says_what_a_repair_would_do_and_writes_nothing() {
    let world = World::new(RAID6, 6);
    world.scramble(2, 3, 100, 300, 5);
    world.damage(Role(1), 5, 100, 300, 0x5A);
    world.lose(4, 8, 0, 512);
    let before = world.contents();
    let writes: Vec<u64> = world.devices.iter().map(|device| device.counts().writes).collect();
    let options = Options { repair: Some(RepairPolicy::Strong), dry_run: true, ..options(1) };
    let outcome = pass(&world.target(1, &[]), None, &options);
    let would: Vec<(u64, bool, bool)> =
        outcome.findings.iter().map(|f| (f.stripe, f.would_repair, f.repaired)).collect();
    assert_eq!(would, [(3, true, false), (5, false, false), (8, true, false)]);
    assert!(world.contents() == before);
    let now: Vec<u64> = world.devices.iter().map(|device| device.counts().writes).collect();
    assert_eq!(now, writes);
}

/// The chance of rule R12, counted: all pairs of errors of one byte in two members of a small array
/// that look like a third member. The design names 15,300 of 975,375 for 4+2.
#[test]
fn one_byte_errors_of_two_members_that_look_like_a_third() {
    let k = 4;
    let column = |c: usize| {
        if c < k {
            (1, gf::exp(c))
        } else if c == k {
            (1, 0)
        } else {
            (0, 1)
        }
    };
    let (mut alias, mut all) = (0, 0);
    for i in 0..k + 2 {
        for j in i + 1..k + 2 {
            for e in 1..=255_u8 {
                for f in 1..=255_u8 {
                    let (a, b) = (column(i), column(j));
                    let s = (gf::mul(a.0, e) ^ gf::mul(b.0, f), gf::mul(a.1, e) ^ gf::mul(b.1, f));
                    let third = (0..k + 2).any(|m| {
                        let h = column(m);
                        (s.0 != 0 || s.1 != 0) && gf::mul(h.0, s.1) == gf::mul(h.1, s.0)
                    });
                    all += 1;
                    alias += u32::from(third);
                }
            }
        }
    }
    assert_eq!((alias, all), (15_300, 975_375));
}

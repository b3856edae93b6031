//! Damage of every kind, in every layout, by every method.

use crate::world::{Kind, RAID5, RAID6, UUID, World, noise, options, pass};
use pumice_base::units::{Role, StripeIndex};
use pumice_host::Method;
use pumice_host::finding::{Certainty, Verdict};
use pumice_host::pass::StopReason;
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::Options;
use pumice_host::state::StateFiles;
use pumice_parity::gf;
use pumice_raid::layout::{Layout, Level};

fn kinds() -> Vec<Kind> {
    let mut out = vec![Kind { level: Level::Raid4, layout: None, disks: 5, ..RAID6 }];
    for layout in Layout::ALL {
        for level in [Level::Raid5, Level::Raid6] {
            if layout.is_of(level) {
                out.push(Kind { level, layout: Some(layout), disks: 6, chunk: 8192, stripes: 14, ..RAID6 });
            }
        }
    }
    out
}

#[test]
fn one_damaged_place_is_found_and_located_in_every_layout_by_every_method() {
    let mut next = noise(5);
    for kind in kinds() {
        for method in Method::ALL {
            let world = World::new(kind, 3);
            let role = Role((next() % u64::from(kind.disks)) as u16);
            let stripe = next() % kind.stripes;
            let at = next() % (kind.chunk - 100);
            let len = 1 + (next() % 100) as usize;
            world.damage(role, stripe, at, len, 0x41);
            let nodes = 1 + (next() % 3) as usize;
            let outcome = world.scrub(nodes, method, next());
            let context = format!("{kind:?} {method} {nodes} nodes, {role} stripe {stripe} at {at}+{len}");
            let map = world.geometry.stripe(StripeIndex(stripe));
            assert!(outcome.findings.iter().all(|f| f.stripe == stripe), "{context}");
            let first = &outcome.findings[0];
            let last = outcome.findings.last().unwrap();
            let end = last.chunk_offset + last.length;
            assert_eq!((first.chunk_offset, end), (at, at + len as u64), "{context}");
            assert_eq!(outcome.findings.len(), 1, "{context}: equal adjacent blocks are one");
            if kind.level != Level::Raid6 {
                assert_eq!((first.verdict, first.member), (Verdict::Unlocated, None), "{context}");
                continue;
            }
            let verdict = match role {
                role if role == map.p => Verdict::P,
                role if Some(role) == map.q => Verdict::Q,
                _ => Verdict::Member,
            };
            assert_eq!((first.verdict, first.member), (verdict, Some(role.0)), "{context}");
            assert_eq!(first.device_offset, Some(world.place(stripe, at)), "{context}");
            let array = world.geometry.array_offset(StripeIndex(stripe), role, at);
            assert_eq!(first.array_offset, array, "{context}");
            assert_eq!(first.certainty, Certainty::Likely, "{context}: parity never proves");
            assert!(!first.alternatives.is_empty(), "{context}");
        }
    }
}

#[test]
fn the_member_that_the_naive_formula_is_blind_to_is_found() {
    // Weights (1, 1) give slot 0 the coefficient 1 + g^0 = 0: its damage vanishes from the sum.
    assert_eq!(1 ^ gf::exp(0), 0);
    for method in Method::ALL {
        let world = World::new(RAID6, 4);
        let map = world.geometry.stripe(StripeIndex(6));
        let slot = map.exponents.iter().position(|e| *e == 0).unwrap();
        world.damage(map.data[slot], 6, 5000, 1, 0x80);
        let outcome = world.scrub(3, method, 9);
        assert_eq!(outcome.findings.len(), 1, "{method}");
        assert_eq!(outcome.findings[0].member, Some(map.data[slot].0), "{method}");
    }
}

#[test]
fn identical_damage_in_two_stripes_of_a_batch_is_found() {
    for kind in [RAID5, RAID6] {
        for method in Method::ALL {
            for nodes in [1, 3] {
                let world = World::new(kind, 4);
                // The same bytes at the same place of the same member: a plain sum over stripes is
                // zero again.
                world.damage(Role(2), 1, 700, 512, 0x3C);
                world.damage(Role(2), 5, 700, 512, 0x3C);
                let outcome = world.scrub(nodes, method, 11);
                let stripes: Vec<u64> = outcome.findings.iter().map(|f| f.stripe).collect();
                assert_eq!(stripes, [1, 5], "{kind:?} {method} {nodes}");
            }
        }
    }
}

#[test]
fn many_bad_stripes_of_a_batch_are_all_found() {
    for method in Method::ALL {
        let world = World::new(RAID6, 4);
        for stripe in 0..20 {
            world.damage(Role((stripe % 6) as u16), stripe, 100 * stripe, 3, 1);
        }
        let outcome = world.scrub(3, method, 12);
        let stripes: Vec<u64> = outcome.findings.iter().map(|f| f.stripe).collect();
        assert_eq!(stripes, (0..20).collect::<Vec<_>>(), "{method}");
    }
}

#[test]
fn good_data_over_old_damage_is_never_proven() {
    // Damaged by e, then overwritten by read-modify-write: the data is good, P and Q are wrong by
    // (e, g^j e).
    let world = World::new(RAID6, 4);
    let map = world.geometry.stripe(StripeIndex(3));
    let e = 0x5A;
    world.damage(map.p, 3, 200, 1, e);
    world.damage(map.q.unwrap(), 3, 200, 1, gf::mul(gf::exp(usize::from(map.exponents[1])), e));
    // P and Q hit by the same bytes: looks like slot 0.
    world.damage(map.p, 3, 9000, 1, e);
    world.damage(map.q.unwrap(), 3, 9000, 1, e);
    let outcome = world.scrub(1, Method::Stripe, 1);
    assert_eq!(outcome.findings.len(), 2);
    let slot0 = map.exponents.iter().position(|x| *x == 0).unwrap();
    for (finding, suspect) in outcome.findings.iter().zip([map.data[1], map.data[slot0]]) {
        assert_eq!((finding.verdict, finding.member), (Verdict::Member, Some(suspect.0)));
        assert_eq!(finding.certainty, Certainty::Likely);
        let both = vec![map.p.0, map.q.unwrap().0];
        assert!(finding.alternatives.iter().any(|a| a.verdict == Verdict::Several && a.members == both));
    }
}

#[test]
fn two_members_in_one_block_are_ambiguous_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(RAID6, 4);
    world.damage(Role(0), 8, 4096, 200, 0x11);
    world.damage(Role(1), 8, 4196, 300, 0x22);
    let before = world.contents();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let options = Options { repair: Some(RepairPolicy::Strong), ..options(1) };
    let outcome = pass(&world.target(1, &[]), Some(&state), &options);
    assert_eq!(outcome.findings[0].verdict, Verdict::Ambiguous);
    assert!(!outcome.findings[0].repaired);
    assert_eq!(world.contents(), before, "nothing is written on a guess");
}

#[test]
fn repair_brings_every_byte_back() {
    for policy in [RepairPolicy::Likely, RepairPolicy::Parity] {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(RAID6, 4);
        let good = world.contents();
        world.damage(Role(0), 0, 0, 16384, 0x99);
        world.damage(Role(3), 7, 511, 2, 1);
        world.damage(Role(4), 7, 9000, 4000, 2);
        let damaged = world.contents();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let options = Options { repair: Some(policy), ..options(1) };
        let outcome = pass(&world.target(3, &[]), Some(&state), &options);
        assert_eq!(outcome.findings.len(), 3);
        assert!(outcome.findings.iter().all(|f| f.repaired), "{policy:?} {:?}", outcome.findings);
        assert!(!state.journal_path().exists());
        assert!(world.scrub(1, Method::Host, 2).findings.is_empty());
        if policy == RepairPolicy::Likely {
            assert_eq!(world.contents(), good);
        } else {
            assert_ne!(world.contents(), good, "md's way makes damaged data lasting");
            assert_ne!(world.contents(), damaged);
        }
    }
}

#[test]
fn raid6_without_a_member_is_scrubbed_for_what_remains() {
    for missing in 0..6 {
        for method in Method::ALL {
            let world = World::new(RAID6, 4);
            let role = Role((missing + 1) % 6);
            world.damage(role, 9, 5000, 10, 3);
            let options = Options { method: Some(method), ..options(1) };
            let outcome = pass(&world.target(2, &[missing]), None, &options);
            assert_eq!(outcome.findings.len(), 1, "without {missing}, {method}");
            let finding = &outcome.findings[0];
            assert_eq!((finding.verdict, finding.stripe), (Verdict::Unlocated, 9));
            assert_eq!((finding.chunk_offset, finding.length), (5000, 10));
        }
    }
}

/// Local memory that holds what the first look at a batch takes, and not what a closer one likes to
/// have, on the collector or on another node.
#[test]
fn damage_is_found_with_little_local_memory() {
    let chunk = RAID6.chunk;
    for memory in [vec![3 * chunk], vec![32 << 20, chunk]] {
        for method in Method::ALL {
            let mut world = World::new(RAID6, 6);
            world.memory_bytes.clone_from(&memory);
            // Damage of a whole chunk: no narrower window will do.
            world.damage(Role(1), 2, 0, chunk as usize, 0x21);
            world.damage(Role(4), 13, 0, chunk as usize, 0x42);
            let outcome = world.scrub(3, method, 5);
            let stripes: Vec<u64> = outcome.findings.iter().map(|finding| finding.stripe).collect();
            assert_eq!((&outcome.stopped, stripes), (&None, vec![2, 13]), "{method} {memory:?}");
        }
        let mut world = World::new(RAID6, 6);
        world.memory_bytes = memory.iter().map(|bytes| bytes - 512).collect();
        for method in [Method::Stripe, Method::Aggregate] {
            let outcome = world.scrub(3, method, 5);
            let Some(StopReason::Failed(why)) = &outcome.stopped else { panic!("{method}: {outcome:?}") };
            assert!(why.contains("bytes of local memory"), "{why}");
        }
    }
}

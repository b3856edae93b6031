//! Sectors that a drive does not give back.

use crate::world::{RAID5, RAID6, UUID, World, options, pass};
use pumice_base::units::Role;
use pumice_host::Method;
use pumice_host::finding::{Certainty, Verdict};
use pumice_host::pass::StopReason;
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::Options;
use pumice_host::state::StateFiles;

#[test]
fn an_unreadable_sector_is_a_finding_by_every_method_and_hides_nothing_else() {
    for kind in [RAID5, RAID6] {
        for method in Method::ALL {
            for nodes in [1, 3] {
                let world = World::new(kind, 6);
                let place = world.place(4, 4096);
                world.devices[1].lose(place..place + 512);
                world.damage(Role(2), 5, 0, 1, 1);
                let outcome = world.scrub(nodes, method, 3);
                let context = format!("{kind:?} {method} {nodes}");
                let found: Vec<(u64, Verdict)> =
                    outcome.findings.iter().map(|f| (f.stripe, f.verdict)).collect();
                let other = if kind.disks == 5 { Verdict::Unlocated } else { outcome.findings[1].verdict };
                assert_eq!(found, [(4, Verdict::Unreadable), (5, other)], "{context}");
                let finding = &outcome.findings[0];
                assert_eq!((finding.member, finding.certainty), (Some(1), Certainty::Proven), "{context}");
                assert_eq!((finding.chunk_offset, finding.length), (4096, 4096), "{context}");
                assert_eq!(outcome.stripes_checked, 20, "{context}");
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_rebuilt_from_the_others() {
    for kind in [RAID5, RAID6] {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(kind, 6);
        let good = world.contents();
        for (member, stripe) in [(1, 4), (3, 11)] {
            let place = world.place(stripe, 8192);
            world.devices[member].lose(place..place + 8192);
        }
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let options = Options { repair: Some(RepairPolicy::Strong), ..options(1) };
        let outcome = pass(&world.target(2, &[]), Some(&state), &options);
        assert_eq!(outcome.findings.len(), 2, "{kind:?}");
        assert!(outcome.findings.iter().all(|f| f.repaired), "{kind:?} {:?}", outcome.findings);
        assert_eq!(world.contents(), good, "{kind:?}");
        assert!(world.scrub(1, Method::Host, 2).findings.is_empty(), "{kind:?}: readable again");
    }
}

#[test]
fn two_lost_in_one_block_of_raid6_come_back_and_of_raid5_do_not() {
    for kind in [RAID5, RAID6] {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(kind, 6);
        for member in [0, 2] {
            let place = world.place(7, 0);
            world.devices[member].lose(place..place + 512);
        }
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let options = Options { repair: Some(RepairPolicy::Strong), ..options(1) };
        let outcome = pass(&world.target(2, &[]), Some(&state), &options);
        assert_eq!(outcome.findings.len(), 1, "{kind:?}");
        assert_eq!(outcome.findings[0].members, [0, 2], "{kind:?}");
        assert_eq!(outcome.findings[0].repaired, kind.disks == 6, "{kind:?}");
    }
}

#[test]
fn damage_beside_an_unreadable_sector_is_seen_and_stops_a_rebuild_on_sand() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(RAID6, 6);
    let place = world.place(7, 0);
    world.devices[0].lose(place..place + 512);
    world.damage(Role(3), 7, 100, 50, 5);
    let before = world.contents();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let options = Options { repair: Some(RepairPolicy::Strong), ..options(1) };
    let outcome = pass(&world.target(1, &[]), Some(&state), &options);
    let verdicts: Vec<Verdict> = outcome.findings.iter().map(|f| f.verdict).collect();
    assert!(
        verdicts.contains(&Verdict::Unreadable) && verdicts.contains(&Verdict::Unlocated),
        "{verdicts:?}"
    );
    assert!(outcome.findings.iter().all(|f| !f.repaired));
    assert_eq!(world.contents(), before);
}

#[test]
fn adjacent_damage_is_one_finding_where_the_stripe_is_read_block_by_block_too() {
    let world = World::new(RAID6, 6);
    let place = world.place(7, 0);
    world.devices[0].lose(place..place + 512);
    // The rest of the chunk, in three blocks.
    world.damage(Role(3), 7, 4096, 12_288, 5);
    let outcome = world.scrub(1, Method::Stripe, 3);
    let seen: Vec<(Verdict, u64, u64)> =
        outcome.findings.iter().map(|f| (f.verdict, f.chunk_offset, f.length)).collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!((seen[0], (seen[1].1, seen[1].2)), ((Verdict::Unreadable, 0, 4096), (4096, 12_288)));
}

#[test]
fn a_drive_that_goes_away_ends_the_pass_as_incomplete() {
    for method in Method::ALL {
        let world = World::new(RAID6, 6);
        let target = world.target(3, &[]);
        world.devices[2].cut_power_after(1);
        let outcome = pass(&target, None, &Options { method: Some(method), ..options(1) });
        assert!(matches!(outcome.stopped, Some(StopReason::Failed(_))), "{method}");
        assert!(outcome.findings.is_empty(), "{method}: no false finding");
        assert!(!outcome.is_complete());
    }
}

//! Each member, in each place that it has in a stripe.

use super::Protected;
use crate::world::{Kind, RAID5, RAID6, options};
use pumice_base::units::Role;
use pumice_blockdev::BlockDevice;
use pumice_host::Method;
use pumice_host::finding::{Certainty, Verdict};
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::{Options, Outcome};

/// Parity as well as data, wherever a stripe has them; and then their tags alone. Chunks are so
/// long that a node reads one stripe at a time: then guards of parity follow from those of the
/// data.
#[test]
fn every_member_of_every_rotation_is_proven() {
    for (kind, block) in [(RAID5, 512), (RAID6, 512), (RAID6, 4096)] {
        let kind = Kind { chunk: 128 << 10, stripes: 8, ..kind };
        let protected = Protected::written(kind, block);
        let before = protected.world.contents();
        let roles = u64::from(kind.disks);
        let stripe_by_stripe = Options { method: Some(Method::Stripe), ..options(1) };
        // A reader has a view of tags only if all of them lie in the tag file.
        let scrub = || {
            protected.devices.iter().for_each(|device| device.keep_adopted(0).unwrap());
            protected.scrub(&stripe_by_stripe)
        };
        let found = |outcome: &Outcome| -> Vec<_> {
            outcome.findings.iter().map(|f| (f.stripe, f.verdict, f.member, f.certainty)).collect()
        };
        for role in 0..roles {
            // As many stripes as members: each has each place of the rotation.
            for stripe in 0..roles {
                protected.world.damage(Role(role as u16), stripe, role * 2048 + 100, 50, 0x21);
            }
            let outcome = scrub();
            let places: Vec<_> = found(&outcome).into_iter().map(|f| (f.0, f.2, f.3)).collect();
            let expected: Vec<_> =
                (0..roles).map(|stripe| (stripe, Some(role as u16), Certainty::Proven)).collect();
            assert_eq!(places, expected, "{:?} {block} {role}", kind.level);
            // Every block was checked, and one of each stripe differs.
            let all = roles * kind.stripes * kind.chunk / u64::from(block);
            assert_eq!(outcome.tags.unwrap().iter().sum::<u64>() + roles, all, "{:?} {block}", kind.level);
            let outcome = protected.repair(RepairPolicy::Strong);
            assert!(outcome.findings.iter().all(|f| f.repaired), "{:?}", outcome.findings);
            assert_eq!(protected.world.contents(), before);
        }
        // A tag alone, of each member in a stripe of its own.
        for role in 0..roles {
            let bytes = protected.content(Role(role as u16), role, 4096, block as usize);
            protected.write(Role(role as u16), role, 4096, &vec![0x5A; block as usize]);
            let raw = &protected.world.devices[role as usize];
            raw.write_at(protected.world.place(role, 4096), &bytes).unwrap();
            raw.flush().unwrap();
        }
        let outcome = scrub();
        let damaged = |role: u64| (role, Verdict::TagDamaged, Some(role as u16), Certainty::Likely);
        assert_eq!(found(&outcome), (0..roles).map(damaged).collect::<Vec<_>>(), "{:?} {block}", kind.level);
        assert_eq!(protected.world.contents(), before);
    }
}

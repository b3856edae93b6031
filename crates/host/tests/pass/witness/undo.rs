//! Worth of bytes that are put back: damage that comes back with an undo, or because a repair was
//! cut short, gets no witness for it.

use super::*;
use crate::archive::undo_all;
use pumice_base::telemetry::Ledger;
use pumice_host::finding::Finding;
use pumice_host::repair::archive::{Occasion, Status};
use pumice_host::repair::{EntryId, Intent, IntentKind, OldBytes, Record, Recovery, recover, undo};
use pumice_host::target::Target;
use pumice_protect::origin::Opinion;
use pumice_raid::Uuid;

impl Protected {
    fn target(&self, nodes: usize) -> Target {
        let devices: Vec<Arc<dyn BlockDevice>> =
            self.devices.iter().map(|device| Arc::clone(device) as _).collect();
        self.world.target_over(&devices, nodes, &[])
    }

    fn damage_strongly(world: &World) {
        for (start, len, by) in [(5000, 300, 0x11), (5100, 100, 0x36), (5200, 50, 0x77), (5250, 10, 0x3)] {
            world.damage(Role(2), 7, start, len, by);
        }
    }

    fn opinion(&self, role: u16, stripe: u64, at: u64) -> Opinion {
        let block = self.block(stripe, at);
        self.devices[usize::from(role)].judge(block..block + 1).unwrap()[0]
    }
}

/// Content of a finding, without the record of its repair.
type Said = (u64, u64, u64, Option<u16>, Certainty, Strength, Option<(Says, Option<String>)>);

fn said(finding: &Finding) -> Said {
    let witness = finding.witness.as_ref().map(|witness| (witness.says, witness.origin.clone()));
    let Finding { stripe, chunk_offset, length, member, certainty, strength, .. } = finding;
    (*stripe, *chunk_offset, *length, *member, *certainty, *strength, witness)
}

#[test]
fn an_undone_repair_leaves_the_proof_that_it_rested_on() {
    for (kind, block, nodes) in [(RAID5, 512, 1), (RAID6, 512, 3), (RAID5, 4096, 2), (RAID6, 4096, 1)] {
        let mut protected = Protected::written(kind, block);
        let good = protected.world.contents();
        for restarts in [false, true] {
            protected.world.damage(Role(2), 7, 5000, 300, 0x11);
            let bad = protected.world.contents();
            let proven = said(&protected.scrub(&options(1)).findings[0]);
            assert_eq!(proven.4, Certainty::Proven);
            let folder = tempfile::tempdir().unwrap();
            let state = StateFiles::open(folder.path(), UUID).unwrap();
            let repair = Options { repair: Some(RepairPolicy::Strong), ..options(3) };
            let outcome = protected.scrub_over(nodes, Some(&state), &repair);
            assert!(outcome.findings[0].repaired, "{:?}", outcome.findings);
            assert_eq!(protected.world.contents(), good);
            assert_eq!(protected.opinion(2, 7, 5000), Opinion::Fits(Origin::Written));
            let repairs = undo_all(&protected.target(nodes), &state).unwrap();
            assert_eq!(protected.world.contents(), bad);
            if restarts {
                protected.devices.clear();
                protected.open();
            }
            let findings = protected.scrub(&options(4)).findings;
            assert_eq!(findings.iter().map(said).collect::<Vec<_>>(), [proven], "{:?}", kind.level);
            // The undos themselves are undone.
            let (archive, target) = (state.archive(), protected.target(nodes));
            for id in 1..=repairs as u64 {
                let Status::Undone(by) = archive.read(EntryId(id)).unwrap().unwrap().status else {
                    panic!("it was undone")
                };
                let (_, journal) = recover(&target, state.journal().unwrap(), &archive).unwrap();
                undo(&target, &archive, &journal, by, 1).unwrap();
            }
            assert_eq!(protected.world.contents(), good);
            assert!(protected.scrub(&options(5)).findings.is_empty());
            assert_eq!(protected.opinion(2, 7, 5000), Opinion::Fits(Origin::Written));
        }
    }
}

/// The metadata of hosts are beside the tuple: what a host sent with the right bytes comes back
/// with these.
#[test]
fn the_tag_that_convicts_stays_as_its_host_wrote_it() {
    let protected = Protected::written(RAID5, 512);
    let (place, data) = (protected.world.place(7, 5120), protected.content(Role(2), 7, 5120, 512));
    let tagged = protected.devices[2].tagged().unwrap();
    let (mut read, mut sent) = (vec![0; 512], vec![0; 16]);
    tagged.read_with_metadata(place, &mut read, &mut sent).unwrap();
    assert_eq!(read, data);
    // The application tag, which no guard covers.
    let format = protected.geometry.format();
    let mut tuple = pumice_protect::tuple::Tuple::decode(format, &sent);
    tuple.application = 0x1234;
    sent.copy_from_slice(tuple.encode(format).as_slice());
    tagged.write_with_metadata(place, &data, &sent).unwrap();
    protected.world.damage(Role(2), 7, 5120, 300, 0x11);
    assert!(protected.repair(RepairPolicy::Strong).findings[0].repaired);
    let (mut read, mut found) = (vec![0; 512], vec![0; 16]);
    tagged.read_with_metadata(place, &mut read, &mut found).unwrap();
    assert_eq!((read, found), (data, sent));
}

/// The bytes of before the repair fit an adopted tag, which is no witness; they get none by the
/// undo. With a written tag they would acquit the member that is damaged.
#[test]
fn bytes_that_parity_alone_replaced_come_back_without_a_witness() {
    for (block, nodes) in [(512, 1), (4096, 3)] {
        let world = World::new(RAID6, 11);
        Protected::damage_strongly(&world);
        let bad = world.contents();
        let protected = Protected::over(world, block);
        protected.adopt();
        let before = said(&protected.scrub(&options(1)).findings[0]);
        assert_eq!((before.5, &before.6), (Strength::Strong, &None));
        let folder = tempfile::tempdir().unwrap();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let repair = Options { repair: Some(RepairPolicy::Strong), ..options(3) };
        assert!(protected.scrub_over(nodes, Some(&state), &repair).findings[0].repaired);
        assert_eq!(undo_all(&protected.target(nodes), &state).unwrap(), 1);
        assert_eq!(protected.world.contents(), bad);
        assert_eq!(protected.opinion(2, 7, 5000), Opinion::Fits(Origin::Adopted));
        let findings = protected.scrub(&options(4)).findings;
        assert_eq!(findings.iter().map(said).collect::<Vec<_>>(), [before]);
    }
}

/// A repair of two blocks of which one was written when the power went. Parity does not hold for
/// the new bytes, so the old ones are put back.
#[test]
fn what_recovery_puts_back_gets_no_witness() {
    for adopted in [true, false] {
        let protected = match adopted {
            true => Protected::unchecked(RAID6, 512),
            false => Protected::written(RAID6, 512),
        };
        if adopted {
            protected.adopt();
        }
        let old = protected.content(Role(1), 3, 1024, 1536);
        let record = Record {
            role: Role(1),
            member: Uuid([2; 16]),
            device_offset: protected.world.place(3, 1024),
            old: OldBytes::read(old.clone()),
            new: vec![0x5A; 1536],
            tags_stay: false,
        };
        let target = protected.target(2);
        let (array, events) = (target.array().uuid(), target.array().events());
        let intent = Intent { kind: IntentKind::Repair, array, events, stripe: 3, records: vec![record] };
        let folder = tempfile::tempdir().unwrap();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let archive = state.archive();
        let (_, journal) = recover(&target, state.journal().unwrap(), &archive).unwrap();
        let kept = archive.keep(&target, intent, &Occasion::default(), &mut Ledger::default()).unwrap();
        drop(journal.begin(&kept).unwrap());
        protected.write(Role(1), 3, 1536, &[0x5A; 512]);
        let (recovery, _) = recover(&target, state.journal().unwrap(), &archive).unwrap();
        assert_eq!(recovery, Recovery::PutBack);
        assert_eq!(protected.content(Role(1), 3, 1024, 1536), old);
        // Blocks that were not written meanwhile keep what they had.
        let before = if adopted { Origin::Adopted } else { Origin::Written };
        let origins = [before, Origin::Adopted, before];
        for (at, origin) in [1024, 1536, 2048].into_iter().zip(origins) {
            assert_eq!(protected.opinion(1, 3, at), Opinion::Fits(origin), "{at}");
        }
    }
}

/// A node of an earlier version knows nothing of this: nothing is written then.
#[test]
fn an_undo_beside_tags_is_refused_if_the_node_cannot_put_bytes_back() {
    let protected = Protected::written(RAID5, 512);
    protected.world.damage(Role(2), 7, 5000, 300, 0x11);
    let devices = || protected.devices.iter().map(|device| Arc::clone(device) as _).collect();
    let target = || protected.world.on(Altered::over(devices()), protected.world.array(&[]));
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let repair = Options { repair: Some(RepairPolicy::Strong), ..options(3) };
    assert!(pass(&target(), Some(&state), &repair).findings[0].repaired, "as other bytes");
    let good = protected.world.contents();
    let entries = state.archive().ids().unwrap();
    let why = undo_all(&target(), &state).unwrap_err().to_string();
    assert!(why.contains("node 'n' is of an earlier version"), "{why}");
    assert_eq!(protected.world.contents(), good);
    assert_eq!(state.archive().ids().unwrap(), entries);
    // With a newer node it goes: nothing shows what the tags were, so they are adopted.
    assert_eq!(undo_all(&protected.target(1), &state).unwrap(), entries.len());
    assert_eq!(protected.opinion(2, 7, 5000), Opinion::Fits(Origin::Adopted));
}

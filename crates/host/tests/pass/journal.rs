//! A journal that waits: when it is settled, when it is kept, when it goes to the archive.

use crate::world::{Notes, RAID6, UUID, World, options, patch};
use pumice_base::durable::{FaultyStore, Store};
use pumice_base::telemetry::Ledger;
use pumice_base::units::Role;
use pumice_blockdev::BlockDevice;
use pumice_host::error::HostError;
use pumice_host::repair::archive::Status;
use pumice_host::repair::{
    EntryId, Found, Intent, IntentKind, Occasion, OldBytes, Record, Recovery, RepairPolicy, drop_waiting,
    recover,
};
use pumice_host::scrub::{Options, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_host::target::Target;
use pumice_raid::Uuid;
use std::sync::Arc;

/// An interrupted repair of 4096 bytes of member 1 in stripe 1: the journal waits, nothing is
/// written.
fn interrupted(world: &World, state: &StateFiles, events: i64) -> (Vec<u8>, Vec<u8>) {
    let target = world.target(1, &[]);
    let place = world.place(1, 0);
    let mut old = vec![0; 4096];
    world.devices[1].read_at(place, &mut old).unwrap();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 0x77).collect();
    let record = Record {
        role: Role(1),
        member: Uuid([2; 16]),
        device_offset: place,
        old: OldBytes::read(old.clone()),
        new: new.clone(),
        tags_stay: false,
    };
    let intent = Intent {
        kind: IntentKind::Repair,
        array: UUID,
        events: target.array().events().checked_add_signed(events).unwrap(),
        stripe: 1,
        records: vec![record],
    };
    let kept = state.archive().keep(&target, intent, &Occasion::default(), &mut Ledger::default()).unwrap();
    let Found::Settled(journal) = state.journal().unwrap() else { panic!("one waits already") };
    drop(journal.begin(&kept).unwrap());
    (old, new)
}

fn settle(target: &Target, state: &StateFiles) -> Result<Recovery, HostError> {
    recover(target, state.journal().unwrap(), &state.archive()).map(|(recovery, _)| recovery)
}

fn is_waiting(state: &StateFiles) -> bool {
    matches!(state.journal().unwrap(), Found::Waiting(_))
}

fn status(state: &StateFiles) -> Status {
    state.archive().read(EntryId(1)).unwrap().unwrap().status
}

/// The run has five of the six members: the journal is kept and named, and nothing is repaired.
#[test]
fn a_journal_is_kept_while_its_member_is_not_among_the_devices() {
    let world = World::new(RAID6, 1);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let (_, new) = interrupted(&world, &state, 0);
    // Torn by the crash.
    world.devices[1].write_at(world.place(1, 0), &new[..512]).unwrap();
    let before = world.contents();
    let without = world.target(1, &[1]);
    let repair = Options { repair: Some(RepairPolicy::Strong), ..options(1) };
    match run(&without, Some(&state), &repair, &mut Notes(Vec::new()), &Stop::new()) {
        Err(HostError::JournalWaits { path, why }) => {
            assert_eq!(path, state.journal_path());
            assert!(why.contains("member 1 (device 02020202:"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(is_waiting(&state) && world.contents() == before);
    // A run that only reads says so, and changes nothing.
    let mut notes = Notes(Vec::new());
    run(&without, Some(&state), &options(1), &mut notes, &Stop::new()).unwrap();
    assert!(
        notes.0.iter().any(|note| note.contains("was interrupted, in stripe 1 of member 1")),
        "{notes:?}"
    );
    assert!(is_waiting(&state) && world.contents() == before);
    // With its member it is settled: parity holds for the old bytes.
    assert_eq!(settle(&world.target(1, &[]), &state).unwrap(), Recovery::PutBack);
    assert!(!is_waiting(&state));
    assert_eq!(status(&state), Status::NotWritten);
}

/// Another device has the role by now, without the array having been assembled.
#[test]
fn a_journal_is_kept_while_another_device_has_its_role() {
    let world = World::new(RAID6, 1);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    interrupted(&world, &state, 0);
    patch(&world.devices[1], |superblock| superblock.device_uuid = [0x55; 16]);
    let settled = settle(&world.target(1, &[]), &state);
    assert!(matches!(settled, Err(HostError::JournalWaits { .. })), "{settled:?}");
    assert!(is_waiting(&state));
}

#[test]
fn a_journal_of_newer_members_is_kept() {
    let world = World::new(RAID6, 1);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    interrupted(&world, &state, 1);
    match settle(&world.target(1, &[]), &state) {
        Err(HostError::JournalWaits { why, .. }) => assert!(why.contains("newer members"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(is_waiting(&state));
}

/// Assembled since, or written there since: the journal goes to the archive before it is removed.
#[test]
fn a_journal_that_is_dropped_is_kept_in_the_archive() {
    for (events, foreign, word) in [(-1, false, "assembled"), (0, true, "have been written since")] {
        let world = World::new(RAID6, 1);
        let folder = tempfile::tempdir().unwrap();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        if events < 0 {
            world.devices.iter().for_each(|device| drop(patch(device, |s| s.events += 1)));
        }
        interrupted(&world, &state, events);
        if foreign {
            world.damage(Role(1), 1, 700, 1, 0x11);
        }
        let bytes = std::fs::read(state.journal_path()).unwrap();
        let before = world.contents();
        match settle(&world.target(1, &[]), &state).unwrap() {
            Recovery::Dropped(why, EntryId(1)) => assert!(why.contains(word), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(!is_waiting(&state));
        assert_eq!(status(&state), Status::Dropped);
        assert_eq!(std::fs::read(state.archive().path().join("1.journal")).unwrap(), bytes);
        assert_eq!(world.contents(), before);
    }
}

/// The archive takes nothing: then nothing is dropped either.
#[test]
fn a_journal_that_the_archive_does_not_take_is_not_dropped() {
    let world = World::new(RAID6, 1);
    let store = FaultyStore::new(1);
    let state = StateFiles::over(Arc::new(store.clone()), UUID);
    interrupted(&world, &state, 0);
    world.damage(Role(1), 1, 700, 1, 0x11);
    store.set_free_bytes(Some(100));
    assert!(settle(&world.target(1, &[]), &state).is_err());
    store.set_free_bytes(None);
    assert!(is_waiting(&state));
    // The operator decides that its member will not come back.
    let Found::Waiting(waiting) = state.journal().unwrap() else { panic!("it waits") };
    drop_waiting(waiting, &state.archive()).unwrap();
    assert!(!is_waiting(&state));
    assert_eq!(status(&state), Status::Dropped);
    assert!(store.folder(&format!("{UUID}.repairs")).read("1.journal", 1 << 20).unwrap().is_some());
}

/// The new bytes are in the drive's cache, or in the system's: that they read back is no proof.
#[test]
fn new_bytes_are_made_durable_before_the_journal_goes() {
    for seed in 0..8 {
        let world = World::new(RAID6, seed);
        let folder = tempfile::tempdir().unwrap();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let (_, new) = interrupted(&world, &state, 0);
        let place = world.place(1, 0);
        world.devices[1].write_at(place, &new).unwrap();
        assert_eq!(settle(&world.target(1, &[]), &state).unwrap(), Recovery::Whole);
        assert_eq!(status(&state), Status::Written);
        world.devices[1].crash();
        let mut now = vec![0; new.len()];
        world.devices[1].read_at(place, &mut now).unwrap();
        assert!(now == new, "seed {seed}: it is lost with the power");
    }
}

/// Somebody has written beside a sector that cannot be read: the journal knows nothing of that.
#[test]
fn what_somebody_wrote_beside_an_unreadable_sector_is_not_overwritten() {
    let world = World::new(RAID6, 1);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    interrupted(&world, &state, 0);
    world.damage(Role(1), 1, 700, 1, 0x11);
    let place = world.place(1, 0);
    world.devices[1].lose(place + 1024..place + 1536);
    let before = world.contents();
    let done = settle(&world.target(1, &[]), &state).unwrap();
    assert!(
        matches!(&done, Recovery::Dropped(why, _) if why.contains("have been written since")),
        "{done:?}"
    );
    assert_eq!(world.contents(), before);
}

/// A lost sector that was not written yet: there are no old bytes, so it is neither old nor
/// foreign.
#[test]
fn a_lost_sector_is_rebuilt_after_the_crash() {
    let world = World::new(RAID6, 1);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let good = world.contents();
    let place = world.place(1, 0);
    let target = world.target(1, &[]);
    let new = good[1][place as usize..][..1024].to_vec();
    let old = OldBytes::with_lost(vec![0; 1024], vec![true, false]).unwrap();
    let old = OldBytes::with_lost([vec![0; 512], new[512..].to_vec()].concat(), old.lost().to_vec()).unwrap();
    let record =
        Record { role: Role(1), member: Uuid([2; 16]), device_offset: place, old, new, tags_stay: false };
    let events = target.array().events();
    let intent = Intent { kind: IntentKind::Repair, array: UUID, events, stripe: 1, records: vec![record] };
    let kept = state.archive().keep(&target, intent, &Occasion::default(), &mut Ledger::default()).unwrap();
    let Found::Settled(journal) = state.journal().unwrap() else { panic!("one waits already") };
    drop(journal.begin(&kept).unwrap());
    world.devices[1].lose(place..place + 512);
    assert_eq!(settle(&target, &state).unwrap(), Recovery::Finished);
    assert_eq!(world.contents(), good);
    assert_eq!(status(&state), Status::Written);
}

//! Bytes that repairs replaced are kept, and can be put back.

use crate::crash::damaged;
use crate::world::{Notes, RAID5, UUID, World, options, pass, patch};
use pumice_base::durable::FaultyStore;
use pumice_blockdev::BlockDevice;
use pumice_host::error::HostError;
use pumice_host::pass::StopReason;
use pumice_host::repair::archive::{Entry, Status};
use pumice_host::repair::{EntryId, IntentKind, RepairPolicy, recover, undo, written_repairs};
use pumice_host::scrub::{Options, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_host::target::Target;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

fn repair(seed: u64) -> Options {
    Options { repair: Some(RepairPolicy::Likely), ..options(seed) }
}

/// Settles what waits, then undoes one repair.
fn undo_one(target: &Target, state: &StateFiles, id: EntryId) -> Result<EntryId, HostError> {
    let archive = state.archive();
    let (_, journal) = recover(target, state.journal()?, &archive)?;
    undo(target, &archive, &journal, id, 1)
}

pub(crate) fn undo_all(target: &Target, state: &StateFiles) -> Result<usize, HostError> {
    let ids = written_repairs(&state.archive())?;
    for id in &ids {
        undo_one(target, state, *id)?;
    }
    Ok(ids.len())
}

fn entry(state: &StateFiles, id: u64) -> Entry {
    state.archive().read(EntryId(id)).unwrap().unwrap()
}

fn refusal(result: Result<EntryId, HostError>) -> String {
    match result {
        Err(HostError::NotUndone { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn undo_restores_the_image_before_the_repair_byte_for_byte() {
    let (world, good, bad) = damaged(5);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let target = world.target(2, &[]);
    let outcome = pass(&target, Some(&state), &repair(1));
    assert_eq!(outcome.findings.iter().filter(|f| f.repaired).count(), 3);
    assert_eq!(world.contents(), good);
    let kept = entry(&state, 1);
    assert_eq!((kept.status, kept.intent_kind, kept.stripe), (Status::Written, IntentKind::Repair, 0));
    assert_eq!((kept.witnesses.len(), kept.records.len()), (5, 1));
    assert!(kept.occasion.finding.contains("\"stripe\":0"), "{:?}", kept.occasion);
    let repairs = written_repairs(&state.archive()).unwrap();
    assert!(repairs.is_sorted_by(|a, b| a > b), "newest first: {repairs:?}");
    assert_eq!(undo_all(&target, &state).unwrap(), repairs.len());
    assert_eq!(world.contents(), bad);
    assert!(matches!(entry(&state, 1).status, Status::Undone(_)));
    // An undo is a repair like any other: it can be undone, and then the repair can be again.
    let Status::Undone(by) = entry(&state, 1).status else { panic!("it was undone") };
    let again = undo_one(&target, &state, by).unwrap();
    assert_eq!(
        (entry(&state, 1).status, entry(&state, by.0).status),
        (Status::Written, Status::Undone(again))
    );
    assert_eq!(world.contents()[1][..world.place(1, 0) as usize], good[1][..world.place(1, 0) as usize]);
    undo_one(&target, &state, EntryId(1)).unwrap();
    assert_eq!(world.contents(), bad);
    assert!(refusal(undo_one(&target, &state, EntryId(1))).contains("undone, by"));
    assert!(refusal(undo_one(&target, &state, EntryId(99))).contains("no such entry"));
}

#[test]
fn what_is_kept_is_for_its_owner_alone() {
    let (world, _, _) = damaged(5);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    pass(&world.target(1, &[]), Some(&state), &repair(1));
    let archive = state.archive().path();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(archive.clone()), mode(archive.join("1.entry"))), (0o700, 0o600));
}

#[test]
fn undo_is_refused_by_name_unless_the_stripe_is_as_the_repair_left_it() {
    let (world, good, _) = damaged(5);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    pass(&world.target(1, &[]), Some(&state), &repair(1));
    let entry = entry(&state, 1);
    let range = &entry.records[0];
    let (place, len) = (range.device_offset, range.old.bytes().len() as u64);
    let refused = |without: &[u16]| refusal(undo_one(&world.target(1, without), &state, EntryId(1)));
    let turn = |role: usize, at: u64| {
        let mut byte = [0];
        world.devices[role].read_at(at, &mut byte).unwrap();
        world.devices[role].write_at(at, &[byte[0] ^ 1]).unwrap();
        world.devices[role].flush().unwrap();
    };
    assert!(refused(&[1]).contains("member 1 (device 02020202:"));
    assert!(refused(&[3]).contains("member 3 (device 04040404:"));
    for at in [place, place + len - 1] {
        turn(1, at);
        assert!(refused(&[]).contains("member 1 has been written there since the repair"));
        turn(1, at);
        turn(3, at);
        assert!(refused(&[]).contains("the bytes of member 3 there have changed since the repair"));
        turn(3, at);
    }
    world.devices[1].lose(place..place + 1);
    assert!(refused(&[]).contains("member 1 refuses the bytes that the repair wrote"));
    assert_eq!(world.contents(), good, "nothing was written by any of them");
    let (sector, at) = (&good[1][place as usize / 512 * 512..][..512], place / 512 * 512);
    world.devices[1].write_at(at, sector).unwrap();
    // Beside the rows of the repair, others may have written; and the array may have been
    // assembled.
    turn(3, place + len);
    world.devices.iter().for_each(|device| drop(patch(device, |s| s.events += 1)));
    undo_one(&world.target(1, &[]), &state, EntryId(1)).unwrap();
}

#[test]
fn lost_sectors_are_recorded_as_such_and_cannot_be_put_back() {
    let world = World::new(RAID5, 6);
    let good = world.contents();
    let place = world.place(4, 4096);
    world.devices[1].lose(place..place + 512);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let target = world.target(1, &[]);
    let outcome = pass(&target, Some(&state), &repair(1));
    assert!(outcome.findings.iter().all(|f| f.repaired), "{:?}", outcome.findings);
    let entry = entry(&state, 1);
    let lost: Vec<usize> = entry.records.iter().map(|record| record.old.lost_sectors()).collect();
    assert_eq!((lost, entry.sectors()), (vec![1], (1, 1)));
    assert!(refusal(undo_one(&target, &state, EntryId(1))).contains("nothing to put back"));
    assert_eq!(world.contents(), good);
}

/// No room in the archive: the finding stays, nothing is written, and the pass goes to its end.
#[test]
fn without_room_for_the_old_bytes_nothing_is_repaired() {
    let (world, _, bad) = damaged(5);
    let store = FaultyStore::new(1);
    let state = StateFiles::over(Arc::new(store.clone()), UUID);
    let target = world.target(1, &[]);
    // Room for progress, which is a few thousand bytes each time, and not for the archive's
    // entries.
    store.set_free_bytes(Some(15_000));
    let mut notes = Notes(Vec::new());
    let outcome = run(&target, Some(&state), &repair(1), &mut notes, &Stop::new()).unwrap();
    assert_eq!((outcome.findings.len(), outcome.findings.iter().filter(|f| f.repaired).count()), (3, 0));
    assert_eq!(world.contents(), bad);
    let said = |notes: &Notes| notes.0.iter().any(|note| note.contains("cannot be kept"));
    let stopped = matches!(outcome.stopped, Some(StopReason::Failed(_)));
    assert!(said(&notes) || stopped, "{:?} {notes:?}", outcome.stopped);
    // A directory that takes nothing at all is refused at the beginning.
    store.set_free_bytes(Some(0));
    let refused = run(&target, Some(&state), &repair(1), &mut Notes(Vec::new()), &Stop::new());
    assert!(matches!(refused, Err(HostError::State { .. })), "{refused:?}");
    store.set_free_bytes(None);
    store.set_read_only(true);
    let refused = run(&target, Some(&state), &repair(1), &mut Notes(Vec::new()), &Stop::new());
    assert!(refused.is_err());
    assert_eq!(world.contents(), bad);
}

#[test]
fn entries_go_by_age_or_by_the_operator_and_not_otherwise() {
    let (world, _, _) = damaged(5);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let target = world.target(1, &[]);
    pass(&target, Some(&state), &repair(1));
    let archive = state.archive();
    let all = archive.ids().unwrap();
    assert!(all.len() >= 3);
    pass(&target, Some(&state), &repair(2));
    pass(&target, Some(&state), &options(3));
    assert_eq!(archive.ids().unwrap(), all);
    archive.forget(all[1]).unwrap();
    assert_eq!(archive.ids().unwrap().len(), all.len() - 1);
    assert!(refusal(undo_one(&target, &state, all[1])).contains("no such entry"));
    // Older than nothing at all: a second later they go.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let mut notes = Notes(Vec::new());
    let strict = Options { keep_repairs: 1, ..repair(2) };
    run(&target, Some(&state), &strict, &mut notes, &Stop::new()).unwrap();
    assert_eq!(archive.ids().unwrap(), []);
    assert!(notes.0.iter().any(|note| note.contains("old repairs")), "{notes:?}");
}

/// A damaged entry is named, and is not in the way of others.
#[test]
fn a_damaged_entry_is_named_and_not_used() {
    let (world, _, _) = damaged(5);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let target = world.target(1, &[]);
    pass(&target, Some(&state), &repair(1));
    let path = state.archive().path().join("2.entry");
    let good = std::fs::read(&path).unwrap();
    for at in [1024 + 8, 1024 + 24, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        std::fs::write(&path, bytes).unwrap();
        let error = undo_one(&target, &state, EntryId(2)).unwrap_err().to_string();
        assert!(error.contains("2.entry"), "{error}");
        let listed = state.archive().list().unwrap();
        assert_eq!(listed.iter().filter(|(_, entry)| entry.is_err()).count(), 1);
    }
    std::fs::write(&path, [&good[512..1024], &good[..512], &good[1024..]].concat()).unwrap();
    assert!(undo_one(&target, &state, EntryId(2)).is_err(), "its status is not where it belongs");
    std::fs::write(&path, good).unwrap();
    undo_one(&target, &state, EntryId(2)).unwrap();
}

/// A pass that is killed between a repair and the next save, at any operation of the state
/// directory: the one that resumes reports every finding, each repaired.
#[test]
fn a_resumed_pass_forgets_no_repair_since_the_last_save() {
    let mut forgotten_without_the_archive = 0;
    for cut in 0..120 {
        let (world, good, _) = damaged(cut);
        let store = FaultyStore::new(cut);
        let state = StateFiles::over(Arc::new(store.clone()), UUID);
        let target = world.target(1, &[]);
        // The program is killed: the medium and the files are as they were at that moment.
        store.cut_power_after(cut);
        let first = run(&target, Some(&state), &repair(cut), &mut Notes(Vec::new()), &Stop::new());
        store.crash();
        let repaired_then = first.map_or(0, |o| o.findings.iter().filter(|f| f.repaired).count());
        let resume = Options { resume: true, batch: None, ..repair(cut) };
        let mut notes = Notes(Vec::new());
        let Ok(second) = run(&target, Some(&state), &resume, &mut notes, &Stop::new()) else {
            panic!("cut {cut}: {notes:?}")
        };
        assert_eq!(world.contents(), good, "cut {cut}");
        if notes.0.iter().any(|note| note.starts_with("resumed")) {
            let repaired = second.findings.iter().filter(|f| f.repaired).count();
            assert_eq!((second.findings.len(), repaired), (3, 3), "cut {cut}: {:?}", second.findings);
            forgotten_without_the_archive += repaired_then;
        }
    }
    assert!(forgotten_without_the_archive > 20, "{forgotten_without_the_archive}");
}

/// Power is cut in the members and in the state directory, independently, while a repair or an undo
/// runs: afterwards every chunk is old or new, the archive has what was written, and undo restores
/// the image before the repair.
#[test]
fn at_any_of_a_thousand_points_in_members_and_state_undo_restores_the_image() {
    let mut seen = std::collections::BTreeMap::new();
    let mut next = crate::world::noise(23);
    for point in 0..1000 {
        let (world, good, bad) = damaged(point);
        let store = FaultyStore::new(point);
        let state = StateFiles::over(Arc::new(store.clone()), UUID);
        let target = world.target(1, &[]);
        let undoing = point % 2 == 1;
        if undoing {
            pass(&target, Some(&state), &repair(point));
            assert_eq!(world.contents(), good);
        }
        let (state_cut, members_cut) = (next() % 110, next() % 40);
        match point / 2 % 4 {
            0 => store.cut_power_after(state_cut),
            1 => world.devices.iter().for_each(|device| device.cut_power_after(members_cut)),
            2 => {
                store.cut_power_after(state_cut);
                world.devices.iter().for_each(|device| device.cut_power_after(members_cut));
            }
            // A single operation fails, and the power goes at the end.
            _ => store.fail_after(state_cut),
        }
        // Whatever they say of it.
        if undoing {
            let _ = undo_all(&target, &state);
        } else {
            let _ = run(&target, Some(&state), &repair(point), &mut Notes(Vec::new()), &Stop::new());
        }
        store.crash();
        world.devices.iter().for_each(|device| device.crash());
        let target = world.target(1, &[]);
        let archive = state.archive();
        let (recovery, _) = recover(&target, state.journal().unwrap(), &archive)
            .unwrap_or_else(|error| panic!("point {point}: {error}"));
        let word = format!("{recovery:?}");
        *seen.entry((undoing, word.split('(').next().unwrap().to_owned())).or_insert(0) += 1;
        for ((now, good), bad) in world.contents().iter().zip(&good).zip(&bad) {
            let chunks = now.chunks(8192).zip(good.chunks(8192).zip(bad.chunks(8192)));
            for (i, (now, (good, bad))) in chunks.enumerate() {
                assert!(now == good || now == bad, "point {point}: chunk {i} is neither old nor new");
            }
        }
        undo_all(&target, &state).unwrap_or_else(|error| panic!("point {point}: {error}"));
        assert!(world.contents() == bad, "point {point}: undo does not restore the image");
        // And the next run repairs it all.
        let outcome = pass(&target, Some(&state), &repair(point));
        assert_eq!((outcome.stopped, world.contents() == good), (None, true), "point {point}");
    }
    for undoing in [false, true] {
        for recovery in ["Nothing", "Whole", "Finished"] {
            assert!(seen.contains_key(&(undoing, recovery.to_owned())), "{undoing} {recovery}: {seen:?}");
        }
    }
}

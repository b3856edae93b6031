//! Arrays in every state that md can leave them in: what Linux wrote, and what is made of it.

use std::ops::Range;

use crate::devices::{parse, records};
use pumice_base::units::{Role, StripeIndex};
use pumice_raid::assembly::{Note, State};
use pumice_raid::bitmap::Region;
use pumice_raid::inspect::MemberState;
use pumice_raid::plan::{SkipReason, Treatment};
use pumice_raid::ppl::Ppl;
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::{MAX_BYTES, V1};
use pumice_raid::{Array, AssemblyError, InspectReport, MemberRecord, Metadata, ReadAt, assemble};

macro_rules! state {
    ($name:literal) => {
        records(&parse(include_str!(concat!("../data/states/", $name, ".txt"))))
    };
}

fn report(set: &[(String, MemberRecord)]) -> InspectReport {
    InspectReport::new(set.iter().map(|(d, r)| (d.clone(), Ok(Some(r.clone())))).collect()).unwrap()
}

/// Asserts the state that inspection gives and the reason why the set is refused.
fn refused(set: Vec<(String, MemberRecord)>, state: State) -> AssemblyError {
    let report = report(&set);
    assert_eq!(report.state, state);
    let error = assemble(set).unwrap_err();
    assert_eq!(report.problems[0], error.to_string());
    error
}

/// The set without the device of this name.
fn without(mut set: Vec<(String, MemberRecord)>, device: &str) -> Vec<(String, MemberRecord)> {
    set.retain(|(name, _)| name != device);
    set
}

/// The runs of stripes that are skipped.
fn skips(array: &Array) -> Vec<(Range<u64>, SkipReason)> {
    let skipped = array.plan(0..u64::MAX).filter_map(|extent| match extent.kind {
        Treatment::Skip(reason) => Some((extent.stripes, reason)),
        Treatment::Check => None,
    });
    skipped.collect()
}

fn states(set: &[(String, MemberRecord)]) -> Vec<(Option<u16>, Option<String>, MemberState)> {
    report(set).members.into_iter().map(|m| (m.role.map(Role::get), m.device, m.state)).collect()
}

#[test]
fn a_member_that_failed_is_out_and_the_rest_degraded() {
    let set = state!("failed");
    let array = assemble(set.clone()).unwrap();
    let left_out = |note: &Note| matches!(note, Note::LeftOut { device, .. } if device == "m2");
    assert!(array.notes().iter().any(left_out), "{:?}", array.notes());
    assert_eq!(array.member(Role(2)), None);
    let array = assemble(without(set, "m2")).unwrap();
    assert_eq!(array.state(), State::Degraded);
    // Bits are set for what the missing member lacks; the array is clean all the same, and can be
    // checked.
    assert_eq!(
        array.members()[0].as_ref().unwrap().record.bitmap.as_ref().unwrap().counts()[&Region::Dirty],
        4
    );
    assert_eq!(skips(&array), []);

    let array = assemble(state!("dropped-090")).unwrap();
    assert!(array.notes().iter().any(left_out), "{:?}", array.notes());
}

#[test]
fn a_member_that_is_being_rebuilt_is_good_so_far() {
    let set = without(state!("recovering"), "m1");
    assert_eq!(states(&set)[1], (Some(1), Some("m4".to_owned()), MemberState::Recovering));
    let array = assemble(set).unwrap();
    assert_eq!(array.state(), State::Recovering);
    assert_eq!(skips(&array), [(104..1008, SkipReason::Recovering)]);
    assert!(matches!(array.notes(), [Note::Recovering { device, .. }] if device == "m4"));

    // RAID-6 has a parity left without it: everything is checked, in two parts.
    let array = assemble(without(state!("recovering-raid6"), "m1")).unwrap();
    let extents: Vec<_> = array.plan(0..u64::MAX).map(|e| (e.stripes, e.kind)).collect();
    assert_eq!(extents, [(0..102, Treatment::Check), (102..1008, Treatment::Check)]);
    let absent = |stripe| array.absent(StripeIndex(stripe)).iter().map(|r| r.get()).collect::<Vec<_>>();
    assert_eq!((absent(101), absent(102)), (vec![], vec![1]));

    // 0.90 does not record how far a rebuild has come: the new member is a spare until it is whole.
    let set = without(state!("recovering-090"), "m1");
    assert_eq!(states(&set)[4], (None, Some("m4".to_owned()), MemberState::Spare));
    assert_eq!(assemble(set).unwrap().state(), State::Degraded);
}

#[test]
fn spares_and_replacements_are_known_and_not_used() {
    for (set, state) in
        [(state!("spare"), MemberState::Spare), (state!("replacing"), MemberState::Replacement)]
    {
        let last = states(&set).pop().unwrap();
        assert_eq!((last.1.as_deref(), last.2), (Some("m4"), state));
        let array = assemble(set).unwrap();
        assert_eq!((array.state(), skips(&array).len()), (State::Clean, 0));
        assert_eq!(array.others().len(), 1);
    }
}

#[test]
fn an_array_that_changes_is_left_alone() {
    for set in [state!("reshaping"), state!("reshaping-090")] {
        let error = refused(set, State::Reshaping);
        assert!(matches!(error, AssemblyError::Reshaping { position: 35328, .. }), "{error}");
    }
    for (set, expected) in [(state!("resyncing"), 36864), (state!("resyncing-090"), 37376)] {
        let error = refused(set, State::Resyncing);
        assert!(matches!(error, AssemblyError::Resyncing { at, .. } if at.get() == expected), "{error}");
    }
}

#[test]
fn bad_blocks_count_from_the_start_of_the_device() {
    // Sector 4096 of the device is sector 2048 of the data area: stripe 16. md itself, asked to
    // read a place that two members' logs named, failed at that reckoning.
    let array = assemble(state!("bad-blocks")).unwrap();
    assert_eq!(skips(&array), [(16..17, SkipReason::BadBlock)]);
}

/// A set of the state "spare" whose devices' bad-block logs have these bytes, and are in use.
fn with_logs(device: usize, bytes: &[u8]) -> Vec<(String, MemberRecord)> {
    let mut devices = parse(include_str!("../data/states/spare.txt"));
    let of = &mut devices[device];
    let mut superblock = vec![0; MAX_BYTES];
    of.read_exact_at(4096, &mut superblock).unwrap();
    let mut fields = V1::decode(&superblock, Metadata::V1_2).unwrap();
    fields.feature_map |= Features::BAD_BLOCKS;
    of.write(4096, &fields.encode());
    of.write((8 + i64::from(fields.bblog_offset)) as u64 * 512, bytes);
    records(&devices)
}

#[test]
fn a_bad_block_log_of_zeros_names_no_block() {
    for device in [0, 4] {
        let array = assemble(with_logs(device, &[0; 4096])).unwrap();
        assert_eq!((skips(&array), array.state()), (vec![], State::Clean));
        let name = format!("m{device}");
        let said = |note: &Note| matches!(note, Note::BadBlockLogOfZeros { device } if *device == name);
        assert!(array.notes().iter().any(said), "{:?}", array.notes());
    }
}

#[test]
fn the_bad_block_log_of_a_spare_concerns_nothing_that_is_checked() {
    // An entry of 513 sectors.
    let wrong = (5_u64 << 10 | 513).to_le_bytes();
    let array = assemble(with_logs(4, &wrong)).unwrap();
    assert_eq!(skips(&array), []);
    let said = |note: &Note| matches!(note, Note::BadBlockLogUnread { device, .. } if device == "m4");
    assert!(array.notes().iter().any(said), "{:?}", array.notes());
}

#[test]
fn a_running_array_is_checked_where_its_bitmap_is_clean() {
    let array = assemble(state!("bitmap-live")).unwrap();
    assert_eq!(array.state(), State::Active);
    assert_eq!(skips(&array), [(0..14, SkipReason::Dirty)]);
    let mut running = array.clone();
    running.assume_running();
    assert_eq!(skips(&running), [], "under a kernel that runs it, writes under way will end");
    // After its first resync, before the bits were cleared: every bit set, and the array clean.
    let array = assemble(state!("bitmap-idle")).unwrap();
    assert_eq!(array.state(), State::Clean);
    assert!(
        array.members()[0].as_ref().unwrap().record.bitmap.as_ref().unwrap().counts()[&Region::Dirty] > 180
    );
    assert_eq!(skips(&array), []);
    for set in [state!("bitmap-090"), state!("bitmap-10")] {
        let array = assemble(set).unwrap();
        let counts = array.members()[0].as_ref().unwrap().record.bitmap.as_ref().unwrap().counts();
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [Region::Clean]);
        assert_eq!(skips(&array), []);
    }
}

#[test]
fn a_running_array_without_a_bitmap_needs_the_operators_word() {
    let mut array = assemble(state!("unclean")).unwrap();
    assert_eq!((array.state(), array.needs_assume_settled()), (State::Unclean, true));
    assert_eq!(array.notes(), [Note::Unclean]);
    assert_eq!(skips(&array), [(0..368, SkipReason::Unclean)]);
    array.assume_settled();
    assert_eq!((skips(&array), array.needs_assume_settled()), (vec![], false));
}

#[test]
fn partial_parity_logs_name_the_stripes_in_flux() {
    let array = assemble(state!("ppl-live")).unwrap();
    assert_eq!(array.state(), State::Active);
    let expected = [10..11, 12..14, 111..112].map(|range| (range, SkipReason::PplPending));
    assert_eq!(skips(&array), expected);
    let mut running = array.clone();
    running.assume_running();
    assert_eq!(skips(&running), []);
    // A stopped array's log still lists its last writes. They are done.
    let array = assemble(state!("ppl-stopped")).unwrap();
    let log = array.members()[0].as_ref().unwrap().record.ppl.as_ref();
    assert!(matches!(log, Some(Ppl::Pending(entries)) if entries.len() == 1));
    assert_eq!((array.state(), skips(&array)), (State::Clean, vec![]));
}

#[test]
fn journals_name_the_stripes_that_wait_in_them() {
    let set = state!("journal");
    let array = assemble(set.clone()).unwrap();
    assert_eq!(skips(&array), [(133..134, SkipReason::JournalPending)]);
    assert_eq!(states(&set)[4], (None, Some("m4".to_owned()), MemberState::Journal));
    // Without the journal nobody knows.
    let array = assemble(without(set, "m4")).unwrap();
    assert_eq!(skips(&array), [(0..368, SkipReason::JournalPending)]);
    assert_eq!(array.notes(), [Note::JournalMissing]);
}

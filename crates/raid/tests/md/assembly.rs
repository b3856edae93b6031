//! Sets of devices that fit, and sets that do not.

use crate::devices::{make, records, spec};
use pumice_base::units::{Role, Sectors, StripeIndex};
use pumice_raid::assembly::{Note, Standing, State, group};
use pumice_raid::inspect::MemberState;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::{Position, Reshape, Resync};
use pumice_raid::{AssemblyError, FormatSpec, InspectReport, MemberRecord, Metadata, Uuid, assemble};

type Set = Vec<(String, MemberRecord)>;

fn set(level: Level, disks: usize) -> Set {
    records(&make(&spec(Metadata::V1_2, level, disks)))
}

/// Problems that inspection finds.
fn problems(set: &Set) -> Vec<String> {
    let probed = set.iter().map(|(d, r)| (d.clone(), Ok(Some(r.clone())))).collect();
    InspectReport::new(probed).unwrap().problems
}

/// Changes one device and gives the error that comes of it, which inspection must find too.
fn error(level: Level, disks: usize, change: impl FnOnce(&mut Set)) -> AssemblyError {
    let mut set = set(level, disks);
    change(&mut set);
    let problems = problems(&set);
    let error = assemble(set).unwrap_err();
    assert!(problems.contains(&error.to_string()), "{error} not in {problems:?}");
    error
}

#[test]
fn the_order_of_devices_does_not_matter() {
    let mut set = set(Level::Raid6, 6);
    set.reverse();
    set.swap(1, 3);
    let array = assemble(set).unwrap();
    for (role, member) in array.members().iter().enumerate() {
        assert_eq!(member.as_ref().unwrap().device, format!("m{role}"));
    }
}

#[test]
fn no_device_makes_no_array() {
    assert_eq!(assemble(Vec::new()).unwrap_err(), AssemblyError::Empty);
    assert_eq!(InspectReport::new(Vec::new()).unwrap_err().to_string(), "no device was given");
    let error = InspectReport::new(vec![("disk".to_owned(), Ok(None))]).unwrap_err();
    assert_eq!(error.to_string(), "disk: no md superblock");
}

#[test]
fn missing_members() {
    for (level, disks) in [(Level::Raid4, 3), (Level::Raid5, 4)] {
        let error = error(level, disks, |set| drop(set.remove(1)));
        assert_eq!(error, AssemblyError::Incomplete { missing: vec![Role(1)], level });
        assert_eq!(
            error.to_string(),
            format!("role 1 is missing: {level} can be checked only with all members")
        );
    }
    let mut one = set(Level::Raid6, 5);
    one.remove(3);
    let array = assemble(one.clone()).unwrap();
    assert_eq!((array.state(), array.absent(StripeIndex(0))), (State::Degraded, vec![Role(3)]));
    assert_eq!(array.not_named(), [Role(3)], "the others hold it to be in the array");
    assert_eq!(array.notes(), [Note::NotNamed { not_named: vec![Role(3)] }]);
    for recorded in [Position::Faulty, Position::Spare] {
        for (_, record) in &mut one {
            record.superblock.dev_roles[3] = recorded;
        }
        let array = assemble(one.clone()).unwrap();
        assert_eq!((array.state(), array.not_named()), (State::Degraded, &[][..]), "md misses it itself");
        assert_eq!(array.notes(), [Note::Degraded { missing: vec![Role(3)] }]);
    }
    let error = error(Level::Raid6, 5, |set| drop(set.drain(1..3)));
    assert_eq!(
        error.to_string(),
        "roles 1, 2 are missing: raid6 can be checked only with all members but one"
    );
}

#[test]
fn a_foreign_member_is_named_with_both_arrays() {
    let error = error(Level::Raid5, 4, |set| set[2].1.superblock.array_uuid = Uuid([0xB; 16]));
    let message = error.to_string();
    assert!(message.starts_with("m2 belongs to another array"), "{message}");
    assert!(message.contains("0b0b0b0b:") && message.contains("a0a0a0a0:"), "{message}");
    // The majority is the array, wherever the foreigner stands.
    let foreign_first = self::error(Level::Raid5, 4, |set| set[0].1.superblock.array_uuid = Uuid([0xB; 16]));
    assert!(matches!(foreign_first, AssemblyError::Foreign { device, .. } if device == "m0"));
}

#[test]
fn duplicates_are_named_both() {
    let twin = error(Level::Raid5, 4, |set| {
        let copy = set[1].1.clone();
        set.push(("copy".to_owned(), copy));
    });
    assert!(
        matches!(&twin, AssemblyError::DuplicateDevice { first, second, .. } if first == "m1" && second == "copy")
    );
    let role = error(Level::Raid5, 4, |set| {
        let mut copy = set[1].1.clone();
        copy.superblock.device_uuid = Some(Uuid([0xCC; 16]));
        set.push(("copy".to_owned(), copy));
    });
    assert_eq!(role.to_string(), "m1 and copy both have role 1");
    // 0.90 has no device uuids.
    let mut old = records(&make(&spec(Metadata::V0_90, Level::Raid5, 4)));
    let copy = old[1].1.clone();
    old.push(("copy".to_owned(), copy));
    assert!(matches!(assemble(old).unwrap_err(), AssemblyError::DuplicateRole { .. }));
}

#[test]
fn members_that_disagree_are_named_with_the_field() {
    let field = |change: fn(&mut MemberRecord)| match error(Level::Raid6, 5, |set| change(&mut set[1].1)) {
        AssemblyError::Disagree { device, field, other, .. } => {
            assert_eq!((device.as_str(), other.as_str()), ("m1", "m0"));
            field
        }
        other => panic!("{other}"),
    };
    assert_eq!(field(|r| r.superblock.level = Level::Raid5), "level");
    assert_eq!(field(|r| r.superblock.layout = Some(Layout::ParityLast)), "layout");
    assert_eq!(field(|r| r.superblock.chunk = Sectors(256)), "chunk");
    assert_eq!(field(|r| r.superblock.size = Sectors(4096)), "size");
    assert_eq!(field(|r| r.superblock.raid_disks = 6), "raid_disks");
    assert_eq!(field(|r| r.superblock.ctime += 1), "ctime");
    assert_eq!(field(|r| r.superblock.metadata = Metadata::V1_1), "metadata");
}

#[test]
fn event_counts_may_differ_by_little() {
    let behind = |by: u64, bitmap: bool| {
        let mut set = records(&make(&FormatSpec { bitmap, ..spec(Metadata::V1_2, Level::Raid5, 4) }));
        for (i, (_, record)) in set.iter_mut().enumerate() {
            record.superblock.events = 100 - if i == 2 { by } else { 0 };
        }
        assemble(set).err()
    };
    assert_eq!((behind(0, false), behind(1, false)), (None, None));
    assert_eq!((behind(1, true), behind(2, true)), (None, None));
    for error in [behind(2, false), behind(3, true), behind(100, true)] {
        let message = error.unwrap().to_string();
        assert!(message.starts_with("m2 is out of date: events is"), "{message}");
        assert!(message.contains("m0 has 100"), "{message}");
    }
}

#[test]
fn the_advice_for_a_member_that_is_out_of_date_is_one_that_can_be_followed() {
    let stale = |level, disks, behind: &[usize]| {
        let mut set = set(level, disks);
        for (i, (_, record)) in set.iter_mut().enumerate() {
            record.superblock.events = if behind.contains(&i) { 5 } else { 100 };
        }
        assemble(set).unwrap_err().to_string()
    };
    assert!(stale(Level::Raid6, 5, &[2]).contains("or leave it out"));
    for message in [stale(Level::Raid5, 4, &[2]), stale(Level::Raid6, 5, &[1, 2])] {
        assert!(message.contains("cannot be checked without it: let md rebuild it"), "{message}");
    }
}

#[test]
fn roles_are_those_of_the_newest_superblock() {
    // The newest superblock has the devices 0 and 1 change places.
    let mut set = set(Level::Raid5, 4);
    let newest = &mut set[3].1.superblock;
    newest.events += 1;
    newest.dev_roles.swap(0, 1);
    let array = assemble(set).unwrap();
    let device = |role: u16| array.member(Role(role)).unwrap().device.as_str();
    assert_eq!((device(0), device(1), device(2)), ("m1", "m0", "m2"));
}

#[test]
fn a_member_that_newer_superblocks_hold_to_be_out_is_left_out_with_a_note() {
    for newer in [Position::Faulty, Position::Spare] {
        let mut set = set(Level::Raid6, 5);
        for (_, record) in &mut set[1..] {
            record.superblock.events += 1;
            record.superblock.dev_roles[0] = newer;
        }
        let array = assemble(set).unwrap();
        assert_eq!((array.state(), array.member(Role(0))), (State::Degraded, None));
        let note = &array.notes()[0];
        assert!(
            matches!(note, Note::LeftOut { device, newer: n, .. } if device == "m0" && *n == newer),
            "{note}"
        );
    }
}

#[test]
fn a_device_that_left_before_the_array_grew_is_left_out_whoever_has_its_number_now() {
    // Device 5 left; then the array became larger.
    let grown = |number_is_taken: bool| {
        let mut set = set(Level::Raid6, 6);
        let (_, mut old) = set[1].clone();
        old.superblock.events -= 1;
        for (_, record) in &mut set {
            record.superblock.events += 9;
        }
        old.superblock.raid_disks = 5;
        old.superblock.device_uuid = Some(Uuid([0xEE; 16]));
        if !number_is_taken {
            old.superblock.dev_number = 77;
        }
        set.insert(0, ("old".to_owned(), old));
        assemble(set).unwrap()
    };
    for (taken, array) in [(true, grown(true)), (false, grown(false))] {
        assert!(array.members().iter().all(Option::is_some), "{taken}");
        let left_out = array.notes().iter().any(|note| match note {
            Note::Superseded { device, other } => taken && device == "old" && other == "m1",
            Note::LeftOut { device, .. } => !taken && device == "old",
            _ => false,
        });
        // A number that the newest superblock does not know is a spare's, and the device agrees
        // with that.
        assert!(left_out || !taken, "{taken}: {:?}", array.notes());
    }
}

#[test]
fn a_member_that_was_dropped_is_named() {
    for newer in [Position::Faulty, Position::Spare] {
        // Without it nothing could be checked.
        let out = error(Level::Raid5, 5, |set| {
            for (_, record) in &mut set[1..] {
                record.superblock.events += 1;
                record.superblock.dev_roles[0] = newer;
            }
        });
        // Its own superblock is as new: whose word counts cannot be told.
        let even = error(Level::Raid6, 5, |set| {
            for (_, record) in &mut set[1..] {
                record.superblock.dev_roles[0] = newer;
            }
            set.rotate_left(1);
        });
        for error in [out, even] {
            assert!(
                matches!(&error, AssemblyError::Dropped { device, newer: n, .. } if device == "m0" && *n == newer),
                "{error}"
            );
        }
    }
}

#[test]
fn an_array_that_changes_is_refused() {
    let reshape = Reshape {
        position: 8,
        new_level: 5,
        delta_disks: 1,
        new_layout: 2,
        new_chunk: 128,
        backwards: false,
    };
    let error = error(Level::Raid5, 4, |set| set[3].1.superblock.reshape = Some(reshape));
    assert!(matches!(&error, AssemblyError::Reshaping { device, position: 8 } if device == "m3"));
    let error = self::error(Level::Raid5, 4, |set| {
        for (_, record) in set {
            record.superblock.resync = Resync::At(Sectors(1024));
        }
    });
    assert!(matches!(error, AssemblyError::Resyncing { at: Sectors(1024), .. }));
}

#[test]
fn spares_are_listed() {
    let mut five = records(&make(&spec(Metadata::V1_2, Level::Raid5, 5)));
    for (_, record) in &mut five {
        record.superblock.raid_disks = 4;
        record.superblock.dev_roles[4] = Position::Spare;
    }
    let array = assemble(five).unwrap();
    let others: Vec<_> = array.others().iter().map(|o| (o.device.as_str(), o.standing)).collect();
    assert_eq!(others, [("m4", Standing::Spare)]);
}

#[test]
fn a_replacement_does_not_stand_in_the_way_of_its_original() {
    let mut five = records(&make(&spec(Metadata::V1_2, Level::Raid5, 5)));
    for (_, record) in &mut five {
        record.superblock.raid_disks = 4;
        record.superblock.dev_roles[4] = Position::Active(Role(2));
    }
    five[4].1.superblock.features = Features(Features::REPLACEMENT);
    five.reverse();
    let array = assemble(five).unwrap();
    assert_eq!(array.member(Role(2)).unwrap().device, "m2");
    assert_eq!(array.others()[0].standing, Standing::Replacement(Role(2)));
}

#[test]
fn inspection_describes_what_it_can() {
    let mut set = set(Level::Raid6, 6);
    set[1].1.superblock.array_uuid = Uuid([0xB; 16]);
    set[4].1.superblock.ctime = 7;
    let mut probed: Vec<_> = set.into_iter().map(|(d, r)| (d, Ok(Some(r)))).collect();
    probed.push(("blank".to_owned(), Ok(None)));
    let report = InspectReport::new(probed).unwrap();
    assert_eq!(report.state, State::Incomplete);
    assert_eq!((report.raid_disks, report.name.as_str()), (6, "host:vol"));
    assert_eq!(report.size_bytes, 4 * 63 * (1 << 20));
    let states: Vec<_> = report.members.iter().map(|m| (m.device.as_deref(), m.state)).collect();
    assert_eq!(
        states,
        [
            (Some("m0"), MemberState::Active),
            (None, MemberState::Missing),
            (Some("m2"), MemberState::Active),
            (Some("m3"), MemberState::Active),
            (None, MemberState::Missing),
            (Some("m5"), MemberState::Active),
            (Some("m1"), MemberState::Foreign),
            (Some("m4"), MemberState::Refused),
            (Some("blank"), MemberState::Unknown),
        ]
    );
    let problems = report.problems.join("\n");
    for part in [
        "blank: no md superblock",
        "m1 belongs to another array",
        "in m4, ctime is 7",
        "roles 1, 4 are missing",
    ] {
        assert!(problems.contains(part), "{part} not in {problems}");
    }
}

#[test]
fn devices_are_sorted_by_array() {
    let mut mixed = set(Level::Raid5, 4);
    let mut other = spec(Metadata::V1_0, Level::Raid6, 4);
    other.array_uuid = Uuid([1; 16]);
    mixed.extend(records(&make(&other)));
    let arrays = group(mixed);
    assert_eq!(arrays.values().map(Vec::len).collect::<Vec<_>>(), [4, 4]);
    assert!(arrays.into_values().all(|set| assemble(set).is_ok()));
}

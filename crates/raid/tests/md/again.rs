//! Members read again: as few reads as will do, and the same array as a look at everything would
//! make.

use crate::devices::{Sparse, make, parse, records, spec};
use pumice_base::units::Role;
use pumice_raid::assembly::AgainError;
use pumice_raid::journal::Journal;
use pumice_raid::layout::Level;
use pumice_raid::plan::{Extent, SkipReason, Treatment};
use pumice_raid::superblock::v1::V1;
use pumice_raid::{Array, FormatSpec, MemberRecord, Metadata, ReadAt, assemble, probe};
use std::cell::Cell;
use std::io;

/// A device that counts.
struct Counted<'d> {
    device: &'d Sparse,
    reads: Cell<usize>,
}

impl ReadAt for Counted<'_> {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.reads.set(self.reads.get() + 1);
        self.device.read_exact_at(offset, buf)
    }
}

fn counted(devices: &[Sparse]) -> Vec<Counted<'_>> {
    devices.iter().map(|device| Counted { device, reads: Cell::new(0) }).collect()
}

/// The reads of a probe of every device, and of reading the same again.
fn reads(array: &Array, devices: &[Sparse]) -> (usize, usize) {
    let all = |counted: &[Counted<'_>]| counted.iter().map(|device| device.reads.get()).sum();
    let first = counted(devices);
    first.iter().for_each(|device| assert!(probe(device).unwrap().is_some()));
    let second = counted(devices);
    array.read_again(&with_roles(array, &second), None).unwrap();
    (all(&first), all(&second))
}

/// The members among devices m0, m1, ….
fn with_roles<'d, D: ReadAt>(array: &Array, devices: &'d [D]) -> Vec<(Role, &'d dyn ReadAt)> {
    let device = |name: &str| &devices[name[1..].parse::<usize>().unwrap()];
    let members = array.members().iter().flatten();
    members.map(|member| (member.role, device(&member.device) as &dyn ReadAt)).collect()
}

/// The extents that a scrub compares, and each member with its valid stripes.
fn compared(array: &Array) -> (Vec<Extent>, Vec<Option<(String, u64)>>) {
    let member = |m: &pumice_raid::assembly::Member| (m.device.clone(), m.valid_stripes(array.geometry()));
    (array.plan(0..u64::MAX).collect(), array.members().iter().map(|m| m.as_ref().map(member)).collect())
}

/// The record of the journal, read again.
fn journal(array: &Array, devices: &[Sparse]) -> Option<MemberRecord> {
    let device = array.journal_device()?;
    array.read_journal_again(&devices[device[1..].parse::<usize>().unwrap()])
}

/// Asserts that reading `now` again gives what a probe of all of it gives.
fn agrees(then: &Array, now: &[Sparse], what: &str) {
    let again = then.read_again(&with_roles(then, now), journal(then, now));
    let members = then.members().iter().flatten().map(|member| member.device.as_str());
    let names: Vec<&str> = members.chain(then.journal_device()).collect();
    let mut set = records(now);
    set.retain(|(device, _)| names.contains(&device.as_str()));
    assert_eq!(again.as_ref().ok().map(compared), assemble(set).ok().as_ref().map(compared), "{what}");
}

#[test]
fn arrays_in_every_state_are_the_same_again() {
    let mut assembled = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/states")).unwrap() {
        let path = entry.unwrap().path();
        let devices = parse(&std::fs::read_to_string(&path).unwrap());
        let Ok(array) = assemble(records(&devices)) else { continue };
        agrees(&array, &devices, &path.display().to_string());
        assembled += 1;
    }
    assert!(assembled > 5, "{assembled}");
}

/// Makes the array unclean, as the first write to it does, and sets the bitmap's first bit.
fn begin_to_write(devices: &mut [Sparse]) {
    for device in devices {
        let mut bytes = vec![0; 4096];
        device.read_exact_at(4096, &mut bytes).unwrap();
        let mut superblock = V1::decode(&bytes, Metadata::V1_2).unwrap();
        superblock.resync_offset = 0;
        device.write(4096, &superblock.encode());
        let bitmap = probe(device).unwrap().unwrap().superblock.bitmap;
        if let Some(area) = bitmap {
            device.write(area.start_bytes() + 256, &[1]);
        }
    }
}

#[test]
fn writes_that_began_since_are_seen() {
    for bitmap in [false, true] {
        let mut devices = make(&FormatSpec { bitmap, ..spec(Metadata::V1_2, Level::Raid6, 5) });
        let then = assemble(records(&devices)).unwrap();
        agrees(&then, &devices, "clean");
        begin_to_write(&mut devices);
        agrees(&then, &devices, "unclean");
        let again = then.read_again(&with_roles(&then, &devices), None).unwrap();
        assert_ne!(
            compared(&again).0,
            compared(&then).0,
            "with a bitmap, the region; without one, all of it"
        );
        let mut running = assemble(records(&devices)).unwrap();
        running.assume_running();
        let again = running.read_again(&with_roles(&running, &devices), None).unwrap();
        let named = |array: &Array| array.plan(0..u64::MAX).any(|extent| extent.kind != Treatment::Check);
        assert!(!named(&running), "writes under way are no reason to leave stripes out");
        assert_eq!(named(&again), bitmap, "the bitmap is heeded when findings are judged");
        assert_eq!(compared(&again).1, compared(&running).1);
    }
}

#[test]
fn a_superblock_that_is_gone_makes_no_array() {
    let mut devices = make(&spec(Metadata::V1_2, Level::Raid6, 5));
    let then = assemble(records(&devices)).unwrap();
    let whole = devices[2].clone();
    devices[2].write(4096 + 32, b"half");
    assert!(then.read_again(&with_roles(&then, &devices), None).is_err(), "its checksum does not fit");
    devices[2] = Sparse::new(whole.size);
    assert!(matches!(
        then.read_again(&with_roles(&then, &devices), None),
        Err(AgainError::Gone(device)) if device == "m2"
    ));
    devices[2] = whole;
    assert!(then.read_again(&with_roles(&then, &devices), None).is_ok());
    let mut one_less = with_roles(&then, &devices);
    one_less.remove(2);
    assert!(
        then.read_again(&one_less, None).unwrap().member(Role(2)).is_none(),
        "a member that is not read is none"
    );
}

#[test]
fn one_read_a_member_where_nothing_else_counts() {
    for metadata in [Metadata::V0_90, Metadata::V1_0, Metadata::V1_1, Metadata::V1_2] {
        // Four places, and four where something else may have its marks.
        for (bitmap, probed) in [(false, 8), (true, 10)] {
            let devices = make(&FormatSpec { bitmap, ..spec(metadata, Level::Raid6, 8) });
            let array = assemble(records(&devices)).unwrap();
            assert_eq!(reads(&array, &devices), (8 * probed, 8), "{metadata} {bitmap}");
        }
    }
    // Writes under way: the bitmap counts, whoever runs the array.
    let with_bitmap = FormatSpec { bitmap: true, ..spec(Metadata::V1_2, Level::Raid6, 8) };
    let mut devices = make(&with_bitmap);
    begin_to_write(&mut devices);
    let mut array = assemble(records(&devices)).unwrap();
    assert_eq!(reads(&array, &devices), (8 * 10, 8 * 3));
    array.assume_running();
    assert_eq!(reads(&array, &devices), (8 * 10, 8 * 3));
}

/// A journal whose tail moves each time that its superblock is read, as often as is said.
struct Moving<'d> {
    device: &'d Sparse,
    superblock: u64,
    moves: Cell<u64>,
}

impl ReadAt for Moving<'_> {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.device.read_exact_at(offset, buf)?;
        if offset == self.superblock && self.moves.get() > 0 {
            let mut superblock = V1::decode(buf, Metadata::V1_2).unwrap();
            superblock.recovery_offset += 8 * self.moves.get();
            self.moves.set(self.moves.get() - 1);
            let bytes = superblock.encode();
            buf[..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
}

#[test]
fn a_journal_is_read_again_and_believed_only_while_its_tail_stands() {
    let devices = parse(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/states/journal.txt")));
    let then = assemble(records(&devices)).unwrap();
    let plan = |journal| {
        let again = then.read_again(&with_roles(&then, &devices), journal).unwrap();
        again.plan(0..u64::MAX).map(|extent| (extent.stripes, extent.kind)).collect::<Vec<_>>()
    };
    let all_left = [(0..368, Treatment::Skip(SkipReason::JournalPending))];
    assert_eq!(plan(None), all_left, "without it nothing can be said");
    let held = [
        (0..133, Treatment::Check),
        (133..134, Treatment::Skip(SkipReason::JournalPending)),
        (134..368, Treatment::Check),
    ];
    assert_eq!(plan(journal(&then, &devices)), held);
    let device: usize = then.journal_device().unwrap()[1..].parse().unwrap();
    let moving = |times| {
        let moving = Moving { device: &devices[device], superblock: 4096, moves: Cell::new(times) };
        then.read_journal_again(&moving)
    };
    // A probe is as careful.
    let probed = |times| {
        let moving = Moving { device: &devices[device], superblock: 4096, moves: Cell::new(times) };
        probe(&moving).unwrap()
    };
    assert_eq!((plan(probed(2)), plan(probed(100))), (held.to_vec(), all_left.to_vec()));
    assert_eq!(plan(moving(2)), held, "it stood still at last");
    let unknown = moving(100);
    assert!(matches!(unknown.as_ref().unwrap().journal, Some(Journal::Unknown(_))), "{unknown:?}");
    assert_eq!(plan(unknown), all_left);
}

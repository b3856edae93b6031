//! Stripes to check: every source of doubt alone and together, against a plain stripe-by-stripe
//! reckoning.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::devices::{make, records, spec};
use pumice_base::units::{Sectors, StripeIndex};
use pumice_raid::area::Area;
use pumice_raid::bitmap::{Bitmap, Header, LOCKLESS_START, MAGIC};
use pumice_raid::layout::Level;
use pumice_raid::plan::{Extent, SkipReason, Treatment};
use pumice_raid::ppl::{Entry, Ppl};
use pumice_raid::superblock::Resync;
use pumice_raid::{Array, MemberRecord, Metadata, assemble};

/// 63 MiB of 64 KiB chunks.
const STRIPES: u64 = 1008;
const CHUNK: u64 = 128;
const DATA: u64 = 2048;

fn set(level: Level, disks: usize) -> Vec<(String, MemberRecord)> {
    records(&make(&spec(Metadata::V1_2, level, disks)))
}

fn bitmap(version: u32, chunk_bytes: u32, states: Vec<u8>, events: u64) -> Bitmap {
    let mut bytes = vec![0; LOCKLESS_START];
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&version.to_le_bytes());
    bytes[8..24].fill(0xA0);
    bytes[24..32].copy_from_slice(&events.to_le_bytes());
    bytes[40..48].copy_from_slice(&(STRIPES * CHUNK).to_le_bytes());
    bytes[52..56].copy_from_slice(&chunk_bytes.to_le_bytes());
    let header =
        Header::parse(&bytes, pumice_raid::Uuid([0xA0; 16]), Sectors(STRIPES * CHUNK), 1 << 20).unwrap();
    Bitmap::new(header, states, events).unwrap()
}

fn plan(array: &Array) -> Vec<(u64, u64, Treatment)> {
    array.plan(0..u64::MAX).map(|e| (e.stripes.start, e.stripes.end, e.kind)).collect()
}

const fn skip(reason: SkipReason) -> Treatment {
    Treatment::Skip(reason)
}

#[test]
fn a_clean_array_is_checked_whole_and_ranges_are_clipped() {
    let array = assemble(set(Level::Raid5, 4)).unwrap();
    assert_eq!(plan(&array), [(0, STRIPES, Treatment::Check)]);
    let part =
        |start, end| array.plan(start..end).map(|e| (e.stripes.start, e.stripes.end)).collect::<Vec<_>>();
    assert_eq!(part(10, 20), [(10, 20)]);
    assert_eq!(part(1000, 5000), [(1000, STRIPES)]);
    assert_eq!(part(STRIPES, 5000), []);
    assert_eq!(part(20, 20), []);
    assert_eq!(part(30, 20), []);
}

#[test]
fn bad_blocks_touch_whole_stripes_and_count_from_the_device() {
    let mut set = set(Level::Raid6, 5);
    set[1].1.bad_blocks = vec![
        // Before the data area, across its start, in stripe 2 and 3, at the last sector, behind the
        // end.
        Area { start: 100, sectors: 8 },
        Area { start: DATA - 4, sectors: 8 },
        Area { start: DATA + 3 * CHUNK - 1, sectors: 2 },
        Area { start: DATA + STRIPES * CHUNK - 1, sectors: 1 },
        Area { start: u64::MAX - 1, sectors: 1 },
    ];
    set[2].1.bad_blocks = vec![Area { start: DATA + 3 * CHUNK + 5, sectors: CHUNK }];
    let array = assemble(set).unwrap();
    let bad = skip(SkipReason::BadBlock);
    assert_eq!(
        plan(&array),
        [
            (0, 1, bad),
            (1, 2, Treatment::Check),
            (2, 5, bad),
            (5, STRIPES - 1, Treatment::Check),
            (STRIPES - 1, STRIPES, bad),
        ]
    );
}

#[test]
fn a_member_in_rebuilding_divides_the_array() {
    let recovering = |level, disks, offsets: &[(usize, u64)], gone: Option<usize>| {
        let mut set = set(level, disks);
        for (i, sectors) in offsets {
            set[*i].1.superblock.recovery_offset = Some(Sectors(*sectors));
        }
        if let Some(gone) = gone {
            set.remove(gone);
        }
        assemble(set).unwrap()
    };
    let lost = skip(SkipReason::Recovering);
    // In the middle of a stripe: that stripe is not whole.
    let array = recovering(Level::Raid5, 4, &[(1, 10 * CHUNK + 7)], None);
    assert_eq!(plan(&array), [(0, 10, Treatment::Check), (10, STRIPES, lost)]);
    let array = recovering(Level::Raid6, 5, &[(1, 10 * CHUNK)], None);
    assert_eq!(plan(&array), [(0, 10, Treatment::Check), (10, STRIPES, Treatment::Check)]);
    let array = recovering(Level::Raid6, 5, &[(1, 10 * CHUNK), (2, 20 * CHUNK)], None);
    assert_eq!(plan(&array), [(0, 10, Treatment::Check), (10, 20, Treatment::Check), (20, STRIPES, lost)]);
    assert_eq!(array.absent(StripeIndex(15)).len(), 1);
    let array = recovering(Level::Raid6, 5, &[(1, 10 * CHUNK)], Some(4));
    assert_eq!(plan(&array), [(0, 10, Treatment::Check), (10, STRIPES, lost)]);
    // From the start, and with an offset that means the end.
    let array = recovering(Level::Raid5, 4, &[(1, 0)], None);
    assert_eq!(plan(&array), [(0, STRIPES, lost)]);
    let array = recovering(Level::Raid5, 4, &[(1, u64::MAX)], None);
    assert_eq!(plan(&array), [(0, STRIPES, Treatment::Check)]);
}

#[test]
fn bits_of_any_member_count_while_the_array_is_not_clean() {
    let mut set = set(Level::Raid5, 4);
    // A region is four stripes.
    for (i, byte) in [(0, 0), (1, 0b0000_0010), (2, 0), (3, 0b0000_0100)] {
        let mut states = vec![0; 32];
        states[0] = byte;
        set[i].1.bitmap = Some(bitmap(4, 256 << 10, states, 1));
    }
    assert_eq!(plan(&assemble(set.clone()).unwrap()), [(0, STRIPES, Treatment::Check)]);
    for (_, record) in &mut set {
        record.superblock.resync = Resync::Unclean;
    }
    let dirty = skip(SkipReason::Dirty);
    assert_eq!(
        plan(&assemble(set).unwrap()),
        [(0, 4, Treatment::Check), (4, 12, dirty), (12, STRIPES, Treatment::Check)]
    );
}

#[test]
fn lockless_states_always_count() {
    let mut set = set(Level::Raid5, 4);
    let mut states = vec![1; 252];
    states[..6].copy_from_slice(&[0, 0, 2, 3, 4, 1]);
    for (_, record) in &mut set {
        record.bitmap = Some(bitmap(6, 256 << 10, states.clone(), 1));
    }
    assert_eq!(
        plan(&assemble(set).unwrap()),
        [
            (0, 8, skip(SkipReason::NeverWritten)),
            (8, 12, skip(SkipReason::Dirty)),
            (12, 20, skip(SkipReason::Syncing)),
            (20, STRIPES, Treatment::Check),
        ]
    );
}

#[test]
fn an_unreadable_parity_log_stands_for_everything() {
    let mut set = set(Level::Raid5, 4);
    let broken = pumice_raid::ppl::Header::parse(&[0; 4096], pumice_raid::Uuid([0; 16])).unwrap_err();
    set[2].1.ppl = Some(Ppl::Unreadable(broken));
    assert_eq!(plan(&assemble(set.clone()).unwrap()), [(0, STRIPES, Treatment::Check)]);
    for (_, record) in &mut set {
        record.superblock.resync = Resync::Unclean;
    }
    let array = assemble(set).unwrap();
    assert_eq!(plan(&array), [(0, STRIPES, skip(SkipReason::PplPending))]);
    assert!(array.notes()[0].to_string().starts_with("m2: partial parity log: checksum"));
}

proptest! {
    #[test]
    fn the_plan_is_the_stripe_by_stripe_reckoning(
        regions in prop::collection::vec(prop::sample::select(vec![0_u8, 1, 1, 1, 2, 3, 4]), 252),
        bad in prop::collection::vec((0_usize..5, 0_u64..STRIPES * CHUNK, 1_u64..1000), 0..20),
        writes in prop::collection::vec((0_usize..4, 0_u64..STRIPES * 3 * CHUNK, 0_u32..200_000), 0..20),
        recovery in prop::option::of((0_usize..4, 0_u64..STRIPES * CHUNK)),
        (start, len) in (0..STRIPES, 0..STRIPES),
        raid6: bool,
    ) {
        let level = if raid6 { Level::Raid6 } else { Level::Raid5 };
        let mut set = set(level, 5);
        let geometry = set[0].1.superblock.geometry().unwrap();
        let mut expected: BTreeMap<u64, SkipReason> = BTreeMap::new();
        let mut mark = |stripe: u64, reason: SkipReason| {
            expected.entry(stripe).and_modify(|r| *r = (*r).min(reason)).or_insert(reason);
        };
        for (i, region) in regions.iter().enumerate() {
            let reason = match region {
                0 => SkipReason::NeverWritten,
                1 => continue,
                2 => SkipReason::Dirty,
                _ => SkipReason::Syncing,
            };
            (4 * i as u64..4 * i as u64 + 4).for_each(|stripe| mark(stripe, reason));
        }
        for (member, start, sectors) in bad {
            (start / CHUNK..(start + sectors).div_ceil(CHUNK).min(STRIPES)).for_each(|s| mark(s, SkipReason::BadBlock));
            set[member].1.bad_blocks.push(Area { start: DATA + start, sectors });
        }
        let mut logs: BTreeMap<usize, Vec<Entry>> = (0..4).map(|i| (i, Vec::new())).collect();
        for (member, data_sector, data_size) in writes {
            let per = geometry.stripe_bytes() / 512;
            let end = data_sector + u64::from(data_size).div_ceil(512).max(1);
            (data_sector / per..end.div_ceil(per).min(STRIPES)).for_each(|s| mark(s, SkipReason::PplPending));
            logs.get_mut(&member).unwrap().push(Entry { data_sector, pp_size: 0, data_size, parity_disk: 0 });
        }
        for (member, log) in logs {
            set[member].1.ppl = Some(Ppl::Pending(log));
        }
        let cut = recovery.map(|(member, sectors)| {
            set[member].1.superblock.recovery_offset = Some(Sectors(sectors));
            sectors / CHUNK
        });
        if let (Some(cut), false) = (cut, raid6) {
            (cut..STRIPES).for_each(|stripe| mark(stripe, SkipReason::Recovering));
        }
        for (_, record) in &mut set {
            record.bitmap = Some(bitmap(6, 256 << 10, regions.clone(), 1));
            record.superblock.resync = Resync::Unclean;
        }
        let array = assemble(set).unwrap();
        let end = (start + len).min(STRIPES);
        let extents: Vec<Extent> = array.plan(start..start + len).collect();
        let mut at = start;
        for pair in extents.windows(2) {
            // Maximal: neighbours differ, unless a member's absence begins between them.
            let differs = pair[0].kind != pair[1].kind;
            prop_assert!(differs || (pair[0].kind == Treatment::Check && cut == Some(pair[1].stripes.start)));
        }
        for extent in extents {
            prop_assert_eq!(extent.stripes.start, at);
            for stripe in extent.stripes.clone() {
                let kind = expected.get(&stripe).map_or(Treatment::Check, |reason| Treatment::Skip(*reason));
                prop_assert_eq!(kind, extent.kind, "stripe {}", stripe);
                prop_assert_eq!(array.absent(StripeIndex(stripe)).len(), usize::from(cut.is_some_and(|c| stripe >= c)));
            }
            at = extent.stripes.end;
        }
        prop_assert_eq!(at, end.max(start));
    }
}

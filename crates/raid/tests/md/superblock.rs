//! Superblocks: known bytes, every damage, every field out of range, both ways.

use proptest::prelude::*;

use crate::devices::{Sparse, make, spec};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v0::V0;
use pumice_raid::superblock::v1::{RESYNC_DONE, ROLE_FAULTY, ROLE_JOURNAL, ROLE_SPARE, V1};
use pumice_raid::superblock::{Position, Resync};
use pumice_raid::{Metadata, ProbeError, ReadAt, probe};

/// Sectors of a device for the superblocks below.
const DEVICE: u64 = 1 << 18;

/// The superblock whose checksum is known.
fn golden() -> V1 {
    let uuid = std::array::from_fn(|i| i as u8 * 0x11);
    let mut set_name = [0; 32];
    set_name[..8].copy_from_slice(b"host:vol");
    let mut dev_roles = vec![ROLE_SPARE; 128];
    dev_roles[..4].copy_from_slice(&[0, 1, 2, 3]);
    V1 {
        feature_map: Features::BITMAP,
        set_uuid: uuid,
        set_name,
        ctime: 1_700_000_000,
        level: 6,
        layout: 2,
        size: 129_024,
        chunk: 128,
        raid_disks: 4,
        bitmap_or_ppl: 8_i32.to_le_bytes(),
        new_level: 0,
        reshape_position: 0,
        delta_disks: 0,
        new_layout: 0,
        new_chunk: 0,
        new_offset: 0,
        data_offset: 2048,
        data_size: 129_024,
        super_offset: 8,
        recovery_offset: 0,
        dev_number: 0,
        corrected_reads: 0,
        device_uuid: [0; 16],
        devflags: 0,
        bblog_shift: 0,
        bblog_size: 8,
        bblog_offset: 16,
        utime: 1_700_000_000,
        events: 1,
        resync_offset: RESYNC_DONE,
        logical_block_size: 0,
        dev_roles,
    }
}

fn v0() -> V0 {
    let device = &make(&spec(Metadata::V0_90, Level::Raid5, 4))[1];
    V0::decode(&sectors(device, Metadata::V0_90.super_offset(device.size_bytes()).unwrap(), 4096)).unwrap()
}

fn sectors(device: &Sparse, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    device.read_exact_at(offset, &mut bytes).unwrap();
    bytes
}

#[test]
fn golden_bytes_have_the_known_checksum() {
    let bytes = golden().encode();
    assert_eq!(bytes.len(), 512);
    assert_eq!(bytes[216..220], 0xBAE7_ED6B_u32.to_le_bytes());
    assert_eq!(bytes[..8], [0xFC, 0x4E, 0x2B, 0xA9, 1, 0, 0, 0]);
    assert_eq!(bytes[256..266], [0, 0, 1, 0, 2, 0, 3, 0, 0xFF, 0xFF]);
    let view = V1::parse(&bytes, Metadata::V1_2, DEVICE).unwrap();
    assert_eq!((view.level, view.layout, view.raid_disks), (Level::Raid6, Some(Layout::LeftSymmetric), 4));
    assert_eq!(view.name, "host:vol");
    assert_eq!(view.array_uuid.to_string(), "00112233:44556677:8899aabb:ccddeeff");
    assert_eq!((view.resync, view.position()), (Resync::Done, Position::Active(pumice_base::units::Role(0))));
    // From sector 16, up to the bad-block log at 24.
    assert_eq!(view.bitmap.map(|area| (area.start, area.sectors)), Some((16, 8)));
}

#[test]
fn every_changed_byte_is_refused() {
    let good = golden().encode();
    for (at, xor) in (0..good.len()).flat_map(|at| [1_u8, 0x80, 0xFF].map(|xor| (at, xor))) {
        let mut bad = good.clone();
        bad[at] ^= xor;
        assert!(V1::parse(&bad, Metadata::V1_2, DEVICE).is_err(), "byte {at} ^ {xor:#x}");
    }
    let good = v0().encode();
    for (at, xor) in (0..good.len()).flat_map(|at| [1_u8, 0x80, 0xFF].map(|xor| (at, xor))) {
        let mut bad = good.clone();
        bad[at] ^= xor;
        assert!(V0::parse(&bad, 1 << 17).is_err(), "byte {at} ^ {xor:#x}");
    }
}

#[test]
fn every_length_too_short_is_refused() {
    let good = golden().encode();
    for len in 0..good.len() {
        assert!(V1::parse(&good[..len], Metadata::V1_2, DEVICE).is_err(), "{len}");
    }
    let good = v0().encode();
    for len in (0..good.len()).step_by(13) {
        assert_eq!(V0::parse(&good[..len], 1 << 17).unwrap_err().field, "length", "{len}");
    }
}

/// The field that is blamed after a change of a good superblock.
fn blamed(change: impl FnOnce(&mut V1)) -> &'static str {
    let mut superblock = golden();
    change(&mut superblock);
    V1::parse(&superblock.encode(), Metadata::V1_2, DEVICE)
        .map_or_else(|invalid| invalid.field, |_| "nothing")
}

#[test]
fn fields_out_of_range_are_named() {
    assert_eq!(blamed(|_| ()), "nothing");
    assert_eq!(blamed(|s| s.feature_map |= 1 << 13), "feature_map");
    assert_eq!(blamed(|s| s.feature_map |= 1 << 31), "feature_map");
    assert_eq!(blamed(|s| s.feature_map |= Features::CLUSTERED), "feature_map");
    assert_eq!(blamed(|s| s.feature_map |= Features::JOURNAL), "feature_map");
    assert_eq!(blamed(|s| s.feature_map = Features::PPL), "feature_map");
    for level in [-4, -1, 0, 2, 11, 7, i32::MIN] {
        assert_eq!(blamed(|s| s.level = level), "level");
    }
    for layout in [6, 7, 11, 21, u32::MAX] {
        assert_eq!(blamed(|s| s.layout = layout), "layout");
    }
    for chunk in [0, 4, 7, 129, 1 << 22, u32::MAX] {
        assert_eq!(blamed(|s| s.chunk = chunk), "chunk");
    }
    for disks in [0, 3, 256, 1921, u32::MAX] {
        assert_eq!(blamed(|s| s.raid_disks = disks), "raid_disks");
    }
    assert_eq!(blamed(|s| s.raid_disks = 129), "raid_disks");
    assert_eq!(blamed(|s| s.super_offset = 0), "super_offset");
    assert_eq!(blamed(|s| s.dev_number = 128), "dev_number");
    assert_eq!(blamed(|s| s.dev_number = u32::MAX), "dev_number");
    assert_eq!(blamed(|s| s.dev_roles[9] = 4), "dev_roles");
    assert_eq!(blamed(|s| s.dev_roles[9] = 0xFFFC), "dev_roles");
    assert_eq!(blamed(|s| s.data_offset = u64::MAX), "data_offset");
    assert_eq!(blamed(|s| s.data_offset = 8), "data_offset");
    assert_eq!(blamed(|s| s.data_size = DEVICE), "data_size");
    assert_eq!(blamed(|s| s.data_size = u64::MAX), "data_size");
    assert_eq!(blamed(|s| s.size = 129_025), "size");
    assert_eq!(blamed(|s| s.size = 127), "size");
    assert_eq!(blamed(|s| s.size = u64::MAX), "size");
    for offset in [0_i32, -9, 2040, i32::MAX, i32::MIN, 16] {
        assert_eq!(blamed(|s| s.bitmap_or_ppl = offset.to_le_bytes()), "bitmap_offset", "{offset}");
    }
    for offset in [-9, -7, 2033, 2040, i32::MAX, i32::MIN] {
        assert_eq!(blamed(|s| s.bblog_offset = offset), "bblog_offset", "{offset}");
    }
    assert_eq!(blamed(|s| s.bblog_size = 129), "bblog_size");
    assert_eq!(blamed(|s| s.bblog_shift = 54), "bblog_shift");
    assert_eq!(blamed(|s| s.logical_block_size = 513), "logical_block_size");
    assert_eq!(
        blamed(|s| {
            s.feature_map = Features::BAD_BLOCKS;
            s.bblog_size = 0;
        }),
        "bblog_size"
    );
    let journal = |tail| {
        move |s: &mut V1| {
            s.feature_map = Features::JOURNAL;
            s.dev_roles[0] = ROLE_JOURNAL;
            s.recovery_offset = tail;
        }
    };
    assert_eq!(blamed(journal(129_024)), "journal_tail");
    assert_eq!(blamed(journal(8)), "nothing");
    // A journal may be smaller than what the members give.
    assert_eq!(
        blamed(|s| {
            journal(8)(s);
            s.data_size = 4096;
        }),
        "nothing"
    );
}

#[test]
fn a_level_without_redundancy_names_the_array() {
    let mut superblock = golden();
    superblock.level = 0;
    let error = V1::parse(&superblock.encode(), Metadata::V1_2, DEVICE).unwrap_err().to_string();
    for words in ["level is 0", "host:vol", "00112233:44556677:8899aabb:ccddeeff", "no redundancy"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let mut old = v0();
    old.level = u32::MAX;
    let error = V0::parse(&old.encode(), 1 << 17).unwrap_err().to_string();
    assert!(error.contains("level is -1") && error.contains("uuid a0a0a0a0"), "{error}");
}

#[test]
fn a_device_that_was_cut_short_is_said_to_be_shorter() {
    let sectors = 2048 + 129_024 - 3;
    let error = V1::parse(&golden().encode(), Metadata::V1_2, sectors).unwrap_err();
    assert_eq!(error.field, "data_size");
    assert!(error.to_string().contains("the device is 1536 bytes shorter than when"), "{error}");
}

/// Synology's md marks a member with errors in its role.
#[test]
fn a_role_with_the_bit_of_errors_is_not_in_sync() {
    let mut superblock = golden();
    superblock.dev_roles[1] = 0x8001;
    let view = V1::parse(&superblock.encode(), Metadata::V1_2, DEVICE).unwrap();
    assert_eq!(view.position_of(1), Position::Faulty);
    assert_eq!(blamed(|s| s.dev_roles[1] = 0x8004), "dev_roles", "there is no role 4");
}

/// RAID-1 has no chunk and one layout; the layouts of RAID-10 are those of copies.
#[test]
fn levels_of_copies_have_their_own_fields() {
    let raid1 = |s: &mut V1| (s.level, s.layout, s.chunk) = (1, 0, 0);
    assert_eq!(blamed(raid1), "nothing");
    assert_eq!(
        blamed(|s| {
            raid1(s);
            s.layout = 2;
        }),
        "layout"
    );
    assert_eq!(
        blamed(|s| {
            raid1(s);
            s.raid_disks = 10;
        }),
        "raid_disks"
    );
    let raid10 = |layout| move |s: &mut V1| (s.level, s.layout) = (10, layout);
    for layout in [0x102, 0x103, 0x201, 0x10201, 0x202, 0x40201] {
        assert_eq!(blamed(raid10(layout)), "nothing", "{layout:x}");
    }
    for layout in [0, 2, 0x101, 0x60201, 0x80201] {
        assert_eq!(blamed(raid10(layout)), "layout", "{layout:x}");
    }
    for policy in [Features::JOURNAL, Features::PPL] {
        for level in [1, 10] {
            let refused = blamed(|s| {
                (s.level, s.layout) = (level, if level == 1 { 0 } else { 0x102 });
                s.feature_map = policy;
            });
            assert_eq!(refused, "feature_map", "{policy:x} at {level}");
        }
    }
    let mut old = v0();
    (old.level, old.layout, old.chunk) = (1, 0, 0);
    let old = V0::parse(&old.encode(), 1 << 17).unwrap();
    assert_eq!((old.level, old.layout, old.chunk_bytes()), (Level::Raid1, None, 0));
}

#[test]
fn pads_must_be_zero() {
    let good = golden().encode();
    for at in (12..16).chain(228..256) {
        let mut bytes = good.clone();
        bytes[at] = 1;
        // A checksum that fits, so that the pad is all that is wrong.
        bytes[216..220].fill(0);
        let words = bytes.chunks_exact(4).map(|w| u64::from(u32::from_le_bytes(w.try_into().unwrap())));
        let sum: u64 = words.sum();
        bytes[216..220].copy_from_slice(&((sum as u32).wrapping_add((sum >> 32) as u32)).to_le_bytes());
        let field = V1::parse(&bytes, Metadata::V1_2, DEVICE).unwrap_err().field;
        assert!(field.starts_with("pad at"), "{at}: {field}");
    }
}

#[test]
fn old_superblocks_out_of_range_are_named() {
    let blamed = |change: &dyn Fn(&mut V0)| {
        let mut superblock = v0();
        change(&mut superblock);
        V0::parse(&superblock.encode(), 1 << 17).map_or_else(|invalid| invalid.field, |_| "nothing")
    };
    assert_eq!(blamed(&|_| ()), "nothing");
    assert_eq!(blamed(&|s| s.minor_version = 92), "minor_version");
    assert_eq!(blamed(&|s| s.level = 2), "level");
    assert_eq!(blamed(&|s| s.layout = 6), "layout");
    assert_eq!(blamed(&|s| s.chunk = 0), "chunk");
    assert_eq!(blamed(&|s| s.chunk = 65537), "chunk");
    assert_eq!(blamed(&|s| s.raid_disks = 28), "raid_disks");
    assert_eq!(blamed(&|s| s.raid_disks = 1), "raid_disks");
    assert_eq!(blamed(&|s| s.nr_disks = 28), "nr_disks");
    assert_eq!(blamed(&|s| s.size = u32::MAX), "size");
    assert_eq!(blamed(&|s| s.size = 0), "size");
    assert_eq!(blamed(&|s| s.this_disk.number = 27), "this_disk.number");
}

#[test]
fn a_big_endian_superblock_is_recognised() {
    let device = &mut make(&spec(Metadata::V0_90, Level::Raid5, 4))[0];
    let at = Metadata::V0_90.super_offset(device.size_bytes()).unwrap();
    let mut words = sectors(device, at, 4096);
    words.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    device.write(at, &words);
    let message = probe(device).unwrap_err().to_string();
    assert!(message.contains("big-endian"), "{message}");
}

#[test]
fn devices_without_a_superblock_have_none() {
    for size in [0, 1, 511, 512, 4095, 4096, 8191, 8192, 65_535, 65_536, 1 << 40, u64::MAX] {
        assert!(matches!(probe(&Sparse::new(size)), Ok(None)), "{size}");
    }
    assert!(matches!(probe(&Vec::new()), Ok(None)));
}

#[test]
fn a_truncated_member_is_refused_by_field() {
    for metadata in [Metadata::V1_1, Metadata::V1_2] {
        let mut device = make(&spec(metadata, Level::Raid6, 4)).remove(0);
        device.size -= 512;
        match probe(&device) {
            Err(ProbeError::Invalid(invalid)) => assert_eq!(invalid.field, "data_size"),
            other => panic!("{other:?}"),
        }
        device.size = 8192;
        match probe(&device) {
            Err(ProbeError::Invalid(invalid)) => assert_eq!(invalid.field, "data_offset"),
            other => panic!("{other:?}"),
        }
    }
    // The superblocks at the end are gone with it.
    for metadata in [Metadata::V1_0, Metadata::V0_90] {
        let mut device = make(&spec(metadata, Level::Raid6, 4)).remove(0);
        device.size -= 1 << 20;
        assert!(matches!(probe(&device), Ok(None)));
    }
}

#[test]
fn two_good_superblocks_are_ambiguous_and_a_damaged_one_is_a_remnant() {
    let mut device = make(&spec(Metadata::V1_2, Level::Raid6, 4)).remove(0);
    let mut old = spec(Metadata::V0_90, Level::Raid5, 4);
    old.array_uuid = pumice_raid::Uuid([0x0D; 16]);
    let old = old.format().unwrap().members[2].clone();
    for (offset, bytes) in &old.writes {
        device.write(*offset, bytes);
    }
    let message = probe(&device).unwrap_err().to_string();
    assert!(message.contains("a0a0a0a0") && message.contains("0d0d0d0d"), "{message}");
    assert!(message.contains("written 2023-11-14 22:13:20 UTC"), "{message}");
    assert!(message.ends_with("say it with --metadata 1.2 or --metadata 0.90"), "{message}");
    device.write(old.writes[0].0 + 100, &[1]);
    assert_eq!(probe(&device).unwrap().unwrap().metadata(), Metadata::V1_2);
}

/// Sectors where other formats have their superblocks are ordinary data in this one; one that
/// cannot be read is the scrub's business. The array's own superblock must be readable.
#[test]
fn only_the_own_superblock_must_be_readable() {
    struct Bad<'d>(&'d Sparse, u64);
    impl ReadAt for Bad<'_> {
        fn size_bytes(&self) -> u64 {
            self.0.size_bytes()
        }
        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
            if (offset..offset + buf.len() as u64).contains(&self.1) {
                return Err(std::io::Error::other("medium error"));
            }
            self.0.read_exact_at(offset, buf)
        }
    }
    for own in Metadata::ALL {
        let device = make(&spec(own, Level::Raid6, 4)).remove(0);
        for other in Metadata::ALL {
            let place = other.super_sector(device.size_bytes() / 512).unwrap() * 512;
            let found = probe(&Bad(&device, place));
            if own == other {
                assert!(matches!(found, Err(ProbeError::Read { .. })), "{own} {other}: {found:?}");
            } else {
                assert_eq!(found.unwrap().unwrap().metadata(), own, "{other}");
            }
        }
    }
}

#[test]
fn a_read_error_names_what_was_read() {
    struct Broken;
    impl ReadAt for Broken {
        fn size_bytes(&self) -> u64 {
            1 << 20
        }
        fn read_exact_at(&self, offset: u64, _: &mut [u8]) -> std::io::Result<()> {
            if offset == 4096 { Err(std::io::Error::other("medium error")) } else { Ok(()) }
        }
    }
    let message = probe(&Broken).unwrap_err().to_string();
    assert_eq!(message, "superblock 1.2 cannot be read at byte 4096: medium error");
}

prop_compose! {
    fn any_v1()(
        (level, layout) in prop_oneof![
            Just((4, 0)),
            (0_u32..=5).prop_map(|layout| (5, layout)),
            prop::sample::select(vec![0_u32, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20]).prop_map(|layout| (6, layout)),
        ],
        disks in 4_u32..40,
        roles in prop::collection::vec(prop_oneof![0_u16..4, Just(ROLE_SPARE), Just(ROLE_FAULTY)], 40..300),
        (set_uuid, device_uuid, set_name) in any::<([u8; 16], [u8; 16], [u8; 32])>(),
        (ctime, utime, events, resync_offset) in any::<(u64, u64, u64, u64)>(),
        (size, slack) in (128_u64..100_000, 0_u64..1000),
        chunk in (3_u32..8).prop_map(|shift| 1 << shift),
        (recovery_offset, corrected_reads, devflags) in any::<(u64, u32, u8)>(),
        features in prop::sample::select(vec![0, Features::RECOVERY_OFFSET, Features::REPLACEMENT, Features::RESHAPE]),
        (reshape_position, new_level, delta_disks, new_layout, new_chunk, new_offset)
            in any::<(u64, i32, i32, u32, u32, i32)>(),
        number in any::<prop::sample::Index>(),
    ) -> V1 {
        V1 {
            feature_map: features, set_uuid, set_name, ctime, level, layout, size, chunk,
            raid_disks: disks, bitmap_or_ppl: [0; 4], new_level, reshape_position, delta_disks, new_layout, new_chunk,
            new_offset, data_offset: 2048, data_size: size + slack, super_offset: 8, recovery_offset,
            dev_number: number.index(roles.len()) as u32, corrected_reads, device_uuid, devflags,
            bblog_shift: 0, bblog_size: 8, bblog_offset: 8, utime, events, resync_offset, logical_block_size: 0,
            dev_roles: roles,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(superblock in any_v1()) {
        let bytes = superblock.encode();
        prop_assert_eq!(V1::decode(&bytes, Metadata::V1_2).unwrap(), superblock.clone());
        let view = superblock.interpret(Metadata::V1_2, DEVICE).unwrap();
        prop_assert_eq!(view.size.get(), superblock.size);
        prop_assert_eq!(view.dev_roles.len(), superblock.dev_roles.len());
    }

    #[test]
    fn old_superblocks_are_read_as_written(
        events: u64, cp_events: u64, recovery_cp: u32, state: u32, uuid: [u8; 16], utime: u32, number in 0_u32..27, disk_state: u32,
    ) {
        let mut superblock = v0();
        superblock.events = events;
        superblock.cp_events = cp_events;
        superblock.recovery_cp = recovery_cp;
        superblock.state = state;
        superblock.set_uuid = uuid;
        superblock.utime = utime;
        superblock.this_disk.number = number;
        superblock.disks[number as usize].state = disk_state;
        prop_assert_eq!(V0::decode(&superblock.encode()).unwrap(), superblock.clone());
        prop_assert!(superblock.interpret(1 << 17).is_ok());
    }

    #[test]
    fn arbitrary_bytes_with_a_fitting_checksum_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..2048), device in any::<u64>(), max_dev in 0_u32..900,
    ) {
        for (at, word) in [(0, 0xA92B_4EFC_u32), (4, 1), (216, 0), (220, max_dev)] {
            if let Some(field) = bytes.get_mut(at..at + 4) {
                field.copy_from_slice(&word.to_le_bytes());
            }
        }
        for metadata in [Metadata::V1_0, Metadata::V1_1, Metadata::V1_2] {
            let _ = V1::parse(&bytes, metadata, device);
        }
        let _ = V0::parse(&bytes, device);
        let _ = probe(&bytes);
    }

    /// As above, but past the checksum: any fields at all.
    #[test]
    fn arbitrary_fields_never_panic(
        base in any_v1(), words in prop::collection::vec((8_usize..216, any::<u8>()), 0..40), device in any::<u64>(),
    ) {
        let mut bytes = base.encode();
        for (at, value) in words {
            bytes[at] = value;
        }
        bytes[12..16].fill(0);
        bytes[216..220].fill(0);
        let mut sum: u64 = bytes.chunks_exact(4).map(|w| u64::from(u32::from_le_bytes(w.try_into().unwrap()))).sum();
        if let [low, high] = bytes.chunks_exact(4).remainder() {
            sum += u64::from(u16::from_le_bytes([*low, *high]));
        }
        bytes[216..220].copy_from_slice(&((sum as u32).wrapping_add((sum >> 32) as u32)).to_le_bytes());
        for (metadata, device) in [(Metadata::V1_2, device), (Metadata::V1_2, DEVICE), (Metadata::V1_1, DEVICE)] {
            if let Ok(view) = V1::parse(&bytes, metadata, device) {
                let _ = view.geometry();
            }
        }
    }
}

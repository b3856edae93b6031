//! States of groups and RAID volumes, brought about one at a time: read, or refused by name.

use pumice_base::units::Sectors;
use pumice_raid::lvm::kind::RaidKind;
use pumice_raid::lvm::volume::{ImageState, Missing, PvPlace};

use crate::made::{DATA, EXTENT, Made, crc, id, look};

/// One type of each form of text: without chunk, with one parity, with two, with copies of chunks.
const KINDS: [(&str, usize); 4] = [("raid1", 3), ("raid5_ls", 4), ("raid6_nr", 5), ("raid10", 4)];

fn absent(made: &Made, role: usize) -> String {
    match &made.volume().unwrap().images[role].state {
        ImageState::Absent(why) => why.to_string(),
        state => panic!("{state:?}"),
    }
}

#[test]
fn whole_volumes_of_all_types() {
    let kinds = [
        "raid1",
        "raid10",
        "raid4",
        "raid5",
        "raid5_ls",
        "raid5_la",
        "raid5_ra",
        "raid5_rs",
        "raid5_n",
        "raid6",
        "raid6_zr",
        "raid6_nr",
        "raid6_nc",
        "raid6_n_6",
        "raid6_la_6",
        "raid6_ra_6",
        "raid6_ls_6",
        "raid6_rs_6",
    ];
    for kind in kinds {
        let volume = Made::new(kind, 6).volume().unwrap_or_else(|error| panic!("{kind}: {error}"));
        let bytes = DATA * EXTENT * 512;
        let expected = RaidKind::from_name(kind).unwrap().arrangement(6, 2, 32 * 512, bytes).unwrap();
        assert_eq!(volume.arrangement, expected, "{kind}");
        assert!(volume.images.iter().all(|image| image.state == ImageState::InSync), "{kind}");
        assert_eq!(volume.dirty(), [], "{kind}");
        assert_eq!((volume.events, volume.resync, volume.data_offset), (28, None, Sectors(0)), "{kind}");
        assert_eq!(volume.images[2].data.pieces[0].place, Some((2, (256 + EXTENT) * 512)), "{kind}");
    }
}

#[test]
fn superblocks_that_contradict_the_text() {
    let words: [(usize, &[u8], &str); 13] = [
        (4, &[0], "compat_features is 0; must be 1"),
        (144, &[2], "incompat_features is 2; must be 0"),
        (0, b"dMrD", "magic is dMrD"),
        (8, &[9], "num_devices is 9; must be"),
        (12, &[0], "array_position is 0; must be 1, as the text says"),
        (48, &[4], "level is 4; must be"),
        (52, &[77, 0, 0, 0], "layout is 77; must be"),
        (56, &[1], "stripe_sectors is 1; must be"),
        (31, &[0x80], "failed_devices is 0x80000000000000"),
        (120, &[1], "failed_devices is"),
        (32, &[255, 255, 255, 255, 0, 0, 0, 0], "disk_recovery_offset is 4294967295; must be at most 1024"),
        (40, &[0], "disagree on array_resync_offset"),
        (16, &[29], "disagree on events"),
    ];
    for (kind, images) in KINDS {
        for (at, value, expected) in words {
            let made = Made::new(kind, images);
            // new_… follow, so that it is no reshape.
            let shadow = match at {
                48 => Some(72),
                52 => Some(76),
                56 => Some(80),
                _ => None,
            };
            let made = shadow.into_iter().fold(made, |made, shadow| made.poke([1], shadow, value));
            let all = matches!(at, 31);
            let made = if all { made.poke(0..images, at, value) } else { made.poke([1], at, value) };
            let refusal = made.refusal();
            assert!(refusal.contains(expected), "{kind}: {at}: {refusal}");
        }
    }
}

/// A reshape that was given up for want of room: the text has the new image, the kernel runs
/// without it.
#[test]
fn a_reshape_that_was_given_up() {
    let made = Made::new("raid5_ls", 5).poke(0..4, 8, &[4]).poke([4], 12, &[255; 4]);
    let made = made.everywhere("type = \"raid5_ls\"", "type = \"raid5_ls+RESHAPE_DATA_OFFSET\"");
    assert_eq!(made.refusal(), "rmeta of image 0: num_devices is 4; must be 5, as the text says");
}

#[test]
fn reshapes_are_refused_by_name() {
    let words: [(usize, &[u8], &str); 8] = [
        (60, &[1], "flags is 1"),
        (60, &[3], "flags is 3"),
        (64, &[0; 8], "reshape_position is 0"),
        (72, &[77], "new_level is 77"),
        (76, &[77, 0, 0, 0], "new_layout is 77"),
        (80, &[77], "new_stripe_sectors is 77"),
        (84, &[1], "delta_disks is 1"),
        (104, &[8], "new_data_offset is 8"),
    ];
    for (kind, images) in KINDS {
        for (at, value, expected) in words {
            let refusal = Made::new(kind, images).poke([1], at, value).refusal();
            assert_eq!(refusal, format!("a reshape is under way: {expected} in rmeta of image 1"), "{kind}");
        }
        for word in ["RESHAPE_DELTA_DISKS_PLUS", "REMOVE_AFTER_RESHAPE", "SOMETHING"] {
            let (from, to) = (format!("type = \"{kind}\""), format!("type = \"{kind}+RESHAPE+{word}\""));
            assert_eq!(
                Made::new(kind, images).everywhere(&from, &to).refusal(),
                format!("its type says {word}")
            );
        }
        let to = format!("type = \"{kind}+RESHAPE+RESHAPE_DATA_OFFSET\"");
        let made = Made::new(kind, images).everywhere(&format!("type = \"{kind}\""), &to);
        assert!(made.volume().is_ok(), "{kind}");
    }
}

/// Room for a reshape is part of the image, before or behind the data.
#[test]
fn data_after_a_reshape() {
    let made = Made::new("raid5_ls", 4).everywhere("region_size = 64", "region_size = 64\nreshape_count = 1");
    let with = |offset: u64| {
        let bytes = offset.to_le_bytes();
        made.clone().poke(0..4, 96, &bytes).poke(0..4, 104, &bytes)
    };
    for offset in [0, 40, EXTENT] {
        let volume = with(offset).volume().unwrap();
        assert_eq!(volume.data_offset, Sectors(offset));
        assert_eq!(volume.image_sectors, Sectors((DATA - 1) * EXTENT));
        assert_eq!(volume.arrangement.array_bytes(), 3 * (DATA - 1) * EXTENT * 512);
        // The bitmap is of the larger volume.
        assert_eq!(volume.dirty(), std::slice::from_ref(&(0..(DATA - 1) * EXTENT)));
    }
    assert!(with(EXTENT + 1).refusal().contains("data_offset is 129; must be at most 128"));
    let one = made.clone().poke([2], 96, &[8]).poke([2], 104, &[8]);
    assert_eq!(one.refusal(), "images 0 and 2 disagree on data_offset: 0 and 8");
    let all = made.everywhere("reshape_count = 1", "reshape_count = 8");
    assert!(all.refusal().contains("24 extents cannot be those of raid5_ls with 4 images"));
}

/// A leg that was away while the others were written: its own superblock and the text look whole.
#[test]
fn the_newest_superblocks_say_who_is_out() {
    for (kind, images) in KINDS {
        let others = (0..images).filter(|role| *role != 1);
        let made = Made::new(kind, images).poke(others.clone(), 16, &[32]).poke(others, 24, &[2]);
        assert_eq!(absent(&made, 1), "the other images say that it is out", "{kind}");
        assert_eq!(made.volume().unwrap().events, 32);
        // Even if its own cannot be read any more.
        let worse = made.clone().poke([1], 0, b"xxxx");
        assert_eq!(absent(&worse, 1), "the other images say that it is out", "{kind}");
        // A flip that makes it the newest.
        let newest = made.clone().poke([1], 17, &[1]);
        assert!(newest.refusal().contains("disagree on events"), "{kind}");
        // Each half says that the other is out.
        let halves = Made::new(kind, images).poke([0], 24, &[2]).poke([1], 24, &[1]);
        assert!(halves.refusal().contains("disagree on failed_devices"), "{kind}");
    }
    let halves = Made::new("raid1", 2).poke([0], 24, &[2]).poke([1], 24, &[1]);
    assert!(halves.refusal().contains("disagree on failed_devices: "), "{}", halves.refusal());
}

#[test]
fn events_that_nobody_explains_are_refused() {
    for (kind, images) in KINDS {
        let refusal = Made::new(kind, images).poke([1], 16, &[27]).refusal();
        assert_eq!(refusal, "images 0 and 1 disagree on events: 28 and 27", "{kind}");
    }
}

#[test]
fn rebuilding_images() {
    for (kind, images) in KINDS {
        let made = Made::new(kind, images).poke([1], 32, &700_u64.to_le_bytes());
        assert_eq!(made.volume().unwrap().images[1].state, ImageState::Recovering(Sectors(700)), "{kind}");
        let resync = Made::new(kind, images).poke(0..images, 40, &600_u64.to_le_bytes());
        assert_eq!(resync.volume().unwrap().resync, Some(Sectors(600)), "{kind}");
        for new in [made.clone().poke([1], 0, &[0; 512]), made.poke([1], 12, &[255; 4])] {
            assert_eq!(new.refusal(), "rmeta of image 1 holds no RAID superblock", "{kind}");
            let id = id('L', 2001);
            let from = format!("\"{id}\"\nstatus = [\"READ\", \"WRITE\"");
            let begun = new.everywhere(&from, &format!("{from}, \"REBUILD\""));
            assert_eq!(absent(&begun, 1), "its rebuild has not begun", "{kind}");
        }
    }
}

#[test]
fn words_of_the_text() {
    for (kind, images) in KINDS {
        let made = || Made::new(kind, images);
        let missing = made().everywhere("flags = [] # 1", "flags = [\"MISSING\"]");
        assert!(absent(&missing, 1).ends_with("its group calls it missing, so it is stale"), "{kind}");
        let (image, rw) = (format!("\"{}\"\nstatus = [", id('L', 3001)), "\"READ\", \"WRITE\"");
        let split = made().everywhere(&format!("{image}{rw}"), &format!("{image}\"READ\", \"VISIBLE\""));
        assert_eq!(absent(&split, 1), "it was split off", "{kind}");
        let mostly = made().everywhere(&format!("{image}{rw}"), &format!("{image}{rw}, \"WRITEMOSTLY\""));
        let flags: Vec<bool> =
            mostly.volume().unwrap().images.iter().map(|image| image.write_mostly).collect();
        assert_eq!(flags.iter().filter(|flag| **flag).count(), 1, "{kind}");
        assert!(flags[1], "{kind}");
        let locked = made().everywhere(&format!("{image}{rw}"), &format!("{image}{rw}, \"LOCKED\""));
        assert_eq!(locked.refusal(), "r_rimage_1: status LOCKED is not known", "{kind}");
        let lv = made().everywhere("\"VISIBLE\"", "\"VISIBLE\", \"ODD\"");
        assert_eq!(lv.refusal(), "r: status ODD is not known", "{kind}");
        let shared = "the group is shared (lock_type dlm): another host may write";
        assert_eq!(made().everywhere("seqno", "lock_type = \"dlm\"\nseqno").refusal(), shared);
        assert!(made().everywhere("seqno", "lock_type = \"none\"\nseqno").volume().is_ok());
        let clustered = made().everywhere("\"RESIZEABLE\"", "\"RESIZEABLE\", \"CLUSTERED\"");
        assert!(clustered.refusal().contains("shared (CLUSTERED)"), "{kind}");
        assert_eq!(made().everywhere("RESIZEABLE", "ODD").refusal(), "vg0: status ODD is not known");
        let area = "stripe_count = 1\nstripes = [\"pv1\", 1]";
        let error = made().everywhere(&format!("type = \"striped\"\n{area}"), "type = \"error\"");
        assert_eq!(absent(&error, 1), "r_rimage_1 has a segment of type error", "{kind}");
        let moving = made().everywhere(&format!("type = \"striped\"\n{area}"), "type = \"mirror\"");
        assert_eq!(moving.refusal(), "r_rimage_1: r_rimage_1 is of type mirror", "{kind}");
    }
}

#[test]
fn images_that_do_not_fit_the_volume() {
    let made = || Made::new("raid5_ls", 4);
    let longer = made().everywhere("extent_count = 24", "extent_count = 27");
    assert_eq!(longer.refusal(), "image 0 has 8 extents; must have 9");
    let odd = made().everywhere("extent_count = 24", "extent_count = 25");
    assert_eq!(odd.refusal(), "25 extents cannot be those of raid5_ls with 4 images");
    let chunk = made().everywhere("extent_size = 128", "extent_size = 96");
    let chunk = chunk.everywhere("stripe_size = 32", "stripe_size = 512");
    assert_eq!(chunk.refusal(), "an image's data are 393216 bytes; must be a multiple of the chunk, 262144");
    let small = made().everywhere("stripe_size = 32", "stripe_size = 4");
    assert!(small.refusal().contains("chunk is 2048 bytes"));
    let many = Made::new("raid1", 10).refusal();
    assert!(many.contains("raid_disks is 10"), "{many}");
}

/// The text with the highest seqno counts, wherever it is.
#[test]
fn the_newest_text_counts() {
    let old = Made::new("raid5_ls", 4);
    let new = old.clone().edit([0, 1, 3], "seqno = 5", "seqno = 6").edit(
        [0, 1, 3],
        "flags = [] # 2",
        "flags = [\"MISSING\"]",
    );
    for turn in 0..4 {
        let mut devices = new.devices.clone();
        devices.rotate_left(turn);
        let survey = look(&devices);
        let group = survey.groups[0].state.as_ref().unwrap();
        assert_eq!(survey.groups[0].identity.seqno, 6, "{turn}");
        assert_eq!(group.places[2], PvPlace::Absent(Missing::Stale), "{turn}");
    }
    // The same age, and not the same: device names and times may differ, no more.
    let same = old.clone().edit([2], "# made", "creation_host = \"x\"\ncreation_time = 7 # made");
    assert!(same.volume().is_ok());
    let other = old.clone().edit([2], "pe_start = 256", "pe_start = 264");
    assert_eq!(other.group_problem(), "d2 and d3 have different texts with seqno 5");
    // Newer, and not understood.
    let unknown =
        old.clone().edit([2], "seqno = 5", "seqno = 6").edit([2], "extent_size = 128", "extent_size = []");
    assert_eq!(unknown.group_problem(), "text: vg0: extent_size is a list of 0; must be an integer");
    let grammar =
        old.clone().edit([2], "seqno = 5", "seqno = 6").edit([2], "extent_size = 128", "extent_size : 128");
    let words = "d2 has a text that may be newer: text: line 6: '{' or '=' is missing";
    assert_eq!(grammar.group_problem(), words);
    let newer = old.edit([2], "version = 1", "version = 2").edit([2], "seqno = 5", "seqno = 6");
    assert_eq!(newer.group_problem(), "text: version is 2; must be 1");
}

#[test]
fn physical_volumes_that_are_not_the_groups() {
    let made = Made::new("raid5_ls", 4);
    let mut twice = made.clone();
    twice.devices.push(made.devices[1].clone());
    let words = format!("physical volume {} is on d1 and d4: name one of them", id('P', 1));
    assert_eq!(twice.group_problem(), words);
    // The PV of image 1 has the text of another group: it was put to another use.
    let elsewhere = made.clone().edit([1], &id('G', 0), &id('G', 1)).edit([1], "vg0", "vg1");
    let survey = elsewhere.look();
    assert_eq!(survey.groups.len(), 2);
    let first = survey.groups[0].state.as_ref().unwrap();
    assert_eq!(first.places[1], PvPlace::Absent(Missing::Elsewhere("vg1".to_owned())));
    // All others of the second group are of the first.
    let second = survey.groups[1].state.as_ref().unwrap();
    assert_eq!(second.places[0], PvPlace::Absent(Missing::Elsewhere("vg0".to_owned())));
    let mut short = made.clone();
    short.devices[3].pop();
    let has = short.devices[3].len() as u64;
    let survey = short.look();
    let group = survey.groups[0].state.as_ref().unwrap();
    assert_eq!(group.places[3], PvPlace::Absent(Missing::Short { has, needs: has + 1 }));
    assert!(survey.devices[3].problems[0].to_string().contains("its header says"));
    // A PV without a text is where the others say.
    let mut blank = made.clone();
    blank.devices[2][4096..4608].fill(0);
    let survey = blank.look();
    assert!(survey.devices[2].problems[0].to_string().contains("metadata area: crc"));
    assert_eq!(survey.groups[0].state.as_ref().unwrap().places[2], PvPlace::Device(2));
    // Unless its header says that no group uses it any more.
    let label = &mut blank.devices[2][512..1024];
    label[140..144].fill(0);
    let sum = crc(&label[20..]);
    label[16..20].copy_from_slice(&sum.to_le_bytes());
    let survey = blank.look();
    assert_eq!(survey.groups[0].state.as_ref().unwrap().places[2], PvPlace::Absent(Missing::Unused));
    // Two groups have the PV without a text in theirs.
    let mut both = made.clone().edit([1], &id('G', 0), &id('G', 1)).edit([1], "vg0", "vg1");
    both.devices[2][4096..4608].fill(0);
    for (group, other) in both.look().groups.iter().zip(["vg1", "vg0"]) {
        let group = group.state.as_ref().unwrap();
        assert_eq!(group.places[2], PvPlace::Absent(Missing::Elsewhere(other.to_owned())));
    }
    let gone = Made { devices: vec![], ..made };
    assert!(gone.look().groups.is_empty());
}

#[test]
fn bitmaps() {
    for (kind, images) in KINDS {
        let covered = if kind == "raid10" { 2 * DATA * EXTENT } else { DATA * EXTENT };
        let made = Made::new(kind, images);
        let set = made.clone().poke([0], 4096 + 256, &[0b101]).poke([1], 4096 + 257, &[1]);
        assert_eq!(set.volume().unwrap().dirty(), [0..64, 128..192, 512..576], "{kind}");
        for (at, value) in [(0, 0), (4, 3), (8, 1), (24, 27), (40, 1), (48, 2), (53, 1), (53, 64)] {
            let odd = made.clone().poke([1], 4096 + at, &[value]);
            assert_eq!(odd.volume().unwrap().dirty(), std::slice::from_ref(&(0..covered)), "{kind}: {at}");
        }
    }
}

#[test]
fn volumes_that_stand_on_a_raid_volume_are_named() {
    let pool = "pool {\nid = \"Lxxxxx-xxxx-xxxx-xxxx-xxxx-xxxx-xxxxx1\"\nsegment_count = 1\nsegment1 {\n\
                start_extent = 0\nextent_count = 9\ntype = \"thin-pool\"\npool = \"r\"\n}\n}\n\
                thin {\nid = \"Lxxxxx-xxxx-xxxx-xxxx-xxxx-xxxx-xxxxx2\"\nsegment_count = 1\nsegment1 {\n\
                start_extent = 0\nextent_count = 9\ntype = \"thin\"\nthin_pool = \"pool\"\n}\n}\n";
    let made =
        Made::new("raid1", 2).everywhere("logical_volumes {\n", &format!("logical_volumes {{\n{pool}"));
    assert_eq!(made.volume().unwrap().above, ["pool", "thin"]);
}

#[test]
fn volumes_over_integrity() {
    let below = "iorig {\nid = \"Lxxxxx-xxxx-xxxx-xxxx-xxxx-xxxx-xxxxx1\"\nsegment_count = 2\nsegment1 {\n\
                 start_extent = 0\nextent_count = 3\ntype = \"striped\"\nstripe_count = 1\n\
                 stripes = [\"pv1\", 11]\n}\nsegment2 {\nstart_extent = 3\nextent_count = 5\ntype = \"striped\"\n\
                 stripe_count = 1\nstripes = [\"pv1\", 1]\n}\n}\n";
    let integrity = |mode: &str, sectors: u64| {
        format!(
            "type = \"integrity\"\norigin = \"iorig\"\ndata_sectors = {sectors}\nmode = \"{mode}\"\ntag_size = 4\n\
             block_size = 512\ninternal_hash = \"crc32c\""
        )
    };
    // Image 1, and not the second segment of the volume below.
    let (id, area) = (id('L', 3001), "type = \"striped\"\nstripe_count = 1\nstripes = [\"pv1\", 1]");
    let segment = "\"\nstatus = [\"READ\", \"WRITE\"]\nflags = []\nsegment_count = 1\nsegment1 {\nstart_extent = 0\nextent_count = 8\n";
    let with = |mode: &str, sectors: u64| {
        let to = format!("{id}{segment}{}", integrity(mode, sectors));
        Made::new("raid1", 2)
            .everywhere(&format!("{id}{segment}{area}"), &to)
            .everywhere("logical_volumes {\n", &format!("logical_volumes {{\n{below}"))
    };
    let volume = with("B", DATA * EXTENT).volume().unwrap();
    assert!(!volume.has_journal());
    let at = |extent: u64| (256 + extent * EXTENT) * 512;
    let pieces: Vec<_> = volume.images[1].data.pieces.iter().map(|p| (p.place, p.bytes)).collect();
    let expected = [(Some((1, at(11))), 3 * EXTENT * 512), (Some((1, at(1))), 5 * EXTENT * 512)];
    assert_eq!(pieces, expected);
    assert!(with("J", DATA * EXTENT).volume().unwrap().has_journal());
    let short = with("B", 100).refusal();
    assert!(short.contains("r_rimage_1 has 51200 bytes; what stands on it needs 524288"), "{short}");
}

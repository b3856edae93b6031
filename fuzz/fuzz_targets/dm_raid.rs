//! A RAID volume whose superblocks and bitmaps are the fuzzer's: what is read is the array of the
//! text, and all images in use agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::take;
use pumice_raid::lvm::dm_raid::Superblock;
use pumice_raid::lvm::group::Group;
use pumice_raid::lvm::text;
use pumice_raid::lvm::volume::{ImageState, Located, PvPlace, RaidVolume};
use pumice_raid::ReadAt;

/// Sectors of an extent, and of what stands in front of the first.
const EXTENT: u64 = 64;
const IMAGES: usize = 4;
const KINDS: [(&str, u64, u32, u32); 4] =
    [("raid1", 8, 1, 0), ("raid5_ls", 24, 5, 2), ("raid6_zr", 16, 6, 8), ("raid10", 16, 10, 258)];

fn group(kind: &str, extents: u64) -> Group {
    let id = |number: usize| format!("{number:06}-0000-0000-0000-0000-0000-000000");
    let (mut physical, mut logical, mut raids) = (String::new(), String::new(), Vec::new());
    let volume = |name: &str, number: usize, extents: u64, segment: &str| {
        format!(
            "{name} {{ id = \"{}\" status = [\"READ\", \"WRITE\", \"REBUILD\"] segment_count = 1\n\
             segment1 {{ start_extent = 0 extent_count = {extents} {segment} }} }}\n",
            id(number)
        )
    };
    for i in 0..IMAGES {
        physical += &format!("pv{i} {{ id = \"{}\" pe_start = {EXTENT} pe_count = 9 }}\n", id(i + 1));
        let at = |extent| format!("type = \"striped\" stripe_count = 1 stripes = [\"pv{i}\", {extent}]");
        logical += &volume(&format!("meta{i}"), 100 + i, 1, &at(0));
        logical += &volume(&format!("image{i}"), 200 + i, 8, &at(1));
        raids.push(format!("\"meta{i}\", \"image{i}\""));
    }
    let raid = format!(
        "type = \"{kind}\" device_count = {IMAGES} stripe_size = 16 region_size = 8 raids = [{}]",
        raids.join(",")
    );
    logical += &volume("r", 300, extents, &raid);
    let text = format!(
        "version = 1 vg {{ id = \"{}\" seqno = 1 extent_size = {EXTENT} physical_volumes {{ {physical} }}\n\
         logical_volumes {{ {logical} }} }}",
        id(0)
    );
    Group::of(&text::parse(text.as_bytes()).expect("the grammar")).expect("a group")
}

fuzz_target!(|data: &[u8]| {
    let _ = Superblock::parse(data);
    let mut rest = data;
    let choice = take(&mut rest);
    let (kind, extents, level, layout) = KINDS[choice as usize % KINDS.len()];
    let group = group(kind, extents);
    let chunk = if kind == "raid1" { 0 } else { 16 };
    let mut devices = vec![vec![0; (10 * EXTENT * 512) as usize]; IMAGES];
    for (role, device) in devices.iter_mut().enumerate() {
        let meta = &mut device[(EXTENT * 512) as usize..];
        meta[..4].copy_from_slice(b"DmRd");
        let words = [
            1,
            4,
            role as u32,
            9,
            0,
            0,
            0,
            !0,
            !0,
            !0,
            !0,
            level,
            layout,
            chunk,
            0,
            !0,
            !0,
            level,
            layout,
            chunk,
        ];
        for (i, word) in words.into_iter().enumerate() {
            meta[4 + 4 * i..8 + 4 * i].copy_from_slice(&word.to_le_bytes());
        }
        meta[4096..4101].copy_from_slice(b"bitm\x04");
    }
    // Changes of four bytes: image, place, value.
    for change in rest.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % 4608;
        devices[usize::from(change[0]) % IMAGES][(EXTENT * 512) as usize + at] = change[3];
    }
    let places: Vec<PvPlace> = (0..IMAGES).map(PvPlace::Device).collect();
    let bytes: Vec<Option<&dyn ReadAt>> = devices.iter().map(|device| Some(device as &dyn ReadAt)).collect();
    let located = Located { group: &group, places: &places, devices: &bytes };
    let r = group.find("r").expect("the volume");
    let Some(Ok(volume)) = RaidVolume::describe(&located, r) else { return };
    assert_eq!(volume.arrangement.level().number() as u32, level);
    assert_eq!(volume.arrangement.array_bytes(), extents * EXTENT * 512);
    assert_eq!(volume.data_offset.get(), 0);
    assert!(volume.in_use().count() > 0);
    for image in volume.in_use() {
        let start = ((EXTENT * 512) as usize, usize::from(image.role.get()));
        let meta = &devices[start.1][start.0..];
        assert_eq!(meta[..4], *b"DmRd");
        assert_eq!(meta[12..16], u32::from(image.role.get()).to_le_bytes());
        assert_eq!(meta[16..24], volume.events.to_le_bytes());
        if let ImageState::Recovering(sectors) = image.state {
            assert!(sectors <= volume.image_sectors);
        }
    }
    let mut end = 0;
    for run in volume.dirty() {
        assert!(run.start < run.end && (end == 0 || run.start > end));
        end = run.end;
    }
    assert!(end <= volume.arrangement.array_bytes() / 512);
});

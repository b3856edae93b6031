use super::*;
use crate::lvm::pieces::{PiecesError, pieces};
use crate::lvm::text;

fn id(number: u32) -> String {
    format!("{number:06}-0000-0000-0000-0000-0000-000000")
}

/// A group with two physical volumes of 10 extents, and these logical volumes.
fn file(volumes: &[(&str, &str)]) -> String {
    let pv =
        |name: &str, number| format!("{name} {{ id = \"{}\" pe_start = 8 pe_count = 10 }}\n", id(number));
    let lv = |(i, (name, segments)): (usize, &(&str, &str))| {
        format!("{name} {{ id = \"{}\" status = [\"READ\"] {segments} }}\n", id(100 + i as u32))
    };
    let volumes: String = volumes.iter().enumerate().map(lv).collect();
    format!(
        "version = 1\nvg {{ id = \"{}\" seqno = 3 extent_size = 8\nphysical_volumes {{ {} {} }}\n\
         logical_volumes {{ {volumes} }} }}",
        id(1),
        pv("pv0", 2),
        pv("pv1", 3)
    )
}

fn group(volumes: &[(&str, &str)]) -> Result<Group, String> {
    let file = text::parse(file(volumes).as_bytes()).expect("the grammar");
    Group::of(&file).map_err(|error| error.to_string())
}

/// A linear segment.
fn linear(number: u32, start: u64, extents: u64, area: &str) -> String {
    format!(
        "segment{number} {{ start_extent = {start} extent_count = {extents} type = \"striped\" stripe_count = 1 \
         stripes = [{area}] }}"
    )
}

fn one(extents: u64, area: &str) -> String {
    format!("segment_count = 1 {}", linear(1, 0, extents, area))
}

#[test]
fn segments_follow_one_another() {
    let two = |second: String| format!("segment_count = 2 {} {second}", linear(1, 0, 3, "\"pv0\", 0"));
    let found = group(&[("a", &two(linear(2, 3, 2, "\"pv1\", 4")))]).unwrap();
    assert_eq!(found.logical[0].extents(), 5);
    let error = |second| group(&[("a", &two(second))]).unwrap_err();
    let words = "text: vg: a: segment2: start_extent is 4; must be 3";
    assert_eq!(error(linear(2, 4, 2, "\"pv1\", 4")), words);
    assert_eq!(error(String::new()), "text: vg: a: segment2 is missing; must be a section");
    let words = "text: vg: a: segment2: extent_count is 0; must be 1 to 18446744073709551615";
    assert_eq!(error(linear(2, 3, 0, "\"pv1\", 4")), words);
    let huge = error(linear(2, 3, u64::MAX, "\"pv1\", 4"));
    assert!(huge.contains("such that bytes fit 64 bits"), "{huge}");
}

#[test]
fn extents_belong_to_one_volume_and_lie_on_theirs() {
    let both = |a: &str, b: &str| group(&[("a", &one(3, a)), ("b", &one(3, b))]);
    assert!(both("\"pv0\", 0", "\"pv0\", 3").is_ok());
    assert!(both("\"pv0\", 0", "\"pv1\", 0").is_ok());
    let words = "text: vg: extent 2 of pv0 is of a and b; must be of one";
    assert_eq!(both("\"pv0\", 0", "\"pv0\", 2").unwrap_err(), words);
    let words = "text: vg: end of a segment of b is 8 + 3; must be at most 10, the extents of pv0";
    assert_eq!(both("\"pv0\", 0", "\"pv0\", 8").unwrap_err(), words);
    assert!(both("\"pv0\", 0", "\"pv0\", 18446744073709551615").is_err());
    let words = "text: vg: b: segment1: stripes is \"pv2\"; must be a logical volume of the group";
    assert_eq!(both("\"pv0\", 0", "\"pv2\", 0").unwrap_err(), words);
}

#[test]
fn ids_occur_once() {
    let text = file(&[("a", &one(1, "\"pv0\", 0")), ("b", &one(1, "\"pv0\", 1"))]);
    let same = text.replace(&id(101), &id(100));
    let error = Group::of(&text::parse(same.as_bytes()).unwrap()).unwrap_err();
    assert!(error.to_string().contains("id of b"), "{error}");
    let same = text.replace(&id(3), &id(2));
    assert!(Group::of(&text::parse(same.as_bytes()).unwrap()).is_err());
}

#[test]
fn a_part_is_of_one_raid_volume() {
    let raid = |parts: &str| {
        format!(
            "segment_count = 1 segment1 {{ start_extent = 0 extent_count = 1 type = \"raid1\" device_count = 2 \
             region_size = 8 raids = [{parts}] }}"
        )
    };
    let area = |i: u64| one(1, &format!("\"pv0\", {i}"));
    let parts: Vec<String> = (0..6).map(area).collect();
    let with = |first: &str, second: &str| {
        let names = ["m0", "i0", "m1", "i1", "i2", "m2"];
        let mut volumes: Vec<(&str, &str)> =
            names.into_iter().zip(parts.iter().map(String::as_str)).collect();
        let (first, second) = (raid(first), raid(second));
        volumes.push(("r", &first));
        volumes.push(("s", &second));
        group(&volumes).map(|_| ())
    };
    let words = with("\"m0\", \"i0\", \"m1\", \"i1\"", "\"m2\", \"i2\", \"m1\", \"i2\"").unwrap_err();
    assert!(words.contains("part of r and s"), "{words}");
    let words = with("\"m0\", \"i0\", \"m1\", \"i0\"", "\"m2\", \"i2\", \"m1\", \"i1\"").unwrap_err();
    assert_eq!(words, "text: vg: i0 is part of r and r; must be part of one RAID volume, once");
    let words = with("\"m0\", \"i0\", \"m1\"", "\"m2\", \"i2\", \"m1\", \"i1\"").unwrap_err();
    assert!(words.contains("raids is a list of 3; must be 2 pairs"), "{words}");
}

/// Chunks of 4 sectors go round over two areas, one of them on another volume.
#[test]
fn striped_volumes_go_round() {
    let striped = |size: u64| {
        format!(
            "segment_count = 1 segment1 {{ start_extent = 0 extent_count = 2 type = \"striped\" stripe_count = 2 \
             stripe_size = {size} stripes = [\"pv0\", 2, \"b\", 1] }}"
        )
    };
    let found = group(&[("a", &striped(4)), ("b", &one(3, "\"pv1\", 5"))]).unwrap();
    let places: Vec<_> = pieces(&found, 0).unwrap().into_iter().map(|p| (p.place, p.bytes)).collect();
    let at = |pv, extent: u64, sectors: u64| (Some((pv, (8 + extent * 8 + sectors) * 512)), 2048);
    assert_eq!(places, [at(0, 2, 0), at(1, 6, 0), at(0, 2, 4), at(1, 6, 4)]);
    let error = group(&[("a", &striped(3)), ("b", &one(3, "\"pv1\", 5"))]).unwrap_err();
    assert!(error.contains("stripe_size of a is 3; must be a divisor of 8"), "{error}");
}

#[test]
fn what_cannot_be_followed_is_named() {
    let other =
        "segment_count = 1 segment1 { start_extent = 0 extent_count = 2 type = \"thin\" thin_pool = \"b\" }";
    let found = group(&[("a", other), ("b", &one(3, "\"c\", 1")), ("c", &one(3, "\"pv1\", 5"))]).unwrap();
    let kind = PiecesError::Kind { volume: "a".to_owned(), kind: "thin".to_owned() };
    assert_eq!(pieces(&found, 0), Err(kind));
    let short = PiecesError::Short { volume: "c".to_owned(), bytes: 3 * 4096, needed: 4 * 4096 };
    assert_eq!(pieces(&found, 1), Err(short));
    let names =
        |volume| found.above(volume).into_iter().map(|i| found.logical[i].name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(2), ["b", "a"]);
    assert_eq!(names(0), Vec::<&str>::new());
    // A circle.
    let round = group(&[("a", &one(3, "\"b\", 0")), ("b", &one(3, "\"a\", 0"))]).unwrap();
    assert_eq!(pieces(&round, 0), Err(PiecesError::Deep));
    assert_eq!(round.above(0), [1]);
    // Each level names the one below twice: a thousand million pieces.
    let twice = |below: &str, extents: u64| {
        let (first, second) = (format!("\"{below}\", 0"), format!("\"{below}\", 0"));
        let half = extents / 2;
        format!("segment_count = 2 {} {}", linear(1, 0, half, &first), linear(2, half, half, &second))
    };
    let fine = format!(
        "segment_count = 1 segment1 {{ start_extent = 0 extent_count = {} type = \"striped\" stripe_count = 2 \
         stripe_size = 1 stripes = [\"e\", 0, \"f\", 0] }}",
        1_u64 << 40
    );
    let nothing = |extents: u64| {
        format!("segment_count = 1 segment1 {{ start_extent = 0 extent_count = {extents} type = \"error\" }}")
    };
    let volumes = [
        ("a", twice("b", 1 << 42)),
        ("b", twice("c", 1 << 41)),
        ("c", fine),
        ("e", nothing(1 << 39)),
        ("f", nothing(1 << 39)),
    ];
    let volumes: Vec<(&str, &str)> = volumes.iter().map(|(name, text)| (*name, text.as_str())).collect();
    assert_eq!(pieces(&group(&volumes).unwrap(), 0), Err(PiecesError::Many));
}

#[test]
fn fields_of_other_kinds_are_named() {
    let good = file(&[("a", &one(1, "\"pv0\", 0"))]);
    let words = |from: &str, to: &str| {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        Group::of(&text::parse(text.as_bytes()).unwrap()).unwrap_err().to_string()
    };
    assert_eq!(words("version = 1", ""), "text: version is missing; must be an integer");
    assert_eq!(words("seqno = 3", "seqno = -3"), "text: vg: seqno is -3; must be an integer");
    assert_eq!(
        words("extent_size = 8", "extent_size = 0"),
        "text: vg: extent_size is 0; must be 1 to 4294967296"
    );
    assert_eq!(
        words("stripe_count = 1", "stripe_count = 129"),
        "text: vg: a: segment1: stripe_count is 129; must be 1 to 128"
    );
    assert_eq!(
        words("pe_count = 10", "pe_count {}"),
        "text: vg: pv0: pe_count is a section; must be a value"
    );
    assert_eq!(
        words("pe_start = 8", "pe_start = 18446744073709551615"),
        "text: vg: pv0: pe_count is 10; must be such that bytes fit 64 bits"
    );
    assert_eq!(
        words("\"pv0\", 0", "0, \"pv0\""),
        "text: vg: a: segment1: stripes is 0; must be pairs of a name and an extent"
    );
    assert_eq!(words("vg {", "odd { } vg {"), "text: section is odd and vg; must be one, the volume group");
    assert!(words(&id(1), "x").starts_with("text: vg: id is x"));
}

//! RAID-1 from outside: the exit code, the first line and the words of copies that differ.

use crate::small_array::{CHUNK, DATA_OFFSET, Made, RAID5, STRIPES, damage, patch, pumice, run, scrub};
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_SPARE};
use serde_json::json;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// An array of so many equal copies, which fill 40 stripes of 64 KiB.
fn mirror(copies: usize) -> Made {
    let mut array = Made::new(RAID5);
    array.members.truncate(copies);
    let mut data = vec![0; STRIPES as usize * CHUNK];
    File::open(&array.members[0]).unwrap().read_exact_at(&mut data, DATA_OFFSET).unwrap();
    for member in &array.members {
        let file = File::options().write(true).open(member).unwrap();
        file.write_all_at(&data, DATA_OFFSET).unwrap();
        patch(member, |s| {
            (s.level, s.layout, s.chunk, s.raid_disks) = (1, 0, 0, copies as u32);
            s.dev_roles[copies..].fill(ROLE_SPARE);
        });
    }
    array
}

fn text(array: &Made) -> (Option<i32>, String) {
    let state = tempfile::tempdir().unwrap();
    let output = scrub(state.path()).args(&array.members).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn two_copies_that_differ_end_with_4_and_stay_as_they_are() {
    let array = mirror(2);
    let (code, words) = text(&array);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("RAID-1 copies, 2 members, stripes of 64 KiB"), "{words}");
    damage(&array, 1, 7, 4096, 100);
    let (code, words) = text(&array);
    assert_eq!(code, Some(4), "{words}");
    assert!(words.starts_with("COPIES DIFFER: 1 finding"), "{words}");
    assert!(words.contains("stripe 7: copies differ (members 0, 1)"), "{words}");
    let place = 7 * CHUNK + 4096;
    assert!(words.contains(&format!("{place} of the array")), "{words}");
    let before: Vec<Vec<u8>> = array.members.iter().map(|member| std::fs::read(member).unwrap()).collect();
    for policy in ["strong", "likely", "parity"] {
        let state = tempfile::tempdir().unwrap();
        let (code, report) = run(state.path(), &["--repair", "--repair-policy", policy], &array.members);
        assert_eq!((code, &report["result"]), (4, &json!("copies_differ")), "{policy}");
        assert_eq!(report["findings"][0]["verdict"], "copies_differ");
        assert_eq!(report["findings"][0]["repaired"], false);
    }
    let after: Vec<Vec<u8>> = array.members.iter().map(|member| std::fs::read(member).unwrap()).collect();
    assert!(before == after, "nothing was written");
}

#[test]
fn what_a_degraded_mirror_can_tell_is_said_of_its_copies() {
    let mut array = mirror(4);
    for (missing, says) in [(3, "3 of 4 copies left in"), (2, "         2 copies left in")] {
        array.members.truncate(missing);
        array.members.iter().for_each(|member| patch(member, |s| s.dev_roles[missing] = ROLE_FAULTY));
        let (code, words) = text(&array);
        assert_eq!(code, Some(0), "{words}");
        assert!(words.contains(says), "{words}");
        assert!(!words.contains("equations left") && !words.contains("not located"), "{words}");
    }
}

#[test]
fn a_copy_against_two_is_named_repaired_and_put_back() {
    let array = mirror(3);
    let whole = std::fs::read(&array.members[0]).unwrap();
    // The first copy, which md would take for the good one.
    damage(&array, 0, 7, 4096, 100);
    let damaged = std::fs::read(&array.members[0]).unwrap();
    let (_, words) = text(&array);
    assert!(words.contains("stripe 7: one copy differs from the others on member 0"), "{words}");
    let state = tempfile::tempdir().unwrap();
    let (code, report) = run(state.path(), &["--repair"], &array.members);
    assert_eq!((code, &report["findings"][0]["repaired"]), (4, &json!(true)));
    assert!(std::fs::read(&array.members[0]).unwrap() == whole);
    assert_eq!(run(state.path(), &[], &array.members).0, 0);
    let mut undo = pumice();
    undo.args(["repairs", "undo", "1", "--state-dir"]).arg(state.path()).args(&array.members);
    let undone = undo.output().unwrap();
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    assert!(std::fs::read(&array.members[0]).unwrap() == damaged);
}

//! `pumice-lab bench flash` from outside.

use crate::program::pumice;
use serde_json::Value;

#[test]
fn a_flash_drive_is_measured_beside_a_plain_file_and_both_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["bench", "flash", "--capacity", "64MiB", "--seconds", "0.05", "--rounds", "1"];
    let measure = |more: &[&str]| {
        let done = pumice().args(words).args(more).arg("--json").arg(folder.path()).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something is left");
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    let none = folder.path().join("none");
    let refused = pumice().args(words).arg(&none).output().unwrap();
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && why.contains(none.to_str().unwrap()), "{why}");
    let half = measure(&["--dedup", "inline"]);
    assert!(half["hash_bytes_per_s"].as_f64().unwrap() > 0.0);
    assert!(half["hash_many_bytes_per_s"].as_f64().unwrap() > 0.0);
    let full = measure(&["--full", "--op", "28"]);
    assert!(full["hash_bytes_per_s"].is_null() && full["hash_many_bytes_per_s"].is_null());
    for document in [&half, &full] {
        let of_hash = |case: &Value| case["ratio_to_hash"].is_number();
        let hashed: Vec<bool> = document["cases"].as_array().unwrap().iter().map(of_hash).collect();
        let inline = document["dedup"] == "inline";
        assert_eq!(hashed, [inline, inline, false, false, false, false]);
    }
    // A fast machine writes more pages in this time than half of the drive has, so a few are moved.
    for (document, most) in [(half, 1.5), (full, f64::INFINITY)] {
        let cases = document["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 6);
        for case in cases {
            let number = |name: &str| case[name].as_f64().unwrap_or_else(|| panic!("{name} of {case}"));
            assert!(number("plain_per_s") > 0.0 && number("flash_per_s") > 0.0);
            let reads = case["io"].as_str().unwrap().ends_with("read");
            assert_eq!(case["write_amplification"].is_null(), reads, "{case}");
            if !reads {
                let writes = number("write_amplification");
                assert!((1.0..=most).contains(&writes), "{case}: pages that differ, half of the room");
            }
        }
    }
}

#[test]
fn a_flash_drive_in_memory_is_measured_without_files() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["bench", "flash", "--memory", "--capacity", "64MiB", "--seconds", "0.05", "--rounds", "1"];
    let bench = |more: &[&str]| {
        let done = pumice().args(words).args(more).current_dir(folder.path()).output().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something is left");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    };
    let (code, out, why) = bench(&["--dedup", "inline", "--case", "1", "--json"]);
    assert_eq!(code, 0, "{why}");
    let document: Value = serde_json::from_str(&out).unwrap();
    let case = &document["cases"][0];
    assert_eq!((&document["memory"], &case["io"]), (&true.into(), &"sequential write".into()));
    assert!(case["flash_per_s"].as_f64().unwrap() > 0.0);
    assert!(case["ratio_to_hash"].as_f64().unwrap() > 0.0);
    assert!(case["write_amplification"].as_f64().unwrap() >= 1.0);
    let (code, out, why) = bench(&["--dedup", "inline", "--case", "1"]);
    assert!(code == 0 && out.contains("of the hash") && out.contains("Fingerprints alone"), "{out}{why}");
    let (code, out, why) = bench(&["--case", "1"]);
    assert!(code == 0 && !out.contains("of the hash"), "{out}{why}");
    // One of both, or neither.
    let (code, _, why) = bench(&["."]);
    assert!(code == 2 && why.contains("--memory"), "{why}");
    let done = pumice().args(["bench", "flash"]).output().unwrap();
    let why = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.code() == Some(2) && why.contains("FOLDER"), "{why}");
}

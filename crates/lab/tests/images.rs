//! Arrays that Linux itself wrote, on pretended nodes; `PUMICE_MD_IMAGES` names their folder.

#[path = "../../cli/tests/images/unpacked.rs"]
mod unpacked;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use unpacked::{apply, members, patches, unpacked};

const METHODS: [&str; 4] = ["host", "stripe", "aggregate", "fingerprint"];

fn scrub(state: &Path, method: &str, members: &[PathBuf]) -> (i32, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice-lab"));
    command.args(["scrub", "--json", "--nodes", "3", "--method", method, "--state-dir"]).arg(state);
    let output = command.args(members).output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {why}"));
    (output.status.code().unwrap(), json)
}

#[test]
fn every_image_is_clean_by_every_method() {
    let Some((_, images)) = unpacked() else { return };
    let state = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(images.path()).unwrap() {
        let folder = entry.unwrap().path();
        let members = members(&folder);
        for method in METHODS {
            let (code, json) = scrub(state.path(), method, &members);
            let name = folder.display();
            assert_eq!((code, json["result"].as_str()), (0, Some("clean")), "{name} {method}");
            assert_eq!(json["stripes_checked"], json["array"]["stripes"], "{name} {method}");
        }
        count += 1;
    }
    assert!(count > 0, "there are images");
}

#[test]
fn known_damage_is_found_by_every_method() {
    let Some((source, images)) = unpacked() else { return };
    let state = tempfile::tempdir().unwrap();
    for case in fs::read_dir(source.join("corrupt")).unwrap() {
        let case = case.unwrap().path();
        let (array, patches) = patches(&case);
        let folder = images.path().join(&array);
        let members = members(&folder);
        let before: Vec<Vec<u8>> = members.iter().map(|member| fs::read(member).unwrap()).collect();
        patches.iter().for_each(|patch| apply(&folder, patch));
        for method in METHODS {
            let (code, json) = scrub(state.path(), method, &members);
            assert_eq!(code, 1, "{} {method}", case.display());
            let chunk = json["array"]["chunk_bytes"].as_u64().unwrap();
            for patch in &patches {
                let (stripe, at) = ((patch.offset - (1 << 20)) / chunk, (patch.offset - (1 << 20)) % chunk);
                let found = json["findings"].as_array().unwrap().iter().find(|f| f["stripe"] == stripe);
                let found = found.unwrap_or_else(|| panic!("{} {method}: stripe {stripe}", case.display()));
                assert_eq!((&found["chunk_offset"], &found["length"]), (&at.into(), &patch.len.into()));
            }
        }
        members.iter().zip(&before).for_each(|(member, bytes)| fs::write(member, bytes).unwrap());
    }
}

//! The images and their damage, as the folder of `PUMICE_MD_IMAGES` has them.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The images, unpacked; `None` (said aloud) where there are none.
pub(crate) fn unpacked() -> Option<(PathBuf, tempfile::TempDir)> {
    let Some(folder) = std::env::var_os("PUMICE_MD_IMAGES").map(PathBuf::from) else {
        eprintln!("SKIPPED: PUMICE_MD_IMAGES is not set, so no array written by Linux is tested");
        return None;
    };
    let target = tempfile::tempdir().unwrap();
    let done = Command::new(folder.join("unpack.sh")).arg(target.path()).status().unwrap();
    assert!(done.success(), "the images unpack");
    Some((folder, target))
}

pub(crate) fn members(folder: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "raw"))
        .collect();
    out.sort();
    out
}

/// One line of a damage case.
pub(crate) struct Patch {
    pub(crate) member: String,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) flip: bool,
}

pub(crate) fn patches(case: &Path) -> (String, Vec<Patch>) {
    let text = fs::read_to_string(case.join("patch.txt")).unwrap();
    let mut lines = text.lines();
    let source = lines.next().unwrap().split_whitespace().nth(1).unwrap().to_owned();
    let patches = lines.map(|line| {
        let json: Value = serde_json::from_str(line).unwrap();
        Patch {
            member: json["member"].as_str().unwrap().to_owned(),
            offset: json["offset"].as_u64().unwrap(),
            len: json["len"].as_u64().unwrap() as usize,
            flip: json["mode"] == "flip1",
        }
    });
    (source, patches.collect())
}

pub(crate) fn apply(folder: &Path, patch: &Patch) {
    let path = folder.join(&patch.member);
    let mut bytes = fs::read(&path).unwrap();
    let range = &mut bytes[patch.offset as usize..][..patch.len];
    for (i, byte) in range.iter_mut().enumerate() {
        // Every byte becomes another, without a pattern that two members would share.
        let change = (i as u64).wrapping_mul(patch.offset | 1).wrapping_add(7) as u8;
        *byte ^= if patch.flip { 1 } else { change.max(1) };
    }
    fs::write(&path, bytes).unwrap();
}

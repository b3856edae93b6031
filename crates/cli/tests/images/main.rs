//! Arrays that Linux itself wrote, where somebody has put them: `PUMICE_MD_IMAGES` names the
//! folder.

mod lvm;
mod unpacked;

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use unpacked::{apply, members, patches, unpacked};

const METHODS: [&str; 4] = ["host", "stripe", "aggregate", "fingerprint"];

fn pumice(state: &Path, args: &[&str], members: &[PathBuf]) -> (i32, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.args(args);
    if args[0] == "scrub" {
        command.arg("--state-dir").arg(state);
    }
    let output = command.arg("--json").args(members).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let json =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"));
    (output.status.code().unwrap(), json)
}

/// The words of `mdadm --examine` for a field of the first member.
fn examined(folder: &Path, field: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join("examine-stopped.txt")).unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with(field))?;
    Some(line.split_once(" : ")?.1.trim().to_owned())
}

#[test]
fn every_image_inspects_as_mdadm_says_and_scrubs_clean_by_every_method() {
    let Some((source, images)) = unpacked() else { return };
    let state = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(images.path()).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let about = source.join(&name);
        let members = members(&folder);
        let (code, json) = pumice(state.path(), &["inspect"], &members);
        assert_eq!(code, 0, "{name}");
        let array = &json["arrays"][0];
        let uuid = examined(&about, "Array UUID").or_else(|| examined(&about, "UUID")).unwrap();
        assert_eq!(array["uuid"], uuid.split_whitespace().next().unwrap(), "{name}");
        let level = examined(&about, "Raid Level").unwrap();
        assert_eq!(array["level"].to_string(), level.trim_start_matches("raid"), "{name}");
        assert_eq!(array["layout"].as_str().map(str::to_owned), examined(&about, "Layout"), "{name}");
        let version = examined(&about, "Version").unwrap();
        assert_eq!(array["metadata"], version.trim_end_matches(".00"), "{name}");
        assert_eq!(array["raid_disks"].to_string(), examined(&about, "Raid Devices").unwrap(), "{name}");
        let chunk = examined(&about, "Chunk Size").unwrap();
        let chunk: u64 = chunk.trim_end_matches('K').parse().unwrap();
        assert_eq!(array["chunk_bytes"], chunk * 1024, "{name}");
        assert_eq!(array["members"][0]["events"].to_string(), examined(&about, "Events").unwrap(), "{name}");
        assert_eq!(array["state"], "clean", "{name}");
        assert_eq!(array["problems"].as_array().unwrap().len(), 0, "{name}");
        for method in METHODS {
            let (code, json) = pumice(state.path(), &["scrub", "--method", method], &members);
            assert_eq!((code, json["result"].as_str()), (0, Some("clean")), "{name} {method}");
            assert_eq!(json["stripes_checked"], json["array"]["stripes"], "{name} {method}");
        }
        count += 1;
    }
    assert!(count > 0, "there are images");
}

fn sha256(path: &Path) -> String {
    Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn known_damage_is_found_by_every_method_and_repaired_where_it_is_located() {
    let Some((source, images)) = unpacked() else { return };
    let state = tempfile::tempdir().unwrap();
    for case in fs::read_dir(source.join("corrupt")).unwrap() {
        let case = case.unwrap().path();
        let (array, patches) = patches(&case);
        let folder = images.path().join(&array);
        let members = members(&folder);
        let before: Vec<Vec<u8>> = members.iter().map(|m| fs::read(m).unwrap()).collect();
        patches.iter().for_each(|patch| apply(&folder, patch));
        for method in METHODS {
            let (code, json) = pumice(state.path(), &["scrub", "--method", method], &members);
            assert_eq!(code, 1, "{} {method}", case.display());
            for patch in &patches {
                let chunk = json["array"]["chunk_bytes"].as_u64().unwrap();
                let stripe = (patch.offset - (1 << 20)) / chunk;
                let at = (patch.offset - (1 << 20)) % chunk;
                let found = json["findings"].as_array().unwrap().iter().find(|f| f["stripe"] == stripe);
                let found = found.unwrap_or_else(|| panic!("{} {method}: stripe {stripe}", case.display()));
                assert_eq!((&found["chunk_offset"], &found["length"]), (&at.into(), &patch.len.into()));
                assert_ne!(found["certainty"], "proven");
            }
        }
        for (member, bytes) in members.iter().zip(&before) {
            fs::write(member, bytes).unwrap();
        }
        // One at a time, each is repaired to the byte; RAID-5 cannot say which member it is.
        let sums = fs::read_to_string(source.join(&array).join("members.sha256")).unwrap();
        for patch in &patches {
            apply(&folder, patch);
            let (code, json) = pumice(state.path(), &["scrub", "--repair"], &members);
            assert_eq!(code, 1);
            let finding = &json["findings"][0];
            if json["array"]["level"] == 5 {
                assert_eq!((&finding["verdict"], &finding["repaired"]), (&"unlocated".into(), &false.into()));
                fs::write(folder.join(&patch.member), &before[0]).unwrap();
                break;
            }
            let role = patch.member.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap();
            assert_eq!((&finding["member"], &finding["repaired"]), (&role.into(), &true.into()));
            assert_eq!(finding["device_offset"], patch.offset);
            for member in &members {
                let line = format!("{}  {}", sha256(member), member.file_name().unwrap().to_string_lossy());
                assert!(sums.contains(&line), "{} after repair", member.display());
            }
        }
    }
}

/// Gives a member written tags of all that it holds, and returns how a scrub names it.
fn protect(member: &Path) -> PathBuf {
    use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options};
    use std::sync::Arc;
    let tags = member.with_extension("tags");
    let drive = Arc::new(FileDevice::open(member, OpenMode::ReadWrite, Options::default()).unwrap());
    let guard = pumice_protect::guard::Guard::Crc16;
    let (medium, made) = pumice_tags::open_place(&tags, &*drive, 512, guard, "").unwrap();
    assert!(made);
    let tagged = pumice_tags::TaggedDevice::open(drive, medium, "").unwrap();
    for (i, piece) in fs::read(member).unwrap().chunks(1 << 20).enumerate() {
        tagged.write_at((i as u64) << 20, piece).unwrap();
    }
    tagged.close().unwrap();
    format!("{},pi=16,tags={}", member.display(), tags.display()).into()
}

/// Damage of one member and of two in a stripe, in arrays that Linux made, on drives with written
/// tags: the right member is proven, in RAID-5 too, and every byte comes back.
#[test]
fn damage_on_drives_with_written_tags_is_proven_and_repaired() {
    let Some((source, images)) = unpacked() else { return };
    let state = tempfile::tempdir().unwrap();
    for case in fs::read_dir(source.join("corrupt")).unwrap() {
        let case = case.unwrap().path();
        let (array, patches) = patches(&case);
        let folder = images.path().join(&array);
        let members = members(&folder);
        let sums = contents(&members);
        let names: Vec<PathBuf> = members.iter().map(|member| protect(member)).collect();
        patches.iter().for_each(|patch| apply(&folder, patch));
        let role = |name: &str| name.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap();
        for method in METHODS {
            let (code, json) = pumice(state.path(), &["scrub", "--method", method], &names);
            assert_eq!(code, 1, "{} {method}", case.display());
            let findings = json["findings"].as_array().unwrap();
            for patch in &patches {
                let chunk = json["array"]["chunk_bytes"].as_u64().unwrap();
                let (stripe, at) = ((patch.offset - (1 << 20)) / chunk, (patch.offset - (1 << 20)) % chunk);
                let covers = |f: &&Value| {
                    let (start, length) =
                        (f["chunk_offset"].as_u64().unwrap(), f["length"].as_u64().unwrap());
                    let named = f["member"] == role(&patch.member)
                        || f["members"].as_array().unwrap().contains(&role(&patch.member).into());
                    f["stripe"] == stripe && named && start <= at && at < start + length
                };
                let found = findings.iter().find(covers);
                let found = found.unwrap_or_else(|| panic!("{} {method}: {findings:?}", case.display()));
                assert_eq!(found["certainty"], "proven", "{found}");
                assert_eq!(found["witness"]["says"], "convicts", "{found}");
            }
        }
        let (code, json) = pumice(state.path(), &["scrub", "--repair"], &names);
        let repaired = json["findings"].as_array().unwrap().iter().all(|f| f["repaired"] == true);
        assert!(code == 1 && repaired, "{}: {json}", case.display());
        assert_eq!(contents(&members), sums, "{}", case.display());
        let (code, json) = pumice(state.path(), &["scrub"], &names);
        assert_eq!((code, json["result"].as_str()), (0, Some("clean")), "{}", case.display());
        assert!(json["tags"]["written"].as_u64() > Some(0) && json["tags"]["unchecked"] == 0);
        members.iter().for_each(|member| fs::remove_file(member.with_extension("tags")).unwrap());
    }
}

fn contents(members: &[PathBuf]) -> Vec<[u8; 32]> {
    members.iter().map(|path| Sha256::digest(fs::read(path).unwrap()).into()).collect()
}

/// P and Q of a stripe, of which only one data block is not zero, filled alike: the data block
/// looks damaged.
#[test]
fn filled_parity_does_not_cost_the_data() {
    use std::os::unix::fs::FileExt;
    let Some((_, images)) = unpacked() else { return };
    let state = tempfile::tempdir().unwrap();
    let members = members(&images.path().join("r6-ls-6d-64k-v1.2"));
    for member in [3, 4] {
        let file = fs::File::options().write(true).open(&members[member]).unwrap();
        file.write_all_at(&[0xFF; 4096], 3_940_352).unwrap();
    }
    let before = contents(&members);
    let (code, json) = pumice(state.path(), &["scrub", "--repair"], &members);
    assert_eq!(code, 1);
    assert_eq!(contents(&members), before, "nothing is written");
    let finding = &json["findings"][0];
    assert_eq!((finding["member"].as_u64(), finding["strength"].as_str()), (Some(5), Some("weak")));
    let pq = serde_json::json!([3, 4]);
    let alternatives = finding["alternatives"].as_array().unwrap();
    let fill = |a: &&Value| a["members"] == pq && a["reason"].as_str().unwrap().contains("constant");
    assert!(alternatives.iter().any(|a| fill(&a)), "{alternatives:?}");
}

/// Two members whose data areas are exchanged: nothing is written, and the exchange is named.
#[test]
fn exchanged_members_are_named_and_left_alone() {
    let Some((_, images)) = unpacked() else { return };
    let state = tempfile::tempdir().unwrap();
    let members = members(&images.path().join("r6-ls-6d-64k-v1.2"));
    let (mut a, mut b) = (fs::read(&members[1]).unwrap(), fs::read(&members[2]).unwrap());
    a[1 << 20..].swap_with_slice(&mut b[1 << 20..]);
    fs::write(&members[1], a).unwrap();
    fs::write(&members[2], b).unwrap();
    let before = contents(&members);
    let (code, json) = pumice(state.path(), &["scrub", "--repair"], &members);
    assert_eq!(code, 1);
    assert_eq!(contents(&members), before, "nothing is written");
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.len() > 50, "{}", findings.len());
    let pair = serde_json::json!([1, 2]);
    let exchange = |a: &Value| a["members"] == pair && a["reason"].as_str().unwrap().contains("exchanged");
    let named =
        findings.iter().filter(|f| f["alternatives"].as_array().unwrap().iter().any(exchange)).count();
    assert!(named > findings.len() / 2, "{named} of {}", findings.len());
}

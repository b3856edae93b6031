//! Arrays made by Linux: what is read from them against what mdadm says of them, and their content
//! against its hash.
//!
//! The images are large and not in the repository. `PUMICE_MD_IMAGES` names a folder with one
//! folder for each array (`examine-stopped.txt`, which is `mdadm --examine` of all members, and
//! `array.txt`, sectors and SHA-256 of the array's content) and a program `unpack.sh DEST` that
//! writes the members to `DEST/ARRAY/m0.raw`, `m1.raw`, …

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use pumice_base::units::{Role, StripeIndex};
use pumice_parity::gf;
use pumice_raid::assembly::State;
use pumice_raid::plan::{Extent, Treatment};
use pumice_raid::superblock::Position;
use pumice_raid::{Array, InspectReport, MemberRecord, Metadata, ReadAt, assemble, probe};
use sha2::{Digest, Sha256};

struct Image(File);

impl ReadAt for Image {
    fn size_bytes(&self) -> u64 {
        self.0.metadata().unwrap().len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }
}

/// An array: what was written down of it, and its members.
struct Set {
    /// `examine-stopped.txt`, `array.txt`.
    about: PathBuf,
    /// `m0.raw`, `m1.raw`, …
    members: PathBuf,
}

/// The arrays, unpacked once for all tests; none, said aloud, where nobody has put them.
fn images() -> &'static [Set] {
    static SETS: OnceLock<Vec<Set>> = OnceLock::new();
    SETS.get_or_init(|| {
        let Some(folder) = std::env::var_os("PUMICE_MD_IMAGES").map(PathBuf::from) else {
            eprintln!("SKIPPED: PUMICE_MD_IMAGES is not set, no real array is tried");
            return Vec::new();
        };
        // Kept between runs, and written anew by each.
        let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("md-images");
        let done = Command::new(folder.join("unpack.sh")).arg(&unpacked).status().unwrap();
        assert!(done.success(), "the images unpack");
        let mut found: Vec<Set> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|about| about.join("examine-stopped.txt").exists())
            .map(|about| Set { members: unpacked.join(about.file_name().unwrap()), about })
            .collect();
        found.sort_by(|a, b| a.about.cmp(&b.about));
        assert!(!found.is_empty(), "no array in {}", folder.display());
        found
    })
}

fn members(folder: &Path) -> Vec<Image> {
    let paths = (0..).map(|i| folder.join(format!("m{i}.raw")));
    paths.take_while(|path| path.exists()).map(|path| Image(File::open(path).unwrap())).collect()
}

fn records(members: &[Image]) -> Vec<(String, MemberRecord)> {
    members
        .iter()
        .enumerate()
        .map(|(i, image)| (format!("m{i}"), probe(image).unwrap().expect("a superblock")))
        .collect()
}

/// The value of `key` in one device's part of the text.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix(": "))
}

#[test]
fn superblocks_say_what_mdadm_says() {
    for Set { about, members: folder } in images() {
        let text = fs::read_to_string(about.join("examine-stopped.txt")).unwrap();
        let parts: Vec<&str> = text.split("/dev/vd").filter(|part| part.contains("Magic")).collect();
        let records = records(&members(folder));
        assert_eq!(parts.len(), records.len(), "{}", folder.display());
        for (part, (device, record)) in parts.iter().zip(&records) {
            let s = &record.superblock;
            let place = format!("{} {device}", folder.display());
            let number = |key| value(part, key).map(|v| v.split(' ').next().unwrap().parse::<u64>().unwrap());
            let version = value(part, "Version").unwrap();
            assert!(version.starts_with(&s.metadata.to_string()), "{place}: {version}");
            let uuid = value(part, "Array UUID").or_else(|| value(part, "UUID")).unwrap();
            assert_eq!(s.array_uuid.to_string(), uuid, "{place}");
            assert_eq!(
                s.device_uuid.map(|u| u.to_string()).as_deref(),
                value(part, "Device UUID"),
                "{place}"
            );
            assert_eq!(value(part, "Raid Level").unwrap(), s.level.to_string(), "{place}");
            assert_eq!(value(part, "Layout"), s.layout.map(|l| l.to_string()).as_deref(), "{place}");
            assert_eq!(value(part, "Chunk Size").unwrap(), format!("{}K", s.chunk_bytes() / 1024), "{place}");
            assert_eq!(number("Raid Devices"), Some(u64::from(s.raid_disks)), "{place}");
            assert_eq!(number("Events"), Some(s.events), "{place}");
            assert_eq!(value(part, "State"), Some("clean"), "{place}");
            if let Some(name) = value(part, "Name") {
                assert_eq!(s.name, name.split("  ").next().unwrap(), "{place}");
            }
            if s.metadata != Metadata::V0_90 {
                assert_eq!(number("Super Offset"), Some(s.super_offset.get()), "{place}");
                assert_eq!(number("Avail Dev Size"), Some(s.data_size.get()), "{place}");
                assert_eq!(number("Data Offset").unwrap_or(0), s.data_offset.get(), "{place}");
                let role = value(part, "Device Role").unwrap().strip_prefix("Active device ").unwrap();
                assert_eq!(s.position(), Position::Active(Role(role.parse().unwrap())), "{place}");
                let log = value(part, "Bad Block Log").is_some();
                assert_eq!(s.bad_block_log.is_some(), log, "{place}");
                assert_eq!(record.bitmap.is_some(), value(part, "Internal Bitmap").is_some(), "{place}");
            }
        }
    }
}

/// The array's content in order, through the geometry.
fn content(array: &Array, members: &[Image], mut each: impl FnMut(&[u8])) {
    let geometry = array.geometry().parity().unwrap();
    let chunk = geometry.chunk_bytes();
    let mut buf = vec![0; chunk as usize];
    for at in (0..geometry.array_bytes()).step_by(chunk as usize) {
        let place = geometry.locate(at).unwrap();
        assert_eq!(geometry.array_offset(place.stripe, place.role, place.offset), Some(at));
        let member = array.member(place.role).unwrap();
        let image: usize = member.device[1..].parse().unwrap();
        let offset = member.data_offset_bytes() + geometry.chunk_offset(place.stripe);
        members[image].read_exact_at(offset, &mut buf).unwrap();
        each(&buf);
    }
}

#[test]
fn content_has_its_hash_and_every_parity_row_holds() {
    for Set { about, members: folder } in images() {
        let members = members(folder);
        let array = assemble(records(&members)).unwrap();
        let place = folder.display();
        assert_eq!(array.state(), State::Clean, "{place}");
        assert_eq!(array.notes(), [], "{place}");
        let geometry = *array.geometry().parity().unwrap();
        let whole = Extent { stripes: 0..geometry.stripes(), kind: Treatment::Check };
        assert_eq!(array.plan(0..u64::MAX).collect::<Vec<_>>(), [whole], "{place}");

        let text = fs::read_to_string(about.join("array.txt")).unwrap();
        let sectors: u64 = text.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(geometry.array_bytes(), sectors * 512, "{place}");
        let mut hash = Sha256::new();
        content(&array, &members, |bytes| hash.update(bytes));
        let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(text.lines().nth(1).unwrap().split(' ').next().unwrap(), hex, "{place}");
        check_parity(&array, &members);
    }
}

/// The first 16 bytes of every chunk row, by every parity row; few of them all zero.
fn check_parity(array: &Array, members: &[Image]) {
    let geometry = array.geometry().parity().unwrap();
    let mut busy = 0;
    for stripe in (0..geometry.stripes()).map(StripeIndex) {
        let mut sums = vec![[0_u8; 16]; usize::from(geometry.level().parities())];
        for role in (0..geometry.raid_disks()).map(Role) {
            let member = array.member(role).unwrap();
            let image: usize = member.device[1..].parse().unwrap();
            let mut bytes = [0; 16];
            let offset = member.data_offset_bytes() + geometry.chunk_offset(stripe);
            members[image].read_exact_at(offset, &mut bytes).unwrap();
            busy += usize::from(bytes != [0; 16]);
            for (sum, row) in sums.iter_mut().zip(geometry.check_rows(stripe)) {
                for (s, x) in sum.iter_mut().zip(bytes) {
                    *s ^= gf::mul(row[role.index()], x);
                }
            }
        }
        assert!(sums.iter().all(|sum| *sum == [0; 16]), "{} stripe {stripe}", array.name());
    }
    assert!(busy > 20, "only {busy} chunks hold data");
}

#[test]
fn broken_sets_are_described_and_not_assembled() {
    let mut last: Option<Vec<(String, MemberRecord)>> = None;
    for Set { members: folder, .. } in images() {
        let records = records(&members(folder));
        let place = folder.display();
        let one_less = records[1..].to_vec();
        let report =
            InspectReport::new(one_less.iter().map(|(d, r)| (d.clone(), Ok(Some(r.clone())))).collect());
        let report = report.unwrap();
        let raid6 = report.level.parities() == 2;
        assert_eq!(assemble(one_less).is_ok(), raid6, "{place}");
        assert_eq!(report.is_whole(), raid6, "{place}");
        assert_eq!(report.state, if raid6 { State::Degraded } else { State::Incomplete }, "{place}");
        let mut twice = records.clone();
        twice.push(("again".to_owned(), records[0].1.clone()));
        let message = assemble(twice).unwrap_err().to_string();
        assert!(message.contains("m0 and again"), "{place}: {message}");
        if let Some(mut mixed) = last.replace(records.clone()) {
            let (foreign, _) = mixed.swap_remove(0);
            let record = records[0].1.clone();
            mixed.push((foreign, record));
            let message = assemble(mixed).unwrap_err().to_string();
            assert!(message.contains("m0 belongs to another array"), "{place}: {message}");
        }
    }
}

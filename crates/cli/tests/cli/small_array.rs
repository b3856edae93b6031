//! A small array in files, made by our own writer: five members, data that differs from chunk to
//! chunk, parity.

pub(crate) use crate::program::pumice;

use pumice_base::units::{Role, StripeIndex};
use pumice_parity::gf;
use pumice_raid::journal::{data_entry, meta_block};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::{ROLE_JOURNAL, V1};
use pumice_raid::{FormatSpec, Metadata, Uuid};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const DISKS: usize = 5;
pub(crate) const STRIPES: u64 = 40;
pub(crate) const CHUNK: usize = 64 << 10;
pub(crate) const DATA_OFFSET: u64 = 1 << 20;
/// Place of a member's superblock, in bytes.
pub(crate) const SUPERBLOCK: u64 = 4096;
pub(crate) const RAID5: Level = Level::Raid5;
pub(crate) const RAID6: Level = Level::Raid6;

/// An array in a folder that goes when it does.
pub(crate) struct Made {
    pub(crate) folder: tempfile::TempDir,
    /// By role: `member0`, `member1`, …
    pub(crate) members: Vec<PathBuf>,
}

fn byte(stripe: u64, index: usize, at: usize) -> u8 {
    ((stripe as usize * 31 + index * 101 + at * 7 + at / 512) % 251) as u8
}

impl Made {
    pub(crate) fn new(level: Level) -> Self {
        let component = STRIPES * CHUNK as u64;
        let format = FormatSpec {
            metadata: Metadata::V1_2,
            level,
            layout: Some(Layout::LeftSymmetric),
            chunk_bytes: CHUNK as u64,
            component_bytes: Some(component),
            device_bytes: vec![DATA_OFFSET + component; DISKS],
            array_uuid: Uuid([level.parities() as u8 + 1; 16]),
            device_uuids: (0..DISKS).map(|i| Uuid([i as u8 * 16 + level.parities() as u8; 16])).collect(),
            name: "test:small".to_owned(),
            ctime: 1_700_000_000,
            bitmap: false,
            bad_block_log: true,
            data_offset: Some(DATA_OFFSET),
        }
        .format()
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let members: Vec<PathBuf> = (0..DISKS).map(|i| folder.path().join(format!("member{i}"))).collect();
        let files: Vec<File> = members.iter().map(|path| File::create_new(path).unwrap()).collect();
        for (file, member) in files.iter().zip(&format.members) {
            file.set_len(DATA_OFFSET + component).unwrap();
            for (offset, bytes) in &member.writes {
                file.write_all_at(bytes, *offset).unwrap();
            }
        }
        for stripe in (0..STRIPES).map(StripeIndex) {
            let (p, q) = format.geometry.parity_roles(stripe);
            let parity: Vec<Role> = std::iter::once(p).chain(q).collect();
            let mut chunks = vec![vec![0_u8; CHUNK]; DISKS];
            for role in (0..DISKS).filter(|role| !parity.contains(&Role(*role as u16))) {
                chunks[role].iter_mut().enumerate().for_each(|(at, b)| *b = byte(stripe.0, role, at));
            }
            // P enters the first row only, Q the second, each with the coefficient 1: it is what
            // makes its row zero.
            for (row, role) in format.geometry.check_rows(stripe).iter().zip(&parity) {
                let mut sum = vec![0; CHUNK];
                for (chunk, c) in chunks.iter().zip(row) {
                    sum.iter_mut().zip(chunk).for_each(|(s, b)| *s ^= gf::mul(*c, *b));
                }
                chunks[role.index()] = sum;
            }
            let at = DATA_OFFSET + format.geometry.chunk_offset(stripe);
            files.iter().zip(&chunks).for_each(|(file, chunk)| file.write_all_at(chunk, at).unwrap());
        }
        Self { folder, members }
    }
}

/// Sectors of a journal's ring.
const RING: u64 = 512;

impl Made {
    /// Gives the array a write journal on a device of its own, which holds one block of data of
    /// each of some stripes.
    pub(crate) fn add_journal(&self, stripe_bytes: u64, stripes: &[u64]) -> PathBuf {
        let path = self.folder.path().join("journal");
        for member in &self.members {
            patch(member, |s| {
                s.feature_map |= Features::JOURNAL;
                s.dev_roles[DISKS] = ROLE_JOURNAL;
            });
        }
        let mut head = vec![0; DATA_OFFSET as usize];
        File::open(&self.members[0]).unwrap().read_exact_at(&mut head, 0).unwrap();
        let file = File::create_new(&path).unwrap();
        file.set_len(DATA_OFFSET + RING * 512).unwrap();
        file.write_all_at(&head, 0).unwrap();
        let mut uuid = [0; 16];
        patch(&path, |s| {
            s.dev_number = DISKS as u32;
            s.device_uuid = [0xEE; 16];
            (s.data_size, s.recovery_offset, uuid) = (RING, 0, s.set_uuid);
        });
        let list: Vec<u8> = stripes.iter().flat_map(|s| data_entry(s * stripe_bytes / 512)).collect();
        file.write_all_at(&meta_block(Uuid(uuid), 1, 0, &list), DATA_OFFSET).unwrap();
        path
    }
}

/// Asserts that a command ends with status 2, and gives what it says of that.
pub(crate) fn refusal(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{command:?}: {message}");
    message
}

/// `pumice scrub`, without progress.
pub(crate) fn scrub(state: &Path) -> Command {
    let mut command = pumice();
    // A short time to settle: who writes in these tests is never short of processors for long.
    command.args(["scrub", "--quiet", "--settle", "500ms", "--state-dir"]).arg(state);
    command
}

/// Rewrites a member's superblock, with a checksum that fits.
pub(crate) fn patch(member: &Path, change: impl FnOnce(&mut V1)) {
    let file = File::options().read(true).write(true).open(member).unwrap();
    let mut bytes = vec![0; 4096];
    file.read_exact_at(&mut bytes, SUPERBLOCK).unwrap();
    let mut superblock = V1::decode(&bytes, Metadata::V1_2).unwrap();
    change(&mut superblock);
    file.write_all_at(&superblock.encode(), SUPERBLOCK).unwrap();
}

/// Changes bytes of a chunk.
pub(crate) fn damage(array: &Made, role: usize, stripe: u64, at: usize, len: usize) {
    let file = File::options().read(true).write(true).open(&array.members[role]).unwrap();
    let place = DATA_OFFSET + stripe * CHUNK as u64 + at as u64;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, place).unwrap();
    // An error of many values: strong evidence.
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte ^= 0xA5_u8.wrapping_add((i as u8).wrapping_mul(58));
    }
    file.write_all_at(&bytes, place).unwrap();
}

/// `pumice scrub --json` of members: its exit code, and its document.
pub(crate) fn run(state: &Path, options: &[&str], members: &[PathBuf]) -> (i32, Value) {
    let output = scrub(state).arg("--json").args(options).args(members).output().unwrap();
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), value)
}

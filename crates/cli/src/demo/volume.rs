//! `pumice demo --volume`: the life of a volume: written, degraded, rebuilt, scrubbed.

use crate::devices::{Placement, assemble_from, place};
use crate::progress::Silent;
use crate::text::{print, print_json};
use pumice_base::units::{Role, format_decimal};
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options as FileOptions};
use pumice_executor::{CreateSpec, MemberDrive, OpenOptions, ServedVolume, Status, create, open};
use pumice_host::scrub::{Options, run as run_pass};
use pumice_host::stop::Stop;
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId};
use pumice_raid::layout::{Layout, Level};
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::probing::probe_all;
use pumice_service::state::fresh_seed;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DRIVES: usize = 6;
/// Bytes of a drive.
const DRIVE: u64 = 20 << 20;
const CHUNK: u64 = 64 << 10;
/// The drive that is lost.
const LOST: Role = Role(2);
/// Time that a step may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Contents that the volume should have.
fn content(len: u64, round: u8) -> Vec<u8> {
    (0..len / 512).flat_map(|sector| [(sector % 251) as u8 ^ round; 512]).collect()
}

fn drive(path: &Path) -> Result<MemberDrive, Failure> {
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(path, OpenMode::ReadWrite, FileOptions::default())?);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let options = NodeOptions { memory_bytes: 0, ..NodeOptions::default() };
    let node: Arc<dyn DataNode> = Arc::new(LocalNode::new(&name, vec![device], &Peers::new(), options));
    Ok(MemberDrive::new(name, node, DriveId(1))?)
}

fn file(folder: &Path, number: usize) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("volume{number:02}.img"));
    File::create(&path)?.set_len(DRIVE)?;
    Ok(path)
}

#[derive(Debug, Serialize)]
struct Document {
    uuid: String,
    bytes: u64,
    drives: usize,
    /// Bytes to the drives for each byte of the user.
    full_stripe_ratio: f64,
    small_write_ratio: f64,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Step {
    what: String,
    seconds: f64,
}

/// Steps that were done, and their times.
struct Steps {
    json: bool,
    began: Instant,
    done: Vec<Step>,
}

impl Steps {
    fn done(&mut self, what: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        if !self.json {
            print(&format!("{seconds:5.1} s  {what}\n"));
        }
        self.done.push(Step { what: what.to_owned(), seconds });
        self.began = Instant::now();
    }
}

fn wait(volume: &ServedVolume, is: impl Fn(&Status) -> bool) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    while !is(&volume.status()?) {
        if Instant::now() >= until {
            return Err(Failure::new("the volume did not reach the expected state in time"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn check(device: &dyn BlockDevice, expected: &[u8]) -> Result<(), Failure> {
    let mut read = vec![0; expected.len()];
    device.read_at(0, &mut read)?;
    if read == expected {
        Ok(())
    } else {
        Err(Failure::new("the volume does not hold the data that was written"))
    }
}

/// Runs the demo in a folder.
pub(super) fn run(folder: &Path, json: bool) -> Result<ExitCode, Failure> {
    let mut steps = Steps { json, began: Instant::now(), done: Vec::new() };
    let mut paths = (0..DRIVES).map(|i| file(folder, i)).collect::<Result<Vec<_>, _>>()?;
    let drives = paths.iter().map(|path| drive(path)).collect::<Result<Vec<_>, _>>()?;
    let spec = CreateSpec {
        level: Level::Raid6,
        layout: Some(Layout::LeftSymmetric),
        chunk_bytes: CHUNK,
        name: "demo".to_owned(),
        component_bytes: None,
        now: 0,
        force: false,
        log: true,
    };
    let uuid = create(&drives, &spec, |_, _| {})?;
    let volume = open(&drives, &OpenOptions::default())?;
    let device = volume.device();
    let bytes = device.size_bytes();
    steps.done(&format!("{uuid}: RAID-6 of {DRIVES} drives, {}, with a stripe log", format_decimal(bytes)));

    let mut expected = content(bytes, 0);
    device.write_at(0, &expected)?;
    device.flush()?;
    let status = volume.status()?;
    let full_stripe_ratio = status.member_written as f64 / status.user_written as f64;
    steps.done(&format!("written in full stripes: {full_stripe_ratio:.2} bytes to the drives for each byte"));

    let before = status.member_written;
    for block in (0..bytes / 4096).step_by(37) {
        let at = (block * 4096) as usize;
        expected[at..at + 4096].fill(block as u8);
        device.write_at(at as u64, &expected[at..at + 4096])?;
    }
    device.flush()?;
    let small = bytes.div_ceil(4096 * 37) * 4096;
    let small_write_ratio = (volume.status()?.member_written - before) as f64 / small as f64;
    steps.done(&format!("single blocks of 4 KiB: {small_write_ratio:.2} bytes for each, log included"));

    volume.control().fail(LOST)?;
    wait(&volume, |status| status.missing == [LOST])?;
    check(&*device, &expected)?;
    expected[..1 << 20].copy_from_slice(&content(1 << 20, 0x55));
    device.write_at(0, &expected[..1 << 20])?;
    steps.done("a drive is lost: reads and writes continue");

    let new = file(folder, DRIVES)?;
    volume.control().add(drive(&new)?, false)?;
    paths[LOST.index()] = new;
    wait(&volume, |status| status.missing.is_empty())?;
    check(&*device, &expected)?;
    steps.done("a new drive takes its place and is rebuilt");

    if !volume.stop(PATIENCE) {
        return Err(Failure::new("the volume could not be left clean"));
    }
    drop((device, drives));
    let mut probed = probe_all(&paths, Access::default())?;
    let target = place(assemble_from(&mut probed)?, &probed, &Placement::One, &NodeOptions::default())?;
    let outcome = run_pass(&target, None, &Options::with_seed(fresh_seed()?), &mut Silent, &Stop::new())?;
    if !outcome.findings.is_empty() {
        return Err(Failure::new("the scrub found damage that the demo did not plant"));
    }
    steps.done("stopped; scrubbed as an md array: no finding");
    if json {
        let (uuid, steps) = (uuid.to_string(), steps.done);
        let drives = DRIVES;
        print_json(&Document { uuid, bytes, drives, full_stripe_ratio, small_write_ratio, steps });
    }
    Ok(ExitCode::SUCCESS)
}

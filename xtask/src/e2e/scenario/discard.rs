//! mkfs and fstrim on a drive that is a sparse file: it takes next to no room after mkfs, more when
//! files are written, and gives that back when they are removed.

use super::{Bench, MIB};
use crate::run::Failed;
use std::os::unix::fs::MetadataExt;

const SCRIPT: &str = include_str!("../../../guest/discard.sh");
/// Bytes of the drive.
const SIZE: u64 = 1024 * MIB;
/// Bytes that ext4's own structures may take of it.
const LITTLE: u64 = 64 * MIB;
/// Bytes that the guest writes into files.
const WRITTEN: u64 = 96 * MIB;

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let path = bench.drive("discard", SIZE)?;
    let taken = |when: &str| -> Result<u64, Failed> {
        let bytes =
            std::fs::metadata(&path).map_err(|error| Failed(format!("{path}: {error}")))?.blocks() * 512;
        bench.steps.done(&format!("{when}, the file takes {} MiB of {} MiB", bytes / MIB, SIZE / MIB));
        Ok(bytes)
    };
    let node = bench.node("discard", 512, vec![path.clone()])?;
    let variables = [
        ("port", node.port.to_string()),
        ("nqn", Bench::nqn("discard")),
        ("megabytes", (WRITTEN / MIB).to_string()),
    ];
    let mut guest = bench.guest(&bench.machine(false, 240), SCRIPT, &variables)?;
    guest.reach("made")?;
    let made = taken("after mkfs")?;
    if made > LITTLE {
        return Err(Failed(format!("mkfs took {made} bytes of the file, more than {LITTLE}")));
    }
    guest.go()?;
    guest.reach("filled")?;
    let filled = taken("with files")?;
    if filled < WRITTEN {
        return Err(Failed(format!("{WRITTEN} bytes were written, and the file takes {filled}")));
    }
    guest.go()?;
    guest.reach("trimmed")?;
    let trimmed = taken("without them, after fstrim")?;
    if trimmed > LITTLE {
        return Err(Failed(format!("after fstrim the file takes {trimmed} bytes, more than {LITTLE}")));
    }
    guest.go()?;
    guest.finish()?;
    node.stop()
}

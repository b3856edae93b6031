//! The visible face of drives with tags: nvme-cli sends and gets blocks with their tuples, the
//! kernel uses the hidden face of the same drives, and damage is an error over both.

use super::{Bench, MIB, Machine};
use crate::e2e::cpio::Archive;
use crate::run::Failed;
use std::fs::File;
use std::os::unix::fs::FileExt;

const SCRIPT: &str = include_str!("../../../guest/visible.sh");
/// The name that `guest/init.sh` gives the guest.
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:6f1b2a94-0c5e-4a57-9d0e-5a0f3c9b7e11";
/// Bytes of the data of a block, by drive.
const SIZES: [usize; 2] = [512, 4096];
/// The blocks that are written with tuples, and the one of them that is wrong or damaged.
const FIRST: u32 = 16;
const BLOCKS: u32 = 8;
const BAD: u32 = 5;
/// Words of the kernel about a block that a drive refuses. They are no alarm here.
const EXPECTED: [&str; 2] = ["critical medium error", "I/O error, dev nvme"];

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let mut config = String::new();
    let mut drives = Vec::new();
    for size in SIZES {
        let path = bench.drive(&format!("visible-{size}"), 8 * MIB)?;
        config.push_str(&format!(
            "[[drive]]\nbackend = \"{path}\"\nblock_size = {size}\npi = 16\ntags = \"{path}.tags\"\n"
        ));
        drives.push((size, path));
    }
    config.push_str(&format!("[[host]]\nnqn = \"{HOST}\"\nfaces = [\"hidden\", \"visible\"]\n"));
    let node = bench.configured_node("visible", config)?;
    let initrd = bench.initrd_with(|archive| {
        SIZES.into_iter().for_each(|size| pack(archive, size));
        Ok(())
    })?;
    let variables = [("port", node.port.to_string()), ("nqn", Bench::nqn("visible"))];
    let machine = Machine { initrd: &initrd, ..bench.machine(true, 240) };
    let mut guest = bench.guest(&machine, SCRIPT, &variables)?;
    guest.reach("damaged")?;
    for (size, path) in &drives {
        damage(path, u64::from(FIRST + BAD) * *size as u64 + 77)?;
    }
    guest.go()?;
    let report = guest.finish_despite(&EXPECTED)?;
    for size in SIZES {
        let (sectors, profile) =
            (report.get(&format!("sectors_{size}"))?, report.get(&format!("integrity_{size}"))?);
        bench.steps.done(&format!(
            "{size} + 8: the kernel's block device has {sectors} sectors, integrity {profile}"
        ));
    }
    node.stop()
}

/// Turns a byte of a file round behind everybody's back.
fn damage(path: &str, at: u64) -> Result<(), Failed> {
    let turn = || {
        let file = File::options().read(true).write(true).open(path)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 0x20], at)
    };
    turn().map_err(|error: std::io::Error| Failed(format!("{path}: {error}")))
}

/// Puts blocks into the guest: with good tuples, with a wrong one, and their data alone.
fn pack(archive: &mut Archive, size: usize) {
    let (mut good, mut plain) = (Vec::new(), Vec::new());
    for block in FIRST..FIRST + BLOCKS {
        let data: Vec<u8> = (0..size).map(|i| (i as u32 * 7 + block * 13 + i as u32 / 256) as u8).collect();
        good.extend(&data);
        good.extend(crc16(&data).to_be_bytes());
        good.extend(0x1234_u16.to_be_bytes());
        good.extend(block.to_be_bytes());
        plain.extend(data);
    }
    let tuple = BAD as usize * (size + 8) + size;
    let spoiled = |at: usize| {
        let mut bytes = good.clone();
        bytes[tuple + at] ^= 1;
        bytes
    };
    archive.file(&format!("blocks/{size}.bad-guard"), &spoiled(0));
    archive.file(&format!("blocks/{size}.bad-reference"), &spoiled(7));
    archive.file(&format!("blocks/{size}.good"), &good);
    archive.file(&format!("blocks/{size}.data"), &plain);
}

/// The guard of 16 bits, bit by bit: T10-DIF's CRC, polynomial 8BB7h.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte) << 8,
            |crc: u16, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8BB7 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::crc16;

    #[test]
    fn the_guard_of_a_known_message() {
        assert_eq!(crc16(b"123456789"), 0xD0DB);
    }
}

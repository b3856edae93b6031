//! md heals itself over drives with tags: what rots is refused, rebuilt and written again; and
//! `pumice scrub --heal` has md do so before anything is read.

use super::{Bench, MIB};
use crate::e2e::damage::Member;
use crate::e2e::guest::Machine;
use crate::e2e::programs;
use crate::run::Failed;
use std::fs::File;
use std::os::unix::fs::FileExt;

const SCRIPT: &str = include_str!("../../../guest/heals.sh");
const DRIVES: usize = 6;
/// Blocks that rot at a time.
const ROTTEN: u64 = 20;
/// Bytes of a block.
const BLOCK: usize = 512;
/// Words of the kernel about a block that a drive refuses. They are no alarm here.
const EXPECTED: [&str; 2] = ["critical medium error", "I/O error, dev nvme"];

/// A block that rotted, and what it held.
struct Rot {
    path: String,
    offset: u64,
    held: [u8; BLOCK],
}

/// Runs it: RAID-5 and RAID-6 with tags, and RAID-5 without, where wrong data must reach fio.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    for (level, tags) in [(5, true), (6, true), (5, false)] {
        one(bench, level, tags)?;
    }
    Ok(())
}

fn one(bench: &Bench<'_>, level: u32, tags: bool) -> Result<(), Failed> {
    let size = if bench.options.full { 48 * MIB } else { 12 * MIB };
    let name = format!("heals{level}{}", if tags { "" } else { "-plain" });
    let drives: Vec<String> =
        (0..DRIVES).map(|n| bench.drive(&format!("{name}-{n}"), size)).collect::<Result<_, _>>()?;
    let named = drives.iter().map(|path| match tags {
        true => format!("{path},pi=16,tags={path}.tags"),
        false => path.clone(),
    });
    let node = bench.node(&name, 512, named.collect())?;
    let initrd = bench.initrd_with(|archive| programs::pack_file(archive, "pumice", bench.binary))?;
    let variables = [
        ("ports", node.port.to_string()),
        ("nqns", Bench::nqn(&name)),
        ("each", DRIVES.to_string()),
        ("level", level.to_string()),
        ("urls", format!("nvme://10.0.2.2:{}", node.port)),
        ("tags", if tags { "yes" } else { "no" }.to_owned()),
    ];
    let machine = Machine { initrd: &initrd, ..bench.machine(true, 900) };
    let mut guest = bench.guest(&machine, SCRIPT, &variables)?;
    guest.reach("written")?;
    let first = rot(&drives, level, 1)?;
    guest.go()?;
    if !tags {
        let report = guest.finish_despite(&EXPECTED)?;
        if report.number("wrong")? != 1 {
            return Err(Failed("without tags, no wrong data reached fio: the test cannot fail".to_owned()));
        }
        return node.stop();
    }
    guest.reach("checked")?;
    whole(&first, "after md's check")?;
    let second = rot(&drives, level, 2)?;
    guest.go()?;
    guest.reach("healed")?;
    whole(&second, "after --heal")?;
    guest.go()?;
    let report = guest.finish_despite(&EXPECTED)?;
    if report.number("read_errors")? == 0 {
        return Err(Failed("fio read everything, and no member's error counter shows a repair".to_owned()));
    }
    for key in ["mismatches", "mismatches_after"] {
        if report.number(key)? != 0 {
            return Err(Failed(format!("{key}: the kernel counts {}", report.get(key)?)));
        }
    }
    bench.steps.done(&format!("RAID-{level}: {} blocks healed, the files whole again", 2 * ROTTEN));
    node.stop()
}

/// Turns blocks of the drives' files round behind everybody's back, `round` after `round` in other
/// stripes: on RAID-5 one in a stripe, on RAID-6 two in some, parity too.
fn rot(drives: &[String], level: u32, round: u64) -> Result<Vec<Rot>, Failed> {
    let members: Vec<Member> = drives.iter().map(|path| Member::read(path, "")).collect::<Result<_, _>>()?;
    let stripes = members.first().map_or(0, |member| member.stripes);
    if stripes < 4 * ROTTEN {
        return Err(Failed(format!("{stripes} stripes are too few")));
    }
    let mut out = Vec::new();
    for number in 0..ROTTEN {
        // Two neighbours share a stripe on RAID-6.
        let group = if level == 6 { number / 2 } else { number };
        let stripe = (group * 2 + round - 1) * stripes / (2 * ROTTEN);
        let member = &members[(number as usize * 5 + round as usize) % members.len()];
        let offset = member.offset(stripe) + number % 16 * 4096 + number * 512 % 4096;
        let path = member.path().to_owned();
        let wrong = |error: std::io::Error| Failed(format!("{path}: {error}"));
        let file = File::options().read(true).write(true).open(&path).map_err(wrong)?;
        let mut held = [0; BLOCK];
        file.read_exact_at(&mut held, offset).map_err(wrong)?;
        let mut bytes = held;
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte ^= (i as u8).wrapping_mul(58) | 1);
        file.write_all_at(&bytes, offset).map_err(wrong)?;
        out.push(Rot { path, offset, held });
    }
    Ok(out)
}

/// That blocks hold again what they held.
fn whole(rotten: &[Rot], when: &str) -> Result<(), Failed> {
    for Rot { path, offset, held } in rotten {
        let mut now = [0; BLOCK];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut now, *offset));
        read.map_err(|error| Failed(format!("{path}: {error}")))?;
        if now != *held {
            return Err(Failed(format!("{when}, {path} is not whole at {offset}")));
        }
    }
    Ok(())
}

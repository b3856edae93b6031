//! The demo's drives with tags: parity and tags are two witnesses.

use super::world::{ARRAY, CHUNK, World};
use crate::devices::{Placement, assemble_from, place};
use crate::progress::Silent;
use crate::text::{print, table};
use pumice_base::units::{Role, StripeIndex};
use pumice_blockdev::{BlockDevice, FileDevice, OpenMode, Options as FileOptions};
use pumice_host::finding::{Certainty, Verdict};
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::{Options, Outcome, run as run_pass};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_node::NodeOptions;
use pumice_protect::guard::Guard;
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::probing::probe_all;
use pumice_service::state::fresh_seed;
use pumice_tags::{TaggedDevice, open_place};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stripes of the array with tags.
const STRIPES: u64 = 24;
/// Stripe, index of a data member, first byte and bytes of each damage.
const DAMAGES: [(u64, usize, usize, usize); 3] =
    [(7, 4, 9000, 300), (15, 2, 12_288, 64), (15, 9, 12_288, 200)];
/// The block whose tag alone is wrong: stripe, index of a data member, first byte.
const BAD_TAG: (u64, usize, usize) = (19, 6, 4096);

/// Creates an array whose drives have tags, damages it, finds the damage and repairs it. Returns
/// whether all went as expected.
pub(super) fn show(folder: &Path) -> Result<bool, Failure> {
    let folder = folder.join("tagged");
    std::fs::create_dir_all(&folder)?;
    let world = World::make(&folder, STRIPES)?;
    let names = world.paths().iter().map(|path| protect(&world, path)).collect::<Result<Vec<_>, _>>()?;
    let role = |stripe, index: usize| world.geometry().stripe(StripeIndex(stripe)).data[index];
    for (stripe, index, at, len) in DAMAGES {
        let mut bytes = world.read(role(stripe, index), stripe, at, len)?;
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte ^= (i % 255) as u8 + 1);
        world.write(role(stripe, index), stripe, at, &bytes)?;
    }
    print("\nThe same with tags beside the drives (16-bit guards), as a second witness:\n\n");
    let found = scrub(&names, None, &folder)?;
    let mut rows = vec![["damage", "parity alone", "parity and tags"].map(str::to_owned).to_vec()];
    let verdict = |stripe| {
        let all = found.findings.iter().filter(|finding| finding.stripe == stripe);
        all.map(|f| format!("{}, {}", f.verdict.words(), certainty(f.certainty)))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let two = "two members in one block";
    for (what, alone, stripe) in [
        ("300 bytes", "data damaged, likely", DAMAGES[0].0),
        (two, "ambiguous", DAMAGES[1].0),
        ("a tag, not its data", "nothing wrong", BAD_TAG.0),
    ] {
        rows.push(vec![what.to_owned(), alone.to_owned(), verdict(stripe)]);
    }
    print(&table(&rows));
    let proven = |stripe, verdict| {
        let is = |f: &&pumice_host::finding::Finding| {
            f.stripe == stripe && f.verdict == verdict && f.certainty == Certainty::Proven
        };
        found.findings.iter().any(|f| is(&f))
    };
    let tag = found.findings.iter().any(|f| f.stripe == BAD_TAG.0 && f.verdict == Verdict::TagDamaged);
    let told = proven(DAMAGES[0].0, Verdict::Member)
        && proven(DAMAGES[1].0, Verdict::Several)
        && tag
        && found.findings.iter().all(|f| [DAMAGES[0].0, DAMAGES[1].0, BAD_TAG.0].contains(&f.stripe));
    let repaired = scrub(&names, Some(RepairPolicy::Strong), &folder)?;
    let rewritten = repaired.findings.iter().filter(|finding| finding.repaired).count();
    let mut intact = true;
    for stripe in 0..STRIPES {
        for (role, chunk) in world.content(stripe) {
            intact &= world.read(role, stripe, 0, CHUNK)? == chunk;
        }
    }
    print(&format!(
        "\nRepair: {rewritten} findings rewritten, two members of a stripe among them; {}. No data was written because of the damaged tag.\n",
        if intact {
            "every byte is as it was before the damage"
        } else {
            "some bytes differ from those before the damage!"
        }
    ));
    Ok(told && intact)
}

fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Proven => "proven",
        Certainty::Likely => "likely",
        Certainty::None => "not located",
    }
}

/// Gives a drive written tags of all that it holds, one of them of data that are not there. Returns
/// how a scrub names it.
fn protect(world: &World, path: &Path) -> Result<PathBuf, Failure> {
    let tags = path.with_extension("tags");
    // Of an earlier demo in the same folder.
    let _ = std::fs::remove_file(&tags);
    let drive: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(path, OpenMode::ReadWrite, FileOptions::default())?);
    let fail = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", tags.display()));
    let (medium, _) = open_place(&tags, &*drive, 512, Guard::Crc16, "").map_err(|error| fail(&error))?;
    let tagged = TaggedDevice::open(Arc::clone(&drive), medium, "").map_err(|error| fail(&error))?;
    let mut bytes = vec![0; 1 << 20];
    let mut at = 0;
    while at < drive.size_bytes() {
        let len = (drive.size_bytes() - at).min(bytes.len() as u64) as usize;
        drive.read_at(at, &mut bytes[..len])?;
        tagged.write_at(at, &bytes[..len])?;
        at += len as u64;
    }
    let (stripe, index, start) = BAD_TAG;
    let bad: Role = world.geometry().stripe(StripeIndex(stripe)).data[index];
    if world.paths()[bad.index()] == path {
        let good = world.read(bad, stripe, start, 512)?;
        tagged.write_at(World::place(stripe, start), &[0xA5; 512])?;
        world.write(bad, stripe, start, &good)?;
    }
    tagged.close()?;
    Ok(format!("{},pi=16,tags={}", path.display(), tags.display()).into())
}

fn scrub(names: &[PathBuf], repair: Option<RepairPolicy>, folder: &Path) -> Result<Outcome, Failure> {
    let state = StateFiles::open(&folder.join("state"), ARRAY)?;
    let mut probed = probe_all(names, Access { write: repair.is_some(), ..Access::default() })?;
    let array = assemble_from(&mut probed)?;
    let target = place(array, &probed, &Placement::Runs(super::NODES), &NodeOptions::default())?;
    let options = Options { repair, ..Options::with_seed(fresh_seed()?) };
    Ok(run_pass(&target, Some(&state), &options, &mut Silent, &Stop::new())?)
}

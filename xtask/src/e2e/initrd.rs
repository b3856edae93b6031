//! The guest's file system: busybox, our first process, the programs under test's peers, and
//! modules.

use super::cpio::Archive;
use super::kernel::Unpacked;
use super::programs;
use crate::run::Failed;
use std::fs;
use std::path::{Path, PathBuf};

const INIT: &str = include_str!("../../guest/init.sh");
const LIBRARY: &str = include_str!("../../guest/library.sh");
const MEMBERS: &str = include_str!("../../guest/members.sh");
const VOLUME_FILES: &str = include_str!("../../guest/volume-files.sh");

/// Programs that every guest has.
const PROGRAMS: [&str; 4] = ["nvme", "mdadm", "mke2fs", "e2fsck"];
/// Modules that the guest's scripts load by name; each with its list of files in order.
const LOADED: [&str; 8] =
    ["virtio_pci", "virtio_blk", "virtio_net", "nvme-tcp", "raid456", "raid1", "raid10", "dm-integrity"];
/// Modules that those need, and do not name in a way that can be followed: the kernel asks for them
/// by an alias.
const ALIASED: [&str; 3] = ["crc32c_generic", "crc32c_intel", "ext4"];

/// The initrds of a kernel.
pub(crate) struct Initrd {
    /// Without fio.
    pub(crate) small: PathBuf,
    /// With fio, whose libraries weigh 80 MB.
    pub(crate) with_fio: PathBuf,
}

/// Makes them in `folder`.
pub(crate) fn make(kernel: &Unpacked, folder: &Path) -> Result<Initrd, Failed> {
    let mut archive = Archive::default();
    for path in ["dev", "proc", "sys", "run", "tmp", "etc", "mnt", "root", "bin"] {
        archive.folder(path);
    }
    programs::pack_busybox(&mut archive)?;
    let mut libraries = Vec::new();
    programs::pack(&mut archive, &PROGRAMS, &mut libraries)?;
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n");
    archive.file("etc/group", b"root:x:0:\ndisk:x:6:\n");
    archive.link("etc/mtab", "/proc/mounts");
    archive.file("init", INIT.as_bytes());
    archive.file("library.sh", LIBRARY.as_bytes());
    archive.file("members.sh", MEMBERS.as_bytes());
    archive.file("volume-files.sh", VOLUME_FILES.as_bytes());
    pack_modules(&mut archive, kernel)?;
    let mut bytes = archive.finish();
    let name = kernel.kernel.name;
    let small = folder.join(format!("initrd-{name}.cpio"));
    write(&small, &bytes)?;

    let mut fio = Archive::default();
    programs::pack(&mut fio, &["fio"], &mut libraries)?;
    bytes.extend(fio.finish());
    let with_fio = folder.join(format!("initrd-{name}-fio.cpio"));
    write(&with_fio, &bytes)?;
    Ok(Initrd { small, with_fio })
}

fn pack_modules(archive: &mut Archive, kernel: &Unpacked) -> Result<(), Failed> {
    let mut packed: Vec<String> = Vec::new();
    for top in LOADED {
        let mut order = Vec::new();
        for name in ALIASED.into_iter().filter(|_| top == "nvme-tcp") {
            kernel.modules.closure(name, &mut order)?;
        }
        kernel.modules.closure(top, &mut order)?;
        let mut list = String::new();
        for (name, content) in order {
            list.push_str(&name);
            list.push('\n');
            if !packed.contains(&name) {
                archive.file(&format!("modules/{name}.ko"), &content);
                packed.push(name);
            }
        }
        archive.file(&format!("modules/{top}.list"), list.as_bytes());
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failed> {
    fs::write(path, bytes).map_err(|error| Failed(format!("{}: {error}", path.display())))
}

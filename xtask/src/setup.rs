//! Programs that the tests need from the system, installed by package name.

use crate::run::{Failed, run, say};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// A program, and the Debian package that has it.
type Program = (&'static str, &'static str);

/// Programs for `cargo test`.
const TESTS: [Program; 2] = [
    // The judge of superblocks that our writer makes.
    ("mdadm", "mdadm"),
    // Archives of arrays that Linux wrote.
    ("zstd", "zstd"),
];

/// More programs for the tests against a real Linux kernel: the machine that it runs in, and its
/// companions.
const E2E: [Program; 9] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("nvme", "nvme-cli"),
    ("mdadm", "mdadm"),
    ("fio", "fio"),
    ("integritysetup", "cryptsetup-bin"),
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    // Modules of kernels.
    ("xz", "xz-utils"),
];

/// Returns whether this process may install packages: as root, or in CI.
pub(crate) fn may_install() -> bool {
    std::env::var_os("CI").is_some() || std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

fn present(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].into_iter().map(Into::into);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(program).is_file())
}

/// Installs what is missing for all tests.
pub(crate) fn setup() -> Result<(), Failed> {
    tests()?;
    e2e()
}

/// Installs what is missing for `cargo test`.
pub(crate) fn tests() -> Result<(), Failed> {
    install(&TESTS)
}

/// Installs what is missing for the tests against a real Linux kernel.
pub(crate) fn e2e() -> Result<(), Failed> {
    install(&E2E)
}

/// The programs that those tests lack here.
pub(crate) fn lacking() -> Vec<&'static str> {
    E2E.into_iter().map(|(program, _)| program).filter(|program| !present(program)).collect()
}

fn install(needed: &[Program]) -> Result<(), Failed> {
    let mut missing: Vec<&str> =
        needed.iter().filter(|(program, _)| !present(program)).map(|(_, package)| *package).collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        say(&format!("this system has no apt-get; install by hand: {}", missing.join(" ")));
        return Ok(());
    }
    say(&format!("installing {}", missing.join(" ")));
    let apt =
        |args: &[&str]| run(Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive"));
    apt(&["update", "-qq"])?;
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(&missing);
    apt(&install)
}

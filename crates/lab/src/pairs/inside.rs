//! Mounts of this program's own: it starts itself again where nobody else sees them, and where they
//! end with it.

use std::os::unix::process::CommandExt;
use std::process::Command;

const MARK: &str = "PUMICE_PAIRS_INSIDE";

/// Returns whether this program has mounts of its own.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts this program again with mounts of its own, if the system allows that; else goes on.
pub(crate) fn enter() {
    if is_inside() {
        return;
    }
    let rights: &[&str] = if nix::unistd::geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
    let words = [&["--mount"], rights].concat();
    let may = Command::new("unshare").args(&words).arg("true").output();
    if !may.is_ok_and(|done| done.status.success()) {
        return;
    }
    let Ok(this) = std::env::current_exe() else { return };
    // It returns only if it has failed: then the pairs that fill a file system are skipped.
    let _ = Command::new("unshare")
        .args(&words)
        .arg(this)
        .args(std::env::args_os().skip(1))
        .env(MARK, "1")
        .exec();
}

/// An hour of the day, in local time, that begins in two hours.
pub(crate) fn closed_hours() -> String {
    let hour = |hours: &str| {
        let out = Command::new("date").args(["-d", hours, "+%H:%M"]).output();
        out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
    };
    format!("{}-{}", hour("+2 hours"), hour("+3 hours"))
}

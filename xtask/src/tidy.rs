//! Rules of the house that no linter knows.

use crate::run::Failed;
use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this wants another room.
const MAX_LINES: usize = 800;
/// Crates that are pure: no clock, no thread, no file.
const PURE: [&str; 9] = ["units", "parity", "protect", "raid", "offload", "nvme", "pacer", "flash", "ftl"];
const IMPURE: [&str; 4] = ["std::time::Instant", "SystemTime", "std::thread", "std::fs"];
/// Crates that may contain `unsafe`.
const MAY_BE_UNSAFE: [&str; 5] = ["parity", "protect", "buffer", "blockdev", "cli"];

/// Checks the sources.
pub(crate) fn tidy() -> Result<(), Failed> {
    let mut files = Vec::new();
    for root in ["crates", "xtask"] {
        sources(Path::new(root), &mut files)
            .map_err(|error| Failed(format!("{root}: {error}; run it at the root of the repository")))?;
    }
    files.sort();
    let mut wrong = Vec::new();
    for path in &files {
        let text =
            fs::read_to_string(path).map_err(|error| Failed(format!("{}: {error}", path.display())))?;
        check(path, &text, &mut wrong);
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed(format!("\n{}", wrong.join("\n")))) }
}

fn sources(folder: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    Ok(())
}

fn check(path: &Path, text: &str, wrong: &mut Vec<String>) {
    let name = path.display();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        wrong.push(format!("{name}: {lines} lines; past {MAX_LINES} it wants another room"));
    }
    let mut parts = path.components().map(|c| c.as_os_str().to_string_lossy());
    let (Some(root), Some(room)) = (parts.next(), parts.next()) else { return };
    let is_source = parts.next().is_some_and(|part| part == "src");
    if root != "crates" || !is_source {
        return;
    }
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    for (number, line) in code {
        let at = number + 1;
        if PURE.contains(&&*room) && IMPURE.iter().any(|word| line.contains(word)) {
            wrong.push(format!("{name}:{at}: '{room}' is pure; time and files come in as arguments"));
        }
        if !MAY_BE_UNSAFE.contains(&&*room) && line.contains("unsafe ") {
            wrong.push(format!(
                "{name}:{at}: 'unsafe' lives in the kernels of parity and protect, buffer, blockdev and small foreign-function modules"
            ));
        }
        if line.contains("#[allow(") {
            wrong.push(format!("{name}:{at}: #[expect(lint, reason = \"…\")] instead of allow"));
        }
    }
}

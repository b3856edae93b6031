//! Lines of code of the product, now and at another revision.

use super::crates::dependencies;
use super::lexer::code_lines;
use super::paths::crate_of;
use super::{Tree, read, sources};
use crate::run::{Failed, output};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The folder of all crates.
const CRATES: &str = "crates";
/// The crate of the `pumice` binary.
const PROGRAM: &str = "cli";

/// Prints the lines of code of each crate of the product and in all, without comments, blanks and
/// tests; with `--at REV` those of the revision, of the working tree and the difference.
pub(crate) fn lines(rest: &[String]) -> Result<(), Failed> {
    let mut now = Tree::new();
    read(Path::new(CRATES), &mut now).map_err(|error| Failed(format!("{CRATES}: {error}")))?;
    let now = count(&now);
    match rest {
        [] => print!("{}", table(&now)),
        [option, revision] if option == "--at" => print!("{}", compared(&count(&at(revision)?), &now)),
        _ => return Err(Failed("usage: cargo xtask lines [--at REV]".to_owned())),
    }
    Ok(())
}

/// Lines of code of the crates that the program is built from.
pub(super) fn count(tree: &Tree) -> BTreeMap<String, usize> {
    let mut product: BTreeSet<String> = BTreeSet::new();
    let mut left = vec![PROGRAM.to_owned()];
    while let Some(name) = left.pop() {
        if let Some(manifest) = tree.get(&format!("{CRATES}/{name}/Cargo.toml"))
            && product.insert(name)
        {
            left.extend(dependencies(manifest));
        }
    }
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in sources::production(tree) {
        if let Some(name) = crate_of(path).filter(|name| product.contains(*name)) {
            *lines.entry(name.to_owned()).or_default() += code_lines(text);
        }
    }
    lines
}

fn table(now: &BTreeMap<String, usize>) -> String {
    let mut out = String::new();
    for (name, lines) in now {
        let _ = writeln!(out, "{name:<12}{lines:>8}");
    }
    let _ = writeln!(out, "{:<12}{:>8}", "in all", now.values().sum::<usize>());
    out
}

/// A table of two revisions and the difference; 0 for a crate that one of them does not have.
fn compared(before: &BTreeMap<String, usize>, now: &BTreeMap<String, usize>) -> String {
    let row = |name: &str, old: usize, new: usize| {
        let difference = new as i64 - old as i64;
        format!("{name:<12}{old:>8}{new:>8}{difference:>+8}\n")
    };
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let lines = |counts: &BTreeMap<String, usize>, name: &str| counts.get(name).copied().unwrap_or(0);
    let mut out: String = names.iter().map(|name| row(name, lines(before, name), lines(now, name))).collect();
    out.push_str(&row("in all", before.values().sum(), now.values().sum()));
    out
}

/// Sources and manifests of the crates at a revision, read from git's objects.
fn at(revision: &str) -> Result<Tree, Failed> {
    if revision.starts_with('-') {
        return Err(Failed(format!("'{revision}' is no revision")));
    }
    let mut list = Command::new("git");
    list.args(["ls-tree", "-r", "--name-only", "-z", revision, "--", CRATES]);
    let names = String::from_utf8_lossy(&output(&mut list)?).into_owned();
    let paths: Vec<&str> =
        names.split('\0').filter(|name| name.ends_with(".rs") || name.ends_with("/Cargo.toml")).collect();
    let wanted: String = paths.iter().map(|path| format!("{revision}:{path}\n")).collect();
    let blobs = blobs(&wanted)?;
    let mut rest = blobs.as_slice();
    let mut tree = Tree::new();
    for path in paths {
        let (text, after) = blob(rest).ok_or_else(|| Failed(format!("git cat-file: no {path}")))?;
        tree.insert(path.to_owned(), text);
        rest = after;
    }
    Ok(tree)
}

/// Output of `git cat-file --batch` for lines with the names of objects.
fn blobs(wanted: &str) -> Result<Vec<u8>, Failed> {
    let failed = |error: std::io::Error| Failed(format!("git cat-file: {error}"));
    let mut git = Command::new("git");
    git.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = git.spawn().map_err(failed)?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        // Git answers while it is asked: one thread for both would stop at full pipes.
        let asking = scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(wanted.as_bytes())));
        let out = child.wait_with_output().map_err(failed);
        let _ = asking.join();
        out.map(|out| out.stdout)
    })
}

/// The first object of a batch, `id blob size`, its bytes and a line end, and the bytes behind it.
fn blob(batch: &[u8]) -> Option<(String, &[u8])> {
    let end = batch.iter().position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&batch[..end]).ok()?;
    let size: usize = header.strip_suffix(" ").unwrap_or(header).rsplit(' ').next()?.parse().ok()?;
    let body = batch.get(end + 1..end + 1 + size)?;
    Some((String::from_utf8_lossy(body).into_owned(), &batch[end + 2 + size..]))
}

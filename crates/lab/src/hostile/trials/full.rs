//! The state folder is full: what has to be remembered is refused, and everything else goes on.

use super::{Host, command, content, row};
use crate::hostile::good::Good;
use crate::hostile::measure::{PERIOD, Row};
use crate::hostile::node::{Node, Setup};
use crate::hostile::{Failed, Options};
use pumice_nvme::spec::Status;
use pumice_nvme::spec::opcode::io;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The drive in a file: what is unreadable in memory is remembered in memory.
const NSID: u32 = 2;

/// A program that starts the node with a file system of its own, of 64 KiB, as its state folder;
/// `None` where the system does not allow that.
fn wrapper(folder: &Path) -> Option<Vec<String>> {
    let mount = format!("mount -t tmpfs -o size=64k,mode=700 none '{}' && exec \"$@\"", folder.display());
    let rights: &[&str] = if nix::unistd::geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
    let words = [&["unshare", "--mount"], rights, &["sh", "-c", &mount, "sh"]].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let may = std::process::Command::new(&words[0]).args(&words[1..]).arg("true").output();
    may.is_ok_and(|done| done.status.success()).then_some(words)
}

/// Path by which this process reaches a folder that the node sees.
fn seen_by(node: &Node, folder: &Path) -> PathBuf {
    let inside = folder.strip_prefix("/").unwrap_or(folder);
    PathBuf::from(format!("/proc/{}/root", node.process())).join(inside)
}

/// Fills a file system to its last byte.
fn fill(folder: &Path) -> std::io::Result<PathBuf> {
    let path = folder.join("full");
    let mut file = File::create(&path)?;
    for len in [4096, 512, 1] {
        loop {
            match file.write(&vec![1; len]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(path)
}

/// Files of a folder, but for the one that fills it.
fn files(folder: &Path) -> std::io::Result<Vec<String>> {
    let names =
        fs::read_dir(folder)?.map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect::<std::io::Result<_>>()?;
    Ok(names.into_iter().filter(|name| name != "full").collect())
}

/// One round.
fn once(host: &mut Host, state: &Path, first: u32) -> std::io::Result<Vec<String>> {
    let mut breaches = Vec::new();
    let mark = |piece| command(io::WRITE_UNCORRECTABLE, NSID, piece);
    let write = |piece| command(io::WRITE, NSID, piece);
    let mut expect = |what: &str, status: Option<Status>, code: Status| {
        if status.map(Status::code) != Some(code.code()) {
            breaches.push(format!("{what}: {status:?}, not {code}"));
        }
    };
    let (marked, plain) = (first, first + 1);
    expect("a write", host.run(write(plain), &content(7)), Status::SUCCESS);
    expect("a mark", host.run(mark(marked), &[]), Status::SUCCESS);
    let before = files(state)?;
    let filler = fill(state)?;
    expect("a mark, full", host.run(mark(plain), &[]), Status::WRITE_FAULT);
    expect("a write over a mark, full", host.run(write(marked), &content(8)), Status::WRITE_FAULT);
    expect("another write, full", host.run(write(plain), &content(9)), Status::SUCCESS);
    let read = |host: &mut Host, piece| host.read(NSID, piece);
    expect("a marked piece", read(host, marked).map(|(status, _)| status), Status::READ_ERROR);
    let plain_now = read(host, plain);
    expect("a piece that was not marked", plain_now.as_ref().map(|(status, _)| *status), Status::SUCCESS);
    let mut left = files(state)?;
    left.retain(|name| !before.contains(name));
    fs::remove_file(filler)?;
    expect("a write over a mark, with room", host.run(write(marked), &content(10)), Status::SUCCESS);
    let marked_now = read(host, marked);
    expect("a mark, with room", host.run(mark(plain), &[]), Status::SUCCESS);
    expect("what was marked then", read(host, plain).map(|(status, _)| status), Status::READ_ERROR);
    expect("a write over it", host.run(write(plain), &content(11)), Status::SUCCESS);
    if plain_now.is_none_or(|(_, bytes)| bytes != content(9)) {
        breaches.push("a write beside it is not what is read".to_owned());
    }
    if marked_now.is_none_or(|(status, bytes)| !status.is_success() || bytes != content(10)) {
        breaches.push("what was written over a mark is not what is read".to_owned());
    }
    if !left.is_empty() {
        breaches.push(format!("what could not be written is left: {left:?}"));
    }
    Ok(breaches)
}

/// See the module.
pub(super) fn run(options: &Options, folder: &Path) -> Result<Row, Failed> {
    let mut setup = Setup::new(&options.binary, folder, "full", options.cores)?;
    let state = setup.state();
    let wrong = |error: std::io::Error| Failed(format!("full: {}: {error}", state.display()));
    fs::create_dir_all(&state).map_err(wrong)?;
    let Some(words) = wrapper(&state) else {
        let why = "full: the system lets nobody mount a file system of their own";
        if std::env::var_os("CI").is_some() {
            return Err(Failed(why.to_owned()));
        }
        return skipped(options, folder, why);
    };
    setup = setup.by(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let node = setup.start()?;
    let good = Good::start(&node.target, PERIOD)?;
    let mut host = Host::connect(&node.target, 1)?;
    let mut breaches = Vec::new();
    for round in 0..options.rounds {
        breaches.extend(once(&mut host, &seen_by(&node, &state), 2 * round).map_err(wrong)?);
    }
    breaches.truncate(20);
    let outcome = good.stop();
    Ok(row("full", outcome, node, breaches, options))
}

/// Row of the trial without a file system: clients that verify.
fn skipped(options: &Options, folder: &Path, why: &str) -> Result<Row, Failed> {
    let node = Node::start(&options.binary, folder, "full-skipped", options.cores)?;
    let outcome = Good::start(&node.target, PERIOD)?.stop();
    let row = row("full", outcome, node, Vec::new(), options);
    Ok(Row { skipped: Some(why.to_owned()), ..row })
}

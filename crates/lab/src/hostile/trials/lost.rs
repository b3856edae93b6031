//! The file behind a drive is truncated, or removed, while hosts read and write it: what is left is
//! read as it was, what is lost is never read as something else, and nothing is written any more.

use super::{Host, PATIENCE, command, content, row};
use crate::hostile::good::{Good, Outcome};
use crate::hostile::measure::{PERIOD, Row};
use crate::hostile::node::{DRIVE, GOOD, Node, Setup};
use crate::hostile::{Failed, Options};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The drive in a file.
const NSID: u32 = 2;
/// Hosts that read and write.
const HOSTS: u32 = 4;
/// Pieces of a host in each half of the drive.
const PIECES: u32 = 32;
/// The first piece of the half that is lost.
const UPPER: u32 = ((DRIVE / 2 - GOOD) / 4096) as u32;

/// Fate of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Truncated,
    Removed,
}

/// A host's reads and writes: those that came out right, and what did not.
struct Load {
    number: u32,
    loss: Loss,
    /// Number of writes of each piece of the lower half. A write without success may have been
    /// carried out or not, so the piece is left alone then.
    versions: Vec<Option<u64>>,
    outcome: Outcome,
}

impl Load {
    fn lower(&self, piece: u32) -> u32 {
        self.number * PIECES + piece
    }

    fn seed(&self, place: u32, version: u64) -> u64 {
        u64::from(place) << 32 | version
    }

    fn wrong(&mut self, what: String) {
        self.outcome.wrong += 1;
        if self.outcome.why.len() < 5 {
            self.outcome.why.push(what);
        }
    }

    fn fill(&mut self, host: &mut Host) -> Result<(), Failed> {
        for piece in 0..PIECES {
            for place in [self.lower(piece), UPPER + self.lower(piece)] {
                let data = content(self.seed(place, 0));
                if host.run(command(io::WRITE, NSID, place), &data) != Some(Status::SUCCESS) {
                    return Err(Failed("lost: the drive cannot be filled".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// A piece is as it was written, or, if it may be `gone`, cannot be read.
    fn check(&mut self, host: &mut Host, place: u32, version: u64, gone: bool) {
        let Some((status, read)) = host.read(NSID, place) else {
            self.outcome.lost += 1;
            return;
        };
        let good = status.is_success() && read == content(self.seed(place, version));
        let refused = gone && status.code() == Status::INTERNAL.code();
        self.outcome.verified += 1;
        if !good && !refused {
            let zeros = read.iter().all(|byte| *byte == 0);
            self.wrong(format!("piece {place}: {status}, zeros: {zeros}"));
        }
    }

    /// Reads both halves and writes the lower one, until writes fail. (A write past the new end in
    /// the millisecond before a truncation is seen makes the file longer:
    /// `docs/design/node-drives.md`, *Files that others change*.)
    fn work(&mut self, host: &mut Host, stop: &AtomicBool) {
        for round in 1_u64.. {
            let piece = (round % u64::from(PIECES)) as u32;
            self.check(host, UPPER + self.lower(piece), 0, self.loss == Loss::Truncated);
            let place = self.lower(piece);
            if let Some(version) = self.versions[piece as usize] {
                self.check(host, place, version, false);
                let done = host.run(command(io::WRITE, NSID, place), &content(self.seed(place, round)));
                self.versions[piece as usize] = match done {
                    Some(Status::SUCCESS) => Some(round),
                    Some(status) if status.code() == Status::WRITE_FAULT.code() => None,
                    done => {
                        self.wrong(format!("a write ends with {done:?}"));
                        None
                    }
                };
            }
            if stop.load(Ordering::Acquire) || host.queue.is_broken() {
                return;
            }
        }
    }
}

/// Waits until nothing is written any more.
fn refuses_writes(node: &Node) -> Result<(), Failed> {
    let mut host = Host::connect(&node.target, 99)?;
    let until = Instant::now() + PATIENCE;
    let place = HOSTS * PIECES;
    while host.run(command(io::WRITE, NSID, place), &content(1)) == Some(Status::SUCCESS) {
        if Instant::now() >= until {
            return Err(Failed("lost: writes go on".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns whether a node ended because the lost file could not be made durable, and for nothing
/// else: exit code 3 is also that of a core that panics, and of threads that do not come back.
fn is_of_the_loss(ended: &str) -> bool {
    let said = ended.strip_prefix("exit status: 3: ");
    let last = said.and_then(|said| said.rsplit("; ").next()).unwrap_or_default();
    last.starts_with("pumice: ")
        && last.contains(": flush: its file was ")
        && !["panicked", "core", "not done after", "the node stops"].iter().any(|bad| ended.contains(bad))
}

/// One round: breaches are appended.
fn lose(loss: Loss, setup: &Setup, all: &mut Outcome, breaches: &mut Vec<String>) -> Result<Node, Failed> {
    let node = setup.start()?;
    let good = Good::start_on(1..=1, &node.target, PERIOD)?;
    let load =
        |number| Load { number, loss, versions: vec![Some(0); PIECES as usize], outcome: Outcome::default() };
    let mut loads: Vec<(Load, Host)> = Vec::new();
    for number in 0..HOSTS {
        let (mut load, mut host) = (load(number), Host::connect(&node.target, number as u8)?);
        load.fill(&mut host)?;
        loads.push((load, host));
    }
    let stop = AtomicBool::new(false);
    let lost = std::thread::scope(|scope| {
        for (load, host) in &mut loads {
            let stop = &stop;
            scope.spawn(move || load.work(host, stop));
        }
        std::thread::sleep(Duration::from_millis(200));
        let done = match loss {
            Loss::Truncated => {
                File::options().write(true).open(setup.drive()).and_then(|file| file.set_len(DRIVE / 2))
            }
            Loss::Removed => fs::remove_file(setup.drive()),
        };
        let done = done
            .map_err(|error| Failed(format!("{}: {error}", setup.drive().display())))
            .and_then(|()| refuses_writes(&node));
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Release);
        done
    });
    lost?;
    for (load, host) in &mut loads {
        for piece in 0..PIECES {
            let (place, upper) = (load.lower(piece), UPPER + load.lower(piece));
            if let Some(version) = load.versions[piece as usize] {
                load.check(host, place, version, false);
            }
            load.check(host, upper, 0, loss == Loss::Truncated);
            let gone = host.read(NSID, upper).is_some_and(|(status, _)| !status.is_success());
            if gone != (loss == Loss::Truncated) {
                breaches.push(format!("{loss:?}: piece {upper} can be read: {}", !gone));
            }
            for sqe in [command(io::WRITE, NSID, upper), command(io::WRITE_ZEROES, NSID, place)] {
                let data = if sqe.opcode() == io::WRITE { content(9) } else { Vec::new() };
                let status = host.run(sqe, &data);
                if status.map(Status::code) != Some(Status::WRITE_FAULT.code()) {
                    breaches.push(format!("{loss:?}: {:#x} ends with {status:?}", sqe.opcode()));
                }
            }
        }
        let flushed = host.run(Sqe::new(io::FLUSH, NSID), &[]);
        if flushed.map(Status::code) != Some(Status::WRITE_FAULT.code()) {
            breaches.push(format!("{loss:?}: a flush ends with {flushed:?}"));
        }
    }
    let len = fs::metadata(setup.drive()).map(|about| about.len());
    if loss == Loss::Truncated && len.as_ref().ok() != Some(&(DRIVE / 2)) {
        breaches.push(format!("the file has {len:?} bytes"));
    }
    for outcome in loads.iter().map(|(load, _)| load.outcome.clone()).chain([good.stop()]) {
        all.verified += outcome.verified;
        all.wrong += outcome.wrong;
        all.lost += outcome.lost;
        all.refused += outcome.refused;
        all.why.extend(outcome.why);
    }
    breaches.truncate(20);
    Ok(node)
}

/// See the module.
pub(super) fn run(options: &Options, folder: &Path) -> Result<Row, Failed> {
    let (mut all, mut breaches, mut last) = (Outcome::default(), Vec::new(), None);
    for round in 0..options.rounds {
        for loss in [Loss::Truncated, Loss::Removed] {
            let name = format!("lost-{loss:?}-{round}").to_lowercase();
            let setup = Setup::new(&options.binary, folder, &name, options.cores)?;
            last = Some(lose(loss, &setup, &mut all, &mut breaches)?);
        }
    }
    let node = last.ok_or_else(|| Failed("lost: no rounds".to_owned()))?;
    let mut row = row("lost", all, node, breaches, options);
    // What cannot be made durable is no good end: the node says so, and its exit code does.
    match &mut row.ended {
        Some((_, status)) if is_of_the_loss(status) => *status = "exit status: 0".to_owned(),
        Some((_, status)) => row.breaches.push(format!("a node that lost a file ends with {status}")),
        None => {}
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::is_of_the_loss;

    #[test]
    fn only_the_loss_of_the_file_excuses_exit_code_3() {
        let lost = "pumice: /tmp/x/drive: flush: its file was truncated to 33554432 bytes";
        assert!(is_of_the_loss(&format!("exit status: 3: {lost}")));
        assert!(is_of_the_loss(&format!("exit status: 3: ERROR drive failed drive=2; {lost}")));
        for other in [
            "exit status: 3: ".to_owned(),
            "exit status: 3: pumice: the node stops: core 0 panicked".to_owned(),
            format!("exit status: 3: ERROR panicked thread=\"core0\"; {lost}"),
            "exit status: 3: pumice: not done after 10 s: medium3".to_owned(),
            format!("exit status: 1: {lost}"),
            format!("signal: 6: {lost}"),
        ] {
            assert!(!is_of_the_loss(&other), "{other}");
        }
    }
}

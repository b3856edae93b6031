//! A node is killed under load, again and again: nothing that it acknowledged is lost.

use super::{Host, PATIENCE, PIECE_BYTES, command, content, row};
use crate::hostile::good::Outcome;
use crate::hostile::measure::Row;
use crate::hostile::node::Setup;
use crate::hostile::random::Random;
use crate::hostile::wire::Target;
use crate::hostile::{Failed, Options};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Hosts that write, each with a part of its own.
const HOSTS: u8 = 8;
/// Pieces of a host.
const PIECES: u32 = 64;
/// The drive in a file: what is in memory goes with the node.
const NSID: u32 = 2;
/// Kills for each round.
const KILLS: u32 = 4;
/// Commands that must have been acknowledged before the next kill.
const COMMANDS: u64 = 200;

/// Content of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Zeros,
    Written(u64),
    Unreadable,
}

impl Content {
    fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Zeros => Some(vec![0; PIECE_BYTES]),
            Self::Written(seed) => Some(content(seed)),
            Self::Unreadable => None,
        }
    }

    /// Returns whether a read brought all of it.
    fn is(self, status: Status, read: &[u8]) -> bool {
        match self.bytes() {
            None => Status(status.code()) == Status::READ_ERROR,
            Some(bytes) => status.is_success() && bytes == read,
        }
    }
}

/// Returns whether what was read of a piece can be, if it may hold each of these, block by block: a
/// command without an answer was carried out, or not, or for some blocks.
fn is_right(may: &[Content], status: Status, read: &[u8]) -> bool {
    if !status.is_success() {
        return may.iter().any(|content| content.is(status, read));
    }
    let bytes: Vec<Vec<u8>> = may.iter().filter_map(|content| content.bytes()).collect();
    let known = |(i, block): (usize, &[u8])| bytes.iter().any(|bytes| bytes[i * 512..][..512] == *block);
    read.chunks(512).enumerate().all(known)
}

/// A host's knowledge of its pieces.
struct Ledger {
    number: u8,
    random: Random,
    /// Contents that each piece may have: the last that was acknowledged, and those without an
    /// answer since.
    pieces: Vec<Vec<Content>>,
    writes: u64,
    outcome: Outcome,
}

impl Ledger {
    fn new(number: u8) -> Self {
        Self {
            number,
            random: Random::new(u64::from(number) + 77),
            pieces: vec![vec![Content::Zeros]; PIECES as usize],
            writes: 0,
            outcome: Outcome::default(),
        }
    }

    fn command(&self, code: u8, piece: usize) -> Sqe {
        command(code, NSID, u32::from(self.number) * PIECES + piece as u32)
    }

    fn note(&mut self, what: String) {
        if self.outcome.why.len() < 5 {
            self.outcome.why.push(what);
        }
    }

    /// Reads everything, and compares it; false if the node went meanwhile.
    fn verify(&mut self, host: &mut Host) -> bool {
        for piece in 0..self.pieces.len() {
            let place = u32::from(self.number) * PIECES + piece as u32;
            let Some((status, read)) = host.read(NSID, place) else { return false };
            self.outcome.verified += 1;
            let may = &mut self.pieces[piece];
            if is_right(may, status, &read) {
                // From now on it stays what it is.
                if let Some(is) = may.iter().copied().find(|content| content.is(status, &read)) {
                    *may = vec![is];
                }
            } else {
                let what = format!("host {}, piece {piece}: {status}, not one of {may:?}", self.number);
                self.outcome.wrong += 1;
                self.note(what);
            }
        }
        true
    }

    /// One command; false if it was not answered.
    fn step(&mut self, host: &mut Host, all: &AtomicU64) -> bool {
        let piece = self.random.below(self.pieces.len() as u64) as usize;
        self.writes += 1;
        let seed = u64::from(self.number) << 48 | self.writes;
        let (code, new) = match self.random.below(20) {
            0 => (io::WRITE_UNCORRECTABLE, Content::Unreadable),
            1 => (io::WRITE_ZEROES, Content::Zeros),
            _ => (io::WRITE, Content::Written(seed)),
        };
        let mut sqe = self.command(code, piece);
        if code == io::WRITE && self.random.once_in(3) {
            sqe.set_dword(12, sqe.dword(12) | u32::from(Sqe::FUA) << 16);
        }
        let data = if code == io::WRITE { content(seed) } else { Vec::new() };
        self.pieces[piece].push(new);
        let Some(status) = host.run(sqe, &data) else { return false };
        if status.is_success() {
            self.pieces[piece] = vec![new];
            all.fetch_add(1, Ordering::AcqRel);
        } else {
            self.outcome.refused += 1;
            self.note(format!("host {}, {code:#x}: {status}", self.number));
        }
        // Now and then everything is made durable.
        !self.random.once_in(100) || host.run(Sqe::new(io::FLUSH, NSID), &[]).is_some()
    }

    /// Verifies, and writes until the node is gone.
    fn work(&mut self, target: &Target, all: &AtomicU64) {
        if let Ok(mut host) = Host::connect(target, self.number)
            && self.verify(&mut host)
        {
            while self.step(&mut host, all) {}
        }
    }
}

/// See the module.
pub(super) fn run(options: &Options, folder: &Path) -> Result<Row, Failed> {
    let setup = Setup::new(&options.binary, folder, "kill", options.cores)?;
    let mut ledgers: Vec<Ledger> = (0..HOSTS).map(Ledger::new).collect();
    let mut random = Random::new(5);
    let acknowledged = AtomicU64::new(0);
    let mut breaches = Vec::new();
    for round in 0..options.rounds * KILLS {
        let node = setup.start()?;
        let until = Instant::now() + PATIENCE;
        let enough = acknowledged.load(Ordering::Acquire) + COMMANDS;
        std::thread::scope(|scope| {
            for ledger in &mut ledgers {
                scope.spawn(|| ledger.work(&node.target, &acknowledged));
            }
            while acknowledged.load(Ordering::Acquire) < enough && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(random.below(200)));
            node.kill();
        });
        if acknowledged.load(Ordering::Acquire) < enough {
            breaches.push(format!("round {round}: too little was acknowledged"));
        }
    }
    let node = setup.start()?;
    let mut all = Outcome::default();
    for ledger in &mut ledgers {
        let mut host = Host::connect(&node.target, ledger.number)?;
        if !ledger.verify(&mut host) {
            all.lost += 1;
        }
        let Outcome { verified, wrong, refused, why, .. } = &ledger.outcome;
        all.verified += verified;
        all.wrong += wrong;
        all.refused += refused;
        all.why.extend_from_slice(why);
    }
    let (kills, commands) = (options.rounds * KILLS, acknowledged.into_inner());
    crate::hostile::say(&format!("kill: {kills} kills, {commands} commands acknowledged"));
    breaches.truncate(20);
    Ok(row("kill", all, node, breaches, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_torn_or_stale_is_seen() {
        let (old, new) = (Content::Written(1), Content::Written(2));
        let (good, lost) = (Status::SUCCESS, Status::READ_ERROR);
        let bytes = |content: Content| content.bytes().unwrap();
        assert!(is_right(&[new], good, &bytes(new)));
        assert!(!is_right(&[new], good, &bytes(old)), "stale");
        assert!(!is_right(&[new], good, &bytes(Content::Zeros)), "lost");
        assert!(!is_right(&[new], lost, &bytes(new)) && !is_right(&[new], Status::INTERNAL, &bytes(new)));
        let mut torn = bytes(new);
        torn[512..1024].copy_from_slice(&bytes(old)[512..1024]);
        assert!(!is_right(&[new], good, &torn), "torn");
        assert!(is_right(&[old, new], good, &torn), "it had no answer");
        torn[512] ^= 1;
        assert!(!is_right(&[old, new], good, &torn));
        assert!(is_right(&[Content::Unreadable], lost, &[]));
        assert!(!is_right(&[Content::Unreadable], good, &bytes(Content::Zeros)), "a mark is lost");
        assert!(is_right(&[new, Content::Unreadable], lost, &[]));
    }
}

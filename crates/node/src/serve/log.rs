//! Lines of the log that peers can provoke: each kind has a budget, so that no peer can fill a disk
//! with them. `docs/reference/visibility.md` lists them.

use super::metrics::Count;
use pumice_nvme::controller::{Ended, Notice, Who};
use pumice_nvme::spec::Status;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tracing::{error, info, warn};

/// Lines of a kind that may come at once.
const BURST: u64 = 20;
/// Nanoseconds after which one more may come.
const PAUSE: u64 = 1_000_000_000;

/// The budget of one kind of line.
#[derive(Debug, Default)]
struct Budget {
    /// The time until which the lines so far are paid for: nanoseconds of the log's clock.
    paid: u64,
    /// Lines that were left out since the last one.
    left_out: u64,
}

impl Budget {
    /// Takes room for a line: the number of lines left out before it, or `None` if it may not go
    /// out now.
    fn take(&mut self, now: u64) -> Option<u64> {
        let paid = self.paid.max(now);
        if paid - now > (BURST - 1) * PAUSE {
            self.left_out += 1;
            return None;
        }
        self.paid = paid + PAUSE;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Associated,
    Ended,
    Refused,
    Violation,
    NoRoom,
    Failed,
    StandsStill,
}

const KINDS: usize = Kind::StandsStill as usize + 1;

/// See the module.
#[derive(Debug)]
pub(super) struct Log {
    began: Instant,
    budgets: [Mutex<Budget>; KINDS],
    suppressed: Count,
}

impl Default for Log {
    fn default() -> Self {
        Self { began: Instant::now(), budgets: Default::default(), suppressed: Count::default() }
    }
}

/// A name as a host gave it, fit for a line.
fn shown(name: &str) -> String {
    name.chars().flat_map(char::escape_debug).take(223).collect()
}

fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Log {
    /// Lines that were left out.
    pub(super) fn suppressed(&self) -> &Count {
        &self.suppressed
    }

    /// The number of lines that were left out before this one, where there were some; `None` if
    /// this one is left out.
    fn may(&self, kind: Kind) -> Option<Option<u64>> {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let taken = self.budgets[kind as usize].lock().unwrap_or_else(PoisonError::into_inner).take(now);
        if taken.is_none() {
            self.suppressed.add(1);
        }
        taken.map(|left_out| (left_out > 0).then_some(left_out))
    }

    /// Logs a notice of a connection.
    pub(super) fn notice(&self, notice: &Notice, peer: SocketAddr, local: SocketAddr) {
        match notice {
            Notice::Associated { association, kato_ms } => {
                let Some(suppressed) = self.may(Kind::Associated) else { return };
                let Who { host, host_id, cntlid, discovery } = association;
                let (host, host_id) = (shown(host), hex(host_id));
                info!(host, host_id, controller = cntlid, %peer, %local, kato_ms, discovery, suppressed, "associated");
            }
            Notice::Refused { host, qid, status } => {
                let Some(suppressed) = self.may(Kind::Refused) else { return };
                let host = shown(host);
                warn!(host, %peer, queue = qid, %status, suppressed, "connect refused");
            }
            Notice::Unproven { host, qid, failure } => {
                let Some(suppressed) = self.may(Kind::Refused) else { return };
                let host = shown(host);
                warn!(host, %peer, queue = qid, %failure, suppressed, "authentication failed");
            }
            Notice::Violation(what) => {
                let Some(suppressed) = self.may(Kind::Violation) else { return };
                warn!(%peer, what, suppressed, "protocol violation");
            }
        }
    }

    /// An association is over.
    pub(super) fn ended(&self, ended: &Ended, peer: SocketAddr) {
        let Some(suppressed) = self.may(Kind::Ended) else { return };
        let Ended { association, reason, commands, bytes_read, bytes_written } = ended;
        let (host, host_id) = (shown(&association.host), hex(&association.host_id));
        let controller = association.cntlid;
        info!(
            host, host_id, controller, %peer, %reason, commands, bytes_read, bytes_written, suppressed,
            "association ended"
        );
    }

    /// There are as many connections as there may be.
    pub(super) fn no_room(&self, peer: SocketAddr, limit: usize) {
        let Some(suppressed) = self.may(Kind::NoRoom) else { return };
        warn!(%peer, limit, suppressed, "connection refused");
    }

    /// A host waited too long for all cores to make a round.
    pub(super) fn stands_still(&self, peer: SocketAddr) {
        let Some(suppressed) = self.may(Kind::StandsStill) else { return };
        error!(%peer, suppressed, "a core stands still");
    }

    /// A medium did not do what a command asked for.
    pub(super) fn failed(&self, index: usize, name: &str, status: Status) {
        let Some(suppressed) = self.may(Kind::Failed) else { return };
        warn!(drive = index + 1, name, %status, suppressed, "command failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_cut_and_counted() {
        let mut budget = Budget::default();
        let mut now = 5 * PAUSE;
        let lines = (0..1000).filter(|_| budget.take(now).is_some()).count();
        assert_eq!(lines as u64, BURST);
        now += PAUSE;
        assert_eq!(budget.take(now), Some(1000 - BURST), "the next line says how many were left out");
        assert_eq!(budget.take(now), None);
        now += 3600 * PAUSE;
        let lines = (0..1000).filter(|_| budget.take(now).is_some()).count();
        assert_eq!(lines as u64, BURST, "a quiet hour is no more than a burst");
    }

    #[test]
    fn what_is_no_name_is_shown_escaped_and_short() {
        assert_eq!(shown("nqn.2026-11.example:größe"), "nqn.2026-11.example:größe");
        let bent = shown("a\u{202E}\n\u{1B}[2Jb");
        assert!(bent.is_ascii() && !bent.contains('\n') && !bent.contains('\u{1B}'), "{bent}");
        assert_eq!(shown(&"\n".repeat(255)).len(), 223);
    }
}

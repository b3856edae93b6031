//! Waits for the nodes' pace before a batch, on the host's side, and says so: then no command waits
//! at a node while stripes are locked, and the operator knows what the pass waits for.
//! `docs/design/pacing.md`, *Before a batch*.

use crate::date;
use crate::error::HostError;
use crate::pass::Observer;
use crate::stop::Stop;
use crate::target::Target;
use pumice_base::units::format_date;
use std::time::{Duration, Instant};

/// Longest time between two questions while it waits: another host may have changed the pace, and a
/// node that has gone is noticed.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// Time between two questions to nodes that keep no pace.
const WITHOUT_PACE: Duration = Duration::from_secs(1);
/// Shortest wait for a rate that is worth a note.
const WORTH_A_NOTE: Duration = Duration::from_secs(5);

/// Reason for the wait of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wait {
    /// The hours in which a node's drives are read.
    Hours(Duration),
    /// The bytes a second that are read from a node's drives.
    Rate(Duration),
}

impl Wait {
    const fn time(&self) -> Duration {
        match self {
            Self::Hours(time) | Self::Rate(time) => *time,
        }
    }
}

/// The waits of one pass.
#[derive(Debug, Default)]
pub(super) struct PaceWaits {
    /// Time at which the nodes were last found to keep no pace.
    without: Option<Instant>,
    /// The last note: it is not repeated.
    last_note: Option<String>,
}

impl PaceWaits {
    /// Returns when a batch may begin.
    ///
    /// # Errors
    /// [`HostError::Interrupted`] if `stop` was raised, [`HostError::NeverOpen`] if the hours never
    /// come, and if a node does not answer.
    pub(super) fn wait(
        &mut self,
        target: &Target,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> Result<(), HostError> {
        if self.without.is_some_and(|asked| asked.elapsed() < WITHOUT_PACE) {
            return Ok(());
        }
        let mut paced = false;
        while let Some((node, wait)) = longest(target, &mut paced)? {
            self.note(&node, &wait, observer);
            stop.wait(wait.time().min(ASK_AGAIN)).map_err(|_| HostError::Interrupted)?;
        }
        self.last_note = None;
        self.without = (!paced).then(Instant::now);
        Ok(())
    }

    fn note(&mut self, node: &str, wait: &Wait, observer: &mut dyn Observer) {
        let what = match wait {
            Wait::Hours(time) => {
                // Rounded: the next question gives a time that differs by milliseconds.
                let opens = (date::now() + time.as_secs() + 30) / 60 * 60;
                format!("waiting for the pacing window of node {node}, opens at {}", format_date(opens))
            }
            Wait::Rate(time) if *time < WORTH_A_NOTE => return,
            Wait::Rate(_) => format!("waiting for the pacing rate of node {node}"),
        };
        if self.last_note.as_ref() != Some(&what) {
            observer.note(&what);
            self.last_note = Some(what);
        }
    }
}

/// The longest wait of all nodes, and the node. `paced` becomes true if any keeps a pace.
///
/// Nodes themselves keep the rate of commands that hold no locks.
fn longest(target: &Target, paced: &mut bool) -> Result<Option<(String, Wait)>, HostError> {
    let mut longest: Option<(String, Wait)> = None;
    for node in target.nodes() {
        let figures = node.pace_figures()?;
        *paced |= !figures.is_empty();
        let name = |node: &dyn pumice_offload::DataNode| node.describe().map(|node| node.name);
        for of in figures {
            if of.closed_ns == u64::MAX {
                return Err(HostError::NeverOpen { node: name(&**node)? });
            }
            let wait = match (of.closed_ns, of.owed_ns) {
                (0, owed) if owed > 0 && target.is_locked() => Wait::Rate(Duration::from_nanos(owed)),
                (0, _) => continue,
                (closed, _) => Wait::Hours(Duration::from_nanos(closed)),
            };
            if longest.as_ref().is_none_or(|(_, other)| other.time() < wait.time()) {
                longest = Some((name(&**node)?, wait));
            }
        }
    }
    Ok(longest)
}

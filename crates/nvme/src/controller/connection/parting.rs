//! Reports of a connection: its notices, and the end of its association.

use super::{Connection, Queue};
use crate::controller::notice::{EndReason, Ended, Notice, Totals, Who};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Queue {
    /// Adds what it has done to its association's; the last of the association's tells all.
    pub(in crate::controller) fn part(self, reason: EndReason) -> Option<Ended> {
        let Self { totals, done, cntlid, hostid, hostnqn, discovery, qid, .. } = self;
        if qid == 0 {
            // The end of an I/O queue is not that of the association.
            let _ = totals.reason.set(reason);
        }
        // Relaxed: the thread that gets the whole has synchronized with all who let go of it.
        totals.commands.fetch_add(done.commands, Ordering::Relaxed);
        totals.bytes_read.fetch_add(done.bytes_read, Ordering::Relaxed);
        totals.bytes_written.fetch_add(done.bytes_written, Ordering::Relaxed);
        let Totals { reason: first, commands, bytes_read, bytes_written } = Arc::into_inner(totals)?;
        Some(Ended {
            association: Who { host: hostnqn, host_id: hostid, cntlid, discovery },
            reason: first.into_inner().unwrap_or(reason),
            commands: commands.into_inner(),
            bytes_read: bytes_read.into_inner(),
            bytes_written: bytes_written.into_inner(),
        })
    }

    pub(in crate::controller) fn who(&self) -> Who {
        let Self { cntlid, hostid, hostnqn, discovery, .. } = self;
        Who { host: hostnqn.clone(), host_id: *hostid, cntlid: *cntlid, discovery: *discovery }
    }
}

impl Connection {
    /// Takes the notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

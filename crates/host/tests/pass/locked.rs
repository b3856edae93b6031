//! Passes over an array that somebody writes, who gives locks and has the same nodes.

use crate::progress::raised;
use crate::world::{Notes, RAID6, World, options, pass};
use pumice_base::units::Role;
use pumice_host::error::HostError;
use pumice_host::locks::{Purpose, StripeLock, StripeLocks};
use pumice_host::scrub::{Options, run};
use pumice_host::stop::Stop;
use pumice_host::target::Target;
use pumice_offload::PaceRequest;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Locks of a writer that never writes.
struct Free;

impl StripeLocks for Free {
    fn lock(&self, _: Range<u64>, _: Purpose, _: &Stop) -> Result<StripeLock, HostError> {
        Ok(StripeLock::new((0..6).map(Role).collect(), Box::new(())))
    }
}

/// Giving up is for all commands of a node, also those of the writer, which would lose a member by
/// it.
#[test]
fn a_pass_under_locks_gives_up_no_command_of_the_writer() {
    for is_locked in [true, false] {
        let world = World::new(RAID6, 8);
        let first = world.target(2, &[]);
        let members = (0..6).map(|role| first.member(Role(role)).cloned()).collect();
        let writer = Target::new(first.array().clone(), members);
        let scrubbed = if is_locked { first.with_locks(Arc::new(Free)) } else { first };
        run(&scrubbed, None, &options(1), &mut Notes(Vec::new()), &raised()).unwrap();
        // Its commands have a pace, so they would wait.
        let pace = PaceRequest { rate: Some(1 << 30), ..PaceRequest::default() };
        let outcome = pass(&writer, None, &Options { pace, reconnect: Duration::ZERO, ..options(2) });
        assert_eq!(outcome.stopped.is_none(), is_locked, "{:?}", outcome.stopped);
    }
}

//! Updates whose sums go to peers together: `docs/design/offload.md`, *Updates*.

use super::{Answered, Offload, status_of};
use crate::engine::Permit;
use crate::serve::SharedSubsystem;
use crate::serve::peers::Sending;
use crate::serve::results::Sender;
use pumice_nvme::spec::Sqe;
use std::cell::RefCell;
use std::ops::Range;

impl Offload {
    /// Carries out updates that send sums, and sends them together.
    pub(in super::super) fn send_together(
        &self,
        all: &[(Sender, &Sqe, &[u8], &dyn Permit)],
        (subsystem, now): (&SharedSubsystem, u64),
    ) -> Vec<Answered> {
        let later = RefCell::new(Vec::new());
        let collect = |range, offset, bytes: &[u8]| {
            later.borrow_mut().push(Sending { range, offset, bytes: bytes.to_vec() });
            Ok(())
        };
        let made = all.iter().map(|(sender, sqe, data, permit)| {
            let first = later.borrow().len();
            let answered = self.execute_with(*sender, sqe, data, (subsystem, now), *permit, &collect);
            (answered, first..later.borrow().len())
        });
        let made: Vec<(Answered, Range<usize>)> = made.collect();
        // As long as anybody waits for one of them.
        let permit = || all.iter().any(|(.., permit)| permit.is_wanted());
        let sent = self.peers.send_all(&later.into_inner(), &permit);
        let joined = |(answered, sums): (Answered, Range<usize>)| {
            let failed = sent[sums].iter().find_map(|result| result.as_ref().err());
            match failed {
                Some(error) if answered.status.is_success() => Answered::refused(status_of(error)),
                _ => answered,
            }
        };
        made.into_iter().map(joined).collect()
    }
}

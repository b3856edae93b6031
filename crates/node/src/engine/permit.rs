//! The permission of a command to continue. The engine asks for it between pieces of work, so that
//! no command outlives its host, delays the end of the node, or takes the turn of other hosts.

use pumice_offload::{ErrorKind, NodeError};

/// Questions of the engine to the caller of a command.
pub(crate) trait Permit: Sync {
    /// Returns whether somebody still waits for the result.
    fn is_wanted(&self) -> bool;

    /// Returns whether the command is to let others have their turn now.
    fn must_yield(&self) -> bool {
        false
    }

    /// Waits for the next turn, or until the command is not wanted any more. The caller holds no
    /// buffers meanwhile.
    fn yield_turn(&self) {}

    /// From now on the command mostly waits for its drives' pacers: it takes its turn among those
    /// that do.
    fn enter_paced(&self) {}

    /// The asker whose pace the command keeps: 0 is this process, a host is its controller's
    /// number.
    fn asker(&self) -> u16 {
        0
    }

    /// Goes on, or ends the command.
    ///
    /// # Errors
    /// If nobody waits for the result.
    fn check(&self) -> Result<(), NodeError> {
        if self.is_wanted() { Ok(()) } else { Err(given_up()) }
    }
}

/// A permit that only says whether the command is wanted: nobody else waits for a turn.
impl<F: Fn() -> bool + Sync> Permit for F {
    fn is_wanted(&self) -> bool {
        self()
    }
}

fn given_up() -> NodeError {
    NodeError::new(ErrorKind::Unreachable, "given up, because nobody waits for it any more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalNode, NodeOptions, Peers};
    use pumice_blockdev::{BlockDevice, HookedDevice, MemoryDevice};
    use pumice_offload::{DriveId, MemoryAddress, Mode, PaceRequest, ParityCommand, Rule, Source, Window};
    use pumice_parity::seed::Seed;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const CHUNK: u32 = 1 << 20;
    const STRIPES: u64 = 64;

    fn command(source: Source, mode: Mode) -> ParityCommand {
        let rule = Rule::new(1, 1, vec![1], vec![vec![1]]).unwrap();
        ParityCommand {
            unpaced: false,
            sources: vec![source],
            chunk: CHUNK,
            window: Window { start: 0, len: CHUNK },
            stripes: 0..STRIPES,
            rule,
            mode,
        }
    }

    fn node() -> (LocalNode, Arc<AtomicUsize>) {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", u64::from(CHUNK) * STRIPES));
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let hooked = HookedDevice::over(device).at_reads(move |_, bytes| {
            counted.fetch_add(bytes.len(), Ordering::Relaxed);
        });
        let memory_bytes = u64::from(CHUNK) * STRIPES;
        let options = NodeOptions { memory_bytes, workers: 2, ..NodeOptions::default() };
        (LocalNode::new("n", vec![Arc::new(hooked) as _], &Peers::new(), options), reads)
    }

    /// Says yes so often, then no.
    fn times(yes: usize) -> impl Fn() -> bool + Sync {
        let asked = AtomicUsize::new(0);
        move || asked.fetch_add(1, Ordering::Relaxed) < yes
    }

    /// Of 64 MiB a few are read or folded after the host has gone, whatever the command does with
    /// them.
    #[test]
    fn a_command_that_nobody_waits_for_is_given_up() {
        let (media, into) =
            (Source::Media { drive: DriveId(1), base: 0 }, MemoryAddress { drive: DriveId(1), offset: 0 });
        let seed = Seed::from_number(1);
        let modes = [
            Mode::Check,
            Mode::Generate { into },
            Mode::Interims { into, seed: seed.clone(), accumulators: 1 },
            Mode::Accumulate { into, seed: seed.clone(), accumulators: 1 },
            Mode::Fingerprint { seed, powers: 2 },
        ];
        for mode in modes {
            for source in [media, Source::Memory { address: into }] {
                let (node, reads) = node();
                let error = node
                    .parity_while(&command(source, mode.clone()), &**node.memory(), &times(3))
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unreachable, "{mode:?} {source:?}: {error}");
                assert!(reads.load(Ordering::Relaxed) < 8 << 20, "{mode:?}");
                node.parity_while(&command(source, mode.clone()), &**node.memory(), &|| true).unwrap();
            }
        }
    }

    /// Lets others have their turn whenever it is asked.
    struct Polite(AtomicUsize);

    impl Permit for Polite {
        fn is_wanted(&self) -> bool {
            true
        }

        fn must_yield(&self) -> bool {
            true
        }

        fn yield_turn(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One that yields at every opportunity folds the same as one that never does.
    #[test]
    fn slices_add_up_to_the_whole() {
        let (media, into) =
            (Source::Media { drive: DriveId(1), base: 0 }, MemoryAddress { drive: DriveId(1), offset: 0 });
        for source in [media, Source::Memory { address: into }] {
            let (node, _) = node();
            let command = command(source, Mode::Fingerprint { seed: Seed::from_number(1), powers: 4 });
            let whole = node.parity_while(&command, &**node.memory(), &|| true).unwrap();
            for paced in [false, true] {
                if paced && source == media {
                    let gentle = PaceRequest { slowdown_ns: Some(1_000_000), ..PaceRequest::default() };
                    node.pacing().ask(0, gentle).unwrap();
                }
                let polite = Slow(Polite(AtomicUsize::new(0)));
                let sliced = node.parity_while(&command, &**node.memory(), &polite).unwrap();
                assert!(polite.0.0.load(Ordering::Relaxed) > 1, "it had to be asked more than once");
                assert_eq!(sliced.fingerprint, whole.fingerprint);
            }
        }
    }

    /// Yields after it has been asked once in a slice, so that every slice does something.
    struct Slow(Polite);

    impl Permit for Slow {
        fn is_wanted(&self) -> bool {
            true
        }

        fn must_yield(&self) -> bool {
            self.0.0.fetch_add(1, Ordering::Relaxed) % 3 == 2
        }

        fn yield_turn(&self) {}
    }
}

//! The kernels of one instruction set, as functions to call.

use super::compare::Compared;
use super::run::Run;
use crate::guard::Guard;

/// Register, source, target, bytes: the register after them.
type Message = unsafe fn(u64, *const u8, *mut u8, usize) -> u64;
type Blocks = unsafe fn(&Run);
/// Guards, and the tuples of their blocks.
type Compare = unsafe fn(Guard, &[u64], &[u8]) -> Compared;

/// The kernels of one guard, first without a copy and then with one.
pub(super) struct Pair {
    pub(super) message: [Message; 2],
    pub(super) blocks: [Blocks; 2],
}

/// The kernels of one instruction set, in the order of [`Guard::ALL`](crate::guard::Guard::ALL).
///
/// Every function needs the instructions of its set, and the contract of [`body`](super::body).
pub(super) struct Table {
    pub(super) guards: [Pair; 3],
    /// Needs nothing but the instructions.
    pub(super) compare: Compare,
}

/// Makes the table of a [`Vector`](super::vector::Vector) with the named features. The first is the
/// [`Sum`](super::body::Sum) for CRC-16.
macro_rules! table {
    ($crc16:ty, $vector:ty, $features:literal) => {
        mod instance {
            use super::super::body::{self, Sum};
            use super::super::compare::{self, Compared};
            use super::super::run::Run;
            use crate::guard::Guard;

            // SAFETY (of all functions): the table's contract is that of the bodies; the features
            // of this instruction set are enabled for the function, and the bodies are inlined into
            // it.

            #[target_feature(enable = $features)]
            pub(super) unsafe fn message<S: Sum, const COPY: bool>(
                register: u64,
                src: *const u8,
                dst: *mut u8,
                len: usize,
            ) -> u64 {
                // SAFETY: see above.
                unsafe { body::message::<S, COPY>(register, src, dst, len) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn blocks<S: Sum, const COPY: bool>(run: &Run) {
                // SAFETY: see above.
                unsafe { body::blocks::<S, COPY>(run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn compare(guard: Guard, guards: &[u64], tuples: &[u8]) -> Compared {
                compare::compare(guard, guards, tuples)
            }
        }

        const fn pair<S: super::body::Sum>() -> super::table::Pair {
            super::table::Pair {
                message: [instance::message::<S, false>, instance::message::<S, true>],
                blocks: [instance::blocks::<S, false>, instance::blocks::<S, true>],
            }
        }

        /// The kernels of this instruction set.
        pub(super) static TABLE: super::table::Table = super::table::Table {
            guards: [
                pair::<$crc16>(),
                pair::<super::body::Products<$vector, super::body::Crc32c>>(),
                pair::<super::body::Products<$vector, super::body::Crc64>>(),
            ],
            compare: instance::compare,
        };
    };
}

pub(super) use table;

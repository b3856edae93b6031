//! The chance that the network between this host and the nodes hides damage.

use pumice_offload::LinkFigures;
use serde::Serialize;

/// The chance that a CRC-32C lets a message pass whose bytes were replaced at random.
const RESIDUAL: f64 = 1.0 / 4_294_967_296.0;

/// The connections of a scrub to its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Wire {
    /// Bytes over all of them, both ways.
    pub bytes: u64,
    /// Messages (PDUs) over all of them, both ways.
    pub messages: u64,
    /// True if every message that left this machine had a CRC-32C of its header and one of its
    /// data.
    pub digests: bool,
    /// True if none left this machine.
    pub loopback: bool,
    /// The chance, at most, that a message that was damaged on the way was taken for whole, had
    /// every one of those with digests been damaged; `None` if there were messages that left this
    /// machine without digests: for those there is no bound but TCP's.
    pub miss_bound: Option<f64>,
}

impl Wire {
    /// Of the connections to each node; `None` without any. `docs/design/scrub-maths.md` derives
    /// the bound.
    #[must_use]
    pub fn of(links: &[LinkFigures]) -> Option<Self> {
        if links.is_empty() {
            return None;
        }
        let digests = links.iter().all(|link| link.digests || link.loopback);
        let guarded: u64 = links.iter().filter(|link| link.digests).map(|link| link.pdus).sum();
        Some(Self {
            bytes: links.iter().map(|link| link.bytes).sum(),
            messages: links.iter().map(|link| link.pdus).sum(),
            digests: digests && links.iter().any(|link| link.digests),
            loopback: links.iter().all(|link| link.loopback),
            miss_bound: digests.then_some((guarded as f64 * RESIDUAL).min(1.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(pdus: u64, digests: bool, loopback: bool) -> LinkFigures {
        LinkFigures { bytes: pdus * 100, pdus, digests, loopback }
    }

    #[test]
    fn the_bound_is_that_of_the_messages_that_have_digests() {
        assert_eq!(Wire::of(&[]), None);
        let bound = |links: &[LinkFigures]| Wire::of(links).unwrap().miss_bound;
        assert_eq!(bound(&[link(1 << 22, true, false), link(5, false, true)]), Some(1.0 / 1024.0));
        assert_eq!(bound(&[link(7, false, true)]), Some(0.0));
        assert_eq!(bound(&[link(7, true, false), link(7, false, false)]), None);
        let mixed = Wire::of(&[link(3, true, false), link(4, false, false)]).unwrap();
        assert_eq!((mixed.bytes, mixed.messages, mixed.digests, mixed.loopback), (700, 7, false, false));
    }
}

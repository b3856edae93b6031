//! Messages that are cut, changed in one bit, or made up: nothing panics, and nobody is
//! authenticated.

use crate::ends::{Ends, F2048, LIMIT, ROOM, credentials, key, policy, quick, seed};
use proptest::prelude::*;
use pumice_nvme::auth::Computed;
use pumice_nvme::auth::controller::{Controller, Step};
use pumice_nvme::auth::group::Group;
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::policy::Policy;
use std::sync::Arc;

/// Bytes of message `i` that no response covers and that change nothing, in an exchange where each
/// end has one hash and one group.
fn is_free(i: usize, at: usize, mutual: bool) -> bool {
    match i {
        // Negotiate: reserved bytes, and places after the one entry of each list.
        0 => [2, 3, 9].contains(&at) || (13..42).contains(&at) || at >= 43,
        1 => [2, 3, 7].contains(&at),
        // One way, nobody answers C2 and S2.
        2 => [2, 3, 7, 9].contains(&at) || (!mutual && ((12..16).contains(&at) || (48..80).contains(&at))),
        // Without a response, its length counts for nothing.
        3 => [2, 3, 7].contains(&at) || (9..16).contains(&at) || (!mutual && at == 6),
        _ => [2, 3].contains(&at) || at >= 6,
    }
}

/// Changes each byte of each message with each mask. Only free bytes do no harm, and those that
/// lengthen a list of Negotiate by unknown or unwanted entries.
fn flip(policy: &Arc<Policy>, mutual: bool, masks: &[u8]) {
    let (host_keys, controller_keys) = ([key(1)], [key(2)]);
    let controller_keys = if mutual { &controller_keys[..] } else { &[] };
    let mut good = Ends::of(&host_keys, controller_keys, policy);
    good.run_undisturbed();
    assert!(good.both_proven());
    let lengths: Vec<usize> = good.messages.iter().map(Vec::len).collect();
    assert_eq!(lengths.len(), if mutual { 5 } else { 4 });
    for (message, length) in lengths.into_iter().enumerate() {
        for at in 0..length {
            for mask in masks {
                let mut ends = Ends::of(&host_keys, controller_keys, policy);
                let mut list = false;
                ends.run(&mut |i, bytes| {
                    if i == message {
                        bytes[at] ^= mask;
                        list = i == 0 && (at == 10 || at == 11) && (1..=30).contains(&bytes[at]);
                    }
                });
                let harmless = is_free(message, at, mutual) || list;
                assert_eq!(ends.both_proven(), harmless, "message {message}, byte {at}, mask {mask:02X}h");
                if !harmless {
                    // One end may have been content before the other was not.
                    let last = message == 4 || (message == 3 && !mutual);
                    assert!(ends.controller.proof().is_none() || last);
                    assert!(ends.host.proof().is_none() || message == 4);
                }
            }
        }
    }
}

#[test]
fn a_changed_bit_authenticates_nobody() {
    let bits: Vec<u8> = (0..8).map(|bit| 1 << bit).collect();
    flip(&quick(), true, &bits);
    flip(&quick(), false, &bits);
    flip(&policy(&[Hash::Sha256], &[F2048]), true, &[1]);
}

#[test]
fn a_cut_message_authenticates_nobody() {
    for policy in [quick(), policy(&[Hash::Sha256], &[F2048])] {
        for mutual in [true, false] {
            let controller_keys = if mutual { vec![key(2)] } else { vec![] };
            let mut good = Ends::of(&[key(1)], &controller_keys, &policy);
            good.run_undisturbed();
            let lengths: Vec<usize> = good.messages.iter().map(Vec::len).collect();
            for (message, length) in lengths.into_iter().enumerate() {
                for cut in 0..length {
                    let mut ends = Ends::of(&[key(1)], &controller_keys, &policy);
                    ends.run(&mut |i, bytes| {
                        if i == message {
                            bytes.truncate(cut);
                        }
                    });
                    assert!(!ends.both_proven(), "message {message} of {length} bytes cut to {cut}");
                    assert!(ends.controller.proof().is_none() || (message == 3 && !mutual));
                }
            }
        }
    }
}

/// Acts of an attacker without a key against a controller.
#[derive(Debug, Clone)]
enum Act {
    /// Bytes.
    Send(Vec<u8>),
    /// A message of a good exchange with other keys, with a byte changed.
    Heard(usize, usize, u8),
    Receive(usize),
    /// The result of the last job, or of one before.
    Computed,
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let kinds = prop_oneof![Just(vec![0, 0]), Just(vec![1, 2]), Just(vec![1, 4]), Just(vec![0, 0xF0])];
    let made_up = (kinds, proptest::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(kind, rest)| Act::Send([kind, rest].concat()));
    prop_oneof![
        1 => made_up,
        6 => (0..5_usize, 0..500_usize, prop_oneof![3 => Just(0), 1 => any::<u8>()])
            .prop_map(|(message, at, mask)| Act::Heard(message, at, mask)),
        5 => prop_oneof![Just(ROOM), 0..100_usize].prop_map(Act::Receive),
        2 => Just(Act::Computed),
        1 => (0..LIMIT).prop_map(Act::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn without_the_key_nothing_proves_a_host(
        acts in proptest::collection::vec(act(), 1..40), group in any::<bool>(), transaction: u8,
    ) {
        let policy = policy(&[Hash::Sha256], &[if group { F2048 } else { Group::Null }]);
        // Heard on the wire, between ends with other keys.
        let mut heard = Ends::of(&[key(7)], &[key(8)], &policy);
        heard.run_undisturbed();
        let mut controller = Controller::new(credentials(&[key(1)], &[key(2)]), policy, LIMIT, 0);
        let (mut now, mut results) = (0, Vec::<Computed>::new());
        for (i, act) in acts.into_iter().enumerate() {
            let step = match act {
                Act::Send(bytes) => controller.send(&bytes, seed(i, 3), now),
                Act::Heard(message, at, mask) => {
                    let mut bytes = heard.messages[message].clone();
                    let at = at % bytes.len();
                    bytes[at] ^= mask;
                    if mask == 0 {
                        bytes[4..6].copy_from_slice(&[transaction & 1, 0]);
                    }
                    controller.send(&bytes, seed(i, 4), now)
                }
                Act::Receive(room) => {
                    let answer = controller.receive(room, now);
                    prop_assert!(answer.message.len() <= room);
                    Step::Complete
                }
                Act::Computed => match results.pop() {
                    Some(result) => controller.computed(result, now),
                    None => Step::Complete,
                },
                Act::Pass(time) => {
                    now += time;
                    Step::Complete
                }
            };
            if let Step::Compute(job) = step {
                results.push(job.run());
            }
            prop_assert!(controller.proof().is_none());
        }
    }

    #[test]
    fn any_bytes_leave_a_host_unproven(
        messages in proptest::collection::vec(
            (prop_oneof![Just([1, 1]), Just([1, 3]), Just([0, 0xF1])], proptest::collection::vec(any::<u8>(), 0..400)),
            1..4,
        ),
        likely in any::<bool>(),
    ) {
        let mut host = Host::new(credentials(&[key(1)], &[key(2)]), quick(), LIMIT);
        let Action::Send(offer) = host.start(seed(3, 1), 0) else { panic!() };
        for (i, (kind, mut rest)) in messages.into_iter().enumerate() {
            if likely && rest.len() > 60 {
                rest[2..4].copy_from_slice(&offer[4..6]);
                rest[4..10].copy_from_slice(&[32, 0, 1, 0, 0, 0]);
            }
            let action = host.received(&[&kind[..], &rest].concat(), seed(5, i), 0);
            prop_assert!(!matches!(action, Action::Finish(_) | Action::Done));
            prop_assert!(host.proof().is_none());
        }
    }
}

//! Peers without the key, and somebody between two good ends.

use crate::ends::{
    Ends, F2048, F3072, HOST, LIMIT, ROOM, SUBSYSTEM, complete, credentials, key, nqn, policy, quick, seed,
};
use pumice_nvme::auth::controller::{Controller, Step};
use pumice_nvme::auth::credentials::{Credentials, CredentialsError};
use pumice_nvme::auth::failure::Failure;
use pumice_nvme::auth::group::{Ffdhe, Group};
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::message::{
    Challenge, Envelope, FromController, FromHost, Negotiate, Offer, Reply, Success1,
};
use pumice_nvme::auth::policy::Policy;
use std::sync::Arc;

/// Answer of an impostor to a Reply.
type Impostor = fn(&Reply) -> Option<Vec<u8>>;

fn ends(of_host: &Arc<Credentials>, of_controller: &Arc<Credentials>, policy: &Arc<Policy>) -> Ends {
    let host = Host::new(of_host.clone(), policy.clone(), LIMIT);
    Ends::new(host, Controller::new(of_controller.clone(), policy.clone(), LIMIT, 0))
}

#[test]
fn a_host_with_another_key_is_refused() {
    let policies = [quick(), policy(&[Hash::Sha512], &[F2048])];
    for policy in policies {
        for one in [key(3), key(2), ChapKey::new(Some(Hash::Sha384), &[1; 32]).unwrap()] {
            for mutual in [false, true] {
                let asked = if mutual { vec![key(9)] } else { vec![] };
                let own = credentials(std::slice::from_ref(&one), &asked);
                let mut ends = ends(&own, &credentials(&[key(1)], &[key(2)]), &policy);
                ends.run_undisturbed();
                assert_eq!(ends.controller.failure(), Some(&Failure::Response));
                assert!(ends.controller.proof().is_none() && ends.host.proof().is_none());
                assert!(
                    matches!(ends.host.failure(), Some(Failure::Peer(notice)) if notice.explanation == 1)
                );
            }
        }
    }
}

/// The key of a host proves its name only.
#[test]
fn a_host_with_another_name_is_refused() {
    let right = credentials(&[key(1)], &[key(2)]);
    let names = [(SUBSYSTEM, SUBSYSTEM), ("nqn.2026-01.example:other", SUBSYSTEM), (HOST, HOST)];
    for transform in [None, Some(Hash::Sha256)] {
        for (host, subsystem) in names {
            let key = ChapKey::new(transform, &[1; 32]).unwrap();
            let own = Credentials::new(nqn(host), nqn(subsystem), std::slice::from_ref(&key), &[]).unwrap();
            let of_controller = credentials(&[key], &[]);
            let mut ends = ends(&Arc::new(own), &of_controller, &quick());
            ends.run_undisturbed();
            assert_eq!(ends.controller.failure(), Some(&Failure::Response), "{host} {subsystem}");
        }
    }
    let mut good = ends(&right, &right, &quick());
    good.run_undisturbed();
    assert!(good.both_proven());
}

#[test]
fn a_controller_without_the_key_is_refused_by_a_host_that_wants_proof() {
    for policy in [quick(), policy(&[Hash::Sha384], &[F2048])] {
        // It has the host's key, and another controller key.
        let of_host = credentials(&[key(1)], &[key(2)]);
        let mut ends = ends(&of_host, &credentials(&[key(1)], &[key(3)]), &policy);
        ends.run_undisturbed();
        assert_eq!(ends.host.failure(), Some(&Failure::Response));
        assert!(ends.host.proof().is_none() && ends.controller.proof().is_none());
        assert!(matches!(ends.controller.failure(), Some(Failure::Peer(_))));
    }
    // It accepts anything and proves nothing: it sends the response back, the challenge, or none.
    let back: [Impostor; 4] = [
        |_| None,
        |reply| Some(reply.response.clone()),
        |reply| Some(reply.challenge.clone()),
        |_| Some(vec![0; 32]),
    ];
    for answer in back {
        let mut host = Host::new(credentials(&[key(1)], &[key(2)]), quick(), LIMIT);
        let Action::Send(offer) = host.start(seed(3, 1), 0) else { panic!() };
        let transaction = FromHost::parse(&offer).unwrap().transaction;
        let challenge = Challenge {
            hash: Hash::Sha256,
            group: Group::Null,
            sequence: 1,
            challenge: vec![5; 32],
            value: vec![],
        };
        let Action::Send(reply) = host.received(&challenge.encode(transaction), seed(3, 2), 0) else {
            panic!()
        };
        let Ok(Envelope { message: FromHost::Reply(reply), .. }) = FromHost::parse(&reply) else { panic!() };
        let success = Success1 { response: answer(&reply) }.encode(Hash::Sha256, transaction);
        assert!(matches!(host.received(&success, seed(3, 3), 0), Action::Refuse(_)));
        assert!(matches!(host.failure(), Some(Failure::NoProof | Failure::Response)));
    }
    // It does not ask at all.
    let mut host = Host::new(credentials(&[key(1)], &[key(2)]), quick(), LIMIT);
    assert_eq!(host.go_without(), Err(Failure::NotRequired));
    assert!(matches!(host.start(seed(3, 1), 0), Action::End));
    assert_eq!(Host::new(credentials(&[key(1)], &[]), quick(), LIMIT).go_without(), Ok(()));
}

#[test]
fn a_reply_that_was_heard_is_good_once() {
    for policy in [quick(), policy(&[Hash::Sha256], &[F2048])] {
        let mut good = Ends::of(&[key(1)], &[key(2)], &policy);
        good.run_undisturbed();
        assert!(good.both_proven());
        let (offer, reply) = (good.messages[0].clone(), good.messages[2].clone());
        // On the same queue, in a new exchange.
        let step = good.controller.send(&offer, seed(9, 1), 0);
        assert!(complete(&mut good.controller, step, 0) && !good.controller.receive(ROOM, 0).end);
        let step = good.controller.send(&reply, seed(9, 2), 0);
        assert!(complete(&mut good.controller, step, 0));
        assert_eq!(good.controller.proof(), None);
        // On another queue.
        let both = credentials(&[key(1)], &[key(2)]);
        let mut other = Controller::new(both.clone(), policy.clone(), LIMIT, 0);
        let step = other.send(&offer, seed(9, 3), 0);
        assert!(complete(&mut other, step, 0) && !other.receive(ROOM, 0).end);
        let step = other.send(&reply, seed(9, 4), 0);
        assert!(complete(&mut other, step, 0));
        assert_eq!(other.failure(), Some(&Failure::Response));
        // Twice for one challenge.
        let mut twice = Ends::of(&[key(1)], &[key(2)], &policy);
        twice.run(&mut |i, message| {
            if i == 4 {
                message.clone_from(&reply);
            }
        });
        assert_eq!(twice.controller.failure(), Some(&Failure::OutOfTurn("Reply")));
        assert!(twice.controller.proof().is_none());
    }
}

#[test]
fn a_wrong_reply_uses_the_challenge_up() {
    let policy = quick();
    let mut ends = Ends::of(&[key(1)], &[key(2)], &policy);
    ends.run(&mut |i, message| {
        if i == 2 {
            message[16] ^= 1;
        }
    });
    assert_eq!(ends.controller.failure(), Some(&Failure::Response));
    // The right one now comes too late.
    let reply = ends.messages[2].clone();
    assert!(matches!(ends.controller.send(&reply, seed(9, 1), 0), Step::End));
    assert!(ends.controller.proof().is_none());
}

/// Reflection: the attacker wants the controller to compute the response that it asks for.
#[test]
fn a_challenge_sent_back_is_refused() {
    // Ends whose keys are the same do not come to be.
    let (one, same) = (key(1), ChapKey::new(None, &[1; 32]).unwrap());
    let found = {
        let host_keys = std::slice::from_ref(&one);
        Credentials::new(nqn(HOST), nqn(SUBSYSTEM), host_keys, &[key(2), same]).err()
    };
    assert_eq!(found, Some(CredentialsError::SameSecret));
    let found = Credentials::new(nqn(HOST), nqn(SUBSYSTEM), &[key(2), one.clone()], &[one]).err();
    assert_eq!(found, Some(CredentialsError::SameSecret));

    let mut controller = Controller::new(credentials(&[key(1)], &[key(2)]), quick(), LIMIT, 0);
    let offer = Some(Offer { hashes: vec![Hash::Sha256], groups: vec![Group::Null] });
    let offer = Negotiate { concatenation: 0, offer }.encode(1);
    assert!(matches!(controller.send(&offer, seed(3, 1), 0), Step::Complete));
    let challenge = match FromController::parse(&controller.receive(ROOM, 0).message).unwrap().message {
        FromController::Challenge(challenge) => challenge,
        other => panic!("{other:?}"),
    };
    let reply = Reply {
        wants_proof: true,
        sequence: challenge.sequence,
        response: vec![0; 32],
        challenge: challenge.challenge,
        value: vec![],
    };
    assert!(matches!(controller.send(&reply.encode(1), seed(3, 2), 0), Step::Complete));
    assert_eq!(controller.failure(), Some(&Failure::SameChallenge));
    // It has told nothing that could be sent on: the answer is 8 bytes.
    assert_eq!(controller.receive(ROOM, 0).message.len(), 8);
}

/// The controller's response is given to nobody who has not proven the host's key.
#[test]
fn a_controller_answers_no_challenge_before_the_host_has_proven_itself() {
    let of_host = credentials(&[key(3)], &[key(2)]);
    let mut ends = ends(&of_host, &credentials(&[key(1)], &[key(2)]), &quick());
    ends.run_undisturbed();
    assert!(ends.messages.iter().skip(3).all(|message| message.len() == 8), "{:?}", ends.messages);
}

#[test]
fn nobody_in_the_middle_brings_the_ends_below_their_lists() {
    let strong = policy(&[Hash::Sha512, Hash::Sha384], &[Group::Ffdhe(Ffdhe::F4096), F3072]);
    let offered = |hashes: &[Hash], groups: &[Group], transaction| {
        let offer = Some(Offer { hashes: hashes.to_vec(), groups: groups.to_vec() });
        Negotiate { concatenation: 0, offer }.encode(transaction)
    };
    let cases: [(&[Hash], &[Group], Failure); 3] = [
        (&[Hash::Sha256], &[F3072], Failure::NoHash),
        (&[Hash::Sha512], &[F2048], Failure::NoGroup),
        (&[Hash::Sha512], &[Group::Null], Failure::NoGroup),
    ];
    for (hashes, groups, failure) in cases {
        let mut ends = Ends::of(&[key(1)], &[key(2)], &strong);
        ends.run(&mut |i, message| {
            if i == 0 {
                *message = offered(hashes, groups, u16::from_le_bytes([message[4], message[5]]));
            }
        });
        assert_eq!(ends.controller.failure(), Some(&failure));
        assert!(!ends.both_proven());
    }
    // A controller that takes less than its host does: the host does not follow.
    let weak = policy(&Hash::ALL, &Group::ALL);
    let both = credentials(&[key(1)], &[key(2)]);
    for (hashes, groups) in [(&[Hash::Sha256][..], &[F3072][..]), (&[Hash::Sha512], &[Group::Null, F2048])] {
        let controller = Controller::new(both.clone(), weak.clone(), LIMIT, 0);
        let mut ends = Ends::new(Host::new(both.clone(), strong.clone(), LIMIT), controller);
        ends.run(&mut |i, message| {
            if i == 0 {
                *message = offered(hashes, groups, u16::from_le_bytes([message[4], message[5]]));
            }
        });
        let refused = ends.host.failure();
        assert!(
            matches!(refused, Some(Failure::HashNotOffered(_) | Failure::GroupNotOffered(_))),
            "{refused:?}"
        );
        assert!(!ends.both_proven());
    }
    // What was chosen cannot be changed on its way either: another hash of the same length there is
    // none, and another group has another value.
    let weak = policy(&[Hash::Sha256], &[F2048, Group::Null]);
    let mut ends = Ends::of(&[key(1)], &[key(2)], &weak);
    ends.run(&mut |i, message| {
        if i == 1 {
            message.truncate(48);
            message[9..12].fill(0);
        }
    });
    assert!(!ends.both_proven());
    assert_eq!(ends.controller.failure(), Some(&Failure::Value));
}

/// Somebody in the middle makes a value with each end: the responses do not fit.
#[test]
fn values_of_somebody_in_the_middle_give_wrong_responses() {
    let policy = policy(&[Hash::Sha256], &[F2048]);
    for (change, at) in [(1, 48), (2, 80)] {
        let mut ends = Ends::of(&[key(1)], &[key(2)], &policy);
        ends.run(&mut |i, message| {
            if i == change {
                message[at..].fill(0);
                *message.last_mut().unwrap() = 2;
            }
        });
        assert_eq!(ends.controller.failure(), Some(&Failure::Response));
        assert!(!ends.both_proven());
    }
}

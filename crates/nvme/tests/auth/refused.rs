//! Each failure of the table in `docs/reference/wire-format/authentication.md`, and what the peer
//! is told.

use crate::ends::{F2048, F3072, LIMIT, ROOM, complete, credentials, key, policy, quick, seed};
use pumice_nvme::auth::controller::{Controller, Step};
use pumice_nvme::auth::failure::Failure;
use pumice_nvme::auth::group::Group;
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::message::{
    Challenge, Envelope, Explanation, FromController, FromHost, Malformed, Negotiate, Notice, Offer, Reply,
    Success1, success2,
};
use pumice_nvme::auth::policy::Policy;
use std::sync::Arc;

/// The transaction of the messages that are made here.
const T: u16 = 77;

fn negotiate(hashes: &[Hash], groups: &[Group]) -> Vec<u8> {
    let offer = Some(Offer { hashes: hashes.to_vec(), groups: groups.to_vec() });
    Negotiate { concatenation: 0, offer }.encode(T)
}

fn controller(policy: &Arc<Policy>) -> Controller {
    Controller::new(credentials(&[key(1)], &[key(2)]), policy.clone(), LIMIT, 0)
}

/// A controller that waits for a Reply, and its challenge.
fn challenged(policy: &Arc<Policy>) -> (Controller, Challenge) {
    let mut controller = controller(policy);
    let step = controller.send(&negotiate(policy.hashes(), policy.groups()), seed(3, 1), 0);
    assert!(complete(&mut controller, step, 0));
    let answer = controller.receive(ROOM, 0);
    match FromController::parse(&answer.message) {
        Ok(Envelope { message: FromController::Challenge(challenge), .. }) => (controller, challenge),
        other => panic!("{other:?}"),
    }
}

/// A Reply with a response that is wrong, but nothing else.
fn reply_of(challenge: &Challenge) -> Reply {
    let bytes = challenge.hash.bytes();
    let value = if challenge.group == Group::Null { vec![] } else { vec![2] };
    Reply { wants_proof: true, sequence: 5, response: vec![1; bytes], challenge: vec![2; bytes], value }
}

/// A controller that has accepted a Reply, its transaction, and the Reply.
fn accepting() -> (Controller, u16, Vec<u8>) {
    let mut host = Host::new(credentials(&[key(1)], &[key(2)]), quick(), LIMIT);
    let mut controller = controller(&quick());
    let Action::Send(offer) = host.start(seed(3, 1), 0) else { panic!() };
    assert!(matches!(controller.send(&offer, seed(3, 2), 0), Step::Complete));
    let challenge = controller.receive(ROOM, 0).message;
    let Action::Send(reply) = host.received(&challenge, seed(3, 3), 0) else { panic!() };
    assert!(matches!(controller.send(&reply, seed(3, 4), 0), Step::Complete));
    assert_eq!(controller.failure(), None);
    (controller, u16::from_le_bytes([reply[4], reply[5]]), reply)
}

/// Sends a message that is to be refused. The host is told at the next Receive, and then it ends.
fn refuse(controller: &mut Controller, message: &[u8], failure: Failure, explanation: u8, transaction: u16) {
    let step = controller.send(message, seed(7, 2), 0);
    assert!(complete(controller, step, 0), "the command itself succeeds");
    assert_eq!((controller.failure(), controller.proof()), (Some(&failure), None));
    let answer = controller.receive(ROOM, 0);
    let [low, high] = transaction.to_le_bytes();
    assert_eq!(answer.message, [0, 0xF1, 0, 0, low, high, 1, explanation], "{failure}");
    assert!(answer.end);
    // It is over.
    assert_eq!(controller.failure(), Some(&failure));
    assert!(matches!(controller.send(message, seed(7, 3), 0), Step::End));
    assert!(controller.receive(ROOM, 0).end && controller.proof().is_none());
}

#[test]
fn an_offer_that_cannot_be_taken() {
    let policy = policy(&[Hash::Sha384], &[F3072]);
    let mut cases = vec![
        (negotiate(&[Hash::Sha256, Hash::Sha512], &[F3072]), Failure::NoHash, 4),
        (negotiate(&[], &[F3072]), Failure::NoHash, 4),
        (negotiate(&[Hash::Sha384], &[Group::Null, F2048]), Failure::NoGroup, 5),
        (negotiate(&[Hash::Sha384], &[]), Failure::NoGroup, 5),
        (Negotiate { concatenation: 0, offer: None }.encode(T), Failure::NoProtocol, 2),
    ];
    for wanted in 1..=255 {
        let mut message = negotiate(&[Hash::Sha384], &[F3072]);
        message[6] = wanted;
        cases.push((message, Failure::Concatenation(wanted), 3));
    }
    let mut long = negotiate(&[Hash::Sha384], &[F3072]);
    long.push(0);
    cases.push((long, Failure::Malformed(Malformed::Field("message")), 6));
    let mut places = negotiate(&[Hash::Sha384], &[F3072]);
    places[10] = 31;
    cases.push((places, Failure::Malformed(Malformed::Field("halen")), 6));
    for (message, failure, explanation) in cases {
        refuse(&mut controller(&policy), &message, failure, explanation, T);
    }
}

#[test]
fn messages_of_no_known_kind_or_out_of_turn() {
    let policy = quick();
    let (_, challenge) = challenged(&policy);
    let reply = reply_of(&challenge).encode(T);
    let offer = negotiate(&[Hash::Sha256], &[Group::Null]);
    let none: &[u8] = &[];
    for (message, failure, explanation, transaction) in [
        (&[2, 0, 0, 0, 9, 0, 0, 0][..], Failure::Malformed(Malformed::Kind(2, 0)), 7, 9),
        // What a controller sends.
        (&[1, 1, 0, 0, 9, 0, 0, 0], Failure::Malformed(Malformed::Kind(1, 1)), 7, 9),
        (&[0, 0xF1, 0, 0, 9, 0, 1, 1], Failure::Malformed(Malformed::Kind(0, 0xF1)), 7, 9),
        (none, Failure::Malformed(Malformed::Field("type")), 6, 0),
        (&reply, Failure::OutOfTurn("Reply"), 7, T),
        (&success2(T), Failure::OutOfTurn("Success2"), 7, T),
    ] {
        refuse(&mut controller(&policy), message, failure, explanation, transaction);
    }
    // While a Reply is awaited.
    for (message, failure) in
        [(&offer[..], Failure::OutOfTurn("Negotiate")), (&success2(T), Failure::OutOfTurn("Success2"))]
    {
        refuse(&mut challenged(&policy).0, message, failure, 7, T);
    }
    // Before the Challenge, or Success1, is fetched: right messages, but too early.
    let reply = Reply { response: vec![1; 32], ..reply_of(&challenge) }.encode(T);
    for (message, failure) in [
        (&offer, Failure::OutOfTurn("Negotiate")),
        (&reply, Failure::OutOfTurn("Reply")),
        (&success2(T), Failure::OutOfTurn("Success2")),
    ] {
        let mut offering = controller(&policy);
        assert!(matches!(offering.send(&offer, seed(3, 1), 0), Step::Complete));
        refuse(&mut offering, message, failure, 7, T);
        let (mut accepting, transaction, right) = accepting();
        let mut message = if message == &reply { right } else { message.clone() };
        message[4..6].copy_from_slice(&transaction.to_le_bytes());
        refuse(&mut accepting, &message, failure, 7, transaction);
    }
    // Receive, when there is nothing to be fetched.
    for mut controller in [controller(&policy), challenged(&policy).0] {
        let answer = controller.receive(ROOM, 0);
        assert!(answer.end && answer.message[7] == 7);
        assert_eq!(controller.failure(), Some(&Failure::OutOfTurn("Authentication Receive")));
    }
}

#[test]
fn replies_with_wrong_fields() {
    let policy = policy(&[Hash::Sha384], &[F2048]);
    let (_, challenge) = challenged(&policy);
    let good = reply_of(&challenge);
    let p = |low: u8| {
        // The highest values: the prime ends with 64 ones.
        let mut value = prime_2048();
        *value.last_mut().unwrap() = low;
        value
    };
    let short = Reply { response: vec![1; 32], challenge: vec![2; 32], ..good.clone() };
    let mut cases = vec![
        (short, Failure::HashLength),
        (Reply { sequence: 0, ..good.clone() }, Failure::SequenceZero),
        (Reply { value: vec![], ..good.clone() }, Failure::Value),
        (Reply { value: vec![0; 256], ..good.clone() }, Failure::Value),
        (Reply { value: vec![1], ..good.clone() }, Failure::Value),
        (Reply { value: p(0xFE), ..good.clone() }, Failure::Value),
        (Reply { value: p(0xFF), ..good.clone() }, Failure::Value),
        (Reply { value: vec![0xFF; 256], ..good.clone() }, Failure::Value),
        (Reply { value: vec![2; 257], ..good.clone() }, Failure::Value),
    ];
    cases.push((Reply { value: vec![2; 384], ..good.clone() }, Failure::Value));
    for (reply, failure) in cases {
        refuse(&mut challenged(&policy).0, &reply.encode(T), failure, 6, T);
    }
    let failed = [
        (Reply { challenge: challenge.challenge.clone(), ..good.clone() }, Failure::SameChallenge),
        (good.clone(), Failure::Response),
        (Reply { wants_proof: false, ..good.clone() }, Failure::Response),
        (Reply { value: p(0xFD), ..good.clone() }, Failure::Response),
    ];
    for (reply, failure) in failed {
        refuse(&mut challenged(&policy).0, &reply.encode(T), failure, 1, T);
    }
    let other = Failure::Transaction { expected: T, found: T + 1 };
    refuse(&mut challenged(&policy).0, &good.encode(T + 1), other, 6, T);
    for (at, value, field) in [(8, 2, "cvalid"), (6, 33, "hl"), (11, 5, "dhvlen"), (10, 2, "value")] {
        let mut message = good.encode(T);
        message[at] = value;
        refuse(&mut challenged(&policy).0, &message, Failure::Malformed(Malformed::Field(field)), 6, T);
    }
    // A value where no group was chosen.
    let policy = quick();
    let (mut controller, challenge) = challenged(&policy);
    let with_value = Reply { value: vec![2], ..reply_of(&challenge) };
    refuse(&mut controller, &with_value.encode(T), Failure::Value, 6, T);
}

/// The prime of 2048 bits, from what a host refuses and takes: not at hand outside of the crate.
fn prime_2048() -> Vec<u8> {
    crate::responses::hex(concat!(
        "ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1d8b9c583ce2d3695a9e13641146433fbcc939dce249b3ef9",
        "7d2fe363630c75d8f681b202aec4617ad3df1ed5d5fd65612433f51f5f066ed0856365553ded1af3b557135e7f57c935",
        "984f0c70e0e68b77e2a689daf3efe8721df158a136ade73530acca4f483a797abc0ab182b324fb61d108a94bb2c8e3fb",
        "b96adab760d7f4681d4f42a3de394df4ae56ede76372bb190b07a7c8ee0a6d709e02fce1cdf7e2ecc03404cd28342f61",
        "9172fe9ce98583ff8e4f1232eef28183c3fe3b1b4c6fad733bb5fcbc2ec22005c58ef1837d1683b2c6f34a26c1b2effa",
        "886b423861285c97ffffffffffffffff",
    ))
}

#[test]
fn a_proof_that_is_wanted_without_a_key_for_it() {
    let policy = quick();
    let mut host = Host::new(credentials(&[key(1)], &[key(2)]), policy.clone(), LIMIT);
    let mut controller = Controller::new(credentials(&[key(1)], &[]), policy, LIMIT, 0);
    let Action::Send(offer) = host.start(seed(3, 1), 0) else { panic!() };
    assert!(matches!(controller.send(&offer, seed(3, 2), 0), Step::Complete));
    let Action::Send(reply) = host.received(&controller.receive(ROOM, 0).message, seed(3, 3), 0) else {
        panic!()
    };
    let transaction = u16::from_le_bytes([reply[4], reply[5]]);
    refuse(&mut controller, &reply, Failure::NoControllerKey, 1, transaction);
}

#[test]
fn a_success2_of_another_exchange() {
    let policy = quick();
    let both = credentials(&[key(1)], &[key(2)]);
    let mut host = Host::new(both.clone(), policy.clone(), LIMIT);
    let mut controller = Controller::new(both, policy, LIMIT, 0);
    let mut action = host.start(seed(3, 1), 0);
    while let Action::Send(message) = action {
        assert!(matches!(controller.send(&message, seed(3, 2), 0), Step::Complete));
        action = host.received(&controller.receive(ROOM, 0).message, seed(3, 3), 0);
    }
    let Action::Finish(mut message) = action else { panic!() };
    let transaction = u16::from_le_bytes([message[4], message[5]]);
    message[4] ^= 1;
    let failure = Failure::Transaction { expected: transaction, found: transaction ^ 1 };
    refuse(&mut controller, &message, failure, 6, transaction);
}

/// A message of a controller, made for a transaction.
type Made<'a> = &'a dyn Fn(u16) -> Vec<u8>;
/// Such a message, what the controller is told, and why.
type Case<'a> = (Made<'a>, u8, Failure);

/// After a failure a new offer does not begin a new exchange: a connection has one guess.
#[test]
fn a_failure_is_final() {
    let policy = quick();
    let (mut controller, challenge) = challenged(&policy);
    assert!(matches!(controller.send(&reply_of(&challenge).encode(T), seed(3, 2), 0), Step::Complete));
    let offer = negotiate(&[Hash::Sha256], &[Group::Null]);
    for message in [&offer, &reply_of(&challenge).encode(T), &success2(T)] {
        assert!(matches!(controller.send(message, seed(3, 3), 0), Step::Complete));
        assert_eq!(controller.failure(), Some(&Failure::Response), "the first one counts");
    }
    let answer = controller.receive(ROOM, 0);
    assert_eq!((answer.message[7], answer.end), (1, true));
    // If nobody fetches it, it is still the reason.
    let (mut controller, challenge) = challenged(&policy);
    assert!(matches!(controller.send(&reply_of(&challenge).encode(T), seed(3, 2), 0), Step::Complete));
    assert!(controller.expire(LIMIT));
    assert_eq!(controller.failure(), Some(&Failure::Response));
}

/// Gives a controller's messages to a host, with the transaction of the host's own offer put into
/// each.
fn host_refuses(controller_keys: bool, policy: &Arc<Policy>, messages: &[Made<'_>]) -> (Option<u8>, Failure) {
    let keys = if controller_keys { vec![key(2)] } else { vec![] };
    let mut host = Host::new(credentials(&[key(1)], &keys), policy.clone(), LIMIT);
    let Action::Send(offer) = host.start(seed(3, 1), 0) else { panic!() };
    let transaction = u16::from_le_bytes([offer[4], offer[5]]);
    let mut told = None;
    for (i, message) in messages.iter().enumerate() {
        let mut action = host.received(&message(transaction), seed(5, i), 0);
        if let Action::Compute(job) = action {
            action = host.computed(job.run(), 0);
        }
        let last = i + 1 == messages.len();
        match action {
            Action::Send(_) if !last => {}
            Action::Refuse(message) if last => {
                assert_eq!(message[..2], [0, 0xF0]);
                assert_eq!(message[4..7], [offer[4], offer[5], 1]);
                told = Some(message[7]);
            }
            Action::End if last => {}
            other => panic!("{other:?} at {i}"),
        }
    }
    assert!(host.proof().is_none());
    assert!(matches!(host.received(&[], seed(5, 9), 0), Action::End));
    assert!(matches!(host.start(seed(5, 10), 0), Action::End));
    (told, *host.failure().unwrap())
}

#[test]
fn what_a_host_refuses() {
    let policy = policy(&[Hash::Sha256, Hash::Sha384], &[Group::Null, F2048]);
    let good = Challenge {
        hash: Hash::Sha256,
        group: Group::Null,
        sequence: 9,
        challenge: vec![4; 32],
        value: vec![],
    };
    let challenge = |t| good.encode(t);
    let change = |at: usize, value: u8| {
        let message = good.encode(0);
        move |t: u16| {
            let mut message = message.clone();
            message[4..6].copy_from_slice(&t.to_le_bytes());
            message[at] = value;
            message
        }
    };
    let dh = |value: &[u8]| {
        let challenge = Challenge { group: F2048, value: value.to_vec(), ..good.clone() };
        move |t: u16| challenge.encode(t)
    };
    let field = |name| Failure::Malformed(Malformed::Field(name));
    let sha512 = Challenge { hash: Hash::Sha512, challenge: vec![4; 64], ..good.clone() };
    let f3072 = Challenge { group: F3072, value: vec![2; 384], ..good.clone() };
    let cases: [Case<'_>; 15] = [
        (&|t| good.encode(t ^ 1), 6, Failure::Transaction { expected: 0, found: 0 }),
        (&|t| sha512.encode(t), 4, Failure::HashNotOffered(Hash::Sha512)),
        (&|t| f3072.encode(t), 5, Failure::GroupNotOffered(F3072)),
        (&change(8, 9), 4, Failure::Malformed(Malformed::Hash(9))),
        (&change(9, 9), 5, Failure::Malformed(Malformed::Group(9))),
        (&change(6, 48), 6, field("hl")),
        (&change(8, 2), 6, field("hl")),
        (&change(9, 1), 6, field("dhvlen")),
        (&change(10, 1), 6, field("dhvlen")),
        (&change(12, 0), 6, Failure::SequenceZero),
        (&dh(&[1]), 6, Failure::Value),
        (&dh(&prime_2048()), 6, Failure::Value),
        (&dh(&[0xFF; 256]), 6, Failure::Value),
        (&|t| Success1 { response: None }.encode(Hash::Sha256, t), 7, Failure::OutOfTurn("Success1")),
        (&|t| success2(t), 7, Failure::Malformed(Malformed::Kind(1, 4))),
    ];
    for (message, explanation, failure) in cases {
        let (told, found) = host_refuses(true, &policy, &[message]);
        assert_eq!(told, Some(explanation), "{failure:?} {found:?}");
        if !matches!(found, Failure::Transaction { .. }) {
            assert_eq!(found, failure);
        }
    }
    let with =
        |response: Option<Vec<u8>>| move |t| Success1 { response: response.clone() }.encode(Hash::Sha256, t);
    let refused =
        |keys, success: &dyn Fn(u16) -> Vec<u8>| host_refuses(keys, &policy, &[&challenge, success]);
    assert_eq!(refused(true, &with(None)), (Some(1), Failure::NoProof));
    assert_eq!(refused(true, &with(Some(vec![7; 32]))), (Some(1), Failure::Response));
    assert_eq!(refused(true, &|t| with(Some(vec![7; 32]))(t)[..40].to_vec()), (Some(6), field("response")));
    let long = |t| Success1 { response: Some(vec![7; 48]) }.encode(Hash::Sha384, t);
    assert_eq!(refused(true, &long), (Some(6), Failure::HashLength));
    assert_eq!(refused(false, &with(Some(vec![7; 32]))), (Some(6), Failure::Unasked));
    assert!(matches!(refused(true, &|t| with(None)(t ^ 1)), (Some(6), Failure::Transaction { .. })));
    assert_eq!(refused(true, &challenge), (Some(7), Failure::OutOfTurn("Challenge")));
    // The controller gives up: nothing is said.
    let notice = Notice { reason: 1, explanation: 5 };
    let failure1 = |t| Explanation::Group.failure1(t);
    assert_eq!(host_refuses(true, &policy, &[&failure1]), (None, Failure::Peer(notice)));
    assert_eq!(refused(true, &failure1), (None, Failure::Peer(notice)));
}

#[test]
fn a_host_that_gives_up_ends_the_connection() {
    let policy = quick();
    for mut controller in [controller(&policy), challenged(&policy).0] {
        assert!(matches!(controller.send(&Explanation::Failed.failure2(T), seed(3, 3), 0), Step::End));
        let notice = Notice { reason: 1, explanation: 1 };
        assert_eq!(controller.failure(), Some(&Failure::Peer(notice)));
        let answer = controller.receive(ROOM, 0);
        assert!(answer.end && answer.message.is_empty());
    }
    assert!(FromHost::parse(&Explanation::Failed.failure2(T)).is_ok());
}

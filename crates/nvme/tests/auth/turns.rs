//! Time, turns, re-authentication, rotation of keys, computations that come late.

use crate::ends::{Ends, F2048, LIMIT, ROOM, complete, credentials, key, policy, quick, seed};
use pumice_nvme::auth::controller::{Controller, Step};
use pumice_nvme::auth::credentials::CredentialsError;
use pumice_nvme::auth::failure::Failure;
use pumice_nvme::auth::group::Group;
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::message::{Envelope, FromController, FromHost, Negotiate, Offer};
use pumice_nvme::auth::policy::{Policy, PolicyError};
use pumice_nvme::auth::secret::Seed;
use pumice_nvme::auth::step_limit;

/// Transaction and both sequence numbers of the messages of an exchange.
fn numbers(messages: &[Vec<u8>]) -> (u16, u32, u32) {
    let Ok(Envelope { transaction, message: FromController::Challenge(challenge) }) =
        FromController::parse(&messages[1])
    else {
        panic!()
    };
    let Ok(Envelope { message: FromHost::Reply(reply), .. }) = FromHost::parse(&messages[2]) else {
        panic!()
    };
    (transaction, challenge.sequence, reply.sequence)
}

#[test]
fn a_queue_authenticates_again_with_new_numbers() {
    for policy in [quick(), policy(&[Hash::Sha256], &[F2048])] {
        let mut ends = Ends::of(&[key(1)], &[key(2)], &policy);
        ends.run_undisturbed();
        assert!(ends.both_proven());
        let mut last = numbers(&ends.messages);
        for round in 0..5 {
            let (mut seen, first) = (0, ends.messages.clone());
            ends.run(&mut |_, _| seen += 1);
            assert!(ends.both_proven(), "{round}");
            assert_eq!(seen, 5);
            let next = numbers(&ends.messages);
            assert_eq!(next.0, last.0.wrapping_add(1));
            assert_eq!((next.1, next.2), (last.1.wrapping_add(1), last.2.wrapping_add(1)));
            assert_ne!(first[1][16..48], ends.messages[1][16..48], "a new challenge");
            last = next;
        }
    }
}

#[test]
fn a_queue_stays_admitted_while_it_authenticates_again_and_a_failure_ends_that() {
    let mut ends = Ends::of(&[key(1)], &[key(2)], &quick());
    ends.run_undisturbed();
    let Ends { mut controller, mut host, .. } = ends;
    let Action::Send(offer) = host.start(seed(3, 1), 0) else { panic!() };
    assert!(matches!(controller.send(&offer, seed(3, 2), 0), Step::Complete));
    assert!(controller.proof().is_some() && host.proof().is_some());
    let challenge = controller.receive(ROOM, 0).message;
    assert!(controller.proof().is_some() && controller.deadline() == Some(LIMIT));
    let Action::Send(mut reply) = host.received(&challenge, seed(3, 3), 0) else { panic!() };
    reply[16] ^= 1;
    assert!(matches!(controller.send(&reply, seed(3, 4), 0), Step::Complete));
    assert!(controller.proof().is_none(), "the old proof is gone");
    assert!(matches!(host.received(&controller.receive(ROOM, 0).message, seed(3, 5), 0), Action::End));
    assert!(host.proof().is_none());
}

#[test]
fn sequence_numbers_are_never_zero_or_repeated() {
    // 0 at random, and 0 after the largest.
    let ends_of = |number: u32| {
        let mut ends = Ends::of(&[key(1)], &[key(2)], &quick());
        let zero = || {
            let mut bytes = [9; Seed::BYTES];
            bytes[120..124].copy_from_slice(&number.to_le_bytes());
            bytes
        };
        let mut found = Vec::new();
        for round in 0..2 {
            // Each seed has other challenges.
            let fresh = |n: u8| {
                let mut bytes = zero();
                bytes[..64].fill(n + 10 * round);
                Seed::new(&bytes)
            };
            let mut action = ends.host.start(fresh(1), 0);
            let mut messages = Vec::new();
            while let Action::Send(message) = action {
                assert!(matches!(ends.controller.send(&message, fresh(2), 0), Step::Complete));
                messages.push(message);
                let answer = ends.controller.receive(ROOM, 0).message;
                messages.push(answer.clone());
                action = ends.host.received(&answer, fresh(3), 0);
            }
            let Action::Finish(last) = action else { panic!("{:?}", ends.host.failure()) };
            assert!(matches!(ends.controller.send(&last, fresh(4), 0), Step::Complete));
            let (_, of_controller, of_host) = numbers(&messages);
            found.push((of_controller, of_host));
        }
        found
    };
    assert_eq!(ends_of(0), [(1, 1), (2, 2)]);
    assert_eq!(ends_of(u32::MAX), [(u32::MAX, u32::MAX), (1, 1)]);

    // The number of the last exchange again: S1 at the host, S2 at the controller.
    let mut ends = Ends::of(&[key(1)], &[key(2)], &quick());
    ends.run_undisturbed();
    let (_, of_controller, of_host) = numbers(&ends.messages);
    ends.run(&mut |i, message| {
        if i == 1 {
            message[12..16].copy_from_slice(&of_controller.to_le_bytes());
        }
    });
    assert_eq!(ends.host.failure(), Some(&Failure::SequenceRepeated(of_controller)));
    let mut ends = Ends::of(&[key(1)], &[key(2)], &quick());
    ends.run_undisturbed();
    ends.run(&mut |i, message| {
        if i == 2 {
            message[12..16].copy_from_slice(&of_host.to_le_bytes());
        }
    });
    assert_eq!(ends.controller.failure(), Some(&Failure::SequenceRepeated(of_host)));
}

#[test]
fn a_step_that_is_late_ends_the_connection() {
    assert_eq!(
        (step_limit(5000), step_limit(0), step_limit(u32::MAX)),
        (LIMIT, 120_000_000_000, 4_294_967_295_000_000)
    );
    let both = credentials(&[key(1)], &[key(2)]);
    let new = || Controller::new(both.clone(), quick(), LIMIT, 100);
    // Nothing after Connect.
    let mut controller = new();
    assert_eq!(controller.deadline(), Some(100 + LIMIT));
    assert!(!controller.expire(99 + LIMIT) && controller.expire(100 + LIMIT));
    assert_eq!((controller.failure(), controller.deadline()), (Some(&Failure::Deadline), None));
    let answer = controller.receive(ROOM, 100 + LIMIT);
    assert!(answer.end && answer.message.is_empty());

    // Each step has the whole time, and is not taken after it: Send, Receive, Send, Receive, Send.
    for late in 0..5 {
        let mut controller = new();
        let mut host = Host::new(both.clone(), quick(), u64::MAX);
        let (mut now, mut event) = (100, 0);
        let mut tick = || {
            now += if event == late { LIMIT } else { LIMIT - 1 };
            event += 1;
            (now, event - 1 == late)
        };
        let mut action = host.start(seed(3, 1), 0);
        loop {
            let (message, last) = match action {
                Action::Send(message) => (message, false),
                Action::Finish(message) => (message, true),
                other => panic!("{other:?}"),
            };
            let (now, is_late) = tick();
            let step = controller.send(&message, seed(3, 2), now);
            if is_late {
                assert!(matches!(step, Step::End));
                break;
            }
            assert!(matches!(step, Step::Complete) && !last);
            assert_eq!(controller.deadline(), Some(now + LIMIT));
            let (now, is_late) = tick();
            let answer = controller.receive(ROOM, now);
            assert_eq!(answer.end, is_late);
            if is_late {
                break;
            }
            assert_eq!(controller.deadline(), Some(now + LIMIT));
            action = host.received(&answer.message, seed(3, 3 + answer.message.len()), 0);
        }
        assert_eq!(controller.failure(), Some(&Failure::Deadline), "event {late}");
        assert!(controller.proof().is_none());
    }
}

#[test]
fn a_controller_that_is_late_is_given_up() {
    let mut ends = Ends::of(&[key(1)], &[key(2)], &quick());
    assert_eq!(ends.host.deadline(), None);
    let Action::Send(offer) = ends.host.start(seed(3, 1), 7) else { panic!() };
    assert_eq!(ends.host.deadline(), Some(7 + LIMIT));
    assert!(matches!(ends.host.start(seed(3, 1), 8), Action::Ignore), "one exchange at a time");
    assert!(matches!(ends.controller.send(&offer, seed(3, 2), 0), Step::Complete));
    let challenge = ends.controller.receive(ROOM, 0).message;
    let Action::Send(_) = ends.host.received(&challenge, seed(3, 3), 6 + LIMIT) else { panic!() };
    assert!(!ends.host.expire(5 + 2 * LIMIT));
    assert!(matches!(ends.host.received(&challenge, seed(3, 3), 6 + 2 * LIMIT), Action::End));
    assert_eq!(ends.host.failure(), Some(&Failure::Deadline));
}

#[test]
fn a_message_longer_than_its_room_is_not_cut() {
    let mut controller = Controller::new(credentials(&[key(1)], &[]), quick(), LIMIT, 0);
    let offer = Some(Offer { hashes: Hash::ALL.to_vec(), groups: Group::ALL.to_vec() });
    let offer = Negotiate { concatenation: 0, offer }.encode(1);
    assert!(matches!(controller.send(&offer, seed(3, 1), 0), Step::Complete));
    let answer = controller.receive(47, 0);
    assert_eq!(answer.message, [0, 0xF1, 0, 0, 1, 0, 1, 6]);
    assert!(answer.end);
    assert_eq!(controller.failure(), Some(&Failure::Room { room: 47, message: 48 }));
    // The room that is needed, and not even room for the refusal.
    for (room, fits) in [(48, true), (7, false), (0, false)] {
        let mut controller = Controller::new(credentials(&[key(1)], &[]), quick(), LIMIT, 0);
        assert!(matches!(controller.send(&offer, seed(3, 1), 0), Step::Complete));
        let answer = controller.receive(room, 0);
        assert_eq!((answer.end, answer.message.len()), (!fits, if fits { 48 } else { 0 }));
    }
    // A Success1 that is not fetched proves nothing.
    let mut ends = Ends::of(&[key(1)], &[], &quick());
    let Action::Send(offer) = ends.host.start(seed(3, 1), 0) else { panic!() };
    assert!(matches!(ends.controller.send(&offer, seed(3, 2), 0), Step::Complete));
    let challenge = ends.controller.receive(ROOM, 0).message;
    let Action::Send(reply) = ends.host.received(&challenge, seed(3, 3), 0) else { panic!() };
    assert!(matches!(ends.controller.send(&reply, seed(3, 4), 0), Step::Complete));
    assert!(ends.controller.proof().is_none(), "not before Success1 is on its way");
    assert!(ends.controller.receive(15, 0).end && ends.controller.proof().is_none());
}

#[test]
fn a_mutual_exchange_proves_the_host_only_with_its_success2() {
    let mut ends = Ends::of(&[key(1)], &[key(2)], &quick());
    let mut before = Vec::new();
    let mut action = ends.host.start(seed(3, 1), 0);
    while let Action::Send(message) = action {
        assert!(matches!(ends.controller.send(&message, seed(3, 2), 0), Step::Complete));
        let answer = ends.controller.receive(ROOM, 0);
        before.push(ends.controller.proof().is_some());
        action = ends.host.received(&answer.message, seed(3, 3), 0);
    }
    assert_eq!(before, [false, false]);
    let Action::Finish(message) = action else { panic!() };
    assert!(matches!(ends.controller.send(&message, seed(3, 4), 0), Step::Complete));
    assert!(ends.controller.proof().is_some_and(|proof| proof.mutual));
}

#[test]
fn keys_change_without_a_gap() {
    let (old, new) = ((key(1), key(2)), (key(3), key(4)));
    let of_controller = credentials(&[old.0.clone(), new.0.clone()], &[old.1.clone(), new.1.clone()]);
    for (place, pair) in [&old, &new].into_iter().enumerate() {
        let of_host = credentials(std::slice::from_ref(&pair.0), std::slice::from_ref(&pair.1));
        let host = Host::new(of_host, quick(), LIMIT);
        let mut ends = Ends::new(host, Controller::new(of_controller.clone(), quick(), LIMIT, 0));
        ends.run_undisturbed();
        assert!(ends.both_proven(), "{place}");
        assert_eq!(ends.controller.proof().map(|proof| proof.key), Some(place));
    }
    // A host that knows both keys of the controller takes either.
    for (place, pair) in [&old, &new].into_iter().enumerate() {
        let of_host = credentials(std::slice::from_ref(&old.0), &[old.1.clone(), new.1.clone()]);
        let of_controller = credentials(std::slice::from_ref(&old.0), std::slice::from_ref(&pair.1));
        let host = Host::new(of_host, quick(), LIMIT);
        let mut ends = Ends::new(host, Controller::new(of_controller, quick(), LIMIT, 0));
        ends.run_undisturbed();
        assert_eq!(ends.host.proof().map(|proof| proof.key), Some(place));
    }
    // One controller key serves both keys of a host.
    let of_controller = credentials(&[old.0.clone(), new.0.clone()], std::slice::from_ref(&old.1));
    let host = Host::new(credentials(&[new.0], &[old.1]), quick(), LIMIT);
    let mut ends = Ends::new(host, Controller::new(of_controller, quick(), LIMIT, 0));
    ends.run_undisturbed();
    assert!(ends.both_proven());
    // After the old key is taken away.
    let host = Host::new(credentials(&[old.0], &[]), quick(), LIMIT);
    let mut ends = Ends::new(host, Controller::new(credentials(&[key(3)], &[]), quick(), LIMIT, 0));
    ends.run_undisturbed();
    assert_eq!(ends.controller.failure(), Some(&Failure::Response));
}

#[test]
fn computations_count_only_where_they_are_awaited() {
    let policy = policy(&[Hash::Sha256], &[F2048]);
    let mut ends = Ends::of(&[key(1)], &[key(2)], &policy);
    let Action::Send(offer) = ends.host.start(seed(3, 1), 0) else { panic!() };
    let Step::Compute(job) = ends.controller.send(&offer, seed(3, 2), 0) else { panic!() };
    // The host waits for us: no deadline runs.
    assert_eq!(ends.controller.deadline(), None);
    let step = ends.controller.computed(job.run(), 3 * LIMIT);
    assert!(matches!(step, Step::Complete));
    assert_eq!(ends.controller.deadline(), Some(4 * LIMIT));
    let challenge = ends.controller.receive(ROOM, 3 * LIMIT).message;
    let Action::Compute(job) = ends.host.received(&challenge, seed(3, 3), 0) else { panic!() };
    let Action::Send(reply) = ends.host.computed(job.run(), 0) else { panic!() };
    let Step::Compute(late) = ends.controller.send(&reply, seed(3, 4), 3 * LIMIT) else { panic!() };

    // A command that comes meanwhile is out of turn, and the result then changes nothing.
    let answer = ends.controller.receive(ROOM, 3 * LIMIT);
    assert!(answer.end && answer.message[7] == 7);
    assert!(matches!(ends.controller.computed(late.run(), 3 * LIMIT), Step::End));
    assert!(ends.controller.proof().is_none());

    // The same with a message: the failure waits, and the result does not replace it.
    let mut ends = Ends::of(&[key(1)], &[key(2)], &policy);
    let Action::Send(offer) = ends.host.start(seed(3, 1), 0) else { panic!() };
    let Step::Compute(job) = ends.controller.send(&offer, seed(3, 2), 0) else { panic!() };
    assert!(matches!(ends.controller.send(&offer, seed(3, 3), 0), Step::Complete));
    let computed = job.run();
    assert!(matches!(ends.controller.computed(computed, 0), Step::Complete));
    assert_eq!(ends.controller.failure(), Some(&Failure::OutOfTurn("Negotiate")));

    // A result of an earlier exchange, while a new one computes.
    let mut ends = Ends::of(&[key(1)], &[key(2)], &policy);
    let Action::Send(offer) = ends.host.start(seed(3, 1), 0) else { panic!() };
    let Step::Compute(first) = ends.controller.send(&offer, seed(3, 2), 0) else { panic!() };
    let mut other = Ends::of(&[key(1)], &[key(2)], &policy);
    other.run_undisturbed();
    let Step::Compute(third) = other.controller.send(&offer, seed(3, 2), 0) else { panic!() };
    assert!(matches!(other.controller.computed(first.run(), 0), Step::Complete));
    assert!(other.controller.receive(ROOM, 0).end, "there is no challenge yet");
    drop(third);
}

#[test]
fn lists_and_keys_that_are_none() {
    let null = [Group::Null];
    assert_eq!(Policy::new(&[], &null), Err(PolicyError::Empty("hashes")));
    assert_eq!(Policy::new(&Hash::ALL, &[]), Err(PolicyError::Empty("groups")));
    assert_eq!(Policy::new(&[Hash::Sha256, Hash::Sha256], &null), Err(PolicyError::Twice("hashes")));
    assert_eq!(Policy::new(&Hash::ALL, &[F2048, Group::Null, F2048]), Err(PolicyError::Twice("groups")));
    let new = |host_keys: &[_], controller_keys: &[_]| {
        let (host, subsystem) =
            (crate::ends::nqn(crate::ends::HOST), crate::ends::nqn(crate::ends::SUBSYSTEM));
        pumice_nvme::auth::credentials::Credentials::new(host, subsystem, host_keys, controller_keys)
            .map(|_| ())
    };
    let three = [key(1), key(2), key(3)];
    assert_eq!(new(&[], &three[..1]), Err(CredentialsError::NoHostKey));
    assert_eq!(new(&three, &[]), Err(CredentialsError::TooMany("key")));
    assert_eq!(new(&[key(9)], &three), Err(CredentialsError::TooMany("controller_key")));
    assert_eq!(new(&three[..2], &[key(4), key(5)]), Ok(()));
    let default = Policy::default();
    assert_eq!(default.hashes(), Hash::ALL);
    assert_eq!(
        default.groups().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["ffdhe3072", "ffdhe2048"]
    );
}

#[test]
fn hashes_and_groups_have_names_and_numbers() {
    for hash in Hash::ALL {
        assert_eq!((hash.to_string().parse(), Hash::from_id(hash.id())), (Ok(hash), Some(hash)));
    }
    for group in Group::ALL {
        assert_eq!((group.to_string().parse(), Group::from_id(group.id())), (Ok(group), Some(group)));
    }
    assert!(["", "SHA-1", "sha-256", "SHA-256 "].iter().all(|text| text.parse::<Hash>().is_err()));
    assert!(["", "null", "ffdhe1024", "FFDHE2048"].iter().all(|text| text.parse::<Group>().is_err()));
    assert_eq!((Hash::from_id(0), Hash::from_id(4), Group::from_id(6)), (None, None, None));
}

/// Both ends, and their computations, may move between threads.
#[test]
fn ends_and_jobs_can_be_sent() {
    fn can_be_sent<T: Send + 'static>() {}
    can_be_sent::<Controller>();
    can_be_sent::<Host>();
    can_be_sent::<pumice_nvme::auth::Job>();
    can_be_sent::<pumice_nvme::auth::Computed>();
}

/// The order of the controller decides, whatever the order of the offer.
#[test]
fn the_controller_takes_its_first_choice() {
    let offered = policy(&Hash::ALL, &[Group::Null, F2048]);
    let both = credentials(&[key(1)], &[key(2)]);
    let own = policy(&[Hash::Sha512, Hash::Sha256], &[F2048, Group::Null]);
    let host = Host::new(both.clone(), offered, LIMIT);
    let mut ends = Ends::new(host, Controller::new(both, own, LIMIT, 0));
    ends.run_undisturbed();
    let proof = ends.controller.proof().copied();
    assert_eq!(proof.map(|proof| (proof.hash, proof.group)), Some((Hash::Sha512, F2048)));
    let step = ends.controller.send(&[], seed(1, 1), 0);
    assert!(complete(&mut ends.controller, step, 0) && ends.controller.proof().is_none());
}

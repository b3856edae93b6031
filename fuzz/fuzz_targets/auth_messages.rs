//! Any bytes as messages, keys and identities; any peer without the key, in any order; two good
//! ends with somebody between them: nobody is authenticated who has not proven it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_nvme::auth::Computed;
use pumice_nvme::auth::controller::{Controller, Step};
use pumice_nvme::auth::credentials::Credentials;
use pumice_nvme::auth::group::{Ffdhe, Group};
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::keys::identity::Identity;
use pumice_nvme::auth::keys::psk::ConfiguredPsk;
use pumice_nvme::auth::message::{FromController, FromHost, MAX_MESSAGE, success2};
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::auth::secret::Seed;
use pumice_fuzz::Bytes;
use std::sync::Arc;

const LIMIT: u64 = 1000;

fn credentials(host: u8, controller: u8) -> Arc<Credentials> {
    let key = |byte| ChapKey::new(Some(Hash::Sha256), &[byte; 32]).unwrap();
    let (host_name, subsystem) = ("nqn.2026-11.example:host", "nqn.2026-11.example:subsystem");
    let (host_name, subsystem) = (host_name.parse().unwrap(), subsystem.parse().unwrap());
    Arc::new(Credentials::new(host_name, subsystem, &[key(host)], &[key(controller)]).unwrap())
}

/// Another seed for each number.
fn seed(number: &mut u8) -> Seed {
    *number = number.wrapping_add(1);
    let mut bytes = [*number; Seed::BYTES];
    // One transaction and one first number, so that bytes of the fuzzer fit.
    bytes[120..].copy_from_slice(&[1, 0, 0, 0, 1, 0]);
    Seed::new(&bytes)
}

/// Parses texts and messages, and writes them again: the same bytes, if the bytes read are all of
/// the message.
fn texts_and_messages(data: &[u8]) {
    if let Ok(envelope) = FromHost::parse(data) {
        let again = match &envelope.message {
            FromHost::Reply(reply) => reply.encode(envelope.transaction),
            FromHost::Negotiate(negotiate) => negotiate.encode(envelope.transaction),
            FromHost::Success2 => success2(envelope.transaction),
            FromHost::Failure2(_) => data.to_vec(),
        };
        assert_eq!(FromHost::parse(&again), Ok(envelope));
    }
    if let Ok(envelope) = FromController::parse(data)
        && let FromController::Challenge(challenge) = &envelope.message
    {
        let again = challenge.encode(envelope.transaction);
        assert_eq!(FromController::parse(&again), Ok(envelope));
    }
    if let Ok(identity) = Identity::parse(data) {
        assert_eq!(identity.to_string().as_bytes(), data);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(key) = text.parse::<ChapKey>() {
            assert_eq!(key.to_text().as_str(), text);
        }
        if let Ok(key) = text.parse::<ConfiguredPsk>() {
            assert_eq!(key.to_text().as_str(), text);
        }
    }
}

/// A peer without a key does what it likes with a controller.
fn stranger(bytes: &mut Bytes<'_>, policy: &Arc<Policy>) {
    let mut controller = Controller::new(credentials(1, 2), policy.clone(), LIMIT, 0);
    let (mut now, mut results, mut salt) = (0, Vec::<Computed>::new(), 0);
    while !bytes.is_empty() {
        let step = match bytes.byte() % 8 {
            0..=3 => {
                let length = usize::from(bytes.byte()) + 256 * usize::from(bytes.byte() % 5);
                controller.send(bytes.take(length), seed(&mut salt), now)
            }
            4 | 5 => {
                let room = 16 * usize::from(bytes.byte());
                let answer = controller.receive(room, now);
                assert!(answer.message.len() <= room && answer.message.len() <= MAX_MESSAGE);
                assert!(answer.end == controller.failure().is_some());
                Step::Complete
            }
            6 => match results.pop() {
                Some(result) => controller.computed(result, now),
                None => Step::Complete,
            },
            _ => {
                now += u64::from(bytes.byte());
                Step::Complete
            }
        };
        if let Step::Compute(job) = step {
            results.push(job.run());
        }
        assert!(controller.proof().is_none());
        assert!(controller.deadline().is_none_or(|deadline| deadline <= now + LIMIT));
    }
}

/// Somebody changes bytes between two good ends.
fn middle(bytes: &mut Bytes<'_>, policy: &Arc<Policy>) {
    let both = credentials(1, 2);
    let mut host = Host::new(both.clone(), policy.clone(), LIMIT);
    let mut controller = Controller::new(both, policy.clone(), LIMIT, 0);
    let mut salt = 0;
    let mut change = |message: &mut Vec<u8>| {
        if bytes.byte() & 1 == 1 && !message.is_empty() {
            let at = (usize::from(bytes.byte()) + 256 * usize::from(bytes.byte())) % message.len();
            message[at] ^= bytes.byte();
        }
        if bytes.byte() & 0x1F == 0x1F {
            message.truncate(usize::from(bytes.byte()));
        }
    };
    let mut action = host.start(seed(&mut salt), 0);
    loop {
        action = match action {
            Action::Compute(job) => host.computed(job.run(), 0),
            Action::Send(mut message) | Action::Finish(mut message) | Action::Refuse(mut message) => {
                change(&mut message);
                let mut step = controller.send(&message, seed(&mut salt), 0);
                while let Step::Compute(job) = step {
                    step = controller.computed(job.run(), 0);
                }
                if host.proof().is_some() || host.failure().is_some() {
                    break;
                }
                let mut answer = controller.receive(MAX_MESSAGE, 0).message;
                change(&mut answer);
                host.received(&answer, seed(&mut salt), 0)
            }
            Action::Done | Action::End | Action::Ignore => break,
        };
    }
    for proof in [host.proof(), controller.proof()].into_iter().flatten() {
        assert!(policy.hashes().contains(&proof.hash) && policy.groups().contains(&proof.group));
        assert!(proof.mutual && proof.key == 0);
    }
    if let (Some(one), Some(other)) = (host.proof(), controller.proof()) {
        assert_eq!(one, other);
    }
}

fuzz_target!(|data: &[u8]| {
    texts_and_messages(data);
    let mut bytes = Bytes::new(data);
    let choice = bytes.byte();
    // A group costs a millisecond each time.
    let groups = if choice & 0x1F == 0 { [Group::Ffdhe(Ffdhe::F2048)] } else { [Group::Null] };
    let policy = Arc::new(Policy::new(&[Hash::Sha256, Hash::Sha512], &groups).unwrap());
    if choice & 0x80 == 0 { stranger(&mut bytes, &policy) } else { middle(&mut bytes, &policy) }
});

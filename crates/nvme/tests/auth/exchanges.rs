//! Whole exchanges against a second implementation, byte for byte: every hash, every group, one way
//! and mutual.

use crate::ends::{Ends, HOST, LIMIT, ROOM, SUBSYSTEM, complete, credentials, policy, seed};
use crate::responses::hex;
use pumice_nvme::auth::Proof;
use pumice_nvme::auth::controller::Controller;
use pumice_nvme::auth::group::Group;
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::host::{Action, Host};
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::policy::Policy;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

fn number(value: &Value) -> u8 {
    u8::try_from(value.as_u64().unwrap()).unwrap()
}

fn key(row: &Value) -> ChapKey {
    ChapKey::new(Hash::from_id(number(&row[0])), &hex(row[1].as_str().unwrap())).unwrap()
}

fn next_seed(row: &Value, i: usize) -> pumice_nvme::auth::secret::Seed {
    let numbers = &row["seeds"][i];
    seed(number(&numbers[0]).into(), numbers[1].as_u64().unwrap() as usize)
}

/// Runs one exchange. Returns the messages, and what both ends say.
fn exchange(row: &Value, hash: Hash, group: Group, mutual: bool) -> (Vec<Vec<u8>>, Host, Controller) {
    let (host_key, controller_key) = (key(&row["host_key"]), key(&row["controller_key"]));
    let policy = policy(&[hash], &[group]);
    let both = credentials(std::slice::from_ref(&host_key), std::slice::from_ref(&controller_key));
    let of_host = if mutual { both.clone() } else { credentials(&[host_key], &[]) };
    let mut host = Host::new(of_host, policy.clone(), LIMIT);
    let mut controller = Controller::new(both, policy, LIMIT, 0);
    let mut messages = Vec::new();
    let mut action = host.start(next_seed(row, 0), 0);
    loop {
        action = match action {
            Action::Compute(job) => host.computed(job.run(), 0),
            Action::Send(message) => {
                let step = controller.send(&message, next_seed(row, 1), 0);
                assert!(complete(&mut controller, step, 0));
                messages.push(message);
                let answer = controller.receive(ROOM, 0);
                assert!(!answer.end);
                messages.push(answer.message.clone());
                host.received(&answer.message, next_seed(row, 2), 0)
            }
            Action::Finish(message) => {
                let step = controller.send(&message, next_seed(row, 1), 0);
                assert!(complete(&mut controller, step, 0));
                messages.push(message);
                break;
            }
            Action::Done => break,
            other => panic!("{other:?}: {:?}", host.failure()),
        }
    }
    (messages, host, controller)
}

#[test]
fn exchanges_are_those_of_a_second_implementation() {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/exchanges.json")).unwrap();
    assert_eq!((&vectors["host"], &vectors["subsystem"]), (&HOST.into(), &SUBSYSTEM.into()));
    let rows = vectors["exchanges"].as_array().unwrap();
    assert_eq!(rows.len(), 3 * 6 * 2);
    for row in rows {
        let hash = Hash::from_id(number(&row["hash"])).unwrap();
        let group = Group::from_id(number(&row["group"])).unwrap();
        let mutual = row["mutual"].as_bool().unwrap();
        let (messages, host, controller) = exchange(row, hash, group, mutual);
        let lengths: Vec<usize> = messages.iter().map(Vec::len).collect();
        assert_eq!(serde_json::json!(lengths), row["lengths"], "{hash} {group} {mutual}");
        for (i, message) in messages.iter().enumerate() {
            let sum: String = Sha256::digest(message).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(sum, row["sha256"][i], "{hash} {group} {mutual}: message {i}");
        }
        let proof = Proof { hash, group, mutual, key: 0 };
        assert_eq!((host.proof(), controller.proof()), (Some(&proof), Some(&proof)));
        assert_eq!((host.deadline(), controller.deadline()), (None, None));
    }
}

#[test]
fn the_default_takes_sha_256_and_3072_bits() {
    let policy = Arc::new(Policy::default());
    let mut ends = Ends::of(&[crate::ends::key(1)], &[crate::ends::key(2)], &policy);
    ends.run_undisturbed();
    let proof = Proof { hash: Hash::Sha256, group: crate::ends::F3072, mutual: true, key: 0 };
    assert_eq!((ends.host.proof(), ends.controller.proof()), (Some(&proof), Some(&proof)));
}

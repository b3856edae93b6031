use super::*;
use crate::auth::group::{Ffdhe, Group};
use crate::auth::hash::Hash;
use proptest::prelude::*;

fn bytes(count: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), count)
}

fn hash() -> impl Strategy<Value = Hash> {
    (1..=3_u8).prop_map(|id| Hash::from_id(id).unwrap())
}

fn group() -> impl Strategy<Value = Group> {
    (0..=5_u8).prop_map(|id| Group::from_id(id).unwrap())
}

fn negotiate() -> impl Strategy<Value = Negotiate> {
    let lists = (proptest::collection::vec(hash(), 0..=30), proptest::collection::vec(group(), 0..=30));
    let offer = proptest::option::of(lists.prop_map(|(hashes, groups)| Offer { hashes, groups }));
    (any::<u8>(), offer).prop_map(|(concatenation, offer)| Negotiate { concatenation, offer })
}

fn challenge() -> impl Strategy<Value = Challenge> {
    (hash(), group(), any::<u32>()).prop_flat_map(|(hash, group, sequence)| {
        let value = match group {
            Group::Null => bytes(0).boxed(),
            Group::Ffdhe(group) => (1..=group.value_bytes()).prop_flat_map(bytes).boxed(),
        };
        (bytes(hash.bytes()), value).prop_map(move |(challenge, value)| Challenge {
            hash,
            group,
            sequence,
            challenge,
            value,
        })
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    (hash(), any::<bool>(), any::<u32>(), 0..=1024_usize).prop_flat_map(|(hash, wants_proof, sequence, n)| {
        (bytes(hash.bytes()), bytes(hash.bytes()), bytes(n)).prop_map(move |(response, challenge, value)| {
            Reply { wants_proof, sequence, response, challenge, value }
        })
    })
}

proptest! {
    #[test]
    fn what_a_host_writes_is_read_and_nothing_may_follow(
        transaction: u16, negotiate in negotiate(), reply in reply(), reason: u8, explanation: u8,
    ) {
        let notice = Notice { reason, explanation };
        let mut failure = Explanation::Failed.failure2(transaction);
        failure[6..].copy_from_slice(&[reason, explanation]);
        for (mut bytes, message) in [
            (negotiate.encode(transaction), FromHost::Negotiate(negotiate)),
            (reply.encode(transaction), FromHost::Reply(reply)),
            (success2(transaction), FromHost::Success2),
            (failure, FromHost::Failure2(notice)),
        ] {
            let read = FromHost::parse(&bytes);
            prop_assert_eq!(read, Ok(Envelope { transaction, message }));
            for cut in 0..bytes.len() {
                prop_assert!(FromHost::parse(&bytes[..cut]).is_err(), "cut at {}", cut);
            }
            bytes.push(0);
            prop_assert!(FromHost::parse(&bytes).is_err());
        }
    }

    #[test]
    fn what_a_controller_writes_is_read_with_zeros_after_it(
        transaction: u16, challenge in challenge(), hash in hash(), response: bool, fill: u8, zeros in 0..100_usize,
    ) {
        let success = Success1 { response: response.then(|| vec![fill; hash.bytes()]) };
        for (mut bytes, message) in [
            (challenge.encode(transaction), FromController::Challenge(challenge)),
            (success.encode(hash, transaction), FromController::Success1(success)),
            (
                Explanation::Hash.failure1(transaction),
                FromController::Failure1(Notice { reason: 1, explanation: 4 }),
            ),
        ] {
            for cut in 0..bytes.len() {
                prop_assert!(FromController::parse(&bytes[..cut]).is_err(), "cut at {}", cut);
            }
            bytes.resize(bytes.len() + zeros, 0);
            let read = FromController::parse(&bytes);
            prop_assert_eq!(read, Ok(Envelope { transaction, message }));
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(
        kind in prop_oneof![Just([0, 0]), Just([1, 1]), Just([1, 2]), Just([1, 3]), Just([1, 4]), any::<[u8; 2]>()],
        mut rest in proptest::collection::vec(any::<u8>(), 0..1300),
        length in prop_oneof![Just(32_u8), Just(48), Just(64), any::<u8>()],
    ) {
        if let Some(field) = rest.get_mut(4) {
            *field = length;
        }
        let bytes = [&kind[..], &rest].concat();
        if let Ok(Envelope { transaction, message: FromHost::Reply(reply) }) = FromHost::parse(&bytes) {
            prop_assert_eq!(transaction, transaction_of(&bytes));
            prop_assert_eq!(reply.response.len(), reply.challenge.len());
        }
        if let Ok(Envelope { message: FromController::Challenge(challenge), .. }) = FromController::parse(&bytes) {
            prop_assert_eq!(challenge.challenge.len(), challenge.hash.bytes());
        }
    }
}

/// The Negotiate of Linux 6.12, as it was seen.
#[test]
fn the_offer_of_linux_is_read() {
    let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 3, 6, 1, 2, 3];
    bytes.resize(8 + 34, 0);
    bytes.extend([0, 1, 2, 3, 4, 5]);
    bytes.resize(72, 0);
    let Ok(Envelope { transaction: 0, message: FromHost::Negotiate(negotiate) }) = FromHost::parse(&bytes)
    else {
        panic!("refused");
    };
    let offer = Offer { hashes: Hash::ALL.to_vec(), groups: Group::ALL.to_vec() };
    assert_eq!(negotiate, Negotiate { concatenation: 0, offer: Some(offer) });
    assert_eq!(negotiate.encode(0), bytes);
}

#[test]
fn the_first_descriptor_of_the_protocol_counts_and_lists_have_thirty_places() {
    let offer = |ids: &[u8]| {
        let mut descriptor = [0; 64];
        descriptor[..4].copy_from_slice(&[ids[0], 0, ids[1], ids[2]]);
        descriptor[4] = ids[3];
        descriptor[34] = ids[4];
        descriptor
    };
    let parse = |descriptors: &[[u8; 64]]| {
        let mut bytes = vec![0, 0, 0, 0, 9, 0, 0, descriptors.len() as u8];
        bytes.extend(descriptors.iter().flatten());
        match FromHost::parse(&bytes) {
            Ok(Envelope { message: FromHost::Negotiate(negotiate), .. }) => Ok(negotiate.offer),
            Ok(_) => panic!("another message"),
            Err(error) => Err(error),
        }
    };
    let (sha384, f2048) = (vec![Hash::Sha384], vec![Group::Ffdhe(Ffdhe::F2048)]);
    // Another protocol's descriptor may have any lengths.
    let found = parse(&[offer(&[7, 200, 200, 1, 1]), offer(&[1, 1, 1, 2, 1]), offer(&[1, 1, 1, 3, 5])]);
    assert_eq!(found, Ok(Some(Offer { hashes: sha384, groups: f2048.clone() })));
    assert_eq!(parse(&[offer(&[7, 1, 1, 1, 1])]), Ok(None));
    assert_eq!(parse(&[]), Ok(None));
    assert_eq!(parse(&[offer(&[1, 31, 1, 1, 1])]), Err(Malformed::Field("halen")));
    assert_eq!(parse(&[offer(&[1, 1, 31, 1, 1])]), Err(Malformed::Field("dhlen")));
    // Unknown numbers are skipped.
    assert_eq!(parse(&[offer(&[1, 1, 1, 77, 1])]), Ok(Some(Offer { hashes: vec![], groups: f2048 })));
    // 63 descriptors fill a message; 64 are too many bytes.
    assert!(parse(&[offer(&[1, 1, 1, 1, 1]); 63]).is_ok());
    assert_eq!(parse(&[offer(&[1, 1, 1, 1, 1]); 64]), Err(Malformed::Field("message")));
}

//! Responses against values of others: a script that follows SPDK and Linux, and Linux 6.12 itself.

use crate::ends::{HOST, SUBSYSTEM, nqn};
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::response::Covered;
use pumice_nvme::auth::secret::Secret;

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..][..2], 16).unwrap()).collect()
}

#[test]
fn responses_are_those_of_a_script_of_our_own() {
    let (host, subsystem) = (nqn(HOST), nqn(SUBSYSTEM));
    let key: ChapKey = "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:".parse().unwrap();
    let (of_host, of_controller) = (key.transformed(&host), key.transformed(&subsystem));
    assert_eq!(of_host.expose(), hex("28d14f536e0964e21224259a3a12ef423511b493944c6262f893c083c5f7baca"));
    assert_eq!(
        of_controller.expose(),
        hex("52f5eaff27146b5746e56c86170604a059ff7366c89cea4788dbee3cd08bd2bb")
    );
    let challenge: Vec<u8> = (0x40..0x60).collect();
    let covered = Covered {
        hash: Hash::Sha256,
        challenge: &challenge,
        shared: None,
        sequence: 0x0102_0304,
        transaction: 0x0506,
        host: &host,
        subsystem: &subsystem,
    };
    let expected = hex("b910fb675152f2968ff9ab219f66eeb8d61201414e2283de1eb422c667b7f80d");
    assert_eq!(covered.host_response(&of_host).expose(), expected);
    let expected = hex("eecc5413f73cb4483ff9bfe325183eab034ad55c5ea380366c28c5ccf51a89eb");
    let other = Covered { sequence: 0x0A0B_0C0D, ..covered };
    assert_eq!(other.controller_response(&of_controller).expose(), expected);
    let shared: Vec<u8> = (0..256).map(|i| (7 * i) as u8).collect();
    let shared = Secret::new(&shared);
    let expected = hex("5725581e87ba43663a581228b8a98a664b38495e44a1f46326ccff7e53a23c0e");
    let joined = Covered { shared: Some(&shared), ..covered };
    assert_eq!(joined.host_response(&of_host).expose(), expected);
}

/// Linux 6.12 as the host computed R1, and accepted R2.
#[test]
fn responses_are_those_of_linux() {
    let (host, subsystem) = (nqn(HOST), nqn(SUBSYSTEM));
    let bytes: Vec<u8> = (0..0x30).collect();
    let of_host = ChapKey::new(Some(Hash::Sha256), &bytes[..32]).unwrap().transformed(&host);
    let of_controller = ChapKey::new(Some(Hash::Sha384), &bytes).unwrap().transformed(&subsystem);
    let challenge = hex("5a197c57f33dafea076943b77de06513fb8bbd7358f2bf5e18c968d23373eaaf");
    let covered = Covered {
        hash: Hash::Sha256,
        challenge: &challenge,
        shared: None,
        sequence: 0x3617_EE8B,
        transaction: 0,
        host: &host,
        subsystem: &subsystem,
    };
    let expected = hex("143e5bf4a9d78ede8d203c76c4c29ea8d70fca8567778b804505930528f1b3bc");
    assert_eq!(covered.host_response(&of_host).expose(), expected);
    let challenge = hex("b4a17cc600bcd746519587889588351d53847d5262b842c2a08a34c6b0b5b5fe");
    let covered = Covered { challenge: &challenge, sequence: 0xF635_8945, ..covered };
    let expected = hex("f848c47485cb7906e5820ff203ec4d804e4c3e8299a9e7ccc0930178fafd6e6d");
    assert_eq!(covered.controller_response(&of_controller).expose(), expected);
}

/// The same key and the same challenge, both ways: a response of one end is none of the other.
#[test]
fn a_response_of_one_end_is_none_of_the_other() {
    let (host, subsystem) = (nqn(HOST), nqn(SUBSYSTEM));
    // Without a transformation the key is the same for both owners.
    let key = ChapKey::new(None, &[9; 32]).unwrap();
    let (of_host, of_controller) = (key.transformed(&host), key.transformed(&subsystem));
    assert_eq!(of_host.expose(), of_controller.expose());
    for hash in Hash::ALL {
        let challenge = vec![3; hash.bytes()];
        let covered = Covered {
            hash,
            challenge: &challenge,
            shared: None,
            sequence: 1,
            transaction: 1,
            host: &host,
            subsystem: &subsystem,
        };
        let other = Covered { host: &subsystem, subsystem: &host, ..covered };
        let response = covered.controller_response(&of_controller);
        assert_ne!(covered.host_response(&of_host), response);
        // Not even for who has the names in the other order.
        assert_ne!(other.host_response(&of_host), response);
    }
}

/// Everything that a response covers changes it.
#[test]
fn a_response_covers_all_of_its_parts() {
    let (host, subsystem, other) = (nqn(HOST), nqn(SUBSYSTEM), nqn("nqn.2026-01.example:other"));
    let key = ChapKey::new(Some(Hash::Sha512), &[9; 64]).unwrap().transformed(&host);
    let challenge = vec![3; 48];
    let (shared, another) = (Secret::new(&[1; 256]), Secret::new(&[2; 256]));
    let base = Covered {
        hash: Hash::Sha384,
        challenge: &challenge,
        shared: Some(&shared),
        sequence: 1,
        transaction: 1,
        host: &host,
        subsystem: &subsystem,
    };
    let changed = vec![4; 48];
    let variants = [
        base,
        Covered { challenge: &changed, ..base },
        Covered { shared: Some(&another), ..base },
        Covered { shared: None, ..base },
        Covered { sequence: 2, ..base },
        Covered { transaction: 2, ..base },
        Covered { host: &other, ..base },
        Covered { subsystem: &other, ..base },
        Covered { hash: Hash::Sha512, ..base },
    ];
    let responses: Vec<Secret> = variants.iter().map(|covered| covered.host_response(&key)).collect();
    for (i, one) in responses.iter().enumerate() {
        assert!(responses[..i].iter().all(|earlier| earlier != one), "variant {i}");
    }
}

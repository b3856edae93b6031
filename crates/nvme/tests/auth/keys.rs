//! Keys against texts and values of nvme-cli, libnvme and a second implementation.

use crate::ends::{HOST, SUBSYSTEM, nqn};
use crate::responses::hex;
use proptest::prelude::*;
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::keys::KeyError;
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::keys::identity::{Identity, IdentityError, PskHash, Version};
use pumice_nvme::auth::keys::psk::{ConfiguredPsk, Derivation};
use pumice_nvme::auth::nqn::Nqn;

/// One key between one host and one subsystem: text, and what comes of it. Empty: not known.
struct Psk {
    names: (&'static str, &'static str),
    derivation: Derivation,
    text: &'static str,
    retained: &'static str,
    zero: &'static str,
    digest: &'static str,
    one: &'static str,
}

const OURS: (&str, &str) = (HOST, SUBSYSTEM);
const LIBNVME: (&str, &str) = ("nqn.psk-test-host", "nqn.psk-test-subsys");
const RAMP_32: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const RAMP_48: &str =
    "NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:";

/// The first four by nvme-cli 2.13 (text, compat digest) and a second implementation; the last
/// three are the published test of libnvme.
const PSKS: [Psk; 7] = [
    Psk {
        names: OURS,
        derivation: Derivation::Standard,
        text: RAMP_32,
        retained: "b503aa36dbba99c30b65f9ac0abc86a08a2b7dcc054b3e15e1c2e46c34a8660e",
        zero: "faaeb371f65a442a2fa601b6465c5f69c902947567d4f694c905fef5845e135a",
        digest: "vQT7t3yJwz1J1TLm5DNPVvM+4cNYZIg1FEHMDW3mQxY=",
        one: "e0cbe839b29e3237afa60942bff4ef3c6d5f62ed0fe89068d39816b9d76cef8f",
    },
    Psk {
        names: OURS,
        derivation: Derivation::Standard,
        text: RAMP_48,
        retained: "9387e471e5fd4cd0f61a1683e0ad2b754e05ee98c2ef854a9865d4e919aba214006f76d4ebde519ab637ecc7b5f89365",
        zero: "dc86005cd886471a8927e6406b5102993556e0410be39a4307cc663d5ca32f201c8dc0014f04356593b75a45a05db8eb",
        digest: "lNn4fBbSpqjwDdgYfbZ8oYdCssanecnnN4NsE4gmVxngsGaiIcI9BmnIw6n3yw3p",
        one: "06e36fec65c4a110f18b6ea298b96f9002f9dd706f2facab3c74d0eed9ed20445c722669d9b43e40e9b2f4eaf0936298",
    },
    Psk {
        names: OURS,
        derivation: Derivation::Compat,
        text: RAMP_32,
        retained: "",
        zero: "1cf629cfed66da054f2fea3a249f51a1b354a10a7de187636ed43ec215c890e5",
        digest: "5fFkjPHRjkA8CXg6kM33lXT/YQLdxtEwc2kta5L0ifY=",
        one: "7e7b6b60e8449f1ad15b63546fe130f44908d92821838d2dfc085d0c30e5f082",
    },
    Psk {
        names: OURS,
        derivation: Derivation::Compat,
        text: RAMP_48,
        retained: "",
        zero: "e4dfd544f909342a48a4ca27246e266e7b7dfcebbb62e908f096208ff2421511301f59cf36e3e9aba3777f39e4a51abb",
        digest: "J1XDaM1xw9xmdX9z78AI8getIgmPjhChQMBqGKyuGBXUVaNVX2cI6kLEE7Q6UQSE",
        one: "bfff5955d32a1ab9fbc1cdf171a23f50f36676591a1fbb48b584f3b1e8efa73506b03c13b7b3cb08abb238d366381dc3",
    },
    Psk {
        names: LIBNVME,
        derivation: Derivation::Standard,
        text: "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        retained: "073311dec37e219ff3acd43f130130c5bdd443c066e1cc3424e49030234ff7d5",
        zero: "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68",
        digest: "iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
        one: "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca",
    },
    Psk {
        names: LIBNVME,
        derivation: Derivation::Standard,
        text: "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        retained: "5512dbb6737d0106f65975b773dfb011ffc344bcf442e2dd6d8bc4870b5d5b03",
        zero: "ec85300ba827726bd3bc4fc07f3a34aec5fe7c8ccac05fefc2f021c74e0df9ef",
        digest: "quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
        one: "a45d08ee4639c7570729bb3e57e905e466a49a15ece5401af906830c4d3bdb0b",
    },
    Psk {
        names: LIBNVME,
        derivation: Derivation::Standard,
        text: "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        retained: "73973a1b51a9acdde29a0610ac6a3ef852cf45936cca6830a661d18f68502f1a4c7a8ecb37524e0b1f7087cb4d680ad9",
        zero: "f42ba63824cdfe421914c582921f85b5b5b7e2d4df084caeedc9be20b212e8bb0fe8a23e9d59a1c8fc6449da4970a78d",
        digest: "QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
        one: "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17a85368a0666d250afac9282dda2e62ca",
    },
];

#[test]
fn keys_of_tls_are_those_of_other_programs() {
    for (i, psk) in PSKS.iter().enumerate() {
        let (host, subsystem) = (nqn(psk.names.0), nqn(psk.names.1));
        let configured: ConfiguredPsk = psk.text.parse().unwrap();
        assert_eq!(configured.to_text().as_str(), psk.text);
        let retained = configured.retained(&host, psk.derivation);
        if !psk.retained.is_empty() {
            assert_eq!(retained.expose(), hex(psk.retained), "{i}");
        }
        assert_eq!(retained.digest(&subsystem), psk.digest, "{i}");
        let zero = retained.tls(Version::Zero, &subsystem).unwrap();
        let one = retained.tls(Version::One, &subsystem).unwrap();
        assert_eq!((zero.key.expose(), one.key.expose()), (&hex(psk.zero)[..], &hex(psk.one)[..]), "{i}");
        let id = if configured.hash() == PskHash::Sha256 { "01" } else { "02" };
        let names = format!("{} {}", psk.names.0, psk.names.1);
        assert_eq!(zero.identity.to_string(), format!("NVMe0R{id} {names}"));
        assert_eq!(one.identity.to_string(), format!("NVMe1R{id} {names} {}", psk.digest));
        for key in [zero, one] {
            assert_eq!(Identity::parse(key.identity.to_string().as_bytes()), Ok(key.identity));
        }
    }
}

#[test]
fn a_server_knows_three_identities_of_a_key_and_each_is_another() {
    let (host, subsystem) = (nqn(HOST), nqn(SUBSYSTEM));
    let kinds = |psk: &ConfiguredPsk, subsystem: &Nqn| -> Vec<(Version, Derivation)> {
        let accepted = psk.accepted(&host, subsystem);
        for (i, one) in accepted.iter().enumerate() {
            assert!(accepted[..i].iter().all(|other| other.identity != one.identity && other.key != one.key));
            let own = psk.retained(&host, one.derivation).tls(one.identity.version(), subsystem).unwrap();
            assert_eq!((&own.identity, &own.key), (&one.identity, &one.key));
        }
        accepted.iter().map(|psk| (psk.identity.version(), psk.derivation)).collect()
    };
    let transformed: ConfiguredPsk = RAMP_32.parse().unwrap();
    let (standard, compat) = ((Version::One, Derivation::Standard), (Version::One, Derivation::Compat));
    let zero = (Version::Zero, Derivation::Standard);
    assert_eq!(kinds(&transformed, &subsystem), [standard, compat, zero]);
    // Retained as it is, both derivations have the same digest.
    let plain = ConfiguredPsk::new(false, &[7; 48]).unwrap();
    assert_eq!(plain.hash(), PskHash::Sha384);
    assert_eq!(kinds(&plain, &subsystem), [standard, zero]);
    // One byte has the length of an identity of version 0: at most 255.
    let longest = 255 - "NVMe0R01 ".len() - HOST.len() - 1;
    let name = |length: usize| nqn(&format!("nqn.{}", "s".repeat(length - 4)));
    assert_eq!(kinds(&transformed, &name(longest)), [standard, compat, zero]);
    assert_eq!(kinds(&transformed, &name(longest + 1)), [standard, compat]);
}

#[test]
fn texts_of_chap_keys_are_read_and_written() {
    let ramp: Vec<u8> = (0..64).collect();
    let text = "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    let key: ChapKey = text.parse().unwrap();
    assert_eq!(key, ChapKey::new(Some(Hash::Sha256), &ramp[..32]).unwrap());
    assert_eq!(key.to_text().as_str(), text);
    for transform in [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)] {
        for length in [32, 48, 64] {
            let key = ChapKey::new(transform, &ramp[..length]).unwrap();
            let read: ChapKey = key.to_text().parse().unwrap();
            assert_eq!((&read, read.transform(), read.secret_bytes()), (&key, transform, length));
        }
    }
    for length in [0, 1, 31, 33, 47, 49, 63] {
        assert_eq!(ChapKey::new(None, &ramp[..length]), Err(KeyError::Length("32, 48 or 64")));
    }
    let (one, other) = (ChapKey::new(None, &[1; 32]).unwrap(), ChapKey::new(None, &[2; 32]).unwrap());
    assert!(one.has_secret_of(&ChapKey::new(Some(Hash::Sha512), &[1; 32]).unwrap()));
    assert!(!one.has_secret_of(&other));
}

#[test]
fn bad_texts_are_refused_and_not_shown() {
    let chap = |text: &str| text.parse::<ChapKey>().unwrap_err();
    let tls = |text: &str| text.parse::<ConfiguredPsk>().unwrap_err();
    let body = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR";
    let form = KeyError::Form("DHHC-1");
    for text in [
        String::new(),
        format!("DHHC-2:01:{body}:"),
        format!("DHHC-1:01:{body}"),
        format!("DHHC-1:01:{body}:\n"),
        format!(" DHHC-1:01:{body}:"),
        format!("DHHC-101:{body}:"),
        "DHHC-1:".to_owned(),
        "DHHC-1::".to_owned(),
        format!("NVMeTLSkey-1:01:{body}:"),
    ] {
        assert_eq!(chap(&text), form, "{text}");
    }
    for hh in ["04", "1", "001", "", "0x", "10", "+1", "é"] {
        assert!(matches!(chap(&format!("DHHC-1:{hh}:{body}:")), KeyError::Transform(_)), "{hh}");
    }
    assert!(matches!(tls(&format!("NVMeTLSkey-1:03:{body}:")), KeyError::Transform(_)));
    assert_eq!(chap("DHHC-1:01:AAEC!wQF:"), KeyError::Base64);
    assert_eq!(chap(&format!("DHHC-1:01:{body}=:")), KeyError::Base64);
    assert_eq!(chap(&format!("DHHC-1:01:{body}:{body}:")), KeyError::Base64);
    assert!(matches!(chap("DHHC-1:01:AAEC:"), KeyError::Length(_)));
    assert!(matches!(chap("DHHC-1:01::"), KeyError::Length(_)));
    assert!(matches!(chap(&format!("DHHC-1:01:{}:", "A".repeat(4000))), KeyError::Length(_)));
    assert_eq!(chap(&format!("DHHC-1:01:B{}:", &body[1..])), KeyError::Checksum);
    // The length of a TLS key belongs to its hash.
    assert!(matches!(tls(&RAMP_32.replace(":01:", ":02:")), KeyError::Length(_)));
    assert!(matches!(tls(&RAMP_48.replace(":02:", ":01:")), KeyError::Length(_)));
    let long = ChapKey::new(None, &[1; 64]).unwrap().to_text().replace("DHHC-1", "NVMeTLSkey-1");
    assert!(matches!(tls(&long), KeyError::Length(_)));
    for error in [chap(&format!("DHHC-1:01:B{}:", &body[1..])), chap(&format!("DHHC-7:01:{body}:"))] {
        assert!(!format!("{error} {error:?}").contains("AgMEBQ") && !error.to_string().contains(&body[1..8]));
    }
}

#[test]
fn nothing_shows_a_secret_in_its_debug_form() {
    let (host, subsystem) = (nqn(HOST), nqn(SUBSYSTEM));
    let chap = ChapKey::new(Some(Hash::Sha256), &[0xAB; 32]).unwrap();
    let psk = ConfiguredPsk::new(true, &[0xAB; 32]).unwrap();
    let retained = psk.retained(&host, Derivation::Standard);
    let transformed = chap.transformed(&host);
    for (secret, shown) in [
        (vec![0xAB; 32], format!("{chap:?} {psk:?}")),
        (retained.expose().to_vec(), format!("{retained:?}")),
        (transformed.expose().to_vec(), format!("{transformed:?}")),
        (
            psk.accepted(&host, &subsystem)[0].key.expose().to_vec(),
            format!("{:?}", psk.accepted(&host, &subsystem)),
        ),
    ] {
        let decimal = format!("{}, {}", secret[0], secret[1]);
        assert!(!shown.contains(&decimal) && shown.contains("bytes)"), "{shown}");
        assert!(!shown.contains(&format!("{:02x}{:02x}", secret[0], secret[1])), "{shown}");
    }
}

#[test]
fn identities_that_are_none_are_refused() {
    let (host, subsystem) = (HOST, SUBSYSTEM);
    let digest = "vQT7t3yJwz1J1TLm5DNPVvM+4cNYZIg1FEHMDW3mQxY=";
    let parse = |text: &str| Identity::parse(text.as_bytes());
    assert!(parse(&format!("NVMe1R01 {host} {subsystem} {digest}")).is_ok());
    for text in [
        String::new(),
        "NVMe1R01".to_owned(),
        format!("NVMe1R01 {host} {subsystem}"),
        format!("NVMe0R01 {host} {subsystem} {digest}"),
        format!("NVMe1R01 {host}  {subsystem} {digest}"),
        format!("NVMe1R01 {host} {subsystem} {digest} x"),
    ] {
        assert_eq!(parse(&text), Err(IdentityError::Form), "{text}");
    }
    for kind in ["NVMe1R03", "NVMe1R00", "NVMe2R01", "NVMe1G01", "nvme1R01", ""] {
        assert_eq!(parse(&format!("{kind} {host} {subsystem} {digest}")), Err(IdentityError::Kind), "{kind}");
    }
    for digest in ["", "AAAA", "!", &digest[1..], &format!("{digest}\0")] {
        let found = parse(&format!("NVMe1R01 {host} {subsystem} {digest}"));
        assert_eq!(found, Err(IdentityError::Digest), "{digest}");
    }
    // The length of the other hash.
    assert_eq!(parse(&format!("NVMe1R02 {host} {subsystem} {digest}")), Err(IdentityError::Digest));
    let found = parse(&format!("NVMe0R01 host {subsystem}"));
    assert!(matches!(found, Err(IdentityError::Name("host", _))));
    let found = parse(&format!("NVMe0R01 {host} nqn.\u{202E}example:1234"));
    assert!(matches!(found, Err(IdentityError::Name("subsystem", _))));
    assert_eq!(Identity::parse(&[0xFF; 20]), Err(IdentityError::Form));
    assert_eq!(Identity::parse(&[b'a'; 1025]), Err(IdentityError::Length(1025)));
    assert_eq!(Identity::parse(&[b'a'; 1024]), Err(IdentityError::Form));
}

proptest! {
    #[test]
    fn a_changed_text_is_refused_or_means_the_same(
        secret in proptest::collection::vec(any::<u8>(), 32..=32), at in 0..59_usize, with in "[ -~]",
    ) {
        let text = ChapKey::new(Some(Hash::Sha256), &secret).unwrap().to_text();
        let mut changed = text.to_string();
        changed.replace_range(at..=at, &with);
        if let Ok(key) = changed.parse::<ChapKey>() {
            // Only hh has no checksum.
            prop_assert!(changed == *text || at == 8, "{} at {}", with, at);
            let again = key.to_text();
            prop_assert_eq!(again.as_str(), changed);
        }
    }

    #[test]
    fn any_text_is_a_key_or_an_error(text in "(DHHC-1|NVMeTLSkey-1)?:?0?[0-3]?:?[A-Za-z0-9+/=:]{0,120}:?") {
        let _ = text.parse::<ChapKey>();
        let _ = text.parse::<ConfiguredPsk>();
    }

    #[test]
    fn any_bytes_are_an_identity_or_an_error(
        kind in "(NVMe[01]R0[12])?", rest in proptest::collection::vec(any::<u8>(), 0..1100), names in 0..3_usize,
    ) {
        let mut bytes = kind.into_bytes();
        (0..names).for_each(|i| bytes.extend(format!(" nqn.2026-01.example:{i}").bytes()));
        bytes.extend(rest);
        if let Ok(identity) = Identity::parse(&bytes) {
            prop_assert_eq!(identity.to_string().into_bytes(), bytes);
        }
    }
}

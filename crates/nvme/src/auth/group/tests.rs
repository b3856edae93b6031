use super::*;
use crypto_bigint::{Limb, NonZero};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const GROUPS: [Ffdhe; 5] = [Ffdhe::F2048, Ffdhe::F3072, Ffdhe::F4096, Ffdhe::F6144, Ffdhe::F8192];

/// Values by Python and OpenSSL.
fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/exchanges.json")).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn prime(group: Ffdhe) -> BoxedUint {
    group.modulus().modulus().as_ref().clone()
}

fn exponent(group: Ffdhe, hex: &str) -> Exponent {
    let bytes = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..][..2], 16).unwrap());
    let mut bytes: Vec<u8> = bytes.collect();
    bytes.resize(56, 0);
    Exponent::new(group, &Secret::new(&bytes))
}

/// The part of a seed that exponents are made of: bytes 64 to 119 of (a i + b).
fn seeded(group: Ffdhe, a: usize, b: usize) -> Exponent {
    let bytes: Vec<u8> = (64..120).map(|i| (a * i + b) as u8).collect();
    Exponent::new(group, &Secret::new(&bytes))
}

/// floor(2^bits e), from the series of 1/k!, with 64 bits more on the way.
fn e_times_power_of_two(bits: u32, precision: u32) -> BoxedUint {
    let mut term = BoxedUint::one_with_precision(precision).shl(bits + 64);
    let mut sum = BoxedUint::zero_with_precision(precision);
    let mut k = 0_u32;
    while term.is_nonzero().to_bool() {
        sum = sum.wrapping_add(&term);
        k += 1;
        term = term.div_rem_limb(NonZero::new(Limb::from(k)).unwrap()).0;
    }
    sum.shr(64)
}

#[test]
fn the_primes_are_those_of_the_formula() {
    let numbers = [560_316_u64, 2_625_351, 5_736_041, 15_705_020, 10_965_728];
    for (group, x) in GROUPS.into_iter().zip(numbers) {
        let bits = group.bits();
        let wide = bits + 64;
        let one = BoxedUint::one_with_precision(wide);
        let x = BoxedUint::from_be_slice(&x.to_be_bytes(), wide).unwrap();
        let middle = e_times_power_of_two(bits - 130, wide).wrapping_add(&x).shl(64);
        let expected = one.shl(bits).wrapping_sub(one.shl(bits - 64)).wrapping_add(middle).wrapping_sub(&one);
        assert_eq!(expected.to_be_bytes()[8..], prime(group).to_be_bytes()[..], "{bits}");
    }
}

#[test]
fn public_and_shared_values_are_those_of_other_programs() {
    let vectors = vectors();
    for row in vectors["groups"].as_array().unwrap() {
        let bits = row["bits"].as_u64().unwrap();
        let group = GROUPS.into_iter().find(|group| u64::from(group.bits()) == bits).unwrap();
        let own = seeded(group, 7, 3);
        let peer = exponent(group, row["peer_exponent"].as_str().unwrap());
        let (own_value, peer_value) = (own.public(), peer.public());
        assert_eq!((own_value.len(), peer_value.len()), (group.value_bytes(), group.value_bytes()));
        assert_eq!(sha256(&own_value), row["public_sha256"], "{row}");
        assert_eq!(sha256(&peer_value), row["peer_sha256"], "{row}");
        let shared = own.with(&peer_value).unwrap().shared();
        assert_eq!(sha256(shared.expose()), row["shared_sha256"], "{row}");
        assert_eq!(shared, peer.with(&own_value).unwrap().shared());
        match row["kind"].as_str().unwrap() {
            // As programs send it that leave zeros out.
            "public" => {
                assert_eq!(peer_value[0], 0);
                assert_eq!(own.with(&peer_value[1..]).unwrap().shared(), shared);
            }
            "shared" => assert_eq!(shared.expose()[0], 0),
            _ => {}
        }
    }
}

#[test]
fn values_that_give_the_shared_value_away_are_refused() {
    for group in GROUPS {
        let own = seeded(group, 5, 9);
        let (p, bytes) = (prime(group), group.value_bytes());
        let number = |n: u8| BoxedUint::from_be_slice(&[n], group.bits()).unwrap();
        let taken = |value: &BoxedUint| own.with(&value.to_be_bytes()).is_some();
        assert!(!taken(&number(0)) && !taken(&number(1)) && taken(&number(2)), "{group:?}");
        let less = |n: u8| p.wrapping_sub(number(n));
        assert!(!taken(&less(1)) && taken(&less(2)), "{group:?}");
        assert!(!taken(&p) && !taken(&p.wrapping_add(number(1))) && !taken(&p.wrapping_add(number(2))));
        assert!(own.with(&vec![0xFF; bytes]).is_none() && own.with(&[]).is_none());
        assert!(own.with(&[2]).is_some());
        let mut longer = vec![0; bytes + 1];
        longer[bytes] = 2;
        assert!(own.with(&longer).is_none(), "longer than the prime");
        // None of these can come of our own values.
        assert!(own.with(&own.public()).is_some());
    }
}

#[test]
fn every_bit_of_an_exponent_counts_and_its_highest_is_set() {
    let group = Ffdhe::F2048;
    let zeros = Exponent::new(group, &Secret::new(&[0; 56]));
    assert_eq!(zeros.bytes.expose()[0], 0x80);
    let none = zeros.public();
    for bit in 1..group.exponent_bits() as usize {
        let mut bytes = [0; 56];
        bytes[bit / 8] = 0x80 >> (bit % 8);
        assert_ne!(Exponent::new(group, &Secret::new(&bytes)).public(), none, "bit {bit}");
    }
}

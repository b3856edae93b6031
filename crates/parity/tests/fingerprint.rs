//! Fingerprints end to end: chunks are hashed where they are, sums meet, and the bad stripes and
//! members come out.

use proptest::prelude::*;
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::code::{Code, CodeSpec};
use pumice_parity::fingerprint::{BadStripe, Decoded, PowerSums, line_keys, locate_column, stripe_key};
use pumice_parity::gf;
use pumice_parity::gf64;
use pumice_parity::planes::Planes;
use pumice_parity::seed::Seed;
use std::collections::BTreeMap;

/// The hash by its definition.
fn hash(keys: &[u64], chunk: &[u8]) -> Planes {
    let mut sum = Planes::ZERO;
    for (key, line) in keys.iter().zip(chunk.chunks(64)) {
        let mut planes = Planes::ZERO;
        for (at, byte) in line.iter().enumerate() {
            let bit = at / 8 * 8 + 7 - at % 8;
            for (b, plane) in planes.0.iter_mut().enumerate() {
                *plane |= u64::from(byte >> b & 1) << bit;
            }
        }
        sum.add(&planes.times(*key));
    }
    sum
}

/// Reproducible 64-bit numbers.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let seed = Seed::from_number(seed);
    let mut index = 0;
    move || {
        index += 1;
        u64::from_le_bytes(seed.derive("test", index).0[..8].try_into().unwrap())
    }
}

fn planes(next: &mut impl FnMut() -> u64) -> Planes {
    Planes(std::array::from_fn(|_| next()))
}

/// An array whose members are moved on by one every stripe, as parity rotates.
struct Array {
    code: Code,
    chunk: usize,
    /// `[stripe][member]`.
    stripes: Vec<Vec<Vec<u8>>>,
}

impl Array {
    fn new(code: Code, stripes: usize, chunk: usize) -> Self {
        let mut next = numbers(77);
        let members = code.check().columns();
        let stripes = (0..stripes)
            .map(|stripe| {
                let mut columns: Vec<Vec<u8>> =
                    (0..code.data()).map(|_| (0..chunk).map(|_| next() as u8).collect()).collect();
                for row in code.encode_rows() {
                    let parity =
                        |at: usize| row.iter().zip(&columns).fold(0, |p, (c, d)| p ^ gf::mul(*c, d[at]));
                    columns.push((0..chunk).map(parity).collect());
                }
                columns.rotate_right(stripe % members);
                columns
            })
            .collect();
        Self { code, chunk, stripes }
    }

    fn members(&self) -> usize {
        self.code.check().columns()
    }

    /// The column of the code that a member holds in a stripe.
    fn column(&self, stripe: usize, member: usize) -> usize {
        (member + self.members() - stripe % self.members()) % self.members()
    }

    fn check(&self, stripe: usize) -> CheckMatrix {
        let rows: Vec<u8> = (0..self.code.parities())
            .flat_map(|row| (0..self.members()).map(move |m| (row, m)))
            .map(|(row, member)| self.code.check().get(row, self.column(stripe, member)))
            .collect();
        CheckMatrix::new(self.code.parities(), self.members(), &rows).unwrap()
    }

    /// The answer of a node that holds `members`.
    fn node(&self, seed: &Seed, members: std::ops::Range<usize>, powers: usize) -> PowerSums {
        let keys = line_keys(seed, 0, self.chunk.div_ceil(64));
        let mut sums = PowerSums::new(self.code.parities(), powers);
        for (index, stripe) in self.stripes.iter().enumerate() {
            for member in members.clone() {
                let column = self.code.check().column(self.column(index, member));
                let key = stripe_key(seed, index as u64);
                sums.add_member(index as u32, key, &column, &hash(&keys, &stripe[member]));
            }
        }
        sums
    }

    fn decode(&self, seed: &Seed) -> Decoded {
        // Three nodes, the last with the rest.
        let third = self.members() / 3;
        let mut sums = self.node(seed, 0..third, 8);
        sums.merge(&self.node(seed, third..2 * third, 8));
        sums.merge(&self.node(seed, 2 * third..self.members(), 8));
        sums.decode(self.stripes.len() as u32, |index| stripe_key(seed, u64::from(index)))
    }
}

fn stripes(decoded: Decoded) -> Vec<BadStripe> {
    match decoded {
        Decoded::Stripes(bad) => bad,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_damaged_stripes_of_a_rotating_six_and_two_are_named_with_their_members() {
    for (trial, (first, second)) in
        [((3, 0), (40, 7)), ((0, 5), (63, 5)), ((17, 2), (18, 3))].into_iter().enumerate()
    {
        let seed = Seed::from_number(trial as u64);
        let mut array = Array::new(Code::raid6(6).unwrap(), 64, 192);
        assert_eq!(array.decode(&seed), Decoded::Clean);
        array.stripes[first.0][first.1][100] ^= 0x10;
        for (at, byte) in array.stripes[second.0][second.1].iter_mut().enumerate().skip(20) {
            *byte ^= at as u8;
        }
        let bad = stripes(array.decode(&seed));
        assert_eq!(bad.iter().map(|s| s.index as usize).collect::<Vec<_>>(), [first.0, second.0]);
        for (found, damaged) in bad.iter().zip([first, second]) {
            assert_eq!(locate_column(&array.check(damaged.0), &found.rows), [damaged.1]);
        }
    }
}

#[test]
fn identical_damage_in_two_stripes_is_found_where_plain_xor_misses_it() {
    // The same bit stuck on the same column of the code in two stripes.
    let mut array = Array::new(Code::raid5(4).unwrap(), 16, 64);
    array.stripes[2][1][9] ^= 4;
    array.stripes[7][1][9] ^= 4;
    let plain: Vec<u8> =
        (0..64).map(|at| array.stripes.iter().flatten().fold(0, |sum, chunk| sum ^ chunk[at])).collect();
    assert_eq!(plain, [0; 64], "the sum over stripes with all weights 1 sees nothing");
    let bad = stripes(array.decode(&Seed::from_number(1)));
    assert_eq!(bad.iter().map(|s| s.index).collect::<Vec<_>>(), [2, 7]);
    assert_eq!(bad[0].rows, bad[1].rows, "it is the same damage");
}

#[test]
fn a_member_that_the_naive_weights_miss_is_found() {
    // With P and Q added by weight 1, slot 0 has c = 1 + g^0 = 0.
    let mut array = Array::new(Code::raid6(6).unwrap(), 8, 64);
    array.stripes[0][0][0] ^= 0xFF;
    let naive = array.code.check().combine(&[1, 1]);
    let sum = array.stripes[0].iter().zip(&naive).fold(0, |sum, (chunk, c)| sum ^ gf::mul(*c, chunk[0]));
    assert_eq!(sum, 0);
    let bad = stripes(array.decode(&Seed::from_number(2)));
    assert_eq!((bad.len(), bad[0].index), (1, 0));
    assert_eq!(locate_column(&array.check(0), &bad[0].rows), [0]);
}

#[test]
fn the_hash_of_a_bad_stripe_is_the_hash_of_its_damage() {
    let seed = Seed::from_number(3);
    let mut array = Array::new(Code::reed_solomon(4, 3).unwrap(), 10, 128);
    let mut damage = vec![0; 128];
    damage[64..70].fill(0x3C);
    let (stripe, member) = (6, 1);
    for (byte, e) in array.stripes[stripe][member].iter_mut().zip(&damage) {
        *byte ^= e;
    }
    let e = hash(&line_keys(&seed, 0, 2), &damage);
    let rows = array.check(stripe).column(member).iter().map(|c| e.scaled(*c)).collect();
    assert_eq!(array.decode(&seed), Decoded::Stripes(vec![BadStripe { index: 6, rows }]));
}

#[test]
fn one_to_four_bad_stripes_are_exact_and_more_are_never_named_wrongly() {
    let mut next = numbers(5);
    let seed = Seed::from_number(6);
    for trial in 0..10_000 {
        let batch = [16, 255, 4096, 1 << 20][trial % 4];
        let count = trial / 4 % 10;
        let mut bad: BTreeMap<u32, Vec<Planes>> = BTreeMap::new();
        while bad.len() < count {
            bad.insert((next() % u64::from(batch)) as u32, vec![planes(&mut next)]);
        }
        let key = |index| stripe_key(&seed, u64::from(index));
        let mut sums = PowerSums::new(1, 8);
        for (index, rows) in &bad {
            sums.add(*index, key(*index), rows);
        }
        let expected = match count {
            0 => Decoded::Clean,
            1..=4 => {
                Decoded::Stripes(bad.into_iter().map(|(index, rows)| BadStripe { index, rows }).collect())
            }
            _ => Decoded::TooMany,
        };
        assert_eq!(sums.decode(batch, key), expected, "trial {trial}");
    }
}

#[test]
fn other_numbers_of_powers_name_half_as_many_stripes() {
    let mut next = numbers(9);
    let seed = Seed::from_number(10);
    let key = |index| stripe_key(&seed, u64::from(index));
    for powers in (2..=64).step_by(2) {
        let mut sums = PowerSums::new(1, powers);
        for index in 0..powers as u32 / 2 {
            sums.add(index * 3, key(index * 3), &[planes(&mut next)]);
        }
        assert_eq!(stripes(sums.decode(200, key)).len(), powers / 2);
        sums.add(199, key(199), &[planes(&mut next)]);
        assert_eq!(sums.decode(200, key), Decoded::TooMany);
    }
}

#[test]
fn members_are_named_from_hashes_alone() {
    let mut next = numbers(4);
    for code in [
        Code::raid6(22).unwrap(),
        Code::reed_solomon(10, 4).unwrap(),
        "lrc:12,2,2,data".parse::<CodeSpec>().unwrap().code(),
    ] {
        let check = code.check();
        let y = planes(&mut next);
        for member in 0..check.columns() {
            let rows: Vec<Planes> = check.column(member).iter().map(|c| y.scaled(*c)).collect();
            assert_eq!(locate_column(check, &rows), [member]);
        }
        let mut two: Vec<Planes> = check.column(0).iter().map(|c| y.scaled(*c)).collect();
        let other = planes(&mut next);
        for (row, c) in two.iter_mut().zip(check.column(1)) {
            row.add(&other.scaled(c));
        }
        assert_eq!(locate_column(check, &two), Vec::<usize>::new(), "two members at once");
        assert_eq!(locate_column(check, &vec![Planes::ZERO; check.rows()]), Vec::<usize>::new());
    }
    // RAID-5 cannot say: every member fits.
    assert_eq!(locate_column(Code::raid5(3).unwrap().check(), &[planes(&mut next)]), [0, 1, 2, 3]);
}

#[test]
fn keys_are_the_same_on_every_machine() {
    // Computed by an independent ChaCha8. They are part of the wire format.
    let seed = Seed::from_number(42);
    let lines = [
        0x802A_2599_1A9C_DE82,
        0xE77A_0748_27A7_6670,
        0xED3B_9E63_50FE_9EC8,
        0x3D34_D40E_73CE_653E,
        0xC0DD_396B_ED5D_F513,
        0x9306_4AC4_AF70_DFD6,
        0x471A_DED5_23BF_C376,
        0x40BF_91AD_C740_CAA7,
        0x9E9D_3006_0E60_2D38,
    ];
    assert_eq!(line_keys(&seed, 0, 9), lines);
    for (first, count) in [(0, 4), (3, 6), (8, 1), (9, 0)] {
        assert_eq!(line_keys(&seed, first, count), lines[first..first + count]);
    }
    assert_eq!(stripe_key(&seed, 0), 0x7765_15CF_3879_8619);
    assert_eq!(stripe_key(&seed, 1), 0xBD09_2B2E_A120_ABDA);
    assert_eq!(stripe_key(&seed, 123_456_789_012), 0x63A9_A3C0_E56B_9324);
    assert_eq!(stripe_key(&seed, u64::MAX), 0xAF52_1E63_755F_F829);
    assert_eq!(
        seed.derive("weights", 7).to_string(),
        "458b58c42c34df04a79bd3b7ca0cd73936f287e512b024b72670fc248186ab8d"
    );
}

proptest! {
    #[test]
    fn the_hash_commutes_with_every_coefficient(
        chunk in prop::collection::vec(any::<u8>(), 0..300), c: u8, seed: u64
    ) {
        let keys = line_keys(&Seed::from_number(seed), 0, 5);
        let scaled: Vec<u8> = chunk.iter().map(|byte| gf::mul(c, *byte)).collect();
        prop_assert_eq!(hash(&keys, &scaled), hash(&keys, &chunk).scaled(c));
    }

    #[test]
    fn coefficients_and_keys_commute(words: [u64; 8], c: u8, key: u64) {
        let planes = Planes(words);
        prop_assert_eq!(planes.scaled(c).times(key), planes.times(key).scaled(c));
    }

    #[test]
    fn the_field_is_commutative_and_distributive(a: u64, b: u64, c: u64) {
        prop_assert_eq!(gf64::mul(a, b), gf64::mul(b, a));
        prop_assert_eq!(gf64::mul(gf64::mul(a, b), c), gf64::mul(a, gf64::mul(b, c)));
        prop_assert_eq!(gf64::mul(a, b ^ c), gf64::mul(a, b) ^ gf64::mul(a, c));
    }

    #[test]
    fn any_bytes_of_the_right_length_decode_without_harm(
        bytes in prop::collection::vec(any::<u8>(), 512), batch: u32
    ) {
        let sums = PowerSums::from_bytes(1, 8, &bytes).unwrap();
        prop_assert_eq!(sums.to_bytes(), bytes);
        prop_assert_eq!(sums.decode(batch, u64::from), Decoded::TooMany);
    }
}

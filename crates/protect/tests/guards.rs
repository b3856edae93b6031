//! Guards of every instruction set against known values and against long division.

mod common;

use common::{noise, slow_guard};
use proptest::prelude::*;
use pumice_protect::guard::{Crc, Guard};
use pumice_protect::kernels::{Kernels, Spacing};

/// The message of a known value.
fn message(name: &str) -> Vec<u8> {
    let ramp = |len: usize| (0..len).map(|i| i as u8).collect();
    match name {
        "512x00" => vec![0; 512],
        "512xff" => vec![0xFF; 512],
        "512ramp" => ramp(512),
        "4096x00" => vec![0; 4096],
        "4096xff" => vec![0xFF; 4096],
        "4096ramp" => ramp(4096),
        "check" => b"123456789".to_vec(),
        "4096x00+56x11" => [vec![0; 4096], vec![0x11; 56]].concat(),
        other => panic!("no message '{other}'"),
    }
}

/// Message, and its guards of 16, 32 and 64 bits.
const KNOWN: [(&str, [u64; 3]); 8] = [
    ("512x00", [0x0000, 0x30FC_EDC0, 0x1DE6_0E28_68A7_82E9]),
    ("512xff", [0xE6A1, 0x5BD9_9297, 0x5277_682D_DAEB_44B6]),
    ("512ramp", [0x4F10, 0xAE10_EE5A, 0x65F4_8632_094A_1B07]),
    ("4096x00", [0x0000, 0x98F9_4189, 0x6482_D367_EB22_B64E]),
    ("4096xff", [0x8B5D, 0x25C1_FE13, 0xC0DD_BA73_02EC_A3AC]),
    ("4096ramp", [0x8F6D, 0x9C71_FE32, 0x3E72_9F5F_6750_449C]),
    ("check", [0xD0DB, 0xE306_9283, 0xAE8B_1486_0A79_9888]),
    ("4096x00+56x11", [0x2302, 0xEA1A_B59D, 0x1307_E8BA_CFC9_E7E6]),
];

fn guard_with(kernels: Kernels, guard: Guard, data: &[u8]) -> u64 {
    let mut crc = Crc::new(guard);
    kernels.update(&mut crc, data);
    crc.value()
}

#[test]
fn known_values_of_every_set() {
    for kernels in Kernels::available() {
        for (name, values) in KNOWN {
            for (guard, value) in Guard::ALL.into_iter().zip(values) {
                assert_eq!(
                    guard_with(kernels, guard, &message(name)),
                    value,
                    "{} {guard} of {name}",
                    kernels.isa()
                );
            }
        }
    }
}

/// The known values again, from a file: the JSON that `PUMICE_NVME_VECTORS` names.
#[test]
fn known_values_of_the_file() {
    let Some(path) = std::env::var_os("PUMICE_NVME_VECTORS") else {
        eprintln!("skipped: PUMICE_NVME_VECTORS names no file");
        return;
    };
    let text = std::fs::read_to_string(&path).expect("PUMICE_NVME_VECTORS: a file that can be read");
    let vectors: serde_json::Value =
        serde_json::from_str(&text).expect("PUMICE_NVME_VECTORS: a JSON document");
    let crc = vectors["crc"].as_object().expect("an object 'crc'");
    assert!(!crc.is_empty());
    for (name, values) in crc {
        for (guard, key) in Guard::ALL.into_iter().zip(["crc16_t10", "crc32c", "crc64_nvme"]) {
            let value = u64::from_str_radix(values[key].as_str().expect(key), 16).expect(key);
            assert_eq!(guard.of(&message(name)), value, "{guard} of {name}");
        }
    }
}

#[test]
fn every_kernel_at_every_length_and_alignment() {
    let data = noise(1, 700);
    for guard in Guard::ALL {
        for len in 0..=600 {
            for shift in [0, 1, 3, 7, 8, 15, 16, 31, 33, 63] {
                let data = &data[shift..shift + len];
                let expected = slow_guard(guard, data);
                for kernels in Kernels::available() {
                    let context = format!("{} {guard} len={len} shift={shift}", kernels.isa());
                    assert_eq!(guard_with(kernels, guard, data), expected, "{context}");
                    let mut out = vec![0x5A; len + 80];
                    let to = (shift * 5) % 64 + 1;
                    let mut crc = Crc::new(guard);
                    kernels.update_copy(&mut crc, data, &mut out[to..to + len]);
                    assert_eq!(crc.value(), expected, "{context}");
                    assert_eq!(&out[to..to + len], data, "{context}: copy");
                    assert!(
                        out[..to].iter().chain(&out[to + len..]).all(|b| *b == 0x5A),
                        "{context}: wrote outside"
                    );
                }
            }
        }
    }
}

#[test]
fn long_messages_cross_chunks() {
    let data = noise(2, 40_000);
    for guard in Guard::ALL {
        for len in [4095, 4096, 4097, 4111, 4160, 4223, 4224, 4225, 4240, 8192, 8448, 8450, 13_000, 40_000] {
            let expected = slow_guard(guard, &data[..len]);
            for kernels in Kernels::available() {
                assert_eq!(
                    guard_with(kernels, guard, &data[..len]),
                    expected,
                    "{} {guard} {len}",
                    kernels.isa()
                );
                let (mut crc, mut out) = (Crc::new(guard), vec![0; len]);
                kernels.update_copy(&mut crc, &data[..len], &mut out);
                assert_eq!(
                    (crc.value(), &out[..]),
                    (expected, &data[..len]),
                    "{} {guard} {len}",
                    kernels.isa()
                );
            }
        }
    }
}

#[test]
fn blocks_of_every_length_at_every_pitch() {
    // Kernels take four blocks at a time, and then the rest.
    const COUNT: usize = 6;
    let data = noise(3, COUNT * (4224 + 64) + 7);
    for guard in Guard::ALL {
        for len in
            (0..=600).step_by(8).chain([1, 513, 960, 1008, 1024, 1088, 2048, 4096, 4104, 4152, 4160, 4224])
        {
            for pitch in [len, len + 8, len + 13, len + 64] {
                let expected: Vec<u64> =
                    (0..COUNT).map(|i| slow_guard(guard, &data[7 + i * pitch..][..len])).collect();
                for kernels in Kernels::available() {
                    let context = format!("{} {guard} len={len} pitch={pitch}", kernels.isa());
                    let blocks = Spacing { len, pitch };
                    let mut guards = [0; COUNT];
                    kernels.blocks(guard, &data[7..], blocks, &mut guards);
                    assert_eq!(guards[..], expected, "{context}");
                    let (out_pitch, mut guards) = (len + 3, [0; COUNT]);
                    let mut out = vec![0x5A; COUNT * out_pitch];
                    kernels.blocks_copy(guard, &data[7..], blocks, &mut out, out_pitch, &mut guards);
                    assert_eq!(guards[..], expected, "{context}");
                    for (i, copy) in out.chunks_exact(out_pitch).enumerate() {
                        assert_eq!(copy[..len], data[7 + i * pitch..][..len], "{context}: copy {i}");
                        assert_eq!(copy[len..], [0x5A; 3], "{context}: wrote outside, block {i}");
                    }
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "3 blocks in 1551 bytes")]
fn blocks_beyond_the_data_are_refused() {
    Kernels::best().blocks(Guard::Crc16, &[0; 1551], Spacing { len: 512, pitch: 520 }, &mut [0; 3]);
}

#[test]
#[should_panic(expected = "2 blocks into 1031 bytes")]
fn copies_beyond_the_room_are_refused() {
    let blocks = Spacing { len: 512, pitch: 512 };
    Kernels::best().blocks_copy(Guard::Crc16, &[0; 1024], blocks, &mut [0; 1031], 520, &mut [0; 2]);
}

#[test]
fn split_at_every_byte_and_joined() {
    let data = noise(4, 1100);
    for guard in Guard::ALL {
        for len in [1, 16, 17, 255, 512, 520, 1100] {
            let whole = slow_guard(guard, &data[..len]);
            for at in 0..=len {
                let (a, b) = data[..len].split_at(at);
                let mut crc = Crc::new(guard);
                crc.update(a);
                assert_eq!(crc.value(), guard.of(a));
                crc.update(b);
                assert_eq!(crc.value(), whole, "{guard} {len} stopped at {at}");
                assert_eq!(
                    guard.combine(guard.of(a), guard.of(b), b.len() as u64),
                    whole,
                    "{guard} {len} joined at {at}"
                );
                assert_eq!(guard.without(whole, b), guard.of(a), "{guard} {len} taken apart at {at}");
            }
        }
    }
}

#[test]
fn joining_huge_lengths_is_joining_twice() {
    for guard in Guard::ALL {
        let (a, zero) = (guard.of(b"abc"), guard.of(b""));
        // The guard of 2^40 zero bytes, from 1 byte by doubling.
        let mut zeros = guard.of(&[0]);
        for i in 0..40 {
            zeros = guard.combine(zeros, zeros, 1 << i);
        }
        let long = guard.combine(a, zeros, 1 << 40);
        let mut again = a;
        for _ in 0..4 {
            let mut quarter = guard.of(&[0]);
            for i in 0..38 {
                quarter = guard.combine(quarter, quarter, 1 << i);
            }
            again = guard.combine(again, quarter, 1 << 38);
        }
        assert_eq!(long, again, "{guard}");
        assert_eq!(guard.combine(a, zero, 0), a, "{guard}");
    }
}

proptest! {
    #[test]
    fn any_pieces_in_any_order(data in prop::collection::vec(any::<u8>(), 0..3000), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(data.len() + 1)).collect();
        at.extend([0, data.len()]);
        at.sort_unstable();
        for guard in Guard::ALL {
            // Last piece first.
            let (mut joined, mut len) = (guard.of(b""), 0);
            for piece in at.windows(2).rev() {
                let piece = &data[piece[0]..piece[1]];
                joined = guard.combine(guard.of(piece), joined, len);
                len += piece.len() as u64;
            }
            prop_assert_eq!(joined, slow_guard(guard, &data));
        }
    }
}

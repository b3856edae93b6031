//! Encoding and decoding: a value comes back as it was. Truncated bytes are refused, changed ones
//! are refused or mean another value, and none cause a panic.

use proptest::prelude::*;
use pumice_base::telemetry::Ledger;
use pumice_offload::wire::{
    SocketBytes, decode_command, decode_drives, decode_result, decode_transfer, encode_command,
    encode_drives, encode_result, encode_transfer,
};
use pumice_offload::{
    DriveDescription, DriveId, Grant, MemoryAddress, Mode, ParityCommand, ParityResult, Rule, Source,
    StripeBitmap, Transfer, Unread, Unreadable, Window,
};
use pumice_parity::fingerprint::PowerSums;
use pumice_parity::seed::Seed;
use pumice_protect::guard::Guard;

fn address() -> impl Strategy<Value = MemoryAddress> {
    (1..100_u32, any::<u64>()).prop_map(|(drive, offset)| MemoryAddress { drive: DriveId(drive), offset })
}

fn mode() -> impl Strategy<Value = Mode> {
    let seed = any::<[u8; 32]>().prop_map(Seed);
    prop_oneof![
        Just(Mode::Check),
        address().prop_map(|into| Mode::Generate { into }),
        (address(), seed.clone(), 1..=8_u8).prop_map(|(into, seed, accumulators)| Mode::Interims {
            into,
            seed,
            accumulators
        }),
        (address(), seed.clone(), 1..=8_u8).prop_map(|(into, seed, accumulators)| Mode::Accumulate {
            into,
            seed,
            accumulators
        }),
        (seed, 1..=4_u8).prop_map(|(seed, half)| Mode::Fingerprint { seed, powers: half * 2 }),
    ]
}

prop_compose! {
    fn command()(
        rows in 1..=8_usize, sources in 1..=10_usize, classes in 1..=5_usize, guard in 0..=6_usize,
    )(
        coefficients in proptest::collection::vec(any::<u8>(), rows * sources * classes),
        guard in proptest::collection::vec(proptest::collection::vec(any::<u8>(), rows), guard),
        sources in proptest::collection::vec(
            prop_oneof![
                (1..100_u32, any::<u64>()).prop_map(|(d, base)| Source::Media { drive: DriveId(d), base }),
                address().prop_map(|address| Source::Memory { address }),
            ],
            sources,
        ),
        rows in Just(rows), count in Just(sources),
        chunk in 1024_u32.., start in any::<u32>(), len in 1_u32.., first in 0..1_u64 << 60, stripes in 0..1000_u64,
        mode in mode(),
        unpaced in any::<bool>(),
    ) -> ParityCommand {
        ParityCommand {
            unpaced,
            sources,
            chunk,
            window: Window { start, len },
            stripes: first..first + stripes,
            rule: Rule::new(rows, count, coefficients, guard).unwrap(),
            mode,
        }
    }
}

proptest! {
    #[test]
    fn commands_come_back(command in command(), cut in any::<proptest::sample::Index>(), flip in any::<(proptest::sample::Index, u8)>()) {
        let bytes = encode_command(&command);
        prop_assert_eq!(&decode_command(&bytes).unwrap(), &command);
        prop_assert!(decode_command(&bytes[..cut.index(bytes.len())]).is_err(), "every truncation is refused");
        let mut longer = bytes.clone();
        longer.push(0);
        prop_assert!(decode_command(&longer).is_err());
        // Any change is another command or an error.
        let mut changed = bytes;
        let at = flip.0.index(changed.len());
        changed[at] ^= flip.1.max(1);
        prop_assert!(decode_command(&changed).ok().as_ref() != Some(&command), "byte {}", at);
    }

    #[test]
    fn results_come_back(command in command(), bits in proptest::collection::vec(any::<bool>(), 1000), places in 0..4_usize, range in any::<Option<(u32, u32)>>(), moved in any::<(u64, u64, u64)>(), cut in any::<proptest::sample::Index>()) {
        let count = command.count();
        prop_assume!(count > 0);
        let last = command.window.len - 1;
        let range = range.map(|(a, b)| (a.min(b).min(last), a.max(b).min(last)));
        let mut result = ParityResult { range, ..ParityResult::default() };
        match command.mode {
            Mode::Check | Mode::Generate { .. } => {
                result.nonzero = StripeBitmap::new(count);
                bits.iter().take(count as usize).enumerate().filter(|(_, b)| **b).for_each(|(i, _)| result.nonzero.set(i as u64));
            }
            Mode::Fingerprint { powers, .. } => {
                let len = PowerSums::new(command.rule.rows(), usize::from(powers)).encoded_len();
                let bytes: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
                result.fingerprint = Some(PowerSums::from_bytes(command.rule.rows(), usize::from(powers), &bytes).unwrap());
            }
            _ => {}
        }
        result.unreadable = (0..places)
            .map(|i| Unreadable {
                source: i % command.sources.len(),
                stripe: command.stripes.start,
                start: i as u32,
                len: 512,
                why: if i % 3 == 1 { Unread::NotAsked } else { Unread::Refused },
                reason: "unrecovered read error".to_owned(),
            })
            .collect();
        result.moved = Ledger { media_read: moved.0, pcie: moved.1, node_cpu: moved.2, ..Ledger::default() };
        let bytes = encode_result(&result);
        prop_assert_eq!(bytes.len() as u64, result.encoded_len(), "the ledger counts what travels");
        let back = decode_result(&bytes, &command).unwrap();
        prop_assert_eq!(&back.nonzero, &result.nonzero);
        prop_assert_eq!(back.range, result.range);
        prop_assert_eq!(&back.unreadable, &result.unreadable);
        prop_assert_eq!(back.moved, result.moved);
        prop_assert_eq!(back.fingerprint.map(|f| f.to_bytes()), result.fingerprint.map(|f| f.to_bytes()));
        prop_assert!(decode_result(&bytes[..cut.index(bytes.len())], &command).is_err());
    }

    #[test]
    fn transfers_and_drives_come_back(from in address(), to in address(), len in any::<u64>(), grant in any::<[u8; 16]>(), peer in "[a-z0-9.:-]{1,60}", drives in 0..40_u32) {
        let transfer = Transfer { from, len, peer, to, grant: Grant(grant) };
        let bytes = encode_transfer(&transfer);
        prop_assert_eq!(&decode_transfer(&bytes).unwrap(), &transfer);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            prop_assert!(decode_transfer(&changed).ok().as_ref() != Some(&transfer), "byte {}", at);
        }
        prop_assert!(decode_transfer(&[&bytes[..], b"x"].concat()).is_err());
        prop_assert!(decode_transfer(&bytes[..bytes.len() - 1]).is_err());
        let all: Vec<DriveDescription> = (1..=drives)
            .map(|i| DriveDescription { id: DriveId(i), name: format!("/dev/disk{i}"), size_bytes: u64::from(i) << 30, memory_bytes: 1 << 25, block_bytes: 512 << (i % 4), tags: Guard::ALL.get(i as usize % 4).copied() })
            .collect();
        let mut read = Vec::new();
        for page in 0..3 {
            let (count, part) = decode_drives(&encode_drives(&all, page, SocketBytes::default()), page).unwrap();
            prop_assert_eq!(count, drives);
            read.extend(part);
        }
        prop_assert_eq!(read, all);
    }

    #[test]
    fn any_bytes_at_all_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), command in command()) {
        let mut bytes = bytes;
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        let _ = decode_command(&bytes);
        let _ = decode_transfer(&bytes);
        let _ = decode_drives(&bytes, 0);
        let _ = decode_result(&bytes, &command);
    }
}

/// Two stripes of one source of 4096 bytes, checked.
fn small(stripes: u64, mode: Mode) -> ParityCommand {
    ParityCommand {
        unpaced: false,
        sources: vec![Source::Media { drive: DriveId(1), base: 0 }],
        chunk: 4096,
        window: Window { start: 0, len: 4096 },
        stripes: 100..100 + stripes,
        rule: Rule::new(1, 1, vec![1], Vec::new()).unwrap(),
        mode,
    }
}

#[test]
fn what_is_reserved_is_refused() {
    let into = MemoryAddress { drive: DriveId(1), offset: 0 };
    let seed = || Seed([7; 32]);
    for (mode, unused) in [
        (Mode::Check, [2, 40, 45, 47, 55, 56, 87]),
        (Mode::Generate { into }, [2, 45, 45, 46, 47, 56, 87]),
        (Mode::Interims { into, seed: seed(), accumulators: 1 }, [45, 45, 46, 47, 89, 90, 91]),
        (Mode::Accumulate { into, seed: seed(), accumulators: 1 }, [45, 45, 46, 47, 89, 90, 91]),
        (Mode::Fingerprint { seed: seed(), powers: 2 }, [40, 43, 45, 47, 48, 55, 91]),
    ] {
        let bytes = encode_command(&small(2, mode));
        for at in unused {
            let mut changed = bytes.clone();
            changed[at] = 1;
            let field = decode_command(&changed).unwrap_err().field;
            assert_eq!(field, "a reserved byte", "mode {}, byte {at}", bytes[1]);
        }
        let mut flags = bytes.clone();
        flags[44] = 2;
        assert_eq!(decode_command(&flags).unwrap_err().field, "flags");
    }
}

/// A node that says what cannot be is refused, and not computed with.
#[test]
fn results_that_do_not_fit_their_command() {
    let command = small(2, Mode::Check);
    let place = |start, len| Unreadable {
        source: 0,
        stripe: 100,
        start,
        len,
        why: Unread::Refused,
        reason: String::new(),
    };
    let decode = |range, unreadable| {
        let nonzero = StripeBitmap::new(2);
        let result = ParityResult { nonzero, range, unreadable, ..ParityResult::default() };
        decode_result(&encode_result(&result), &command).map_err(|error| error.field)
    };
    for range in [(0, 0), (0, 4095), (4095, 4095)] {
        assert_eq!(decode(Some(range), Vec::new()).unwrap().range, Some(range));
    }
    for range in [(1, 0), (0, 4096), (4096, 4096), (0, u32::MAX), (u32::MAX, u32::MAX)] {
        assert_eq!(decode(Some(range), Vec::new()).unwrap_err(), "range");
    }
    assert!(decode(None, vec![place(0, 4096), place(4095, 1)]).is_ok());
    for (start, len) in [(0, 4097), (4096, 1), (u32::MAX, 1), (1, u32::MAX)] {
        assert_eq!(decode(None, vec![place(start, len)]).unwrap_err(), "unreadable place");
    }
}

/// More places than a result tells of: the stripes of the others have no bit of their own, for they
/// were not folded, and must not be taken for good.
#[test]
fn places_that_are_not_told_are_suspects() {
    for (count, bits) in [(16_383, 0), (16_384, 20_000 - 16_383), (20_000, 20_000 - 16_383)] {
        let command = small(20_000, Mode::Check);
        let unreadable = (0..count)
            .map(|i| Unreadable {
                source: 0,
                stripe: 100 + i,
                start: 0,
                len: 512,
                why: Unread::Refused,
                reason: String::new(),
            })
            .collect();
        let nonzero = StripeBitmap::new(20_000);
        let result = ParityResult { nonzero, unreadable, ..ParityResult::default() };
        let bytes = encode_result(&result);
        assert_eq!(bytes.len() as u64, result.encoded_len(), "the ledger counts what travels");
        let back = decode_result(&bytes, &command).unwrap();
        assert_eq!(back.unreadable.len() as u64, count.min(16_384));
        let ones: Vec<u64> = back.nonzero.ones().collect();
        assert_eq!(ones, (20_000 - bits..20_000).collect::<Vec<_>>());
    }
}

#[test]
fn the_end_of_a_long_name_is_told() {
    for (name, told) in [
        ("x".repeat(104), "x".repeat(104)),
        (format!("{}/sda", "x".repeat(200)), format!("{}/sda", "x".repeat(100))),
        // Characters of two bytes, cut between two of them.
        (format!("{}/sda", "ö".repeat(200)), format!("{}/sda", "ö".repeat(50))),
        (format!("{}/sd", "ö".repeat(200)), format!("{}/sd", "ö".repeat(50))),
        (String::new(), String::new()),
    ] {
        let drive = DriveDescription {
            id: DriveId(1),
            name,
            size_bytes: 1,
            memory_bytes: 1,
            block_bytes: 512,
            tags: None,
        };
        let bytes = encode_drives(&[drive], 0, SocketBytes::default());
        assert_eq!(decode_drives(&bytes, 0).unwrap().1[0].name, told);
    }
}

#[test]
fn a_guard_that_nobody_knows_is_refused() {
    let drive = DriveDescription {
        id: DriveId(1),
        name: "a".to_owned(),
        size_bytes: 1,
        memory_bytes: 1,
        block_bytes: 512,
        tags: Some(Guard::Crc64),
    };
    let mut bytes = encode_drives(&[drive], 0, SocketBytes::default());
    assert_eq!(bytes[24 + 17], 3, "the 64-bit guard");
    bytes[24 + 17] = 4;
    assert_eq!(decode_drives(&bytes, 0).unwrap_err().field, "guard of the tags");
}

//! The visible face against the slow second implementation: every PRCHK, PRACT, type and format,
//! any damage, and every division of a command into pieces.

mod common;

use common::{Checks, Plain, noise};
use pumice_protect::command::CommandFields;
use pumice_protect::face::{
    CompareStream, FaceCommand, Failure, Operation, VerifyStream, WriteStream, deallocated, read, unknown,
};
use pumice_protect::format::{Format, IdentifyFields};
use pumice_protect::guard::Guard;

/// Blocks of a command.
const BLOCKS: u64 = 4;
/// The block that is damaged.
const BAD: u64 = 2;

/// Data, metadata, guard, and two sizes of storage tags.
const FORMATS: [(usize, usize, Guard, [u32; 2]); 7] = [
    (512, 8, Guard::Crc16, [0, 9]),
    (4096, 8, Guard::Crc16, [0, 32]),
    (4096, 16, Guard::Crc32c, [16, 40]),
    (4096, 16, Guard::Crc64, [0, 20]),
    (4096, 64, Guard::Crc16, [0, 12]),
    (4096, 64, Guard::Crc32c, [16, 64]),
    (4096, 64, Guard::Crc64, [0, 48]),
];

fn low(bits: u32) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}

/// Every type, place of the tuple and size of its storage tag, of every format.
fn all() -> Vec<(Plain, Format)> {
    let mut out = Vec::new();
    for (data, metadata, guard, storage) in FORMATS {
        for (kind, first) in (1..=3).flat_map(|kind| [(kind, false), (kind, true)]) {
            for sts in storage {
                let plain = Plain {
                    data,
                    metadata,
                    guard,
                    kind,
                    first,
                    sts,
                    storage_mask: low(sts),
                    application: 0x1234,
                    application_mask: 0xFF0F,
                    storage: 0xA5A5_1234_5678_9ABC & low(sts),
                    reference: 0,
                };
                let fields = IdentifyFields {
                    lbads: data.ilog2() as u8,
                    ms: metadata as u16,
                    dps: kind | u8::from(first) << 3,
                    elbaf: sts | (guard as u32) << 7,
                    lbstm: plain.storage_mask,
                };
                let format = Format::from_identify(&fields).unwrap().unwrap();
                // The reference tags begin again with 0 within the command, if they are short.
                let reference = 0x0123_4567_FFFF_FFFE & format.reference_mask();
                out.push((Plain { reference, ..plain }, format));
            }
        }
    }
    out
}

/// The fields of a command, from those of the specification.
fn fields(plain: &Plain, format: &Format, checks: Checks, act: bool) -> CommandFields {
    let space = u128::from(plain.storage) << format.reference_bits() | u128::from(plain.reference);
    let [guard, application, storage, reference] = checks.map(u16::from);
    CommandFields {
        slba: 0x0123_4567_FFFF_FFFE,
        dword2: (space >> 64) as u32,
        dword3: (space >> 32) as u32,
        control: u16::from(act) << 13 | guard << 12 | application << 11 | reference << 10 | storage << 8,
        dword14: space as u32,
        dword15: u32::from(plain.application_mask) << 16 | u32::from(plain.application),
    }
}

fn checks() -> impl Iterator<Item = Checks> {
    (0..16).map(|bits: u8| std::array::from_fn(|i| bits >> i & 1 == 1))
}

/// Extended blocks with tuples; metadata beside them are noise.
fn made(plain: &Plain, blocks: u64, seed: u64) -> Vec<u8> {
    let mut bytes = noise(seed, blocks as usize * plain.block_bytes());
    for (i, block) in (0..).zip(bytes.chunks_exact_mut(plain.block_bytes())) {
        plain.make(i, block);
    }
    bytes
}

fn apart(plain: &Plain, extended: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let blocks = extended.chunks_exact(plain.block_bytes()).map(|block| block.split_at(plain.data));
    let (data, metadata): (Vec<&[u8]>, Vec<&[u8]>) = blocks.unzip();
    (data.concat(), metadata.concat())
}

/// Fields that a block can have wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Data,
    Guard,
    Application,
    Storage,
    Reference,
    /// Everything, and an escape.
    Escaped,
}

const WRONGS: [Wrong; 7] = [
    Wrong::Nothing,
    Wrong::Data,
    Wrong::Guard,
    Wrong::Application,
    Wrong::Storage,
    Wrong::Reference,
    Wrong::Escaped,
];

/// Makes a field of a block wrong. `None` if the format has no such field.
fn spoil(plain: &Plain, format: &Format, extended: &[u8], wrong: Wrong) -> Option<Vec<u8>> {
    let mut extended = extended.to_vec();
    let block = &mut extended[BAD as usize * plain.block_bytes()..][..plain.block_bytes()];
    let guard_bytes = plain.guard.bits() as usize / 8;
    let tuple = plain.data + format.tuple_range().start..plain.data + format.tuple_range().end;
    match wrong {
        Wrong::Nothing => {}
        Wrong::Data => block[77] ^= 0x20,
        Wrong::Guard => block[tuple.start] ^= 1,
        // A bit that LBATM has.
        Wrong::Application => block[tuple.start + guard_bytes + 1] ^= 8,
        // The storage tag is in front, the reference tag behind it.
        Wrong::Storage if plain.sts == 0 => return None,
        Wrong::Storage => block[tuple.start + guard_bytes + 2] ^= 0x80,
        Wrong::Reference if format.reference_bits() == 0 => return None,
        Wrong::Reference => block[tuple.end - 1] ^= 1,
        Wrong::Escaped => {
            block[77] ^= 0x20;
            block[tuple.start + guard_bytes..tuple.end].fill(0xFF);
        }
    }
    Some(extended)
}

fn result(outcome: Result<(), Failure>) -> Option<(u64, u16)> {
    outcome.err().map(|failure| (failure.block(), failure.status()))
}

/// Sends a write in pieces that end at `cuts`: what would be stored, and how it ended.
fn write(command: FaceCommand, bytes: &[u8], cuts: &[usize]) -> (Vec<u8>, Vec<u8>, Option<(u64, u16)>) {
    let mut stream = WriteStream::new(command);
    let (mut data, mut metadata) = (Vec::new(), Vec::new());
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        stream.take(&bytes[from..to], &mut data, &mut metadata);
        from = to;
    }
    let outcome = result(stream.finish());
    (data, metadata, outcome)
}

fn compare(command: FaceCommand, bytes: &[u8], stored: (&[u8], &[u8]), cuts: &[usize]) -> Option<(u64, u16)> {
    let mut stream = CompareStream::new(command, stored.0, stored.1);
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        stream.take(&bytes[from..to]);
        from = to;
    }
    result(stream.finish())
}

/// Places where a piece ends within a block, a tuple, and between blocks.
fn some_cuts(plain: &Plain, len: usize) -> Vec<usize> {
    let mut cuts =
        vec![1, plain.data - 1, plain.data + 3, plain.block_bytes(), plain.block_bytes() + 100, len - 1];
    cuts.retain(|cut| *cut <= len);
    cuts.sort_unstable();
    cuts
}

#[test]
fn every_check_action_type_and_format_gives_the_status_of_the_right_block() {
    let mut faults = 0;
    for (seed, (plain, format)) in (0..).zip(all()) {
        let good = made(&plain, BLOCKS, seed);
        let small = plain.metadata == format.tuple_bytes();
        let (good_data, good_metadata) = apart(&plain, &good);
        for wrong in WRONGS {
            let Some(bad) = spoil(&plain, &format, &good, wrong) else { continue };
            let (bad_data, bad_metadata) = apart(&plain, &bad);
            for checks in checks() {
                let expected = plain.judge_all(checks, &bad);
                assert!(expected.is_none_or(|(block, _)| block == BAD));
                faults += u64::from(expected.is_some());
                let context = format!("{plain:?} {wrong:?} {checks:?}");
                for act in [false, true] {
                    let command = |operation| {
                        let fields = fields(&plain, &format, checks, act);
                        FaceCommand::parse(&format, operation, &fields, BLOCKS).unwrap()
                    };
                    let stripped = act && small;
                    let sent = if stripped { &bad_data } else { &bad };
                    let cuts = some_cuts(&plain, sent.len());

                    let to_write = command(Operation::Write);
                    assert_eq!(to_write.transfer_bytes(), sent.len() as u64, "{context}");
                    let (data, metadata, outcome) = write(to_write, sent, &cuts);
                    if act {
                        let mut made = bad.clone();
                        for (i, block) in (0..).zip(made.chunks_exact_mut(plain.block_bytes())) {
                            plain_or_cached(&plain, i, block, wrong, &good);
                        }
                        let expected = apart(&plain, &made);
                        assert!((data, metadata) == expected && outcome.is_none(), "{context}");
                    } else {
                        assert!(data == bad_data && metadata == bad_metadata, "{context}");
                        assert_eq!(outcome, expected, "{context}");
                    }

                    let to_read = command(Operation::Read);
                    let mut out = vec![0x77; to_read.transfer_bytes() as usize];
                    let outcome = read(&to_read, &bad_data, &bad_metadata, &mut out);
                    assert_eq!(result(outcome), expected, "{context}");
                    match outcome {
                        Ok(()) => assert!(out == *sent, "{context}"),
                        Err(failure) => {
                            assert!(out.iter().all(|byte| *byte == 0), "{context}");
                            assert_eq!(to_read.lba(&failure), 0x0123_4567_FFFF_FFFE + BAD);
                        }
                    }

                    let to_verify = command(Operation::Verify);
                    assert_eq!(to_verify.transfer_bytes(), 0);
                    assert_eq!(result(to_verify.verify(&bad_data, &bad_metadata)), expected, "{context}");
                    // The same in two parts; nothing is looked at behind the first bad block.
                    for first in 0..=BLOCKS as usize {
                        let (data, metadata) = (first * plain.data, first * plain.metadata);
                        let mut stream = VerifyStream::new(to_verify);
                        let begin = stream.take(&bad_data[..data], &bad_metadata[..metadata]);
                        let rest = |()| stream.take(&bad_data[data..], &bad_metadata[metadata..]);
                        assert_eq!(result(begin.and_then(rest)), expected, "{context}");
                    }

                    // Bad blocks stored, good ones brought.
                    let to_compare = command(Operation::Compare);
                    let brought = if stripped { &good_data } else { &good };
                    let differs = matches!(wrong, Wrong::Data | Wrong::Escaped);
                    let or_differs = expected.or(differs.then_some((BAD, Failure::COMPARE)));
                    let outcome = compare(to_compare, brought, (&bad_data, &bad_metadata), &cuts);
                    assert_eq!(outcome, or_differs, "{context}");
                    // And the other way.
                    let of_host = if stripped { None } else { expected };
                    let or_differs = of_host.or(differs.then_some((BAD, Failure::COMPARE)));
                    let outcome = compare(to_compare, sent, (&good_data, &good_metadata), &cuts);
                    assert_eq!(outcome, or_differs, "{context}");
                }
            }
        }
    }
    assert!(faults > 1000, "{faults}");
}

/// Writes a block with PRACT. The slow guard is only computed of a block that is new.
fn plain_or_cached(plain: &Plain, index: u64, block: &mut [u8], wrong: Wrong, good: &[u8]) {
    if index != BAD || !matches!(wrong, Wrong::Data | Wrong::Escaped) {
        let at = index as usize * plain.block_bytes();
        block.copy_from_slice(&good[at..at + plain.block_bytes()]);
    } else {
        plain.make(index, block);
    }
}

/// One command of 4 KiB, cut at every byte, and at any two places near the borders of blocks.
#[test]
fn every_split_of_a_write_and_a_compare_gives_the_same() {
    const COUNT: u64 = 8;
    let (plain, format) = all().into_iter().find(|(plain, _)| plain.data == 512 && plain.sts == 9).unwrap();
    let good = made(&plain, COUNT, 5);
    let (data, metadata) = apart(&plain, &good);
    let near = |len: usize, block: usize| -> Vec<usize> {
        (0..=len).filter(|at| (at + 3) % block <= 6 || (at % block).abs_diff(512) <= 9).collect()
    };
    for wrong in WRONGS {
        let bad = spoil(&plain, &format, &good, wrong).unwrap();
        let (bad_data, bad_metadata) = apart(&plain, &bad);
        for act in [false, true] {
            let command = |operation| {
                let fields = fields(&plain, &format, [true; 4], act);
                FaceCommand::parse(&format, operation, &fields, COUNT).unwrap()
            };
            let sent = if act { &bad_data } else { &bad };
            let whole = write(command(Operation::Write), sent, &[]);
            if act {
                assert!(whole.0 == bad_data && whole.2.is_none());
            } else {
                assert!(whole.0 == bad_data && whole.1 == bad_metadata);
                assert_eq!(whole.2, plain.judge_all([true; 4], &bad));
            }
            let compared = compare(command(Operation::Compare), sent, (&data, &metadata), &[]);
            let divided = |cuts: &[usize]| {
                assert!(write(command(Operation::Write), sent, cuts) == whole, "{wrong:?} {act} {cuts:?}");
                let again = compare(command(Operation::Compare), sent, (&data, &metadata), cuts);
                assert_eq!(again, compared, "{wrong:?} {act} {cuts:?}");
            };
            (0..=sent.len()).for_each(|cut| divided(&[cut]));
            divided(&(0..=sent.len()).collect::<Vec<_>>());
            let places = near(sent.len(), sent.len() / COUNT as usize);
            assert!(places.len() > 50);
            for (i, one) in places.iter().enumerate().step_by(3) {
                places[i..].iter().step_by(2).for_each(|other| divided(&[*one, *other]));
            }
        }
    }
}

#[test]
fn zeros_have_tuples_if_the_controller_acts_and_zeros_for_tuples_else() {
    for (plain, format) in all() {
        for act in [true, false] {
            // Checks of Write Zeroes say nothing, but that type 1 has its reference tag.
            let fields = fields(&plain, &format, [true; 4], act);
            let command = FaceCommand::parse(&format, Operation::WriteZeroes, &fields, BLOCKS).unwrap();
            assert_eq!(command.transfer_bytes(), 0);
            for index in 0..BLOCKS {
                let mut block = vec![0; plain.block_bytes()];
                if act {
                    plain.make(index, &mut block);
                }
                assert_eq!(command.zeros(index), block[plain.data..], "{plain:?} {act}");
            }
            let as_deallocated =
                |index| command.zeros(index) == deallocated(&format, 0x0123_4567_FFFF_FFFE + index);
            assert_eq!(command.zeros_as_deallocated(), (0..BLOCKS).all(as_deallocated));
            // From block 0 on a tuple of zeros is that of the first deallocated block, not of
            // others.
            if !act {
                let at_0 = CommandFields { slba: 0, ..fields };
                let command = FaceCommand::parse(&format, Operation::WriteZeroes, &at_0, BLOCKS).unwrap();
                let as_deallocated = |index| command.zeros(index) == deallocated(&format, index);
                assert_eq!(command.zeros_as_deallocated(), (0..BLOCKS).all(as_deallocated), "{plain:?}");
            }
        }
        let lba = 0x0123_4567_FFFF_FFFF;
        let mut block = vec![0; plain.block_bytes()];
        let reference = lba & format.reference_mask();
        Plain { application: 0, storage: 0, reference, ..plain.clone() }.make(0, &mut block);
        assert_eq!(deallocated(&format, lba), block[plain.data..], "{plain:?}");
        // A block of which nothing is known passes every check.
        let metadata = unknown(&format);
        let command =
            FaceCommand::parse(&format, Operation::Verify, &fields(&plain, &format, [true; 4], false), 1)
                .unwrap();
        assert_eq!(command.verify(&noise(3, plain.data), &metadata), Ok(()));
    }
}

#[test]
fn type_1_refuses_a_reference_tag_that_is_not_of_the_first_block() {
    use Operation::{Compare, Read, Verify, Write, WriteZeroes};
    for (plain, format) in all() {
        let wrong = Plain { reference: plain.reference ^ 1, ..plain.clone() };
        for operation in [Write, Read, Compare, Verify, WriteZeroes] {
            for act in [false, true] {
                for reference in [false, true] {
                    let fields = fields(&wrong, &format, [true, true, true, reference], act);
                    let makes = act && matches!(operation, Write | WriteZeroes);
                    let checks = reference && (operation != WriteZeroes || act);
                    let refused = plain.kind == 1 && format.reference_bits() > 0 && (makes || checks);
                    let parsed = FaceCommand::parse(&format, operation, &fields, BLOCKS);
                    assert_eq!(parsed.is_err(), refused, "{plain:?} {operation:?} {act} {reference}");
                }
            }
        }
    }
}

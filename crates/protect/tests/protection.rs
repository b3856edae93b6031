//! Tuples, checks and streams against the slow second implementation: every format, every check,
//! any damage, any division into pieces, every instruction set.

mod common;

use common::{Checks, Plain, noise};
use proptest::prelude::*;
use proptest::sample::Index;
use pumice_protect::blocks;
use pumice_protect::command::{Action, CommandFields, Direction, Pract, Prchk, Protection, Tags};
use pumice_protect::format::{Format, IdentifyFields, Place, Type};
use pumice_protect::guard::Guard;
use pumice_protect::kernels::Kernels;
use pumice_protect::stream::{CheckStream, MakeStream};

fn low(bits: u32) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}

/// Any format that exists, and any tags.
fn plain() -> impl Strategy<Value = Plain> {
    let shape =
        (0..3_usize, 1..=3_u8, any::<bool>(), prop::sample::select(vec![512, 1024, 4096]), 0..4_usize);
    let tags = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u16>(), any::<u16>());
    (shape, tags, any::<bool>()).prop_map(|((guard, kind, first, data, extra), tags, near_wrap)| {
        let guard = Guard::ALL[guard];
        let (tuple, space, least, most) =
            [(8, 32_u32, 0_u32, 32_u32), (16, 80, 16, 64), (16, 48, 0, 48)][guard as usize];
        let sts = least + (tags.0 % u64::from(most - least + 1)) as u32;
        let reference_bits = space - sts;
        // Near the end of the reference tags, where they begin again with 0.
        let reference = if near_wrap { u64::MAX - tags.1 % 4 } else { tags.1 };
        Plain {
            data,
            metadata: [tuple, 16, 64, tuple + 5][extra].max(tuple),
            guard,
            kind,
            first,
            sts,
            storage_mask: tags.2 & low(sts),
            application: tags.4 & !(u16::from(tags.4 == 0xFFFF)),
            application_mask: tags.5,
            storage: tags.3 & low(sts),
            reference: reference & low(reference_bits.min(64)),
        }
    })
}

fn format(plain: &Plain) -> Format {
    let fields = IdentifyFields {
        lbads: plain.data.ilog2() as u8,
        ms: plain.metadata as u16,
        dps: plain.kind | u8::from(plain.first) << 3,
        elbaf: plain.sts | (plain.guard as u32) << 7,
        lbstm: plain.storage_mask,
    };
    Format::from_identify(&fields).expect("a format").expect("protection is on")
}

fn tags(plain: &Plain) -> Tags {
    Tags {
        application: plain.application,
        application_mask: plain.application_mask,
        storage: plain.storage,
        reference: plain.reference,
    }
}

fn prchk([guard, application, storage, reference]: Checks) -> Prchk {
    Prchk { guard, application, storage, reference }
}

/// Extended blocks with tuples of the slow implementation; metadata beside them are noise, or
/// zeros.
fn made(plain: &Plain, count: usize, seed: u64, zeros: bool) -> Vec<u8> {
    let mut blocks = noise(seed, count * plain.block_bytes());
    for (i, block) in blocks.chunks_exact_mut(plain.block_bytes()).enumerate() {
        if zeros {
            block[plain.data..].fill(0);
        }
        plain.make(i as u64, block);
    }
    blocks
}

/// Data and metadata apart.
fn apart(plain: &Plain, blocks: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let blocks = blocks.chunks_exact(plain.block_bytes()).map(|block| block.split_at(plain.data));
    let (data, metadata): (Vec<&[u8]>, Vec<&[u8]>) = blocks.unzip();
    (data.concat(), metadata.concat())
}

/// Divides bytes at any places.
fn pieces<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|range| &bytes[range[0]..range[1]]).collect()
}

/// Every check of the crate over the same blocks.
fn verdicts(plain: &Plain, checks: Checks, blocks: &[u8], cuts: &[Index]) {
    let (format, tags, checks_on) = (format(plain), tags(plain), prchk(checks));
    let expected = plain.judge_all(checks, blocks);
    let (data, metadata) = apart(plain, blocks);
    let of = |fault: Option<pumice_protect::verdict::Fault>| fault.map(|f| (f.block, f.status()));
    assert_eq!(of(blocks::verify_extended(&format, &tags, checks_on, blocks)), expected, "verify_extended");
    assert_eq!(of(blocks::verify(&format, &tags, checks_on, &data, &metadata)), expected, "verify");
    let mut out = vec![0; data.len()];
    assert_eq!(of(blocks::strip(&format, &tags, checks_on, blocks, &mut out)), expected, "strip");
    assert_eq!(out, data, "strip");
    for kernels in Kernels::available() {
        let isa = kernels.isa();
        let stream = || CheckStream::new(format, tags, checks_on).with_kernels(kernels);
        let count = (blocks.len() / plain.block_bytes()) as u64;
        let ended = |stream: &CheckStream, what: &str| {
            assert_eq!(of(stream.fault()), expected, "{isa}: {what} in pieces");
            assert_eq!((stream.blocks(), stream.pending_bytes()), (count, 0), "{isa}: {what}");
        };
        let mut verify = stream();
        pieces(blocks, cuts).into_iter().for_each(|piece| verify.verify(piece));
        ended(&verify, "verify");

        let (mut copy, mut through) = (stream(), Vec::new());
        for piece in pieces(blocks, cuts) {
            let at = through.len();
            through.resize(at + piece.len(), 0);
            copy.verify_copy(piece, &mut through[at..]);
        }
        ended(&copy, "verify_copy");
        assert_eq!(through, blocks, "{isa}: verify_copy");

        let (mut strip, mut stripped) = (stream(), Vec::new());
        for piece in pieces(blocks, cuts) {
            let at = stripped.len();
            stripped.resize(at + strip.data_in(piece.len()), 0);
            assert_eq!(strip.strip(piece, &mut stripped[at..]), stripped.len() - at, "{isa}");
        }
        ended(&strip, "strip");
        assert_eq!(stripped, data, "{isa}: strip");

        for with_copy in [false, true] {
            let mut separate = stream();
            let mut to = vec![0; data.len()];
            let (mut taken, mut given) = (0, 0);
            // Metadata come in other pieces than data: all cuts of one are odd places of the other.
            let data_ends: Vec<usize> = ends(&pieces(&data, cuts));
            let metadata_ends: Vec<usize> = ends(&pieces(&metadata, cuts));
            for (data_end, metadata_end) in data_ends.into_iter().zip(metadata_ends) {
                let to = with_copy.then(|| &mut to[taken..data_end]);
                let (d, m) =
                    separate.verify_separate(&data[taken..data_end], to, &metadata[given..metadata_end]);
                (taken, given) = (taken + d, given + m);
            }
            let to_rest = with_copy.then(|| &mut to[taken..]);
            assert_eq!(
                separate.verify_separate(&data[taken..], to_rest, &metadata[given..]),
                (data.len() - taken, metadata.len() - given),
                "{isa}: takes all in the end"
            );
            ended(&separate, "verify_separate");
            assert!(!with_copy || to == data, "{isa}: verify_separate copies");
        }
    }
}

fn ends(pieces: &[&[u8]]) -> Vec<usize> {
    pieces
        .iter()
        .scan(0, |at, piece| {
            *at += piece.len();
            Some(*at)
        })
        .collect()
}

/// Everything of the crate that makes tuples.
fn makes(plain: &Plain, expected: &[u8], zeros: &[u8], cuts: &[Index]) {
    let (format, tags) = (format(plain), tags(plain));
    let (data, metadata) = apart(plain, expected);
    // The same blocks with other bytes in place of the tuples.
    let mut blank = expected.to_vec();
    for block in blank.chunks_exact_mut(plain.block_bytes()) {
        block[plain.data..][format.tuple_range()].fill(0xA5);
    }
    let blank_metadata = apart(plain, &blank).1;

    let mut filled = blank_metadata.clone();
    blocks::generate(&format, &tags, &data, &mut filled);
    assert_eq!(filled, metadata, "generate");
    let mut filled = blank.clone();
    blocks::generate_extended(&format, &tags, &mut filled);
    assert_eq!(filled, expected, "generate_extended");
    let zeros_data = apart(plain, zeros).0;
    let mut filled = vec![0xA5; zeros.len()];
    blocks::insert(&format, &tags, &zeros_data, &mut filled);
    assert_eq!(filled, zeros, "insert");

    for kernels in Kernels::available() {
        let isa = kernels.isa();
        let stream = || MakeStream::new(format, tags).with_kernels(kernels);
        let (mut insert, mut inserted) = (stream(), Vec::new());
        for piece in pieces(&zeros_data, cuts) {
            let at = inserted.len();
            inserted.resize(at + insert.extended_of(piece.len()), 0xA5);
            assert_eq!(insert.insert(piece, &mut inserted[at..]), inserted.len() - at, "{isa}");
        }
        assert_eq!(inserted, zeros, "{isa}: insert in pieces");
        assert_eq!(insert.pending_bytes(), 0);

        let (mut gather, mut gathered) = (stream(), Vec::new());
        for mut piece in pieces(&zeros_data, cuts) {
            while !piece.is_empty() {
                let (taken, tuple) = gather.tuple_after(piece);
                gathered.extend_from_slice(&piece[..taken]);
                piece = &piece[taken..];
                if let Some(tuple) = tuple {
                    let mut metadata = vec![0; plain.metadata];
                    metadata[format.tuple_range()].copy_from_slice(tuple.as_slice());
                    gathered.extend(metadata);
                }
            }
        }
        assert_eq!(gathered, zeros, "{isa}: tuple_after");

        let (mut overwrite, mut overwritten) = (stream(), blank.clone());
        let mut at = 0;
        for end in ends(&pieces(&blank, cuts)) {
            overwrite.overwrite(&mut overwritten[at..end]);
            at = end;
        }
        assert_eq!(overwritten, expected, "{isa}: overwrite in pieces");

        for with_copy in [false, true] {
            let mut fill = stream();
            let (mut to, mut filled) = (vec![0; data.len()], blank_metadata.clone());
            let (mut taken, mut given) = (0, 0);
            for (data_end, metadata_end) in
                ends(&pieces(&data, cuts)).into_iter().zip(ends(&pieces(&filled, cuts)))
            {
                let to = with_copy.then(|| &mut to[taken..data_end]);
                let (d, m) = fill.fill_separate(&data[taken..data_end], to, &mut filled[given..metadata_end]);
                (taken, given) = (taken + d, given + m);
            }
            let to_rest = with_copy.then(|| &mut to[taken..]);
            fill.fill_separate(&data[taken..], to_rest, &mut filled[given..]);
            assert_eq!(filled, metadata, "{isa}: fill_separate in pieces");
            assert!(!with_copy || to == data, "{isa}: fill_separate copies");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_found_in_the_right_block_with_the_right_status(
        plain in plain(),
        checks in any::<Checks>(),
        count in 1..6_usize,
        seed in any::<u64>(),
        damage in prop::collection::vec((any::<Index>(), 1..=255_u8, any::<bool>()), 0..4),
        escapes in prop::collection::vec((any::<Index>(), any::<bool>()), 0..2),
        cuts in prop::collection::vec(any::<Index>(), 0..7),
    ) {
        let mut blocks = made(&plain, count, seed, false);
        let tuple = format(&plain).tuple_range();
        for (at, by, in_tuple) in damage {
            if in_tuple {
                // One byte of 520 is not often one of the tuple.
                let (block, byte) = (at.index(count), at.index(tuple.len()));
                blocks[block * plain.block_bytes() + plain.data + tuple.start + byte] ^= by;
            } else {
                let at = at.index(blocks.len());
                blocks[at] ^= by;
            }
        }
        for (block, reference) in escapes {
            let block = &mut blocks[block.index(count) * plain.block_bytes()..][..plain.block_bytes()];
            let tuple = &mut block[plain.data..][tuple.clone()];
            let application = plain.guard.bits() as usize / 8;
            tuple[application..application + 2].fill(0xFF);
            if reference {
                tuple[application + 2..].fill(0xFF);
            }
        }
        verdicts(&plain, checks, &blocks, &cuts);
    }

    #[test]
    fn tuples_are_made_as_by_the_slow_implementation(
        plain in plain(),
        count in 1..6_usize,
        seed in any::<u64>(),
        cuts in prop::collection::vec(any::<Index>(), 0..7),
    ) {
        makes(&plain, &made(&plain, count, seed, false), &made(&plain, count, seed, true), &cuts);
    }

    /// A controller with one medium: what a host writes with any PRACT, and reads after damage with
    /// any PRACT and PRCHK.
    #[test]
    fn a_write_and_a_read_through_every_pract(
        plain in plain(),
        write in any::<bool>(),
        read in any::<bool>(),
        checks in any::<Checks>(),
        lba in any::<u64>(),
        seed in any::<u64>(),
        damage in prop::option::of((any::<Index>(), 1..=255_u8)),
    ) {
        let mut plain = plain;
        if plain.kind == 1 {
            plain.reference = lba & format(&plain).reference_mask();
        }
        let format = format(&plain);
        let count = 3;
        let command = |pract: bool, [guard, application, storage, reference]: Checks| {
            let space = u128::from(plain.storage) << format.reference_bits() | u128::from(plain.reference);
            let bits = [(pract, 13), (guard, 12), (application, 11), (reference, 10), (storage, 8)];
            CommandFields {
                slba: lba,
                dword2: (space >> 64) as u32,
                dword3: (space >> 32) as u32,
                control: bits.iter().map(|(on, bit)| u16::from(*on) << bit).sum(),
                dword14: space as u32,
                dword15: u32::from(plain.application_mask) << 16 | u32::from(plain.application),
            }
        };

        let asked = Protection::parse(&format, &command(write, [true; 4]), Direction::Write).expect("a command that makes sense");
        prop_assert_eq!(asked.tags, tags(&plain));
        // The host's own blocks: with good tuples if it makes them, else with anything in their
        // place.
        let small = format.metadata_bytes() == format.tuple_bytes();
        let good = made(&plain, count, seed, small && write);
        let mut medium = match asked.pract.of_write(&format) {
            Action::Insert => {
                let mut medium = vec![0xA5; count * plain.block_bytes()];
                blocks::insert(&format, &asked.tags, &apart(&plain, &good).0, &mut medium);
                medium
            }
            Action::Overwrite => {
                let mut blocks = good.clone();
                for block in blocks.chunks_exact_mut(plain.block_bytes()) {
                    block[plain.data..][format.tuple_range()].fill(0xA5);
                }
                blocks::generate_extended(&format, &asked.tags, &mut blocks);
                blocks
            }
            Action::Pass | Action::Strip => {
                prop_assert_eq!(asked.pract, Pract::Pass);
                prop_assert_eq!(blocks::verify_extended(&format, &asked.tags, asked.checks, &good), None);
                good.clone()
            }
        };
        prop_assert_eq!(&medium, &good);

        if let Some((at, by)) = damage {
            let at = at.index(medium.len());
            medium[at] ^= by;
        }
        let asked = Protection::parse(&format, &command(read, checks), Direction::Read).expect("a command that makes sense");
        let expected = plain.judge_all(checks, &medium);
        let fault = match asked.pract.of_read(&format) {
            Action::Strip => {
                prop_assert!(read && small);
                let mut data = vec![0; count * plain.data];
                let fault = blocks::strip(&format, &asked.tags, asked.checks, &medium, &mut data);
                prop_assert_eq!(data, apart(&plain, &medium).0);
                fault
            }
            Action::Pass => {
                prop_assert!(!read || !small);
                blocks::verify_extended(&format, &asked.tags, asked.checks, &medium)
            }
            action => panic!("a read does not {action:?}"),
        };
        prop_assert_eq!(fault.map(|f| (f.block, f.status())), expected);
    }

    #[test]
    fn remapped_blocks_are_those_of_the_new_place(
        plain in plain(),
        to in any::<u64>(),
        count in 1..5_usize,
        seed in any::<u64>(),
        escaped in any::<Index>(),
        wrong in prop::option::of(any::<Index>()),
    ) {
        let format = format(&plain);
        let mut blocks = made(&plain, count, seed, false);
        let tuple_at = |i: usize| i * plain.block_bytes() + plain.data + format.tuple_range().start;
        // One block with an escape, which stays.
        let application = tuple_at(escaped.index(count)) + plain.guard.bits() as usize / 8;
        blocks[application..application + 2].fill(0xFF);
        let mut moved = Plain { reference: to & format.reference_mask(), ..plain.clone() };
        if plain.kind == 3 {
            moved.reference = plain.reference;
        }
        let mut expected = blocks.clone();
        for (i, block) in expected.chunks_exact_mut(plain.block_bytes()).enumerate() {
            if i != escaped.index(count) {
                moved.make(i as u64, block);
            }
        }
        let has_reference = plain.kind != 3 && format.reference_bits() > 0;
        if let Some(wrong) = wrong.map(|w| w.index(count)).filter(|w| has_reference && *w != escaped.index(count)) {
            blocks[tuple_at(wrong) + format.tuple_bytes() - 1] ^= if format.reference_bits() < 8 { 1 } else { 0x80 };
            let before = blocks.clone();
            let fault = blocks::remap_extended(&format, plain.reference, to, &mut blocks).expect("a wrong tag");
            prop_assert_eq!((fault.block, fault.status()), (wrong as u64, 0x284));
            prop_assert_eq!(blocks, before, "nothing is changed");
        } else {
            let mut metadata = apart(&plain, &blocks).1;
            prop_assert_eq!(blocks::remap_extended(&format, plain.reference, to, &mut blocks), None);
            prop_assert_eq!(&blocks, &expected);
            prop_assert_eq!(blocks::remap(&format, plain.reference, to, &mut metadata), None);
            prop_assert_eq!(metadata, apart(&plain, &expected).1);
        }
    }
}

/// More blocks than the kernels get at a time, the bad one in each place, and pieces that end in
/// each byte of a block.
#[test]
fn every_block_of_a_long_command_and_every_cut() {
    for guard in Guard::ALL {
        let plain = Plain {
            data: 512,
            metadata: 16,
            guard,
            kind: 1,
            first: false,
            sts: 16,
            storage_mask: 0xFFFF,
            application: 7,
            application_mask: 0xFFFF,
            storage: 0xABCD,
            reference: 0xFFF0 & low(if guard == Guard::Crc16 { 16 } else { 32 }),
        };
        let (format, tags) = (format(&plain), tags(&plain));
        let good = made(&plain, 70, 5, false);
        for bad in [0, 1, 31, 32, 33, 63, 64, 69] {
            let mut blocks = good.clone();
            blocks[bad * 528 + 100] ^= 4;
            // Later damage is not the verdict.
            blocks[69 * 528 + 200] ^= 4;
            let fault = blocks::verify_extended(&format, &tags, Prchk::ALL, &blocks).expect("a bad block");
            assert_eq!((fault.block, fault.status()), (bad as u64, 0x282));
        }
        let (first, data) = (&good[..3 * 528], apart(&plain, &good[..3 * 528]).0);
        for cut in 0..=3 * 528 {
            let (a, b) = first.split_at(cut);
            let mut stream = CheckStream::new(format, tags, Prchk::ALL);
            let mut out = vec![0; data.len()];
            let at = stream.strip(a, &mut out);
            assert_eq!((stream.blocks(), stream.pending_bytes()), ((cut / 528) as u64, cut % 528));
            stream.strip(b, &mut out[at..]);
            assert_eq!((stream.fault(), &out), (None, &data), "cut at {cut}");
        }
    }
}

/// Blocks that nobody has written: tuples of all ones are not checked, with any type.
#[test]
fn tuples_of_all_ones_are_not_checked() {
    for (guard, kind) in Guard::ALL.into_iter().flat_map(|guard| [1, 2, 3].map(|kind| (guard, kind))) {
        let plain = Plain {
            data: 4096,
            metadata: 16,
            guard,
            kind,
            first: true,
            sts: 16,
            storage_mask: u64::MAX,
            application: 1,
            application_mask: 0xFFFF,
            storage: 2,
            reference: 3,
        };
        let (format, tags) = (format(&plain), tags(&plain));
        let mut block = vec![0; 4112];
        block[4096..].fill(0xFF);
        assert_eq!(blocks::verify_extended(&format, &tags, Prchk::ALL, &block), None);
        // With type 3 the reference tag must say so too.
        block[4096 + format.tuple_bytes() - 1] = 0xFE;
        let fault = blocks::verify_extended(&format, &tags, Prchk::ALL, &block);
        assert_eq!(fault.map(|f| f.status()), (kind == 3).then_some(0x282), "{guard} type {kind}");
    }
}

/// A stream that stopped within metadata takes no data: it would sum them for the wrong block.
#[test]
fn data_in_the_place_of_metadata_is_refused() {
    let format = Format::new(512, 16, Guard::Crc16, Type::One, Place::Last).expect("a format");
    for operation in 0..3 {
        let mut stream = MakeStream::new(format, Tags::at(&format, 0));
        stream.overwrite(&mut [7; 515]);
        let refused = std::panic::catch_unwind(move || {
            let _ = match operation {
                0 => stream.insert(&[7; 100], &mut [0; 200]),
                1 => stream.tuple_after(&[7; 100]).0,
                _ => stream.extended_of(100),
            };
        })
        .expect_err("it is within metadata");
        let why = refused.downcast_ref::<String>().expect("a message");
        assert_eq!(why, "data at byte 515 of a block with 512 bytes of data");
    }
}

/// The statuses in their order: each field in turn is the first that fails.
#[test]
fn the_first_field_that_fails_is_the_status() {
    let plain = Plain {
        data: 512,
        metadata: 8,
        guard: Guard::Crc16,
        kind: 2,
        first: false,
        sts: 8,
        storage_mask: 0x0F,
        application: 0x1234,
        application_mask: 0xFF00,
        storage: 0x5A,
        reference: 0xFF_FFFF,
    };
    let (format, tags) = (format(&plain), tags(&plain));
    let mut block = made(&plain, 1, 9, false);
    assert_eq!(block[514..520], [0x12, 0x34, 0x5A, 0xFF, 0xFF, 0xFF]);
    let status = |block: &[u8], checks| {
        blocks::verify_extended(&format, &tags, checks, block).map(|fault| fault.status())
    };
    // Bits outside the masks.
    block[515] ^= 0xFF;
    block[516] ^= 0xF0;
    assert_eq!(status(&block, Prchk::ALL), None);
    block[519] ^= 1;
    assert_eq!(status(&block, Prchk::ALL), Some(0x284));
    block[516] ^= 1;
    assert_eq!(status(&block, Prchk::ALL), Some(0x288));
    assert_eq!(status(&block, Prchk { storage: false, ..Prchk::ALL }), Some(0x284));
    block[514] ^= 1;
    assert_eq!(status(&block, Prchk::ALL), Some(0x283));
    block[0] ^= 1;
    assert_eq!(status(&block, Prchk::ALL), Some(0x282));
    assert_eq!(status(&block, Prchk::GUARD), Some(0x282));
    assert_eq!(status(&block, Prchk { guard: false, ..Prchk::ALL }), Some(0x283));
    assert_eq!(status(&block, Prchk::NONE), None);
}

//! Blocks with any tuples in any format, in any pieces: a stream says what a check of the whole
//! says, and gives the same bytes; what it has made, it takes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::take;
use pumice_protect::blocks;
use pumice_protect::command::{CommandFields, Direction, Protection};
use pumice_protect::format::{Format, IdentifyFields};
use pumice_protect::stream::{CheckStream, MakeStream};

/// The lengths of pieces: the fuzzer's, and at least one byte.
fn piece(lengths: &mut &[u8], left: usize) -> usize {
    let Some((first, rest)) = lengths.split_first() else { return left };
    *lengths = rest;
    // Small ones, and some that end far into a block or after several.
    let length = usize::from(*first & 0x7F) * if first & 0x80 == 0 { 1 } else { 37 };
    length.clamp(1, left)
}

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let (a, b, c, d) = (take(&mut rest), take(&mut rest), take(&mut rest), take(&mut rest));
    let identify = IdentifyFields {
        lbads: a as u8,
        ms: (a >> 8) as u16,
        dps: (a >> 24) as u8,
        elbaf: (a >> 32) as u32,
        lbstm: b,
    };
    // Often a format that exists.
    let small = IdentifyFields {
        lbads: 9 + (a as u8 & 1),
        ms: identify.ms & 0x3F,
        dps: identify.dps & 0xF,
        ..identify
    };
    let Ok(Some(format)) = Format::from_identify(if a >> 63 == 0 { &small } else { &identify }) else {
        return;
    };
    let fields = CommandFields {
        slba: c,
        dword2: (b >> 16) as u32,
        dword3: (c >> 32) as u32,
        control: d as u16,
        dword14: c as u32,
        dword15: (d >> 32) as u32,
    };
    let direction = if d >> 62 & 1 == 0 { Direction::Write } else { Direction::Read };
    let Ok(asked) = Protection::parse(&format, &fields, direction) else { return };
    let (lengths, content) = rest.split_at(rest.len() / 4);
    let count = 1 + (content.len() / format.block_bytes()).min(4);
    let mut bytes = content.to_vec();
    bytes.resize(count * format.block_bytes(), (d >> 16) as u8);
    if d >> 63 == 1 {
        // Good tuples but for one byte: the fuzzer does not guess guards.
        blocks::generate_extended(&format, &asked.tags, &mut bytes);
        let at = (d >> 24) as usize % bytes.len();
        bytes[at] ^= (d >> 16) as u8;
    }

    let mut stripped = vec![0; count * format.data_bytes()];
    let expected = blocks::strip(&format, &asked.tags, asked.checks, &bytes, &mut stripped);
    assert_eq!(blocks::verify_extended(&format, &asked.tags, asked.checks, &bytes), expected);

    let mut stream = CheckStream::new(format, asked.tags, asked.checks);
    let (mut left, mut cuts, mut out) = (&bytes[..], lengths, Vec::new());
    while !left.is_empty() {
        let (head, tail) = left.split_at(piece(&mut cuts, left.len()));
        let at = out.len();
        out.resize(at + stream.data_in(head.len()), 0);
        assert_eq!(stream.strip(head, &mut out[at..]), out.len() - at);
        left = tail;
    }
    assert_eq!((stream.fault(), stream.blocks(), stream.pending_bytes()), (expected, count as u64, 0));
    assert_eq!(out, stripped);

    let mut made = vec![0; bytes.len()];
    blocks::insert(&format, &asked.tags, &stripped, &mut made);
    let mut stream = MakeStream::new(format, asked.tags);
    let (mut left, mut cuts, mut out) = (&stripped[..], lengths, Vec::new());
    while !left.is_empty() {
        let (head, tail) = left.split_at(piece(&mut cuts, left.len()));
        let at = out.len();
        out.resize(at + stream.extended_of(head.len()), 0);
        assert_eq!(stream.insert(head, &mut out[at..]), out.len() - at);
        left = tail;
    }
    assert_eq!(out, made);
    assert_eq!(blocks::verify_extended(&format, &asked.tags, asked.checks, &made), None);

    // Overwritten where they are, in pieces.
    let mut stream = MakeStream::new(format, asked.tags);
    let (mut left, mut cuts) = (&mut bytes[..], lengths);
    while !left.is_empty() {
        let (head, tail) = left.split_at_mut(piece(&mut cuts, left.len()));
        stream.overwrite(head);
        left = tail;
    }
    assert_eq!(blocks::verify_extended(&format, &asked.tags, asked.checks, &bytes), None);
});

//! Commands over a visible face with any fields and any bytes, cut anywhere. Plain arithmetic, a
//! bit at a time, says what each of them must do; a drive with tags stores the blocks.
#![no_main]

#[path = "../../crates/protect/tests/common/mod.rs"]
mod common;

use common::{Checks, Plain, slow_guard};
use libfuzzer_sys::fuzz_target;
use pumice_blockdev::{BlockDevice, MemoryDevice, Tagged};
use pumice_fuzz::{Bytes, take};
use pumice_protect::command::CommandFields;
use pumice_protect::face::{CompareStream, FaceCommand, Failure, Operation, WriteStream, read};
use pumice_protect::format::{Format, IdentifyFields, Place, Type};
use pumice_protect::guard::Guard;
use pumice_protect::metadata::MetadataFormat;
use pumice_tags::page::Opinion;
use pumice_tags::{TaggedDevice, TaggedMemory, make_in_memory};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

const BLOCKS: u64 = 3;

/// The first block that fails, and the status.
type Outcome = Result<(), (u64, u16)>;

fn outcome(result: Result<(), Failure>) -> Outcome {
    result.map_err(|failure| (failure.block(), failure.status()))
}

/// Data and metadata for the store, and how the write ends.
fn write(command: FaceCommand, sent: &[u8], cuts: &[usize]) -> (Vec<u8>, Vec<u8>, Outcome) {
    let mut stream = WriteStream::new(command);
    let (mut data, mut metadata) = (Vec::new(), Vec::new());
    let mut from = 0;
    for to in cuts.iter().copied().chain([sent.len()]) {
        stream.take(&sent[from..to], &mut data, &mut metadata);
        from = to;
    }
    let outcome = outcome(stream.finish());
    (data, metadata, outcome)
}

fn compare(command: FaceCommand, sent: &[u8], cuts: &[usize], data: &[u8], metadata: &[u8]) -> Outcome {
    let mut stream = CompareStream::new(command, data, metadata);
    let mut from = 0;
    for to in cuts.iter().map(|cut| (*cut).min(sent.len())).chain([sent.len()]) {
        stream.take(&sent[from..to]);
        from = to;
    }
    outcome(stream.finish())
}

/// The fields of a command, read from their dwords once more.
fn plain(format: &Format, fields: &CommandFields) -> Plain {
    let tuple = if format.guard() == Guard::Crc16 { 8 } else { 16 };
    let space = 8 * tuple - format.guard().bits() - 16;
    let value = u128::from(fields.dword14)
        | u128::from(fields.dword3) << 32
        | u128::from(fields.dword2 & 0xFFFF) << 64;
    let sts = u32::from(format.storage_bits());
    let low = |value: u128, bits: u32| (value & ((1 << bits) - 1)) as u64;
    Plain {
        data: format.data_bytes(),
        metadata: format.metadata_bytes(),
        guard: format.guard(),
        kind: match format.kind() {
            Type::One => 1,
            Type::Two => 2,
            Type::Three => 3,
        },
        first: format.place() == Place::First,
        sts,
        storage_mask: format.storage_mask(),
        application: fields.dword15 as u16,
        application_mask: (fields.dword15 >> 16) as u16,
        storage: low(value >> (space - sts), sts),
        reference: low(value, space - sts),
    }
}

/// Data and metadata as extended blocks.
fn extended(plain: &Plain, data: &[u8], metadata: &[u8]) -> Vec<u8> {
    let blocks = data.chunks_exact(plain.data).zip(metadata.chunks_exact(plain.metadata));
    blocks.flat_map(|(data, metadata)| [data, metadata].concat()).collect()
}

thread_local! {
    /// A drive with tags for each format: with a tag file, and in memory.
    static DRIVES: RefCell<HashMap<(usize, MetadataFormat), Drives>> = RefCell::default();
}

type Drives = (Arc<TaggedDevice>, Arc<TaggedMemory>);

/// Drives that store these blocks; `None` if there are no such drives.
fn drives(format: &Format) -> Option<Drives> {
    let (data, metadata) = (format.data_bytes(), format.metadata());
    // With the tuple alone, first and last are the same.
    let metadata = if metadata.is_tuple() {
        MetadataFormat::tuple(metadata.guard()).with_storage_bits(metadata.storage_bits()).ok()?
    } else {
        metadata
    };
    let open = || {
        let memory: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 64 << 10));
        let tags = make_in_memory(&*memory, data as u32, metadata).ok()?;
        let tagged = TaggedDevice::open(memory, tags, "").expect("a new tag file");
        let in_memory = TaggedMemory::new("m", 64 << 10, data as u32, metadata).expect("a drive");
        Some((Arc::new(tagged), Arc::new(in_memory)))
    };
    DRIVES.with(|drives| {
        let mut drives = drives.borrow_mut();
        if drives.len() > 200 {
            drives.clear();
        }
        match drives.entry((data, metadata)) {
            Entry::Occupied(there) => Some(there.get().clone()),
            Entry::Vacant(place) => Some(place.insert(open()?).clone()),
        }
    })
}

/// A drive keeps data and metadata as they are, and the hidden face judges them by the guard.
fn stored(drive: &dyn Tagged, plain: &Plain, data: &[u8], metadata: &[u8]) {
    let at = 4 * plain.data as u64;
    drive.write_with_metadata(at, data, metadata).expect("memory");
    let (mut to_data, mut to_metadata) = (vec![1; data.len()], vec![1; metadata.len()]);
    drive.read_with_metadata(at, &mut to_data, &mut to_metadata).expect("memory");
    assert!(to_data == data && to_metadata == metadata, "stored as they came");
    let judged = drive.read_judged(at, &mut to_data).expect("memory");
    let guard_bytes = plain.guard.bits() as usize / 8;
    let blocks = data.chunks_exact(plain.data).zip(metadata.chunks_exact(plain.metadata));
    for ((data, metadata), judged) in blocks.zip(judged) {
        let (before, tuple) = metadata.split_at(plain.tuple_at() - plain.data);
        let (guard, rest) = tuple.split_at(guard_bytes);
        let guard = guard.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let escaped = rest[..2] == [0xFF; 2];
        let fits = guard == slow_guard(plain.guard, &[data, before].concat());
        assert_eq!(fits || escaped, !matches!(judged.opinion, Opinion::Differs(_)), "{:?}", judged.opinion);
        // What a host of the parity command set compares with rebuilt data.
        assert_eq!(judged.guard == slow_guard(plain.guard, data), fits);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    let choice = take(&mut rest);
    let shape = take(&mut rest);
    let identify = IdentifyFields {
        lbads: if choice & 1 == 0 { 9 } else { 12 },
        ms: [8, 16, 64, 24][(choice >> 1) as usize % 4],
        dps: (choice >> 3) as u8 & 15,
        elbaf: (choice >> 8) as u32 & 0x1FF,
        lbstm: shape,
    };
    let Ok(Some(format)) = Format::from_identify(&identify) else { return };
    let fields = CommandFields {
        slba: take(&mut rest),
        dword2: shape as u32,
        dword3: (shape >> 32) as u32,
        control: (choice >> 20) as u16,
        dword14: take(&mut rest) as u32,
        dword15: (choice >> 32) as u32,
    };
    // Half of the type 1 commands have the reference tag that they must have.
    let fields = match choice >> 19 & 1 {
        0 => CommandFields {
            slba: fields.slba & 0xFFFF,
            dword2: 0,
            dword3: 0,
            dword14: fields.slba as u32 & 0xFFFF,
            ..fields
        },
        _ => fields,
    };
    let plain = plain(&format, &fields);
    let act = fields.control >> 13 & 1 == 1;
    let checks: Checks = [12, 11, 8, 10].map(|bit| fields.control >> bit & 1 == 1);
    let parse = |operation| FaceCommand::parse(&format, operation, &fields, BLOCKS);
    let first = fields.slba & format.reference_mask();
    let wrong = plain.kind == 1 && plain.reference != first;
    let (to_write, to_read) = (parse(Operation::Write), parse(Operation::Read));
    assert_eq!(to_write.is_err(), wrong && (act || checks[3]), "{plain:?}");
    assert_eq!(to_read.is_err(), wrong && checks[3], "{plain:?}");
    let (Ok(to_write), Ok(to_read), Ok(to_compare), Ok(to_verify)) =
        (to_write, to_read, parse(Operation::Compare), parse(Operation::Verify))
    else {
        return;
    };
    let mut bytes = Bytes::new(rest);
    // Good tuples, but for what the fuzzer's bytes change.
    let tuple_only = format.metadata_bytes() == format.tuple_bytes();
    let mut sent = vec![0; BLOCKS as usize * format.block_bytes()];
    for (i, block) in (0..).zip(sent.chunks_exact_mut(format.block_bytes())) {
        block.fill(bytes.take(1).first().copied().unwrap_or(7));
        plain.make(i, block);
    }
    while let [low, high, byte] = bytes.take(3)[..] {
        let at = usize::from(u16::from_le_bytes([low, high])) % sent.len();
        sent[at] ^= byte;
        if byte & 0x81 == 0x81 {
            break;
        }
    }
    let mut cuts: Vec<usize> = Vec::new();
    let of_data: Vec<u8> =
        sent.chunks_exact(plain.block_bytes()).flat_map(|block| &block[..plain.data]).copied().collect();
    let transferred = if act && tuple_only { &of_data } else { &sent };
    assert_eq!(to_write.transfer_bytes(), transferred.len() as u64);
    while let [low, high] = bytes.take(2)[..] {
        cuts.push(usize::from(u16::from_le_bytes([low, high])) % (transferred.len() + 1));
    }
    cuts.sort_unstable();
    let whole = write(to_write, transferred, &[]);
    assert_eq!(write(to_write, transferred, &cuts), whole, "cut otherwise, stored otherwise");
    let (data, metadata, ended) = whole;
    let mut expected = sent.clone();
    if act {
        for (i, block) in (0..).zip(expected.chunks_exact_mut(plain.block_bytes())) {
            plain.make(i, block);
        }
        assert_eq!(ended, Ok(()), "nothing is checked where the controller makes tuples");
    } else {
        assert_eq!(ended, plain.judge_all(checks, &sent).map_or(Ok(()), Err), "{plain:?} {checks:?}");
    }
    assert!(extended(&plain, &data, &metadata) == expected, "{plain:?}");
    if let Some((tagged, in_memory)) = drives(&format) {
        stored(&*tagged, &plain, &data, &metadata);
        stored(&*in_memory, &plain, &data, &metadata);
    }
    let judged = plain.judge_all(checks, &expected).map_or(Ok(()), Err);
    let mut out = vec![1; to_read.transfer_bytes() as usize];
    assert_eq!(outcome(read(&to_read, &data, &metadata, &mut out)), judged, "{plain:?} {checks:?}");
    assert_eq!(outcome(to_verify.verify(&data, &metadata)), judged);
    match judged {
        Ok(()) => {
            assert!(out == *if act && tuple_only { &data } else { &expected });
            assert_eq!(compare(to_compare, &out, &cuts, &data, &metadata), Ok(()), "equal, cut or not");
        }
        Err(_) => assert!(out.iter().all(|byte| *byte == 0), "nothing of a bad block leaves"),
    }
});

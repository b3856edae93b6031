//! Flash of a drive whose tags, log or checkpoint hold anything, under fitting checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_flash::chip::{BlockId, Geometry, MemoryNand, Nand, NandError, Timing};
use pumice_flash::ftl::{Coded, Config, DataSum, Ftl, Journal, Kind, LogPlace, NandJournal, Scheme, Sums, Tag, recover};

const LOGICAL: u32 = 24;
const SHAPE: Geometry =
    Geometry { blocks: 60, pages_per_block: 8, channels: 1, page_bytes: 128, oob_bytes: 128 };

type Flash = Coded<MemoryNand<Vec<u8>, Vec<u8>>>;

/// Structures that the fuzzer changes.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Tags,
    Log,
    Checkpoint,
    RawOob,
}

/// The next bytes of the input are XORed over `bytes`, sparsely: an offset, then a mask.
fn bend(bytes: &mut [u8], input: &mut &[u8]) {
    let Some((&[count], rest)) = input.split_first_chunk::<1>() else { return };
    *input = rest;
    for _ in 0..count % 8 {
        let Some((&[low, high, mask], rest)) = input.split_first_chunk::<3>() else { return };
        *input = rest;
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= mask;
        }
    }
}

fn content(byte: u8) -> Vec<u8> {
    vec![byte; SHAPE.page_bytes as usize]
}

/// A drive with data, shared pages, a log and a checkpoint.
fn made(config: Config) -> Flash {
    let nand = Coded::new(MemoryNand::new(SHAPE, Timing::DISKSIM), Sums::Crc32c);
    let journal = NandJournal::new(SHAPE, LOGICAL);
    let _ = Journal::<Flash>::reserved(&journal);
    let mut drive: Ftl<Flash, _, Vec<u8>> = Ftl::format(nand, journal, config).expect("it fits");
    for n in 0..40_u32 {
        drive.write(n % LOGICAL, &content(n as u8 % 5), 0).expect("written");
    }
    drive.idle(0, u64::MAX / 2).expect("looked at");
    drive.checkpoint().expect("a checkpoint");
    drive.trim(3, 2).expect("trimmed");
    for n in 0..12_u32 {
        drive.write(n, &content(100 + n as u8 % 4), 0).expect("written");
    }
    drive.idle(0, u64::MAX / 2).expect("looked at");
    drive.flush(0).expect("flushed");
    drive.into_nand()
}

fuzz_target!(|data: &[u8]| {
    let mut input = data;
    let Some((&[which, scheme], rest)) = input.split_first_chunk::<2>() else { return };
    input = rest;
    let target = [Target::Tags, Target::Log, Target::Checkpoint, Target::RawOob][usize::from(which % 4)];
    let config = Config::new(LOGICAL, [Scheme::Offline, Scheme::Inline][usize::from(scheme % 2)]);
    let mut old = made(config);
    // The stream of each checkpoint, so that its sum can be made to fit.
    let mut streams = std::collections::BTreeMap::<u64, Vec<u8>>::new();
    let mut new = MemoryNand::new(SHAPE, Timing::DISKSIM);
    for block in (0..SHAPE.blocks).map(BlockId) {
        for index in 0..SHAPE.pages_per_block {
            let page = SHAPE.page(block, index);
            let read = match old.read(page, 0) {
                Ok(read) => read,
                Err(NandError::Erased(_)) => break,
                Err(error) => panic!("{error}"),
            };
            let (mut tag, mut bytes) = (read.oob, read.data.expect("sound"));
            match (target, tag.kind) {
                (Target::Log, Kind::Log { page, records, .. }) => {
                    bend(&mut bytes, &mut input);
                    // Without fitting sums, a process ended while the page was written again.
                    for (record, bytes) in (0..records).zip(bytes.as_chunks_mut().0) {
                        if which & 4 == 0 {
                            LogPlace { log: tag.birth, page, record }.seal(bytes);
                        }
                    }
                }
                (Target::Checkpoint, Kind::Checkpoint(n)) => {
                    let stream = streams.entry(tag.birth).or_default();
                    let at = n as usize * bytes.len();
                    if stream.len() == at {
                        bend(&mut bytes, &mut input);
                        stream.extend(&bytes);
                    } else {
                        // The second copy of the page.
                        let end = at + bytes.len();
                        bytes.copy_from_slice(&stream[at..end]);
                    }
                }
                (Target::Checkpoint, Kind::CheckpointEnd(_)) => {
                    let length = u64::from_le_bytes(std::array::from_fn(|i| bytes[4 + i])) as usize;
                    let stream = &streams[&tag.birth];
                    bytes[..4].copy_from_slice(&crc32c::crc32c(&stream[..length]).to_le_bytes());
                }
                _ => {}
            }
            let mut oob = tag.encode(DataSum { sum: crc32c::crc32c(&bytes), keyed: false });
            if target == Target::Tags {
                // Without its sum, which is made anew.
                bend(&mut oob[..60], &mut input);
                let sum = crc32c::crc32c(&oob[..60]);
                oob[60..64].copy_from_slice(&sum.to_le_bytes());
            } else if target == Target::RawOob {
                bend(&mut oob, &mut input);
            }
            if let Some((decoded, sum)) = Tag::decode(&oob) {
                tag = decoded;
                if target != Target::RawOob && oob[6..8] == [0; 2] && oob[5] & !3 == 0 && (oob[5] & 2 == 0 || sum.is_some()) {
                    assert_eq!(tag.encode(sum.unwrap_or(DataSum { sum: 0, keyed: false }))[..64], oob[..64], "a tag that is taken is written the same way");
                }
            }
            new.program(page, 0, &bytes, &oob).expect("in order");
        }
    }
    for accept in [false, true] {
        let Ok(mut drive) = recover(Coded::new(new.clone(), Sums::Crc32c), config, accept) else { continue };
        assert_eq!(drive.contradictions(), Vec::<String>::new());
        let before: Vec<_> = (0..LOGICAL).map(|lpn| drive.read(lpn, 0).map(|(data, _)| data)).collect();
        for n in 0..60_u32 {
            if drive.write(n % 7, &content(n as u8), 0).is_err() {
                return;
            }
        }
        let _ = drive.idle(0, u64::MAX / 2);
        if drive.flush(0).is_err() {
            return;
        }
        assert_eq!(drive.contradictions(), Vec::<String>::new());
        for lpn in 7..LOGICAL {
            let now = drive.read(lpn, 0).map(|(data, _)| data);
            let expected = &before[lpn as usize];
            assert!(now == *expected || expected.is_err(), "page {lpn}: {expected:?}, then {now:?}");
            assert!(expected.is_ok() || now.is_err(), "page {lpn} was damaged and reads {now:?}");
        }
    }
});

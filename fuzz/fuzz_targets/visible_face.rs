//! Commands over a visible face: whatever a host says and sends, and however it is cut, the same is
//! stored, and what is stored is what a read gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_fuzz::{Bytes, take};
use pumice_protect::command::CommandFields;
use pumice_protect::face::{CompareStream, FaceCommand, Operation, WriteStream, read};
use pumice_protect::format::{Format, IdentifyFields};

const BLOCKS: u64 = 3;

type Stored = (Vec<u8>, Vec<u8>, bool);

fn write(command: FaceCommand, sent: &[u8], cuts: &[usize]) -> Stored {
    let mut stream = WriteStream::new(command);
    let (mut data, mut metadata) = (Vec::new(), Vec::new());
    let mut from = 0;
    for to in cuts.iter().copied().chain([sent.len()]) {
        stream.take(&sent[from..to], &mut data, &mut metadata);
        from = to;
    }
    let whole = stream.finish().is_ok();
    (data, metadata, whole)
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
        0 => CommandFields { slba: fields.slba & 0xFFFF, dword14: fields.slba as u32 & 0xFFFF, ..fields },
        _ => fields,
    };
    let parse = |operation| FaceCommand::parse(&format, operation, &fields, BLOCKS);
    let (Ok(to_write), Ok(to_read), Ok(to_compare), Ok(to_verify)) = (
        parse(Operation::Write),
        parse(Operation::Read),
        parse(Operation::Compare),
        parse(Operation::Verify),
    ) else {
        return;
    };
    let mut bytes = Bytes::new(rest);
    let mut sent = vec![0; to_write.transfer_bytes() as usize];
    let given = bytes.take(sent.len());
    sent[..given.len()].copy_from_slice(given);
    let mut cuts: Vec<usize> = Vec::new();
    while let [low, high] = bytes.take(2)[..] {
        cuts.push(usize::from(u16::from_le_bytes([low, high])) % (sent.len() + 1));
    }
    cuts.sort_unstable();
    let whole = write(to_write, &sent, &[]);
    assert_eq!(write(to_write, &sent, &cuts), whole, "cut otherwise, stored otherwise");
    let (data, metadata, _) = whole;
    let mut out = vec![0; to_read.transfer_bytes() as usize];
    let given = read(&to_read, &data, &metadata, &mut out);
    assert_eq!(to_verify.verify(&data, &metadata), given, "a read checks what Verify checks");
    match given {
        Ok(()) => {
            // What was read compares as equal, cut or not.
            for cuts in [&[][..], &cuts] {
                let mut stream = CompareStream::new(to_compare, &data, &metadata);
                let mut from = 0;
                for to in cuts.iter().map(|cut| (*cut).min(out.len())).chain([out.len()]) {
                    stream.take(&out[from..to]);
                    from = to;
                }
                assert_eq!(stream.finish(), Ok(()));
            }
        }
        Err(failure) => {
            assert!(failure.block() < BLOCKS);
            assert!(out.iter().all(|byte| *byte == 0), "nothing of a bad block leaves");
        }
    }
});

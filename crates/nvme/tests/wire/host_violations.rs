//! Violations by a controller, and the words with which the host ends the connection.

use crate::pair::options;
use crate::world::{BOTH, PLAIN, framed};
use pumice_nvme::host::{Connection, Event};
use pumice_nvme::pdu::{C2hData, Fatal, IcResp, Kind, LAST, R2t, SUCCESS, Transfer, Violation, push};
use pumice_nvme::spec::{Cqe, Sqe, Status, opcode};
use std::convert::Infallible;

fn icresp() -> IcResp {
    IcResp { cpda: 0, digests: BOTH, maxh2cdata: 4096 }
}

fn response(cid: u16, status: Status) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, Kind::CapsuleResp, 0, &Cqe { result: 5, sqhd: 0, cid, status }.encode(), BOTH);
    out
}

/// C2HData of `len` bytes, whatever its header says.
fn data(transfer: Transfer, flags: u8, len: usize) -> Vec<u8> {
    framed(Kind::C2hData, flags, &transfer.body(), BOTH, &vec![9; len])
}

fn r2t(cccid: u16, offset: u32, len: u32) -> Vec<u8> {
    let mut out = Vec::new();
    R2t::push(&mut out, Transfer { cccid, ttag: 9, offset, len }, BOTH);
    out
}

/// A connected queue with a read (8 KiB) and a write (32 KiB) in flight, and their ids.
fn queue() -> (Connection, u16, u16) {
    let mut out = Vec::new();
    let mut host = Connection::new(options(1, 5, BOTH, true), &mut out);
    assert_eq!(out.len(), 128);
    assert!(!host.is_live());
    host.receive(&icresp().encode(), &mut out, |_| panic!("no event")).unwrap();
    let mut events = 0;
    host.receive(&response(0, Status::SUCCESS), &mut out, |_| events += 1).unwrap();
    assert!(host.is_live() && events == 1);
    let mut read = Sqe::new(opcode::io::READ, 1);
    read.set_blocks(0, 16);
    let read = host.submit_read(read, 8192, &mut out).unwrap();
    let mut write = Sqe::new(opcode::io::WRITE, 1);
    write.set_blocks(0, 64);
    let write = host.submit(write, &vec![3; 32 << 10], &mut out).unwrap();
    (host, read, write)
}

fn breaks(bytes: &[u8], expected: (Fatal, u32)) {
    let (mut host, read, _) = queue();
    let mut out = Vec::new();
    let violation = host.receive(bytes, &mut out, |_| {}).unwrap_err();
    assert_eq!((violation.fes, violation.fei), expected, "{violation}");
    // Behind what was sent before.
    while out[0] != 2 {
        let len = u32::from_le_bytes(out[4..8].try_into().unwrap());
        out.drain(..len as usize);
    }
    assert_eq!((out[0], Violation::decode(&out)), (2, (expected.0 as u16, expected.1)));
    assert!((25..=24 + 128).contains(&out.len()));
    assert!(!host.is_live() && host.room() == 0);
    assert!(host.submit(Sqe::new(0, 1), &[], &mut out).is_err());
    // What comes afterwards completes nothing.
    let mut events = 0;
    let _ = host.receive(&response(read, Status::SUCCESS), &mut Vec::new(), |_| events += 1);
    assert_eq!(events, 0, "silence");
}

#[test]
fn pdus_that_fit_no_command() {
    use Fatal::{DataOutOfRange, HeaderDigest, InvalidHeaderField, Sequence};
    let (_, r, w) = queue();
    let whole = Transfer { cccid: r, ttag: 0, offset: 0, len: 4096 };
    let mut bad_digest = r2t(w, 0, 4096);
    bad_digest[9] ^= 1;
    let digest = u32::from_le_bytes(bad_digest[24..28].try_into().unwrap());
    let cases: [(Vec<u8>, (Fatal, u32)); 19] = [
        (data(Transfer { cccid: 77, ..whole }, LAST, 4096), (InvalidHeaderField, 8)),
        (data(Transfer { cccid: w, ..whole }, LAST, 4096), (DataOutOfRange, 0)),
        (data(Transfer { offset: 4096, ..whole }, 0, 4096), (DataOutOfRange, 0)),
        (data(Transfer { len: 8196, ..whole }, 0, 8196), (DataOutOfRange, 0)),
        (data(Transfer { len: 8192, ..whole }, 0, 4096), (InvalidHeaderField, 16)),
        ([data(whole, 0, 4096), data(whole, 0, 4096)].concat(), (DataOutOfRange, 0)),
        (data(whole, SUCCESS, 4096), (InvalidHeaderField, 1)),
        (r2t(w, 0, 0), (InvalidHeaderField, 16)),
        (r2t(w, 4096, 4096), (DataOutOfRange, 0)),
        (r2t(w, 0, (32 << 10) + 4), (DataOutOfRange, 0)),
        (r2t(w, u32::MAX, u32::MAX), (DataOutOfRange, 0)),
        ([r2t(w, 0, 4096), r2t(w, 0, 4096)].concat(), (DataOutOfRange, 0)),
        (r2t(r, 0, 512), (DataOutOfRange, 0)),
        (r2t(77, 0, 512), (InvalidHeaderField, 8)),
        (bad_digest, (HeaderDigest, digest)),
        (response(77, Status::SUCCESS), (InvalidHeaderField, 20)),
        ([response(r, Status::SUCCESS), response(r, Status::SUCCESS)].concat(), (InvalidHeaderField, 20)),
        (icresp().encode().to_vec(), (Sequence, 0)),
        // A command, from a controller.
        (vec![4, 0, 72, 0, 72, 0, 0, 0], (InvalidHeaderField, 0)),
    ];
    for (bytes, expected) in cases {
        breaks(&bytes, expected);
    }
}

/// The reason is the controller's own, and the host sends nothing back.
#[test]
fn a_controller_that_ends_the_connection() {
    let all = [
        (1, Some(Fatal::InvalidHeaderField)),
        (3, Some(Fatal::HeaderDigest)),
        (4, Some(Fatal::DataOutOfRange)),
    ];
    for (number, fes) in all.into_iter().chain([(0, None), (7, None), (0xFFFF, None)]) {
        let (mut host, read, _) = queue();
        let mut term = Vec::new();
        Violation::new(Fatal::LimitExceeded, 0x0203_0405, &[1; 24], "").encode(false, &mut term);
        term[8..10].copy_from_slice(&u16::to_le_bytes(number));
        let mut out = Vec::new();
        let violation = host.receive(&term, &mut out, |_| panic!("no event")).unwrap_err();
        assert_eq!((violation.fes, violation.fei), (fes.unwrap_or(Fatal::Sequence), 0x0203_0405), "{number}");
        assert!(out.is_empty() && !host.is_live() && host.room() == 0);
        host.receive(&response(read, Status::SUCCESS), &mut out, |_| panic!("no event")).unwrap();
    }
    for number in 0..=7 {
        assert_eq!(Fatal::of(number).map(|fes| fes as u16), (1..=6).contains(&number).then_some(number));
    }
}

#[test]
fn a_read_that_succeeds_brings_all_its_data() {
    let half = |r| Transfer { cccid: r, ttag: 0, offset: 0, len: 4096 };
    // With half of it, or none at all, it fails; a failure may come with whatever it likes.
    for (success, flags, status) in [
        (true, LAST | SUCCESS, Status::DATA_TRANSFER_ERROR),
        (false, 0, Status::DATA_TRANSFER_ERROR),
        (false, 0, Status::READ_ERROR),
    ] {
        for with_data in [true, success] {
            let (mut host, r, _) = queue();
            let mut bytes = if with_data { data(half(r), flags, 4096) } else { Vec::new() };
            if !success {
                let said = if status == Status::READ_ERROR { status } else { Status::SUCCESS };
                bytes.extend(response(r, said));
            }
            let mut ended = None;
            host.receive(&bytes, &mut Vec::new(), |event| {
                if let Event::Completion(completion) = event {
                    ended = Some(completion.status);
                }
            })
            .unwrap();
            assert_eq!(ended, Some(status));
            assert!(host.is_live());
        }
    }
}

#[test]
fn data_come_and_go_in_parts() {
    let (mut host, r, w) = queue();
    let part = Transfer { cccid: r, ttag: 0, offset: 0, len: 4096 };
    let bytes = [data(part, 0, 4096), data(Transfer { offset: 4096, ..part }, LAST | SUCCESS, 4096)].concat();
    let (mut out, mut ended, mut brought) = (Vec::new(), Vec::new(), 0);
    let mut each = |event: Event<'_>| match event {
        Event::Data { data, .. } => brought += data.len(),
        Event::Completion(completion) => ended.push((completion.cid, completion.status)),
    };
    host.receive(&bytes, &mut out, &mut each).unwrap();
    // One R2T after the other, each answered by PDUs of at most maxh2cdata, LAST on its last.
    for start in [0, 16 << 10] {
        out.clear();
        host.receive(&r2t(w, start, 16 << 10), &mut out, &mut each).unwrap();
        let pdus: Vec<&[u8]> = out.chunks(24 + 4 + 4096 + 4).collect();
        assert_eq!(pdus.len(), 4);
        for (i, pdu) in pdus.iter().enumerate() {
            let transfer = Transfer::decode(pdu);
            let expected = Transfer { cccid: w, ttag: 9, offset: start + i as u32 * 4096, len: 4096 };
            assert_eq!((pdu[0], transfer), (6, expected));
            assert_eq!(pdu[1] & LAST != 0, i == 3);
        }
    }
    host.receive(&response(w, Status::SUCCESS), &mut out, &mut each).unwrap();
    assert_eq!((brought, ended), (8192, vec![(r, Status::SUCCESS), (w, Status::SUCCESS)]));
    assert_eq!(host.room(), 32);
}

#[test]
fn a_data_digest_fails_the_command_alone() {
    let (mut host, r, _) = queue();
    let mut bytes = data(Transfer { cccid: r, ttag: 0, offset: 0, len: 8192 }, LAST | SUCCESS, 8192);
    bytes[100] ^= 1;
    let mut ended = None;
    host.receive(&bytes, &mut Vec::new(), |event| {
        if let Event::Completion(completion) = event {
            ended = Some(completion.status);
        }
    })
    .unwrap();
    assert_eq!(ended, Some(Status::TRANSIENT_TRANSPORT));
    assert!(host.is_live());
}

#[test]
fn answers_to_icreq_that_cannot_be_used() {
    use Fatal::{InvalidHeaderField, Sequence, UnsupportedParameter};
    let with = |change: fn(&mut [u8; 128])| {
        let mut bytes = icresp().encode();
        change(&mut bytes);
        bytes.to_vec()
    };
    let cases: [(Vec<u8>, (Fatal, u32)); 10] = [
        (with(|b| b[8] = 1), (InvalidHeaderField, 8)),
        (with(|b| b[10] = 32), (InvalidHeaderField, 10)),
        (with(|b| b[10] = 1), (UnsupportedParameter, 10)),
        (with(|b| b[11] = 0), (UnsupportedParameter, 11)),
        (with(|b| b[13] = 0x0F), (InvalidHeaderField, 12)),
        (with(|b| b[12] = 2), (InvalidHeaderField, 12)),
        (with(|b| b[1] = 1), (InvalidHeaderField, 1)),
        (with(|b| b[2] = 24), (InvalidHeaderField, 2)),
        (with(|b| b[4] = 0), (InvalidHeaderField, 4)),
        (response(0, Status::SUCCESS)[..24].to_vec(), (InvalidHeaderField, 1)),
    ];
    for (bytes, expected) in cases {
        let mut out = Vec::new();
        let mut host = Connection::new(options(0, 0xFFFF, BOTH, true), &mut out);
        out.clear();
        let violation = host.receive(&bytes, &mut out, |_| panic!("no event")).unwrap_err();
        assert!(!host.is_live() && out[0] == 2);
        if bytes[0] == 1 {
            assert_eq!((violation.fes, violation.fei), expected, "{violation}");
        }
    }
    let mut host = Connection::new(options(0, 0xFFFF, BOTH, true), &mut Vec::new());
    let mut early = Vec::new();
    push(&mut early, Kind::CapsuleResp, 0, &[0; 16], PLAIN);
    let violation = host.receive(&early, &mut Vec::new(), |_| panic!("no event")).unwrap_err();
    assert_eq!((violation.fes, violation.fei), (Sequence, 0));
    // Data before Connect is answered.
    let mut host = Connection::new(options(0, 0xFFFF, BOTH, true), &mut Vec::new());
    host.receive(&icresp().encode(), &mut Vec::new(), |_| {}).unwrap();
    let early = data(Transfer { cccid: 0, ttag: 0, offset: 0, len: 4 }, LAST, 4);
    let violation = host.receive(&early, &mut Vec::new(), |_| panic!("no event")).unwrap_err();
    assert_eq!((violation.fes, violation.fei), (Sequence, 0));
}

#[test]
fn every_truncation_waits() {
    let (_, r, w) = queue();
    let mut read = Vec::new();
    let Ok(()) = C2hData::push(&mut read, r, 8192, true, BOTH, |_| Ok::<(), Infallible>(()));
    for bytes in [read, r2t(w, 0, 4096), response(w, Status::SUCCESS)] {
        for len in (0..bytes.len()).filter(|len| *len < 40 || len % 97 == 0 || len + 5 > bytes.len()) {
            let (mut host, ..) = queue();
            let (mut out, mut events) = (Vec::new(), 0);
            let (consumed, needed) = host.receive(&bytes[..len], &mut out, |_| events += 1).unwrap();
            assert_eq!((consumed, events, out.len()), (0, 0, 0), "{len} of {}", bytes.len());
            // The header with its digest, before its lengths are believed.
            let header = usize::from(bytes[2]) + 4;
            assert_eq!(needed, [8, header, bytes.len()].into_iter().find(|end| len < *end).unwrap());
            let (consumed, _) = host.receive(&bytes, &mut out, |_| events += 1).unwrap();
            assert_eq!(consumed, bytes.len());
            assert!(events + out.len() > 0);
        }
    }
}

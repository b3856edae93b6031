//! Bytes that other implementations send, field by field.

use crate::world::BOTH;
use pumice_nvme::pdu::{
    C2hData, Digests, Fatal, H2cData, IcReq, IcResp, Kind, R2t, Transfer, Violation, push,
};
use pumice_nvme::spec::connect::{Data, Fields};
use pumice_nvme::spec::{Cqe, Sgl, Sqe, Status};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b' ').collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn initialize_connection() {
    let request = IcReq { hpda: 0, digests: BOTH, maxr2t: 0 }.encode();
    assert_eq!(request[..16], hex("00 00 80 00 80000000 0000 00 03 00000000"));
    assert!(request[16..].iter().all(|b| *b == 0));
    assert_eq!(IcReq::decode(&request).unwrap(), IcReq { hpda: 0, digests: BOTH, maxr2t: 0 });
    let response = IcResp { cpda: 0, digests: BOTH, maxh2cdata: 131_072 }.encode();
    assert_eq!(response[..16], hex("01 00 80 00 80000000 0000 00 03 00000200"));
    assert_eq!(IcResp::decode(&response).unwrap().maxh2cdata, 131_072);
}

#[test]
fn connect_and_read_capsules() {
    let mut sqe = Sqe::new(0x7F, 0);
    sqe.0[4] = 1;
    sqe.set_sgl(Sgl::in_capsule(1024));
    Fields { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 5000 }.encode(&mut sqe);
    assert_eq!(
        sqe.0.to_vec(),
        hex(
            "7f40000001000000 00000000000000000000000000000000 0000000000000000 00040000 000000 01 0000 0000 1f00 00 00 88130000 000000000000000000000000"
        )
    );
    assert_eq!(Fields::decode(&sqe).kato_ms, 5000);

    let mut read = Sqe::new(2, 1);
    read.set_cid(0x2001);
    read.set_blocks(0x1_0000_0000, 8);
    read.set_sgl(Sgl::transport(4096));
    let mut pdu = Vec::new();
    push(&mut pdu, Kind::CapsuleCmd, 0, &read.0, Digests::default());
    assert_eq!(
        pdu,
        hex(
            "04004800480000000240012001000000 00000000000000000000000000000000 0000000000000000 00100000 0000005a 0000000001000000 07000000 000000000000000000000000"
        )
    );
    assert_eq!((read.slba(), read.blocks(), read.cid()), (0x1_0000_0000, 8, 0x2001));
}

#[test]
fn data_and_requests_for_it() {
    let mut pdu = Vec::new();
    let Ok(()) = C2hData::push(&mut pdu, 0x1234, 4096, true, BOTH, |to| {
        to.fill(0);
        Ok::<(), std::convert::Infallible>(())
    });
    assert_eq!(pdu[..28], hex("070f181c20100000 3412 0000 00000000 00100000 00000000 338eaf78"));
    assert_eq!(pdu[28 + 4096..], hex("8941f998"));

    let header = Digests { header: true, data: false };
    let transfer = Transfer { cccid: 0x1234, ttag: 1, offset: 0, len: 131_072 };
    let mut pdu = Vec::new();
    R2t::push(&mut pdu, transfer, header);
    assert_eq!(pdu, hex("090118001c000000 3412 0100 00000000 00000200 00000000 9f70b973"));

    let mut pdu = Vec::new();
    H2cData::push(&mut pdu, transfer, true, &vec![0; 131_072], Digests::default());
    assert_eq!(pdu[..24], hex("0604181818000200 3412 0100 00000000 00000200 00000000"));
    assert_eq!(Transfer::decode(&pdu), transfer);
}

#[test]
fn completions_and_term_requests() {
    let cqe = Cqe { result: 1, sqhd: 1, cid: 0x1234, status: Status::SUCCESS };
    let mut pdu = Vec::new();
    push(&mut pdu, Kind::CapsuleResp, 0, &cqe.encode(), Digests::default());
    assert_eq!(pdu, hex("0500180018000000 01000000 00000000 0100 0000 3412 0000"));
    assert_eq!(Cqe::decode(&pdu[8..]), cqe);
    // Guard error, not to be tried again; invalid field, the same.
    assert_eq!(Status(0x282).dnr().word().to_le_bytes(), [0x04, 0x85]);
    assert_eq!(Status::INVALID_FIELD.dnr().word().to_le_bytes(), [0x04, 0x80]);

    let violation = Violation::new(Fatal::InvalidHeaderField, 2, &[0xAB; 24], "hlen");
    let mut pdu = Vec::new();
    violation.encode(false, &mut pdu);
    assert_eq!(pdu[..24], hex("0300180030000000 0100 02000000 00000000000000000000"));
    assert_eq!(pdu[24..], [0xAB; 24]);
}

#[test]
fn connect_data() {
    let data = Data {
        hostid: [7; 16],
        cntlid: 0xFFFF,
        subnqn: "nqn.2026-01.example:data-node-1".to_owned(),
        hostnqn: "nqn.2026-01.example:h".to_owned(),
    };
    let bytes = data.encode();
    assert_eq!((bytes[0], &bytes[16..18], bytes[256], bytes[512]), (7, &[0xFF, 0xFF][..], b'n', b'n'));
    assert_eq!(Data::decode(&bytes), Ok(data));
    let mut endless = bytes;
    endless[512..768].fill(b'x');
    assert_eq!(Data::decode(&endless), Err(512));
}

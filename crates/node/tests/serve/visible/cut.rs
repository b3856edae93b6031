//! A write that is cut into PDUs anywhere.

use super::*;
use crate::world::PATIENCE;
use pumice_nvme::host::{Connection, Event, Options};
use pumice_nvme::pdu::{Digests, H2cData, Kind, Transfer, push, push_with_data};
use pumice_nvme::spec::connect::Data;
use pumice_nvme::spec::{Cqe, Sgl};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;

const PLAIN: Digests = Digests { header: false, data: false };
/// 4 KiB.
const COUNT: u64 = 8;

/// An I/O queue of which every byte is in the hands of the test.
struct Raw(TcpStream);

impl Raw {
    fn connect(server: &Server, controller: &Controller, qid: u16) -> Self {
        let named = named(server, "both");
        let data = Data {
            hostid: named.hostid,
            cntlid: controller.identity().cntlid,
            subnqn: named.subsystem.as_str().to_owned(),
            hostnqn: named.host.as_str().to_owned(),
        };
        let options =
            Options { qid, depth: 8, digests: PLAIN, flow_control: true, kato_ms: 0, data, capsule_data: 0 };
        let mut out = Vec::new();
        let mut host = Connection::new(options, &mut out);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut pending, mut connected) = (Vec::new(), false);
        while !connected {
            stream.write_all(&out).unwrap();
            out.clear();
            let mut buffer = [0; 4096];
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "closed");
            pending.extend_from_slice(&buffer[..n]);
            let event = |event: Event<'_>| {
                if let Event::Completion(done) = event {
                    assert!(done.status.is_success(), "{}", done.status);
                    connected = true;
                }
            };
            let (consumed, _) = host.receive(&pending, &mut out, event).unwrap();
            pending.drain(..consumed);
        }
        Self(stream)
    }

    /// A PDU without data.
    fn pdu(&mut self) -> [u8; 24] {
        let mut pdu = [0; 24];
        self.0.read_exact(&mut pdu).unwrap();
        pdu
    }

    fn completion(&mut self) -> Status {
        let pdu = self.pdu();
        assert_eq!(pdu[0], Kind::CapsuleResp as u8);
        Cqe::decode(&pdu[8..]).status
    }

    /// Sends a command whose data are in PDUs that end at `cuts`.
    fn write(&mut self, mut sqe: Sqe, bytes: &[u8], cuts: &[usize]) -> Status {
        sqe.set_cid(5);
        sqe.set_sgl(Sgl::transport(bytes.len() as u32));
        let mut out = Vec::new();
        push(&mut out, Kind::CapsuleCmd, 0, &sqe.0, PLAIN);
        self.0.write_all(&out).unwrap();
        let pdu = self.pdu();
        if pdu[0] == Kind::CapsuleResp as u8 {
            return Cqe::decode(&pdu[8..]).status;
        }
        assert_eq!(pdu[0], Kind::R2t as u8);
        let asked = Transfer::decode(&pdu);
        assert_eq!((asked.offset, asked.len as usize), (0, bytes.len()), "data and metadata are asked for");
        let mut from = 0;
        for to in cuts.iter().copied().chain([bytes.len()]) {
            out.clear();
            let transfer = Transfer { offset: from as u32, len: (to - from) as u32, ..asked };
            H2cData::push(&mut out, transfer, to == bytes.len(), &bytes[from..to], PLAIN);
            self.0.write_all(&out).unwrap();
            from = to;
        }
        self.completion()
    }

    /// Sends a command whose data are in its capsule, and cuts the stream behind so many bytes.
    fn write_in_capsule(&mut self, mut sqe: Sqe, bytes: &[u8], cut: usize) -> Status {
        sqe.set_cid(6);
        sqe.set_sgl(Sgl::in_capsule(bytes.len() as u32));
        let mut out = Vec::new();
        let Ok(()) = push_with_data(&mut out, Kind::CapsuleCmd, 0, &sqe.0, PLAIN, bytes.len(), |to| {
            to.copy_from_slice(bytes);
            Ok::<(), Infallible>(())
        });
        let (begin, rest) = out.split_at(cut);
        self.0.write_all(begin).unwrap();
        self.0.write_all(rest).unwrap();
        self.completion()
    }
}

/// One write of 4 KiB in blocks of 512+8, cut at every byte: in PDUs with data, and in its capsule.
/// Block after block is wrong, too: then nothing of the write is stored.
#[test]
fn every_split_of_a_write_stores_the_same() {
    let plain = plain(512, 8, Guard::Crc16, 1);
    let (server, controller, mut queue) = serve_both(drive(&plain, "1MiB"));
    let mut raw = Raw::connect(&server, &controller, 2);
    let variants: Vec<Vec<u8>> = (0..2).map(|seed| made(&plain, COUNT, 70 + seed)).collect();
    let all = [true; 4];
    let of = |code: u8, act: bool| command(&plain, code, FIRST, COUNT, all, act);
    let len = variants[0].len();
    assert_eq!(len, 4160);
    let holds = |queue: &mut Queue, expected: &[u8], what: &str| {
        assert!(as_stored(queue, &plain, FIRST, COUNT) == expected, "{what}");
    };
    // Each writes over the other, so what is there is of this write.
    let mut stored = &variants[1];
    assert_eq!(send(&mut queue, of(io::WRITE, false), stored), Status::SUCCESS);
    for cut in 1..len {
        let good = &variants[cut % 2];
        assert_eq!(raw.write(of(io::WRITE, false), good, &[cut]), Status::SUCCESS, "cut at {cut}");
        holds(&mut queue, good, &format!("cut at {cut}"));
        stored = good;
        if cut % 7 == 0 {
            let bad = cut as u64 % COUNT;
            let other = &variants[(cut + 1) % 2];
            for (wrong, status) in [
                (Wrong::Data, Status::GUARD_CHECK),
                (Wrong::Application, Status::APPLICATION_TAG_CHECK),
                (Wrong::Reference, Status::REFERENCE_TAG_CHECK),
            ] {
                let spoiled = spoil(&plain, other, bad, wrong);
                let done = raw.write(of(io::WRITE, false), &spoiled, &[cut]);
                assert_eq!(done, status.dnr(), "cut at {cut}");
            }
            holds(&mut queue, stored, &format!("nothing of a bad write, cut at {cut}"));
        }
    }
    // In three, and in as many as there are bytes.
    for (first, second) in (0..400).map(|i| (1 + i * 5, 2080 + i * 5)) {
        let good = &variants[first % 2];
        assert_eq!(raw.write(of(io::WRITE, false), good, &[first, second]), Status::SUCCESS);
        holds(&mut queue, good, "in three");
    }
    let each: Vec<usize> = (1..len).collect();
    assert_eq!(raw.write(of(io::WRITE, false), &variants[1], &each), Status::SUCCESS);
    holds(&mut queue, &variants[1], "byte by byte");
    assert_eq!(raw.write(of(io::COMPARE, false), &variants[1], &each), Status::SUCCESS);
    let done = raw.write(of(io::COMPARE, false), &variants[0], &each);
    assert_eq!(done, Status::COMPARE_FAILURE.dnr());
    for cut in (1..72 + len).step_by(11) {
        let good = &variants[cut % 2];
        assert_eq!(raw.write_in_capsule(of(io::WRITE, false), good, cut), Status::SUCCESS);
        holds(&mut queue, good, &format!("in its capsule, cut at {cut}"));
    }
    let spoiled = spoil(&plain, &variants[0], 5, Wrong::Guard);
    let before = as_stored(&mut queue, &plain, FIRST, COUNT);
    assert_eq!(raw.write_in_capsule(of(io::WRITE, false), &spoiled, 99), Status::GUARD_CHECK.dnr());
    holds(&mut queue, &before, "nothing of a bad write in its capsule");
    // Without tuples, which the node makes.
    for cut in (1..4096).step_by(13) {
        let good = &variants[cut % 2];
        assert_eq!(raw.write(of(io::WRITE, true), &data_of(&plain, good), &[cut]), Status::SUCCESS);
        holds(&mut queue, good, &format!("made tuples, cut at {cut}"));
    }
}

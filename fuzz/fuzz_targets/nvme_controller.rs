//! Any bytes on a connection: from its first byte, or on an admin queue, or on an I/O queue that
//! stand.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_nvme::controller::{
    Access, Attached, Attachments, Connection, Identity, Limits, Media, Request, Submitted, Subsystem,
};
use pumice_nvme::host::{Connection as Host, Options};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::connect::{DYNAMIC, Data};
use pumice_nvme::spec::identify::Namespace;
use pumice_nvme::spec::{Sqe, Status, opcode};
use pumice_protect::block_format::BlockFormat;
use pumice_protect::format::{Format, Place, Type};
use pumice_protect::guard::Guard;
use std::cell::RefCell;

struct Shared(RefCell<Subsystem>);

impl Access for Shared {
    fn with<R>(&self, f: impl FnOnce(&mut Subsystem) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }
}

/// A drive of 64 blocks; every other request is answered later.
struct Drive {
    content: Vec<u8>,
    waiting: Vec<(u16, u64)>,
    count: usize,
}

impl Media for Drive {
    fn read_now(&mut self, _: u32, offset: u64, into: &mut [u8]) -> Status {
        into.copy_from_slice(&self.content[offset as usize..][..into.len()]);
        Status::SUCCESS
    }

    fn is_immediate(&self, _: u32) -> bool {
        self.count % 2 == 0
    }

    fn submit(&mut self, request: &Request<'_>) -> Submitted {
        self.count += 1;
        if request.len != 0 && request.nsid == 1 && request.command.opcode() < 0x80 {
            assert!(request.offset + request.len <= self.content.len() as u64 || request.offset == 0);
        }
        // What a vendor command names is not looked at here.
        assert!(request.nsid != 3 || request.command.opcode() >= 0x80, "it is attached to nobody");
        if let Some(face) = request.face {
            assert!(request.nsid == 2 && request.len <= self.content.len() as u64);
            assert!(request.data.is_empty() || request.data.len() as u64 == face.transfer_bytes());
        }
        if self.count % 2 == 0 {
            return Submitted::Done(Status::SUCCESS);
        }
        self.waiting.push((request.slot, request.len));
        Submitted::Later
    }
}

/// Brings a queue up, and returns the connection and the controller's id.
fn connect(shared: &Shared, drive: &mut Drive, limits: Limits, qid: u16, cntlid: u16) -> (Connection, u16) {
    let options = Options {
        qid,
        depth: 8,
        digests: Digests::default(),
        flow_control: true,
        kato_ms: 0,
        data: Data {
            hostid: [1; 16],
            cntlid,
            subnqn: "nqn.2026-11.example:subsystem".to_owned(),
            hostnqn: "nqn.2026-11.example:host".to_owned(),
        },
        capsule_data: 4096,
    };
    let (mut bytes, mut out, mut id) = (Vec::new(), Vec::new(), cntlid);
    let mut host = Host::new(options, &mut bytes);
    let mut connection = Connection::new(limits, "192.0.2.1:4420".parse().unwrap(), 0);
    for round in 0..3 {
        connection.receive(0, &bytes, shared, drive, &mut out);
        bytes.clear();
        host.receive(&out, &mut bytes, |event| {
            if let (0, pumice_nvme::host::Event::Completion(done)) = (qid, event) {
                id = if round == 1 { done.result as u16 } else { id };
            }
        })
        .unwrap();
        out.clear();
        if round == 1 && qid == 0 {
            let mut enable = Sqe::new(opcode::FABRICS, 0);
            enable.0[4] = opcode::fabrics::PROPERTY_SET;
            enable.set_dword(11, 0x14);
            enable.set_dword(12, 0x0046_0001);
            host.submit(enable, &[], &mut bytes).unwrap();
        }
    }
    (connection, id)
}

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else { return };
    let limits = Limits {
        queue_depth: 16,
        capsule_data: 4096,
        maxh2cdata: 8192,
        write_window: 65_536,
        ..Limits::default()
    };
    let namespace = Namespace {
        blocks: 64,
        format: BlockFormat::SMALLEST,
        nguid: [1; 16],
        uuid: [2; 16],
        read_only: false,
        write_grain: 8,
        deallocate_grain: 8,
    };
    let identity = Identity {
        nqn: "nqn.2026-11.example:subsystem".parse().unwrap(),
        serial: "1".to_owned(),
        model: "Pumice".to_owned(),
        firmware: "1".to_owned(),
    };
    let kind = [Type::One, Type::Two, Type::Three][usize::from(mode / 3 % 3)];
    let format = Format::new(512, 8, Guard::Crc16, kind, Place::Last).unwrap();
    let visible = Namespace { nguid: [3; 16], format: BlockFormat::protected(format), ..namespace };
    let mut subsystem = Subsystem::new(identity, limits, vec![namespace, visible, namespace]);
    subsystem.set_attachments(Attachments::new(|_| Attached::new([true, true, false])));
    let shared = Shared(RefCell::new(subsystem));
    let mut drive = Drive { content: vec![0; 64 * 512], waiting: Vec::new(), count: 0 };
    let mut admin = None;
    let mut connection = match mode % 3 {
        0 => Connection::new(limits, "192.0.2.1:4420".parse().unwrap(), 0),
        which => {
            let (first, cntlid) = connect(&shared, &mut drive, limits, 0, DYNAMIC);
            if which == 1 {
                first
            } else {
                admin = Some(first);
                connect(&shared, &mut drive, limits, 1, cntlid).0
            }
        }
    };
    let mut out = Vec::new();
    let mut kept: Vec<u8> = Vec::new();
    for (now, part) in bytes.chunks(97).enumerate() {
        kept.extend_from_slice(part);
        let received = connection.receive(now as u64, &kept, &shared, &mut drive, &mut out);
        kept.drain(..received.consumed);
        while let Some((slot, len)) = drive.waiting.pop() {
            if len % 3 == 0 {
                connection.complete(slot, Status::READ_ERROR, 0, &shared, &mut out);
            } else {
                connection.complete_with(slot, Ok(&vec![0; len.min(4096) as usize]), &shared, &mut out);
            }
        }
        assert!(out.len() <= 64 << 20, "bounded");
        out.clear();
    }
    connection.closed(&shared);
    drop(admin);
});

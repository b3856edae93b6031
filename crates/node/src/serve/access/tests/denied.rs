//! A host that lacks a right, at a real server.

use super::*;
use crate::NodeOptions;
use crate::serve::shared::Gate;
use crate::serve::{Drive, Server, Service};
use pumice_blockdev::{BlockDevice, MemoryDevice};
use pumice_nvme::controller::Limits;
use pumice_nvme::host::Options;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::command::Direction;
use pumice_nvme::spec::connect::{DYNAMIC, Data};
use pumice_nvme::spec::opcode::{admin, fabrics, io};
use pumice_nvme::spec::property::{cc, csts, offset};
use pumice_offload::PaceRequest;
use pumice_remote::initiator::{InitiatorError, Queue};
use pumice_remote::transport::Plain;
use std::sync::Arc;
use std::time::Duration;

const NODE: &str = "nqn.2026-11.example:node";
const HOST: &str = "nqn.2026-11.example:host";
const BYTES: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on which `HOST` has this row, and its drive.
fn serve(granted: Granted) -> (Server, Arc<MemoryDevice>) {
    let content = (0..BYTES).map(|i| (i % 251) as u8).collect();
    let device = Arc::new(MemoryDevice::with_content("m", content));
    let mut access = HostTable::of_faces(HostFaces::default());
    access.grant(HOST, granted);
    let gate = Gate { access: Arc::new(access), transport: Arc::new(Plain) };
    let service = Service {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        nqn: NODE.parse().unwrap(),
        instance: None,
        drives: vec![Drive::with_device(device.clone(), 512, "m").unwrap()],
        faces: HostFaces::default(),
        limits: Limits::default(),
        cores: 1,
        busy_poll: Duration::ZERO,
        node: NodeOptions { memory_bytes: 1 << 20, ..NodeOptions::default() },
        peers: Vec::new(),
        pacing: PaceRequest::default(),
        metrics: None,
    };
    (Server::start_with(gate, service).unwrap(), device)
}

/// A queue of a host.
fn queue(server: &Server, nqn: &str, qid: u16, cntlid: u16) -> Result<(Queue, u16), InitiatorError> {
    let data =
        Data { hostid: [nqn.len() as u8; 16], cntlid, subnqn: NODE.to_owned(), hostnqn: nqn.to_owned() };
    let digests = Digests::default();
    let options =
        Options { qid, depth: 16, digests, flow_control: true, kato_ms: 0, data, capsule_data: 8192 };
    Queue::connect(server.address(), options, PATIENCE)
}

fn property(kind: u8, offset: u32, value: u32) -> Sqe {
    let mut sqe = Sqe::new(FABRICS, 0);
    sqe.0[4] = kind;
    sqe.set_dword(11, offset);
    sqe.set_dword(12, value);
    sqe
}

/// An enabled controller: its admin queue, and an I/O queue.
fn enabled(server: &Server, nqn: &str) -> Result<(Queue, Queue), InitiatorError> {
    let (mut admin, cntlid) = queue(server, nqn, 0, DYNAMIC)?;
    let value = cc::ENABLE | cc::ENTRY_SIZES_64_16;
    assert!(
        admin.execute(property(fabrics::PROPERTY_SET, offset::CC, value), &[], &mut [])?.status.is_success()
    );
    loop {
        let done = admin.execute(property(fabrics::PROPERTY_GET, offset::CSTS, 0), &[], &mut [])?;
        if done.result as u32 & csts::READY != 0 {
            break;
        }
    }
    let io = queue(server, nqn, 1, cntlid)?.0;
    Ok((admin, io))
}

/// Sends a command with what it needs to be carried out, or to be refused for its own sake.
fn send(queue: &mut Queue, command: &Listed) -> Status {
    let mut sqe = command.sqe();
    let mut room = vec![0; 4096];
    let data = vec![0xEE; if sqe.opcode() == io::DATASET_MANAGEMENT { 16 } else { 512 }];
    if command.set == "Parity" && sqe.opcode() != opcode::HOLD {
        sqe.set_dword(12, 512);
    }
    let direction = Direction::of(sqe.opcode());
    let (to, from): (&[u8], &mut [u8]) = match direction {
        Direction::ToController => (&data, &mut []),
        Direction::ToHost if command.set == "Admin" => (&[], &mut room),
        Direction::ToHost => (&[], &mut room[..512]),
        _ => (&[], &mut []),
    };
    queue.execute(sqe, to, from).unwrap().status
}

/// For each right: a host that lacks it gets no command through that asks for it, and nothing
/// happens; every other command goes on as before.
#[test]
fn a_command_of_a_host_that_lacks_its_right_is_refused_and_nothing_happens() {
    for right in Right::ALL.into_iter().filter(|right| *right != Right::Connect) {
        let rights = Rights::ALL.without(right);
        let (server, device) = serve(Granted::with_faces(Faces::default()).with_rights(rights));
        let (mut admin, mut io) = enabled(&server, HOST).unwrap();
        let content = || {
            let mut all = vec![0; BYTES];
            device.read_at(0, &mut all).map(|()| all).map_err(|error| error.to_string())
        };
        let mut denied = 0;
        for command in every_command().iter().filter(|command| command.set != "Fabrics") {
            let lacks = command.asked().has(right);
            if command.opcode == admin::ASYNC_EVENT && command.on == On::Admin && !lacks {
                // It waits for an event.
                continue;
            }
            let (before, on) = (content(), command.on);
            let status = send(if on == On::Admin { &mut admin } else { &mut io }, command);
            let refusal = if on == On::Admin { Status::OPERATION_DENIED } else { Status::ACCESS_DENIED };
            assert_eq!(status == refusal.dnr(), lacks, "{right:?}: {command:?}: {status}");
            if lacks {
                denied += 1;
                assert!(content() == before, "{right:?}: {command:?} has changed the drive");
            }
        }
        assert!(denied > 0, "{right:?}");
        let other = enabled(&server, "nqn.2026-11.example:other");
        let held = rights.has(Right::Hold);
        assert_eq!(other.is_err(), held, "{right:?}: nobody is kept away by a hold that was denied");
    }
}

/// Its data are not even asked for.
#[test]
fn data_of_a_write_that_is_denied_stay_with_the_host() {
    let rights = Rights::ALL.without(Right::Write);
    let (server, _) = serve(Granted::with_faces(Faces::default()).with_rights(rights));
    let (_admin, mut io) = enabled(&server, HOST).unwrap();
    let before = io.traffic().bytes;
    let mut write = Sqe::new(io::WRITE, 1);
    write.set_blocks(0, 1024);
    let status = io.execute(write, &vec![1; 512 << 10], &mut []).unwrap().status;
    assert_eq!(status, Status::ACCESS_DENIED.dnr());
    assert!(io.traffic().bytes - before < 4096);
}

#[test]
fn a_host_that_may_not_connect_does_not() {
    let rights = Rights::ALL.without(Right::Connect);
    let (server, _) = serve(Granted::with_faces(Faces::default()).with_rights(rights));
    let error = queue(&server, HOST, 0, DYNAMIC).map(drop).unwrap_err();
    let InitiatorError::Refused { what: "Connect", status, .. } = error else { panic!("{error}") };
    assert_eq!(status, Status::CONNECT_HOST.dnr());
    assert!(enabled(&server, "nqn.2026-11.example:other").is_ok());
}

/// No namespace is attached to it, and no command that reads or changes a drive is allowed.
#[test]
fn a_host_that_sees_nothing_reads_and_changes_nothing() {
    let (server, _) = serve(Granted::with_faces(Faces::NONE));
    let (mut admin, mut io) = enabled(&server, HOST).unwrap();
    let mut list = Sqe::new(admin::IDENTIFY, 0);
    list.0[40] = 2;
    let mut page = vec![1; 4096];
    assert!(admin.execute(list, &[], &mut page).unwrap().status.is_success());
    assert!(page.iter().all(|byte| *byte == 0));
    for command in every_command().iter().filter(|command| command.on == On::Io && command.set != "Fabrics") {
        let allowed = ["connect", "admin"].contains(&names(command.asked()).as_str());
        assert_eq!(send(&mut io, command) != Status::ACCESS_DENIED.dnr(), allowed, "{command:?}");
    }
}

//! Dataset Management: only what is to be deallocated is, and an empty range harms nobody.

use pumice_initiator::{ConnectOptions, Controller, Queue};
use pumice_node::NodeOptions;
use pumice_node::serve::{Backend, Drive, Server, Service};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_nvme::target::Limits;
use std::time::Duration;

fn manage(queue: &mut Queue, attributes: u32, first: u64, blocks: u32) -> Status {
    let mut list = vec![0; 16];
    list[4..8].copy_from_slice(&blocks.to_le_bytes());
    list[8..].copy_from_slice(&first.to_le_bytes());
    let mut sqe = Sqe::new(io::DATASET_MANAGEMENT, 1);
    sqe.set_dword(11, attributes);
    queue.execute(sqe, &list, &mut []).unwrap().status
}

fn read(queue: &mut Queue) -> Vec<u8> {
    let mut sqe = Sqe::new(io::READ, 1);
    sqe.set_blocks(0, 8);
    let mut out = vec![0; 4096];
    assert!(queue.execute(sqe, &[], &mut out).unwrap().status.is_success());
    out
}

#[test]
fn hints_and_empty_ranges_change_nothing() {
    let server = Server::start(Service {
        address: "127.0.0.1:0".parse().unwrap(),
        nqn: "nqn.2026-11.example:node".parse().unwrap(),
        drives: vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()],
        limits: Limits::default(),
        cores: 1,
        node: NodeOptions { memory_bytes: 4096, ..NodeOptions::default() },
        peers: Vec::new(),
        pacing: pumice_offload::PaceRequest::default(),
    })
    .unwrap();
    let options = ConnectOptions {
        subsystem: server.nqn().clone(),
        host: "nqn.2026-11.example:host".parse().unwrap(),
        hostid: [3; 16],
        digests: Digests::default(),
        flow_control: true,
        deadline: Duration::from_secs(20),
    };
    let controller = Controller::connect(server.address(), options).unwrap();
    let mut queue = controller.queue(1, 8).unwrap();
    let mut sqe = Sqe::new(io::WRITE, 1);
    sqe.set_blocks(0, 8);
    assert!(queue.execute(sqe, &[7; 4096], &mut []).unwrap().status.is_success());
    // Will be read, will be written: hints. Deallocate nothing, more often than there are threads.
    for (attributes, blocks) in [(1, 8), (2, 8), (0, 8), (4, 0), (4, 0), (4, 0)] {
        assert_eq!(manage(&mut queue, attributes, 0, blocks), Status::SUCCESS);
        assert!(read(&mut queue).iter().all(|b| *b == 7), "attributes {attributes}, {blocks} blocks");
    }
    assert_eq!(manage(&mut queue, 4, 2, 3), Status::SUCCESS);
    let content = read(&mut queue);
    assert!(content[1024..2560].iter().all(|b| *b == 0), "these were deallocated");
    assert!(content[..1024].iter().chain(&content[2560..]).all(|b| *b == 7), "and no others");
}

//! Hosts that have to prove their names, at a real server: our own hosts, and a host of its own in
//! Python (`client.py`), which knows the pages and nothing of this code.

mod python;

use pumice_blockdev::MemoryDevice;
use pumice_node::NodeOptions;
use pumice_node::serve::{Drive, HostFaces, KeyLookup, KeyTable, NoKeys, Server, Service};
use pumice_nvme::auth::credentials::Credentials;
use pumice_nvme::auth::group::{Ffdhe, Group};
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::controller::{HostKeys, Limits};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{DISCOVERY_NQN, Sqe};
use pumice_offload::PaceRequest;
use pumice_remote::initiator::{ConnectOptions, Controller, InitiatorError, OwnKeys, ProofError, discover};
use pumice_remote::transport::Plain;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NODE: &str = "nqn.2026-11.example:node";
const HOST: &str = "nqn.2026-11.example:host";

fn key(byte: u8) -> ChapKey {
    ChapKey::new(Some(Hash::Sha384), &[byte; 48]).unwrap()
}

fn groups() -> Policy {
    let groups = [Group::Ffdhe(Ffdhe::F3072), Group::Ffdhe(Ffdhe::F2048), Group::Null];
    Policy::new(&Hash::ALL, &groups).unwrap()
}

/// The host keys and the controller keys of `HOST`.
#[derive(Debug)]
struct Table(Mutex<(Vec<ChapKey>, Vec<ChapKey>)>);

impl Table {
    fn new(host: &[ChapKey], controller: &[ChapKey]) -> Arc<Self> {
        Arc::new(Self(Mutex::new((host.to_vec(), controller.to_vec()))))
    }

    fn set(&self, host: &[ChapKey], controller: &[ChapKey]) {
        *self.0.lock().unwrap() = (host.to_vec(), controller.to_vec());
    }
}

impl KeyLookup for Table {
    fn keys(&self, host: &str, subsystem: &str) -> Option<HostKeys> {
        let (own, controller) = &*self.0.lock().unwrap();
        if host != HOST || own.is_empty() {
            return None;
        }
        let (host, subsystem) = (host.parse().unwrap(), subsystem.parse().unwrap());
        let credentials = Credentials::new(host, subsystem, own, controller).unwrap();
        Some(HostKeys { credentials: Arc::new(credentials), policy: Arc::new(groups()) })
    }
}

fn serve(keys: Arc<dyn KeyLookup>) -> Server {
    let device = Arc::new(MemoryDevice::with_content("m", vec![7; 1 << 20]));
    let service = Service {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        nqn: NODE.parse().unwrap(),
        instance: None,
        drives: vec![Drive::with_device(device, 512, "m").unwrap()],
        faces: HostFaces::default(),
        limits: Limits::default(),
        cores: 2,
        busy_poll: Duration::ZERO,
        node: NodeOptions { memory_bytes: 4096, ..NodeOptions::default() },
        peers: Vec::new(),
        pacing: PaceRequest::default(),
        metrics: None,
    };
    Server::start_proving(keys, Arc::new(Plain), service).unwrap()
}

fn own(host: &[ChapKey], controller: &[ChapKey]) -> Option<Arc<OwnKeys>> {
    Some(Arc::new(OwnKeys::new(host.to_vec(), controller.to_vec(), Policy::default()).unwrap()))
}

fn options(name: &str, keys: Option<Arc<OwnKeys>>) -> ConnectOptions {
    ConnectOptions {
        keys,
        subsystem: NODE.parse().unwrap(),
        host: name.parse().unwrap(),
        hostid: [9; 16],
        digests: Digests::default(),
        flow_control: true,
        deadline: Duration::from_secs(20),
    }
}

/// Connects both kinds of queues, and reads a block.
fn read(server: &Server, options: ConnectOptions) -> Result<(), InitiatorError> {
    let controller = Controller::connect(server.address(), options)?;
    let mut block = [0; 512];
    let mut sqe = Sqe::new(io::READ, 1);
    sqe.set_blocks(0, 1);
    let outcome = controller.queue(1, 4)?.execute(sqe, &[], &mut block)?;
    assert!(outcome.status.is_success() && block == [7; 512]);
    Ok(())
}

fn unproven(result: Result<(), InitiatorError>) -> ProofError {
    match result {
        Err(InitiatorError::Unproven { source, .. }) => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn our_hosts_prove_their_names_one_way_and_both_ways() {
    let server = serve(Table::new(&[key(1)], &[key(2)]));
    for keys in [own(&[key(1)], &[]), own(&[key(1)], &[key(2)])] {
        read(&server, options(HOST, keys.clone())).unwrap();
        let found = discover(server.address(), &options(HOST, keys)).unwrap();
        assert_eq!(found.len(), 2);
    }
    // Another name has no key here.
    read(&server, options("nqn.2026-11.example:other", None)).unwrap();
}

#[test]
fn a_host_without_the_key_is_refused_by_discovery_too() {
    let server = serve(Table::new(&[key(1)], &[key(2)]));
    assert!(matches!(unproven(read(&server, options(HOST, None))), ProofError::NoKey));
    assert!(discover(server.address(), &options(HOST, None)).is_err());
    assert!(matches!(unproven(read(&server, options(HOST, own(&[key(3)], &[])))), ProofError::Failed(_)));
    // It has our key, and not the node's.
    let error = unproven(read(&server, options(HOST, own(&[key(1)], &[key(3)]))));
    assert!(error.to_string().contains("does not fit the key"), "{error}");
}

#[test]
fn a_host_insists_that_the_controller_proves_itself() {
    let open = serve(Arc::new(NoKeys));
    let error = unproven(read(&open, options(HOST, own(&[key(1)], &[key(2)]))));
    assert!(error.to_string().contains("does not ask"), "{error}");
    // Without a controller key it goes on, as it would without any key.
    read(&open, options(HOST, own(&[key(1)], &[]))).unwrap();
    // One that asks, and has no key of its own.
    let one_way = serve(Table::new(&[key(1)], &[]));
    assert!(read(&one_way, options(HOST, own(&[key(1)], &[key(2)]))).is_err());
}

/// Add the next key, switch the host, remove the first one.
#[test]
fn keys_change_without_a_gap() {
    let table = Table::new(&[key(1)], &[key(11)]);
    let server = serve(table.clone());
    let (old, new) = (own(&[key(1)], &[key(11)]), own(&[key(2)], &[key(12)]));
    assert!(read(&server, options(HOST, new.clone())).is_err());
    table.set(&[key(1), key(2)], &[key(11), key(12)]);
    read(&server, options(HOST, old.clone())).unwrap();
    read(&server, options(HOST, new.clone())).unwrap();
    table.set(&[key(2)], &[key(12)]);
    read(&server, options(HOST, new)).unwrap();
    assert!(read(&server, options(HOST, old)).is_err());
}

/// Many hosts at once: the computations of all fit one thread.
#[test]
fn many_queues_prove_themselves_at_once() {
    let server = serve(Table::new(&[key(1)], &[key(2)]));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let server = &server;
            scope.spawn(move || {
                let options =
                    ConnectOptions { hostid: [number + 1; 16], ..options(HOST, own(&[key(1)], &[key(2)])) };
                let controller = Controller::connect(server.address(), options).unwrap();
                for qid in 1..=2 {
                    controller.queue(qid, 4).unwrap();
                }
            });
        }
    });
    eprintln!("48 queues in {:?}", began.elapsed());
}

/// Without an entry for another subsystem, the table of a node would let its host in unproven.
#[test]
fn a_table_has_keys_for_the_node_and_its_discovery_service() {
    let host = (HOST.parse().unwrap(), vec![key(1)], vec![], groups());
    let table = KeyTable::new(&NODE.parse().unwrap(), [host]).unwrap();
    assert!(table.keys(HOST, NODE).is_some() && table.keys(HOST, DISCOVERY_NQN).is_some());
    assert!(table.keys("nqn.2026-11.example:other", NODE).is_none());
    let same = (HOST.parse().unwrap(), vec![key(1)], vec![key(1)], groups());
    assert!(KeyTable::new(&NODE.parse().unwrap(), [same]).is_err());
}

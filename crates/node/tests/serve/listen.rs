//! A node on several addresses, and what hosts are shown of it.

use crate::world::{associate, command, host, read, run, serve_at};
use pumice_node::serve::{Backend, Drive};
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Nqn, Status};
use pumice_remote::initiator::{ConnectOptions, discover};
use std::net::{SocketAddr, TcpListener};

#[test]
fn every_address_is_listed_and_leads_to_the_same_blocks() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: no IPv6 here");
        return;
    }
    let drive = Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap();
    let server = serve_at(&["127.0.0.1:0", "[::1]:0", "127.0.0.2:0"], 2, vec![drive]);
    let mut queues = Vec::new();
    for (i, address) in server.addresses().iter().enumerate() {
        let discovery = ConnectOptions { subsystem: Nqn::discovery(), ..host(&server, 9) };
        let entries = discover(*address, &discovery).unwrap();
        let at = |entry: &DiscoveryEntry| -> SocketAddr {
            SocketAddr::new(entry.traddr.parse().unwrap(), entry.trsvcid.parse().unwrap())
        };
        assert_eq!((entries.len(), at(&entries[0])), (4, *address));
        let mut listed: Vec<_> =
            entries[1..].iter().map(|entry| (entry.portid, at(entry), entry.ipv6)).collect();
        assert_eq!(listed[0].1, *address, "the host's own comes first");
        listed.sort();
        let all = (1..).zip(server.addresses()).map(|(id, address)| (id, *address, address.is_ipv6()));
        assert_eq!(listed, all.collect::<Vec<_>>());
        // One host by all paths, as multipath has it.
        let controller = associate(*address, host(&server, 3)).unwrap();
        assert!(controller.identity().several_ports);
        queues.push((controller.queue(1, 8).unwrap(), controller));
        let value = i as u8 + 1;
        assert_eq!(run(&mut queues[i].0, command(io::WRITE, 1, 0, 1), &[value; 512]), Status::SUCCESS);
        for (queue, _) in &mut queues {
            assert_eq!(read(queue, 1, 0, 1).1, [value; 512]);
        }
    }
    // One path less; the others stay.
    drop(queues.remove(0));
    for (queue, _) in &mut queues {
        assert_eq!(read(queue, 1, 0, 1).1, [3; 512]);
    }
}

#[test]
fn both_addresses_for_everything_can_share_a_port() {
    let free = TcpListener::bind("[::]:0").map(|listener| listener.local_addr().unwrap().port());
    let Ok(port) = free else {
        eprintln!("SKIPPED: no IPv6 here");
        return;
    };
    let drive = || vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()];
    let server = serve_at(&[&format!("0.0.0.0:{port}"), &format!("[::]:{port}")], 1, drive());
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        associate(address.parse().unwrap(), host(&server, 1)).unwrap();
    }
}

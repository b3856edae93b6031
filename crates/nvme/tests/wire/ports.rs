//! Several ports of one subsystem.

use crate::pair::{HostQueue, admin, options};
use crate::replay::{identify, log};
use crate::world::{NQN, PLAIN, World};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::connect::DYNAMIC;
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::property::cc;
use pumice_nvme::spec::{DISCOVERY_NQN, Sqe, opcode};

/// Entries of the discovery service for a host that came in at `local`.
fn listed(world: &mut World, local: &str) -> Vec<DiscoveryEntry> {
    world.local = local.parse().unwrap();
    let mut discovery = options(0, DYNAMIC, PLAIN, true);
    discovery.data.subnqn = DISCOVERY_NQN.to_owned();
    let mut queue = HostQueue::connect(world, discovery, &[1 << 20]);
    let mut enable = Sqe::new(opcode::FABRICS, 0);
    enable.0[4] = opcode::fabrics::PROPERTY_SET;
    enable.set_dword(11, 0x14);
    enable.set_dword(12, cc::ENTRY_SIZES_64_16 | cc::ENABLE);
    assert!(queue.write(world, enable, &[]).status.is_success());
    let header = queue.read(world, log(0x70, 1024, 0), 1024).unwrap();
    let page =
        queue.read(world, log(0x70, u32::from(header[8]) * 1024, 1024), u32::from(header[8]) * 1024).unwrap();
    queue.socket.connection.closed(&world.shared);
    // EFLAGS: EPCSD of the discovery service itself. Without it hosts do not stay, and poll.
    for record in page.chunks(1024) {
        let own = record[2] == DiscoveryEntry::CURRENT_DISCOVERY;
        assert_eq!(record[10..12], [u8::from(own) << 1, 0]);
    }
    page.chunks(1024).map(|record| DiscoveryEntry::decode(record).unwrap()).collect()
}

#[test]
fn the_discovery_log_has_a_record_for_each_port() {
    let mut world = World::new(Limits::default());
    let ports = ["192.0.2.1:4420", "[2001:db8::1]:4421", "127.0.0.1:4420"];
    world.shared.0.borrow_mut().set_ports(ports.map(|port| port.parse().unwrap()).to_vec());
    let told = |entries: &[DiscoveryEntry]| -> Vec<(u16, bool, String, String)> {
        entries.iter().map(|e| (e.portid, e.ipv6, e.traddr.clone(), e.trsvcid.clone())).collect()
    };
    let entries = listed(&mut world, "[2001:db8::1]:4421");
    assert_eq!(
        (entries[0].subtype, entries[0].subnqn.as_str()),
        (DiscoveryEntry::CURRENT_DISCOVERY, DISCOVERY_NQN)
    );
    assert!(
        entries[1..].iter().all(|e| e.subtype == DiscoveryEntry::NVM && e.subnqn == NQN && e.asqsz == 128)
    );
    let six = (2, true, "2001:db8::1".to_owned(), "4421".to_owned());
    let four = (1, false, "192.0.2.1".to_owned(), "4420".to_owned());
    assert_eq!(
        told(&entries),
        [six.clone(), six.clone(), four.clone()],
        "its own first; no loopback address"
    );
    let entries = listed(&mut world, "127.0.0.1:4420");
    let here = (3, false, "127.0.0.1".to_owned(), "4420".to_owned());
    assert_eq!(told(&entries), [here.clone(), here, four, six]);
}

#[test]
fn several_ports_are_announced_and_both_lead_to_the_same() {
    for (ports, cmic) in [(1, 0x0A), (2, 0x0B)] {
        let mut world = World::new(Limits::default());
        let all = ["192.0.2.1:4420", "192.0.2.1:4421"].map(|port| port.parse().unwrap());
        world.shared.0.borrow_mut().set_ports(all[..ports].to_vec());
        let mut seen = Vec::new();
        for port in &all[..ports] {
            world.local = *port;
            let (mut queue, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
            assert_eq!(queue.read(&mut world, identify(1, 0), 4096).unwrap()[76], cmic);
            let ids = queue.read(&mut world, identify(3, 1), 4096).unwrap();
            let namespace = queue.read(&mut world, identify(0, 1), 4096).unwrap();
            assert_eq!(namespace[30], 1, "shared");
            seen.push((ids, namespace));
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

//! Addresses of the subsystem, and the part of them that a host is told.

use super::subsystem::Subsystem;
use crate::spec::DISCOVERY_NQN;
use crate::spec::log::DiscoveryEntry;
use std::net::{IpAddr, SocketAddr};

impl Subsystem {
    /// Says where hosts reach it: ports 1, 2, …. An unspecified address stands for all of the
    /// machine's.
    pub fn set_ports(&mut self, ports: Vec<SocketAddr>) {
        self.ports = ports;
    }

    /// Addresses at which hosts reach it.
    #[must_use]
    pub fn ports(&self) -> &[SocketAddr] {
        &self.ports
    }

    /// The discovery log for a host that came in at `local`: without entries if it `sees` nothing.
    pub(crate) fn discovery_log(&self, local: SocketAddr, sees: bool) -> Vec<u8> {
        // The log never changes while the node runs.
        let generation = 1;
        if !sees {
            return DiscoveryEntry::log(generation, &[]);
        }
        // A socket for both families has IPv4 addresses in IPv6's clothes.
        let here = SocketAddr::new(local.ip().to_canonical(), local.port());
        let entry = |subtype, subnqn: &str, portid: usize, at: SocketAddr| DiscoveryEntry {
            subtype,
            ipv6: at.is_ipv6(),
            portid: portid as u16,
            asqsz: self.limits().queue_depth,
            trsvcid: at.port().to_string(),
            subnqn: subnqn.to_owned(),
            traddr: at.ip().to_string(),
        };
        let own = port_of(&self.ports, here);
        let nqn = self.identity().nqn.as_str();
        let mut entries = vec![
            entry(DiscoveryEntry::CURRENT_DISCOVERY, DISCOVERY_NQN, own, here),
            entry(DiscoveryEntry::NVM, nqn, own, here),
        ];
        for (portid, port) in (1..).zip(&self.ports).filter(|(portid, _)| *portid != own) {
            if let Some(at) = shown_port(*port, here) {
                entries.push(entry(DiscoveryEntry::NVM, nqn, portid, at));
            }
        }
        DiscoveryEntry::log(generation, &entries)
    }
}

/// The number of the port that a host came in by: the one with this address, or one for all
/// addresses.
fn port_of(ports: &[SocketAddr], here: SocketAddr) -> usize {
    let all = |port: &SocketAddr| {
        port.port() == here.port() && port.ip().is_unspecified() && (port.is_ipv6() || here.is_ipv4())
    };
    let index = ports.iter().position(|port| *port == here).or_else(|| ports.iter().position(all));
    index.unwrap_or(0) + 1
}

/// Address of a port for a host that came in at `here`; `None` to hide the port.
fn shown_port(port: SocketAddr, here: SocketAddr) -> Option<SocketAddr> {
    let ip = port.ip().to_canonical();
    if ip.is_unspecified() {
        // One for IPv6 takes both families.
        return (ip.is_ipv6() || here.is_ipv4()).then(|| SocketAddr::new(here.ip(), port.port()));
    }
    let known =
        (!ip.is_loopback() || here.ip().is_loopback()) && (!is_link_local(ip) || is_link_local(here.ip()));
    known.then(|| SocketAddr::new(ip, port.port()))
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_host_is_told_what_means_something_to_it() {
        for (port, here, known) in [
            ("10.0.0.1:4420", "192.0.2.1:4420", Some("10.0.0.1:4420")),
            ("[2001:db8::1]:4420", "192.0.2.1:4420", Some("[2001:db8::1]:4420")),
            ("127.0.0.1:4420", "192.0.2.1:4420", None),
            ("127.0.0.1:4420", "[::1]:4421", Some("127.0.0.1:4420")),
            ("[fe80::1]:4420", "192.0.2.1:4420", None),
            ("[fe80::1]:4420", "[fe80::2]:4420", Some("[fe80::1]:4420")),
            ("0.0.0.0:4421", "192.0.2.1:4420", Some("192.0.2.1:4421")),
            ("0.0.0.0:4421", "[2001:db8::1]:4420", None),
            ("[::]:4421", "192.0.2.1:4420", Some("192.0.2.1:4421")),
        ] {
            assert_eq!(shown_port(at(port), at(here)), known.map(at), "{port} from {here}");
        }
    }

    #[test]
    fn a_port_is_known_by_its_address_or_as_one_for_all() {
        let ports = ["0.0.0.0:4421", "192.0.2.1:4420", "[::]:4420"].map(at);
        for (here, number) in
            [("192.0.2.1:4420", 2), ("192.0.2.1:4421", 1), ("198.51.100.1:4420", 3), ("[::1]:4420", 3)]
        {
            assert_eq!(port_of(&ports, at(here)), number, "{here}");
        }
        assert_eq!(port_of(&[], at("192.0.2.1:4420")), 1);
    }
}

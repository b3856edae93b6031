//! The addresses on which a node listens.

use super::ServeError;
use mio::net::TcpListener;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket, sockopt,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// The port of NVMe over TCP (IANA: nvme).
const PORT: u16 = 4420;
/// Connections that wait to be accepted: a burst of hosts comes in at once.
const BACKLOG: i32 = 4096;
/// Addresses of a node, at most.
pub(super) const MOST: usize = 16;

/// An address to listen on: `192.0.2.1:4420`, `[2001:db8::1]:4420`, or without the port, which is
/// 4420 then, and without the brackets. Port 0 lets the system pick one.
///
/// # Errors
/// Where it is none of these. Names are not looked up.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let with_port = text.parse::<SocketAddr>().ok();
    let without = || {
        let ip = bare.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv6() || bare == text);
        ip.map(|ip| SocketAddr::new(ip, PORT))
    };
    with_port.or_else(without).ok_or_else(|| {
        format!("{text:?} is not an address to listen on; write one like 192.0.2.1, 192.0.2.1:4420, 2001:db8::1 or [2001:db8::1]:4420")
    })
}

/// Checks what a node is to listen on.
///
/// # Errors
/// Where there is no address, or too many, or one twice.
pub(super) fn check(addresses: &[SocketAddr]) -> Result<(), String> {
    if addresses.is_empty() || addresses.len() > MOST {
        return Err(format!("{} addresses: 1 to {MOST}", addresses.len()));
    }
    let twice = |i: usize| addresses[i].port() != 0 && addresses[..i].contains(&addresses[i]);
    match (0..addresses.len()).find(|i| twice(*i)) {
        Some(i) => Err(format!("{} is given twice", addresses[i])),
        None => Ok(()),
    }
}

/// Checks that a node could listen on these addresses now, for callers that change something
/// before they serve.
///
/// # Errors
/// If it could not.
pub fn can_listen(addresses: &[SocketAddr]) -> Result<(), ServeError> {
    check(addresses).map_err(ServeError::Addresses)?;
    open(addresses).map(drop)
}

/// Listens on all of them.
pub(super) fn open(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, ServeError> {
    // Of the two for all addresses with one port, that for IPv6 would take both families.
    let both = |address: &SocketAddr| {
        address.is_ipv6()
            && addresses.iter().any(|a| a.is_ipv4() && a.ip().is_unspecified() && a.port() == address.port())
    };
    addresses
        .iter()
        .map(|address| {
            open_one(*address, both(address))
                .map_err(|source| ServeError::Listen { address: *address, source })
        })
        .collect()
}

fn open_one(address: SocketAddr, only_ipv6: bool) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Stream, flags, None)?;
    // A node that is started again need not wait for the connections of the one before.
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &only_ipv6)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(TcpListener::from_std(std::net::TcpListener::from(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_address_may_leave_out_its_port() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:4420"),
            ("192.0.2.1:0", "192.0.2.1:0"),
            ("::1", "[::1]:4420"),
            ("[::1]", "[::1]:4420"),
            ("[::1]:4421", "[::1]:4421"),
            ("::", "[::]:4420"),
        ] {
            assert_eq!(listen_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", "localhost", "[192.0.2.1]", "192.0.2.1:", "192.0.2.1:70000", "[::1", "4420"] {
            assert!(listen_address(text).unwrap_err().contains("is not an address"), "{text}");
        }
    }

    #[test]
    fn addresses_are_some_and_none_comes_twice() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(check(&[at("127.0.0.1:0"), at("127.0.0.1:0"), at("[::1]:4420")]).is_ok());
        assert!(check(&[]).is_err());
        assert!(check(&[at("127.0.0.1:0"); MOST + 1]).is_err());
        assert!(
            check(&[at("127.0.0.1:1"), at("127.0.0.1:1")])
                .unwrap_err()
                .contains("127.0.0.1:1 is given twice")
        );
    }

    /// A burst of hosts comes in at once: nobody is turned away while the core is at something
    /// else. The system's own bound (`net.core.somaxconn`) may be lower.
    #[test]
    fn connections_wait_to_be_accepted_up_to_the_bound() {
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let bound = usize::try_from(BACKLOG).unwrap().min(allowed.trim().parse().unwrap());
        let descriptors = pumice_blockdev::raise_descriptor_limit().unwrap();
        if descriptors < bound as u64 + 512 {
            eprintln!("SKIPPED: {descriptors} descriptors are too few");
            return;
        }
        let listeners = open(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let connect = |patience| std::net::TcpStream::connect_timeout(&address, patience);
        // The system takes one more than it was told.
        let waiting: Vec<_> = (0..=bound).map_while(|_| connect(Duration::from_secs(20)).ok()).collect();
        assert_eq!(waiting.len(), bound + 1);
        assert!(connect(Duration::from_millis(300)).is_err(), "there is a bound");
    }
}

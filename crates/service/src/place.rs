//! Addresses of data nodes, which are looked for once in a run.

use crate::failure::Failure;
use crate::name::{RemoteName, SCHEME};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A drive of a node, or all of its drives, by the address of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemotePlace {
    /// The address of the node.
    pub address: SocketAddr,
    /// The number of the drive; `None` for all.
    pub nsid: Option<u32>,
}

/// The first of a host's addresses at which somebody listens, because a name often has one address
/// of each family. If nobody listens at any, the first address.
fn answering(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let first = addresses.first().copied()?;
    if addresses.len() == 1 {
        return Some(first);
    }
    let listens = |address: &&SocketAddr| TcpStream::connect_timeout(address, PATIENCE).is_ok();
    Some(addresses.iter().find(listens).copied().unwrap_or(first))
}

/// The address of a host and port, which is looked for once in a run: a name with several addresses
/// must not become two nodes, and each look may cost seconds.
fn resolved(
    host: &str,
    port: u16,
    look: impl FnOnce() -> Result<SocketAddr, Failure>,
) -> Result<SocketAddr, Failure> {
    static KNOWN: Mutex<BTreeMap<(String, u16), SocketAddr>> = Mutex::new(BTreeMap::new());
    // Held during the look: another thread that needs the same would look as well.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (host.to_owned(), port);
    if let Some(address) = known.get(&key) {
        return Ok(*address);
    }
    let address = look()?;
    known.insert(key, address);
    Ok(address)
}

/// Every address of a host. `localhost` has one of each family, whatever the system lists.
fn addresses(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    let resolved = (host, port).to_socket_addrs();
    if !host.eq_ignore_ascii_case("localhost") {
        return Ok(resolved?.collect());
    }
    let mut all: Vec<SocketAddr> = resolved.into_iter().flatten().collect();
    for own in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
        let own = SocketAddr::new(own, port);
        if !all.contains(&own) {
            all.push(own);
        }
    }
    Ok(all)
}

impl RemotePlace {
    /// The place of a name. Its host is looked for unless that was done before in this run; of
    /// several addresses the first one counts at which somebody listens.
    ///
    /// # Errors
    /// If the host has no address.
    pub fn of(name: &RemoteName) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::new(format!("{name}: {why}"));
        let RemoteName { host, port, nsid } = name;
        let address = resolved(host, *port, || {
            let addresses = addresses(host, *port).map_err(|error| {
                wrong(&format!("write nvme://HOST:PORT or nvme://HOST:PORT/NSID ({error})"))
            })?;
            answering(&addresses).ok_or_else(|| wrong("the host has no address"))
        })?;
        Ok(Self { address, nsid: *nsid })
    }

    /// The place of a node that is given as an argument, with or without `nvme://`.
    ///
    /// # Errors
    /// If it is none, names a drive, or has no address.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        Self::of(&RemoteName::parse(text)?)
    }
}

impl fmt::Display for RemotePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.address)?;
        self.nsid.map_or(Ok(()), |nsid| write!(f, "/{nsid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::path::Path;

    /// Connections that came to a listener.
    fn dialled(listener: &TcpListener) -> usize {
        std::thread::sleep(Duration::from_millis(50));
        std::iter::from_fn(|| listener.accept().ok()).count()
    }

    #[test]
    fn of_several_addresses_the_one_that_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        // Bound and let go: nobody listens.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(answering(&[silent, there]), Some(there));
        assert_eq!(answering(&[silent]), Some(silent));
        assert_eq!(answering(&[]), None);
    }

    /// A name of several addresses stays one node for the whole run, and is dialled once; to make
    /// the name dials nobody.
    #[test]
    fn a_host_is_looked_for_once_in_a_run() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let name = |nsid| {
            let text = format!("nvme://localhost:{port}/{nsid}");
            RemoteName::of(Path::new(&text)).unwrap().unwrap()
        };
        let names: Vec<RemoteName> = (1..4).map(name).collect();
        assert_eq!(dialled(&listener), 0, "a name is a value");
        for (nsid, name) in (1..4).zip(&names) {
            let place = RemotePlace::of(name).unwrap();
            assert_eq!((place.address.port(), place.nsid), (port, Some(nsid)));
        }
        let count = dialled(&listener);
        assert!(count <= 1, "{count} connections for one host");
    }

    #[test]
    fn a_host_without_an_address_has_a_name_and_no_place() {
        let name = RemoteName::parse("a..b:4420").unwrap();
        let why = RemotePlace::of(&name).unwrap_err().to_string();
        assert!(why.starts_with("nvme://a..b:4420: "), "{why}");
    }

    #[test]
    fn localhost_is_both_loopback_addresses() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let there = listener.local_addr().unwrap();
        let name = RemotePlace::parse(&format!("localhost:{}", there.port())).unwrap();
        assert_eq!(name.address, there, "nobody listens on 127.0.0.1");
    }
}

//! Drives of data nodes: `nvme://HOST:PORT/NSID`, or `nvme://HOST:PORT` for all of them.

use crate::failure::Failure;
use crate::identity::{host_id, host_nqn};
use crate::probed::{Probed, nodes_of};
use crate::say::say;
use pumice_initiator::DigestPolicy;
use pumice_offload::{ErrorKind, Hosts, Presence};
use pumice_remote::{Dial, RemoteNode, is_kept_out, log_silence};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a name of a node begins.
const SCHEME: &str = "nvme://";
/// The port assigned to NVMe over Fabrics.
const PORT: u16 = 4420;
/// How long a node may be silent before a keep alive is sent, and how long it has to answer.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// A host that was silent for this many milliseconds may be gone: by default Linux sends a keep
/// alive every 2.5 s.
const ALIVE_MS: u32 = 10_000;

/// A drive of a node, or all of its drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteName {
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
    let key = (host.to_ascii_lowercase(), port);
    if let Some(address) = known.get(&key) {
        return Ok(*address);
    }
    let address = look()?;
    known.insert(key, address);
    Ok(address)
}

/// What follows `nvme://`, in capitals or not; `None` without it.
fn after_scheme(text: &str) -> Option<&str> {
    let scheme = text.get(..SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| &text[SCHEME.len()..])
}

/// A host's name or address, and the port: [`PORT`] unless one is given.
fn host_and_port(text: &str) -> Result<(&str, u16), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("after ] comes :PORT")?)),
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err(format!("write an IPv6 address in brackets: [{text}]"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err("no host is named".to_owned());
    }
    let wrong = |port: &str| format!("'{port}' is no port: it must be a number from 1 to 65535");
    let number = port.map(|port| port.parse().ok().filter(|n| *n > 0).ok_or_else(|| wrong(port)));
    Ok((host, number.transpose()?.unwrap_or(PORT)))
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

impl RemoteName {
    /// The node that a name names; `None` if it is the path of a device.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>, Failure> {
        let Some(rest) = path.to_str().and_then(after_scheme) else { return Ok(None) };
        let wrong = |why: &str| Failure::new(format!("{}: {why}", path.display()));
        let (host, nsid) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), None),
            Some((host, nsid)) => {
                let number = nsid.parse().ok().filter(|n| (1..u32::MAX).contains(n));
                (host, Some(number.ok_or_else(|| wrong("the drive is a number from 1 on"))?))
            }
        };
        let (host, port) = host_and_port(host).map_err(|why| wrong(&why))?;
        let address = resolved(host, port, || {
            let addresses = addresses(host, port).map_err(|error| {
                wrong(&format!("write nvme://HOST:PORT or nvme://HOST:PORT/NSID ({error})"))
            })?;
            answering(&addresses).ok_or_else(|| wrong("the host has no address"))
        })?;
        Ok(Some(Self { address, nsid }))
    }

    /// The node at an address given as an argument, with or without `nvme://`.
    ///
    /// # Errors
    /// If it is none, or names a drive.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let full = if after_scheme(text).is_some() { text.to_owned() } else { format!("{SCHEME}{text}") };
        match Self::of(Path::new(&full))? {
            Some(name) if name.nsid.is_none() => Ok(name),
            _ => Err(Failure::new(format!("{text}: a node is HOST:PORT"))),
        }
    }
}

impl fmt::Display for RemoteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.address)?;
        self.nsid.map_or(Ok(()), |nsid| write!(f, "/{nsid}"))
    }
}

/// Tells the operator for which node a command waits.
fn silent(node: SocketAddr, silent: Duration) {
    if tracing::dispatcher::has_been_set() {
        return log_silence(node, silent);
    }
    let seconds = silent.as_secs();
    say(&format!("{SCHEME}{node}: the node does not answer for {seconds} s; waiting for it"));
}

/// Connects to a node.
///
/// # Errors
/// If it cannot be reached, or refuses.
pub fn connect(address: SocketAddr, digests: DigestPolicy) -> Result<Arc<RemoteNode>, Failure> {
    let (host, hostid) = (host_nqn(), host_id());
    let dial = Dial { address, nqn: None, host, hostid, digests, deadline: DEADLINE, silent };
    let until = Instant::now() + LEAVING;
    let node = loop {
        match RemoteNode::connect(dial.clone()) {
            // Writes of an earlier process of this machine may have to end first.
            Err(error) if is_kept_out(&error) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(100));
            }
            node => break node.map_err(|error| Failure::new(format!("{SCHEME}{address}: {error}")))?,
        }
    };
    if node.lacks_digests() {
        say(&format!(
            "{SCHEME}{address}: the node offers no digests: its data is protected only by TCP's checksum"
        ));
    }
    Ok(Arc::new(node))
}

/// Refuses nodes that share a name and are not the same: Linux would take their drives for one, and
/// so may whoever reads our reports.
pub(crate) fn told_apart<'n>(nodes: impl IntoIterator<Item = &'n Arc<RemoteNode>>) -> Result<(), Failure> {
    let mut known: BTreeMap<String, &RemoteNode> = BTreeMap::new();
    for node in nodes {
        let (nqn, serial) = node.identity();
        match known.get(&nqn) {
            Some(other) if other.identity().1 != serial => {
                let (one, two) = (other.name(), node.name());
                return Err(Failure::new(format!(
                    "{SCHEME}{one} and {SCHEME}{two} are two nodes with one name, {nqn}: a Linux host may take their drives for one drive and mix its data; give one of them another name (--nqn), and connect hosts anew"
                )));
            }
            Some(_) => {}
            None => {
                known.insert(nqn, node);
            }
        }
    }
    Ok(())
}

/// How long to keep asking for a hold while no other host is connected: commands of a host that has
/// left end soon.
const LEAVING: Duration = Duration::from_secs(5);

/// Keeps other hosts away from a node's drives while this process runs.
pub(crate) fn hold(node: &RemoteNode, who_asks: &str) -> Result<(), Failure> {
    let until = Instant::now() + LEAVING;
    loop {
        match node.hold() {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Busy => {
                let others = node.hosts()?.hosts.len();
                if others > 0 || Instant::now() >= until {
                    let who = match others {
                        0 => "commands of another host are still under way".to_owned(),
                        _ => format!("{} connected", are(others)),
                    };
                    let name = node.name();
                    let what =
                        format!("{SCHEME}{name}: {who_asks} needs exclusive use of the drives, but {who}");
                    return Err(Failure::new(what));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => return Err(Failure::new(format!("{SCHEME}{}: {error}", node.name()))),
        }
    }
}

/// The number of other hosts, with its verb.
fn are(hosts: usize) -> String {
    if hosts == 1 { "another host is".to_owned() } else { format!("{hosts} other hosts are") }
}

/// The number of hosts that may run an array over these devices, with its verb: live hosts that are
/// connected to the nodes of all devices. `None` if there is none, if the hosts differ from node to
/// node, or if a device is of this machine. Other scrubs and inspections do not count: they run no
/// array.
pub(crate) fn hosts_of(devices: &[Probed]) -> Result<Option<String>, Failure> {
    if devices.iter().any(|device| device.here().is_some()) {
        return Ok(None);
    }
    let mut common: Option<Hosts> = None;
    for node in nodes_of(devices) {
        let mut hosts = node.hosts()?;
        hosts.hosts.retain(|host| !host.observer);
        let alive = hosts.hosts.iter().all(|host| host.silent_ms < ALIVE_MS);
        if hosts.hosts.is_empty() || !alive || common.as_ref().is_some_and(|known| !known.same_hosts(&hosts))
        {
            return Ok(None);
        }
        common = Some(hosts);
    }
    Ok(common.map(|hosts| are(hosts.hosts.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

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

    /// A name of several addresses stays one node for the whole run, and is dialled once.
    #[test]
    fn a_host_is_looked_for_once_in_a_run() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        for nsid in 1..4 {
            let name =
                RemoteName::of(Path::new(&format!("nvme://localhost:{port}/{nsid}"))).unwrap().unwrap();
            assert_eq!((name.address.port(), name.nsid), (port, Some(nsid)));
        }
        std::thread::sleep(Duration::from_millis(50));
        let dialled = std::iter::from_fn(|| listener.accept().ok()).count();
        assert!(dialled <= 1, "{dialled} connections for one host");
    }

    #[test]
    fn a_name_needs_no_port_and_its_scheme_may_be_in_capitals() {
        let name = |text: &str| RemoteName::of(Path::new(text)).unwrap().map(|name| name.to_string());
        for (text, expected) in [
            ("nvme://127.0.0.1/3", "nvme://127.0.0.1:4420/3"),
            ("NVME://127.0.0.1:4421", "nvme://127.0.0.1:4421"),
            ("Nvme://[::1]", "nvme://[::1]:4420"),
            ("nvme://[::1]:4421/7", "nvme://[::1]:4421/7"),
        ] {
            assert_eq!(name(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(name("/dev/sda"), None);
        for (text, word) in [
            ("nvme://", "no host"),
            ("nvme://:4420", "no host"),
            ("nvme://::1", "brackets"),
            ("nvme://127.0.0.1:0", "'0' is no port"),
            ("nvme://127.0.0.1:x", "'x' is no port"),
            ("nvme://[::1]4420", "comes :PORT"),
            ("nvme://127.0.0.1/0", "the drive is a number"),
        ] {
            let why = RemoteName::of(Path::new(text)).unwrap_err().to_string();
            assert!(why.contains(word), "{text}: {why}");
        }
        assert_eq!(
            RemoteName::parse("127.0.0.1").unwrap(),
            RemoteName::parse("NVME://127.0.0.1:4420").unwrap()
        );
    }

    #[test]
    fn localhost_is_both_loopback_addresses() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let there = listener.local_addr().unwrap();
        let name = RemoteName::parse(&format!("localhost:{}", there.port())).unwrap();
        assert_eq!(name.address, there, "nobody listens on 127.0.0.1");
    }
}

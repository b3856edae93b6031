//! Twice as many connections as a node has descriptors: it goes on, and so do its hosts; a further
//! host comes in while they all stand.

use super::{Host, row};
use crate::hostile::good::Good;
use crate::hostile::measure::{PERIOD, Row};
use crate::hostile::node::Setup;
use crate::hostile::wire::open;
use crate::hostile::{Failed, Options};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

/// Descriptors of the node, and connections that say nothing.
const DESCRIPTORS: &str = "300";
const CONNECTIONS: usize = 600;

/// See the module.
pub(super) fn run(options: &Options, folder: &Path) -> Result<Row, Failed> {
    let limit = format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}");
    let setup = Setup::new(&options.binary, folder, "descriptors", options.cores)?;
    let node = setup.by(&["prlimit", &limit, "--"]).start()?;
    let good = Good::start(&node.target, PERIOD)?;
    let mut breaches = Vec::new();
    for round in 0..options.rounds {
        let from = Ipv4Addr::new(127, 0, 0, 2);
        let silent =
            (0..CONNECTIONS).map(|_| open(&node.target, from)).collect::<Result<Vec<TcpStream>, _>>();
        let silent = silent.map_err(|error| Failed(format!("descriptors: {error}")))?;
        for host in 0..4 {
            let served = Host::connect(&node.target, host)
                .map(|mut host| host.read(2, 0).is_some_and(|(status, _)| status.is_success()));
            match served {
                Ok(true) => {}
                Ok(false) => breaches.push(format!("round {round}: host {host} is not served")),
                Err(Failed(why)) => breaches.push(format!("round {round}: host {host}: {why}")),
            }
        }
        // Those that say nothing end by themselves after 30 s: then it was no trial.
        if silent.iter().all(is_closed) {
            breaches.push(format!("round {round}: hosts came in when all others had gone"));
        }
        drop(silent);
    }
    breaches.truncate(20);
    let outcome = good.stop();
    Ok(row("descriptors", outcome, node, breaches, options))
}

/// Returns whether the node has closed a connection by now.
fn is_closed(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

//! Connections that do not go on: the node closes each of them when its deadline is over, and not
//! before; and it leaves a queue alone that is only idle.

use super::row;
use crate::hostile::attacks::{unread_reads, unread_writes};
use crate::hostile::good::Good;
use crate::hostile::many::half;
use crate::hostile::measure::{PERIOD, Row};
use crate::hostile::node::Node;
use crate::hostile::random::Random;
use crate::hostile::wire::{ANSWERED, Session, Target, Who, blocks, open};
use crate::hostile::{Failed, Options};
use pumice_nvme::pdu::{Digests, IcReq};
use pumice_nvme::spec::opcode::io as opcode;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// A host has 30 s for each thing. One that takes answers at first has as long again from when it
/// takes none.
const EARLIEST: Duration = Duration::from_secs(25);
const LATEST: Duration = Duration::from_secs(80);

/// A connection that does not go on.
struct Late {
    what: &'static str,
    stream: TcpStream,
    began: Instant,
    /// Answers wait in the socket, before its end: that the node has closed it shows when something
    /// is sent.
    is_unread: bool,
    closed: Option<Duration>,
}

impl Late {
    /// Looks whether the node has closed it.
    fn look(&mut self) {
        let gone = if self.is_unread {
            // The node reads nothing more: this waits in its socket.
            !matches!(self.stream.write(&[0]), Ok(1))
        } else {
            !matches!(self.stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
        };
        if gone {
            self.closed = Some(self.began.elapsed());
        }
    }
}

/// The connections, and the admin queue that some of them are of.
fn begin(target: &Target) -> io::Result<(Session, Vec<Late>)> {
    let who = Who::at(Ipv4Addr::new(127, 0, 0, 2), 0);
    let (admin, cntlid) = Session::associate(target, &who)?;
    let mut random = Random::new(1);
    let request = IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 }.encode();
    let says = |what: &[&[u8]]| {
        let mut stream = open(target, who.from)?;
        what.iter().try_for_each(|bytes| stream.write_all(bytes))?;
        // What the node says to it is taken, as long as it says anything.
        stream.set_read_timeout(Some(Duration::from_millis(500)))?;
        let _ = io::copy(&mut stream, &mut io::sink());
        Ok::<_, io::Error>(stream)
    };
    let mut all = Vec::new();
    let mut add = |what, is_unread, begin: &mut dyn FnMut() -> io::Result<TcpStream>| {
        let began = Instant::now();
        let stream = begin()?;
        stream.set_nonblocking(true)?;
        all.push(Late { what, stream, began, is_unread, closed: None });
        Ok::<_, io::Error>(())
    };
    add("nothing is said", false, &mut || says(&[]))?;
    add("half of ICReq", false, &mut || says(&[&request[..64]]))?;
    add("no Connect", false, &mut || says(&[&request]))?;
    add("a term request is not followed by the end", false, &mut || says(&[&request, &request]))?;
    add("half of a command", false, &mut || half(target, &who, (cntlid, 1)))?;
    add("data that do not come", false, &mut || unread_writes(target, &who, (cntlid, 2), &mut random))?;
    for qid in [3, 4] {
        // From the file, and from memory.
        add("answers are not taken", true, &mut || unread_reads(target, &who, (cntlid, qid), &mut random))?;
    }
    Ok((admin, all))
}

/// See the module.
pub(super) fn run(options: &Options, folder: &Path) -> Result<Row, Failed> {
    let node = Node::start(&options.binary, folder, "deadlines", options.cores)?;
    let good = Good::start(&node.target, PERIOD)?;
    let wrong = |error: io::Error| Failed(format!("deadlines: {error}"));
    let idle_who = Who::at(Ipv4Addr::new(127, 0, 0, 3), 1);
    let (_idle_admin, mut idle) = Session::pair(&node.target, &idle_who, 32).map_err(wrong)?;
    let (_admin, mut all) = begin(&node.target).map_err(wrong)?;
    let until = Instant::now() + LATEST;
    while all.iter().any(|late| late.closed.is_none()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(250));
        all.iter_mut().filter(|late| late.closed.is_none()).for_each(Late::look);
    }
    let mut breaches = Vec::new();
    for Late { what, closed, .. } in &all {
        match closed {
            None => breaches.push(format!("{what}: it stands after {} s", LATEST.as_secs())),
            Some(time) if *time < EARLIEST => {
                breaches.push(format!("{what}: closed after {:.1} s", time.as_secs_f64()));
            }
            Some(_) => {}
        }
    }
    let read = idle.submit(blocks(opcode::READ, 1, 0, 1), &[], 512).and_then(|()| idle.wait_for(ANSWERED));
    if !read.as_ref().is_ok_and(|done| done.status.is_success()) {
        breaches.push(format!("a queue that was idle: {read:?}"));
    }
    let outcome = good.stop();
    Ok(row("deadlines", outcome, node, breaches, options))
}

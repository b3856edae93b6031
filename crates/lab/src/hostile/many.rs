//! As many hostile connections as a node takes, each holding as much as it can.

use crate::hostile::Failed;
use crate::hostile::attacks::{unread_reads, unread_writes};
use crate::hostile::random::Random;
use crate::hostile::wire::{Session, Target, Who, blocks, capsule, open};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::Sgl;
use pumice_nvme::spec::opcode::io as opcode;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};

/// Associations of hosts, all but those of the clients that verify; and of one address.
const ASSOCIATIONS: u16 = 64 - crate::hostile::good::HOSTS;
const OF_ADDRESS: u16 = 40;
/// I/O queues of an association.
const QUEUES: u16 = 64;
/// Threads that make connections.
const THREADS: u16 = 8;

/// The connections. They end when it is dropped.
pub(crate) struct Crowd {
    admin: Vec<Session>,
    queues: Vec<TcpStream>,
    silent: Vec<TcpStream>,
}

impl Crowd {
    /// Makes `count` connections: queues as far as the node gives any, and the rest say nothing.
    ///
    /// # Errors
    /// Where they cannot be made.
    pub(crate) fn gather(target: &Target, count: usize) -> Result<Self, Failed> {
        let failed = |error: io::Error| Failed(format!("connection: {error}"));
        let hosts = ASSOCIATIONS.min(u16::try_from(count / usize::from(QUEUES + 1)).unwrap_or(u16::MAX));
        let parts: Vec<io::Result<Self>> = std::thread::scope(|scope| {
            let part = |thread: u16| {
                scope.spawn(move || {
                    let mut part = Self { admin: Vec::new(), queues: Vec::new(), silent: Vec::new() };
                    for host in (thread..hosts).step_by(usize::from(THREADS)) {
                        part.host(target, host)?;
                    }
                    Ok(part)
                })
            };
            let threads: Vec<_> = (0..THREADS).map(part).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        let mut all = Self { admin: Vec::new(), queues: Vec::new(), silent: Vec::new() };
        for part in parts {
            let part = part.map_err(failed)?;
            all.admin.extend(part.admin);
            all.queues.extend(part.queues);
        }
        while all.connections() < count {
            all.silent.push(open(target, Ipv4Addr::new(127, 0, 0, 4)).map_err(failed)?);
        }
        Ok(all)
    }

    /// An association of a host, and all of its queues: some read, some are to send, some say half
    /// a command, some say nothing.
    fn host(&mut self, target: &Target, host: u16) -> io::Result<()> {
        let who = Who::at(Ipv4Addr::new(127, 0, 0, 2 + (host / OF_ADDRESS) as u8), host);
        let (admin, cntlid) = Session::associate(target, &who)?;
        self.admin.push(admin);
        let mut random = Random::new(u64::from(host));
        for qid in 1..=QUEUES {
            let which = (cntlid, qid);
            self.queues.push(match qid % 8 {
                0..4 => unread_reads(target, &who, which, &mut random)?,
                4 | 5 => unread_writes(target, &who, which, &mut random)?,
                6 => half(target, &who, which)?,
                _ => Session::connect(target, &who, (cntlid, qid, 127), Digests::default())?.0.stream,
            });
        }
        Ok(())
    }

    pub(crate) fn connections(&self) -> usize {
        self.admin.len() + self.queues.len() + self.silent.len()
    }

    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }
}

/// A queue with most of a capsule in its receive buffer.
///
/// # Errors
/// Those of the socket.
pub(crate) fn half(target: &Target, who: &Who, (cntlid, qid): (u16, u16)) -> io::Result<TcpStream> {
    let digests = Digests::default();
    let (queue, _) = Session::connect(target, who, (cntlid, qid, 127), digests)?;
    let mut stream = queue.stream;
    let mut compare = blocks(opcode::COMPARE, 1, 0, 32);
    compare.set_sgl(Sgl::in_capsule(16 << 10));
    let bytes = capsule(&compare, &[8; 16 << 10], digests);
    stream.write_all(&bytes[..bytes.len() - 1])?;
    Ok(stream)
}

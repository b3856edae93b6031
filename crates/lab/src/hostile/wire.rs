//! Connections of an attacker: sessions that keep to the protocol, and bytes that do not.

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};
use pumice_nvme::host::{Completion, Connection, Event, Options};
use pumice_nvme::pdu::{Digests, Kind, push, push_with_data};
use pumice_nvme::spec::connect::{DYNAMIC, Data};
use pumice_nvme::spec::property::{cc, csts, offset};
use pumice_nvme::spec::{Cqe, Sqe, Status, opcode};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Bytes of data that a node takes in the capsule of an I/O queue.
pub(crate) const CAPSULE: u32 = 68 << 10;
/// Time for which an attacker waits for an answer before it goes on to something else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// Time for a node to answer a command that it must answer: an attacker that waits longer reports a
/// breach.
pub(crate) const ANSWERED: Duration = Duration::from_secs(30);

/// A node, as its peers see it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddrV4,
    pub(crate) nqn: String,
}

/// A host that an attacker says it is, and the address that it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) from: Ipv4Addr,
    pub(crate) id: [u8; 16],
    pub(crate) nqn: String,
}

impl Who {
    /// Attacker `number`, at the second address of this machine.
    pub(crate) fn new(number: u16) -> Self {
        Self::at(Ipv4Addr::new(127, 0, 0, 2), number)
    }

    /// The same, from another address.
    pub(crate) fn at(from: Ipv4Addr, number: u16) -> Self {
        let mut id = *b"hostile attacker";
        id[14..].copy_from_slice(&number.to_le_bytes());
        Self { from, id, nqn: format!("nqn.2026-11.example:hostile-{number}") }
    }
}

/// Connects, and sends nothing.
///
/// # Errors
/// Those of the socket.
pub(crate) fn open(target: &Target, from: Ipv4Addr) -> io::Result<TcpStream> {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // Ports are taken when the connection is made: there are enough for many connections to one
    // address.
    let _ = setsockopt(&fd, sockopt::IpBindAddressNoPort, &true);
    bind(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0)))?;
    connect(fd.as_raw_fd(), &SockaddrIn::from(target.address))?;
    let stream = TcpStream::from(fd);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Closes with RST, whatever is still on its way.
pub(crate) fn reset(stream: TcpStream) {
    let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(&stream, sockopt::Linger, &at_once);
    drop(stream);
}

/// A command capsule, with data or without.
pub(crate) fn capsule(sqe: &Sqe, data: &[u8], digests: Digests) -> Vec<u8> {
    let mut out = Vec::new();
    if data.is_empty() {
        push(&mut out, Kind::CapsuleCmd, 0, &sqe.0, digests);
    } else {
        let fill = |to: &mut [u8]| {
            to.copy_from_slice(data);
            Ok::<(), Infallible>(())
        };
        let Ok(()) = push_with_data(&mut out, Kind::CapsuleCmd, 0, &sqe.0, digests, data.len(), fill);
    }
    out
}

/// A queue of a host, every byte of which can be bent.
pub(crate) struct Session {
    pub(crate) stream: TcpStream,
    pub(crate) host: Connection,
    /// Bytes to send next.
    pub(crate) out: Vec<u8>,
    pending: Vec<u8>,
    done: VecDeque<Completion>,
}

impl Session {
    /// Connects queue `qid` with room for `depth` commands, and tells the controller.
    ///
    /// # Errors
    /// Those of the socket; that the node refuses is one.
    pub(crate) fn connect(
        target: &Target,
        who: &Who,
        (cntlid, qid, depth): (u16, u16, u16),
        digests: Digests,
    ) -> io::Result<(Self, u16)> {
        let data = Data { hostid: who.id, cntlid, subnqn: target.nqn.clone(), hostnqn: who.nqn.clone() };
        let capsule_data = if qid == 0 { 0 } else { CAPSULE };
        let options = Options { qid, depth, digests, flow_control: true, kato_ms: 0, data, capsule_data };
        let mut out = Vec::new();
        let host = Connection::new(options, &mut out);
        let stream = open(target, who.from)?;
        let mut session = Self { stream, host, out, pending: Vec::new(), done: VecDeque::new() };
        let completion = session.wait()?;
        if completion.status.is_success() {
            Ok((session, completion.result as u16))
        } else {
            Err(io::Error::new(ErrorKind::PermissionDenied, format!("refused: {}", completion.status)))
        }
    }

    /// An association: an admin queue whose controller is enabled, and the controller.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub(crate) fn associate(target: &Target, who: &Who) -> io::Result<(Self, u16)> {
        let (mut admin, cntlid) = Self::connect(target, who, (DYNAMIC, 0, 31), Digests::default())?;
        admin.run(
            property(opcode::fabrics::PROPERTY_SET, offset::CC, cc::ENABLE | cc::ENTRY_SIZES_64_16),
            &[],
            0,
        )?;
        let until = Instant::now() + PATIENCE;
        loop {
            let done = admin.run(property(opcode::fabrics::PROPERTY_GET, offset::CSTS, 0), &[], 0)?;
            if done.result as u32 & csts::READY != 0 {
                return Ok((admin, cntlid));
            }
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// An association with one I/O queue.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub(crate) fn pair(target: &Target, who: &Who, depth: u16) -> io::Result<(Self, Self)> {
        let (admin, cntlid) = Self::associate(target, who)?;
        let (queue, _) = Self::connect(target, who, (cntlid, 1, depth), Digests::default())?;
        Ok((admin, queue))
    }

    /// Sends what is to be sent.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        let done = self.stream.write_all(&self.out);
        self.out.clear();
        done
    }

    /// Takes what comes next, once.
    ///
    /// # Errors
    /// Those of the socket, of which its end is one, and those of the protocol.
    pub(crate) fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        let n = self.stream.read(&mut buffer)?;
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.pending.extend_from_slice(&buffer[..n]);
        let done = &mut self.done;
        let event = |event: Event<'_>| {
            if let Event::Completion(completion) = event {
                done.push_back(completion);
            }
        };
        let (consumed, _) = self
            .host
            .receive(&self.pending, &mut self.out, event)
            .map_err(|violation| io::Error::other(violation.what))?;
        self.pending.drain(..consumed);
        Ok(())
    }

    /// Waits for the next completion.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); a time without any.
    pub(crate) fn wait(&mut self) -> io::Result<Completion> {
        self.wait_for(PATIENCE)
    }

    /// The same, for so long.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(crate) fn wait_for(&mut self, patience: Duration) -> io::Result<Completion> {
        let until = Instant::now() + patience;
        self.stream.set_read_timeout(Some(patience))?;
        loop {
            if !self.out.is_empty() {
                self.send()?;
            }
            if let Some(completion) = self.done.pop_front() {
                return Ok(completion);
            }
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            self.receive()?;
        }
    }

    /// Puts a command behind what is to be sent.
    ///
    /// # Errors
    /// Where the queue is full.
    pub(crate) fn submit(&mut self, sqe: Sqe, data: &[u8], expected: u32) -> io::Result<()> {
        let done = if data.is_empty() {
            self.host.submit_read(sqe, expected, &mut self.out)
        } else {
            self.host.submit(sqe, data, &mut self.out)
        };
        done.map(drop).map_err(|error| io::Error::other(error.to_string()))
    }

    /// Carries out one command, where no other is under way.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(crate) fn run(&mut self, sqe: Sqe, data: &[u8], expected: u32) -> io::Result<Completion> {
        self.submit(sqe, data, expected)?;
        self.wait()
    }
}

/// Answer of a node to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Its completion.
    Done(Status),
    /// Data, or a request for data: the completion comes later.
    Begun,
}

/// Takes what comes, past a host's bookkeeping, until each of these commands has an answer.
///
/// # Errors
/// Those of the socket, of which its end is one; a term request; a time without anything.
pub(crate) fn answers(
    mut stream: &TcpStream,
    cids: impl Iterator<Item = u16>,
) -> io::Result<BTreeMap<u16, Answer>> {
    stream.set_read_timeout(Some(ANSWERED))?;
    let mut missing: Vec<u16> = cids.collect();
    let mut answered = BTreeMap::new();
    while !missing.is_empty() {
        let mut head = [0; 24];
        stream.read_exact(&mut head)?;
        let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        // Of requests and data bytes 8 and 9 name the command, of completions bytes 12 and 13 of
        // what follows the common header.
        let (cid, answer) = match head[0] {
            kind if kind == Kind::CapsuleResp as u8 => {
                let cqe = Cqe::decode(&head[8..]);
                (cqe.cid, Answer::Done(cqe.status))
            }
            kind if kind == Kind::C2hData as u8 || kind == Kind::R2t as u8 => (word(8), Answer::Begun),
            _ => return Err(ErrorKind::ConnectionAborted.into()),
        };
        let plen = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        io::copy(&mut stream.take(plen.saturating_sub(24)), &mut io::sink())?;
        missing.retain(|missing| *missing != cid);
        answered.insert(cid, answer);
    }
    Ok(answered)
}

/// Waits until the node sends a term request, or closes the connection.
///
/// # Errors
/// That neither has happened within [`ANSWERED`].
pub(crate) fn refused(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(ANSWERED))?;
    let mut head = [0; 8];
    loop {
        match stream.read_exact(&mut head) {
            Err(error) if is_late(&error) => return Err(error),
            Err(_) => return Ok(()),
            Ok(()) if head[0] == Kind::C2hTermReq as u8 => return Ok(()),
            Ok(()) => {
                let plen = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
                io::copy(&mut stream.take(plen.saturating_sub(8)), &mut io::sink())?;
            }
        }
    }
}

/// Returns whether an error says that nothing came in time.
pub(crate) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A Property Get or Set.
pub(crate) fn property(kind: u8, at: u32, value: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode::FABRICS, 0);
    sqe.0[4] = kind;
    sqe.set_dword(11, at);
    sqe.set_dword(12, value);
    sqe
}

/// A command of the parity command set: dwords 10 and 12.
pub(crate) fn vendor(code: u8, nsid: u32, dword10: u32, len: usize) -> Sqe {
    let mut sqe = Sqe::new(code, nsid);
    sqe.set_dword(10, dword10);
    sqe.set_dword(12, len as u32);
    sqe
}

/// A command for blocks of 512 bytes.
pub(crate) fn blocks(code: u8, nsid: u32, first: u64, count: u32) -> Sqe {
    let mut sqe = Sqe::new(code, nsid);
    sqe.set_blocks(first, count);
    sqe
}

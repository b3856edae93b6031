//! A layer with all that TLS does to its callers, and no secrecy: frames under a key stream that
//! follows from what each end says first.
//!
//! ```text
//! hello    key 8:8                 what an end says first; nothing else is sent before the peer's has come
//! frame    kind 0:1, len 1:2, len bytes: data under the key stream
//! kind     0 data, 1 a frame of the peer was taken by its reader, 2 goodbye
//! ```
//!
//! At most [`WINDOW`] frames of data are under way: a write waits until the peer has said that it
//! took some, so it has to read; and a read has to write that it did. At most [`MOST_UNSENT`] bytes
//! wait for the socket before no more is taken.

use pumice_remote::transport::{ByteStream, Socket, Stream, Transport};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of data of a frame, at most.
const FRAME: usize = 3000;
/// Frames of data that the peer has not taken, at most.
const WINDOW: usize = 200;
/// Bytes that wait for the socket, beyond which no data are taken.
const MOST_UNSENT: usize = 64 << 10;
/// Bytes of one read of the socket. Small, so that frames come in parts.
const READ: usize = 5000;
const HELLO: usize = 8;
const HEADER: usize = 3;
const DATA: u8 = 0;
const TAKEN: u8 = 1;
const GOODBYE: u8 = 2;

/// Bytes that depend on a key and on their place.
#[derive(Debug)]
struct KeyStream(u64);

impl KeyStream {
    fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte ^= (self.0 >> 56) as u8;
        }
    }
}

/// A stream of frames.
#[derive(Debug)]
pub(crate) struct Toy {
    socket: Socket,
    send: KeyStream,
    /// Known when the peer has said its key.
    receive: Option<KeyStream>,
    /// Bytes from the socket that are no whole frame yet.
    coming: Vec<u8>,
    /// Data of frames, and how much of the first one was read.
    plain: VecDeque<Vec<u8>>,
    read: usize,
    unsent: Vec<u8>,
    /// Frames that may be sent.
    window: usize,
    /// The socket had nothing more at the last look.
    drained: bool,
    ended: bool,
}

impl Toy {
    fn new(socket: Socket) -> Self {
        static KEYS: AtomicU64 = AtomicU64::new(1);
        let key = KEYS.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        Self {
            socket,
            send: KeyStream(key),
            receive: None,
            coming: Vec::new(),
            plain: VecDeque::new(),
            read: 0,
            unsent: key.to_le_bytes().to_vec(),
            window: WINDOW,
            drained: false,
            ended: false,
        }
    }

    fn frame(&mut self, kind: u8, data: &mut [u8]) {
        self.send.apply(data);
        self.unsent.push(kind);
        self.unsent.extend((data.len() as u16).to_le_bytes());
        self.unsent.extend_from_slice(data);
    }

    /// Sends what the socket takes; if it takes nothing, that is for later.
    fn try_flush(&mut self) -> io::Result<()> {
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            done => done,
        }
    }

    /// Reads the socket once, and takes the frames that are whole.
    fn pull(&mut self) -> io::Result<()> {
        let mut bytes = [0; READ];
        let read = self.socket.read(&mut bytes);
        self.drained = matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock);
        let read = read?;
        self.ended |= read == 0;
        self.coming.extend_from_slice(&bytes[..read]);
        if self.receive.is_none() {
            let Some(key) = self.coming.first_chunk::<HELLO>() else { return Ok(()) };
            self.receive = Some(KeyStream(u64::from_le_bytes(*key)));
            self.coming.drain(..HELLO);
        }
        while let Some(&[kind, low, high]) = self.coming.first_chunk::<HEADER>() {
            let len = usize::from(u16::from_le_bytes([low, high]));
            let Some(data) = self.coming.get(HEADER..HEADER + len) else { break };
            let mut data = data.to_vec();
            self.coming.drain(..HEADER + len);
            if let Some(keys) = &mut self.receive {
                keys.apply(&mut data);
            }
            match kind {
                DATA if !data.is_empty() && self.plain.len() < WINDOW => self.plain.push_back(data),
                TAKEN if self.window < WINDOW => self.window += 1,
                GOODBYE => self.ended = true,
                _ => return Err(ErrorKind::InvalidData.into()),
            }
        }
        Ok(())
    }
}

impl ByteStream for Toy {
    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(first) = self.plain.front() {
                let n = into.len().min(first.len() - self.read);
                into[..n].copy_from_slice(&first[self.read..self.read + n]);
                self.read += n;
                if self.read == first.len() {
                    self.plain.pop_front();
                    self.read = 0;
                    self.frame(TAKEN, &mut []);
                    self.try_flush()?;
                }
                return Ok(n);
            }
            if self.ended {
                return Ok(0);
            }
            self.try_flush()?;
            self.pull()?;
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.unsent.len() >= MOST_UNSENT {
            self.flush()?;
        }
        while self.receive.is_none() || self.window == 0 {
            if self.ended {
                return Err(ErrorKind::BrokenPipe.into());
            }
            self.try_flush()?;
            self.pull()?;
        }
        let mut data: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).take(FRAME).collect();
        if data.is_empty() {
            return Ok(0);
        }
        self.window -= 1;
        self.frame(DATA, &mut data);
        self.try_flush()?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let n = self.socket.write_vectored(&[IoSlice::new(&self.unsent)])?;
            self.unsent.drain(..n);
        }
        Ok(())
    }

    fn has_more(&self, _room: usize, _read: usize) -> bool {
        !self.plain.is_empty() || !self.drained
    }

    fn is_entangled(&self) -> bool {
        true
    }

    fn unsent(&self) -> usize {
        self.unsent.len()
    }

    fn held(&self) -> usize {
        self.plain.iter().map(Vec::len).sum::<usize>() + self.coming.len() + self.unsent.len()
    }

    fn close(&mut self) -> io::Result<()> {
        self.frame(GOODBYE, &mut []);
        self.try_flush()?;
        self.socket.shutdown()
    }
}

/// Makes toys.
#[derive(Debug)]
pub(crate) struct Toys;

impl Transport for Toys {
    fn connected(&self, socket: Socket) -> io::Result<Stream> {
        self.accepted(socket)
    }

    fn accepted(&self, socket: Socket) -> io::Result<Stream> {
        Ok(Stream::Layered(Box::new(Toy::new(socket))))
    }
}

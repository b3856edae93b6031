//! Writes whose connection is gone: they never come after what their host writes next.

use crate::world::{PATIENCE, associate, command, host, serve_on};
use pumice_blockdev::{BlockDevice, IoError, MemoryDevice};
use pumice_node::serve::{Drive, Server};
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::opcode::io;
use pumice_remote::initiator::{Command, ConnectOptions, Controller, Queue};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A medium that holds writes until they are let go.
struct Held {
    inner: MemoryDevice,
    /// It is written by the core itself, and holds writes of [`OLD`] alone: the core stands still
    /// meanwhile.
    immediate: bool,
    open: Mutex<bool>,
    opened: Condvar,
    /// Writes that have begun.
    begun: AtomicUsize,
}

/// Bytes of it.
const SIZE: u64 = 16 << 20;
/// The byte that hosts write first.
const OLD: u8 = 0x11;

impl Held {
    fn new(immediate: bool) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryDevice::new("held", SIZE),
            immediate,
            open: Mutex::new(false),
            opened: Condvar::new(),
            begun: AtomicUsize::new(0),
        })
    }

    fn set(&self, open: bool) {
        *self.open.lock().unwrap() = open;
        self.opened.notify_all();
    }
}

impl BlockDevice for Held {
    fn name(&self) -> &str {
        "held"
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn logical_block(&self) -> u32 {
        512
    }

    fn read_only(&self) -> bool {
        false
    }

    fn is_immediate(&self) -> bool {
        self.immediate
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open && (!self.immediate || data[0] == OLD) {
            open = self.opened.wait(open).unwrap();
        }
        self.inner.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }
}

fn write(queue: &mut Queue, blocks: &[u64], value: u8) -> bool {
    let data = [value; 512];
    let mut commands: Vec<Command<'_>> = blocks
        .iter()
        .map(|block| Command { sqe: command(io::WRITE, 1, *block, 1), send: &data, receive: &mut [] })
        .collect();
    queue.run(&mut commands).is_ok_and(|done| done.iter().all(|outcome| outcome.status.is_success()))
}

fn server(held: &Arc<Held>, cores: usize) -> Server {
    let device = Arc::clone(held) as Arc<dyn BlockDevice>;
    serve_on(cores, vec![Drive::with_device(device, 512, "held").unwrap()])
}

/// Options of a host whose deadline is `seconds`.
fn options(server: &Server, number: u8, seconds: u64) -> ConnectOptions {
    ConnectOptions { deadline: Duration::from_secs(seconds), ..host(server, number) }
}

/// Connects a host that may be refused for a while.
fn come_back(server: &Server, number: u8) -> Controller {
    let until = Instant::now() + PATIENCE;
    loop {
        match associate(server.address(), host(server, number)) {
            Ok(controller) => return controller,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    }
}

/// The host comes back by the first core and writes anew by the second, while the medium still
/// holds a write of before; that is let go when there was time enough to do harm.
fn write_anew(server: &Server, held: &Held, blocks: &[u64]) {
    std::thread::scope(|scope| {
        let back = scope.spawn(|| {
            let second = associate(server.address(), host(server, 1)).unwrap();
            let _to_the_second_core = TcpStream::connect(server.address()).unwrap();
            assert!(write(&mut second.queue(1, 64).unwrap(), blocks, 0x22));
        });
        std::thread::sleep(Duration::from_millis(500));
        held.set(true);
        back.join().unwrap();
    });
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_write_of_a_lost_connection_does_not_come_after_the_next_one() {
    let held = Held::new(false);
    let server = server(&held, 1);
    let options = |number, seconds| options(&server, number, seconds);
    // Forty writes, more than there are threads: some are with the medium, others wait. Then the
    // host loses patience.
    let first = associate(server.address(), options(1, 1)).unwrap();
    let mut queue = first.queue(1, 64).unwrap();
    let blocks: Vec<u64> = (0..40).collect();
    assert!(!write(&mut queue, &blocks, OLD));
    let begun = held.begun.load(Ordering::SeqCst);
    assert!(begun > 0 && begun < 40, "{begun}");
    drop(queue);
    drop(first);
    // It may not come back while its writes are with the medium; another host may.
    std::thread::sleep(Duration::from_millis(300));
    assert!(associate(server.address(), options(1, 5)).is_err());
    drop(associate(server.address(), options(2, 5)).unwrap());
    held.set(true);
    let second = come_back(&server, 1);
    assert!(write(&mut second.queue(1, 64).unwrap(), &blocks, 0x22));
    std::thread::sleep(Duration::from_millis(200));
    // What had not begun never does; what had is older than all of the new writes.
    assert_eq!(held.begun.load(Ordering::SeqCst), begun + 40);
    let mut content = vec![0; 40 * 512];
    held.read_at(0, &mut content).unwrap();
    assert!(content.iter().all(|byte| *byte == 0x22));
}

/// To deallocate means to write zeros, for as long as that takes; not when the host is gone, which
/// could not come back until it ends.
#[test]
fn nothing_more_is_deallocated_for_a_host_that_is_gone() {
    let held = Held::new(false);
    let server = server(&held, 1);
    let first = associate(server.address(), options(&server, 1, 1)).unwrap();
    let mut queue = first.queue(1, 16).unwrap();
    let mut list = [0; 16];
    list[4..8].copy_from_slice(&((SIZE / 512) as u32).to_le_bytes());
    let mut sqe = Sqe::new(io::DATASET_MANAGEMENT, 1);
    sqe.set_dword(11, 1 << 2);
    assert!(queue.execute(sqe, &list, &mut []).is_err());
    drop(queue);
    drop(first);
    std::thread::sleep(Duration::from_millis(300));
    held.set(true);
    drop(come_back(&server, 1));
    assert_eq!(held.begun.load(Ordering::SeqCst), 1, "pieces that were written");
}

/// The association ends on one core while another is in the middle of a write that came over it.
/// The host comes back, to the first core, and writes anew.
#[test]
fn a_write_on_another_core_does_not_come_after_the_next_one() {
    let held = Held::new(true);
    let server = server(&held, 2);
    // Connections are dealt to the cores in turn: this is the first core's, its queue the second's.
    let first = associate(server.address(), options(&server, 1, 1)).unwrap();
    let mut stale = first.queue(1, 16).unwrap();
    assert!(!write(&mut stale, &[0], OLD), "the core is held up");
    // The end of the association is seen; the other connection of it is not closed.
    drop(first);
    write_anew(&server, &held, &[0]);
    assert_eq!(held.begun.load(Ordering::SeqCst), 2);
    let mut content = [0; 512];
    held.read_at(0, &mut content).unwrap();
    assert_eq!(content, [0x22; 512]);
}

/// The core that has all of an association stands still, so nobody sees its end; behind the write
/// that it is at there are more. The host comes back by another core.
#[test]
fn what_nobody_has_seen_to_end_does_not_come_after_the_next_one() {
    let held = Held::new(true);
    let server = server(&held, 2);
    let blocks: Vec<u64> = (0..60).collect();
    let mut others = Vec::new();
    let mut skip_a_core = || others.push(TcpStream::connect(server.address()).unwrap());
    skip_a_core();
    let first = associate(server.address(), options(&server, 1, 1)).unwrap();
    skip_a_core();
    let mut stale = first.queue(1, 64).unwrap();
    assert!(!write(&mut stale, &blocks, OLD), "the core is held up");
    drop(stale);
    drop(first);
    write_anew(&server, &held, &blocks);
    let mut content = [0; 60 * 512];
    held.read_at(0, &mut content).unwrap();
    assert!(content.iter().all(|byte| *byte == 0x22));
}

/// Not for ever: a host would rather hear that it has to try again.
#[test]
fn a_core_that_stands_still_ends_new_associations_in_the_end() {
    let held = Held::new(true);
    let server = server(&held, 2);
    let first = associate(server.address(), options(&server, 1, 1)).unwrap();
    assert!(!write(&mut first.queue(1, 16).unwrap(), &[0], OLD), "the second core is held up");
    let refused = associate(server.address(), host(&server, 2)).map(drop).map_err(|e| e.to_string());
    held.set(true);
    // What it had sent was not read: its system may call that a reset.
    let closed = refused.as_ref().is_err_and(|error| error.contains("closed") || error.contains("reset"));
    assert!(closed, "not after the host's own patience: {refused:?}");
    drop(first);
    drop(come_back(&server, 2));
}

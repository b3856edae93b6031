//! A device that loses what it has answered, and goes on: who is told, and by what.

use crate::world::{command, connect, host, run, serve};
use pumice_blockdev::{Asker, BlockDevice, IoError, Lossy, LostWrites, MemoryDevice, Operation};
use pumice_node::serve::Drive;
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use std::io::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Its flushes say who asked, and fail if that is wanted. It loses writes when so much was zeroed.
struct Loses {
    inner: MemoryDevice,
    losses: AtomicU64,
    zeroed: AtomicU64,
    loses_after: u64,
    fails: AtomicU64,
    wrote: Mutex<Vec<[u8; 32]>>,
    flushed: Mutex<Vec<[u8; 32]>>,
    settled: AtomicU64,
}

impl Loses {
    fn new(loses_after: u64) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryDevice::new("loses", 64 << 20),
            losses: AtomicU64::new(0),
            zeroed: AtomicU64::new(0),
            loses_after,
            fails: AtomicU64::new(0),
            wrote: Mutex::default(),
            flushed: Mutex::default(),
            settled: AtomicU64::new(0),
        })
    }
}

impl Lossy for Loses {
    fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    fn writes(&self, asker: &Asker) {
        self.wrote.lock().unwrap().push(asker.host);
    }

    fn flush_of(&self, asker: &Asker) -> Result<(), IoError> {
        self.flushed.lock().unwrap().push(asker.host);
        match self.fails.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(IoError::new("loses", Operation::Flush, 0, 0, Error::other(LostWrites))),
        }
    }

    fn settle(&self) -> Result<(), IoError> {
        self.settled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl BlockDevice for Loses {
    fn name(&self) -> &str {
        "loses"
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

    fn lossy(&self) -> Option<&dyn Lossy> {
        Some(self)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.inner.write_at(offset, data)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let before = self.zeroed.fetch_add(len, Ordering::SeqCst);
        if (before..before + len).contains(&self.loses_after) {
            self.losses.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.zero(offset, len)
    }

    fn flush(&self) -> Result<(), IoError> {
        panic!("nobody is named")
    }
}

fn with_fua(code: u8, blocks: u32) -> Sqe {
    let mut sqe = command(code, 1, 0, blocks);
    sqe.set_control(Sqe::FUA);
    sqe
}

#[test]
fn only_a_flush_of_a_host_tells_it_of_lost_writes() {
    let device = Loses::new(u64::MAX);
    let server = serve(vec![Drive::with_device(Arc::clone(&device) as _, 512, "loses").unwrap()]);
    let (_first, mut a) = connect(&server, host(&server, 1), 16);
    let (_second, mut b) = connect(&server, host(&server, 2), 16);
    assert!(run(&mut a, with_fua(io::WRITE, 1), &[1; 512]).is_success());
    assert!(run(&mut a, with_fua(io::WRITE_ZEROES, 1), &[]).is_success());
    assert_eq!(device.settled.load(Ordering::SeqCst), 2);
    assert!(device.flushed.lock().unwrap().is_empty(), "FUA is no Flush");
    device.fails.store(1, Ordering::SeqCst);
    // A system that tries it once more would hear of success.
    let flush = Sqe::new(io::FLUSH, 1);
    assert_eq!(run(&mut a, flush, &[]), Status::WRITE_FAULT.dnr());
    assert!(run(&mut b, command(io::WRITE, 1, 8, 1), &[2; 512]).is_success());
    device.fails.store(0, Ordering::SeqCst);
    assert!(run(&mut b, flush, &[]).is_success());
    let (wrote, flushed) = (device.wrote.lock().unwrap().clone(), device.flushed.lock().unwrap().clone());
    assert_eq!((wrote[0], wrote[1], wrote[2]), (flushed[0], flushed[0], flushed[1]), "each by its name");
    assert_ne!(flushed[0], flushed[1]);
    server.stop().unwrap();
    assert_eq!(device.settled.load(Ordering::SeqCst), 3, "the end of the server tells nobody either");
}

/// Writes of the first steps are lost. The later steps are carried out, and the command fails.
#[test]
fn zeroes_in_steps_fail_if_writes_are_lost_in_the_middle() {
    let blocks = (16 << 20) / 512;
    for (loses_after, fails) in [(6 << 20, true), (u64::MAX, false)] {
        let device = Loses::new(loses_after);
        let server = serve(vec![Drive::with_device(Arc::clone(&device) as _, 512, "loses").unwrap()]);
        let (_controller, mut queue) = connect(&server, host(&server, 1), 16);
        let status = run(&mut queue, command(io::WRITE_ZEROES, 1, 0, blocks), &[]);
        assert_eq!(status, if fails { Status::WRITE_FAULT } else { Status::SUCCESS });
        assert!(device.zeroed.load(Ordering::SeqCst) >= 16 << 20, "a loss does not cut it short");
        assert!(run(&mut queue, command(io::WRITE_ZEROES, 1, 0, blocks), &[]).is_success());
        server.stop().unwrap();
    }
}

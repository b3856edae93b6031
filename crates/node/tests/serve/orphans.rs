//! Writes whose connection is gone: they never come after what their host writes next.

use crate::world::{PATIENCE, command, connect, host, serve};
use pumice_blockdev::{BlockDevice, IoError, MemoryDevice};
use pumice_initiator::{Command, ConnectOptions, Controller, Queue};
use pumice_node::serve::Drive;
use pumice_nvme::spec::opcode::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A medium that holds every write until it is let go.
struct Held {
    inner: MemoryDevice,
    open: Mutex<bool>,
    opened: Condvar,
    /// Writes that have begun.
    begun: AtomicUsize,
}

impl Held {
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

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
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

#[test]
fn a_write_of_a_lost_connection_does_not_come_after_the_next_one() {
    let held = Arc::new(Held {
        inner: MemoryDevice::new("held", 1 << 20),
        open: Mutex::new(false),
        opened: Condvar::new(),
        begun: AtomicUsize::new(0),
    });
    let device = Arc::clone(&held) as Arc<dyn BlockDevice>;
    let server = serve(vec![Drive::with_device(device, 512, "held").unwrap()]);
    let options =
        |number, seconds| ConnectOptions { deadline: Duration::from_secs(seconds), ..host(&server, number) };
    // Forty writes, more than there are threads: some are with the medium, others wait. Then the host loses patience.
    let (first, mut queue) = connect(&server, options(1, 1), 64);
    let blocks: Vec<u64> = (0..40).collect();
    assert!(!write(&mut queue, &blocks, 0x11));
    let begun = held.begun.load(Ordering::SeqCst);
    assert!(begun > 0 && begun < 40, "{begun}");
    drop(queue);
    drop(first);
    // It may not come back while its writes are with the medium; another host may.
    std::thread::sleep(Duration::from_millis(300));
    assert!(Controller::connect(server.address(), options(1, 5)).is_err());
    drop(Controller::connect(server.address(), options(2, 5)).unwrap());
    held.set(true);
    let until = Instant::now() + PATIENCE;
    let second = loop {
        match Controller::connect(server.address(), host(&server, 1)) {
            Ok(controller) => break controller,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    assert!(write(&mut second.queue(1, 64).unwrap(), &blocks, 0x22));
    std::thread::sleep(Duration::from_millis(200));
    // What had not begun never does; what had is older than all of the new writes.
    assert_eq!(held.begun.load(Ordering::SeqCst), begun + 40);
    let mut content = vec![0; 40 * 512];
    held.read_at(0, &mut content).unwrap();
    assert!(content.iter().all(|byte| *byte == 0x22));
}

//! Work without end, of a host that may have left: nobody else waits for it, and the node can be
//! stopped.

use crate::world::{PATIENCE, associate, command, connect, host, run, serve};
use pumice_blockdev::{BlockDevice, HookedDevice, MemoryDevice};
use pumice_node::serve::{Drive, Server};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire::{self, opcode};
use pumice_offload::{DriveId, Mode, ParityCommand, Rule, Source, Window};
use pumice_remote::initiator::{Command, ConnectOptions, Controller};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

const SIZE: u64 = 64 << 20;
/// Byte at which the slow part of the drive begins.
const SLOW: u64 = 1 << 20;

/// A drive of which reads behind [`SLOW`] take as long as `wait` does; through threads, as files
/// are.
fn drive(wait: impl Fn() + Send + Sync + 'static) -> Drive {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", SIZE));
    let hooked = HookedDevice::over(device).at_reads(move |offset, _| {
        if offset >= SLOW {
            wait();
        }
    });
    Drive::with_device(Arc::new(hooked), 512, "slow").unwrap()
}

/// A check of the chunks of 4 KiB from `base` on: a read for each source of each chunk.
fn check(base: u64, stripes: u64) -> (Sqe, Vec<u8>) {
    let descriptor = wire::encode_command(&ParityCommand {
        unpaced: false,
        sources: vec![Source::Media { drive: DriveId(1), base }],
        chunk: 4096,
        window: Window { start: 0, len: 512 },
        stripes: 0..stripes,
        rule: Rule::sum(1),
        mode: Mode::Check,
    });
    let mut sqe = Sqe::new(opcode::PARITY_EXECUTE, 0);
    sqe.set_dword(10, 1);
    sqe.set_dword(12, descriptor.len() as u32);
    (sqe, descriptor)
}

/// A host that asks for a hundred checks of some minutes each, and waits for none of them.
fn hog(server: &Server, number: u8) -> Controller {
    let options = ConnectOptions { deadline: Duration::from_secs(1), ..host(server, number) };
    let controller = associate(server.address(), options).unwrap();
    let mut queue = controller.queue(1, 127).unwrap();
    let (sqe, descriptor) = check(SLOW, (SIZE - SLOW) / 4096);
    let mut commands: Vec<Command<'_>> =
        (0..100).map(|_| Command { sqe, send: &descriptor, receive: &mut [] }).collect();
    assert!(queue.run(&mut commands).is_err(), "none of them ends within the host's deadline");
    // Its connection stays open: it is told to be broken, and kept.
    std::mem::forget(queue);
    controller
}

fn slow() -> Drive {
    drive(|| std::thread::sleep(Duration::from_millis(10)))
}

/// Four times as many as there are threads, of each of several hosts; and a small one.
#[test]
fn a_hundred_commands_of_one_host_do_not_keep_anothers_waiting() {
    let server = serve(vec![slow()]);
    let _hogs: Vec<Controller> = (1..=3).map(|number| hog(&server, number)).collect();
    let (_controller, mut queue) = connect(&server, host(&server, 9), 8);
    let (sqe, descriptor) = check(0, 16);
    for _ in 0..3 {
        assert_eq!(run(&mut queue, sqe, &descriptor), Status::SUCCESS);
    }
    // Stopped in the middle of all that: within 10 s it is, and it says that all is well.
    server.stop().unwrap();
}

/// The commands of a host that has gone end: their reads do.
#[test]
fn commands_of_a_host_that_has_gone_are_given_up() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let server = serve(vec![drive(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(10));
    })]);
    let options = ConnectOptions { deadline: Duration::from_secs(1), ..host(&server, 1) };
    let controller = associate(server.address(), options).unwrap();
    let mut queue = controller.queue(1, 127).unwrap();
    let (sqe, descriptor) = check(SLOW, (SIZE - SLOW) / 4096);
    assert!(queue.execute(sqe, &descriptor, &mut []).is_err());
    assert!(reads.load(Ordering::Relaxed) > 0);
    drop((queue, controller));
    let until = Instant::now() + PATIENCE;
    let mut before = usize::MAX;
    // Nothing is read any more, half a second long.
    while before != reads.load(Ordering::Relaxed) {
        assert!(Instant::now() < until, "it goes on");
        before = reads.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(before < 15_000, "not because it was at its end: {before}");
}

/// A gate that reads wait at.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn wait(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// A drive that answers nothing more: one host has as many reads there as it may, and another one
/// is served all the same. The node ends in time, and says what did not.
#[test]
fn a_drive_that_hangs_holds_up_neither_other_hosts_nor_the_end() {
    let gate = Arc::new(Gate::default());
    let waits = Arc::clone(&gate);
    let server = serve(vec![drive(move || waits.wait())]);
    let options = ConnectOptions { deadline: Duration::from_secs(1), ..host(&server, 1) };
    let controller = associate(server.address(), options).unwrap();
    let mut queue = controller.queue(1, 127).unwrap();
    let mut into = vec![[0; 512]; 60];
    let mut commands: Vec<Command<'_>> = into
        .iter_mut()
        .map(|receive| Command { sqe: command(io::READ, 1, SLOW / 512, 1), send: &[], receive })
        .collect();
    assert!(queue.run(&mut commands).is_err());
    let (_other, mut other) = connect(&server, host(&server, 2), 8);
    // A block of the part that answers, and what needs no drive.
    assert_eq!(crate::world::read(&mut other, 1, 0, 1).0, Status::SUCCESS);
    let mut page = vec![0; 4096];
    let mut describe = Sqe::new(opcode::DESCRIBE, 0);
    describe.set_dword(12, 4096);
    assert!(other.execute(describe, &[], &mut page).unwrap().status.is_success());
    let (done, stopped) = mpsc::channel();
    std::thread::spawn(move || done.send(server.stop().map_err(|error| error.to_string())));
    let stopped = stopped.recv_timeout(Duration::from_secs(60)).expect("it stops although the drive hangs");
    assert!(stopped.unwrap_err().contains("core0"));
    gate.open();
}

/// Long commands of one host, more than there are threads, on a drive in memory, where there are
/// few.
#[test]
fn long_commands_on_media_let_short_ones_pass() {
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    let server = serve(vec![drive(move || {
        if !ends.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
    })]);
    let options = ConnectOptions { deadline: Duration::from_secs(1), ..host(&server, 1) };
    let controller = associate(server.address(), options).unwrap();
    let mut queue = controller.queue(1, 127).unwrap();
    let verify = || command(io::VERIFY, 1, SLOW / 512, 65_536);
    let mut commands: Vec<Command<'_>> =
        (0..100).map(|_| Command { sqe: verify(), send: &[], receive: &mut [] }).collect();
    assert!(queue.run(&mut commands).is_err());
    let (_other, mut other) = connect(&server, host(&server, 2), 8);
    for _ in 0..10 {
        assert_eq!(run(&mut other, command(io::VERIFY, 1, 0, 2048), &[]), Status::SUCCESS);
    }
    over.store(true, Ordering::Relaxed);
}

/// A core that panics takes the server with it: whoever runs it is told.
#[test]
fn a_core_that_panics_is_told() {
    struct Panics(MemoryDevice);
    impl BlockDevice for Panics {
        fn name(&self) -> &str {
            "panics"
        }
        fn size_bytes(&self) -> u64 {
            self.0.size_bytes()
        }
        fn logical_block(&self) -> u32 {
            512
        }
        fn read_only(&self) -> bool {
            false
        }
        // Carried out by the core itself.
        fn is_immediate(&self) -> bool {
            true
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), pumice_blockdev::IoError> {
            self.0.read_at(offset, buf)
        }
        fn write_at(&self, _: u64, _: &[u8]) -> Result<(), pumice_blockdev::IoError> {
            panic!("as this device does")
        }
        fn flush(&self) -> Result<(), pumice_blockdev::IoError> {
            Ok(())
        }
    }
    let device = Arc::new(Panics(MemoryDevice::new("m", 1 << 16)));
    let server = serve(vec![Drive::with_device(device, 512, "panics").unwrap()]);
    let (failed, why) = mpsc::channel();
    server.on_failure(move |words| failed.send(words).unwrap());
    let (_controller, mut queue) = connect(&server, host(&server, 1), 8);
    assert!(queue.execute(command(io::WRITE, 1, 0, 1), &[1; 512], &mut []).is_err());
    assert_eq!(why.recv_timeout(PATIENCE).unwrap(), "core 0 panicked");
    // What happened before is told to whoever asks later, too.
    server.stop().unwrap();
}

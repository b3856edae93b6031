//! Long commands on media: one call at a time on a drive, by threads that short commands do not
//! need.

use crate::world::{associate, command, connect, host, read, run, serve};
use pumice_blockdev::{BlockDevice, HookedDevice, MemoryDevice};
use pumice_node::serve::{Drive, Server};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_remote::initiator::{Command, ConnectOptions, Controller};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const SIZE: u64 = 64 << 20;
/// The blocks that long commands are for begin here.
const LONG: u64 = 2048;
/// Blocks of a long command: 16 MiB.
const BLOCKS: u32 = 32_768;

/// A drive that is served through threads, as files are.
fn drive(hooks: impl FnOnce(HookedDevice) -> HookedDevice) -> Drive {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", SIZE));
    Drive::with_device(Arc::new(hooks(HookedDevice::over(device))), 512, "long").unwrap()
}

/// Dataset Management of one range, to deallocate it.
fn deallocate() -> (Sqe, Vec<u8>) {
    let mut range = vec![0; 16];
    range[4..8].copy_from_slice(&BLOCKS.to_le_bytes());
    range[8..].copy_from_slice(&LONG.to_le_bytes());
    let mut sqe = Sqe::new(io::DATASET_MANAGEMENT, 1);
    sqe.set_dword(11, 4);
    (sqe, range)
}

/// A call that zeroes part of a file has the file to itself, and waits for reads under way: two at
/// a time, or one beside reads of a long command, would hold short commands up for as long as all
/// of them take.
#[test]
fn long_commands_of_all_hosts_make_one_call_at_a_time_on_a_drive() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let call = {
        let most = Arc::clone(&most);
        move || {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(2));
            now.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let (reads, clears) = (call.clone(), call);
    let server =
        serve(vec![drive(|device| device.at_reads(move |_, _| reads()).at_clears(move |_, _| clears()))]);
    let hosts: Vec<_> = (1..=3)
        .map(|number| {
            let (controller, mut queue) = connect(&server, host(&server, number), 32);
            std::thread::spawn(move || {
                let (manage, range) = deallocate();
                let verify = command(io::VERIFY, 1, LONG, BLOCKS);
                let zeroes = command(io::WRITE_ZEROES, 1, LONG, BLOCKS);
                let mut commands: Vec<Command<'_>> = [verify, zeroes, manage]
                    .into_iter()
                    .cycle()
                    .take(12)
                    .map(|sqe| Command {
                        sqe,
                        send: if sqe.opcode() == io::DATASET_MANAGEMENT { &range } else { &[] },
                        receive: &mut [],
                    })
                    .collect();
                let done = queue.run(&mut commands).unwrap();
                assert!(done.iter().all(|outcome| outcome.status.is_success()));
                drop((queue, controller));
            })
        })
        .collect();
    hosts.into_iter().for_each(|host| host.join().unwrap());
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// A host that asks for more long commands than there are threads, and waits for none of them.
fn ask_for_long_commands(server: &Server, number: u8) -> Controller {
    let options = ConnectOptions { deadline: Duration::from_secs(1), ..host(server, number) };
    let controller = associate(server.address(), options).unwrap();
    let mut queue = controller.queue(1, 64).unwrap();
    let zeroes = command(io::WRITE_ZEROES, 1, LONG, BLOCKS);
    let mut commands: Vec<Command<'_>> =
        (0..60).map(|_| Command { sqe: zeroes, send: &[], receive: &mut [] }).collect();
    assert!(queue.run(&mut commands).is_err(), "none of them ends within the host's deadline");
    std::mem::forget(queue);
    controller
}

/// A call of a long command takes for ever: the same host's reads and writes, of the same drive,
/// are answered meanwhile, and so are another's.
#[test]
fn a_long_command_under_way_holds_up_no_short_one() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = Arc::clone(&gate);
    let server = serve(vec![drive(|device| {
        device.at_clears(move |_, _| {
            let mut open = waits.0.lock().unwrap();
            while !*open {
                open = waits.1.wait(open).unwrap();
            }
        })
    })]);
    let _long = ask_for_long_commands(&server, 1);
    for number in [1, 2] {
        let (_controller, mut queue) = connect(&server, host(&server, number), 8);
        assert_eq!(run(&mut queue, command(io::WRITE, 1, 0, 8), &[number; 4096]), Status::SUCCESS);
        assert_eq!(read(&mut queue, 1, 0, 8), (Status::SUCCESS, vec![number; 4096]));
    }
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
}

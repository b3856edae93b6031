//! More answers than a connection keeps, or than a core sends in one round: the rest waits, and
//! comes.

use crate::world::{command, connect, host, serve};
use pumice_blockdev::{BlockDevice, HookedDevice, MemoryDevice};
use pumice_node::serve::{Backend, Drive};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io;
use pumice_remote::initiator::{Command, ConnectOptions};
use std::sync::{Arc, Barrier};

#[test]
fn answers_past_the_bound_come_in_their_turn() {
    const MIB: usize = 1 << 20;
    let server = serve(vec![Drive::open(&Backend::Memory(8 << 20), 512, "node", 1).unwrap()]);
    // With digests the data are copied, and wait in the connection; without, they wait in the
    // drive.
    for digests in [Digests { header: true, data: true }, Digests::default()] {
        let (_controller, mut queue) = connect(&server, ConnectOptions { digests, ..host(&server, 3) }, 64);
        for i in 0..8_u8 {
            let sqe = command(io::WRITE, 1, u64::from(i) * 2048, 2048);
            assert!(queue.execute(sqe, &vec![i + 1; MIB], &mut []).unwrap().status.is_success());
        }
        let mut out = vec![0; 60 * MIB];
        let mut commands: Vec<Command<'_>> = out
            .chunks_mut(MIB)
            .enumerate()
            .map(|(i, receive)| Command {
                sqe: command(io::READ, 1, i as u64 % 8 * 2048, 2048),
                send: &[],
                receive,
            })
            .collect();
        assert!(queue.run(&mut commands).unwrap().iter().all(|done| done.status.is_success()));
        let right = |(i, piece): (usize, &[u8])| piece.iter().all(|byte| *byte == (i % 8) as u8 + 1);
        assert!(out.chunks(MIB).enumerate().all(right));
    }
}

/// Eight reads of 1 MiB end at the same moment: twice as much as a core answers in one round. All
/// of it comes, and is what was read, whether it is copied (with digests) or sent from where it was
/// read to.
#[test]
fn answers_past_a_round_come_in_the_next() {
    const MIB: usize = 1 << 20;
    const READS: usize = 8;
    let content: Vec<u8> = (0..READS * MIB).map(|i| (i / 4096 % 251) as u8 ^ (i / MIB) as u8).collect();
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::with_content("m", content.clone()));
    let all = Arc::new(Barrier::new(READS));
    let wait = Arc::clone(&all);
    let hooked = HookedDevice::over(device).at_reads(move |_, bytes| {
        if bytes.len() == MIB {
            wait.wait();
        }
    });
    let server = serve(vec![Drive::with_device(Arc::new(hooked), 512, "m").unwrap()]);
    for digests in [Digests { header: true, data: true }, Digests::default()] {
        for flow_control in [true, false] {
            let options = ConnectOptions { digests, flow_control, ..host(&server, 3) };
            let (_controller, mut queue) = connect(&server, options, 64);
            let mut out = vec![0; READS * MIB];
            let mut commands: Vec<Command<'_>> = out
                .chunks_mut(MIB)
                .enumerate()
                .map(|(i, receive)| Command {
                    sqe: command(io::READ, 1, i as u64 * 2048, 2048),
                    send: &[],
                    receive,
                })
                .collect();
            assert!(queue.run(&mut commands).unwrap().iter().all(|done| done.status.is_success()));
            assert!(out == content);
            // Answers that are copied, and those that are just too long for that.
            for blocks in [1, 8, 9, 16, 100] {
                let mut piece = vec![0; blocks * 512];
                let read = command(io::READ, 1, 3, blocks as u32);
                assert!(queue.execute(read, &[], &mut piece).unwrap().status.is_success());
                assert!(piece == content[3 * 512..][..blocks * 512], "{blocks} blocks");
            }
        }
    }
}

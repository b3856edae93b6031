//! More answers than a connection keeps: the rest waits, and comes.

use crate::world::{command, connect, host, serve};
use pumice_initiator::{Command, ConnectOptions};
use pumice_node::serve::{Backend, Drive};
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::opcode::io;

#[test]
fn answers_past_the_bound_come_in_their_turn() {
    const MIB: usize = 1 << 20;
    let server = serve(vec![Drive::open(&Backend::Memory(8 << 20), 512, "node", 1).unwrap()]);
    // With digests the data are copied, and wait in the connection; without, they wait in the drive.
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

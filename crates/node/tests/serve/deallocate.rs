//! Dataset Management: only what is to be deallocated is, and an empty range harms nobody.

use crate::world::{command, connect, host, read, run, serve};
use pumice_initiator::Queue;
use pumice_node::serve::{Backend, Drive};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};

fn manage(queue: &mut Queue, attributes: u32, first: u64, blocks: u32) -> Status {
    let mut list = vec![0; 16];
    list[4..8].copy_from_slice(&blocks.to_le_bytes());
    list[8..].copy_from_slice(&first.to_le_bytes());
    let mut sqe = Sqe::new(io::DATASET_MANAGEMENT, 1);
    sqe.set_dword(11, attributes);
    run(queue, sqe, &list)
}

#[test]
fn hints_and_empty_ranges_change_nothing() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    assert_eq!(run(&mut queue, command(io::WRITE, 1, 0, 8), &[7; 4096]), Status::SUCCESS);
    // Will be read, will be written: hints. Deallocate nothing, more often than there are threads.
    for (attributes, blocks) in [(1, 8), (2, 8), (0, 8), (4, 0), (4, 0), (4, 0)] {
        assert_eq!(manage(&mut queue, attributes, 0, blocks), Status::SUCCESS);
        assert!(
            read(&mut queue, 1, 0, 8).1.iter().all(|b| *b == 7),
            "attributes {attributes}, {blocks} blocks"
        );
    }
    assert_eq!(manage(&mut queue, 4, 2, 3), Status::SUCCESS);
    let (_, content) = read(&mut queue, 1, 0, 8);
    assert!(content[1024..2560].iter().all(|b| *b == 0), "these were deallocated");
    assert!(content[..1024].iter().chain(&content[2560..]).all(|b| *b == 7), "and no others");
}

//! What a controller says of errors: its log of them, and the warnings of the health page.

use crate::pair::{HostQueue, admin, options};
use crate::replay::{feature, log};
use crate::world::{BLOCKS, PLAIN, Target};
use pumice_nvme::spec::{Sqe, Status, opcode};
use pumice_nvme::target::Limits;

#[test]
fn errors_of_commands_without_a_block_name_none() {
    let mut target = Target::new(Limits::default());
    let (mut admin, cntlid) = admin(&mut target, PLAIN, true, &[1 << 20]);
    let mut io = HostQueue::connect(&mut target, options(1, cntlid, PLAIN, true), &[1 << 20]);
    // An opcode that is not known, one of the vendor's that is not, ranges of no namespace, and a read past the end: that alone has a block.
    for (code, nsid) in
        [(0x7D, 1), (0xFC, 1), (opcode::io::DATASET_MANAGEMENT, 9), (opcode::io::WRITE_ZEROES, 1)]
    {
        let mut sqe = Sqe::new(code, nsid);
        sqe.set_blocks(BLOCKS + 5 + (1 << 32), 1);
        assert!(!io.write(&mut target, sqe, &[]).status.is_success(), "{code:#04x}");
    }
    let page = admin.read(&mut target, log(1, 256, 0), 256).unwrap();
    let lba = |entry: usize| u64::from_le_bytes(page[entry * 64 + 16..entry * 64 + 24].try_into().unwrap());
    assert_eq!((0..4).map(lba).collect::<Vec<_>>(), [BLOCKS + 5 + (1 << 32), 0, 0, 0]);
}

#[test]
fn a_failing_drive_is_a_critical_warning_and_an_event() {
    let mut target = Target::new(Limits::default());
    let (mut admin, _) = admin(&mut target, PLAIN, true, &[1 << 20]);
    assert!(
        admin.write(&mut target, feature(opcode::admin::SET_FEATURES, 0x0B, 1 << 2), &[]).status.is_success()
    );
    let health =
        |target: &mut Target, queue: &mut HostQueue| queue.read(target, log(2, 512, 0), 512).unwrap()[0];
    assert_eq!(health(&mut target, &mut admin), 0);
    target.shared.0.borrow_mut().set_media_warnings(0b1100);
    // Said again, it is no news.
    target.shared.0.borrow_mut().set_media_warnings(0b1100);
    admin.connection.submit(Sqe::new(opcode::admin::ASYNC_EVENT, 0), &[], &mut admin.out).unwrap();
    admin.run(&mut target, 0);
    let events: Vec<u64> = admin
        .completions
        .drain(..)
        .map(|done| {
            assert_eq!(done.status, Status::SUCCESS);
            done.result
        })
        .collect();
    assert_eq!(events, [1 | 2 << 16], "health, the reliability of the subsystem");
    assert_eq!(health(&mut target, &mut admin), 0b1100);
}

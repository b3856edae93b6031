use super::*;
use crate::superblocks::written_by_format;
use pumice_blockdev::MemoryDevice;
use pumice_nvme::controller::{Identity, Limits, Subsystem};
use pumice_offload::{DriveMemory, PaceRequest};
use pumice_raid::Metadata;
use std::sync::Mutex;

fn node(memory_bytes: u64) -> (Offload, SharedSubsystem) {
    let name = "nqn.2026-11.example:node";
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 4096));
    let watch = WriteWatch::new([4096], 1);
    let options = NodeOptions { memory_bytes, ..NodeOptions::default() };
    let offload = Offload::new(name, vec![device], options, Vec::new(), watch);
    let (serial, model, firmware) = ("1".to_owned(), "m".to_owned(), "1".to_owned());
    let identity = Identity { nqn: name.parse().unwrap(), serial, model, firmware };
    let subsystem = Subsystem::new(identity, Limits::default(), Vec::new());
    (offload, SharedSubsystem(Arc::new(Mutex::new(subsystem))))
}

#[test]
fn what_does_not_fit_is_not_done_in_part() {
    let (offload, subsystem) = node(2 * MAX_MOVE);
    let sender = Sender { queue: QueueId { core: 0, connection: 7 }, cntlid: 1 };
    let mut lease = Sqe::new(opcode::MEMORY_LEASE, 1);
    lease.set_dword(12, 2 * MAX_MOVE as u32);
    assert!(offload.execute(sender, &lease, &[], &subsystem, 0, &|| true).status.is_success());
    let mut sqe = Sqe::new(opcode::MEMORY_FILL, 1);
    sqe.set_dword(13, 7);
    for (len, status, first) in
        [(2 * MAX_MOVE + 1, Status::INVALID_FIELD.dnr(), 0), (2 * MAX_MOVE, Status::SUCCESS, 7)]
    {
        sqe.set_dword(12, len as u32);
        assert_eq!(offload.execute(sender, &sqe, &[], &subsystem, 0, &|| true).status, status);
        let mut there = [1];
        offload.node.memory_read(MemoryAddress { drive: DriveId(1), offset: 0 }, &mut there).unwrap();
        assert_eq!(there, [first]);
    }
}

/// A number comes again after some 65,000 associations, those of discovery counted.
#[test]
fn a_clean_superblock_ends_with_its_association_though_the_number_comes_again() {
    const SIZE: u64 = 8 << 20;
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", SIZE));
    let watch = WriteWatch::new([SIZE], 1);
    let name = "nqn.2026-11.example:node";
    let offload = Offload::new(name, vec![device], NodeOptions::default(), Vec::new(), Arc::clone(&watch));
    for (offset, bytes) in written_by_format(Metadata::V1_2, SIZE) {
        watch.superblocks()[0].written(7, offset, &bytes);
    }
    let clean = || watch.superblocks()[0].remembered().iter().any(|(.., clean)| clean.is_some());
    offload.sweep(|cntlid| cntlid == 7);
    assert!(clean(), "it stands");
    offload.sweep(|_| false);
    assert!(!clean(), "controller 7 is another host's from now on");
}

#[test]
fn no_result_is_kept_for_a_queue_that_is_gone() {
    let (offload, subsystem) = node(4096);
    let queue = QueueId { core: 0, connection: 7 };
    // No descriptor: what is kept is why not.
    let mut sqe = Sqe::new(opcode::PARITY_EXECUTE, 0);
    sqe.set_dword(12, 4);
    for (wanted, kept) in [(true, 1), (false, 0)] {
        let sender = Sender { queue, cntlid: 1 };
        let answered = offload.execute(sender, &sqe, &[0; 4], &subsystem, 0, &|| wanted);
        assert_eq!(answered.status, if wanted { Status::INVALID_FIELD.dnr() } else { Status::ABORTED });
        assert_eq!(offload.results_used().of_queue, kept);
        offload.forget(queue);
    }
}

/// A command that was under way when its association ended, and asked for a pace only then.
#[test]
fn a_pace_of_an_association_that_has_ended_does_not_stay() {
    let (offload, subsystem) = node(4096);
    let request = PaceRequest { rate: Some(1 << 20), ..PaceRequest::default() };
    let bytes = wire::encode_pace(&request);
    let mut sqe = Sqe::new(opcode::PACE, 0);
    sqe.set_dword(12, bytes.len() as u32);
    let sender = Sender { queue: QueueId { core: 0, connection: 7 }, cntlid: 1 };
    assert!(offload.execute(sender, &sqe, &bytes, &subsystem, 0, &|| true).status.is_success());
    assert_eq!(offload.pacing().askers(), 0, "no controller 1 stands");
    assert!(!offload.pacing().is_active());
}

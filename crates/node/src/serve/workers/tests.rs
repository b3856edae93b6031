use super::*;
use crate::NodeOptions;
use crate::serve::SharedSubsystem;
use crate::serve::access::{HostFaces, HostTable};
use crate::serve::offload::Offload;
use crate::serve::results::QueueId;
use crate::serve::shared::Gate;
use crate::watch::WriteWatch;
use mio::{Poll, Token, Waker};
use pumice_blockdev::MemoryDevice;
use pumice_nvme::controller::{Identity, Limits, Subsystem};
use pumice_remote::transport::Plain;
use std::net::Ipv4Addr;
use std::sync::Mutex;

/// A server with one drive, and nothing that runs.
pub(in crate::serve) fn shared() -> Arc<Shared> {
    shared_with(4096)
}

/// The same with a drive of so many bytes.
pub(in crate::serve) fn shared_with(size: u64) -> Arc<Shared> {
    let name = "nqn.2026-11.example:node";
    let devices: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(MemoryDevice::new("m", size))];
    let watch = WriteWatch::new([size], 1);
    let options = NodeOptions { memory_bytes: 4096, ..NodeOptions::default() };
    let offload = Offload::new(name, devices.clone(), options, Vec::new(), Arc::clone(&watch));
    let (serial, model, firmware) = ("1".to_owned(), "m".to_owned(), "1".to_owned());
    let identity = Identity { nqn: name.parse().unwrap(), serial, model, firmware };
    let subsystem = Subsystem::new(identity, Limits::default(), Vec::new());
    let subsystem = SharedSubsystem(Arc::new(Mutex::new(subsystem)));
    let gate =
        Gate { access: Arc::new(HostTable::of_faces(HostFaces::default())), transport: Arc::new(Plain) };
    Arc::new(Shared::new(1, subsystem, Limits::default(), Vec::new(), gate, offload, watch))
}

/// A command of connection 7 that does nothing yet.
fn job(host: HostKey, op: Op) -> Job {
    let poll = Poll::new().unwrap();
    let core = CoreHandle::new(Waker::new(poll.registry(), Token(0)).unwrap());
    Job { at_once: 1 << 20, ..Job::new(Ticket { connection: 7, slot: 0 }, core, host, op) }
}

/// A read of the first 512 bytes of a drive.
pub(in crate::serve) fn read(host: HostKey, device: Arc<dyn BlockDevice>) -> Job {
    Job { devices: vec![device], len: 512, ..job(host, Op::Read) }
}

/// A short command that still waited for its thread when its connection was closed: what its
/// association had is given back, and nothing is taken in its name any more.
#[test]
fn a_short_command_of_a_connection_that_is_gone_is_not_carried_out() {
    let shared = shared();
    for (gone, status) in [(false, Status::SUCCESS), (true, Status::ABORTED)] {
        let mut command = Sqe::new(opcode::MEMORY_LEASE, 1);
        command.set_dword(12, 4096);
        let queue = QueueId { core: 0, connection: 7 };
        let sender = Sender { queue, cntlid: 1 };
        let (shared, data) = (Arc::clone(&shared), Vec::new());
        let offload = Some(OffloadJob { shared, sender, command, data, sends: false });
        let host = HostKey::new(Ipv4Addr::LOCALHOST.into(), [1; 16]);
        let job = Job { gone: Arc::new(AtomicBool::new(gone)), offload, ..job(host, Op::Vendor) };
        let Carried::Done(done) = carry_out(job) else { panic!("a short command has no parts") };
        assert_eq!(done.status, status, "gone: {gone}");
    }
}

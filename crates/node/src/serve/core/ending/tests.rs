//! Rounds, and the end of connections of a core that runs.

use super::*;
use crate::serve::lanes::Lanes;
use crate::serve::shared::Shared;
use crate::serve::workers::tests::shared_with;
use crate::superblocks::written_by_format;
use mio::net::TcpListener;
use pumice_nvme::pdu::Digests;
use pumice_raid::Metadata;
use pumice_remote::initiator::{ConnectOptions, Controller};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Ends that are seen later do not hold a round up, however many there are.
#[test]
fn a_round_waits_for_those_that_were_over_before_it() {
    let mut ending = Ending::default();
    let add = |ending: &mut Ending, number| ending.add(number, &mut false);
    (0..3).for_each(|number| add(&mut ending, number));
    assert!(ending.begin(7) && !ending.begin(8), "one at a time");
    for number in 0..3 {
        assert_eq!(ending.step(), Step::Wait);
        add(&mut ending, 100 + number);
        assert_eq!(ending.take(), Some(number), "the first to end is closed first");
    }
    assert_eq!(ending.step(), Step::Search);
    add(&mut ending, 3);
    ending.searched();
    // Those that ended meanwhile, and those that were found.
    for number in [100, 101, 102, 3] {
        assert_eq!(ending.step(), Step::Wait);
        add(&mut ending, 200);
        assert_eq!(ending.take(), Some(number));
    }
    assert_eq!(ending.step(), Step::Made(7));
    assert_eq!(ending.step(), Step::Wait);
    assert!(ending.is_under_way() && ending.begin(8), "the next one may begin");
}

#[test]
fn a_connection_is_closed_once() {
    let (mut ending, mut mark) = (Ending::default(), false);
    ending.add(1, &mut mark);
    ending.add(1, &mut mark);
    assert_eq!((ending.take(), ending.take()), (Some(1), None));
    assert!(ending.begin(1));
    assert_eq!(ending.step(), Step::Search);
    ending.searched();
    assert_eq!(ending.step(), Step::Made(1));
    assert!(!ending.is_under_way());
}

/// Ends what runs, also if the test fails.
struct Stop<'a>(&'a Shared);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Only the end of an association is looked for in what all associations hold: connections come and
/// go by the thousand, and a host has up to 64 queues.
#[test]
fn the_end_of_a_connection_that_is_no_association_sweeps_nothing() -> io::Result<()> {
    const SIZE: u64 = 8 << 20;
    let shared = shared_with(SIZE);
    // What controller 700 has written stays until somebody looks whether it stands: it does not.
    for (offset, bytes) in written_by_format(Metadata::V1_2, SIZE) {
        shared.watch().superblocks()[0].written(700, offset, &bytes);
    }
    let unswept = || shared.watch().superblocks()[0].remembered().iter().any(|(.., clean)| clean.is_some());
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    let lanes = Arc::new(Lanes::start(&shared, 1)?);
    let mut core = Core::new(0, Arc::clone(&shared), lanes, Duration::ZERO)?;
    shared.rounds().tell(vec![core.handle()]);
    core.listen(vec![listener], vec![core.handle()])?;
    let until = |connections: usize| {
        let patience = Instant::now() + Duration::from_secs(60);
        while shared.connections() != connections {
            assert!(Instant::now() < patience, "{} connections", shared.connections());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    std::thread::scope(|scope| {
        let running = scope.spawn(move || core.run());
        let stop = Stop(&shared);
        let options = ConnectOptions {
            subsystem: "nqn.2026-11.example:node".parse().expect("a name"),
            host: "nqn.2026-11.example:host".parse().expect("a name"),
            hostid: [1; 16],
            digests: Digests::default(),
            flow_control: true,
            deadline: Duration::from_secs(60),
        };
        let controller = Controller::connect(address, options).expect("the node answers");
        let queues: Vec<_> = (1..=3).map(|qid| controller.queue(qid, 32).expect("a queue")).collect();
        let strangers: Vec<_> = (0..3).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
        until(1 + queues.len() + strangers.len());
        drop(strangers);
        until(1 + queues.len());
        drop(queues);
        until(1);
        assert!(unswept(), "strangers and I/O queues have nothing that others would have to be asked for");
        drop(controller);
        until(0);
        assert!(!unswept(), "an association has");
        drop(stop);
        running.join().expect("the core runs to its end")
    })
}

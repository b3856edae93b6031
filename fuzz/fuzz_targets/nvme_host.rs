//! Any bytes that a controller may send to a host with commands in flight.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_nvme::host::{Connection, Event, Options};
use pumice_nvme::pdu::{Digests, IcResp, Kind, push};
use pumice_nvme::spec::connect::{DYNAMIC, Data};
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_nvme::spec::{Cqe, Sqe, Status};

fuzz_target!(|data: &[u8]| {
    let digests = Digests::default();
    let options = Options {
        qid: 1,
        depth: 8,
        digests,
        flow_control: true,
        kato_ms: 0,
        data: Data {
            hostid: [1; 16],
            cntlid: DYNAMIC,
            subnqn: "nqn.x".to_owned(),
            hostnqn: "nqn.y".to_owned(),
        },
        capsule_data: 0,
    };
    let mut out = Vec::new();
    let mut host = Connection::new(options, &mut out);
    let mut bytes = IcResp { cpda: 0, digests, maxh2cdata: 4096 }.encode().to_vec();
    let connected = Cqe { result: 1, sqhd: 1, cid: 0, status: Status::SUCCESS };
    push(&mut bytes, Kind::CapsuleResp, 0, &connected.encode(), digests);
    host.receive(&bytes, &mut out, |_| {}).unwrap();
    for i in 0..4 {
        host.submit_read(Sqe::new(2, 1), 4096, &mut out).unwrap();
        host.submit(Sqe::new(1, 1), &vec![i; 8192], &mut out).unwrap();
    }
    out.clear();
    let mut come = 0;
    let done = host.receive(data, &mut out, |event| {
        if let Event::Data { offset, data, .. } = event {
            assert!(offset as usize + data.len() <= 4096, "no more than the command expects");
            come += data.len();
        }
    });
    assert!(done.is_ok() || !host.is_live());
    assert!(come <= 4 * 4096 * (1 + data.len() / 24), "bounded");
    data.chunks(1024).for_each(|record| drop(DiscoveryEntry::decode(record)));
});

//! Reports of a node about itself: the counters over HTTP, and the log.

use crate::world::{PATIENCE, associate, command, connect, host, read, run, serve};
use pumice_node::serve::{Backend, Drive, Server};
use pumice_nvme::pdu::{Digests, IcReq, Kind, push};
use pumice_nvme::spec::opcode::io;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire;
use pumice_offload::{DriveId, Grant, Mode, PaceRequest, ParityCommand, Rule, Source, Window};
use pumice_remote::initiator::ConnectOptions;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tracing::field::{Field, Visit};

fn ask(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.metrics_address().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The counters, by name and labels.
fn counters(server: &Server) -> HashMap<String, f64> {
    let answer = ask(server, "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("application/openmetrics-text"),
        "{head}"
    );
    assert!(head.contains(&format!("Content-Length: {}", body.len())) && body.ends_with("# EOF\n"));
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.parse().unwrap())).unwrap()
        })
        .collect()
}

fn vendor(opcode: u8, nsid: u32, dword10: u32, len: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode, nsid);
    sqe.set_dword(10, dword10);
    sqe.set_dword(12, len);
    sqe
}

#[test]
fn the_counters_are_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk \"one\"");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let server = serve(vec![
        Drive::open(&Backend::Path(path), 512, "node", 1).unwrap().keep_marks(folder.path()).unwrap(),
        Drive::open(&Backend::Memory(1 << 20), 512, "node", 2).unwrap(),
    ]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    for nsid in [1, 2] {
        for first in 0..5 {
            assert_eq!(run(&mut queue, command(io::WRITE, nsid, first, 2), &[1; 1024]), Status::SUCCESS);
        }
        assert!(read(&mut queue, nsid, 0, 8).0.is_success());
        assert_eq!(run(&mut queue, command(io::WRITE_ZEROES, nsid, 16, 64), &[]), Status::SUCCESS);
        assert_eq!(run(&mut queue, Sqe::new(io::FLUSH, nsid), &[]), Status::SUCCESS);
    }
    assert_eq!(run(&mut queue, command(io::WRITE_UNCORRECTABLE, 1, 100, 1), &[]), Status::SUCCESS);
    assert!(!read(&mut queue, 1, 100, 1).0.is_success());
    let counters = counters(&server);
    let of = |name: &str| counters.get(name).copied().unwrap_or_else(|| panic!("no {name} in {counters:#?}"));
    for drive in [1, 2] {
        let of = |name: &str, class: &str| {
            of(&format!("pumice_io_{name}_total{{drive=\"{drive}\",class=\"{class}\"}}"))
        };
        assert_eq!(
            (of("commands", "write"), of("bytes", "write"), of("errors", "write")),
            (5.0, 5.0 * 1024.0, 0.0)
        );
        assert_eq!((of("commands", "clear"), of("bytes", "clear")), (1.0, 64.0 * 512.0));
        assert_eq!(of("commands", "flush"), 1.0);
        assert_eq!(
            (of("commands", "read"), of("errors", "read")),
            if drive == 1 { (2.0, 1.0) } else { (1.0, 0.0) }
        );
    }
    // What waits for a medium is timed; what a core does at once is not.
    assert_eq!(of("pumice_io_seconds_count{drive=\"1\",class=\"write\"}"), 5.0);
    assert_eq!(of("pumice_io_seconds_bucket{le=\"+Inf\",drive=\"1\",class=\"write\"}"), 5.0);
    assert!(of("pumice_io_seconds_sum{drive=\"1\",class=\"write\"}") > 0.0);
    assert!(!counters.contains_key("pumice_io_seconds_count{drive=\"2\",class=\"write\"}"));
    assert_eq!(of("pumice_drive_info{drive=\"1\",name=\"disk \\\"one\\\"\"}"), 1.0);
    assert_eq!(
        (of("pumice_associations"), of("pumice_connections"), of("pumice_drive_failed{drive=\"1\"}")),
        (1.0, 2.0, 0.0)
    );
    assert_eq!(
        (of("pumice_budget_used{budget=\"connections\"}"), of("pumice_budget_limit{budget=\"connections\"}")),
        (2.0, 4096.0)
    );
}

/// Counters of a flash drive are shown, by the names that the page lists and no others; a plain
/// drive of the same node has none of them.
#[test]
fn what_a_flash_drive_did_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let spec = format!("flash:{},capacity=4MiB,dedup=inline", folder.path().join("f").display());
    let server = serve(vec![
        Drive::open(&Backend::Memory(1 << 20), 4096, "node", 1).unwrap(),
        Drive::open(&spec.parse().unwrap(), 4096, "node", 2).unwrap(),
    ]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    for page in 0..8 {
        assert_eq!(run(&mut queue, command(io::WRITE, 2, page, 1), &[page as u8 / 2; 4096]), Status::SUCCESS);
    }
    assert_eq!(run(&mut queue, command(io::WRITE_ZEROES, 2, 0, 1), &[]), Status::SUCCESS);
    let counters = counters(&server);
    let of = |name: &str| {
        let (name, labels) =
            name.split_once(',').map_or((name, String::new()), |(n, l)| (n, format!(",{l}")));
        let line = format!("pumice_flash_{name}{{drive=\"2\"{labels}}}");
        counters.get(&line).copied().unwrap_or_else(|| panic!("no {line} in {counters:#?}"))
    };
    assert_eq!((of("host_pages_total"), of("programs_total,reason=\"hosts\"")), (8.0, 4.0));
    assert_eq!((of("merges_total,when=\"write\""), of("merges_total,when=\"idle\"")), (4.0, 0.0));
    assert_eq!((of("mapped_pages"), of("live_pages"), of("write_amplification")), (7.0, 4.0, 0.5));
    assert!(of("blocks,state=\"free\"") > 10.0 && of("blocks,state=\"used\"") >= 1.0);
    assert_eq!(of("blocks,state=\"retired\""), 0.0);
    assert!(of("block_erases,of=\"least\"") <= of("block_erases,of=\"mean\""));
    assert!(of("block_erases,of=\"mean\"") <= of("block_erases,of=\"most\""));
    let page = include_str!("../../../../docs/reference/visibility.md");
    let is_one = |name: &&str| name.starts_with("pumice_flash_");
    let listed: BTreeSet<&str> = page.split('`').skip(1).step_by(2).filter(is_one).collect();
    let shown: BTreeSet<&str> =
        counters.keys().filter_map(|key| key.split('{').next()).filter(is_one).collect();
    assert_eq!(shown, listed);
    assert!(!counters.keys().any(|key| key.starts_with("pumice_flash") && key.contains("drive=\"1\"")));
}

/// Two drives that are to be the same, and are not in three of sixteen stripes.
#[test]
fn parity_commands_their_suspects_and_the_age_of_checks_are_counted() {
    let drive = |n| Drive::open(&Backend::Memory(1 << 20), 512, "node", n).unwrap();
    let server = serve(vec![drive(1), drive(2)]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    for stripe in [2_u64, 7, 15] {
        assert_eq!(run(&mut queue, command(io::WRITE, 1, stripe * 128, 1), &[1; 512]), Status::SUCCESS);
    }
    assert!(!counters(&server).contains_key("pumice_unchecked_seconds{drive=\"1\"}"), "never checked");
    let mut parity = ParityCommand {
        unpaced: false,
        sources: [1, 2].map(|n| Source::Media { drive: DriveId(n), base: 0 }).to_vec(),
        chunk: 65_536,
        window: Window { start: 0, len: 65_536 },
        stripes: 0..16,
        rule: Rule::sum(2),
        mode: Mode::Check,
    };
    let mut tag = 0;
    let mut execute = |parity: &ParityCommand| {
        tag += 1;
        let bytes = wire::encode_command(parity);
        let mut sqe = Sqe::new(wire::opcode::PARITY_EXECUTE, 0);
        sqe.set_dword(10, tag);
        sqe.set_dword(12, bytes.len() as u32);
        run(&mut queue, sqe, &bytes)
    };
    assert_eq!(execute(&parity), Status::SUCCESS);
    parity.sources.push(Source::Media { drive: DriveId(9), base: 0 });
    parity.rule = Rule::sum(3);
    assert!(!execute(&parity).is_success());
    let counters = counters(&server);
    let of = |name: &str| counters[&format!("pumice_parity_{name}_total")];
    assert_eq!((of("commands"), of("failed"), of("stripes"), of("suspects")), (2.0, 1.0, 16.0, 3.0));
    assert_eq!((of("unreadable"), counters["pumice_checked_ratio{drive=\"2\"}"]), (0.0, 1.0));
    let age = counters["pumice_unchecked_seconds{drive=\"2\"}"];
    assert!((0.0..3600.0).contains(&age), "{age}");
}

/// The chunks of a mirror's stripes: what lies between them was not read. A look at a part of one
/// chunk alone is no check of it.
#[test]
fn chunks_that_are_apart_are_checked_and_what_lies_between_is_not() {
    const MIB: u32 = 1 << 20;
    let drive = |n| Drive::open(&Backend::Memory(16 << 20), 512, "node", n).unwrap();
    let server = serve(vec![drive(1), drive(2)]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    let mut check = |stripes: std::ops::Range<u64>, len: u32| {
        let parity = ParityCommand {
            unpaced: false,
            sources: [1, 2].map(|n| Source::Media { drive: DriveId(n), base: 0 }).to_vec(),
            chunk: 4 * MIB,
            window: Window { start: 0, len },
            stripes,
            rule: Rule::sum(2),
            mode: Mode::Check,
        };
        let bytes = wire::encode_command(&parity);
        let mut sqe = Sqe::new(wire::opcode::PARITY_EXECUTE, 0);
        sqe.set_dword(10, len);
        sqe.set_dword(12, bytes.len() as u32);
        assert_eq!(run(&mut queue, sqe, &bytes), Status::SUCCESS);
        counters(&server)["pumice_checked_ratio{drive=\"1\"}"]
    };
    assert_eq!(check(1..2, 4096), 0.0);
    assert_eq!(check(0..4, MIB), 0.25);
    assert_eq!(check(0..4, 4 * MIB), 1.0);
}

/// Every bound that the page lists is shown, and no other; with the numbers of the page about the
/// node.
#[test]
fn every_budget_is_shown_with_its_bound() {
    let drive = Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap();
    let server = serve(vec![drive]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    let grant = wire::encode_grant(&Grant([5; 16]), 16);
    let lease = vendor(wire::opcode::MEMORY_LEASE, 1, 0, 4096);
    assert_eq!(run(&mut queue, lease, &[]), Status::SUCCESS);
    let give = vendor(wire::opcode::MEMORY_GRANT, 1, 0, grant.len() as u32);
    assert_eq!(run(&mut queue, give, &grant), Status::SUCCESS);
    let rate = PaceRequest { rate: Some(1 << 30), ..PaceRequest::default() };
    let pace = wire::encode_pace(&rate);
    let ask = vendor(wire::opcode::PACE, 0, 0, pace.len() as u32);
    assert_eq!(run(&mut queue, ask, &pace), Status::SUCCESS);
    // No descriptor: why not is kept as its result.
    let parity = vendor(wire::opcode::PARITY_EXECUTE, 0, 9, 4);
    assert!(!run(&mut queue, parity, &[0; 4]).is_success());
    let counters = counters(&server);
    let value = |name: &str, budget: &str| counters[&format!("pumice_budget_{name}{{budget=\"{budget}\"}}")];
    let page = include_str!("../../../../docs/reference/visibility.md");
    let section = page.split("**Budgets.**").nth(1).unwrap().split("\n\n`drive`").next().unwrap();
    let listed: BTreeSet<&str> = section
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| !name.starts_with("pumice_") && *name != "budget")
        .collect();
    let shown: BTreeSet<&str> = counters
        .keys()
        .filter_map(|key| key.strip_prefix("pumice_budget_limit{budget=\"")?.strip_suffix("\"}"))
        .collect();
    assert_eq!(shown, listed);
    const MIB: f64 = 1_048_576.0;
    for (budget, used, limit) in [
        ("connections", 2.0, 4096.0),
        ("associations", 1.0, 64.0),
        ("associations_of_address", 1.0, 48.0),
        ("associations_of_host", 1.0, 16.0),
        ("associations_of_nodes", 0.0, 64.0),
        ("associations_of_discovery", 0.0, 64.0),
        ("queues_of_association", 1.0, 64.0),
        ("windows_of_host", 0.0, 64.0 * MIB),
        ("windows_shared", 0.0, 256.0 * MIB),
        ("flight_shared", 0.0, 512.0 * MIB),
        ("commands_of_connection", 0.0, 256.0),
        ("results_of_queue", 1.0, 16.0),
        ("grants_of_association", 1.0, 64.0),
        ("grants", 1.0, 4096.0),
        ("paces", 1.0, 64.0),
        ("parity_commands_at_work", 0.0, 4.0),
        ("paced_commands_at_work", 0.0, 4.0),
        ("parity_readers", 0.0, value("limit", "parity_readers")),
    ] {
        assert_eq!((value("used", budget), value("limit", budget)), (used, limit), "{budget}");
    }
    for (budget, limit) in [
        ("flight_of_connection", 16.0),
        ("flight_of_host", 128.0),
        ("unsent_of_connection", 4.0),
        ("results_of_association", 4.0),
        ("results", 256.0),
    ] {
        assert_eq!(value("limit", budget), limit * MIB, "{budget}");
    }
    assert!(value("used", "results") > 0.0 && value("used", "flight_of_host") > 0.0);
}

/// A peer that says nothing of itself, asks for one thing after another, and takes no answer.
#[test]
fn answers_before_connect_are_bounded() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let request = IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 };
    stream.write_all(&request.encode()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut capsules = Vec::new();
    for _ in 0..10_000 {
        push(&mut capsules, Kind::CapsuleCmd, 0, &Sqe::new(0x02, 0).0, Digests::default());
    }
    // 72 bytes are answered with 24: as much as both sockets take, until the node takes no more.
    let (mut sent, mut idle) = (0, 0);
    while idle < 30 {
        match stream.write(&capsules[sent % 72..]) {
            Ok(n) => (sent, idle) = (sent + n, 0),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                idle += 1;
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
    let counters = counters(&server);
    let unsent = counters["pumice_budget_used{budget=\"unsent_of_connection\"}"];
    assert!(unsent > 0.0, "the node has stopped to take them: {sent} bytes were sent");
    // What was allowed before the last look, and the answers of one buffer.
    assert!(unsent < f64::from((4 << 10) + (128 << 10)), "{unsent} bytes wait");
}

#[test]
fn nothing_but_the_counters_is_served_and_nobody_holds_the_server_up() {
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    // These ask for nothing, and would be let go after 2 s each: nobody waits for that.
    let _silent: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(server.metrics_address().unwrap()).unwrap()).collect();
    assert!(ask(&server, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(&server, "DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask(&server, "\u{1}").starts_with("HTTP/1.1 400 "));
    assert!(!counters(&server).is_empty());
    server.stop().unwrap();
}

/// Keeps what is logged: the message, and the fields as text.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<HashMap<String, String>>>>);

struct Line(HashMap<String, String>);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl tracing::Subscriber for Kept {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(HashMap::from([("level".to_owned(), event.metadata().level().to_string())]));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// The only test of this program that sees the log: it is the whole program's. Its host has a name
/// of its own.
#[test]
fn each_association_has_a_line_at_its_begin_and_at_its_end_and_its_commands_have_none() {
    let kept = Kept::default();
    tracing::subscriber::set_global_default(kept.clone()).unwrap();
    let server = serve(vec![Drive::open(&Backend::Memory(1 << 20), 512, "node", 1).unwrap()]);
    let name = "nqn.2026-11.example:seen";
    let options = || ConnectOptions { host: name.parse().unwrap(), ..host(&server, 77) };
    let (controller, mut queue) = connect(&server, options(), 8);
    for _ in 0..100 {
        assert_eq!(run(&mut queue, command(io::WRITE, 1, 0, 1), &[1; 512]), Status::SUCCESS);
    }
    assert!(read(&mut queue, 1, 0, 2).0.is_success());
    let nobody = ConnectOptions { hostid: [0; 16], ..options() };
    assert!(associate(server.address(), nobody).is_err());
    drop((queue, controller));
    let until = Instant::now() + PATIENCE;
    let of = |message: &str| -> Vec<HashMap<String, String>> {
        let lines = kept.0.lock().unwrap();
        let is = |line: &&HashMap<String, String>| {
            line.get("host").is_some_and(|host| host == name) && line["message"] == message
        };
        lines.iter().filter(is).cloned().collect()
    };
    while of("association ended").is_empty() {
        assert!(Instant::now() < until);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (begun, ended, refused) = (of("associated"), of("association ended"), of("connect refused"));
    assert_eq!((begun.len(), ended.len(), refused.len()), (1, 1, 1));
    assert_eq!((begun[0]["level"].as_str(), refused[0]["level"].as_str()), ("INFO", "WARN"));
    assert_eq!((ended[0]["bytes_read"].as_str(), ended[0]["bytes_written"].as_str()), ("1024", "51200"));
    assert_eq!(
        (&ended[0]["reason"], &ended[0]["controller"]),
        (&"host closed".to_owned(), &begun[0]["controller"])
    );
    assert!(ended[0]["commands"].parse::<u64>().unwrap() > 101 && begun[0]["peer"].starts_with("127.0.0.1:"));
    assert!(refused[0]["status"].contains("invalid parameters"), "{refused:?}");
    let all = kept
        .0
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.get("host").is_some_and(|host| host == name))
        .count();
    assert_eq!(all, 3, "and no others");
}

//! Nodes that are killed and started again under writes: their drives come back by themselves, and
//! every step is an event.

use crate::world::{MIB, Served, VOLUME, World, pattern, pumice, wait_for};
use pumice_offload::Drives;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Processes that serve two drives each.
struct Nodes {
    world: World,
    children: Vec<Option<Child>>,
    addresses: Vec<SocketAddr>,
}

impl Nodes {
    fn new(nodes: usize) -> Self {
        let world = World::new(2 * nodes);
        let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut new = Self { world, children: Vec::new(), addresses: vec![free; nodes] };
        for node in 0..nodes {
            new.children.push(None);
            new.start(node);
        }
        let devices = new.devices();
        let create = ["create", "--level", "6", "--name", "vault"];
        let (code, text) = new.world.run(&create, &devices);
        assert_eq!(code, 0, "{text}");
        new
    }

    fn start(&mut self, node: usize) {
        let mut child = pumice(&["node", "--log-level", "error", "--listen"])
            .arg(self.addresses[node].to_string())
            .args(
                self.world.drives[2 * node..2 * node + 2].iter().flat_map(|d| ["--drive".into(), d.clone()]),
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.addresses[node] = line.split_whitespace().nth(2).unwrap().parse().unwrap();
        self.children[node] = Some(child);
    }

    fn kill(&mut self, node: usize) {
        let mut child = self.children[node].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn devices(&self) -> Vec<PathBuf> {
        let names = self.addresses.iter().flat_map(|at| [1, 2].map(|id| format!("nvme://{at}/{id}")));
        names.map(PathBuf::from).collect()
    }

    fn states(&self, roles: [usize; 2]) -> [String; 2] {
        let status = self.world.ask(&["status", "vault"]);
        roles.map(|role| status["members"][role]["state"].as_str().unwrap().to_owned())
    }

    fn wait_for_states(&self, roles: [usize; 2], states: [&str; 2]) {
        let what = format!("{states:?} of {roles:?}");
        wait_for(&self.world, &what, |status| {
            roles.iter().zip(states).all(|(role, state)| status["members"][*role]["state"] == state)
        });
    }

    fn events(&self) -> Vec<Value> {
        self.world.ask(&["events", "vault"])["events"].as_array().unwrap().clone()
    }

    /// The exit code of `status --test`.
    fn test(&self) -> i32 {
        let output = pumice(&["volume", "status", "vault", "--test", "--run-dir"])
            .arg(self.world.sockets())
            .output()
            .unwrap();
        output.status.code().unwrap()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The counters of a process.
fn counters(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn free_port() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The names of the events of a role, in their order.
fn of_role(events: &[Value], role: u64) -> Vec<&str> {
    let of_role = events.iter().filter(|event| event["role"] == role && event["event"] != "rebuild_at");
    of_role.map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn a_node_that_is_killed_and_started_again_under_writes_is_whole_without_an_order() {
    let mut nodes = Nodes::new(3);
    let at = free_port();
    let served = Served::start(&nodes.world, &["--metrics", &at.to_string()], &nodes.devices());
    let node = served.connect();
    let (first, ended) = (pattern(8 * MIB, 1), AtomicBool::new(false));
    node.write(VOLUME, 0, &first).unwrap();
    assert_eq!(nodes.test(), 0);
    let model = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut model = first.clone();
            for step in 0_usize.. {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                let (at, len) = ((step * 977 % 2000) * 4096, 4096 * (1 + step % 7));
                model[at..at + len].copy_from_slice(&pattern(len, step as u8));
                node.write(VOLUME, at as u64, &model[at..at + len]).unwrap();
                if step % 50 == 0 {
                    node.flush(VOLUME).unwrap();
                }
            }
            model
        });
        std::thread::sleep(Duration::from_millis(300));
        nodes.kill(2);
        nodes.wait_for_states([4, 5], ["missing", "missing"]);
        assert_eq!(nodes.test(), 1);
        let status = nodes.world.ask(&["status", "vault"]);
        assert_eq!((&status["condition"], &status["survives"]["drives"]), (&"degraded".into(), &0.into()));
        let absent = &status["members"][4]["absent"];
        assert_eq!(absent["cause"], "unreachable", "{status}");
        assert!(
            status["member_errors"].as_array().unwrap().iter().any(|error| error["role"] == 4),
            "{status}"
        );
        // From its detection to the event it takes 2 s at most.
        let until = Instant::now() + Duration::from_secs(2);
        while of_role(&nodes.events(), 4).is_empty() {
            assert!(Instant::now() < until, "no event of the loss");
        }
        let shown = counters(at);
        for line in ["pumice_array_members_missing{", "pumice_array_state{", "pumice_io_commands_total{"] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        nodes.start(2);
        nodes.wait_for_states([4, 5], ["in_sync", "in_sync"]);
        ended.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    let status = nodes.world.ask(&["status", "vault"]);
    assert_eq!(
        (&status["condition"], &status["member_errors"]),
        (&"healthy".into(), &Value::Array(Vec::new()))
    );
    // The last look may have been half a second ago.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(nodes.test(), 0);
    let events = nodes.events();
    for role in [4, 5] {
        // One thread tells of the return, another of the rebuild: either may be first.
        let mut names = of_role(&events, role);
        assert_eq!(names.first(), Some(&"member_failed"), "{events:?}");
        assert_eq!(names.last(), Some(&"rebuild_ended"), "{events:?}");
        names.sort_unstable();
        assert_eq!(names, ["member_back", "member_failed", "rebuild_begun", "rebuild_ended"], "{events:?}");
    }
    let shown = counters(at);
    for (name, end) in [
        ("pumice_array_members_missing{array=", "\"} 0.0\n"),
        ("pumice_volume_survives_drives{array=", "\"} 2.0\n"),
        ("pumice_volume_held{array=", "\"} 0.0\n"),
    ] {
        let (_, line) = shown.split_once(name).unwrap_or_else(|| panic!("{name}: {shown}"));
        assert!(line.split_inclusive('\n').next().unwrap().ends_with(end), "{name}: {shown}");
    }
    assert!(shown.contains("event=\"member_back\",severity=\"info\"} 2\n"), "{shown}");
    assert!(shown.ends_with("# EOF\n") && shown.matches("# EOF").count() == 1, "{shown}");
    let verify = |what: &str| {
        let mut read = vec![0; model.len()];
        node.read(VOLUME, 0, &mut read).unwrap();
        assert!(read == model, "{what}");
    };
    verify("whole");
    // Without another node, the members that are back have to give what they hold.
    nodes.kill(0);
    verify("without node 0");
}

#[test]
fn what_was_failed_by_order_stays_away_and_so_does_all_with_no_readd() {
    let mut nodes = Nodes::new(3);
    let served = Served::start(&nodes.world, &[], &nodes.devices());
    let node = served.connect();
    let model = pattern(2 * MIB, 1);
    node.write(VOLUME, 0, &model).unwrap();
    nodes.world.ask(&["fail", "vault", "1"]);
    nodes.kill(0);
    node.write(VOLUME, 0, &model).unwrap();
    nodes.wait_for_states([0, 1], ["missing", "missing"]);
    nodes.start(0);
    nodes.wait_for_states([0, 1], ["in_sync", "missing"]);
    // It would be tried again each second.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(nodes.states([0, 1]), ["in_sync", "missing"]);
    let status = nodes.world.ask(&["status", "vault"]);
    assert_eq!(
        (&status["condition"], &status["members"][1]["absent"]["cause"]),
        (&"degraded".into(), &"by_hand".into())
    );
    assert_eq!(of_role(&nodes.events(), 1), ["member_failed"]);
    assert_eq!(served.terminate(), Some(0));

    let devices = nodes.devices();
    let devices: Vec<PathBuf> = [&devices[..1], &devices[2..]].concat();
    let served = Served::start(&nodes.world, &["--degraded", "--no-readd"], &devices);
    let node = served.connect();
    nodes.kill(0);
    node.write(VOLUME, 0, &model).unwrap();
    nodes.wait_for_states([0, 1], ["missing", "missing"]);
    nodes.start(0);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(nodes.states([0, 1]), ["missing", "missing"]);
    let device = devices[0].to_str().unwrap();
    nodes.world.ask(&["add", "vault", device]);
    nodes.wait_for_states([0, 1], ["in_sync", "missing"]);
    let mut read = vec![0; model.len()];
    node.read(VOLUME, 0, &mut read).unwrap();
    assert!(read == model);
}

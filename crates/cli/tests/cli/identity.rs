//! Nodes that share a name by mistake: cloned machines, a copied configuration.

use crate::network::Node;
use crate::small_array::{Made, RAID6, refusal, scrub};
use pumice_remote::initiator::Controller;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

const NAME: &str = "nqn.2026-11.example:same";

/// The serial number, and of each namespace the NGUID and the UUID.
fn identities(node: &Node, drives: u32) -> (String, Vec<[u8; 16]>) {
    let mut controller = Controller::connect(node.address, node.options()).unwrap();
    let nguid = |nsid| controller.namespace(nsid).unwrap().unwrap().nguid;
    let nguids = (1..=drives).map(nguid).collect();
    (controller.identity().serial.clone(), nguids)
}

fn start(state: &Path, drives: &[&str]) -> Node {
    let state = state.to_str().unwrap();
    let mut args = vec!["--listen", "127.0.0.1:0", "--nqn", NAME, "--state-dir", state];
    drives.iter().for_each(|drive| args.extend(["--drive", drive]));
    Node::start(&args, &[])
}

/// Linux joins namespaces of one NQN, one number and one NGUID to one drive with two paths, and
/// reads from either: after the end of one node, what it had acknowledged reads as something else.
#[test]
fn two_nodes_of_one_name_are_never_one_drive() {
    let folder = tempfile::tempdir().unwrap();
    // As in the images of two cloned machines: the same path, and drives in memory.
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let drives = ["mem:1MiB", image.to_str().unwrap(), "mem:1MiB,pi=16"];
    let states = ["one", "two"].map(|name| folder.path().join(name));
    let mut first = start(&states[0], &drives);
    let before = identities(&first, 3);
    assert_eq!(first.stop(), Some(0));
    // A restart is the same node.
    let mut first = start(&states[0], &drives);
    assert_eq!(identities(&first, 3), before);
    assert_eq!(first.stop(), Some(0));
    let second = start(&states[1], &drives);
    let other = identities(&second, 3);
    assert_ne!(other.0, before.0, "the serial numbers");
    let shared = before.1.iter().filter(|nguid| other.1.contains(nguid)).count();
    assert_eq!(shared, 0, "NGUIDs: {before:?} {other:?}");
}

/// One state folder, as two processes of one machine have by default.
#[test]
fn a_second_node_of_one_name_and_one_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = start(folder.path(), &["mem:1MiB"]);
    let mut command = crate::small_array::pumice();
    command.args(["node", "--listen", "127.0.0.1:0", "--drive", "mem:1MiB", "--nqn", NAME, "--state-dir"]);
    let why = refusal(command.arg(folder.path()));
    assert!(why.contains("another node of this machine") && why.contains("--nqn"), "{why}");
}

/// Our own tools say so before a host comes to harm.
#[test]
fn tools_refuse_two_nodes_of_one_name() {
    let array = Made::new(RAID6);
    let folder = tempfile::tempdir().unwrap();
    let members: Vec<&str> = array.members.iter().map(|member| member.to_str().unwrap()).collect();
    let one = start(&folder.path().join("one"), &members[..2]);
    let two = start(&folder.path().join("two"), &members[2..]);
    let why = refusal(scrub(folder.path()).args([one.name(), two.name()]));
    assert!(why.contains("two nodes with one name") && why.contains(NAME), "{why}");
}

/// A process is a host that came before, and the name tells nothing of the machine's id.
#[test]
fn hosts_are_known_again_and_their_names_disclose_nothing() {
    let array = Made::new(RAID6);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = crate::small_array::pumice();
    command.args(["node", "--listen", "127.0.0.1:0", "--state-dir"]).arg(folder.path());
    for member in &array.members {
        command.arg("--drive").arg(member);
    }
    command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let name = format!("nvme://{}", line.split_whitespace().nth(2).unwrap());
    let of = |what: &str| {
        let said = std::fs::read_to_string(&log).unwrap();
        let associated = said.lines().filter(|line| line.contains("INFO associated"));
        let word = |line: &str| line.split_whitespace().find_map(|w| Some(w.strip_prefix(what)?.to_owned()));
        associated.filter_map(word).collect::<BTreeSet<_>>()
    };
    // Other processes of the machine may have the least numbers meanwhile.
    let mut again = false;
    for round in 1..=20 {
        assert!(crate::small_array::pumice().args(["inspect", &name]).output().unwrap().status.success());
        again |= of("host_id=").len() < round;
    }
    let _ = child.kill();
    let _ = child.wait();
    assert!(again, "each process is another host: {:?}", of("host_id="));
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let hosts = of("host=");
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    assert!(
        machine.trim().is_empty() || hosts.iter().all(|host| !host.contains(machine.trim())),
        "{hosts:?}"
    );
}

//! Node processes on loopback.

use crate::small_array::{Made, pumice};
use pumice_nvme::pdu::Digests;
use pumice_remote::initiator::ConnectOptions;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The name of the other host.
pub(crate) const HOST: &str = "nqn.2026-11.example:host";
/// Time that anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A node process; killed when it goes.
pub(crate) struct Node {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) nqn: String,
}

impl Node {
    pub(crate) fn start(args: &[&str], drives: &[PathBuf]) -> Self {
        let mut command = pumice();
        command.arg("node").args(args);
        for drive in drives {
            command.arg("--drive").arg(drive);
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[0], words[1], words[3]), ("listening", "on", "nqn"), "{line}");
        Self { child, address: words[2].parse().unwrap(), nqn: words[4].to_owned() }
    }

    pub(crate) fn name(&self) -> PathBuf {
        format!("nvme://{}", self.address).into()
    }

    /// Parameters with which another host connects to it.
    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions {
            subsystem: self.nqn.parse().unwrap(),
            host: HOST.parse().unwrap(),
            hostid: [7; 16],
            digests: Digests::default(),
            flow_control: true,
            deadline: PATIENCE,
        }
    }

    /// SIGTERM, and its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that are free now.
pub(crate) fn free_ports<const N: usize>() -> [SocketAddr; N] {
    let held: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    std::array::from_fn(|i| held[i].local_addr().unwrap())
}

/// Two nodes with the array's members, each allowed to send to the other.
pub(crate) fn two_nodes(array: &Made) -> [Node; 2] {
    let addresses = free_ports::<2>();
    let node = |me: usize, drives: &[PathBuf]| {
        let (listen, peer) = (addresses[me].to_string(), addresses[1 - me].to_string());
        Node::start(&["--listen", &listen, "--peer", &peer], drives)
    };
    [node(0, &array.members[..3]), node(1, &array.members[3..])]
}

/// Findings without the names of devices.
pub(crate) fn findings(report: &Value) -> Vec<Value> {
    let mut findings = report["findings"].as_array().unwrap().clone();
    for finding in &mut findings {
        finding["device"] = Value::Null;
        for lost in finding["lost"].as_array_mut().unwrap() {
            lost["device"] = Value::Null;
        }
    }
    findings
}

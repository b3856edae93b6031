//! The host in Python.

use super::{HOST, NODE, groups, key, serve};
use pumice_node::serve::KeyTable;
use std::process::Command;
use std::sync::Arc;

#[test]
fn a_host_of_its_own_proves_itself_and_is_refused() {
    let host = (HOST.parse().unwrap(), vec![key(1)], vec![key(2)], groups());
    let server = serve(Arc::new(KeyTable::new(&NODE.parse().unwrap(), [host]).unwrap()));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proofs/client.py");
    let (address, texts) = (server.address(), [key(1).to_text(), key(2).to_text()]);
    let mut python = Command::new("python3");
    python.args([script, &address.ip().to_string(), &address.port().to_string(), NODE, HOST]);
    python.args(texts.iter().map(|text| text.as_str()));
    let output = match python.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: python3: {error}");
            return;
        }
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let cases: Vec<&str> = out.lines().collect();
    assert_eq!(cases, ["every_pair 18", "wrong_keys 5", "wrong_values 18", "wrong_messages 5", "order 6"]);
}

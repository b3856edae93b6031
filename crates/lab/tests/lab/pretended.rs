//! Scrubs over pretended nodes.

use crate::nodes::{Node, findings, two_nodes};
use crate::program::pumice;
use crate::small_array::{CHUNK, Made, RAID6, STRIPES, damage, refusal, run, scrub};
use serde_json::Value;

#[test]
fn every_method_finds_the_same_however_the_members_are_spread() {
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 8192 + 100, 20);
    let state = tempfile::tempdir().unwrap();
    for (options, method) in [
        (&["--nodes", "1"][..], "stripe"),
        (&["--nodes", "2"], "fingerprint"),
        (&["--method", "host", "--nodes", "3"], "host"),
        (&["--method", "aggregate", "--nodes", "2"], "aggregate"),
        (&["--method", "stripe", "--nodes", "5", "--accumulators", "3"], "stripe"),
    ] {
        let (code, report) = run(state.path(), options, &array.members);
        assert_eq!(code, 1, "{options:?}");
        assert_eq!((&report["method"], &report["result"]), (&method.into(), &"findings".into()));
        assert_eq!(report["stripes_checked"], STRIPES);
        assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{report}");
        let finding = &report["findings"][0];
        assert_eq!((&finding["stripe"], &finding["member"]), (&7.into(), &0.into()));
        assert_eq!((&finding["chunk_offset"], &finding["length"]), (&(8192 + 100).into(), &20.into()));
    }
}

#[test]
fn one_node_for_the_devices_of_this_machine_suits_drives_of_others() {
    let array = Made::new(RAID6);
    let node = Node::start(&["--listen", "127.0.0.1:0"], &array.members);
    let state = tempfile::tempdir().unwrap();
    assert_eq!(run(state.path(), &["--nodes", "1"], &[node.name()]).0, 0);
    let message = refusal(scrub(state.path()).args(["--nodes", "2"]).arg(node.name()));
    assert!(message.contains("--nodes") && message.contains("the node that serves it"), "{message}");
}

#[test]
fn findings_and_ledger_are_the_same_on_pretended_nodes_and_on_nodes() {
    let array = Made::new(RAID6);
    for (role, stripe, at, len) in
        [(0, 7, 8192, 20), (3, 12, 0, CHUNK), (4, 12, 0, CHUNK), (1, 39, 65_000, 536)]
    {
        damage(&array, role, stripe, at, len);
    }
    let paths: Vec<String> = array.members.iter().map(|m| m.display().to_string()).collect();
    let (a, b) = (format!("a={}", paths[..3].join(",")), format!("b={}", paths[3..].join(",")));
    let state = tempfile::tempdir().unwrap();
    let seed = ["--seed", "7", "--batch", "16"];
    let local: Vec<Value> = ["host", "stripe", "aggregate", "fingerprint"]
        .iter()
        .map(|method| {
            let node = ["--node", &a, "--node", &b];
            // Drives of nodes are always looked at twice.
            let options = [&seed[..], &["--allow-in-use", "--method", method], &node].concat();
            run(state.path(), &options, &array.members).1
        })
        .collect();
    let nodes = two_nodes(&array);
    for near in &local {
        let method = near["method"].as_str().unwrap();
        let names = [nodes[0].name(), nodes[1].name()];
        let (code, far) = run(state.path(), &[&seed[..], &["--method", method]].concat(), &names);
        assert_eq!(code, 1, "{method}");
        assert_eq!(findings(&far), findings(near), "{method}");
        assert_eq!(far["ledger"], near["ledger"], "{method}");
        assert_eq!(far["stripes_checked"], STRIPES);
    }
}

#[test]
fn the_help_has_the_options_of_a_scrub_and_those_of_a_study() {
    let output = pumice().args(["scrub", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["--repair", "--nodes", "--node", "--accumulators", "1 to 8"] {
        assert!(help.contains(words), "'{words}' is not in: {help}");
    }
}

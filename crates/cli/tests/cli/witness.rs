//! Scrubs of drives with tags: over nodes, and of drives alone.

use crate::network::Node;
use crate::small_array::{CHUNK, DATA_OFFSET, Made, RAID5, damage, pumice};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn tagged(member: &Path) -> PathBuf {
    format!("{0},pi=64,tags={0}.tags", member.display()).into()
}

fn json(words: &[&str], devices: &[PathBuf], state: &Path) -> (i32, Value) {
    let mut command = pumice();
    command.arg("scrub").arg("--json").args(words).args(devices);
    if !words.contains(&"--drives") {
        command.arg("--state-dir").arg(state);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
    (output.status.code().unwrap(), json)
}

/// Adopted, vouched for over the network, damaged, proven, repaired; all over two nodes.
#[test]
fn adopted_tags_are_vouched_for_over_nodes_and_then_prove_damage() {
    let array = Made::new(RAID5);
    let state = tempfile::tempdir().unwrap();
    let names: Vec<PathBuf> = array.members.iter().map(|member| tagged(member)).collect();
    assert!(pumice().arg("protect").args(&names).output().unwrap().status.success());
    let before: Vec<Vec<u8>> = array.members.iter().map(|path| std::fs::read(path).unwrap()).collect();
    {
        let nodes =
            [&names[..3], &names[3..]].map(|drives| Node::start(&["--listen", "127.0.0.1:0"], drives));
        let at: Vec<PathBuf> = nodes.iter().map(Node::name).collect();
        let (code, report) = json(&["--vouch", "--settle", "0s"], &at, state.path());
        assert_eq!((code, &report["result"]), (0, &"clean".into()), "{report}");
        let adopted = report["tags"]["adopted"].as_u64().unwrap();
        assert!(adopted > 0 && report["tags"]["vouched_now"] == adopted, "{}", report["tags"]);
        let (_, report) = json(&["--settle", "0s"], &at, state.path());
        assert_eq!((&report["tags"]["vouched"], &report["tags"]["adopted"]), (&adopted.into(), &0.into()));
        // What was vouched for is in memory until the pages come home.
        for mut node in nodes {
            assert_eq!(node.stop(), Some(0));
        }
    }
    damage(&array, 1, 7, 8192, 300);
    let nodes = [&names[..3], &names[3..]].map(|drives| Node::start(&["--listen", "127.0.0.1:0"], drives));
    let at: Vec<PathBuf> = nodes.iter().map(Node::name).collect();
    let place = DATA_OFFSET + 7 * CHUNK as u64 + 8192;
    let (code, drives) = json(&["--drives"], &at, state.path());
    assert_eq!((code, &drives["result"]), (1, &"findings".into()), "{drives}");
    let of = |drive: usize| drives["drives"][drive]["findings"].as_array().unwrap();
    assert_eq!(drives["drives"].as_array().unwrap().len(), 5);
    let [found] = &of(1)[..] else { panic!("{drives}") };
    assert_eq!((&found["fault"], &found["origin"]), (&"differs".into(), &"vouched".into()));
    assert_eq!((&found["offset"], &found["length"]), (&place.into(), &512.into()));
    assert!([0, 2, 3, 4].iter().all(|drive| of(*drive).is_empty()));
    // Undone, the damage is proven as before.
    for undone in [true, false] {
        let (code, report) = json(&["--repair"], &at, state.path());
        let finding = &report["findings"][0];
        assert_eq!(
            (code, &finding["certainty"], &finding["member"]),
            (1, &"proven".into(), &1.into()),
            "{report}"
        );
        assert_eq!((&finding["witness"]["origin"], &finding["repaired"]), (&"vouched".into(), &true.into()));
        if undone {
            let mut undo = pumice();
            undo.args(["repairs", "undo", "--all", "--state-dir"]).arg(state.path()).args(&at);
            let output = undo.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    drop(nodes);
    let after: Vec<Vec<u8>> = array.members.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(before == after, "every byte is back");
    // Closed by the nodes' end or not, the drives alone can be checked here after a recovery.
    assert!(pumice().arg("protect").args(&names).output().unwrap().status.success());
    let (code, drives) = json(&["--drives"], &names, state.path());
    assert_eq!((code, &drives["result"]), (0, &"clean".into()), "{drives}");
}

#[test]
fn tags_of_a_killed_node_that_wrote_nothing_are_opened_for_a_check() {
    let array = Made::new(RAID5);
    let names: Vec<PathBuf> = array.members.iter().map(|member| tagged(member)).collect();
    assert!(pumice().arg("protect").args(&names).output().unwrap().status.success());
    let mut node = Node::start(&["--listen", "127.0.0.1:0"], &names);
    node.child.kill().unwrap();
    node.child.wait().unwrap();
    let output = pumice().args(["scrub", "--drives"]).args(&names).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the logs hold nothing to recover: {text}");
}

//! Every command of the README and the operator's guide runs as it is written.
//!
//! A line of a `sh` block that begins with `pumice` is run. Placeholders stand for real things:
//! `/dev/sd…` and `/dev/md0` for the members of a small damaged array, `10.0.0.N:4420` for a node
//! that serves its share of them; of `pumice volume`, `/dev/sd…` for new drives.

use crate::network::Node;
use crate::small_array::{Made, RAID6, damage, pumice};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The commands of a page, without comments.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && line.starts_with("pumice ") {
            let command = line.split(" # ").next().unwrap_or(line);
            out.push(command.split_whitespace().skip(1).map(str::to_owned).collect());
        }
    }
    out
}

/// The numbers N of the addresses `10.0.0.N:4420` in a command.
fn nodes_of(words: &[String]) -> BTreeSet<usize> {
    let number = |word: &String| {
        let (_, rest) = word.split_once("10.0.0.")?;
        rest.split(':').next()?.parse().ok()
    };
    words.iter().filter_map(number).collect()
}

/// Nodes that share out the members.
fn start(array: &Made, nodes: usize) -> Vec<Node> {
    let share = array.members.len().div_ceil(nodes.max(1));
    let listen = ["--listen", "127.0.0.1:0"];
    array.members.chunks(share).take(nodes).map(|drives| Node::start(&listen, drives)).collect()
}

/// A command about a volume. `create` has new drives, and what follows has those.
fn volume(page: &Path, words: &[String], folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let drives: Vec<PathBuf> = (0..6).map(|i| folder.join(format!("new{i}"))).collect();
    if words[0] == "create" {
        for drive in &drives {
            File::create(drive).unwrap().set_len(8 << 20).unwrap();
        }
    }
    let mut command = pumice();
    command.stdin(Stdio::null()).arg("volume");
    for word in words {
        match word {
            word if word.starts_with("/dev/") => command.args(&drives),
            word if word.starts_with("10.0.0.") => command.arg("127.0.0.1:0"),
            word => command.arg(word),
        };
    }
    if words[0] != "serve" {
        let code = command.status().unwrap().code();
        assert_eq!(code, Some(0), "{}: volume {words:?}", page.display());
        return;
    }
    let mut served = command.arg("--run-dir").arg(folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
    served.kill().unwrap();
    served.wait().unwrap();
    assert!(line.starts_with("listening on 127.0.0.1:"), "{}: volume {words:?}: {line}", page.display());
}

fn run(page: &Path, words: &[String], array: &Made, state: &Path) {
    let numbers: Vec<usize> = nodes_of(words).into_iter().collect();
    if words[0] == "node" {
        // What it serves are drives, and what it listens on is its own address.
        let options: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let known = |option: &&str| ["--listen", "--drive", "--peer"].contains(option);
        assert!(options.iter().step_by(2).all(known), "{words:?}");
        let drives = options.chunks(2).filter(|pair| pair[0] == "--drive").count();
        let peers =
            options.chunks(2).filter(|pair| pair[0] == "--peer").flat_map(|_| ["--peer", "127.0.0.1:9"]);
        let listen = ["--listen", "127.0.0.1:0"].into_iter().chain(peers).collect::<Vec<_>>();
        drop(Node::start(&listen, &array.members[..drives]));
        return;
    }
    if words[0] == "volume" {
        return volume(page, &words[1..], state);
    }
    let nodes = start(array, numbers.len());
    let mut command = pumice();
    command.stdin(Stdio::null()).arg(&words[0]);
    if ["scrub", "repairs"].contains(&words[0].as_str()) {
        command.arg("--state-dir").arg(state);
    }
    for word in &words[1..] {
        if word.starts_with("/dev/") {
            command.args(&array.members);
        } else if let Some(number) = nodes_of(std::slice::from_ref(word)).first() {
            let at = numbers.iter().position(|known| known == number).unwrap();
            command.arg(word.replace(&format!("10.0.0.{number}:4420"), &nodes[at].address.to_string()));
        } else {
            command.arg(word);
        }
    }
    let output = command.output().unwrap();
    let code = output.status.code();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(code, Some(0 | 1)), "{}: {words:?}: exit {code:?}: {said}", page.display());
}

#[test]
fn every_command_of_the_guide_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_dir(root.join("docs/guide")).unwrap();
    let mut pages: Vec<PathBuf> = guide.map(|entry| entry.unwrap().path()).collect();
    pages.push(root.join("README.md"));
    let mut ran = 0;
    for page in pages {
        let array = Made::new(RAID6);
        damage(&array, 0, 7, 8192, 300);
        let state = tempfile::tempdir().unwrap();
        for words in commands(&std::fs::read_to_string(&page).unwrap()) {
            run(&page, &words, &array, state.path());
            ran += 1;
        }
    }
    assert!(ran >= 20, "{ran} commands");
}

//! Standard output: with `--json` JSON alone, and exit 2 if it cannot be written.

use crate::nodes::Node;
use crate::program::pumice;
use crate::small_array::{Made, RAID6};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;

/// Every command that offers `--json`, by its help.
fn offer_json(words: &mut Vec<String>, found: &mut BTreeSet<String>) {
    let done = pumice().args(&*words).arg("--help").output().unwrap();
    let help = String::from_utf8(done.stdout).unwrap();
    let codes = usize::from(!help.contains("Commands:"));
    assert!(help.matches("Exit codes: ").count() >= codes, "{words:?}: {help}");
    if help.contains("--json") {
        found.insert(words.join(" "));
    }
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let name = |line: &str| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')).map(str::to_owned);
    let lines: Vec<String> = commands.take_while(|line| !line.is_empty()).filter_map(name).collect();
    for line in lines {
        let command = line.split_whitespace().next().unwrap().to_owned();
        if command != "help" {
            words.push(command);
            offer_json(words, found);
            words.pop();
        }
    }
}

/// Takes half a minute.
const ELSEWHERE: [&str; 1] = ["bench pace"];

#[test]
fn every_command_with_json_prints_json_alone() {
    let array = Made::new(RAID6);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let trace = path("trace.csv");
    let lines: String = (0..400).map(|i| format!("{},R,{},4096\n", i * 40_000, i * 37 % 100 * 8)).collect();
    std::fs::write(&trace, format!("ts_us,op,lbn512,size_bytes\n{lines}")).unwrap();
    let node = Node::start(&["--listen", "127.0.0.1:0"], &["mem:8MiB".into()]);
    let (address, state) = (node.address.to_string(), path("state"));
    let members: Vec<&str> = array.members.iter().map(|member| member.to_str().unwrap()).collect();
    let of_members = |words: &[&str]| -> Vec<String> {
        words.iter().chain(&members).map(|word| (*word).to_owned()).collect()
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let short = ["--seconds", "0.05", "--rounds", "1"];
    let plan = ["plan", "--members", "24", "--parity", "2", "--drive", "4TB"];
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("scrub", of_members(&["scrub", "--quiet", "--nodes", "2", "--state-dir", &state])),
        ("plan", words(&plan)),
        ("plan", words(&[&plan[..], &["--accounting", "brief"]].concat())),
        ("bench parity", words(&["bench", "parity", "--rounds", "1"])),
        ("bench guards", words(&["bench", "guards", "--rounds", "1"])),
        ("bench scrub", of_members(&["bench", "scrub", "--rounds", "1"])),
        ("bench node", words(&[&["bench", "node", &address][..], &short].concat())),
        (
            "bench flash",
            words(&[&["bench", "flash", "--memory", "--capacity", "64MiB"][..], &short].concat()),
        ),
        (
            "bench volume",
            words(&[&["bench", "volume", "--nodes", "0", "--drive", "32MiB"][..], &short].concat()),
        ),
        ("sim scrub", words(&["sim", "scrub", "--trace", &trace])),
        ("sim trace-stats", words(&["sim", "trace-stats", "--trace", &trace])),
        ("sim stagger", words(&["sim", "stagger", "--samples", "1000"])),
        ("sim flash", words(&["sim", "flash", "--load", "mail", "--scheme", "none"])),
        ("sim offload", words(&["sim", "offload", "--drives", "4"])),
    ];
    let mut found = BTreeSet::new();
    offer_json(&mut Vec::new(), &mut found);
    let known: BTreeSet<String> =
        cases.iter().map(|(name, _)| *name).chain(ELSEWHERE).map(str::to_owned).collect();
    assert_eq!(found, known, "a command that offers --json needs its line here");
    for (name, words) in cases {
        let done = pumice().args(&words).arg("--json").output().unwrap();
        let (out, why) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.status.code(), Some(0), "{name}: {why}");
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{name}: {error}: {out}"));
    }
}

/// The published table, at its place in the document; the figures are tested where they are made.
#[test]
fn a_plan_by_the_brief_has_its_batch_and_no_ledger() {
    let plan = ["plan", "--members", "24", "--parity", "2", "--nodes", "3", "--drive", "4TB", "--json"];
    let document = |accounting: &str| -> Value {
        let done = pumice().args(plan).args(["--accounting", accounting]).output().unwrap();
        serde_json::from_slice(&done.stdout).unwrap()
    };
    let (brief, actual) = (document("brief"), document("actual"));
    assert_eq!((&brief["accounting"], &actual["accounting"]), (&"brief".into(), &"actual".into()));
    assert_eq!(brief["batch_for_published_figure"], 230);
    assert_eq!(actual["batch_for_published_figure"], Value::Null);
    assert_eq!(brief["methods"][0]["ledger"], Value::Null);
    assert!(actual["methods"][0]["ledger"].is_object());
    assert_eq!(brief["methods"][0]["cpu_bytes"], 96e12);
}

#[test]
fn a_full_standard_output_is_a_failure() {
    for words in [&["sim", "stagger", "--samples", "10"][..], &["bench", "--help"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let done = pumice().args(words).stdout(full).output().unwrap();
        let why = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(2) && why.contains("standard output"), "{why}");
    }
}

#[test]
fn a_study_that_fails_writes_nothing_and_options_that_do_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("plot.svg");
    let base = ["sim", "flash", "--load", "mail", "--json", "--plot", plot.to_str().unwrap()];
    for (more, word) in [
        (&["--unit-pages", "64"][..], "--unit-pages"),
        (&["--isolation", "persistent"], "--isolation"),
        (&["--placement", "own", "--isolation", "initial"], "--placement fdp"),
        (&["--drive-pages", "1"], "pages are too few"),
        (&["--trace", "none"], "cannot be used with"),
    ] {
        let done = pumice().args(base).args(more).output().unwrap();
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && done.stdout.is_empty() && why.contains(word), "{why}");
        assert!(!plot.exists(), "{more:?}");
    }
    let full = pumice().args(["sim", "flash", "--load", "mail", "--json", "--plot", "/dev/full"]).output();
    let full = full.unwrap();
    assert!(full.status.code() == Some(2) && full.stdout.is_empty());
    assert!(String::from_utf8_lossy(&full.stderr).contains("--plot: /dev/full"));
    let help = pumice().args(["sim", "flash", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        help.contains("<--trace <TRACE>|--load <LOAD>>") && help.contains("Input (one of them):"),
        "{help}"
    );
}

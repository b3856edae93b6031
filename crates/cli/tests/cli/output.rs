//! Standard output: all of it or exit 2, and with `--json` JSON alone.

use crate::network::Node;
use crate::small_array::{Made, RAID6, damage, pumice, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

const PLAN: [&str; 7] = ["plan", "--members", "24", "--parity", "2", "--drive", "4TB"];

/// Asserts exit 2 and one line on standard error.
fn undelivered(command: &mut Command) {
    let done = command.output().unwrap();
    let why = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{command:?}: {why}");
    assert!(why.contains("could not be written to standard output"), "{why}");
    assert_eq!(why.lines().count(), 1, "{why}");
}

/// The standard library opens /dev/null in place of a closed standard output, and all writes
/// succeed.
#[test]
fn a_closed_standard_output_is_a_failure_and_dev_null_is_none() {
    for words in [&PLAN[..], &["plan", "--help"], &["--version"]] {
        let closed = r#"exec "$0" "$@" >&-"#;
        undelivered(Command::new("sh").args(["-c", closed, env!("CARGO_BIN_EXE_pumice")]).args(words));
        let null = || File::options().read(true).write(true).open("/dev/null").unwrap();
        let done = pumice().args(words).stdout(null()).stderr(Stdio::piped()).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn a_full_standard_output_is_a_failure_of_help_too() {
    for words in [&PLAN[..], &["plan", "--help"], &["--version"]] {
        undelivered(pumice().args(words).stdout(File::options().write(true).open("/dev/full").unwrap()));
    }
}

#[test]
fn a_reader_that_goes_away_did_not_get_the_report() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    undelivered(pumice().args(PLAN).stdout(writer));
}

/// Every command that offers `--json`, by its help.
fn offer_json(words: &mut Vec<String>, found: &mut BTreeSet<String>) {
    let done = pumice().args(&*words).arg("--help").output().unwrap();
    let help = String::from_utf8(done.stdout).unwrap();
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

/// Commands whose documents are tested where there is what they need: a volume that is served, a
/// history.
const ELSEWHERE: [&str; 12] = [
    "health",
    "history",
    "report",
    "status",
    "volume add",
    "volume assemble",
    "volume create",
    "volume events",
    "volume fail",
    "volume replace",
    "volume status",
    "volume stop",
];

#[test]
fn every_command_with_json_prints_json_alone() {
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 8192, 20);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let state = path("state");
    std::fs::create_dir(&state).unwrap();
    assert_eq!(run(folder.path().join("state").as_path(), &["--repair"], &array.members).0, 1);
    let node = Node::start(&["--listen", "127.0.0.1:0"], &["mem:8MiB".into()]);
    let (address, flash) = (node.address.to_string(), path("flash"));
    let drive = format!("{flash},capacity=4MiB");
    let members: Vec<&str> = array.members.iter().map(|member| member.to_str().unwrap()).collect();
    let of_members = |words: &[&'static str]| -> Vec<String> {
        words.iter().chain(&members).map(|word| (*word).to_owned()).collect()
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let archive = |last: &[&str]| words(&[&["repairs", "--state-dir", &state], last].concat());
    let short = ["--seconds", "0.05", "--rounds", "1"];
    let listed = pumice().args(archive(&["list", "--json"])).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let id = listed["repairs"][0]["id"].to_string();
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("scrub", [words(&["scrub", "--state-dir", &state, "--quiet"]), of_members(&[])].concat()),
        ("inspect", of_members(&["inspect"])),
        ("repairs", archive(&[])),
        ("repairs list", archive(&["list"])),
        ("repairs show", archive(&["show", &id])),
        ("repairs undo", archive(&[&["undo", &id][..], &members].concat())),
        ("repairs forget", archive(&["forget", &id])),
        ("plan", words(&PLAN)),
        ("plan", words(&["plan", "--write", "--members", "5", "--parity", "1"])),
        ("flash format", words(&["flash", "format", &drive, "--dry-run"])),
        ("flash format", words(&["flash", "format", &drive])),
        ("flash status", words(&["flash", "status", &flash])),
        ("flash check", words(&["flash", "check", &flash])),
        ("volume list", words(&["volume", "list"])),
        ("discover", words(&["discover", &address])),
        ("drives", words(&["drives", &address])),
        ("doctor", words(&["doctor", "--root", folder.path().to_str().unwrap()])),
        ("bench", words(&["bench", "--rounds", "1"])),
        ("bench", words(&[&["bench", &address][..], &short].concat())),
        ("demo", words(&["demo", "--volume"])),
    ];
    let mut found = BTreeSet::new();
    offer_json(&mut Vec::new(), &mut found);
    let known: BTreeSet<String> =
        cases.iter().map(|(name, _)| *name).chain(ELSEWHERE).map(str::to_owned).collect();
    assert_eq!(found, known, "a command that offers --json needs its line here");
    for (name, words) in cases {
        let done = pumice().args(&words).arg("--json").output().unwrap();
        let (out, why) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8_lossy(&done.stderr));
        assert!(matches!(done.status.code(), Some(0 | 1)), "{name}: {why}");
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{name}: {error}: {out}"));
    }
}

/// Each message is one write with its newline, so that no other process's words come between. A
/// datagram has the bytes of one write.
#[test]
fn a_message_is_one_line_in_one_piece() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("run");
    let status = ["volume", "status", "nobody", "--run-dir", empty.to_str().unwrap()];
    for words in [&status[..], &["inspect", "/nonexistent"]] {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let code = pumice().args(words).stderr(OwnedFd::from(theirs)).stdout(Stdio::null()).status().unwrap();
        assert_eq!(code.code(), Some(2), "{words:?}");
        let mut piece = [0; 4096];
        let len = ours.recv(&mut piece).unwrap();
        let text = str::from_utf8(&piece[..len]).unwrap();
        assert!(text.starts_with("pumice: ") && text.ends_with('\n'), "{words:?}: '{text}'");
        ours.set_nonblocking(true).unwrap();
        assert!(ours.recv(&mut piece).map_or(0, |len| len) == 0, "{words:?}: one message");
    }
}

/// Nobody reads what goes to a full standard error; the command goes on to its end.
#[test]
fn a_full_standard_error_ends_no_command() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let code = pumice().args(["inspect", "/nonexistent"]).stderr(full()).status().unwrap();
    assert_eq!(code.code(), Some(2));
    // Progress goes there as well.
    let array = Made::new(RAID6);
    damage(&array, 0, 7, 8192, 300);
    let mut scrub = pumice();
    scrub
        .args(["scrub", "--repair", "--state-dir"])
        .arg(array.folder.path().join("state"))
        .args(&array.members);
    let done = scrub.stderr(full()).stdout(Stdio::null()).status().unwrap();
    assert_eq!(done.code(), Some(1), "the findings are repaired");
}

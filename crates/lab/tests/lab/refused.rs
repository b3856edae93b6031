//! Words that make no sense.

use crate::program::pumice;
use crate::small_array::{Made, RAID6, refusal, scrub};
use std::ffi::OsString;

#[test]
fn nodes_and_accumulators_that_make_no_sense() {
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    let paths: Vec<String> = array.members.iter().map(|m| m.display().to_string()).collect();
    let two_names = [format!("a={},{}", paths[0], paths[1]), format!("a={}", paths[2..].join(","))];
    let cases: [(&[&str], &[&str]); 10] = [
        (&["--accumulators", "9"], &["--accumulators"]),
        (&["--nodes", "0"], &["--nodes"]),
        (&["--nodes", "6"], &["--nodes", "1 to 5"]),
        (&["--node", "a"], &["--node"]),
        (&["--node", "a=nothing"], &["--node a", "nothing"]),
        (&["--node", &two_names[0], "--node", &two_names[1]], &["--node a", "twice"]),
        (&["--node", &two_names[0]], &["--node", "member2", "on no node"]),
        (&["--node", &two_names[0], "--nodes", "2"], &["cannot be used with"]),
        (&["--nodes", "2", "--heal"], &["cannot be used with"]),
        (&["--node", &two_names[0], "--drives"], &["cannot be used with"]),
    ];
    for (options, words) in cases {
        let message = refusal(scrub(state.path()).args(options).args(&array.members));
        assert!(words.iter().all(|word| message.contains(word)), "{options:?}: {message}");
    }
}

#[test]
fn a_plan_of_nothing_real() {
    let base = ["--members", "24", "--parity", "2", "--nodes", "3", "--drive", "4TB", "--chunk", "64KiB"];
    for (option, value) in [
        ("--parity", "24"),
        ("--nodes", "99"),
        ("--chunk", "3"),
        ("--accumulators", "9"),
        ("--accounting", "no"),
    ] {
        let mut args: Vec<OsString> = base.iter().map(OsString::from).collect();
        match base.iter().position(|a| *a == option) {
            Some(at) => args[at + 1] = value.into(),
            None => args.extend([option.into(), value.into()]),
        }
        let message = refusal(pumice().args(["plan", "--accounting", "brief"]).args(&args));
        assert!(message.contains(option), "{message}");
    }
}

#[test]
fn sizes_that_no_machine_has_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let cases: [(&[&str], &str, &str); 6] = [
        (&["bench", "flash", "--memory", "--capacity"], "99999TiB", "--capacity"),
        (&["bench", "flash", "--memory", "--capacity"], "16383PiB", "--capacity"),
        (&["bench", "flash", folder, "--capacity"], "99999TiB", "--capacity"),
        (&["bench", "volume", "--nodes", "0", "--data", "100", "--drive"], "64GiB", "--drive"),
        (&["sim", "offload", "--drive"], "18446744073709551615", "--drive"),
        (
            &["sim", "flash", "--load", "mail", "--memory", "99999TiB", "--drive-pages"],
            "1000000000",
            "--drive-pages",
        ),
    ];
    for (words, value, field) in cases {
        let message = refusal(pumice().args(words).arg(value));
        assert!(message.contains(field), "{words:?} {value}: {message}");
        assert!(!message.contains("panicked"), "{message}");
    }
}

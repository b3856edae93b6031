//! `pumice-lab sim offload` from outside: its documents, its figure, and inputs it refuses.

use std::process::{Command, Output};

fn offload(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice-lab"));
    command.args(["sim", "offload"]).args(args).output().expect("pumice-lab runs")
}

fn document(args: &[&str]) -> serde_json::Value {
    let output = offload(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn the_document_has_every_published_cell_and_the_settings() {
    let report = document(&["--json", "--drives", "4,64"]);
    let cells = report["cells"].as_array().expect("cells");
    assert_eq!(
        cells.len(),
        4 * 6 + 6,
        "time, memory and CPU of two methods in four runs, and the traffic tables"
    );
    for cell in cells {
        let reported = cell["basis"] == "reported";
        assert_eq!(cell["limit"].is_null(), reported, "{cell}");
        assert!(cell["met"] != false || cell["why"].is_string(), "what is not met has its reason: {cell}");
    }
    assert_eq!(report["published_platform"]["requests"], 1);
    assert_eq!(report["modern_platform"]["engine"], 14_000_000_000_u64);
    assert!(report["contradictions"].as_array().expect("contradictions").len() >= 8);
    let modern = report["modern"].as_array().expect("rows");
    assert_eq!((modern.len(), modern[1]["methods"].as_array().map(Vec::len)), (2, Some(3)));
}

#[test]
fn settings_change_the_drives_of_today_alone() {
    let args = ["--json", "--drives", "16,4,4", "--method", "stripe"];
    let (base, slow) = (document(&args), document(&[&args[..], &["--engine", "1GB"]].concat()));
    assert_eq!(base["cells"], slow["cells"]);
    let row = |report: &serde_json::Value| report["modern"][1]["methods"][0].clone();
    assert_eq!((row(&base)["drives"].as_u64(), row(&base)["method"].as_str()), (Some(16), Some("stripe")));
    assert_eq!(slow["modern"].as_array().map(Vec::len), Some(2), "sorted, and each once");
    assert_eq!(row(&slow)["limit"], "engine");
    let hours = |report| row(report)["seconds"].as_f64().expect("seconds");
    assert!(hours(&slow) > 5.0 * hours(&base), "{} {}", hours(&slow), hours(&base));
}

#[test]
fn the_table_and_the_figure_say_what_they_rest_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("out.svg");
    let output = offload(&["--drives", "4", "--plot", plot.to_str().expect("UTF-8")]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for part in [
        "Fitted: engine",
        "1 requests, CMB 64 MiB",
        "16 requests, CMB 64 MiB",
        "all drives in the host",
        "8 drives a node",
        "contradict each other",
        "engine to match GB/s",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let svg = std::fs::read_to_string(plot).expect("a plot");
    for part in ["<svg", "brief 2025, stripe", "slides 2024, host", "today, aggregate", ">drives<", "(GB/s)"]
    {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn wrong_inputs_are_refused_by_name() {
    for (args, field) in [
        (&["--drives", "1"][..], "--drives"),
        (&["--drives", "4,x"], "--drives"),
        (&["--drives", ""], "--drives"),
        (&["--method", "both"], "--method"),
        (&["--engine", "0"], "--engine"),
        (&["--engine", "fast"], "--engine"),
        (&["--pcie", "99999999TB"], "--pcie"),
        (&["--requests", "0"], "--requests"),
        (&["--segment", "0"], "--segment"),
        (&["--segment", "8GiB"], "--segment"),
        (&["--batch", "0"], "--batch"),
        (&["--parity", "9"], "--parity"),
        (&["--threads", "0"], "--threads"),
        (&["--drives-per-node", "2000"], "--drives-per-node"),
        (&["--plot", "/no/such/folder/x.svg"], "--plot"),
        (&["--cmb", "512KiB", "--drives", "8"], "cmb: 524288 bytes hold no request of 8 segments"),
        (&["--drive", "4KiB"], "segment: 131072 bytes"),
    ] {
        let output = offload(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(field) && output.stdout.is_empty(), "{args:?}: {said}");
    }
}

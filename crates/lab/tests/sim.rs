//! `pumice-lab sim` from outside: formats, damaged traces, documents.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn pumice(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pumice-lab")).arg("sim").args(args).output().expect("pumice-lab runs")
}

fn scrub(trace: &Path, more: &[&str]) -> Output {
    let mut args = vec!["scrub", "--trace", trace.to_str().expect("UTF-8")];
    args.extend(more);
    pumice(&args)
}

fn document(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    path
}

/// Arrivals in microseconds: bursts of five requests, then a pause of 50 ms to about 7 s.
fn arrivals(bursts: u64) -> Vec<u64> {
    let mut x = 12_345_u64;
    let mut at = 0;
    let mut out = Vec::new();
    for _ in 0..bursts {
        for _ in 0..5 {
            out.push(at);
            at += 6_000;
        }
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at += 50_000 << ((x >> 40) % 8);
    }
    out
}

fn csv(bursts: u64) -> String {
    let rows =
        arrivals(bursts).into_iter().map(|at| format!("{at},d0,R,{},4096,10,5010\n", at % 100_000 * 512));
    std::iter::once("ts_us,dev,op,offset_bytes,size_bytes,svc_start_us,svc_stop_us\n".to_owned())
        .chain(rows)
        .collect()
}

#[test]
fn every_policy_is_compared_and_the_same_bytes_come_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = write(folder.path(), "t.csv", &csv(400));
    let plot = folder.path().join("out.svg");
    let args = ["--slowdown", "1ms", "--train", "0.3", "--json", "--plot", plot.to_str().expect("UTF-8")];
    let first = scrub(&trace, &args);
    let report = document(&first);
    assert_eq!(first.stdout, scrub(&trace, &args).stdout, "the same input, the same bytes");
    let rows = report["policies"].as_array().expect("rows");
    assert_eq!(rows.len(), 24, "twelve policies, out of sample and in sample");
    for row in rows {
        let name = row["policy"].as_str().expect("a name");
        for field in ["threshold_s", "request_bytes"] {
            let value = &row[field];
            let absent = value.is_null() && row.get(field).is_some();
            assert!(absent || value.as_f64().is_some_and(|v| v >= 0.0), "{name} {field}");
        }
        assert!(row["in_sample"].is_boolean(), "{name}");
        for field in
            ["scrub_mb_per_s", "mean_slowdown_ms", "p99_slowdown_ms", "ratio_to_cfq", "ratio_to_oracle"]
        {
            assert!(row[field].as_f64().is_some_and(|v| v >= 0.0), "{name} {field}");
        }
        if ["priced", "waiting-live", "oracle"].contains(&name) {
            assert!(row["mean_slowdown_ms"].as_f64().expect("a number") <= 1.1, "{row}");
        }
        if !["oracle", "back-to-back"].contains(&name) {
            assert!(row["ratio_to_oracle"].as_f64().expect("a number") <= 1.02, "{row}");
        }
    }
    let svg = fs::read_to_string(plot).expect("a plot");
    assert!(
        svg.starts_with("<svg") && svg.contains("oracle") && svg.contains("(ms)") && svg.contains("MiB/s")
    );
}

#[test]
fn one_policy_alone_has_its_ratios() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = write(folder.path(), "t.csv", &csv(300));
    let report = document(&scrub(&trace, &["--policy", "waiting", "--slowdown", "2ms", "--json"]));
    let rows = report["policies"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    assert!(rows[0]["ratio_to_cfq"].as_f64().expect("a number") > 1.0, "{rows:?}");
    assert!(rows[0]["threshold_s"].is_number() && rows[0]["request_bytes"].is_number());
    assert_eq!((rows[0]["in_sample"].as_bool(), rows[1]["in_sample"].as_bool()), (Some(false), Some(true)));
}

#[test]
fn all_formats_tell_the_same_story() {
    let folder = tempfile::tempdir().expect("a folder");
    let times = arrivals(200);
    let msr: String = times
        .iter()
        .map(|t| format!("{},srv,1,Read,{},4096,50000\n", 128_166_372_000_000_000 + t * 10, t % 1000 * 512))
        .collect();
    let spc: String = times
        .iter()
        .map(|t| format!("0,{},4096,r,{}.{:06}\n", t % 1000, t / 1_000_000, t % 1_000_000))
        .collect();
    let mut events = Vec::new();
    for (i, t) in times.iter().enumerate() {
        events.push((*t, i, 'Q'));
        events.push((t + 5_000, i, 'C'));
    }
    events.sort_unstable();
    let mut blk: String = events
        .iter()
        .map(|(t, i, e)| {
            format!(
                "  8,0    1 {i:8} {:5}.{:09}  697  {e}   R {} + 8 [x]\n",
                t / 1_000_000,
                t % 1_000_000 * 1_000,
                i * 8
            )
        })
        .collect();
    blk.push_str("CPU0 (8,0):\n Reads Queued:  1, 4KiB\n");
    let fio: String = times
        .iter()
        .map(|t| format!("{}, 5000000, 0, 4096, {}\n", (t + 5_000) / 1_000, t % 1000 * 512))
        .collect();
    let iolog: String = std::iter::once("fio version 3 iolog\n0 /dev/x open\n".to_owned())
        .chain(times.iter().map(|t| format!("{t} /dev/x read {} 4096\n", t % 1000 * 512)))
        .collect();
    let cases = [
        ("msr", &msr, true),
        ("spc", &spc, false),
        ("blkparse", &blk, true),
        ("fio", &fio, true),
        ("fio", &iolog, false),
    ];
    for (format, text, recorded) in cases {
        let trace = write(folder.path(), "t", text);
        let args = ["trace-stats", "--trace", trace.to_str().expect("UTF-8"), "--json"];
        let stats = document(&pumice(&args));
        assert_eq!(stats["format"], format);
        assert_eq!(stats["requests"], 1_000, "{format}");
        assert_eq!(stats["recorded_times"].as_bool(), Some(recorded), "{format}");
        assert!(stats["idle_share"].as_f64().is_some_and(|v| v > 0.9), "{format} {stats}");
        assert_eq!(stats["advice"], "waiting_helps", "{format}");
    }
}

/// Exit code 2, and a message with these words.
fn refused(output: &Output, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words {
        assert!(message.contains(word), "'{word}' in: {message}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn damaged_lines_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = csv(10);
    let cases: [(&str, &str, &[&str]); 5] = [
        ("5000,d0,R,0,x12,1,2\n", "", &["line 52", "'size_bytes'", "x12"]),
        ("0,d0,R,0,4096,1,2\n", "", &["line 52", "'ts_us'", "time goes back"]),
        ("999999999,d0,Q,0,4096,1,2\n", "", &["line 52", "'op'"]),
        ("999999999,d0,R\n", "", &["line 52", "'offset_bytes'", "missing"]),
        ("99999999999999999999999,d0,R,0,1,1,2\n", "", &["line 52", "'ts_us'", "64 bits"]),
    ];
    for (bad, _, words) in cases {
        let trace = write(folder.path(), "t.csv", &format!("{good}{bad}"));
        refused(&scrub(&trace, &[]), words);
    }
    let other = write(folder.path(), "t.txt", "what is this\n");
    refused(&scrub(&other, &[]), &["line 1", "first line", "--format"]);
    refused(&scrub(&other, &["--format", "csv"]), &["line 1", "'ts_us'"]);
    refused(&scrub(&write(folder.path(), "e", ""), &[]), &["line 1", "no lines"]);
    refused(&scrub(&write(folder.path(), "h", "ts_us,op,lbn512,size_bytes\n"), &[]), &["line 2", "'op'"]);
    refused(&scrub(&folder.path().join("none"), &[]), &["none"]);
    let trace = write(folder.path(), "t.csv", &good);
    refused(&scrub(&trace, &["--device", "sdz"]), &["sdz", "d0"]);
    refused(&scrub(&trace, &["--plot", "/no/such/out.svg"]), &["--plot", "/no/such"]);
    refused(&scrub(&trace, &["--train", "1.5"]), &["--train"]);
    refused(&scrub(&trace, &["--slowdown", "5"]), &["--slowdown"]);
    refused(&scrub(&trace, &["--policy", "best"]), &["--policy", "'best'", "waiting"]);
    refused(&scrub(&trace, &["--policy", "waiting,all"]), &["'all' stands alone"]);
    let long = write(folder.path(), "l.csv", &format!("{good}{}\n", "x".repeat(10_000_000)));
    refused(&scrub(&long, &[]), &["line 52", "field 'line'", "64 KiB"]);
}

#[test]
fn small_traces_and_odd_goals_are_told_apart_from_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = csv(100);
    let one: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    let report = document(&scrub(&write(folder.path(), "one.csv", &one), &["--json"]));
    assert_eq!(report["requests"], 1);
    // The names of columns after a byte order mark, and lines that end as on Windows.
    let marked = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let report =
        document(&scrub(&write(folder.path(), "m.csv", &marked), &["--policy", "waiting", "--json"]));
    assert_eq!(report["requests"], 500);
    let trace = write(folder.path(), "t.csv", &text);
    let report = document(&scrub(&trace, &["--policy", "priced, waiting", "--maximum", "1ms", "--json"]));
    assert!(
        report["notes"].to_string().contains("the smallest request takes 4.61 ms"),
        "{}",
        report["notes"]
    );
    assert!(report["policies"].as_array().expect("rows").iter().all(|row| row["request_bytes"].is_null()));
    // All requests are in the first part.
    let early: String = text.lines().take(40).map(|line| format!("{line}\n")).collect();
    let tail = "9000000000,d1,R,0,4096,10,5010\n";
    let trace = write(folder.path(), "e.csv", &format!("{early}{tail}"));
    let report =
        document(&scrub(&trace, &["--policy", "waiting", "--device", "d0", "--train", "0.99", "--json"]));
    assert!(report["span_s"].as_f64().is_some_and(|s| s < 300.0), "of the device, not of the trace");
}

/// The notes on a trace, one line each.
fn notes(report: &serde_json::Value) -> String {
    let notes = report["notes"].as_array().expect("notes");
    notes.iter().filter_map(|note| note.as_str()).map(|note| format!("{note}\n")).collect()
}

#[test]
fn why_a_goal_was_missed_is_the_policy_s_own_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    // Two requests: one collision is more than they can earn, whatever a policy that is bound by
    // its account does.
    let two = "ts_us,op,lbn512,size_bytes,svc_stop_us\n0,R,0,512,5000\n10000000,R,0,512,5000\n";
    let trace = write(folder.path(), "two.csv", two);
    let report = document(&scrub(&trace, &["--policy", "priced", "--json"]));
    assert!(notes(&report).contains("is more than 1 request can earn"), "{}", notes(&report));
    // Those who queue are counted, and the oracle's account does not know them.
    let trace = write(folder.path(), "t.csv", &csv(2_000));
    let report = document(&scrub(&trace, &["--policy", "oracle,waiting", "--queued", "--json"]));
    let text = notes(&report);
    for line in text.lines().filter(|line| line.contains("missed")) {
        assert!(line.contains("queue behind"), "{line}");
    }
    assert!(text.contains("oracle missed the goal"), "{text}");
}

#[test]
fn a_percentile_binds_the_oracle_and_is_part_of_the_goal() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = write(folder.path(), "t.csv", &csv(2_000));
    let args = ["--policy", "oracle,priced", "--slowdown", "20ms", "--percentile", "99:5ms", "--json"];
    let report = document(&scrub(&trace, &args));
    for row in report["policies"].as_array().expect("rows") {
        assert!(row["p99_slowdown_ms"].as_f64().is_some_and(|ms| ms <= 8.0), "{row}");
        assert_eq!(row["goal_held"], true, "{row}");
    }
    let report = document(&scrub(&trace, &["--policy", "waiting", "--percentile", "50:1us", "--json"]));
    for row in report["policies"].as_array().expect("rows") {
        let missed =
            row["goal_held"] == false && row["mean_slowdown_ms"].as_f64().is_some_and(|ms| ms <= 1.1);
        assert!(!missed || notes(&report).contains("missed the percentile"), "{row}");
    }
}

#[test]
fn packed_traces_are_read_and_cut_ones_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = csv(400);
    let plain = scrub(&write(folder.path(), "t.csv", &text), &["--policy", "waiting", "--json"]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).expect("packed");
    let gz = gz.finish().expect("packed");
    let zst = zstd::stream::encode_all(text.as_bytes(), 1).expect("packed");
    for (name, bytes) in [("t.gz", gz), ("t.zst", zst)] {
        let path = folder.path().join(name);
        fs::write(&path, &bytes).expect("written");
        let mut packed = document(&scrub(&path, &["--policy", "waiting", "--json"]));
        let mut expected = document(&plain);
        (packed["trace"], expected["trace"]) = (0.into(), 0.into());
        assert_eq!(packed, expected, "{name}");
        fs::write(&path, &bytes[..bytes.len() * 2 / 3]).expect("written");
        refused(&scrub(&path, &[]), &["line ", "field 'line'", "cut off"]);
    }
}

#[test]
fn staggering_is_compared() {
    let found = document(&pumice(&["stagger", "--samples", "200000", "--json"]));
    for delay in found["delays"].as_array().expect("delays") {
        let ratio =
            delay["staggered"].as_f64().expect("a number") / delay["formula"].as_f64().expect("a number");
        assert!((ratio - 1.0).abs() < 0.01, "{delay}");
    }
    refused(&pumice(&["stagger", "--segments", "8", "--burst", "9"]), &["--burst"]);
}

/// The figures of the shared study of real traces: skipped, and said so, where there are none.
#[test]
fn real_traces_keep_their_shape() {
    let Some(folder) = std::env::var_os("PUMICE_TRACES") else {
        eprintln!("SKIPPED: PUMICE_TRACES names no folder of traces");
        return;
    };
    let trace = Path::new(&folder).join("hp2003-server-1h.csv.zst");
    // In sample, on the same table of service times: MB/s at goals of 1, 2 and 4 ms, and of the
    // baseline.
    let known = [
        ("1f01", 13.3, [61.8, 75.2, 80.0]),
        ("1f02", 13.3, [51.0, 66.5, 76.5]),
        ("1f09", 13.4, [56.9, 73.9, 80.4]),
        ("1f12", 13.5, [67.2, 77.3, 84.0]),
    ];
    for (device, baseline, figures) in known {
        for (goal, expected) in ["1ms", "2ms", "4ms"].into_iter().zip(figures) {
            let args =
                ["--device", device, "--slowdown", goal, "--policy", "waiting,cfq", "--train", "0", "--json"];
            let report = document(&scrub(&trace, &args));
            let of = |i: usize| report["policies"][i]["scrub_mb_per_s"].as_f64().expect("a number");
            assert!((of(0) / expected - 1.0).abs() < 0.05, "{device} {goal}: {} for {expected}", of(0));
            assert!((of(1) / baseline - 1.0).abs() < 0.05, "{device}: {} for {baseline}", of(1));
        }
    }
}

#[test]
fn flash_prints_what_its_figures_depend_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("flash.svg");
    let base = ["flash", "--load", "builds:2", "--scheme", "offline,separated", "--op", "10%"];
    let more = ["--json", "--plot", plot.to_str().expect("UTF-8"), "--seeds", "3", "--open-blocks", "wait"];
    let report = document(&pumice(&[&base[..], &more[..]].concat()));
    let svg = fs::read_to_string(&plot).expect("a figure");
    let parts = [">separated<", "mean time of a write (us)", "greedy-random", "16,384 logical pages"];
    assert!(svg.starts_with("<svg") && parts.iter().all(|part| svg.contains(part)), "{svg}");
    let rows = report["schemes"].as_array().expect("schemes");
    assert_eq!(rows.len(), 2);
    for row in rows {
        let settings = &row["settings"];
        assert_eq!(settings["logical_pages"], 16_384);
        assert_eq!(settings["runs"], 3);
        assert_eq!(settings["open_blocks_wait"], true);
        assert_eq!(settings["victim"], "greedy-random");
        let range = row["page_copies_range"].as_array().expect("a range");
        assert!(range[0].as_u64() <= row["page_copies"].as_u64());
        assert!(row["page_copies"].as_u64() <= range[1].as_u64());
        for key in ["waf", "mean_write_us", "p99_write_us", "mean_write_here_us", "erases", "index_bytes"] {
            assert!(row[key].as_f64().expect("a number") > 0.0, "{key}");
        }
    }
    assert_eq!(rows[0]["vs_offline"], 0.0);
    assert!(rows[1]["vs_offline"].as_f64().expect("a number") < 0.0);

    let fdp = ["--placement", "fdp", "--unit-pages", "128", "--isolation", "persistent", "--json"];
    let report = document(&pumice(&[&base[..], &fdp[..]].concat()));
    let placement = report["schemes"][0]["settings"]["placement"].as_str().expect("text");
    assert!(placement.contains("128 pages") && placement.contains("persistently"), "{placement}");

    let text = String::from_utf8(pumice(&base).stdout).expect("UTF-8");
    for word in
        ["logical pages", "over-provisioning", "victims", "reserve", "idle time", "hashes", "Placement"]
    {
        assert!(text.contains(word), "{word} in {text}");
    }
    refused(&pumice(&["flash"]), &["--trace"]);
    refused(&pumice(&["flash", "--load", "spam"]), &["spam", "builds"]);
    refused(&pumice(&["flash", "--load", "mail", "--op", "0%"]), &["too few"]);
}

/// The command with no more than so many KiB of memory.
fn within(kib: u32, args: &[&str]) -> Output {
    let limit = format!("ulimit -v {kib}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_pumice-lab"), "sim"]);
    command.args(args).output().expect("pumice-lab runs")
}

const CONTENTS: &str = "ts_us,op,lpn,crc32,sha1_64\n0,W,0,00000000,0000000000000000\n";

#[test]
fn a_flash_drive_that_needs_too_much_memory_is_refused_by_what_makes_it_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = ["flash", "--load", "mail", "--scheme", "none"];
    // More physical pages than there are numbers, of 32 bits or of 31.
    let all = ["--drive-pages", "1073741823", "--op", "400%"];
    refused(&within(8 << 20, &[&base[..], &all].concat()), &["--drive-pages", "--op", "2^31"]);
    let more = ["--drive-pages", "1073741823", "--op", "100%"];
    refused(&within(8 << 20, &[&base[..], &more].concat()), &["--drive-pages", "--op", "2^31"]);
    // Enough numbers, too little memory.
    let large = ["--drive-pages", "1073741823"];
    refused(&within(8 << 20, &[&base[..], &large].concat()), &["--drive-pages", "GiB", "--memory"]);
    // One page far away: its line is named.
    let far =
        format!("{CONTENTS}0,W,{},00000000,0000000000000000\n0,W,5,00000000,0000000000000000\n", 1 << 30);
    let trace = write(folder.path(), "far.csv", &far);
    let args = ["flash", "--trace", trace.to_str().expect("UTF-8"), "--scheme", "none"];
    refused(&within(8 << 20, &args), &["far.csv", "line 3", "'lpn'", "1073741824", "GiB", "--memory"]);
    let farthest = far.replace("1073741824", "2147483646");
    let trace = write(folder.path(), "far.csv", &farthest);
    refused(&within(8 << 20, &args), &["far.csv", "line 3", "'lpn'", "2147483646", "2^31"]);
    assert!(trace.exists());
    // The limit is a setting.
    let small = ["--memory", "1MiB"];
    refused(&pumice(&[&base[..], &small].concat()), &["1 MiB", "--memory"]);
    assert_eq!(pumice(&[&base[..], &["--memory", "64MiB"]].concat()).status.code(), Some(0));
}

#[test]
fn idle_times_that_no_trace_has_are_refused_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |text: &str| {
        let trace = write(folder.path(), "t.csv", text);
        let trace = trace.to_str().expect("UTF-8");
        pumice(&["flash", "--trace", trace, "--scheme", "none", "--drive-pages", "4096"])
    };
    let day = 86_400_000_000_u64;
    for us in [u64::MAX, u64::MAX / 1_000, 30 * day + 1] {
        let text = format!("{CONTENTS}0,I,{us},,\n0,W,0,00000000,0000000000000000\n");
        refused(&run(&text), &["line 3", "'lpn'", "30"]);
    }
    // Each is short enough, but not all together.
    let many = format!("{CONTENTS}{}", format!("0,I,{},,\n", 30 * day).repeat(123));
    refused(&run(&many), &["line 125", "'lpn'", "ten years"]);
    let fiu = "ts_us,op,lbn512,size_bytes,process,pid,dev,md5\n";
    let line = |at: u64| format!("{at},W,8,4096,p,1,d,00112233445566778899aabbccddeeff\n");
    for (from, to) in [(0, u64::MAX), (7, 30 * day + 8)] {
        refused(&run(&format!("{fiu}{}{}", line(from), line(to))), &["line 3", "'ts_us'", "30"]);
    }
}

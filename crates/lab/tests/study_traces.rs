//! Traces as they are found: several CPUs, merged requests, damaged times, long names, odd packers,
//! what is no file.

use pumice_lab::study::Scan;
use pumice_lab::study::trace::{Format, Op, Request, TraceReader};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A study's first reading, which several threads share where they can, says the same.
fn read(path: &Path, format: Option<Format>) -> Result<Vec<Request>, String> {
    let one = read_alone(path, format);
    let scan = Scan::of(path, format).map_err(|error| error.to_string());
    let count = |scan: Scan| scan.seen.iter().map(|seen| seen.requests as usize).sum::<usize>();
    assert_eq!(one.as_ref().map(Vec::len), scan.map(count).as_ref().copied());
    one
}

fn read_alone(path: &Path, format: Option<Format>) -> Result<Vec<Request>, String> {
    let mut reader = TraceReader::open(path, format).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    while let Some(request) = reader.next_request().map_err(|error| error.to_string())? {
        all.push(request);
    }
    Ok(all)
}

fn requests(text: &[u8]) -> Result<Vec<Request>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t");
    fs::write(&path, text).expect("written");
    read(&path, None)
}

/// Refused, with these words.
fn refused(text: &[u8], words: &[&str]) {
    let message = requests(text).expect_err("damaged");
    for word in words {
        assert!(message.contains(word), "'{word}' in: {message}");
    }
}

#[test]
fn cpus_of_a_block_trace_may_be_out_of_order_by_a_second_each_for_itself_not_at_all() {
    let text = "\
Input file sda.blktrace.0 added
  8,0    0        1     0.500000000   697  Q   R 0 + 8 [x]
  8,0    1        1     0.000000000   697  Q   W 64 + 8 [x]
  8,0    1        2     0.000001000   697  P   N [x]
  8,0    1        3     0.004000000     0  C   W 64 + 8 [0]
  8,0    0        2     0.510000000     0  C   R 0 + 8 [0]
";
    let summary = "CPU0 (8,0):\n Reads Queued:           1,        4KiB\n\nTotal (8,0):\nEvents (8,0): 5 entries\nSkips: 0 forward (0 -   0.0%)\nInput file sda.blktrace.0 added\n";
    let found = requests(format!("{text}{summary}").as_bytes()).expect("a trace");
    let told: Vec<_> = found.iter().map(|r| (r.at, r.op, r.offset, r.response)).collect();
    assert_eq!(told, [(0, Op::Write, 32_768, Some(4_000_000)), (500_000_000, Op::Read, 0, Some(10_000_000))]);
    refused(
        format!("{text}  8,0    0        3     0.400000000   697  Q   R 0 + 8 [x]\n").as_bytes(),
        &["line 7", "'time'", "time goes back by 0.110000000 s"],
    );
    let late = "  8,0    0        3     9.000000000   697  Q   R 0 + 8 [x]\n  8,0    1        4     0.500000000   697  Q   R 8 + 8 [x]\n";
    refused(format!("{text}{late}").as_bytes(), &["line 8", "'time'", "time goes back"]);
}

#[test]
fn merged_requests_are_part_of_the_one_they_travel_within() {
    let text = "\
  8,0    2       16     0.010000000   697  Q   R 800 + 8 [x]
  8,0    2       18     0.010001000   697  Q   R 792 + 8 [x]
  8,0    2       19     0.010002000   697  F   R 792 + 8 [x]
  8,0    2       20     0.010003000   697  Q   R 808 + 16 [x]
  8,0    2       21     0.010004000   697  M   R 808 + 16 [x]
  8,0    2       22     0.010005000   697  D   R 792 + 32 [x]
  8,0    0       23     0.015000000     0  C   R 792 + 32 [0]
";
    let found = requests(text.as_bytes()).expect("a trace");
    let told: Vec<_> = found.iter().map(|r| (r.at, r.offset, r.bytes, r.response)).collect();
    assert_eq!(told, [(0, 792 * 512, 32 * 512, Some(5_000_000))]);
}

#[test]
fn times_and_places_that_no_trace_has_are_refused() {
    let head = "ts_us,dev,op,offset_bytes,size_bytes,svc_stop_us\n0,d,R,0,512,5\n";
    let with = |line: &str| format!("{head}{line}\n").into_bytes();
    assert!(requests(&with("2592000000000,d,R,0,512,5")).is_ok(), "thirty days");
    refused(&with("31536000000000,d,R,0,512,5"), &["line 3", "'ts_us'", "leaps by 365 days"]);
    refused(&with("18446744073709551,d,R,0,512,5"), &["line 3", "'ts_us'", "leaps"]);
    refused(&with("1,d,R,0,512,18446744073709551"), &["line 3", "'svc_stop_us'", "at most a day"]);
    refused(&with("1,d,R,18446744073709551615,512,5"), &["line 3", "'offset_bytes'", "past the end"]);
    let years: String = (1..150_u64).map(|i| format!("{},d,R,0,512,5\n", i * 2_500_000_000_000)).collect();
    refused(&with(&years), &["'ts_us'", "ten years"]);
    let file_time =
        |times: [u64; 2]| times.map(|t| format!("{t},srv,0,Read,0,512,50000\n")).concat().into_bytes();
    assert!(requests(&file_time([128_166_372_003_061_629, 128_166_372_003_061_630])).is_ok());
    refused(&file_time([1_000_000, 128_166_372_003_061_629]), &["line 2", "'Timestamp'", "leaps"]);
    refused(&file_time([128_166_372_003_061_629, u64::MAX]), &["line 2", "'Timestamp'", "too large"]);
}

#[test]
fn a_message_names_the_field_as_the_trace_does() {
    refused(b"ts_ms,op,lbn512,size_bytes\n5,R,0,512\n4,R,0,512\n", &["line 3", "'ts_ms'", "goes back"]);
    refused(b"ts_ns,op,lbn512,size_bytes\nx,R,0,512\n", &["line 2", "'ts_ns'", "whole number"]);
    refused(b"ts_us,op,lbn512,size_bytes\n0,Wrtie,0,512\n", &["line 2", "'op'", "'Wrtie' is neither"]);
    let msr =
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,h,0,Read,0,512,5\n";
    assert_eq!(requests(msr.as_bytes()).map(|r| r.len()), Ok(1));
    refused(msr.repeat(2).as_bytes(), &["line 3", "'Timestamp'", "whole number"]);
}

#[test]
fn columns_may_be_many_and_names_are_short_and_printable() {
    let more: String = (0..40).map(|i| format!("c{i},")).collect();
    let line = format!("ts_us,{more}op,lbn512,size_bytes,svc_stop_us\n7,{}R,8,512,5\n", "x,".repeat(40));
    let found = requests(line.as_bytes()).expect("a trace");
    assert_eq!((found[0].offset, found[0].response), (4_096, Some(5_000)));
    let named = |name: &str| format!("ts_us,dev,op,lbn512,size_bytes\n0,{name},R,0,512\n").into_bytes();
    assert!(requests(&named("sda é")).is_ok());
    refused(&named(&"x".repeat(50_000)), &["line 2", "'dev'", "255 bytes"]);
    refused(&named("\u{1b}[31m"), &["line 2", "'dev'", "control"]);
}

#[test]
fn packed_traces_may_begin_with_a_frame_to_be_skipped() {
    let text = b"ts_us,op,lbn512,size_bytes\n0,R,0,512\n";
    let mut packed = vec![0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
    for part in text.chunks(20) {
        packed.extend(zstd::stream::encode_all(part, 1).expect("packed"));
    }
    assert_eq!(requests(&packed).map(|r| r.len()), Ok(1));
}

#[test]
fn a_pipe_is_refused_instead_of_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    assert!(read(&pipe, None).expect_err("no file").contains("a trace is a file"));
    assert!(read(folder.path(), None).expect_err("no file").contains("directory"));
}

//! Scrubs at a pace, from outside.

use crate::network::{Node, two_nodes};
use crate::online::Host;
use crate::small_array::{CHUNK, DATA_OFFSET, Made, RAID6, STRIPES, damage, refusal, run, scrub};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_paced_scrub_finds_the_same_and_says_what_it_cost() {
    let array = Made::new(RAID6);
    damage(&array, 1, 20, 4096, 10);
    let nodes = two_nodes(&array);
    let names = [nodes[0].name(), nodes[1].name()];
    let state = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A host that were on one node alone would leave every suspect stripe busy.
        let mut hosts = [Host::connect(&nodes[0]), Host::connect(&nodes[1])];
        let stop = &stop;
        let reader = scope.spawn(move || {
            let mut reads = 0;
            while !stop.load(Ordering::Relaxed) {
                for host in &mut hosts {
                    assert_eq!(host.read(1, DATA_OFFSET, 4096).len(), 4096);
                }
                reads += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            reads
        });
        let scrubs = || {
            for method in ["fingerprint", "stripe", "aggregate"] {
                let options = ["--slowdown", "5ms", "--method", method, "--batch", "16"];
                let (code, report) = run(state.path(), &options, &names);
                let findings = report["findings"].as_array().unwrap();
                assert_eq!((code, findings.len(), &findings[0]["stripe"]), (1, 1, &20.into()), "{method}");
                let pacing = report["pacing"].as_array().unwrap();
                assert_eq!(pacing.len(), 5);
                for (member, drive) in pacing.iter().enumerate() {
                    assert_eq!(drive["member"], member);
                    assert!(drive["bytes_per_s"].as_f64().unwrap() > 0.0, "{drive}");
                    assert!(drive["requests"].as_u64().unwrap() > 0);
                    assert!(drive["oldest_check_s"].as_u64().unwrap() < 600);
                }
                assert!(pacing[0]["foreground"].as_u64().unwrap() > 0, "its reads were seen");
            }
        };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scrubs));
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    // The pace ends with the scrub that asked for it.
    let (_, report) = run(state.path(), &[], &names);
    assert_eq!(report["pacing"].as_array().unwrap().len(), 0);
}

#[test]
fn a_rate_is_held_on_devices_of_this_machine_and_by_a_node_that_is_told_to() {
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    // All but the megabyte that is saved up, at a megabyte a second.
    let least = Duration::from_secs_f64((STRIPES as usize * CHUNK - (1 << 20)) as f64 / 1e6);
    let began = Instant::now();
    assert_eq!(run(state.path(), &["--rate", "1MB"], &array.members).0, 0);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    let config = state.path().join("node.toml");
    let drives: String =
        array.members.iter().map(|m| format!("[[drive]]\nbackend = '{}'\n", m.display())).collect();
    std::fs::write(&config, format!("listen = '127.0.0.1:0'\n[pacing]\nrate = '1MB'\n{drives}")).unwrap();
    let node = Node::start(&["--config", config.to_str().unwrap()], &[]);
    let began = Instant::now();
    let (code, report) = run(state.path(), &[], &[node.name()]);
    assert_eq!((code, report["pacing"].as_array().unwrap().len()), (0, 5));
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
}

#[test]
fn a_pace_that_cannot_be_kept_is_refused() {
    let array = Made::new(RAID6);
    let state = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 10] = [
        (&["--slowdown", "1ms"], "--slowdown"),
        (&["--policy", "cfq"], "--policy"),
        (&["--policy", "priced"], "--policy"),
        (&["--policy", "back-to-back", "--slowdown", "1ms"], "--slowdown"),
        (&["--slowdown", "fast"], "--slowdown"),
        (&["--rate", "1"], "--rate"),
        (&["--window", "6-8"], "--window"),
        (&["--policy", "hasty"], "--policy"),
        // The host's own reads have no pacer.
        (&["--method", "host", "--rate", "1MB"], "--rate: --method host"),
        (&["--method", "host", "--window", "06:00-08:00"], "--window: --method host"),
    ];
    for (options, word) in cases {
        let message = refusal(scrub(state.path()).args(options).args(&array.members));
        assert!(message.contains(word), "{options:?}: {message}");
    }
}

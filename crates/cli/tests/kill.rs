//! `kill -9` in the middle of a repair, fifty times.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const ROUNDS: u64 = 50;
const DATA_OFFSET: usize = 1 << 20;
const CHUNK: usize = 64 << 10;

fn pumice(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn members(folder: &Path) -> Vec<PathBuf> {
    (0..24).map(|i| folder.join(format!("drive{i:02}.img"))).collect()
}

#[test]
fn every_chunk_is_old_or_new_after_every_kill() {
    let folder = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    // The demo leaves its array behind, damaged; repaired once, it is the state that every repair
    // should lead to.
    let made = pumice(&["demo", "--keep", folder.path().to_str().unwrap()]).status().unwrap();
    assert!(made.success());
    let members = members(folder.path());
    let scrub = |policy: &str| {
        let mut command = pumice(&["scrub", "--repair", "--repair-policy", policy, "--state-dir"]);
        command.arg(state.path()).args(&members);
        command
    };
    assert_eq!(scrub("likely").status().unwrap().code(), Some(1));
    assert_eq!(
        scrub("parity").status().unwrap().code(),
        Some(1),
        "what two members lost is settled by parity"
    );
    let good: Vec<Vec<u8>> = members.iter().map(|m| fs::read(m).unwrap()).collect();
    let mut bad = good.clone();
    for stripe in (0..192).step_by(3) {
        // A place on another member in every third stripe.
        let member = (stripe * 7) % 24;
        let at = DATA_OFFSET + stripe * CHUNK + (stripe * 4096) % CHUNK;
        bad[member][at..at + 4096].iter_mut().for_each(|byte| *byte ^= 0x5A);
    }
    let mut interrupted = 0;
    for round in 0..ROUNDS {
        for (member, bytes) in members.iter().zip(&bad) {
            fs::write(member, bytes).unwrap();
        }
        let mut running = scrub("likely").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(15 + round * 5));
        running.kill().unwrap();
        interrupted += u64::from(running.wait().unwrap().code().is_none());
        let code = scrub("likely").status().unwrap().code();
        assert!(
            matches!(code, Some(0 | 1)),
            "round {round}: {code:?}: 1 for what was left to repair, 0 for nothing"
        );
        for ((member, good), bad) in members.iter().zip(&good).zip(&bad) {
            let now = fs::read(member).unwrap();
            let chunks = now.chunks(CHUNK).zip(good.chunks(CHUNK).zip(bad.chunks(CHUNK)));
            for (i, (now, (good, bad))) in chunks.enumerate() {
                assert!(now == good || now == bad, "round {round}: {} chunk {i}", member.display());
            }
            assert!(now == *good, "round {round}: the next run brings the repair to its end");
        }
    }
    assert!(interrupted >= ROUNDS / 2, "only {interrupted} of {ROUNDS} repairs were killed before their end");
}

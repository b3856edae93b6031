//! Development entry points: one way to say each thing.
//!
//! ```text
//! cargo xtask setup    install, by package name, what the tests need and this machine lacks
//! cargo xtask check    fmt, clippy, docs
//! cargo xtask test     every test (as root or in CI: setup first)
//! cargo xtask e2e      real Linux kernels in QEMU against the node; the short form is part of test
//! cargo xtask monitor-years --years N  schedules of arrays through random years
//! cargo xtask settle-sim   simulated md writers against the rule for findings; --seeds N
//! cargo xtask repair-cases [--cases N] [--seed S]    random repairs under faults, against an oracle
//! cargo xtask hostile  hostile peers beside clients that verify; the short form is part of test
//! cargo xtask pairs    pairs of features in one room; the short form is part of test
//! cargo xtask bench    the measurements of benches/record
//! cargo xtask ftl-cases --seeds N   cuts of the power and failing flash, from N seeds (or A..B)
//! cargo xtask volume-cases --seeds N   crashes of volumes, from N seeds
//! cargo xtask kill-tags --rounds N   kill -9 of a node with tags under a load that verifies
//! cargo xtask kill-flash --rounds N  kill -9 of a node with a flash drive under a load that verifies
//! cargo xtask tidy     rules of the house that no linter knows; --print lists floors and crates
//! cargo xtask lines    lines of code of the product, by crate; --at REV compares with a revision
//! ```

mod e2e;
mod run;
mod setup;
mod tidy;

use run::{Failed, cargo, say};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let task = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let done = match task.as_str() {
        "setup" => setup::setup(),
        "check" => check(),
        "test" => test(&rest),
        "e2e" => e2e::e2e(&rest),
        "repair-cases" => repair_cases(&rest),
        "settle-sim" => settle_sim(&rest),
        "monitor-years" => monitor_years(&rest),
        "hostile" => hostile(&rest),
        "pairs" => pairs(&rest),
        "bench" => bench(&rest),
        "ftl-cases" => ftl_cases(&rest),
        "volume-cases" => volume_cases(&rest),
        "kill-tags" => kill_rounds("kill-tags", "100", "kills::", &rest),
        "kill-flash" => kill_rounds("kill-flash", "50", "flash::what_was", &rest),
        "tidy" => tidy::tidy(&rest),
        "lines" => tidy::lines(&rest),
        _ => {
            eprintln!(
                "usage: cargo xtask setup|check|test|e2e|hostile|pairs|repair-cases|settle-sim|monitor-years|ftl-cases|volume-cases|kill-tags|kill-flash|bench|tidy|lines"
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed(what)) => {
            eprintln!("xtask {task}: {what}");
            ExitCode::FAILURE
        }
    }
}

/// fmt, clippy and the docs build, warnings being errors.
fn check() -> Result<(), Failed> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"], &[])?;
    cargo(&["doc", "--workspace", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "--deny warnings")])?;
    tidy::tidy(&[])
}

/// Every test. As root, or in CI, what they need is installed first; elsewhere the tests that lack
/// it say so. With arguments only the tests that cargo picks by them, else also the short forms of
/// hostile peers and of those against a real Linux kernel.
fn test(rest: &[String]) -> Result<(), Failed> {
    if setup::may_install() {
        setup::tests()?;
    } else {
        say("not root: nothing is installed; tests that lack a program say so and are skipped");
    }
    let mut args = vec!["test", "--workspace"];
    args.extend(rest.iter().map(String::as_str));
    cargo(&args, &[])?;
    if rest.is_empty() {
        say("hostile peers against pumice node: the short form of cargo xtask hostile");
        // The program that the tests ran: optimised, with every assertion.
        let program = tested();
        let with = |short: &[&str]| -> Vec<String> {
            short.iter().copied().chain(["--binary", &program]).map(str::to_owned).collect()
        };
        hostile(&with(&["--short"]))?;
        say("pairs of features in one room: the short form of cargo xtask pairs");
        pairs(&with(&["--short"]))?;
        say(
            "a real Linux kernel in QEMU against pumice node and pumice scrub: the short form of cargo xtask e2e",
        );
        e2e::e2e(&with(&[]))
    } else {
        say(
            "tests were picked: not hostile peers (cargo xtask hostile), pairs of features (cargo xtask pairs), nor a real Linux kernel (cargo xtask e2e)",
        );
        Ok(())
    }
}

/// The program as `cargo test` builds it.
fn tested() -> String {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    format!("{target}/debug/pumice")
}

/// Builds the optimised program, as a user would, unless another one is named.
fn released(rest: &[String]) -> Result<(), Failed> {
    if rest.iter().any(|option| option == "--binary") {
        return Ok(());
    }
    cargo(&["build", "--release", "--quiet", "--package", "pumice"], &[])
}

/// The cases of the flash translation layer that come from seeds: a number of them from 0 on, 20000
/// if none is given, or a range.
fn ftl_cases(rest: &[String]) -> Result<(), Failed> {
    let wrong = || Failed("usage: cargo xtask ftl-cases [--seeds N|A..B]".to_owned());
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    let are_seeds = |text: &str| match text.split_once("..") {
        Some((from, to)) => is_number(from) && is_number(to),
        None => is_number(text),
    };
    let seeds = match rest {
        [] => "20000",
        [option, seeds] if option == "--seeds" && are_seeds(seeds) => seeds,
        _ => return Err(wrong()),
    };
    let args = ["test", "--package", "pumice-flash", "--test", "power", "--test", "device_power"];
    cargo(&args, &[("PUMICE_FTL_SEEDS", seeds)])
}

/// Crashes of volumes, 20000 of them if no number is given: the long form of two tests.
fn volume_cases(rest: &[String]) -> Result<(), Failed> {
    let seeds = match rest {
        [] => "20000",
        [option, seeds] if option == "--seeds" && seeds.parse::<u64>().is_ok_and(|n| n > 0) => seeds,
        _ => return Err(Failed("usage: cargo xtask volume-cases [--seeds N]".to_owned())),
    };
    let rest = "flushed_is_kept_and_the_rest_is_old_or_new";
    let tests = ["after_any_crash", "with_a_way_of_its_own_for_each_operation"];
    let [any, own] = tests.map(|test| format!("crash::{test}_{rest}"));
    let args = ["test", "--package", "pumice-volume", "--test", "cases", "--"];
    let held = "held::no_answered_write_is_older_when_members_are_back_unless_a_flush_of_its_host_fails";
    let args = [&args[..], &["--exact", "--nocapture", &any, &own, held]].concat();
    cargo(&args, &[("PUMICE_VOLUME_SEEDS", seeds)])
}

/// Kills of a node under a load that verifies; the tests have a few of them.
fn kill_rounds(task: &str, usual: &str, tests: &str, rest: &[String]) -> Result<(), Failed> {
    let rounds = match rest {
        [] => usual,
        [name, rounds] if name == "--rounds" && rounds.parse::<u64>().is_ok_and(|n| n > 0) => rounds,
        _ => return Err(Failed(format!("usage: cargo xtask {task} [--rounds N]"))),
    };
    let test = ["test", "--quiet", "--package", "pumice", "--test", "cli", "--", "--nocapture", tests];
    cargo(&test, &[("PUMICE_KILLS", rounds)])
}

/// The long form of the simulation behind `docs/design/settling.md`.
fn settle_sim(rest: &[String]) -> Result<(), Failed> {
    let seeds = match rest {
        [] => "100000",
        [name, seeds] if name == "--seeds" && seeds.parse::<u64>().is_ok_and(|n| n > 0) => seeds,
        _ => return Err(Failed("usage: cargo xtask settle-sim [--seeds N]".to_owned())),
    };
    // The long form, and the tests that leave a clause out.
    let tests = ["scrub::settling::simulation::", "scrub::confirm::simulation::"];
    cargo(
        &[
            "test",
            "--release",
            "--quiet",
            "--package",
            "pumice-host",
            "--lib",
            "--",
            "--include-ignored",
            "--nocapture",
            tests[0],
            tests[1],
        ],
        &[("PUMICE_SETTLE_SEEDS", seeds)],
    )
}

/// Random years of schedules, 10000 of them if no number is given.
fn monitor_years(rest: &[String]) -> Result<(), Failed> {
    let years = match rest {
        [] => "10000",
        [name, years] if name == "--years" && years.parse::<u64>().is_ok_and(|n| n > 0) => years,
        _ => return Err(Failed("usage: cargo xtask monitor-years [--years N]".to_owned())),
    };
    let args = [
        "test",
        "--release",
        "--quiet",
        "--package",
        "pumice-monitor",
        "--test",
        "years",
        "--",
        "--nocapture",
    ];
    cargo(&args, &[("PUMICE_MONITOR_YEARS", years)])
}

/// Random repairs under faults, judged by an oracle: the long form of the test of the same name. A
/// million cases unless `--cases` says otherwise, from seed 1 unless `--seed` does.
fn repair_cases(rest: &[String]) -> Result<(), Failed> {
    let (mut cases, mut seed) = ("1000000".to_owned(), "1".to_owned());
    for pair in rest.chunks(2) {
        match pair {
            [option, value] if option == "--cases" => cases.clone_from(value),
            [option, value] if option == "--seed" => seed.clone_from(value),
            _ => return Err(Failed("usage: cargo xtask repair-cases [--cases N] [--seed S]".to_owned())),
        }
    }
    let test =
        ["test", "--release", "--quiet", "--package", "pumice-host", "--test", "cases", "--", "--nocapture"];
    cargo(
        &[&test[..], &["random_faults"]].concat(),
        &[("PUMICE_REPAIR_CASES", &cases), ("PUMICE_REPAIR_SEED", &seed)],
    )
}

/// Hostile peers against a node process, beside clients that verify what they read.
fn hostile(rest: &[String]) -> Result<(), Failed> {
    released(rest)?;
    let mut args = vec!["run", "--quiet", "--package", "pumice-lab", "--bin", "pumice-hostile", "--"];
    args.extend(rest.iter().map(String::as_str));
    cargo(&args, &[])
}

/// Pairs of features on a volume of real processes, under a load that verifies.
fn pairs(rest: &[String]) -> Result<(), Failed> {
    released(rest)?;
    let mut args = vec!["run", "--quiet", "--package", "pumice-lab", "--bin", "pumice-pairs", "--"];
    args.extend(rest.iter().map(String::as_str));
    cargo(&args, &[])
}

/// The measurements that are kept in `benches/record`.
fn bench(rest: &[String]) -> Result<(), Failed> {
    let mut args = vec!["run", "--release", "--quiet", "--package", "pumice-lab", "--", "bench"];
    if rest.is_empty() {
        args.push("parity");
    }
    args.extend(rest.iter().map(String::as_str));
    cargo(&args, &[])
}

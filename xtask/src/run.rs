//! Running programs.

use std::process::{Command, Stdio};

/// Failure of a task.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

/// A line about what is being done.
pub(crate) fn say(line: &str) {
    eprintln!("xtask: {line}");
}

/// Runs cargo.
pub(crate) fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<(), Failed> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    say(&format!("cargo {}", args.join(" ")));
    run(Command::new(program).args(args).envs(env.iter().copied()))
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> Result<(), Failed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| Failed(format!("{name}: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failed(format!("{name}: {status}"))) }
}

/// Runs a program to its end, and gives what it printed.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, Failed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.stdin(Stdio::null()).output().map_err(|error| Failed(format!("{name}: {error}")))?;
    // `ldd` says of a static program that it is not a dynamic one, with status 1.
    if out.status.success() || (name == "ldd" && !out.stdout.is_empty()) {
        return Ok(out.stdout);
    }
    let why = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    Err(Failed(format!("{name}: {}: {why}", out.status)))
}

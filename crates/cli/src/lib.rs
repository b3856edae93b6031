//! The `pumice` command: finds and repairs silent corruption in RAID arrays, on the machines that
//! hold the drives.
//!
//! A library, so that the commands of `pumice-lab` open, place and print as these do.

mod access;
pub mod bench;
mod codes;
mod daytime;
mod demo;
pub mod devices;
mod discover;
mod drives;
mod flash;
mod inspect;
mod kept;
pub mod leaving;
mod log;
mod node;
pub mod node_processes;
#[cfg(test)]
mod paired;
pub mod plan;
pub mod progress;
mod protect;
mod repairs;
mod running;
pub mod scrub;
pub mod system;
pub mod text;
mod volume;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use pumice_service::failure::Failure;
use pumice_service::say::say;
use std::io::Write;
use std::process::ExitCode;

/// Finds and repairs silent corruption in RAID arrays.
///
/// Exit codes: 0 clean, 1 findings, 2 could not run or could not write its report, 3 interrupted or
/// incomplete, 4 copies of a mirror differ.
#[derive(Debug, Parser)]
#[command(name = "pumice", version, arg_required_else_help = true)]
struct Pumice {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check an array, locate damage, name the damaged member, and optionally repair it
    Scrub(Box<scrub::ScrubArgs>),
    /// Show the arrays that devices belong to
    Inspect(inspect::InspectArgs),
    /// List, show, undo or delete repairs
    Repairs(repairs::RepairsArgs),
    /// Compute how many bytes a scrub would move over each link
    Plan(plan::PlanArgs),
    /// Serve drives over NVMe/TCP
    Node(node::NodeArgs),
    /// Create tags (protection information) beside drives, or show their state
    Protect(protect::ProtectArgs),
    /// Create and inspect flash drives in files or on devices
    #[command(subcommand)]
    Flash(flash::FlashCommand),
    /// Create md arrays and serve them over NVMe/TCP
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Accept a block that differs from its tag
    Release(protect::ReleaseArgs),
    /// List, save, put back or delete blocks that recovery overwrote on a drive with tags
    Kept(kept::KeptArgs),
    /// List what a discovery service knows
    Discover(discover::DiscoverArgs),
    /// Show the drives of a data node, and the arrays on them
    Drives(drives::DrivesArgs),
    /// Measure the speed of this machine: its kernels, and a drive of a node
    Bench(bench::BenchArgs),
    /// Demonstrate Pumice on an array with ten kinds of damage: four methods, and repair
    Demo(demo::DemoArgs),
}

/// Scrubs as `pumice scrub` does. A volume that a process of this machine serves is scrubbed by
/// that process.
///
/// # Errors
/// If the scrub cannot run.
pub fn scrub(args: &scrub::ScrubArgs) -> Result<ExitCode, Failure> {
    if let Some(order) = &args.command {
        return scrub::order(order);
    }
    match volume::scrub::serving(args)? {
        Some(found) => volume::scrub::run(&found, args),
        None => scrub::run(args),
    }
}

/// Parses the arguments of the process. Help and the version end the program here, and so do wrong
/// words.
fn parsed<P: CommandFactory + FromArgMatches>() -> Result<P, ExitCode> {
    let typed = codes::in_help(P::command()).try_get_matches();
    match typed.and_then(|typed| P::from_arg_matches(&typed)) {
        Ok(parsed) => Ok(parsed),
        Err(words) if words.use_stderr() => words.exit(),
        Err(help) => {
            text::delivered(match system::stdout_was_closed() {
                true => text::write(""),
                false => help.print().and_then(|()| std::io::stdout().flush()),
            });
            Err(if text::is_undelivered() { ExitCode::from(2) } else { ExitCode::SUCCESS })
        }
    }
}

/// Parses the arguments of the process, runs a command, and says why it failed.
pub fn run<P: CommandFactory + FromArgMatches>(
    command: impl FnOnce(P) -> Result<ExitCode, Failure>,
) -> ExitCode {
    let typed = match parsed::<P>() {
        Ok(typed) => typed,
        Err(code) => return code,
    };
    system::survive_file_limits();
    let done = command(typed);
    leaving::unless_leaving();
    match done {
        Ok(_) if text::is_undelivered() => ExitCode::from(2),
        Ok(code) => code,
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::from(2)
        }
    }
}

/// The program `pumice`.
#[must_use]
pub fn main() -> ExitCode {
    run(|Pumice { command }| match command {
        Command::Scrub(args) => scrub(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Repairs(args) => repairs::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Protect(args) => protect::run(&args),
        Command::Flash(command) => flash::run(&command),
        Command::Volume(command) => volume::run(&command),
        Command::Release(args) => protect::release(&args),
        Command::Kept(args) => kept::run(&args),
        Command::Discover(args) => discover::run(&args),
        Command::Drives(args) => drives::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Demo(args) => demo::run(&args),
    })
}

//! The `pumice` command: checks, locates and repairs silent corruption in RAID arrays, near the
//! drives.

mod access;
mod bench;
mod daytime;
mod demo;
mod devices;
mod discover;
mod drives;
mod failure;
mod flash;
mod inspect;
mod kept;
mod log;
mod node;
mod plan;
mod probed;
mod progress;
mod protect;
mod remote;
mod repairs;
mod running;
mod scrub;
mod sim;
mod tagged;
mod text;
mod volume;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Scrubs RAID arrays where the data lives.
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
    /// Check an array, say where it is inconsistent and which member is probably wrong, and repair
    /// it if told to
    Scrub(scrub::ScrubArgs),
    /// Show the arrays that devices belong to
    Inspect(inspect::InspectArgs),
    /// List, show, undo or forget what repairs replaced
    Repairs(repairs::RepairsArgs),
    /// Compute what a scrub moves, and where, before building anything
    Plan(plan::PlanArgs),
    /// Serve drives over NVMe/TCP
    Node(node::NodeArgs),
    /// Give drives protection information beside them, or say how it stands
    Protect(protect::ProtectArgs),
    /// Make flash drives in files or on devices, and look at them
    #[command(subcommand)]
    Flash(flash::FlashCommand),
    /// Write md arrays, and serve them
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Accept a block that does not fit its protection information
    Release(protect::ReleaseArgs),
    /// List, save, put back or forget blocks that recovery wrote over on a drive with tags
    Kept(kept::KeptArgs),
    /// Ask a discovery service what it lists
    Discover(discover::DiscoverArgs),
    /// Show the drives of a data node, and the arrays on them
    Drives(drives::DrivesArgs),
    /// Measure what this machine can do
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Replay foreground traces under virtual time, and compare when and how large to scrub
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// See it work: an array, ten kinds of damage, four methods, repair
    Demo(demo::DemoArgs),
}

fn main() -> ExitCode {
    let done = match Pumice::parse().command {
        Command::Scrub(args) => scrub::run(&args),
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
        Command::Bench(command) => bench::run(&command),
        Command::Sim(command) => sim::run(&command),
        Command::Demo(args) => demo::run(&args),
    };
    match done {
        Ok(_) if text::is_undelivered() => ExitCode::from(2),
        Ok(code) => code,
        Err(failure) => {
            eprintln!("pumice: {failure}");
            ExitCode::from(2)
        }
    }
}

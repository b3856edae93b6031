//! `pumice-lab bench`: measures the speed of this machine.

mod flash;
mod guards;
#[cfg(feature = "isal")]
mod isal;
mod node;
mod pace;
mod parity;
mod scrub;
mod volume;

use clap::Subcommand;
use pumice::leaving;
use pumice_service::failure::Failure;
use std::process::ExitCode;

/// Kinds of benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure the parity kernels against a plain read of the same memory
    Parity(parity::ParityArgs),
    /// Measure the guards of protection information, and digests, against a copy of the same bytes
    Guards(guards::GuardsArgs),
    /// Measure a scrub of real devices against a plain read of the same devices
    Scrub(scrub::ScrubArgs),
    /// Measure a node's drive under load against a bare echo of messages of the same sizes
    Node(node::NodeArgs),
    /// Measure a flash drive against a plain one, in files or in memory
    Flash(flash::FlashArgs),
    /// Measure a paced scrub of a node's drives beside other users, against a scrub at a fixed rate
    /// that slows them equally
    Pace(pace::PaceArgs),
    /// Measure a volume over drives in memory: writes, degraded reads, a rebuild
    Volume(volume::VolumeArgs),
}

/// Runs the command.
pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode, Failure> {
    leaving::on_signal()?;
    match command {
        BenchCommand::Parity(args) => parity::run(args),
        BenchCommand::Guards(args) => guards::run(args),
        BenchCommand::Scrub(args) => scrub::run(args),
        BenchCommand::Node(args) => node::run(args),
        BenchCommand::Flash(args) => flash::run(args),
        BenchCommand::Pace(args) => pace::run(args),
        BenchCommand::Volume(args) => volume::run(args),
    }
}

//! `pumice bench`: what this machine can do.

mod clock;
mod guards;
#[cfg(feature = "isal")]
mod isal;
mod node;
mod pace;
mod parity;
mod scrub;

use crate::failure::Failure;
use clap::Subcommand;
use std::process::ExitCode;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The parity kernels, beside a plain read of the same memory
    Parity(parity::ParityArgs),
    /// The guards of protection information and digests, beside a copy of the same bytes
    Guards(guards::GuardsArgs),
    /// A scrub of real devices, beside reading them in the same way and folding nothing
    Scrub(scrub::ScrubArgs),
    /// A node's drive under load, beside a bare echo of messages of the same sizes
    Node(node::NodeArgs),
    /// A paced scrub of a node's drives beside other users, and one at a fixed rate that costs them
    /// the same
    Pace(pace::PaceArgs),
}

/// Runs the command.
pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode, Failure> {
    match command {
        BenchCommand::Parity(args) => parity::run(args),
        BenchCommand::Guards(args) => guards::run(args),
        BenchCommand::Scrub(args) => scrub::run(args),
        BenchCommand::Node(args) => node::run(args),
        BenchCommand::Pace(args) => pace::run(args),
    }
}

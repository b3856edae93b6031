//! `pumice-lab sim`: studies in virtual time.

mod flash;
mod offload;
mod scrub;
mod shared;
mod stagger;
mod stats;

use clap::Subcommand;
use pumice_service::failure::Failure;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Replay a trace of foreground requests, and compare scrub policies and request sizes
    Scrub(scrub::ScrubStudyArgs),
    /// Show how idle a traced drive is, and how predictable its idle times are
    TraceStats(stats::TraceStatsArgs),
    /// Compare staggered with sequential order: throughput, and time to meet a burst of errors
    Stagger(stagger::StaggerArgs),
    /// Replay a trace of contents on a flash drive, and compare schemes of deduplication
    Flash(flash::FlashArgs),
    /// Predict scrubs by drives with a parity engine: the published ones, and drives of today
    Offload(offload::OffloadArgs),
}

/// Runs the command.
pub(crate) fn run(command: &SimCommand) -> Result<ExitCode, Failure> {
    match command {
        SimCommand::Scrub(args) => scrub::run(args),
        SimCommand::TraceStats(args) => stats::run(args),
        SimCommand::Stagger(args) => stagger::run(args),
        SimCommand::Flash(args) => flash::run(args),
        SimCommand::Offload(args) => offload::run(args),
    }
}

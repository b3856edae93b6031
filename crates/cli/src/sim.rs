//! `pumice sim`: studies under virtual time.

mod scrub;
mod stagger;
mod stats;

use crate::failure::Failure;
use clap::Subcommand;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Replay a trace of foreground requests, and compare when and how large to scrub
    Scrub(scrub::ScrubStudyArgs),
    /// Show how idle a traced drive is, and how predictably
    TraceStats(stats::TraceStatsArgs),
    /// Compare staggered with sequential order: throughput, and time to meet a burst of errors
    Stagger(stagger::StaggerArgs),
}

/// Runs the command.
pub(crate) fn run(command: &SimCommand) -> Result<ExitCode, Failure> {
    match command {
        SimCommand::Scrub(args) => scrub::run(args),
        SimCommand::TraceStats(args) => stats::run(args),
        SimCommand::Stagger(args) => stagger::run(args),
    }
}

/// Writes a figure to a file.
fn write_plot(path: &Path, svg: &str) -> Result<(), Failure> {
    std::fs::write(path, svg).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// The last part of a path: what a figure's title has room for.
fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

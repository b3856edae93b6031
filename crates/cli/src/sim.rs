//! `pumice sim`: studies under virtual time.

mod scrub;

use crate::failure::Failure;
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Replay a trace of foreground requests, and compare when and how large to scrub
    Scrub(scrub::ScrubStudyArgs),
}

/// Runs the command.
pub(crate) fn run(command: &SimCommand) -> Result<ExitCode, Failure> {
    match command {
        SimCommand::Scrub(args) => scrub::run(args),
    }
}

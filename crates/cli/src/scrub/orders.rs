//! Orders to a scrub that runs: `pumice scrub pause`, `go-on`, `pace`, `stop`.

use crate::access::folder;
use crate::text::print;
use clap::{Args, Subcommand};
use pumice_base::units::{parse_duration, parse_size};
use pumice_service::api::{PassPhase, PassRequest, PassState};
use pumice_service::failure::Failure;
use pumice_service::folder::passes_folder;
use pumice_service::passes::{find, order};
use std::path::PathBuf;
use std::process::ExitCode;

/// An order to a scrub that runs, of another process.
#[derive(Debug, Subcommand)]
pub(crate) enum ScrubCommand {
    /// Save, let go of devices and nodes, and wait for `go-on`; after 10 minutes the scrub ends
    Pause(Named),
    /// End a pause
    GoOn(Named),
    /// Save and end, as SIGTERM does
    Stop(Named),
    /// Go on at another pace
    Pace {
        #[command(flatten)]
        named: Named,
        /// Most bytes a second from each drive, such as 50MB; at least 4096
        #[arg(long, value_name = "BYTES", value_parser = parse_size, required_unless_present = "slowdown")]
        rate: Option<u64>,
        /// Average delay that requests of other users may suffer, such as 1ms; for drives of nodes
        /// only
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        slowdown: Option<u64>,
    },
}

/// The scrub that an order is for.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Name or UUID of the array that is scrubbed
    #[arg(value_name = "ARRAY")]
    array: String,
    /// Folder of the sockets, as `pumice scrub` was given it [default: as of `pumice scrub`]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    run_dir: Option<PathBuf>,
}

/// Gives the order, and says how the scrub stands then.
pub(super) fn run(command: &ScrubCommand) -> Result<ExitCode, Failure> {
    let (named, request) = match command {
        ScrubCommand::Pause(named) => (named, PassRequest::Pause),
        ScrubCommand::GoOn(named) => (named, PassRequest::GoOn),
        ScrubCommand::Stop(named) => (named, PassRequest::Stop),
        ScrubCommand::Pace { named, rate, slowdown } => {
            (named, PassRequest::Pace { rate: *rate, slowdown_ns: *slowdown })
        }
    };
    let folder = passes_folder(named.run_dir.as_deref())?;
    let (socket, _) = find(&folder, &named.array)?;
    let state = order(&socket, &request)?;
    print(&words(&state));
    Ok(ExitCode::SUCCESS)
}

fn words(state: &PassState) -> String {
    let name = if state.name.is_empty() { &state.array } else { &state.name };
    let phase = match state.state {
        PassPhase::Running => "runs".to_owned(),
        PassPhase::Pausing | PassPhase::Paused => {
            let left = state.pause_left_s.unwrap_or_default();
            format!("is paused; it ends in {left} s unless it is told to go on")
        }
        PassPhase::Stopping => "saves and ends".to_owned(),
    };
    format!("{name}: {} of {} stripes checked; the scrub {phase}\n", state.stripes, state.of_stripes)
}

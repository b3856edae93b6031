//! `pumice alerts`: one event through every channel.

use crate::text::print;
use clap::{Args, Subcommand};
use pumice_monitor::alerts::{Event, Kind};
use pumice_monitor::config::Config;
use pumice_service::failure::Failure;
use pumice_service::notify::mail::SENDMAIL;
use pumice_service::notify::single::{Outcome, channels, event, send};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The configuration of this machine.
pub(crate) const CONFIG: &str = "/etc/pumice/pumice.toml";

/// Sends one event through every channel of alerts, and prints what became of it.
///
/// The monitor need not run: these events have ids of their own, and are not kept for a later try.
#[derive(Debug, Subcommand)]
pub(crate) enum AlertsCommand {
    /// Send a test through every channel
    Test(TestArgs),
    /// Tell that a unit of systemd has failed, for OnFailure=
    Unit(UnitArgs),
}

/// Channels of a configuration.
#[derive(Debug, Args)]
pub(crate) struct Channels {
    /// Read the channels from this file [default: /etc/pumice/pumice.toml; without it, mail to root
    /// and programs of /etc/pumice/alert.d]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Program that takes mails with `-t -oi`
    #[arg(long, value_name = "PROGRAM", default_value = SENDMAIL, hide = true)]
    sendmail: PathBuf,
}

/// Sends a test through every channel, one after another; each has 30 s.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 every channel took it, 1 a channel did not, or there is none, 2 could not run.")]
pub(crate) struct TestArgs {
    #[command(flatten)]
    channels: Channels,
}

/// Tells through every channel that a unit of systemd has failed.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 every channel took it, 1 a channel did not, or there is none, 2 could not run.")]
pub(crate) struct UnitArgs {
    /// The unit, such as pumice-monitor.service
    #[arg(value_name = "UNIT")]
    unit: String,
    #[command(flatten)]
    channels: Channels,
}

/// Runs the command.
pub(crate) fn run(command: &AlertsCommand) -> Result<ExitCode, Failure> {
    match command {
        AlertsCommand::Test(args) => {
            let detail = "a test of the channels: nothing needs to be done";
            all(&args.channels, &event(Kind::Test, "channels", detail))
        }
        AlertsCommand::Unit(args) => {
            let unit = &args.unit;
            let detail = format!("{unit} has failed: see `systemctl status {unit}`");
            all(&args.channels, &event(Kind::UnitFailed, unit, &detail))
        }
    }
}

/// Reads a configuration; that of this machine need not exist.
pub(crate) fn configuration(file: Option<&Path>) -> Result<Config, Failure> {
    let path = file.unwrap_or(Path::new(CONFIG));
    let at = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
    let text = match std::fs::read_to_string(path) {
        Err(error) if file.is_none() && error.kind() == ErrorKind::NotFound => String::new(),
        other => other.map_err(|error| at(&error))?,
    };
    Config::parse(&text).map_err(|error| at(&error))
}

fn all(args: &Channels, event: &Event) -> Result<ExitCode, Failure> {
    let config = configuration(args.config.as_deref())?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (mut taken, mut failed) = (0, 0);
    send(host.trim(), event, channels(&config.alerts, &args.sendmail), &mut |Outcome { channel, result }| {
        match result {
            Ok(()) => {
                taken += 1;
                print(&format!("{channel}: taken\n"));
            }
            Err(why) => {
                failed += 1;
                print(&format!("{channel}: FAILED: {why}\n"));
            }
        }
    });
    if taken + failed == 0 {
        print("there is no channel: nobody would hear of a fault\n");
    }
    Ok(if taken > 0 && failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

//! `pumice volume`: creates and serves md arrays.

mod create;
mod report;
pub(crate) mod scrub;
mod serve;

use crate::access::RunDir;
use clap::{Args, Subcommand};
use pumice_service::api::{Condition, Request};
use pumice_service::client;
use pumice_service::failure::Failure;
use pumice_service::members::{absolute, named};
use pumice_service::say::say;
use std::path::PathBuf;
use std::process::ExitCode;

/// Creates md arrays (RAID-4, 5 and 6) and serves them over NVMe/TCP
///
/// A volume is an md array. When it is stopped, Linux and Pumice can take it over from each other:
/// mdadm assembles what `create` makes, and Pumice serves what mdadm made. Devices are block
/// devices, image files, or drives of nodes (nvme://HOST:PORT/DRIVE).
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Create a volume on empty drives
    Create(create::CreateArgs),
    /// Recover from a crash, and leave the array clean
    Assemble(serve::AssembleArgs),
    /// Serve a volume over NVMe/TCP until it is stopped
    Serve(serve::ServeArgs),
    /// List the volumes that this machine serves
    List(ListArgs),
    /// Show the state of a volume
    Status(StatusArgs),
    /// Show what happened to a volume since it is served
    Events(EventsArgs),
    /// Fail a member of a volume
    Fail(FailArgs),
    /// Add a device in place of a missing member, and rebuild it
    Add(AddArgs),
    /// Fail a member, and rebuild its role on another device
    Replace(ReplaceArgs),
    /// Stop a volume cleanly, and end the process that serves it
    Stop(NamedArgs),
    /// Release a volume that a dead machine had open
    Release(create::ReleaseArgs),
    /// Remove the superblocks of a volume's devices
    Destroy(create::DestroyArgs),
}

/// Lists volumes.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all answered, 2 could not run, or a process that serves a volume did not answer: its \
socket is named, and the others are listed.")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    run: RunDir,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A volume by name.
#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// The volume: its UUID or its name
    #[arg(value_name = "VOLUME")]
    volume: String,
    #[command(flatten)]
    run: RunDir,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Shows a volume.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 shown; with --test 0 if all members are in sync, 1 if the volume is degraded, \
rebuilding or held; 2 could not run.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// End with code 1 unless all members are in sync
    #[arg(long)]
    test: bool,
}

/// Shows events: members that were lost or are back, rebuilds, holds, scrubs.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// The number of an event: those after it are shown
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    after: u64,
}

/// Fails a member: it gets no more requests, and the superblocks of the others record the failure.
#[derive(Debug, Args)]
pub(crate) struct FailArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// The member: its role, or its device by any path
    #[arg(value_name = "MEMBER")]
    member: String,
}

/// Adds a device.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// The device, as named on the machine that serves the volume
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Use the device even if it is a member of an array, or its first or last MiB is not zero
    #[arg(long)]
    force: bool,
}

/// Replaces a member: the volume is without this member until the new device is rebuilt.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// The member: its role, or its device by any path
    #[arg(value_name = "MEMBER")]
    member: String,
    /// The device, as named on the machine that serves the volume
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Use the device even if it is a member of an array, or its first or last MiB is not zero
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(command: &VolumeCommand) -> Result<ExitCode, Failure> {
    match command {
        VolumeCommand::Create(args) => create::run(args),
        VolumeCommand::Assemble(args) => serve::assemble(args),
        VolumeCommand::Serve(args) => serve::run(args),
        VolumeCommand::List(args) => list(args),
        VolumeCommand::Status(args) => status(args),
        VolumeCommand::Events(args) => events(args),
        VolumeCommand::Fail(args) => ask(&args.named, &Request::Fail { member: named(&args.member) }),
        VolumeCommand::Add(args) => {
            let device = absolute(&args.device)?;
            ask(&args.named, &Request::Add { device, force: args.force })
        }
        VolumeCommand::Replace(args) => {
            let device = absolute(&args.device)?;
            let member = named(&args.member);
            ask(&args.named, &Request::Replace { member, device, force: args.force })
        }
        VolumeCommand::Release(args) => create::release_array(args),
        VolumeCommand::Stop(args) => ask(args, &Request::Stop),
        VolumeCommand::Destroy(args) => create::destroy(args),
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let (all, silent) = client::all(&args.run.folder()?)?;
    report::list(&all, args.json);
    for failure in &silent {
        say(&failure.to_string());
    }
    Ok(if silent.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let StatusArgs { named, test } = args;
    let found = client::find(&named.run.folder()?, &named.volume)?;
    let volume = client::ask(&found, &Request::Status)?;
    report::show(&volume, named.json);
    if !test || volume.condition == Condition::Healthy {
        return Ok(ExitCode::SUCCESS);
    }
    match volume.condition {
        Condition::Unknown => {
            Err(Failure::new("--test: the process that serves the volume is too old for it"))
        }
        _ => Ok(ExitCode::from(1)),
    }
}

fn events(args: &EventsArgs) -> Result<ExitCode, Failure> {
    let EventsArgs { named, after } = args;
    let found = client::find(&named.run.folder()?, &named.volume)?;
    let mut all = client::events(&found, *after)?;
    // Those that come meanwhile are left for the next call.
    let newest = all.newest;
    while let Some(last) = all.events.last().map(|told| told.id).filter(|last| *last < newest) {
        let more = client::events(&found, last)?;
        if more.series != all.series || more.events.is_empty() {
            break;
        }
        all.dropped += more.dropped;
        all.events.extend(more.events);
    }
    report::events(&all, named.json);
    Ok(ExitCode::SUCCESS)
}

/// Sends a request to the process that serves a volume, and shows the state of the volume
/// afterwards.
fn ask(args: &NamedArgs, request: &Request) -> Result<ExitCode, Failure> {
    let found = client::find(&args.run.folder()?, &args.volume)?;
    report::show(&client::ask(&found, request)?, args.json);
    Ok(ExitCode::SUCCESS)
}

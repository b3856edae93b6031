//! `pumice volume`: arrays that are written, and served.

mod control;
mod create;
mod members;
mod report;
mod serve;

use crate::failure::Failure;
use clap::{Args, Subcommand};
use control::Ask;
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes md arrays (RAID-4, 5 and 6), and serves them over NVMe/TCP
///
/// A volume is an md array. Linux and Pumice can take it over from each other when it is stopped:
/// what `create` makes, mdadm assembles, and the other way round. Devices are block devices, image
/// files, or drives of nodes (nvme://HOST:PORT/DRIVE).
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make a volume of drives that hold nothing
    Create(create::CreateArgs),
    /// Replay what a crash left, and leave the array clean
    Assemble(serve::AssembleArgs),
    /// Serve a volume over NVMe/TCP until it is stopped
    Serve(serve::ServeArgs),
    /// List the volumes that this machine serves
    List(ListArgs),
    /// Show how a volume stands
    Status(NamedArgs),
    /// Fail a member of a volume
    Fail(FailArgs),
    /// Give a volume a device for a member that is missing, and rebuild it
    Add(AddArgs),
    /// Fail a member, and give its role another device, which is rebuilt
    Replace(ReplaceArgs),
    /// Make a volume clean, and end the process that serves it
    Stop(NamedArgs),
    /// Take the mark of a machine that died off a volume that it had open
    Release(create::ReleaseArgs),
    /// Make the devices of a volume members of nothing
    Destroy(create::DestroyArgs),
}

/// Lists volumes.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    run: control::RunDir,
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
    run: control::RunDir,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Fails a member: nothing is sent to it any more, and the superblocks of the others say so.
#[derive(Debug, Args)]
pub(crate) struct FailArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// The member: its role, or its device as `status` shows it
    #[arg(value_name = "MEMBER")]
    member: String,
}

/// Adds a device.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// The device, as the process that serves the volume is to open it
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Take it also if it is a member of an array
    #[arg(long)]
    force: bool,
}

/// Replaces a member: the volume has one drive less until the new device is rebuilt.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// The member: its role, or its device as `status` shows it
    #[arg(value_name = "MEMBER")]
    member: String,
    /// The device, as the process that serves the volume is to open it
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Take it also if it is a member of an array
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
        VolumeCommand::Status(named) => ask(named, &Ask::Status),
        VolumeCommand::Fail(args) => ask(&args.named, &Ask::Fail { member: args.member.clone() }),
        VolumeCommand::Add(args) => {
            let device = members::absolute(&args.device)?;
            ask(&args.named, &Ask::Add { device, force: args.force })
        }
        VolumeCommand::Replace(args) => {
            let device = members::absolute(&args.device)?;
            let member = args.member.clone();
            ask(&args.named, &Ask::Replace { member, device, force: args.force })
        }
        VolumeCommand::Release(args) => create::release_array(args),
        VolumeCommand::Stop(named) => ask(named, &Ask::Stop),
        VolumeCommand::Destroy(args) => create::destroy(args),
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    report::list(&control::all(&args.run.folder()?)?, args.json);
    Ok(ExitCode::SUCCESS)
}

/// Asks the process that serves a volume, and shows how the volume stands afterwards.
fn ask(named: &NamedArgs, ask: &Ask) -> Result<ExitCode, Failure> {
    let socket = control::find(&named.run.folder()?, &named.volume)?;
    let status = control::ask(&socket, ask)?;
    report::show(&status, named.json);
    Ok(ExitCode::SUCCESS)
}

//! `pumice drives`.

use crate::text::{print, print_json, table};
use clap::Args;
use pumice_base::units::format_decimal;
use pumice_host::probe::DriveReader;
use pumice_raid::probe::probed_spans;
use pumice_raid::{Known, ReadAt, probe_together};
use pumice_remote::initiator::DigestPolicy;
use pumice_service::failure::Failure;
use pumice_service::place::RemotePlace;
use pumice_service::remote::connect;
use serde::Serialize;
use std::process::ExitCode;

/// Shows the drives that a data node serves, and which arrays they are members of.
#[derive(Debug, Args)]
pub(crate) struct DrivesArgs {
    /// HOST or HOST:PORT; the default port is 4420
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    node: String,
    drives: Vec<Drive>,
}

#[derive(Debug, Serialize)]
struct Drive {
    nsid: u32,
    name: String,
    size_bytes: u64,
    memory_bytes: u64,
    /// The array that it is a member of.
    array: Option<Membership>,
    /// The reason if its superblock cannot be read.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Membership {
    uuid: String,
    name: String,
    level: i32,
    role: String,
}

/// Runs the command.
pub(crate) fn run(args: &DrivesArgs) -> Result<ExitCode, Failure> {
    let node = connect(RemotePlace::parse(&args.address)?.address, DigestPolicy::Auto)?;
    let places: Vec<_> = node.drives().iter().map(|drive| (drive.id, drive.size_bytes)).collect();
    let readers = DriveReader::ahead(&*node, &places, probed_spans);
    let readers: Vec<&dyn ReadAt> = readers.iter().map(|reader| reader as &dyn ReadAt).collect();
    let found = probe_together(&readers, Known::default());
    let drives = node.drives().iter().zip(found).map(|(drive, found)| {
        let (array, problem) = match found {
            Ok(record) => (record.map(|r| r.superblock), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let array = array.map(|superblock| Membership {
            uuid: superblock.array_uuid.to_string(),
            name: superblock.name.clone(),
            level: superblock.level.number(),
            role: superblock.position().to_string(),
        });
        Drive {
            nsid: drive.id.0,
            name: drive.name.clone(),
            size_bytes: drive.size_bytes,
            memory_bytes: drive.memory_bytes,
            array,
            problem,
        }
    });
    let document = Document { node: node.name().to_owned(), drives: drives.collect() };
    if args.json {
        print_json(&document);
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["drive", "size", "name", "array"].map(str::to_owned).to_vec()];
    for drive in document.drives {
        let array = match (&drive.array, &drive.problem) {
            (Some(array), _) => format!("{} RAID-{} {}, {}", array.uuid, array.level, array.name, array.role),
            (None, Some(problem)) => problem.clone(),
            (None, None) => "-".to_owned(),
        };
        rows.push(vec![drive.nsid.to_string(), format_decimal(drive.size_bytes), drive.name, array]);
    }
    print(&table(&rows));
    Ok(ExitCode::SUCCESS)
}

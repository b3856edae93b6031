//! `pumice discover`.

use crate::text::{print, print_json, table};
use clap::Args;
use pumice_nvme::spec::Nqn;
use pumice_nvme::spec::log::DiscoveryEntry;
use pumice_remote::initiator::{ConnectOptions, DigestPolicy, discover};
use pumice_service::failure::Failure;
use pumice_service::identity::host_nqn;
use pumice_service::place::RemotePlace;
use pumice_service::remote::DEADLINE;
use serde::Serialize;
use std::process::ExitCode;

/// Lists the subsystems that the discovery service at an address knows.
#[derive(Debug, Args)]
pub(crate) struct DiscoverArgs {
    /// HOST or HOST:PORT; the default port is 4420
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    subsystems: Vec<Subsystem>,
}

#[derive(Debug, Serialize)]
struct Subsystem {
    kind: &'static str,
    nqn: String,
    transport: &'static str,
    address: String,
    port: String,
}

/// Runs the command.
pub(crate) fn run(args: &DiscoverArgs) -> Result<ExitCode, Failure> {
    let name = RemotePlace::parse(&args.address)?;
    let ask = |digests| {
        let options = ConnectOptions {
            subsystem: Nqn::discovery(),
            host: host_nqn(),
            hostid: *b"pumice discover.",
            digests,
            flow_control: true,
            deadline: DEADLINE,
        };
        discover(name.address, &options)
    };
    let (entries, _) = DigestPolicy::Auto.connect(name.address, ask)?;
    let subsystems = entries.into_iter().map(|entry| Subsystem {
        kind: if entry.subtype == DiscoveryEntry::NVM { "nvm" } else { "discovery" },
        nqn: entry.subnqn,
        transport: "tcp",
        address: entry.traddr,
        port: entry.trsvcid,
    });
    let document = Document { subsystems: subsystems.collect() };
    if args.json {
        print_json(&document);
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["kind", "address", "port", "nqn"].map(str::to_owned).to_vec()];
    for subsystem in document.subsystems {
        rows.push(vec![subsystem.kind.to_owned(), subsystem.address, subsystem.port, subsystem.nqn]);
    }
    print(&table(&rows));
    Ok(ExitCode::SUCCESS)
}

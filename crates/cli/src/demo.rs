//! `pumice demo`: an array, ten kinds of damage, and four methods that find it.

mod damage;
mod network;
mod volume;
mod witness;
mod world;

use crate::devices::{Placement, assemble_from, place};
use crate::leaving::{self, TemporaryFolder};
use crate::progress::Silent;
use crate::text::{print, table};
use clap::Args;
use damage::{Planted, plant};
use pumice_base::telemetry::{Ledger, Place};
use pumice_base::units::format_decimal;
use pumice_host::Method;
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::{Options, Outcome, run as run_pass};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_host::target::Target;
use pumice_node::NodeOptions;
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::probing::probe_all;
use pumice_service::state::fresh_seed;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use world::World;

/// Data nodes of the demo's array.
const NODES: usize = 3;

/// Creates a 22+2 array in a temporary folder, damages it in ten ways, finds the damage with each
/// of four methods, shows how many bytes each method moved, and repairs the damage. Then the same
/// with tags beside the drives, which prove verdicts that parity alone can only call likely.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("of_one_part").args(["network", "volume"]))]
pub(crate) struct DemoArgs {
    /// Create the array in this folder, and leave it there, damaged again, for experiments
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Put the drives behind three node processes on this machine, and count the bytes on their
    /// sockets
    #[arg(long)]
    network: bool,
    /// Create a volume, write to it, lose a drive, continue, rebuild the drive, and scrub the
    /// volume
    #[arg(long, conflicts_with = "network")]
    volume: bool,
    /// With --network or --volume: print one JSON document
    #[arg(long, requires = "of_one_part")]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    leaving::on_signal()?;
    let temporary;
    let folder = match &args.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            folder.as_path()
        }
        None => {
            temporary = TemporaryFolder::new("pumice-demo-")?;
            temporary.path()
        }
    };
    if args.network {
        return network::run(folder, args.json);
    }
    if args.volume {
        return volume::run(folder, args.json);
    }
    let world = World::make(folder, world::STRIPES)?;
    print(&format!(
        "An array of {} drives, {} data and 2 parity, on {NODES} data nodes: {} in {} stripes.\n\
         Linux md's own format, version 1.2, RAID-6 left-symmetric, chunks of 64 KiB.  ({:.1} s)\n\n",
        world.members(),
        world.members() - 2,
        format_decimal(world.bytes()),
        world.stripes(),
        began.elapsed().as_secs_f64(),
    ));
    let planted = plant(&world)?;
    let state = StateFiles::open(&folder.join("state"), world::ARRAY)?;
    let outcomes = by_every_method(&world, &state)?;
    print("Ten kinds of damage, and the methods that find them:\n\n");
    let all_found = show_findings(&planted, &outcomes);
    let repaired = repair(&world, &state, &planted)?;
    let proven = witness::show(folder)?;
    if let Some(folder) = &args.keep {
        plant(&world)?;
        let members = folder.join("drive*.img");
        print(&format!(
            "\nThe array is in {0}, damaged again.  Try:\n    pumice inspect {1}\n    pumice scrub --method fingerprint {1}\n    pumice scrub --repair {1}\n",
            folder.display(),
            members.display()
        ));
    }
    print(&format!("\nAll of it took {:.1} s.\n", began.elapsed().as_secs_f64()));
    if all_found && repaired && proven {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::new("the demo did not find all the damage that it planted"))
    }
}

fn by_every_method(world: &World, state: &StateFiles) -> Result<Vec<Outcome>, Failure> {
    let one = |method| -> Result<Outcome, Failure> {
        let target = assemble_world(world, false)?;
        let options = Options { method: Some(method), ..Options::with_seed(fresh_seed()?) };
        Ok(run_pass(&target, Some(state), &options, &mut Silent, &Stop::new())?)
    };
    Method::ALL.into_iter().map(one).collect()
}

fn assemble_world(world: &World, write: bool) -> Result<Target, Failure> {
    let mut probed = probe_all(world.paths(), Access { write, ..Access::default() })?;
    let array = assemble_from(&mut probed)?;
    place(array, &probed, &Placement::Runs(NODES), &NodeOptions::default())
}

/// One line for each kind of damage, one column for each method; tells whether everything was
/// found, by all, and nothing else.
fn show_findings(planted: &[Planted], outcomes: &[Outcome]) -> bool {
    let mut complete = true;
    let mut rows = vec![
        ["damage"]
            .into_iter()
            .chain(Method::ALL.iter().map(|m| m.name()))
            .chain(["verdict"])
            .map(str::to_owned)
            .collect(),
    ];
    for kind in planted {
        let mut row = vec![kind.words.to_owned()];
        for outcome in outcomes {
            let found =
                kind.places.iter().filter(|place| outcome.findings.iter().any(|f| place.is(f))).count();
            complete &= found == kind.places.len();
            row.push(format!("{found}/{}", kind.places.len()));
        }
        row.push(kind.expected.to_owned());
        rows.push(row);
    }
    print(&table(&rows));
    let places: usize = planted.iter().map(|kind| kind.places.len()).sum();
    let false_ones: usize = outcomes
        .iter()
        .flat_map(|outcome| &outcome.findings)
        .filter(|finding| !planted.iter().any(|kind| kind.places.iter().any(|place| place.is(finding))))
        .count();
    print(&format!(
        "\n{places} places, each with the right stripe, bytes and verdict; {false_ones} false findings.\n\
         A verdict from parity is never more than likely: pumice lists what else it could be.\n"
    ));
    complete && false_ones == 0
}

fn ledgers(outcomes: &[Outcome]) -> String {
    let mut rows = vec![
        std::iter::once(String::new()).chain(outcomes.iter().map(|o| o.method.name().to_owned())).collect(),
    ];
    let mut row = |label: &str, cell: &dyn Fn(&Outcome) -> String| {
        rows.push(std::iter::once(label.to_owned()).chain(outcomes.iter().map(cell)).collect::<Vec<_>>());
    };
    for place in Place::ALL.into_iter().filter(|place| *place != Place::MediaWritten) {
        row(place.label(), &|o| format_decimal(o.ledger[place]));
    }
    let network = |ledger: &Ledger| ledger.to_host + ledger.node_to_node;
    row("network, of the data", &|o| {
        format!("{:.5} %", 100.0 * network(&o.ledger) as f64 / o.bytes_checked as f64)
    });
    row("chance to miss, at most", &|o| {
        if o.miss_bound == 0.0 { "0".to_owned() } else { format!("{:.0e}", o.miss_bound) }
    });
    row("seconds", &|o| format!("{:.2}", o.seconds));
    table(&rows)
}

/// Repairs, and checks again; tells whether only what cannot be located is left.
fn repair(world: &World, state: &StateFiles, planted: &[Planted]) -> Result<bool, Failure> {
    let never = Stop::new();
    let options = Options { repair: Some(RepairPolicy::Strong), ..Options::with_seed(fresh_seed()?) };
    let outcome = run_pass(&assemble_world(world, true)?, Some(state), &options, &mut Silent, &never)?;
    let repaired = outcome.findings.iter().filter(|finding| finding.repaired).count();
    let again = by_every_method(world, state)?;
    let still = |place| again.iter().flat_map(|o| &o.findings).any(|f| damage::Place::is(place, f));
    let left: Vec<&Planted> = planted.iter().filter(|kind| kind.places.iter().any(still)).collect();
    print(&format!(
        "\nRepair: {repaired} of {} places rewritten, each verified, journalled and read back.\nChecked again: ",
        outcome.findings.len()
    ));
    for kind in &left {
        print(&format!("left alone: {} ({}).  ", kind.words, kind.expected));
    }
    let intact = damage::differences(world, &left)?;
    print(&match intact {
        0 => "Every other byte is what it was before the damage.\n".to_owned(),
        n => format!("{n} chunks differ from what they were!\n"),
    });
    print("\nWhat each method moved for that second check:\n\n");
    print(&ledgers(&again));
    Ok(left.iter().all(|kind| !kind.can_be_located) && intact == 0)
}

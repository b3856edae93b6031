//! `pumice doctor`.

use crate::text::{print, print_json};
use clap::Args;
use pumice_service::doctor::{Trouble, Urgency, examine};
use pumice_service::failure::Failure;
use pumice_service::words::count;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Names what collides with Pumice on this machine, or is missing: other programs that check
/// arrays, rules by which Linux takes volumes, modes, configuration, programs. Each with the
/// command that mends it.
///
/// Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 nothing needs to be done, 1 something does, 2 could not run.")]
pub(crate) struct DoctorArgs {
    /// Look at the system below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    format: u32,
    result: &'static str,
    troubles: &'a [Trouble],
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    if !args.root.is_dir() {
        return Err(Failure::new(format!("--root {}: it is no folder", args.root.display())));
    }
    let troubles = examine(&args.root);
    let urgent = troubles.iter().filter(|trouble| trouble.urgency != Urgency::Note).count();
    if args.json {
        let result = if urgent == 0 { "well" } else { "troubles" };
        print_json(&Document { format: 1, result, troubles: &troubles });
    } else {
        print(&words(&troubles, urgent));
    }
    Ok(if urgent == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn words(troubles: &[Trouble], urgent: usize) -> String {
    let mut out = match urgent {
        0 => "Nothing needs to be done.\n".to_owned(),
        some => format!("{} to mend.\n", count(some as u64, "thing")),
    };
    for Trouble { urgency, subject, words, mend, .. } in troubles {
        let urgency = match urgency {
            Urgency::Wrong => "WRONG  ",
            Urgency::Warning => "WARNING",
            Urgency::Note => "note   ",
        };
        let _ = write!(out, "\n{urgency} {subject}\n        {words}\n        mend: {mend}\n");
    }
    out
}

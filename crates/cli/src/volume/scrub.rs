//! `pumice scrub` of a volume in service: the process that serves it carries the scrub out.

use crate::page::print_result;
use crate::progress::Display;
use crate::scrub::ScrubArgs;
use crate::system::on_signals;
use pumice_host::pass::{Observer, Progress};
use pumice_host::scrub::Options;
use pumice_offload::PaceRequest;
use pumice_service::api::{ScrubDone, ScrubOrder, ScrubProgress};
use pumice_service::client::{self, Found, Scrubbing, Step};
use pumice_service::failure::Failure;
use pumice_service::folder::default_folder;
use pumice_service::identity::default_state_dir;
use pumice_service::say::say;
use pumice_service::state::fresh_seed;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The volume whose devices are named; `None` if no volume that is served here has any of them.
///
/// # Errors
/// If only some of the devices are such a volume's.
pub(crate) fn serving(args: &ScrubArgs) -> Result<Option<Found>, Failure> {
    // Nobody who may not look there serves one for us.
    let Ok(folder) = args.run_dir.clone().map_or_else(default_folder, Ok) else { return Ok(None) };
    client::serving(&folder, &args.devices)
}

/// The order for the options of the command.
fn order(args: &ScrubArgs) -> Result<ScrubOrder, Failure> {
    if let Some(option) = args.not_in_service() {
        return Err(Failure::new(format!("{option}: not possible for a volume that is being served")));
    }
    let options: Options = args.options(fresh_seed()?)?;
    let PaceRequest { policy: None, slowdown_ns: None, rate, windows } = options.pace else {
        let what = "--slowdown and --policy: a volume that is being served is paced by --rate and --window";
        return Err(Failure::new(what));
    };
    let folder = args.state_dir.clone().or_else(default_state_dir);
    Ok(ScrubOrder {
        method: options.method,
        batch: options.batch,
        seed: options.seed.as_ref().map(ToString::to_string),
        range: options.range,
        order: options.order.map(|order| order.to_string()),
        repair: options.repair.map(|policy| policy.to_string()),
        dry_run: options.dry_run,
        vouch: options.vouch,
        resume: options.resume,
        accept_degraded: options.accept_degraded,
        keep_repairs: options.keep_repairs,
        rate,
        windows,
        state_dir: folder.map(std::path::absolute).transpose()?,
        state_named: args.state_dir.is_some(),
        json: args.json,
    })
}

/// Has the process that serves a volume scrub it, and shows what it tells.
pub(crate) fn run(found: &Found, args: &ScrubArgs) -> Result<ExitCode, Failure> {
    let order = order(args)?;
    let windows = order.windows.clone();
    let mut scrubbing = Scrubbing::begin(found, order)?;
    let (stop, asked) = (scrubbing.stop()?, AtomicBool::new(false));
    on_signals(move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(3);
        }
        say("stopping (again to stop at once)");
        stop();
    })?;
    let mut display = Display::new(args.quiet, windows);
    let end = loop {
        match scrubbing.step() {
            Ok(Step::Progress(ScrubProgress { stripes, of_stripes, bytes, findings })) => {
                display.progress(&Progress { stripes, of_stripes, bytes, findings });
            }
            Ok(Step::Note(note)) => display.note(&note),
            Ok(Step::Done(done)) => break Ok(done),
            Err(failure) => break Err(failure),
        }
    };
    display.finish();
    let ScrubDone { output, exit, stopped } = end?;
    if let Some(why) = stopped {
        say(&format!("stopped: {why}"));
    }
    print_result(&output);
    Ok(ExitCode::from(exit))
}

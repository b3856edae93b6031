//! `pumice scrub` of a volume in service: the process that serves it carries the scrub out.

use crate::page::print_result;
use crate::progress::Display;
use crate::scrub::{Command, ScrubArgs, Shown};
use pumice_host::pass::{Observer, Progress};
use pumice_host::scrub::Options;
use pumice_offload::PaceRequest;
use pumice_service::api::{ScrubDone, ScrubOrder, ScrubProgress};
use pumice_service::client::{self, Found, Scrubbing, Step};
use pumice_service::failure::Failure;
use pumice_service::folder::default_folder;
use pumice_service::identity::default_state_dir;
use pumice_service::passes::{Next, PassControl};
use pumice_service::say::say;
use pumice_service::state::fresh_seed;
use std::process::ExitCode;

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
        parts: options.parts,
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
    let mut order = order(args)?;
    let pace = PaceRequest { rate: order.rate, ..PaceRequest::default() };
    let mut command = Command::new(args, &pace)?;
    command.control.knows(&found.volume.uuid, &found.volume.name, order.state_dir.is_some(), false);
    command.listen(&found.volume.uuid)?;
    let done = loop {
        let done = attempt(found, &order, args, &command.control)?;
        let say_unless_quiet = &mut |words: &str| {
            if !args.quiet {
                say(words);
            }
        };
        // Incomplete for another reason, and an order at the same time: it goes on all the same.
        let is_interrupted = done.exit == 3 && done.stopped.is_none() && command.control.is_raised();
        if !is_interrupted || command.control.ended(say_unless_quiet) == Next::Over {
            break done;
        }
        order.resume = true;
        order.rate = command.control.pace(PaceRequest::default()).rate;
    };
    let ScrubDone { output, exit, stopped, document } = done;
    if let Some(why) = stopped {
        say(&format!("stopped: {why}"));
    }
    let written = match (&command.file, document.as_deref().or(args.json.then_some(&output))) {
        (Some(file), Some(document)) => file.write(document),
        // A server of an earlier version gives no document.
        _ => Ok(()),
    };
    print_result(&output);
    written.map(|()| ExitCode::from(exit))
}

/// Scrubs once, until it ends or an order ends it.
fn attempt(
    found: &Found,
    order: &ScrubOrder,
    args: &ScrubArgs,
    control: &PassControl,
) -> Result<ScrubDone, Failure> {
    let raised = control.begin();
    let mut scrubbing = Scrubbing::begin(found, order.clone())?;
    let _listening = raised.listen(scrubbing.stop()?);
    let mut shown = Shown { display: Display::new(args.quiet, order.windows.clone()), control };
    let end = loop {
        match scrubbing.step() {
            Ok(Step::Progress(ScrubProgress { stripes, of_stripes, bytes, findings })) => {
                shown.progress(&Progress { stripes, of_stripes, bytes, findings });
            }
            Ok(Step::Note(note)) => shown.note(&note),
            Ok(Step::Done(done)) => break Ok(done),
            Err(failure) => break Err(failure),
        }
    };
    shown.display.finish();
    end
}

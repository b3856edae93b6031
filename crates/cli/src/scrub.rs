//! `pumice scrub`.

mod args;
mod drives;
mod foreign;
mod heal;
mod human;

pub use args::{ScrubArgs, Study};

use crate::devices::{assemble_of, place_at, taken_into_use};
use crate::progress::Display;
use crate::running::{Running, running};
use crate::system::on_signals;
use crate::text::{json_text, print};
use pumice_host::pass::{Retry, StopReason};
use pumice_host::scrub::{Options, run as run_pass};
use pumice_host::stop::Stop;
use pumice_node::NodeOptions;
use pumice_parity::kernels::Kernels;
use pumice_raid::Array;
use pumice_service::access::Access;
use pumice_service::failure::Failure;
use pumice_service::identity::default_state_dir;
use pumice_service::opening::expand;
use pumice_service::probed::Probed;
use pumice_service::remote::hosts_of;
use pumice_service::say::say;
use pumice_service::scrubs::Forms;
use pumice_service::state::{fresh_seed, open_state};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Outcome of a scrub.
struct Scrubbed {
    output: String,
    exit: u8,
    /// Reason for an early end, if that is to be said.
    stopped: Option<String>,
    /// It was a repair, and a node that it held was lost.
    is_lost: bool,
    /// Batches done, and findings repaired.
    done: (usize, usize),
}

impl Scrubbed {
    fn tell(&self) -> ExitCode {
        if let Some(why) = &self.stopped {
            say(why);
        }
        print(&self.output);
        ExitCode::from(self.exit)
    }
}

/// Runs the command.
///
/// A repair holds its nodes. If it loses one, others may have written there since. So it begins
/// anew as with `--resume`: everything is opened, assembled and held again, and the journal comes
/// first.
pub(crate) fn run(args: &ScrubArgs) -> Result<ExitCode, Failure> {
    if args.drives {
        return drives::run(args);
    }
    let mut stop = None;
    let mut retry = Retry::new(args.options(fresh_seed()?)?.reconnect);
    let mut last: Option<Scrubbed> = None;
    loop {
        let why = match (attempt(args, &mut stop, last.is_some()), &last) {
            (Ok(scrubbed), before) if scrubbed.is_lost => {
                if before.as_ref().is_none_or(|before| before.done < scrubbed.done) {
                    retry.succeeded();
                }
                let why = scrubbed.stopped.clone().unwrap_or_default();
                last = Some(scrubbed);
                why
            }
            (Ok(scrubbed), _) => return Ok(scrubbed.tell()),
            (Err(failure), None) => return Err(failure),
            // It cannot be reached yet, or somebody else has it.
            (Err(failure), Some(_)) => failure.to_string(),
        };
        let (Some(found), Some(stop)) = (&last, &stop) else { return Err(Failure::new(why)) };
        let Some(wait) = retry.failed(Instant::now()) else {
            say(&why);
            return Ok(found.tell());
        };
        if !args.quiet {
            say(&format!("{why}; the repair is resumed in {:.2} s", wait.as_secs_f64()));
        }
        if stop.wait(wait).is_err() {
            return Ok(found.tell());
        }
    }
}

/// Scrubs once. `stop` is made when something can be stopped. `again`: it goes on with the scrub
/// that was interrupted.
fn attempt(args: &ScrubArgs, stop: &mut Option<Arc<Stop>>, again: bool) -> Result<Scrubbed, Failure> {
    let sysfs = Path::new("/sys");
    let (healing, devices) = match args.heal {
        true => heal::named(&args.devices, sysfs).map(|(array, rest)| (Some(array), rest))?,
        false => (None, args.devices.clone()),
    };
    let allow_in_use = args.allow_in_use || healing.is_some();
    let mut options = args.options(fresh_seed()?)?;
    options.resume |= again;
    Kernels::best().self_test()?;
    let access =
        Access { write: args.repairs(), allow_in_use, digests: args.digest, metadata: args.metadata };
    if access.write && access.allow_in_use {
        return Err(Failure::new(
            "--repair and --allow-in-use exclude each other: devices are repaired only while nobody else uses them",
        ));
    }
    let paths = expand(&devices, sysfs)?;
    let (probed, mut assembled) = assemble_of(&paths, access, args.array.as_deref())?;
    assembled.may_be(access)?;
    if let Some(healing) = &healing {
        heal::is_of(healing, &assembled.array, sysfs)?;
    }
    options.in_use |= healing.is_some();
    // Other hosts may write the drives of a node, unless they are kept away.
    options.in_use |= !access.write && probed.iter().any(|p| p.here().is_none());
    // This program does not see the requests of others to a device of this machine.
    if let Some(here) = probed.iter().find(|p| p.here().is_some())
        && options.pace.slowdown_ns.is_some()
    {
        let what = "--slowdown works only for drives of nodes, which see the requests of other users; --rate and --window work here too";
        return Err(Failure::new(format!("{}: {what}", here.path)));
    }
    let here = allow_in_use.then(|| running(&paths, sysfs)).flatten();
    judge(&mut assembled.array, here.as_ref(), &probed, args, &mut options)?;
    let target = place_at(assembled, &probed, &args.study.placement, &NodeOptions::default())?;
    options.check(&target)?;
    let folder = args.state_dir.clone().or_else(default_state_dir);
    let needed = args.repairs() || args.resume || args.heal;
    let named = args.state_dir.is_some();
    let state = open_state(folder.as_deref(), (named, needed), target.array().uuid(), |note| {
        if !args.quiet {
            say(note);
        }
    })?;
    if let Some(said) = state
        .as_ref()
        .map(|state| heal::recover(state, sysfs, |md| heal::is_same(md, target.array(), sysfs)))
        .transpose()?
        .flatten()
    {
        say(&said);
    }
    let mut display = Display::new(args.quiet);
    let stop = match stop {
        Some(stop) => stop,
        none => none.insert(stop_on_signal()?),
    };
    let outcome = run_pass(&target, state.as_ref(), &options, &mut display, stop);
    display.finish();
    let mut outcome = outcome?;
    if let (Some(array), Some(state)) = (&healing, &state) {
        heal::run(array, &target, state, &options, &mut outcome, stop)?;
    }
    if !(options.in_use || access.write || outcome.findings.is_empty()) && outcome.stopped.is_none() {
        // Findings were reported without a second look, because nobody else was using the devices.
        outcome.stopped = taken_into_use(&probed, Path::new("/sys"))?.map(StopReason::TakenIntoUse);
    }
    let is_failed = matches!(outcome.stopped, Some(StopReason::Failed(_)));
    let stopped = outcome.stopped.as_ref().and_then(stopped_words);
    let (output, exit) = FORMS.report(&target, &outcome, args.json, options.repair.is_some() || args.heal);
    let repaired = outcome.findings.iter().filter(|finding| finding.repaired).count();
    // A node that is held and lost says so without being asked over the network.
    let is_lost = access.write
        && is_failed
        && target.nodes().any(|node| node.link().is_some_and(|link| link.reconnect().is_err()));
    Ok(Scrubbed { output, exit, stopped, is_lost, done: (outcome.batches, repaired) })
}

/// Makes the array one whose parity can be judged, by the rules of its format.
fn judge(
    array: &mut Array,
    here: Option<&Running>,
    probed: &[Probed],
    args: &ScrubArgs,
    options: &mut Options,
) -> Result<(), Failure> {
    match array.metadata() {
        Some(_) => options.running_elsewhere = is_judged(array, here, probed, args)?,
        None => options.in_use |= foreign::is_judged(array, args)?,
    }
    Ok(())
}

/// Makes an array of md's one whose parity can be judged, if its state allows that. `here` is the
/// array as this machine runs it. Returns whether another machine probably runs it.
fn is_judged(
    array: &mut Array,
    here: Option<&Running>,
    probed: &[Probed],
    args: &ScrubArgs,
) -> Result<bool, Failure> {
    if here.is_some_and(Running::is_settled) {
        array.assume_running();
    } else if let Some(hosts) = elsewhere(array, probed, args)? {
        if !args.quiet {
            say(&format!(
                "the array is active, and {hosts} connected to all of its drives: it may be running or resyncing there"
            ));
        }
        array.assume_running();
        return Ok(true);
    } else if args.assume_settled {
        array.assume_settled();
    } else if array.needs_assume_settled()
        && let Some(here) = here
    {
        return Err(Failure::new(format!("array {}: {}", array.uuid(), here.words())));
    } else if array.needs_assume_settled() {
        return Err(Failure::new(format!(
            "array {}: it is running, or was not stopped cleanly, or was never synced, and has no bitmap that says where: parity cannot be judged; scrub it when a resync has made parity whole, or, if you know that it is, with --assume-settled",
            array.uuid()
        )));
    }
    Ok(false)
}

/// The words for the end of a scrub, if they are to be said beside the report.
fn stopped_words(reason: &StopReason) -> Option<String> {
    match reason {
        StopReason::Failed(why) => Some(format!("stopped: {why}")),
        StopReason::TakenIntoUse(who) => Some(format!(
            "{who}; that began during the scrub, so findings may be writes under way: scrub again with --allow-in-use"
        )),
        _ => None,
    }
}

/// The forms of reports of scrubs.
pub(crate) const FORMS: Forms = Forms { words: human::report, document: |report| json_text(report) };

/// The hosts that probably run an array over drives of nodes: its superblocks say that writes may
/// be under way, every member is on a node, and the same hosts are connected to all of them. `None`
/// otherwise, or if the operator gave `--assume-settled`.
fn elsewhere(array: &Array, probed: &[Probed], args: &ScrubArgs) -> Result<Option<String>, Failure> {
    if !array.unclean() || args.assume_settled || args.repairs() {
        return Ok(None);
    }
    hosts_of(probed)
}

/// A stop that Ctrl-C, SIGTERM and SIGHUP raise; a second signal ends the program at once.
fn stop_on_signal() -> Result<Arc<Stop>, Failure> {
    let stop = Arc::new(Stop::new());
    let raised = Arc::clone(&stop);
    // The handler runs on a separate thread.
    on_signals(move || {
        if raised.is_raised() {
            std::process::exit(3);
        }
        say("stopping (again to stop at once)");
        raised.raise();
    })?;
    Ok(stop)
}

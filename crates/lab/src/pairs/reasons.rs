//! Reasons for waiting: what may take long says for what, in a log, in its progress or in a status.

use crate::pairs::load::Wait;
use crate::pairs::process::PATIENCE;
use crate::pairs::world::{Call, World, held};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Words of the program that name a reason to wait.
const REASONS: [&str; 9] = [
    "more members are missing than the volume survives",
    "the volume stays held",
    "an operation failed",
    "no answer within",
    "does not answer",
    "waits for",
    "waiting for",
    "until its hours",
    "state=held",
];

/// Time by which a line may come later than its cause.
const LATER: Duration = Duration::from_millis(1500);
/// Time that a busy machine may add.
const NOISE: Duration = Duration::from_millis(1500);

/// The line that says why something waited between two moments, if there is one.
fn reason(world: &World, from: Instant, until: Instant) -> Option<String> {
    let from = from.checked_sub(Duration::from_secs(1)).unwrap_or(from);
    let logs = held(&world.logs).clone();
    logs.iter().find_map(|log| {
        let lines = log.between(from, until + LATER);
        let says = |line: &&String| !line.starts_with('$') && REASONS.iter().any(|word| line.contains(word));
        lines.iter().find(says).map(|line| format!("{}: {line}", log.name))
    })
}

/// Asks for the state of the volume, for a request that waits: the answer is a line of a log.
fn ask(world: &World) {
    let state = world.status().and_then(|status| status["state"].as_str().map(str::to_owned));
    if let Ok(log) = world.log("watch") {
        log.add(format!("status: state={}", state.as_deref().unwrap_or("no answer")));
    }
}

/// Looks at requests under way until `stop`: each that waits long must have a reason by then.
pub(crate) fn watch(world: &World, stop: impl Fn() -> bool) {
    let mut judged: Vec<Instant> = Vec::new();
    while !stop() {
        std::thread::sleep(Duration::from_millis(100));
        let pending: Vec<Wait> = held(&world.load.pending).iter().flatten().cloned().collect();
        // What is said at the tenth second counts.
        for wait in pending.iter().filter(|wait| wait.from.elapsed() > PATIENCE + NOISE) {
            if judged.contains(&wait.from) {
                continue;
            }
            judged.push(wait.from);
            ask(world);
            let now = Instant::now();
            match reason(world, wait.from, now) {
                Some(reason) => world.note(format!("{} waited: {reason}", wait.what)),
                None => world.trouble(format!(
                    "{}: no answer for {:.1} s, and nothing says why",
                    wait.what,
                    (now - wait.from).as_secs_f64()
                )),
            }
        }
    }
}

/// Judges the commands of the operator: each says something at least every ten seconds, or ends, or
/// something else says why.
pub(crate) fn judge_calls(world: &World) {
    let calls: Vec<Arc<Call>> = held(&world.calls).clone();
    for call in calls {
        let end = held(&call.ended).unwrap_or_else(Instant::now);
        let mut times = call.log.times(call.began, end);
        times.push(end);
        let mut before = call.began;
        for at in times {
            let gap = at.saturating_duration_since(before);
            if gap > PATIENCE + NOISE && reason(world, before, at).is_none() {
                world.trouble(format!(
                    "'{}' said nothing for {:.1} s, and nothing says why",
                    call.what,
                    gap.as_secs_f64()
                ));
                break;
            }
            before = at;
        }
    }
}

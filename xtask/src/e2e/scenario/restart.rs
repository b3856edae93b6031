//! The node is killed under load and started again at the same place: the kernel comes back, and
//! nothing is lost.

use super::{Bench, MIB};
use crate::run::Failed;
use std::time::Duration;

const SCRIPT: &str = include_str!("../../../guest/restart.sh");
/// Time for which the node is away.
const AWAY: Duration = Duration::from_millis(700);

/// Runs it.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let kills: u32 = if bench.options.full { 5 } else { 2 };
    // A slow guest writes less than 2 MiB a second, and verifies when all of it is written.
    let seconds = 16 + 4 * kills;
    let mut node = bench.counting_node("restart", 512, vec![bench.drive("restart", 32 * MIB)?])?;
    let variables =
        [("port", node.port.to_string()), ("nqn", Bench::nqn("restart")), ("seconds", seconds.to_string())];
    let limit = u64::from(seconds) + 180;
    let mut guest = bench.guest(&bench.machine(true, limit), SCRIPT, &variables)?;
    guest.reach("load")?;
    for kill in 1..=kills {
        if guest.listen(Duration::from_secs(2), "done")? {
            return Err(Failed(format!("the load ended before the node was killed for the {kill}. time")));
        }
        node.await_host()?;
        node.kill();
        std::thread::sleep(AWAY);
        node.restart()?;
        bench.steps.done(&format!("node killed and started again, {kill} of {kills}"));
    }
    let report = guest.finish()?;
    let reconnects = report.number("reconnects")?;
    if reconnects < u64::from(kills) {
        return Err(Failed(format!(
            "the kernel reconnected {reconnects} times, the node was away {kills} times"
        )));
    }
    let state = report.get("state")?;
    if state != "live" {
        return Err(Failed(format!("at the end the controller is {state}")));
    }
    bench.steps.done("load written and verified, no I/O error");
    node.stop()
}

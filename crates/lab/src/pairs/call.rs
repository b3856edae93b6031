//! Commands of the operator: each says why it waits, and ends when it is asked to.

use crate::pairs::Failed;
use crate::pairs::process::{Log, PATIENCE, Process};
use crate::pairs::world::{Call, World, held};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Result of a command.
#[derive(Debug, Clone)]
pub(crate) struct CallResult {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
    /// It was asked to stop before it was done.
    pub(crate) stopped: bool,
}

impl CallResult {
    /// The JSON document in what it said.
    pub(crate) fn json(&self) -> Value {
        let from = self.said.find("\n{").map_or(0, |at| at + 1);
        let to = self.said.rfind('}').map_or(0, |at| at + 1);
        serde_json::from_str(self.said.get(from..to.max(from)).unwrap_or_default()).unwrap_or(Value::Null)
    }
}

impl World {
    /// Runs a command of the operator to its end. Once `stop` says so it gets SIGTERM.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn call_until(&self, args: &[String], stop: impl Fn() -> bool) -> Result<CallResult, Failed> {
        let name = format!("call{}-{}", self.next_number(), args[0]);
        let log = Log::new(&self.folder, &name)?;
        held(&self.logs).push(Arc::clone(&log));
        let call = Arc::new(Call {
            what: args.join(" "),
            began: Instant::now(),
            log: Arc::clone(&log),
            ended: Mutex::new(None),
        });
        held(&self.calls).push(Arc::clone(&call));
        let mut process = Process::start(&self.binary, args, &log)?;
        let mut asked: Option<Instant> = None;
        let status = loop {
            if let Some(status) = process.exit_status() {
                break Some(status);
            }
            match asked {
                None if stop() => {
                    process.signal(Signal::SIGTERM);
                    asked = Some(Instant::now());
                }
                Some(at) if at.elapsed() > PATIENCE => break None,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if status.is_none() {
            self.trouble(format!("'{}' is still there {PATIENCE:?} after SIGTERM", args.join(" ")));
            process.kill();
        }
        *held(&call.ended) = Some(Instant::now());
        log.wait_read();
        let lines = log.between(call.began, Instant::now());
        Ok(CallResult {
            code: status.and_then(|status| status.code()),
            said: lines[1.min(lines.len())..].join("\n"),
            stopped: asked.is_some(),
        })
    }

    /// The same, of a command that is done when it is done.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn call(&self, args: &[&str]) -> Result<CallResult, Failed> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let until = Instant::now() + 6 * PATIENCE;
        self.call_until(&args, || Instant::now() > until)
    }

    /// A question or an order to the process that serves the volume.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn volume_call(&self, args: &[&str]) -> Result<CallResult, Failed> {
        let run = self.path("run").display().to_string();
        self.call(&[&["volume"], args, &["--run-dir", &run, "--json"]].concat())
    }
}

//! Processes of a cell, and each line that they say, with the time at which it came.

use crate::pairs::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Time for a process to end once it is asked to, and for a request to stay without an answer and
/// without a reason.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The lines of a process. They are kept in a file as well.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) name: String,
    lines: Mutex<Vec<(Instant, String)>>,
    file: Mutex<File>,
    /// Pipes that are read.
    open: AtomicUsize,
}

impl Log {
    /// A log whose file is `NAME.log` of a folder.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn new(folder: &Path, name: &str) -> Result<Arc<Self>, Failed> {
        let path = folder.join(format!("{name}.log"));
        let made = File::options().create(true).append(true).open(&path);
        let file = Mutex::new(made.map_err(|error| Failed(format!("{}: {error}", path.display())))?);
        Ok(Arc::new(Self {
            name: name.to_owned(),
            lines: Mutex::new(Vec::new()),
            file,
            open: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn add(&self, line: String) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // The lines in memory are those that are judged.
        let _ = writeln!(file, "{line}");
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), line));
    }

    /// The lines that came between two moments.
    pub(crate) fn between(&self, from: Instant, until: Instant) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|(at, _)| *at >= from && *at <= until).map(|(_, line)| line.clone()).collect()
    }

    /// Times of the lines that came between two moments.
    pub(crate) fn times(&self, from: Instant, until: Instant) -> Vec<Instant> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|(at, _)| *at).filter(|at| *at >= from && *at <= until).collect()
    }

    fn read(self: &Arc<Self>, from: Option<impl Read + Send + 'static>) {
        let Some(from) = from else { return };
        let log = Arc::clone(self);
        log.open.fetch_add(1, Ordering::AcqRel);
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                log.add(line);
            }
            log.open.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// Waits for what a process said last, which is on its way after it has ended.
    pub(crate) fn wait_read(&self) {
        let until = Instant::now() + PATIENCE;
        while self.open.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A command to start, and where the process goes.
type Order = (Command, Sender<std::io::Result<Child>>);

/// Starts a process from a thread that outlives all others: the system kills a process when the
/// thread that started it ends.
fn spawn(command: Command) -> std::io::Result<Child> {
    static STARTER: OnceLock<Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, taken) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, started) in taken {
                // Nobody waits for it any more: the child is dropped, and ends with this program.
                let _ = started.send(command.spawn());
            }
        });
        orders
    });
    let (started, taken) = channel();
    starter.send((command, started)).map_err(|_| std::io::Error::other("the starter has ended"))?;
    taken.recv().map_err(|_| std::io::Error::other("the starter has ended"))?
}

/// A process. It is killed (SIGKILL) when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) log: Arc<Log>,
}

impl Process {
    /// Starts `program`, and collects all that it says in `log`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(program: &Path, args: &[String], log: &Arc<Log>) -> Result<Self, Failed> {
        log.add(format!("$ {} {}", program.display(), args.join(" ")));
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command).map_err(|error| Failed(format!("{}: {error}", program.display())))?;
        log.read(child.stdout.take());
        log.read(child.stderr.take());
        Ok(Self { child, log: Arc::clone(log) })
    }

    /// Waits for a line that begins with `words`, said since `since`.
    ///
    /// # Errors
    /// If the process ends before, or does not say it in time.
    pub(crate) fn wait_line(&mut self, words: &str, since: Instant, limit: Duration) -> Result<(), Failed> {
        let until = Instant::now() + limit;
        loop {
            let said = self.log.between(since, Instant::now());
            if said.iter().any(|line| line.starts_with(words)) {
                return Ok(());
            }
            let name = &self.log.name;
            if let Some(status) = self.child.try_wait().ok().flatten() {
                self.log.wait_read();
                let said = self.log.between(since, Instant::now());
                return Err(Failed(format!("{name} did not start: {status}: {}", said.join(" / "))));
            }
            if Instant::now() > until {
                return Err(Failed(format!("{name} did not start within {limit:?}: {}", said.join(" / "))));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal: the number is its own until somebody has waited for it.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// Exit status; `None` while it runs.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it ends; `None` if it is still there after `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            match self.exit_status() {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                ended => return ended,
            }
        }
    }

    /// Asks it to end by SIGTERM; `None` if it does not within [`PATIENCE`].
    pub(crate) fn terminate(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::SIGTERM);
        self.wait(PATIENCE)
    }

    /// Kills it at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        // Nothing but the kernel can hold it up.
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A child that has ended is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Programs that take a message: a clean environment, a bounded output, an end in time.

use super::ChannelFailure;
use mio::unix::pipe::{Receiver, Sender};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use pumice_base::units::printable;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Search path of programs.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Bytes of output that are kept.
const KEPT: usize = 4096;
/// Bytes of the output's last line that are told.
const TOLD: usize = 300;
/// Pause between two looks at the program.
const PAUSE: Duration = Duration::from_millis(5);
/// Time for output that is still in the pipe when the program has ended. A process that it left
/// behind may hold the pipe for ever.
const REST: Duration = Duration::from_millis(200);
/// Time in which a killed program is gone, unless it waits for a device.
const KILLED: Duration = Duration::from_secs(1);

/// A program, and all that it gets.
pub(super) struct Call<'a> {
    /// Its path.
    pub(super) program: &'a Path,
    /// Its arguments.
    pub(super) args: &'a [&'a str],
    /// Its environment, beside search path and locale.
    pub(super) variables: &'a [(&'static str, String)],
    /// Its standard input.
    pub(super) input: &'a [u8],
    /// True if it fails unless it has read all of its input.
    pub(super) reads_all: bool,
    /// Time of its end at the latest.
    pub(super) deadline: Instant,
}

impl Call<'_> {
    /// Runs the program to its end.
    ///
    /// # Errors
    /// If it cannot be started, ends with another code than 0, or does not end in time: then it is
    /// killed, with its process group.
    pub(super) fn run(&self) -> Result<(), ChannelFailure> {
        let failure = |why: String| ChannelFailure(format!("{}: {why}", self.program.display()));
        let mut running = self.start().map_err(|error| failure(format!("cannot be started: {error}")))?;
        let status = running.wait(self.input, self.deadline).map_err(|error| failure(error.to_string()))?;
        let Some(status) = status else {
            running.kill();
            return Err(failure(format!("did not end in time, and was killed{}", running.last_line())));
        };
        running.drain();
        if !status.success() {
            return Err(failure(format!("{}{}", ended(status), running.last_line())));
        }
        if self.reads_all && running.written < self.input.len() {
            return Err(failure(format!("did not read the whole message{}", running.last_line())));
        }
        Ok(())
    }

    fn start(&self) -> io::Result<Running> {
        let (sender, output) = mio::unix::pipe::new()?;
        sender.set_nonblocking(false)?;
        let sender = OwnedFd::from(sender);
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .env_clear()
            .env("PATH", PATH)
            .env("LC_ALL", "C.UTF-8")
            // A NUL ends a variable.
            .envs(self.variables.iter().map(|(name, value)| (name, value.replace('\0', " "))))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::from(sender.try_clone()?))
            .stderr(Stdio::from(sender))
            .process_group(0);
        let mut child = command.spawn()?;
        let input = child.stdin.take().map(Sender::from);
        let mut running = Running { child, input, output, kept: Vec::new(), written: 0 };
        if let Some(Err(error)) = running.input.as_ref().map(|input| input.set_nonblocking(true)) {
            running.kill();
            return Err(error);
        }
        Ok(running)
    }
}

/// A program that runs.
struct Running {
    child: Child,
    input: Option<Sender>,
    output: Receiver,
    kept: Vec<u8>,
    written: usize,
}

impl Running {
    /// Waits for the end of the program; `None` if it did not end in time.
    fn wait(&mut self, input: &[u8], deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            self.write(input);
            self.read();
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn write(&mut self, input: &[u8]) {
        while let Some(pipe) = &mut self.input {
            match pipe.write(&input[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It does not want to read more.
                Err(_) => self.input = None,
            }
            if self.written == input.len() {
                self.input = None;
            }
        }
    }

    /// Takes what is in the pipe; false once it has ended. At most a few pages at a time: a program
    /// that writes without end does not keep its caller from looking at the clock.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        for _ in 0..64 {
            match self.output.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => {
                    self.kept.extend_from_slice(&bytes[..count]);
                    // The last bytes say why it failed.
                    let over = self.kept.len().saturating_sub(KEPT);
                    self.kept.drain(..over);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn drain(&mut self) {
        let until = Instant::now() + REST;
        while self.read() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
    }

    /// Kills the program and its process group. It was not waited for, so its number is its own.
    fn kill(&mut self) {
        let group = i32::try_from(self.child.id()).map(Pid::from_raw);
        let killed = group.map(|group| killpg(group, Signal::SIGKILL));
        if !matches!(killed, Ok(Ok(()) | Err(Errno::ESRCH))) {
            // At least the program itself.
            let _ = self.child.kill();
        }
        let until = Instant::now() + KILLED;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        self.read();
    }

    /// The last line that the program has written, for a person.
    fn last_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        line.map_or(String::new(), |line| format!(": {}", super::words::cut(&printable(line), TOLD)))
    }
}

fn ended(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("ended with exit code {code}"))
}

//! A guest: QEMU with a Linux kernel, a script in it, and the line over which the two sides speak.

use super::initrd::Initrd;
use super::mortal;
use super::protocol::{Report, Word, parse};
use super::steps::Steps;
use crate::run::Failed;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Kept short: no bootloader's screens, no waiting for a lazy RCU; a kernel that panics stops at
/// once. `no_timer_check`: at its start the kernel waits some milliseconds for ticks, and gives up
/// if this machine has something else to do just then.
const KERNEL_LINE: &str = "console=ttyS0 quiet loglevel=5 panic=-1 nokaslr mitigations=off random.trust_cpu=1 \
                           rcupdate.rcu_normal_after_boot=0 no_timer_check";
/// Words that a healthy kernel does not print.
const ALARMS: [&str; 6] =
    ["I/O error", "Oops", "BUG:", "Kernel panic", "Call Trace", "blocked for more than"];

/// Line that init.sh prints between the script's output and the kernel's log.
const KERNEL_LOG: &str = "-- the kernel's log";

/// The machine that a scenario wants.
pub(crate) struct Machine<'a> {
    pub(crate) image: &'a Path,
    pub(crate) initrd: &'a Initrd,
    pub(crate) cpus: u32,
    pub(crate) fio: bool,
    /// All of the run, from the start of QEMU.
    pub(crate) limit: Duration,
}

/// A guest that runs. It is killed when it is dropped.
pub(crate) struct Guest {
    qemu: Child,
    to: ChildStdin,
    words: Receiver<Word>,
    until: Instant,
    console: PathBuf,
    report: Report,
    steps: Steps,
}

impl Guest {
    /// Starts a guest whose script sees `variables`. `folder` keeps the script and the console.
    pub(crate) fn start(
        machine: &Machine<'_>,
        script: &str,
        variables: &[(&str, String)],
        folder: &Path,
        steps: Steps,
    ) -> Result<Self, Failed> {
        let disk = folder.join(format!("{}.script", steps.name()));
        let console = folder.join(format!("{}.console", steps.name()));
        let wrong = |error: std::io::Error| Failed(format!("{}: {error}", folder.display()));
        fs::write(&disk, script_disk(script, variables, machine.limit)).map_err(wrong)?;
        let (memory, initrd) =
            if machine.fio { ("768", &machine.initrd.with_fio) } else { ("448", &machine.initrd.small) };
        let mut qemu = mortal(Path::new("qemu-system-x86_64"))
            .args(["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max", "-machine", "pc", "-m", memory])
            .args(["-smp", &machine.cpus.to_string(), "-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-serial", &format!("file:{}", console.display()), "-serial", "stdio"])
            .arg("-kernel")
            .arg(machine.image)
            .arg("-initrd")
            .arg(initrd)
            .args(["-append", KERNEL_LINE, "-netdev", "user,id=net"])
            .args(["-device", "virtio-net-pci,netdev=net,romfile="])
            .args(["-drive", &format!("file={},if=none,id=script,format=raw,readonly=on", disk.display())])
            .args(["-device", "virtio-blk-pci,drive=script,serial=script"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| Failed(format!("qemu-system-x86_64: {error}")))?;
        let (Some(to), Some(from)) = (qemu.stdin.take(), qemu.stdout.take()) else {
            return Err(Failed("QEMU has no serial line".to_owned()));
        };
        let (send, words) = channel();
        // Ends with QEMU, whose end closes the line.
        std::thread::spawn(move || {
            let mut lines = BufReader::new(from).split(b'\n');
            while let Some(Ok(line)) = lines.next() {
                let said = parse(&String::from_utf8_lossy(&line));
                if said.is_some_and(|word| send.send(word).is_err()) {
                    break;
                }
            }
        });
        let until = Instant::now() + machine.limit;
        Ok(Self { qemu, to, words, until, console, report: Report::default(), steps })
    }

    /// Takes in what the guest says for a while; true as soon as it passed `mark`.
    pub(crate) fn listen(&mut self, time: Duration, mark: &str) -> Result<bool, Failed> {
        let until = (Instant::now() + time).min(self.until);
        loop {
            match self.receive(until) {
                Message::Word(Word::Mark(name)) if name == mark => return Ok(true),
                Message::Word(Word::Mark(_)) => {}
                Message::Word(_) | Message::End => {
                    return Err(self.lost(&format!("it ended before '{mark}'")));
                }
                Message::Nothing if Instant::now() < self.until => return Ok(false),
                Message::Nothing => return Err(self.lost("it took too long")),
            }
        }
    }

    /// Number that the guest last reported under a name.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Failed> {
        self.report.number(key)
    }

    /// Waits until the script is at a mark.
    pub(crate) fn reach(&mut self, mark: &str) -> Result<(), Failed> {
        let all = self.until.saturating_duration_since(Instant::now());
        if self.listen(all, mark)? { Ok(()) } else { Err(self.lost("it took too long")) }
    }

    /// Lets a script go on that waits at a mark.
    pub(crate) fn go(&mut self) -> Result<(), Failed> {
        let said = self.to.write_all(b"go\n").and_then(|()| self.to.flush());
        said.map_err(|error| Failed(format!("QEMU: {error}")))
    }

    /// Waits for the end of the script. It must end well, and the kernel must not have complained.
    pub(crate) fn finish(self) -> Result<Report, Failed> {
        self.finish_despite(&[])
    }

    /// The same, but for complaints with one of these words.
    pub(crate) fn finish_despite(mut self, expected: &[&str]) -> Result<Report, Failed> {
        let until = self.until;
        loop {
            match self.receive(until) {
                Message::Word(Word::Exit(_)) | Message::End => break,
                Message::Word(_) => {}
                Message::Nothing => return Err(self.lost("it took too long")),
            }
        }
        if self.report.exit != Some(0) {
            return Err(self.lost("the script failed"));
        }
        let printed = fs::read(&self.console).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let is_alarm = |line: &&str| {
            let expected = expected.iter().any(|words| line.contains(words));
            !expected && ALARMS.iter().any(|alarm| line.contains(alarm))
        };
        let alarm = printed.lines().find(is_alarm);
        if let Some(line) = alarm {
            return Err(self.lost(&format!("the guest's kernel says: {}", line.trim())));
        }
        Ok(std::mem::take(&mut self.report))
    }

    /// The next mark or the exit; steps and values are taken in.
    fn receive(&mut self, until: Instant) -> Message {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.words.recv_timeout(left) {
                Ok(Word::Step(name)) => {
                    self.steps.done(&name);
                    self.report.steps.push(name);
                }
                Ok(Word::Value(key, value)) => {
                    self.report.values.insert(key, value);
                }
                Ok(Word::Fail(why)) => self.report.failure = Some(why),
                Ok(Word::Exit(status)) => {
                    self.report.exit = Some(status);
                    return Message::Word(Word::Exit(status));
                }
                Ok(word) => return Message::Word(word),
                Err(RecvTimeoutError::Timeout) => return Message::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Message::End,
            }
        }
    }

    /// Failure with the guest's own reason and the end of its console.
    fn lost(&self, what: &str) -> Failed {
        let printed = fs::read(&self.console).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let (script, kernel) = printed.split_once(KERNEL_LOG).unwrap_or((&*printed, ""));
        let last = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(12)..].join("\n    ")
        };
        let tail = format!("{}\n    {}", last(script), last(kernel));
        let own = self.report.failure.as_deref().map_or(String::new(), |why| format!(": {why}"));
        Failed(format!("{what}{own}\n    {tail}\n    (all of it: {})", self.console.display()))
    }
}

/// Result of listening to the guest.
enum Message {
    Word(Word),
    /// Not in time.
    Nothing,
    /// QEMU is gone.
    End,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Killing what has ended already is no error worth a word.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// The script, its variables before it, filled up to whole blocks with empty lines.
fn script_disk(script: &str, variables: &[(&str, String)], limit: Duration) -> Vec<u8> {
    let mut text = format!("limit='{}'\n", limit.as_secs() + 5);
    for (name, value) in variables {
        text.push_str(&format!("{name}='{}'\n", value.replace('\'', "")));
    }
    text.push_str(script);
    let mut bytes = text.into_bytes();
    bytes.resize(bytes.len().next_multiple_of(4096), b'\n');
    bytes
}

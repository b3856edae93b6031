//! `pumice node` as a process of its own.

use super::mortal;
use crate::run::Failed;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Settings of a node.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) binary: PathBuf,
    pub(crate) nqn: String,
    pub(crate) serves: Serves,
    /// File of its standard error.
    pub(crate) log: PathBuf,
    /// A second address that it listens on, beside a free port of 127.0.0.1.
    pub(crate) second: Option<String>,
    /// The port of its counters on 127.0.0.1.
    pub(crate) metrics: Option<u16>,
}

/// The drives of a node.
#[derive(Clone)]
pub(crate) enum Serves {
    /// All with blocks of `block` bytes, as options.
    Drives { block: u32, drives: Vec<String> },
    /// The tables of a configuration file.
    Configured(String),
}

impl Setting {
    /// The arguments of `pumice`. A configuration file is written beside the log.
    fn arguments(&self, port: u16) -> Result<Vec<String>, Failed> {
        let mut addresses = vec![format!("127.0.0.1:{port}")];
        addresses.extend(self.second.clone());
        // The same names serve in the scenarios beside this one: its instance is its own.
        let state = self.log.with_file_name("state").to_string_lossy().into_owned();
        let mut arguments = vec!["node".to_owned()];
        let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        match &self.serves {
            Serves::Drives { block, drives } => {
                addresses.into_iter().for_each(|address| add("--listen", address));
                add("--nqn", self.nqn.clone());
                if let Some(port) = self.metrics {
                    add("--metrics", port.to_string());
                }
                add("--state-dir", state);
                add("--block-size", block.to_string());
                drives.iter().for_each(|drive| add("--drive", drive.clone()));
            }
            Serves::Configured(tables) => {
                let path = self.log.with_extension("toml");
                let metrics = self.metrics.map_or_else(String::new, |port| format!("metrics = '{port}'\n"));
                let text = format!(
                    "listen = {addresses:?}\nnqn = {:?}\nstate_dir = {state:?}\n{metrics}{tables}",
                    self.nqn
                );
                let wrong = |error: std::io::Error| Failed(format!("{}: {error}", path.display()));
                std::fs::write(&path, text).map_err(wrong)?;
                add("--config", path.to_string_lossy().into_owned());
            }
        }
        Ok(arguments)
    }
}

/// A node that runs. It is killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    setting: Setting,
    /// The port of the first address.
    pub(crate) port: u16,
}

impl Node {
    /// Starts a node on a free port of the loopback interface.
    pub(crate) fn start(setting: Setting) -> Result<Self, Failed> {
        Self::on_port(setting, 0)
    }

    fn on_port(setting: Setting, port: u16) -> Result<Self, Failed> {
        let log = File::options().create(true).append(true).open(&setting.log);
        let log = log.map_err(|error| Failed(format!("{}: {error}", setting.log.display())))?;
        let mut command = mortal(&setting.binary);
        command.args(setting.arguments(port)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| Failed(format!("pumice node: {error}")))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            // "listening on ADDRESS nqn NQN" for each address, or the end of the file.
            let mut out = BufReader::new(out);
            let _ = out.read_line(&mut line);
            if setting.second.is_some() {
                let _ = out.read_line(&mut String::new());
            }
        }
        let heard = line.split(' ').nth(2).and_then(|address| address.rsplit(':').next());
        match heard.and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Self { child, setting, port }),
            None => {
                end(&mut child);
                let said = std::fs::read_to_string(&setting.log).unwrap_or_default();
                Err(Failed(format!("pumice node did not start: {}", said.trim())))
            }
        }
    }

    /// One of its counters, by name and labels as its page has them.
    pub(crate) fn counter(&self, name: &str) -> Result<f64, Failed> {
        let page = self.page()?;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.ok_or_else(|| Failed(format!("the node's counters lack {name}")))
    }

    /// The page of its counters.
    fn page(&self) -> Result<String, Failed> {
        let wrong = |error: std::io::Error| Failed(format!("the node's counters: {error}"));
        let port = self.setting.metrics.ok_or_else(|| Failed("the node shows no counters".to_owned()))?;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(wrong)?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(wrong)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n").map_err(wrong)?;
        let mut page = String::new();
        stream.read_to_string(&mut page).map_err(wrong)?;
        Ok(page)
    }

    /// Waits until a host's commands have moved blocks since the node was started: on a busy
    /// machine the kernel comes back late. Before that it would not notice a kill, or, with only
    /// the admin queue connected, would wait a minute for an answer.
    pub(crate) fn await_host(&self) -> Result<(), Failed> {
        const PATIENCE: Duration = Duration::from_secs(60);
        let until = Instant::now() + PATIENCE;
        let moved = |page: &str| {
            let counts = page.lines().filter(|line| line.starts_with("pumice_io_commands_total{"));
            counts.filter_map(|line| line.rsplit(' ').next()).any(|count| count != "0")
        };
        while !moved(&self.page()?) {
            if Instant::now() > until {
                return Err(Failed(format!("the kernel did not come back within {} s", PATIENCE.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// As a power cut for the process: killed with no chance to put anything in order.
    pub(crate) fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&mut self) -> Result<(), Failed> {
        end(&mut self.child);
        *self = Self::on_port(self.setting.clone(), self.port)?;
        Ok(())
    }

    /// Asks it to stop, and waits; a node that was asked must end well.
    pub(crate) fn stop(mut self) -> Result<(), Failed> {
        let pid = self.child.id().to_string();
        crate::run::run(Command::new("kill").args(["-TERM", &pid]))?;
        let until = Instant::now() + Duration::from_secs(15);
        while Instant::now() < until {
            let ended = self.child.try_wait().map_err(|error| Failed(format!("pumice node: {error}")))?;
            if let Some(status) = ended {
                let said = std::fs::read_to_string(&self.setting.log).unwrap_or_default();
                return if status.success() {
                    Ok(())
                } else {
                    Err(Failed(format!("pumice node ended with {status}: {}", said.trim())))
                };
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(Failed("pumice node did not stop within 15 s".to_owned()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // A child that has ended is no error.
    let _ = child.kill();
    let _ = child.wait();
}

/// A port of 127.0.0.1 that was free just now.
pub(crate) fn free_port() -> Result<u16, Failed> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(|error| Failed(format!("no free port: {error}")))
}

/// A new drive: a sparse file. Gives its path as text.
pub(crate) fn file_drive(folder: &Path, name: &str, bytes: u64) -> Result<PathBuf, Failed> {
    let path = folder.join(name);
    let wrong = |error: std::io::Error| Failed(format!("{}: {error}", path.display()));
    File::create(&path).and_then(|file| file.set_len(bytes)).map_err(wrong)?;
    Ok(path)
}

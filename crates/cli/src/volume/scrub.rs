//! `pumice scrub` of a volume in service: the process that serves it carries the scrub out.
//! `docs/design/volume-operations.md`, *Scrub of a volume in service*, has the messages.

use super::control::{self, Ask, RunDir};
use super::order::{ScrubOrder, Told};
use crate::failure::Failure;
use crate::progress::Display;
use crate::remote::RemoteName;
use crate::say::say;
use crate::scrub::ScrubArgs;
use crate::system::on_signals;
use crate::text::print;
use pumice_host::pass::{Observer, Progress};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes of one message of a scrub: the last has the report.
const MESSAGE: u64 = 256 << 20;

/// The socket of the volume whose devices are named; `None` if no volume that is served here has
/// any of them.
///
/// # Errors
/// If only some of the devices are such a volume's.
pub(crate) fn serving(args: &ScrubArgs) -> Result<Option<PathBuf>, Failure> {
    let run = RunDir::at(args.run_dir.clone());
    // Nobody who may not look there serves one for us.
    let Ok(folder) = run.folder() else { return Ok(None) };
    for shown in control::awake(&folder).unwrap_or_default() {
        let devices: Vec<&str> = shown.members.iter().filter_map(|m| m.device.as_deref()).collect();
        let mut others = Vec::new();
        for path in &args.devices {
            if !is_of(path, &devices)? {
                others.push(path);
            }
        }
        if others.len() == args.devices.len() {
            continue;
        }
        if let Some(other) = others.first() {
            let name = if shown.name.is_empty() { &shown.uuid } else { &shown.name };
            return Err(Failure::new(format!(
                "{}: no member of {name}, which is being served and has the other devices",
                other.display()
            )));
        }
        return Ok(Some(control::socket(&folder, &shown)));
    }
    Ok(None)
}

/// Whether a device, or any drive of a node, is among those of a volume.
fn is_of(path: &Path, devices: &[&str]) -> Result<bool, Failure> {
    let Some(name) = RemoteName::of(path)? else {
        let real = |path: &Path| path.canonicalize().ok();
        let this = real(path);
        return Ok(this.is_some() && devices.iter().any(|device| real(Path::new(device)) == this));
    };
    Ok(match name.nsid {
        Some(_) => devices.contains(&name.to_string().as_str()),
        None => devices.iter().any(|device| device.starts_with(&format!("{name}/"))),
    })
}

/// Has the process that serves a volume scrub it, and shows what it tells.
pub(crate) fn run(socket: &Path, args: &ScrubArgs) -> Result<ExitCode, Failure> {
    let order = Box::new(ScrubOrder::of(args)?);
    let wrong = |what: String| Failure::new(format!("{}: {what}", socket.display()));
    let mut stream = UnixStream::connect(socket).map_err(|error| wrong(error.to_string()))?;
    let mut line = serde_json::to_vec(&Ask::Scrub { order }).map_err(|error| wrong(error.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(|error| wrong(error.to_string()))?;
    let (ours, asked) = (stream.try_clone()?, AtomicBool::new(false));
    on_signals(move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(3);
        }
        say("stopping (again to stop at once)");
        // It may have ended just now.
        let _ = ours.shutdown(Shutdown::Write);
    })?;
    let mut display = Display::new(args.quiet);
    let mut reader = BufReader::new(stream);
    let end = loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(MESSAGE).read_until(b'\n', &mut line);
        read.map_err(|error| wrong(error.to_string()))?;
        if line.is_empty() {
            display.finish();
            return Err(wrong("the process that serves the volume has ended".to_owned()));
        }
        let told = serde_json::from_slice(&line);
        match told.map_err(|error| wrong(format!("the answer is invalid: {error}")))? {
            Told::Progress { stripes, of_stripes, bytes, findings } => {
                display.progress(&Progress { stripes, of_stripes, bytes, findings });
            }
            Told::Note(note) => display.note(&note),
            end => break end,
        }
    };
    display.finish();
    match end {
        Told::Done { output, exit, stopped } => {
            if let Some(why) = stopped {
                say(&format!("stopped: {why}"));
            }
            print(&output);
            Ok(ExitCode::from(exit))
        }
        Told::Error(why) => Err(Failure::new(why)),
        Told::Progress { .. } | Told::Note(_) => Err(wrong("the answer is incomplete".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, link) = (folder.path().join("drive"), folder.path().join("link"));
        std::fs::write(&drive, "").unwrap();
        std::os::unix::fs::symlink(&drive, &link).unwrap();
        let names = [drive.to_str().unwrap(), "nvme://127.0.0.1:4420/2"];
        let is = |path: &str| is_of(Path::new(path), &names).unwrap();
        assert!(is(drive.to_str().unwrap()) && is(link.to_str().unwrap()));
        assert!(is("nvme://127.0.0.1:4420/2") && is("nvme://127.0.0.1:4420"));
        assert!(!is("nvme://127.0.0.1:4420/1") && !is("nvme://127.0.0.1:442"));
        assert!(!is(folder.path().to_str().unwrap()) && !is("/nonexistent"));
    }
}

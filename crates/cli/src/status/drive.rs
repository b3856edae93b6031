//! Serial numbers and health of drives: from `smartctl --json` if it is there, the serial number
//! else from sysfs. A drive that sleeps is left asleep.

use serde::Deserialize;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

/// Most bytes of smartctl's document.
const DOCUMENT: u64 = 1 << 20;
/// Most characters of a serial number: ATA has 20, NVMe 20, SCSI's page 80h up to 252.
const SERIAL: usize = 64;

/// Words of a drive on itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Said {
    pub(super) serial: Option<String>,
    pub(super) health: Option<String>,
}

/// Fields of smartctl's document that are used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    serial_number: Option<String>,
    smart_status: Option<Status>,
    power_mode: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Status {
    passed: Option<bool>,
}

/// Asks drives, all at once, until a moment.
pub(super) fn ask(devices: &[String], root: &Path, until: Instant) -> Vec<Said> {
    let (tell, answers) = mpsc::channel();
    let mut said: Vec<Said> =
        devices.iter().map(|device| Said { serial: serial(root, Path::new(device)), health: None }).collect();
    for (number, device) in devices.iter().enumerate().filter(|(_, device)| device.starts_with("/dev/")) {
        let (tell, device) = (tell.clone(), device.clone());
        let ask = move || {
            if let Some(document) = smartctl(&device, until) {
                // Nobody waits for one that comes too late.
                let _ = tell.send((number, document));
            }
        };
        // Without a thread the drive is not asked.
        drop(std::thread::Builder::new().name("smartctl".to_owned()).spawn(ask));
    }
    drop(tell);
    while let Ok((number, document)) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        let drive: &mut Said = &mut said[number];
        drive.health = document.health();
        drive.serial = document.serial_number.and_then(|text| fit(&text)).or(drive.serial.take());
    }
    said
}

impl Document {
    fn health(&self) -> Option<String> {
        let word = match &self.smart_status {
            Some(Status { passed: Some(true) }) => "passed",
            Some(Status { passed: Some(false) }) => "failing",
            _ if self.power_mode.is_some() => "asleep",
            _ => return None,
        };
        Some(word.to_owned())
    }
}

/// The document of `smartctl` on a drive; `None` if there is no such program, or it says nothing in
/// time.
fn smartctl(device: &str, until: Instant) -> Option<Document> {
    let start = |program: &str| {
        Command::new(program)
            // With `-n standby` a drive that sleeps is not asked, and not woken.
            .args(["--json", "-n", "standby", "-i", "-H", device])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    };
    // The folder is not on the paths of many users.
    let mut child = start("smartctl").or_else(|_| start("/usr/sbin/smartctl")).ok()?;
    let mut out = child.stdout.take()?;
    let (tell, text) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = out.by_ref().take(DOCUMENT).read_to_end(&mut bytes);
        // The other side may have given up.
        let _ = tell.send(read.map(|_| bytes));
    });
    let text = text.recv_timeout(until.saturating_duration_since(Instant::now()));
    // A process that waits for its drive does not end at once: nobody waits for it here.
    let _ = child.kill();
    std::thread::spawn(move || child.wait());
    serde_json::from_slice(&text.ok()?.ok()?).ok()
}

/// The text of a serial number without blanks around it; `None` if nothing is left.
fn fit(text: &str) -> Option<String> {
    let text: String =
        text.trim_matches(|c: char| c.is_whitespace() || c == '\0').chars().take(SERIAL).collect();
    if text.is_empty() { None } else { Some(text) }
}

/// The serial number that the kernel knows.
fn serial(root: &Path, device: &Path) -> Option<String> {
    let real = device.canonicalize().ok();
    let name: PathBuf = real.as_deref().unwrap_or(device).strip_prefix("/dev").ok()?.to_owned();
    let name = name.to_str()?.replace('/', "!");
    let block = root.join("sys/class/block").join(&name);
    // A partition lies in its disk.
    for folder in [block.clone(), block.join("..")] {
        let text =
            ["serial", "device/serial"].iter().find_map(|file| fs::read_to_string(folder.join(file)).ok());
        if let Some(text) = text {
            return fit(&text);
        }
        // SCSI's vital product data, page 80h: four bytes, then the number.
        if let Ok(page) = fs::read(folder.join("device/vpd_pg80")) {
            return fit(&String::from_utf8_lossy(page.get(4..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_are_those_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let block = root.path().join("sys/class/block");
        fs::create_dir_all(block.join("nopenvme0/device")).unwrap();
        fs::write(block.join("nopenvme0/device/serial"), "S123  \n").unwrap();
        fs::create_dir_all(block.join("nopesda/device")).unwrap();
        fs::write(block.join("nopesda/device/vpd_pg80"), b"\0\x80\0\x08ZR50A1B2").unwrap();
        let said = |device: &str| serial(root.path(), Path::new(device));
        assert_eq!(said("/dev/nopenvme0").as_deref(), Some("S123"));
        assert_eq!(said("/dev/nopesda").as_deref(), Some("ZR50A1B2"));
        assert_eq!((said("/dev/nopesdb"), said("/tmp/image")), (None, None));
    }

    #[test]
    fn health_is_the_drives_own_word() {
        let health = |text: &str| serde_json::from_str::<Document>(text).unwrap().health();
        assert_eq!(health(r#"{"smart_status":{"passed":true}}"#).as_deref(), Some("passed"));
        assert_eq!(
            health(r#"{"smart_status":{"passed":false},"serial_number":"X"}"#).as_deref(),
            Some("failing")
        );
        let asleep = r#"{"power_mode":{"ata_value":0,"ata_string":"STANDBY"}}"#;
        assert_eq!(health(asleep).as_deref(), Some("asleep"));
        assert_eq!(health("{}"), None);
    }
}

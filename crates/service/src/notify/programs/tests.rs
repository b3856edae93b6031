use super::*;
use pumice_monitor::Wall;
use pumice_monitor::alerts::{Change, EventId, Key, Kind, Sending};
use serde_json::Value;
use std::os::unix::fs::symlink;

const MINUTE: Duration = Duration::from_secs(60);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, mode: u32, body: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let body = body.replace("FOLDER", &self.0.path().display().to_string());
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        programs(self.0.path()).unwrap().into_iter().map(|program| program.name).collect()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

fn message(subject: &str, detail: &str) -> Message {
    let event = Event {
        id: EventId { series: 5, number: 9 },
        at: Wall(1_700_000_000),
        change: Change::Opened,
        key: Key::new(Kind::DriveSuspect, subject),
        detail: detail.to_owned(),
    };
    let sending = Sending { channel: "one".to_owned(), events: vec![event], more: 0, digest: false, lost: 2 };
    Message { host: "box".to_owned(), sending }
}

#[test]
fn programs_are_those_that_somebody_put_there() {
    let folder = Folder::new();
    assert_eq!(programs(&folder.0.path().join("none")), Ok(Vec::new()));
    for name in ["zeta", "20-second", "10-first", "webhook.sh"] {
        folder.file(name, 0o755, "");
    }
    for left in ["a.dpkg-old", "a.dpkg-new", "a.rpmsave", "a.bak", "a~", ".hidden", "a b", "a.conf", "-rf"] {
        folder.file(left, 0o755, "");
    }
    folder.file("not-executable", 0o644, "");
    fs::create_dir(folder.0.path().join("folder")).unwrap();
    symlink(folder.0.path().join("zeta"), folder.0.path().join("link")).unwrap();
    symlink("/nowhere", folder.0.path().join("dangling")).unwrap();
    assert_eq!(folder.names(), ["10-first", "20-second", "link", "webhook.sh", "zeta"]);
    for i in 0..MOST {
        folder.file(&format!("more{i}"), 0o755, "");
    }
    assert!(programs(folder.0.path()).unwrap_err().to_string().contains("more than 64 programs"));
}

#[test]
fn what_others_may_write_is_not_run() {
    let folder = Folder::new();
    folder.file("one", 0o775, "touch FOLDER/ran");
    let mut one = programs(folder.0.path()).unwrap().remove(0);
    let why = one.send(&message("md0", ""), Instant::now() + MINUTE).unwrap_err().to_string();
    assert!(why.contains("others may write it"), "{why}");
    assert!(!folder.0.path().join("ran").exists());
    fs::set_permissions(folder.0.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let why = programs(folder.0.path()).unwrap_err().to_string();
    assert!(why.contains("others may write it"), "{why}");
    let folder = Folder::new();
    folder.file("mail", 0o755, "touch FOLDER/ran");
    let mut mail = programs(folder.0.path()).unwrap().remove(0);
    assert!(mail.send(&message("md0", ""), Instant::now() + MINUTE).is_err());
    assert!(!folder.0.path().join("ran").exists());
}

#[test]
fn a_program_gets_the_event_as_json_and_as_variables() {
    let long = "d".repeat(10_000);
    for (subject, detail) in [
        ("md0", "plain"),
        ("a\nb", "line\nline \"quoted\" $(touch FOLDER/ran) `id`"),
        ("<script>", "\u{1b}[31m\0\u{202e}"),
        (&long, &long),
    ] {
        let folder = Folder::new();
        folder.file("one", 0o755, "cat > FOLDER/in; env -0 > FOLDER/env");
        let mut one = programs(folder.0.path()).unwrap().remove(0);
        assert_eq!(one.name(), "one");
        let message = message(subject, detail);
        assert_eq!(one.send(&message, Instant::now() + MINUTE), Ok(()));
        let text = folder.read("in");
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        let document: Value = serde_json::from_str(&text).unwrap();
        let event = &message.sending.events[0];
        let expected = serde_json::json!({
            "format": 1, "id": "0000000000000005-9", "at": 1_700_000_000, "host": "box", "change": "opened",
            "kind": "drive-suspect", "severity": "warning", "subject": event.key.subject(),
            "detail": event.detail, "lost": 2,
        });
        assert_eq!(document, expected);
        let env = folder.read("env");
        let mut seen = 0;
        for entry in env.split_terminator('\0') {
            let (name, value) = entry.split_once('=').unwrap();
            let Some(field) = name.strip_prefix("PUMICE_") else {
                assert!(["PATH", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name), "{entry}");
                continue;
            };
            let value_of = &expected[field.to_lowercase()];
            let plain = value_of.as_str().map_or_else(|| value_of.to_string(), str::to_owned);
            assert_eq!(value, printable(&plain), "{name}");
            seen += 1;
        }
        assert_eq!(seen, 10);
        assert!(!folder.0.path().join("ran").exists());
    }
}

#[test]
fn a_program_need_not_read_and_a_failure_is_told() {
    let folder = Folder::new();
    folder.file("quick", 0o755, "exit 0");
    folder.file("wrong", 0o755, "echo no route >&2; exit 7");
    let mut all = programs(folder.0.path()).unwrap();
    let message = message("md0", &"x".repeat(2048));
    assert_eq!(all[0].send(&message, Instant::now() + MINUTE), Ok(()));
    let why = all[1].send(&message, Instant::now() + MINUTE).unwrap_err().to_string();
    assert!(why.ends_with("/wrong: ended with exit code 7: no route"), "{why}");
    folder.file("wrong", 0o755, "sleep 1000");
    let begun = Instant::now();
    let why = all[1].send(&message, begun + Duration::from_millis(500)).unwrap_err().to_string();
    assert!(why.contains("did not end in time") && begun.elapsed() < Duration::from_secs(20), "{why}");
}

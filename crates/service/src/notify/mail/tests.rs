use super::*;
use pumice_monitor::Wall;
use pumice_monitor::alerts::{Change, EventId, Key, Kind, Sending};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

fn event(number: u64, kind: Kind, subject: &str, detail: &str) -> Event {
    Event {
        id: EventId { series: 0xABC, number },
        at: Wall(1_700_000_000),
        change: Change::Opened,
        key: Key::new(kind, subject),
        detail: detail.to_owned(),
    }
}

fn message(host: &str, events: Vec<Event>) -> Message {
    let sending = Sending { channel: MAIL.to_owned(), events, more: 0, digest: false, lost: 0 };
    Message { host: host.to_owned(), sending }
}

/// A program of shell in a folder of the test.
fn program(folder: &tempfile::TempDir, body: &str) -> PathBuf {
    let path = folder.path().join("sendmail");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn sent(body: &str, patience: Duration) -> (Result<(), ChannelFailure>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = program(&folder, &body.replace("FOLDER", &folder.path().display().to_string()));
    let mut mail = Mail::new(&path, "root").unwrap();
    // More than a pipe holds.
    let events = (1..=40).map(|i| event(i, Kind::Damage, "md0", &"x".repeat(2048))).collect();
    (mail.send(&message("box", events), Instant::now() + patience), folder)
}

#[test]
fn one_event_is_a_mail_of_this_form() {
    let events = vec![event(7, Kind::Damage, "md0", "41 places are damaged, 38 of them can be repaired")];
    let text = text("root", &message("box", events), 1_700_000_060);
    assert_eq!(
        text,
        "To: root\n\
         Subject: [pumice box] CRITICAL: damage, md0\n\
         Date: Tue, 14 Nov 2023 22:14:20 +0000\n\
         Message-ID: <0000000000000abc-7-7-1@box.pumice>\n\
         Auto-Submitted: auto-generated\n\
         MIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\n\n\
         2023-11-14 22:13:20 UTC CRITICAL: damage, md0\n  \
         41 places are damaged, 38 of them can be repaired\n\n\
         Look with `pumice status` on box.\n"
    );
}

/// The fields of a header as a reader takes them apart: folded lines are joined.
fn fields(text: &str) -> Vec<(String, String)> {
    let (header, _) = text.split_once("\n\n").unwrap();
    let mut out: Vec<(String, String)> = Vec::new();
    for line in header.lines() {
        match line.strip_prefix(' ') {
            Some(more) => out.last_mut().unwrap().1.push_str(more),
            None => {
                let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?}"));
                out.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    out
}

const FIELDS: [&str; 8] = [
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];

#[test]
fn no_name_adds_a_header_or_a_line() {
    let long = "n".repeat(10_000);
    let names = [
        "md0\nBcc: everyone@example.invalid",
        "md0\r\n\r\nA body of another",
        "md0\rBcc: x",
        "md0\u{2028}Bcc: x\u{85}y\u{b}\u{c}z\0",
        "<script>alert(1)</script>",
        "=?UTF-8?Q?Bcc:_x?=",
        "größe 日本\n.\n",
        long.as_str(),
    ];
    for name in names {
        for host in ["box", name] {
            let events = vec![event(1, Kind::Damage, name, name), event(2, Kind::Hot, name, name)];
            let text = text("root", &message(host, events), 0);
            let names: Vec<String> = fields(&text).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, FIELDS, "{name:?}: {text}");
            assert!(text.is_ascii() || text.split_once("\n\n").unwrap().0.is_ascii(), "{text}");
            assert!(text.lines().all(|line| line.len() <= 900 && line != "."), "{text}");
            assert!(!text.contains(['\r', '\0', '\u{2028}', '\u{85}']), "{text:?}");
            assert!(text.lines().count() <= 60, "{text}");
            assert!(!text.lines().any(|line| line.starts_with("Bcc")), "{text}");
        }
    }
}

#[test]
fn words_of_a_header_can_be_read_back() {
    let name = "größe-日本-é".repeat(8);
    let encoded = header(&name);
    let mut back = Vec::new();
    for word in encoded.split("\n ") {
        assert!(word.len() <= 75 && word.is_ascii(), "{word}");
        let inner = word.strip_prefix("=?UTF-8?B?").and_then(|word| word.strip_suffix("?=")).unwrap();
        let bytes = Base64::decode_vec(inner).unwrap();
        assert!(std::str::from_utf8(&bytes).is_ok(), "a character is cut in {word}");
        back.extend(bytes);
    }
    assert_eq!(String::from_utf8(back).unwrap(), name);
    assert_eq!(header("plain (1)"), "plain (1)");
}

#[test]
fn five_thousand_findings_are_one_mail_of_sixty_lines() {
    for (count, detail) in [(1, 5000), (2, 5000), (3, 900), (13, 5000), (20, 5000), (40, 5000)] {
        let events = (1..=count).map(|i| event(i, Kind::Damage, &"å".repeat(256), &"word ".repeat(detail)));
        let mut message = message(&"å".repeat(64), events.collect());
        message.sending.more = 4960;
        message.sending.lost = 3;
        message.sending.digest = true;
        let text = text(&"a".repeat(254), &message, 0);
        assert!(text.lines().count() <= 60, "{count}: {} lines", text.lines().count());
        assert!(text.contains("4960 more events are not listed.\n3 older events were lost"), "{text}");
        assert!(text.lines().filter(|line| line.starts_with("2023-11-14")).count() == count as usize);
    }
}

#[test]
fn an_address_is_no_option_and_no_header() {
    for address in ["", "-oQ/tmp", "a b", "a\nBcc: b", "a\r", "a\0"] {
        assert!(Mail::new(Path::new(SENDMAIL), address).is_err(), "{address:?}");
    }
    assert!(Mail::new(Path::new(SENDMAIL), "root,admin@example.invalid").is_ok());
}

#[test]
fn the_program_gets_the_whole_mail_and_a_clean_environment() {
    let (result, folder) = sent("echo \"$@\" > FOLDER/args; env > FOLDER/env; cat > FOLDER/mail", MINUTE);
    assert_eq!(result, Ok(()));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("args"), "-t -oi\n");
    let mail = read("mail");
    assert!(mail.starts_with("To: root\n") && mail.ends_with("on box.\n"), "{mail}");
    let names: Vec<String> =
        read("env").lines().map(|line| line.split('=').next().unwrap().to_owned()).collect();
    // The shell adds its own.
    let allowed = ["PATH", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| allowed.contains(&name.as_str())), "{names:?}");
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_program_that_fails_says_why() {
    for (body, says) in [
        (
            "cat > /dev/null; echo first; echo 'queue\x1b[31m is full' >&2; exit 75",
            "exit code 75: queue\\u{1b}[31m is full",
        ),
        ("cat > /dev/null; kill -9 $$", "signal: 9"),
        ("exec <&-; exit 3", "exit code 3"),
    ] {
        let why = sent(body, MINUTE).0.unwrap_err().to_string();
        assert!(why.contains(says), "{body}: {why}");
    }
    let mut mail = Mail::new(Path::new("/no/such/program"), "root").unwrap();
    let why = mail.send(&message("box", Vec::new()), Instant::now() + MINUTE).unwrap_err().to_string();
    assert!(why.starts_with("/no/such/program: cannot be started: No such file"), "{why}");
}

#[test]
fn a_mail_that_was_not_read_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(&folder, "exec <&-; sleep 0.2");
    // More than a pipe holds.
    let input = vec![b'x'; 1 << 20];
    let call = |reads_all| Call {
        program: &path,
        args: &[],
        variables: &[],
        input: &input,
        reads_all,
        deadline: Instant::now() + MINUTE,
    };
    let why = call(true).run().unwrap_err().to_string();
    assert!(why.contains("did not read the whole message"), "{why}");
    assert_eq!(call(false).run(), Ok(()));
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let begun = Instant::now();
    let body = "sleep 1000 & echo $! > FOLDER/child; echo half done; sleep 1000";
    let (result, folder) = sent(body, Duration::from_secs(1));
    let why = result.unwrap_err().to_string();
    assert!(why.contains("did not end in time, and was killed: half done"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let child = fs::read_to_string(folder.path().join("child")).unwrap();
    let path = format!("/proc/{}/stat", child.trim());
    // It is gone, or a zombie that nobody waits for. A signal takes its time.
    let is_gone = || fs::read_to_string(&path).map_or(true, |stat| stat.contains(") Z"));
    while !is_gone() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{path}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn output_is_bounded_and_what_a_program_leaves_behind_is_not_waited_for() {
    let begun = Instant::now();
    let (result, _folder) = sent("cat > /dev/null; yes | head -c 30000000; setsid sleep 5 & exit 0", MINUTE);
    assert_eq!(result, Ok(()));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let (result, _folder) = sent("yes", Duration::from_secs(1));
    assert!(result.unwrap_err().to_string().contains("did not end in time"));
}

//! The format of the control socket: `docs/reference/control.md`.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use pumice_host::Method;
use pumice_service::api::{
    Absent, Answer, Code, Condition, Event, Events, Fault, LossCause, Member, MemberError, Moved, Parity,
    REQUEST_BYTES, Recovered, Refused, Request, ScrubDone, ScrubOrder, ScrubProgress, Served, Severity,
    Survives, Told, Version, Volume, Work, decode, encode,
};
use serde_json::{Value, json};
use std::path::PathBuf;

const PAGE: &str = include_str!("../../../docs/reference/control.md");
const VERSIONS: [Version; 3] = [Version::V1, Version::V2, Version::V3];

fn order() -> ScrubOrder {
    ScrubOrder {
        method: Some(Method::Fingerprint),
        batch: None,
        seed: Some("ab".repeat(32)),
        range: Some(3..9),
        parts: Vec::new(),
        order: Some("staggered".to_owned()),
        repair: Some("strong".to_owned()),
        dry_run: true,
        vouch: false,
        resume: false,
        accept_degraded: true,
        keep_repairs: 7_776_000,
        rate: Some(50_000_000),
        windows: vec![(79_200, 21_600)],
        state_dir: Some(PathBuf::from("/var/lib/pumice")),
        state_named: false,
        json: true,
    }
}

fn volume() -> Volume {
    Volume {
        uuid: "3f405932:48044655:b335bd12:38c95147".to_owned(),
        name: "vault".to_owned(),
        level: 5,
        layout: Some("left-symmetric".to_owned()),
        chunk_bytes: 65_536,
        metadata: "1.2".to_owned(),
        bytes: 40_697_856,
        block_bytes: 512,
        consistency: "log".to_owned(),
        state: "clean".to_owned(),
        condition: Condition::Rebuilding,
        survives: Survives { drives: 1, nodes: 0 },
        members: vec![Member {
            role: 0,
            device: Some("/dev/sda".to_owned()),
            state: "rebuilding".to_owned(),
            rebuilt: Some(17),
            absent: Some(Absent {
                since: 1_764_295_200,
                device: "/dev/sda".to_owned(),
                cause: LossCause::Failed,
                why: "it is gone".to_owned(),
                kept_out: None,
            }),
        }],
        moved: Moved {
            user_read: 1,
            user_written: u64::MAX,
            member_read: 3,
            member_written: 38_912,
            link_sent: 0,
            link_received: 0,
            rewritten_blocks: 0,
        },
        parity: Parity {
            by_nodes: false,
            why: Some("no node".to_owned()),
            near_writes: 0,
            far_writes: 0,
            ways: Some(vec![Work {
                work: "lost_reads".to_owned(),
                way: "far".to_owned(),
                near_bytes_per_s: None,
                far_bytes_per_s: Some(9),
                verdicts: 2,
            }]),
        },
        recovered: Recovered {
            log_discarded: true,
            writes_dropped: 1,
            blocks_applied: 2,
            windows_resynced: 3,
            members_failed: vec![4, 5],
        },
        errors: vec!["role 1: \"quoted\"\nsplit".to_owned()],
        member_errors: vec![MemberError { role: Some(1), at: 7, text: "role 1".to_owned() }],
        served: Some(Served { addresses: vec!["127.0.0.1:4420".to_owned()], nqn: "nqn".to_owned(), pid: 7 }),
    }
}

fn all_answers() -> Vec<Answer> {
    vec![
        Answer::Volume(Box::new(volume())),
        Answer::Progress(ScrubProgress { stripes: 1, of_stripes: 2, bytes: u64::MAX, findings: 3 }),
        Answer::Note("a note".to_owned()),
        Answer::Done(ScrubDone {
            output: "all\nclean\n".to_owned(),
            exit: 3,
            stopped: Some("why".to_owned()),
            document: None,
        }),
        Answer::Error(Fault::new(Code::Held, "the volume is held")),
    ]
}

/// The request of version 3, and its answer.
fn events() -> (Request, Answer) {
    let event = Event::MemberBack { role: 2, device: "nvme://10.0.0.2:4420/1".to_owned() };
    let (text, severity) = (event.to_string(), Severity::Info);
    let told = Told { id: 8, at: 1_764_295_200, severity, text, event };
    let series = "00000000000000ff".to_owned();
    (
        Request::Events { after: 7 },
        Answer::Events(Events { series, events: vec![told], dropped: 0, newest: 8 }),
    )
}

/// Lines as the page has them.
#[test]
fn version_3_has_events_and_no_other_version_has() {
    let (request, answer) = events();
    let line = String::from_utf8(request.encode(Version::V3).unwrap()).unwrap();
    assert_eq!(line, "{\"version\":3,\"ask\":\"events\",\"after\":7}\n");
    assert!(PAGE.contains(r#"{"version":3,"ask":"events","after":7}"#));
    assert_eq!(Request::decode(line.as_bytes()), Ok((Version::V3, request)));
    for line in [r#"{"ask":"events","after":7}"#, r#"{"version":2,"ask":"events","after":7}"#] {
        assert_eq!(refused(line).1, Code::UnknownRequest, "{line}");
    }
    assert_eq!(refused(r#"{"version":3,"ask":"events"}"#).1, Code::InvalidRequest);
    let line = r#"{"version":3,"events":{"series":"00000000000000ff","events":[{"id":8,"at":1764295200,"severity":"info","text":"role 2 (nvme://10.0.0.2:4420/1) answers again, and has its role back","event":"member_back","role":2,"device":"nvme://10.0.0.2:4420/1"}],"dropped":0,"newest":8}}"#;
    assert_eq!(String::from_utf8(encode(Version::V3, &answer)).unwrap(), format!("{line}\n"));
    assert_eq!(decode(line.as_bytes()), Ok((Version::V3, answer)));
    // A later server knows more events, and more causes.
    let later = line.replace("member_back", "member_melted");
    let Ok((_, Answer::Events(later))) = decode(later.as_bytes()) else { panic!("{later}") };
    assert_eq!((later.events[0].id, &later.events[0].event), (8, &Event::Other));
}

/// The document of a server that knows nothing of versions after 2.
#[test]
fn a_volume_of_an_older_server_is_read() {
    let mut value = json!({ "volume": volume() });
    let fields = value["volume"].as_object_mut().unwrap();
    fields.remove("condition");
    fields.remove("member_errors");
    fields["members"][0].as_object_mut().unwrap().remove("absent");
    let Ok((Version::V1, Answer::Volume(old))) = decode(value.to_string().as_bytes()) else {
        panic!("{value}")
    };
    assert_eq!(
        (old.condition, old.member_errors.len(), &old.members[0].absent),
        (Condition::Unknown, 0, &None)
    );
}

fn all_requests() -> Vec<Request> {
    let (member, device) = ("2".to_owned(), PathBuf::from("/dev/sde"));
    vec![
        Request::Status,
        Request::Fail { member: member.clone() },
        Request::Add { device: device.clone(), force: false },
        Request::Replace { member, device, force: true },
        Request::Scrub { order: Box::new(order()) },
        Request::Stop,
    ]
}

/// Lines as programs of version 1 send them, and as the page has them.
#[test]
fn lines_of_version_1_stay_as_they_are() {
    let lines = [
        r#"{"ask":"status"}"#,
        r#"{"ask":"fail","member":"2"}"#,
        r#"{"ask":"add","device":"/dev/sde","force":false}"#,
        r#"{"ask":"replace","member":"2","device":"/dev/sde","force":true}"#,
        r#"{"ask":"scrub","order":{"method":"fingerprint","batch":null,"seed":"SEED","range":{"start":3,"end":9},"order":"staggered","repair":"strong","dry_run":true,"vouch":false,"resume":false,"accept_degraded":true,"keep_repairs":7776000,"rate":50000000,"windows":[[79200,21600]],"state_dir":"/var/lib/pumice","state_named":false,"json":true}}"#,
        r#"{"ask":"stop"}"#,
    ];
    for (request, line) in all_requests().into_iter().zip(lines) {
        let line = format!("{}\n", line.replace("SEED", &"ab".repeat(32)));
        assert_eq!(String::from_utf8(request.encode(Version::V1).unwrap()).unwrap(), line);
        assert_eq!(Request::decode(line.as_bytes()), Ok((Version::V1, request)));
    }
    let lines = [
        r#"{"progress":{"stripes":1,"of_stripes":2,"bytes":18446744073709551615,"findings":3}}"#,
        r#"{"note":"a note"}"#,
        r#"{"done":{"output":"all\nclean\n","exit":3,"stopped":"why"}}"#,
        r#"{"error":"the volume is held"}"#,
    ];
    for (answer, line) in all_answers()[1..].iter().zip(lines) {
        assert_eq!(String::from_utf8(encode(Version::V1, answer)).unwrap(), format!("{line}\n"));
    }
    let whole: Value = serde_json::from_slice(&encode(Version::V1, &all_answers()[0])).unwrap();
    assert_eq!(whole, json!({ "volume": volume() }));
}

#[test]
fn version_2_adds_a_number_to_lines_and_a_code_to_errors() {
    for request in all_requests() {
        let first: Value = serde_json::from_slice(&request.encode(Version::V1).unwrap()).unwrap();
        let mut second: Value = serde_json::from_slice(&request.encode(Version::V2).unwrap()).unwrap();
        assert_eq!(second.as_object_mut().unwrap().remove("version"), Some(json!(2)));
        assert_eq!(first, second);
    }
    for answer in all_answers() {
        let first: Value = serde_json::from_slice(&encode(Version::V1, &answer)).unwrap();
        let mut second: Value = serde_json::from_slice(&encode(Version::V2, &answer)).unwrap();
        assert_eq!(second.as_object_mut().unwrap().remove("version"), Some(json!(2)));
        if let Answer::Error(fault) = answer {
            assert_eq!(second, json!({ "error": { "code": "held", "text": fault.text } }));
            second["error"] = second["error"]["text"].take();
        }
        assert_eq!(first, second);
    }
}

#[test]
fn every_line_comes_back_as_it_went() {
    for version in VERSIONS {
        for request in all_requests() {
            assert_eq!(Request::decode(&request.encode(version).unwrap()), Ok((version, request)));
        }
        for answer in all_answers() {
            let line = encode(version, &answer);
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1), "one line");
            let expected = match answer {
                Answer::Error(Fault { text, .. }) if version == Version::V1 => {
                    Answer::Error(Fault { code: None, text })
                }
                answer => answer,
            };
            assert_eq!(decode(&line), Ok((version, expected)));
        }
    }
}

fn refused(line: &str) -> (Version, Code, String) {
    let Refused { version, fault: Fault { code, text } } = Request::decode(line.as_bytes()).unwrap_err();
    (version, code.unwrap(), text)
}

#[test]
fn a_request_that_is_not_known_names_its_version_and_those_of_the_server() {
    let (version, code, text) = refused(r#"{"version":4,"ask":"status","more":1}"#);
    assert_eq!((version, code), (Version::V3, Code::UnknownVersion));
    assert!(text.contains("version 4") && text.contains("versions 1 to 3"), "{text}");
    for (line, version) in [
        (r#"{"ask":"polish"}"#, Version::V1),
        (r#"{"version":1,"ask":"polish"}"#, Version::V1),
        (r#"{"version":2,"ask":"polish"}"#, Version::V2),
        (r#"{"version":3,"ask":"polish"}"#, Version::V3),
    ] {
        let (answered, code, text) = refused(line);
        assert_eq!((answered, code), (version, Code::UnknownRequest));
        let own = format!("version {version} has no request 'polish'");
        assert!(text.contains(&own) && text.contains("versions 1 to 3"), "{text}");
    }
    let (_, code, text) = refused(&format!(r#"{{"ask":"{}"}}"#, "é".repeat(1000)));
    assert!(code == Code::UnknownRequest && text.chars().count() < 200, "{text}");
}

#[test]
fn a_request_that_is_wrong_names_the_field() {
    for (line, version, words) in [
        ("", Version::V1, "EOF"),
        ("junk", Version::V1, "expected value"),
        ("[]", Version::V1, "expected a map"),
        ("{}", Version::V1, "`ask`"),
        (r#"{"ask":7}"#, Version::V1, "invalid type"),
        (r#"{"version":0,"ask":"status"}"#, Version::V3, "version 0"),
        (r#"{"version":"2","ask":"status"}"#, Version::V1, "version"),
        (r#"{"version":-1,"ask":"status"}"#, Version::V1, "version"),
        (r#"{"version":2,"ask":"fail"}"#, Version::V2, "`member`"),
        (r#"{"version":2,"ask":"fail","member":"2","force":true}"#, Version::V2, "`force`"),
        (r#"{"ask":"scrub","order":{}}"#, Version::V1, "`dry_run`"),
    ] {
        let (answered, code, text) = refused(line);
        assert_eq!(answered, version, "{line}");
        let expected = if words == "version 0" { Code::UnknownVersion } else { Code::InvalidRequest };
        assert_eq!(code, expected, "{line}");
        assert!(text.contains(words), "{line}: {text}");
    }
    // So a client of a later version learns which versions a server speaks.
    for line in [r#"{"version":2,"ask":"status","later":1}"#, r#"{"ask":"status","later":1}"#] {
        assert_eq!(Request::decode(line.as_bytes()).unwrap().1, Request::Status);
    }
    let long = format!("{}{}", r#"{"ask":"status"}"#, " ".repeat(REQUEST_BYTES as usize));
    assert_eq!(refused(&long).1, Code::TooLong);
}

#[test]
fn answers_of_later_versions_are_read_as_far_as_they_are_known() {
    let line = br#"{"version":2,"error":{"code":"melted","text":"it is gone","since":7},"later":1}"#;
    let expected = Answer::Error(Fault::new(Code::Failed, "it is gone"));
    assert_eq!(decode(line), Ok((Version::V2, expected)));
    let why = decode(br#"{"version":4,"note":"a"}"#).unwrap_err();
    assert!(why.contains("version 4") && why.contains("versions 1 to 3"), "{why}");
    assert!(decode(br#"{"version":2}"#).is_err() && decode(b"{}").is_err() && decode(b"").is_err());
}

/// The words in the first column of the rows below a heading.
fn rows(heading: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the page has this section");
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('`').nth(1).unwrap())
        .collect()
}

const CODES: [Code; 26] = [
    Code::InvalidRequest,
    Code::TooLong,
    Code::UnknownVersion,
    Code::UnknownRequest,
    Code::Held,
    Code::Unanswered,
    Code::Stopped,
    Code::NotClean,
    Code::NoMember,
    Code::Missing,
    Code::TooFew,
    Code::NotRecorded,
    Code::OthersMissing,
    Code::NoneMissing,
    Code::Taken,
    Code::IsMember,
    Code::Device,
    Code::UnderWay,
    Code::ScrubRunning,
    Code::Failed,
    Code::NoVolume,
    Code::SeveralVolumes,
    Code::NotAllowed,
    Code::NotSaved,
    Code::Busy,
    Code::NoSuch,
];

#[test]
fn the_page_has_every_code_and_no_other() {
    let word = |code: &Code| serde_json::to_value(code).unwrap().as_str().unwrap().to_owned();
    let words: Vec<String> = CODES.iter().map(word).collect();
    assert_eq!(rows("Errors"), words[..20]);
    for word in &words[20..] {
        assert!(PAGE.contains(&format!("`{word}`")), "{word}");
    }
}

#[test]
fn the_page_has_every_event_and_each_has_one_line() {
    let events = [
        Event::LogDiscarded,
        Event::BlocksApplied { blocks: 1 },
        Event::WritesDropped { writes: 2 },
        Event::WindowsResynced { windows: 3 },
        Event::MemberRecorded { role: 4 },
        Event::MemberFailed {
            role: 2,
            device: Some("/dev/sda".to_owned()),
            cause: LossCause::Unreachable,
            why: Some("connection reset".to_owned()),
            survives: 1,
        },
        Event::MemberBack { role: 2, device: "/dev/sda".to_owned() },
        Event::MemberKeptOut { role: 2, device: "/dev/sda".to_owned(), why: "it was failed".to_owned() },
        Event::RebuildBegun { role: 2, device: None },
        Event::RebuildAt { role: 2, percent: 20 },
        Event::RebuildEnded { role: 2, left: 0 },
        Event::Held { roles: vec![1, 2] },
        Event::GoesOn,
        Event::BlocksRewritten { blocks: 3 },
        Event::ScrubBegun { repairs: false },
        Event::ScrubEnded { stripes: 1, of_stripes: 2, why: None },
        Event::ScrubFound { findings: 2, repaired: 1, why: Some("too many findings".to_owned()) },
        Event::ScrubFailed { why: "no lock".to_owned() },
        Event::ScrubLeft,
        Event::NotClean { why: None },
        Event::ServerFailed { why: "no thread".to_owned(), stops: true },
    ];
    let mut seen = std::collections::BTreeSet::new();
    for event in events {
        let value = serde_json::to_value(&event).unwrap();
        let name = value["event"].as_str().unwrap();
        assert!(PAGE.contains(&format!("`{name}`")), "{name} is not on the page");
        assert_eq!(name, event.name());
        assert_eq!(serde_json::from_value::<Event>(value.clone()).unwrap(), event);
        let line = event.to_string();
        assert!(!line.is_empty() && !line.contains('\n'), "{name}: {line}");
        assert!(seen.insert(line), "{name} has the line of another one");
    }
    let recovered: Vec<String> = volume().recovered.events().iter().map(ToString::to_string).collect();
    assert_eq!(
        recovered,
        [
            "another system has run the array since: the stripe log was discarded",
            "2 blocks copied from the stripe log",
            "1 write dropped that had not become durable",
            "parity of 3 windows computed from data",
            "role 4 is recorded as failed: its device was missing, or its stripe log could not be read",
            "role 5 is recorded as failed: its device was missing, or its stripe log could not be read",
        ]
    );
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop_oneof![Just("status"), Just("fail"), Just("scrub"), Just("stop"), Just("2")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let key = prop_oneof![
            Just("ask".to_owned()),
            Just("version".to_owned()),
            Just("order".to_owned()),
            Just("member".to_owned()),
            Just("device".to_owned()),
            Just("error".to_owned()),
            Just("volume".to_owned()),
            "[a-z_]{1,8}",
        ];
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((key, inner), 0..8).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    /// No bytes panic, at either end; what is refused is answered by a line that can be read.
    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
        if let Err(Refused { version, fault }) = Request::decode(&bytes) {
            prop_assert!(decode(&encode(version, &Answer::Error(fault))).is_ok());
        }
    }

    #[test]
    fn no_document_panics(value in json_value()) {
        let line = value.to_string();
        let _ = decode(line.as_bytes());
        match Request::decode(line.as_bytes()) {
            Ok((version, request)) => {
                // What is understood says the same when it is sent again.
                let again = request.encode(version).unwrap();
                prop_assert_eq!(Request::decode(&again), Ok((version, request)));
            }
            Err(Refused { version, fault }) => {
                prop_assert!(!fault.text.contains('\n'));
                prop_assert!(decode(&encode(version, &Answer::Error(fault))).is_ok());
            }
        }
    }

    /// A true line of which one byte is another one, or is missing.
    #[test]
    fn no_damaged_line_panics(which in 0..6_usize, at in any::<prop::sample::Index>(), byte in option::of(any::<u8>())) {
        for version in VERSIONS {
            let mut line = all_requests()[which].encode(version).unwrap();
            let at = at.index(line.len());
            match byte {
                Some(byte) => line[at] = byte,
                None => drop(line.remove(at)),
            }
            let _ = Request::decode(&line);
        }
    }
}

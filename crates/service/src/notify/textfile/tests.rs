use super::*;
use std::os::unix::fs::PermissionsExt;

fn figures() -> Figures {
    let vault = ArrayFigures {
        uuid: "4e1c0a8b:8c7a4f0e".to_owned(),
        name: "a\"b\\c\nd <script>".to_owned(),
        level: "raid6".to_owned(),
        state: "degraded".to_owned(),
        members_missing: Some(1),
        oldest_cell: Some(1_700_000_000),
        progress: Some(0.25),
        findings: BTreeMap::from([("data".to_owned(), 38), ("ambiguous".to_owned(), 1)]),
        repairs: Some(2),
        survives: Some(1),
        held: Some(false),
        ..ArrayFigures::default()
    };
    Figures {
        arrays: vec![vault, ArrayFigures { uuid: "other".to_owned(), ..ArrayFigures::default() }],
        alerts_open: BTreeMap::from([("critical".to_owned(), 1)]),
        channels: BTreeMap::from([("mail".to_owned(), true), ("webhook".to_owned(), false)]),
        last_look: 1_700_000_100,
    }
}

/// Name, labels, value.
type Sample = (String, Vec<(String, String)>, f64);

/// Samples of a text of format 0.0.4. Names must follow their TYPE.
fn parse(text: &str) -> Vec<Sample> {
    let mut out = Vec::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("# TYPE ") {
            family = words.split(' ').next().unwrap().to_owned();
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let (name, mut rest) = line.split_at(end);
        assert_eq!(name, family);
        let mut labels = Vec::new();
        while let Some(after) = rest.strip_prefix(['{', ',']) {
            let (label, after) = after.split_once("=\"").unwrap();
            let (mut value, mut chars) = (String::new(), after.char_indices());
            loop {
                match chars.next().unwrap() {
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        other => other,
                    }),
                    (at, '"') => {
                        rest = &after[at + 1..];
                        break;
                    }
                    (_, other) => value.push(other),
                }
            }
            labels.push((label.to_owned(), value));
        }
        let value = rest.trim_start_matches('}').trim().parse().unwrap();
        out.push((name.to_owned(), labels, value));
    }
    out
}

#[test]
fn every_metric_of_the_page_is_there_under_its_name() {
    let page = include_str!("../../../../../docs/reference/channels.md");
    let names: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `pumice_").and_then(|rest| rest.split('`').next()))
        .collect();
    assert_eq!(names.len(), 16, "{names:?}");
    let text = text(&figures());
    let types: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE pumice_").and_then(|rest| rest.split(' ').next()))
        .collect();
    assert_eq!(types.len(), names.len());
    assert!(names.iter().all(|name| types.contains(name)), "{names:?} {types:?}");
}

#[test]
fn samples_are_read_back_as_they_were() {
    let figures = figures();
    let samples = parse(&text(&figures));
    let find = |name: &str| samples.iter().filter(|sample| sample.0 == name).collect::<Vec<_>>();
    let info = find("pumice_array_info");
    assert_eq!(info[0].1[1], ("name".to_owned(), figures.arrays[0].name.clone()));
    assert_eq!(find("pumice_scrub_findings").iter().map(|sample| sample.2).sum::<f64>(), 39.0);
    assert_eq!(find("pumice_scrub_progress_ratio")[0].2, 0.25);
    assert_eq!(find("pumice_array_members_missing").len(), 1, "what is not known has no line");
    assert_eq!(find("pumice_scrub_due_timestamp_seconds").len(), 0);
    assert_eq!(find("pumice_monitor_last_look_timestamp_seconds")[0].2, 1_700_000_100.0);
    assert_eq!(find("pumice_channel_failed").iter().map(|sample| sample.2).collect::<Vec<_>>(), [1.0, 0.0]);
}

#[test]
fn a_file_is_replaced_at_once_and_no_other_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pumice.prom");
    fs::write(folder.path().join(format!("pumice.prom.{}.tmp", std::process::id())), "left").unwrap();
    for content in ["one\n", "two\n"] {
        replace(&path, content).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    // A collector that has the old file open reads the old file to its end.
    let mut old = fs::File::open(&path).unwrap();
    replace(&path, "three\n").unwrap();
    assert_eq!(io::read_to_string(&mut old).unwrap(), "two\n");
    assert!(replace(&folder.path().join("none/pumice.prom"), "").is_err());
}

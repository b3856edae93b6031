use super::*;

/// The example of the design, whole.
const EXAMPLE: &str = r#"
[defaults]
every = "30d"
late = "45d"
window = ["22:00-06:00"]
slowdown = "1ms"
rate = "100MB"
nightly = "8h"
repair = "never"
parallel = 2

[[array]]
name = "vault"
nodes = ["10.0.0.1", "10.0.0.2"]
owner = "machine-a"
every = "14d"

[[drive]]
device = "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"
pi = 16
tags = "/srv/tags/a1b2c3d4"

[alerts]
mail = "root"
exec = "/etc/pumice/alert.d"
repeat = ["1d", "2d", "4d", "8d"]
well = "never"

[web]
listen = "127.0.0.1:9421"
names = ["localhost"]
open = false

[history]
reports = "2y"
findings = "1y"
"#;

#[test]
fn an_empty_file_has_the_defaults_of_the_page() {
    let empty = Config::parse("").expect("defaults");
    let mut example = Config::parse(EXAMPLE).expect("the example");
    assert_eq!(example.policy("uuid", "vault").every, Some(14 * DAY));
    assert_eq!(example.policy("uuid", "vault").late, 21 * DAY);
    assert_eq!(example.policy("uuid", "other"), &example.defaults);
    assert_eq!(example.drives[0].pi, 16);
    example.arrays.clear();
    example.drives.clear();
    assert_eq!(empty, example);
}

#[test]
fn what_is_wrong_is_named_by_its_field() {
    for (text, says) in [
        ("[defaults]\nevry = \"1d\"", "unknown field `evry`"),
        ("[web]\nport = 1", "unknown field `port`"),
        ("[other]", "unknown field `other`"),
        ("[defaults]\nevery = \"1h\"", "defaults: every: '1h' is out of range: it must be 1d to 5y"),
        ("[defaults]\nevery = \"soon\"", "defaults: every: 'soon' is not a duration"),
        ("[defaults]\nlate = \"30d\"", "defaults: late: it must be longer than every"),
        ("[defaults]\nwindow = []", "defaults: window: 0 entries"),
        ("[defaults]\nwindow = [\"22-6\"]", "defaults: window: '22-6'"),
        ("[defaults]\nslowdown = \"2s\"", "defaults: slowdown: '2s' is out of range"),
        ("[defaults]\nrate = \"1kB\"", "defaults: rate: '1kB' is out of range"),
        ("[defaults]\nnightly = \"9m\"", "defaults: nightly: '9m' is out of range"),
        ("[defaults]\nrepair = \"all\"", "defaults: repair: 'all'"),
        ("[defaults]\nparallel = 0", "defaults: parallel: 0"),
        ("[[array]]\nevery = \"2d\"", "missing field `name`"),
        ("[[array]]\nname = \"\"", "array 1: name: it must have 1 to 255 bytes"),
        ("[[array]]\nname = \"a\"\n[[array]]\nname = \"a\"", "array: name: 'a' is given twice"),
        ("[[array]]\nname = \"a\"\nnodes = []", "array 1: nodes: 0 entries"),
        ("[[array]]\nname = \"a\"\nparallel = 1", "unknown field `parallel`"),
        ("[[drive]]\ndevice = \"sda\"\ntags = \"/t\"", "drive 1: device: 'sda' is no absolute path"),
        ("[[drive]]\ndevice = \"/a\"\ntags = \"/t\"\npi = 4", "drive 1: pi: 4 is not 8 or 16"),
        ("[alerts]\nmail = \"-oQ/tmp\"", "alerts: mail: '-oQ/tmp' is no address"),
        ("[alerts]\nrepeat = [\"1s\"]", "alerts: repeat: '1s' is out of range"),
        ("[alerts]\nwell = \"1h\"", "alerts: well: '1h' is out of range"),
        ("[metrics]\ntextfile = \"x.prom\"", "metrics: textfile: 'x.prom' is no absolute path"),
        ("[metrics]\ntextfile = \"/x.txt\"", "metrics: textfile: '/x.txt' does not end in .prom"),
        ("[web]\nlisten = \"0.0.0.0:9421\"", "web: open: must be true for 0.0.0.0:9421"),
        ("[web]\nlisten = \"here\"", "web: listen: 'here'"),
        ("[history]\nreports = \"1h\"", "history: reports: '1h' is out of range"),
        ("[defaults]\nevery = \"300y\"", "defaults: every: '300y' is not a duration"),
    ] {
        let error = Config::parse(text).expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    assert!(Config::parse("[web]\nlisten = \"0.0.0.0:1\"\nopen = true").is_ok());
    assert_eq!(Config::parse("[defaults]\nevery = \"never\"").map(|c| c.defaults.every), Ok(None));
}

#[test]
fn no_text_panics() {
    use proptest::prelude::*;
    let pieces = prop::sample::select(EXAMPLE.split_inclusive(['\n', '"', ' ', '-']).collect::<Vec<_>>());
    proptest!(|(text in prop::collection::vec(pieces, 0..40), junk in ".{0,20}")| {
        let _ = Config::parse(&(text.concat() + &junk));
    });
}

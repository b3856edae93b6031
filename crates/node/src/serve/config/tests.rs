//! Texts of `node.toml` that are read, and those that are refused.

use super::*;
use crate::serve::access::{Faces, HostTable};
use pumice_protect::format::Place;

#[test]
fn a_file_says_what_is_served() {
    let config = NodeConfig::parse(
        "listen = '127.0.0.1:4420'\nnqn = 'nqn.2026-11.example:one'\ncores = 2\n\
         [[drive]]\nbackend = 'mem:1MiB'\n[[drive]]\nbackend = '/dev/sdb'\nblock_size = 4096\n",
    )
    .unwrap();
    assert_eq!(config.listen, ["127.0.0.1:4420".parse().unwrap()]);
    assert_eq!(config.cores, 2);
    assert_eq!(
        config.drives[0],
        DriveConfig {
            backend: Backend::Memory(1 << 20),
            tagging: None,
            pi_type: Type::One,
            storage_tag_mask: u64::MAX,
            block_size: None,
            label: None,
        }
    );
    assert_eq!(config.drives[1].block_size, Some(4096));
}

#[test]
fn the_example_of_the_documentation_is_read() {
    let page = include_str!("../../../../../docs/reference/configuration.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let config = NodeConfig::parse(rest.split_once("```").unwrap().0).unwrap();
    assert_eq!((config.listen.len(), config.drives.len(), config.peers.len()), (2, 2, 1));
    assert!(config.drives[1].tagging.is_some() && !config.pacing.is_empty());
    // Every field is on the page.
    let example: toml::Table = rest.split_once("```").unwrap().0.parse().unwrap();
    let fields = ["listen", "nqn", "block_size", "cores", "connections", "busy_poll", "state_dir"];
    for field in fields.iter().chain(&["metrics", "show_paths", "drive", "host", "peer", "pacing"]) {
        assert!(example.contains_key(*field), "{field}");
    }
}

#[test]
fn tags_beside_drives_are_read() {
    let drive = |text: &str| NodeConfig::parse(&format!("listen = '127.0.0.1:4420'\n[[drive]]\n{text}"));
    let config = drive("backend = '/dev/sdb'\npi = 32\ntags = '/t'\n").unwrap();
    assert_eq!(config.drives[0].tagging.as_ref().unwrap().place, Some("/t".into()));
    let why = drive("backend = '/dev/sdb'\npi = 33\ntags = '/t'\n").unwrap_err();
    assert_eq!(why, "drive 1: pi: '33' is not 16, 32 or 64");
    assert!(drive("backend = '/dev/sdb'\npi = 16\n").unwrap_err().starts_with("drive 1: tags: "));
    let promised = "backend = '/dev/sdb'\npi = 16\ntags = '/t'\natomic = ";
    let unit =
        |text: &str| drive(&format!("{promised}{text}\n")).map(|config| config.drives[0].tagging.clone());
    assert_eq!(unit("4096").unwrap().unwrap().atomic, Some(4096));
    assert!(unit("8192").unwrap_err().starts_with("drive 1: atomic: "));
}

#[test]
fn faces_of_hosts_are_read_and_what_makes_no_sense_is_named() {
    let tagged = "[[drive]]\nbackend = 'mem:1MiB'\npi = 16\n";
    let read = |text: &str| NodeConfig::parse(&format!("listen = '127.0.0.1:4420'\n{text}"));
    let host =
        |name: &str, faces: &str| format!("[[host]]\nnqn = 'nqn.2026-11.example:{name}'\nfaces = {faces}\n");
    let both = host("one", "['hidden', 'visible']");
    let config = read(&format!("{tagged}pi_type = 3\n{both}{}", host("two", "['unchecked']"))).unwrap();
    assert_eq!(config.drives[0].pi_type, Type::Three);
    assert_eq!(config.drives[0].storage_tag_mask, u64::MAX);
    let all =
        "block_size = 4096\nmetadata = 64\npi_place = 'first'\nstorage_tag = 12\nstorage_tag_mask = 0xFF0\n";
    let drive = &read(&format!("{tagged}{all}{both}")).unwrap().drives[0];
    let metadata = drive.tagging.as_ref().unwrap().metadata;
    assert_eq!((metadata.bytes(), metadata.storage_bits()), (64, 12));
    assert_eq!((metadata.place(), drive.storage_tag_mask), (Place::First, 0xFF0));
    let table = HostTable::from_config(&config.access);
    assert!(table.of("nqn.2026-11.example:one").faces().has_visible());
    assert!(table.of("nqn.2026-11.example:two").faces().is_unchecked());
    assert_eq!(table.of("nqn.2026-11.example:three").faces(), Faces::default());
    let large = "[[drive]]\nbackend = 'mem:1MiB'\nblock_size = 4096\npi = 64\npi_type = 2\n";
    assert!(read(&format!("{large}{both}")).is_ok());
    let small = "[[drive]]\nbackend = 'mem:1MiB'\npi = 64\n";
    for (text, word) in [
        (format!("{tagged}{}", host("one", "[]")), "host 1: faces: "),
        (format!("{tagged}{both}{}", host("two", "['seen']")), "host 2: faces: 'seen'"),
        (format!("{tagged}{}", host("one", "['hidden', 'unchecked']")), "host 1: faces: "),
        (format!("{tagged}{both}{both}"), "given twice"),
        (format!("{tagged}[[host]]\nnqn = 'x'\nfaces = ['hidden']\n"), "host 1: nqn: "),
        (format!("{tagged}[[host]]\nnqn = 'nqn.2026-11.example:one'\n"), "faces"),
        // No drive has such a face.
        (both.clone(), "host: faces: 'visible'"),
        (format!("{small}{both}"), "host: faces: 'visible'"),
        (format!("{small}pi_type = 1\n"), "drive 1: pi_type: "),
        ("[[drive]]\nbackend = 'mem:1MiB'\npi_type = 1\n".to_owned(), "drive 1: pi_type: "),
        (format!("{tagged}pi_type = 4\n"), "drive 1: pi_type is 4"),
        (format!("{tagged}pi_place = 'first'\n"), "drive 1: pi_place: "),
        (format!("{tagged}storage_tag = 33\n"), "drive 1: storage_tag: "),
        (format!("{tagged}storage_tag_mask = 1\n"), "drive 1: storage_tag_mask is 0x1"),
        (
            format!("{tagged}storage_tag = 8\nstorage_tag_mask = 0x100\n"),
            "drive 1: storage_tag_mask is 0x100",
        ),
    ] {
        let why = read(&text).unwrap_err();
        assert!(why.contains(word), "{text}: {why}");
    }
}

#[test]
fn several_addresses_are_read() {
    let config = NodeConfig::parse("listen = ['192.0.2.1', '[::1]:4421', '::']").unwrap();
    let expected = ["192.0.2.1:4420", "[::1]:4421", "[::]:4420"].map(|address| address.parse().unwrap());
    assert_eq!(config.listen, expected);
}

#[test]
fn hosts_are_shown_labels_and_no_paths_unless_that_is_wanted() {
    let labels = |first: &str| {
        let drives = "[[drive]]\nbackend = '/dev/sdb'\n[[drive]]\nbackend = '/srv/a/image'\n[[drive]]\nbackend = '/srv/b/image'\n\
                      [[drive]]\nbackend = '/srv/c'\nlabel = 'front left'\n[[drive]]\nbackend = 'mem:1MiB'\n";
        let config = NodeConfig::parse(&format!("listen = '127.0.0.1'\n{first}{drives}")).unwrap();
        (0..5).map(|index| config.label(index)).collect::<Vec<_>>()
    };
    assert_eq!(labels(""), ["sdb", "image (2)", "image (3)", "front left", "mem:1048576"]);
    let paths = ["/dev/sdb", "/srv/a/image", "/srv/b/image", "front left", "mem:1048576"];
    assert_eq!(labels("show_paths = true\n"), paths);
}

#[test]
fn counters_are_served_to_this_machine_alone_unless_that_is_wanted() {
    for (text, address) in
        [("9420", "127.0.0.1:9420"), ("192.0.2.1:9420", "192.0.2.1:9420"), ("[::1]:1", "[::1]:1")]
    {
        assert_eq!(metrics_address(text), Ok(address.parse().unwrap()));
    }
    for text in ["", "70000", "localhost:9420", "192.0.2.1"] {
        assert!(metrics_address(text).is_err(), "{text}");
    }
}

#[test]
fn a_pace_is_read() {
    let config = NodeConfig::parse(
        "listen = '127.0.0.1:4420'\n[pacing]\nslowdown = '1ms'\nrate = '50MB'\nwindow = ['22:00-06:00']\n",
    )
    .unwrap();
    let pacing = config.pacing;
    assert_eq!((pacing.slowdown_ns, pacing.rate), (Some(1_000_000), Some(50_000_000)));
    assert_eq!(pacing.windows, [(79_200, 21_600)]);
}

#[test]
fn peers_get_digests_unless_the_file_says_otherwise() {
    let peer = |line: &str| {
        let text = format!("listen = '127.0.0.1:1'\n[[peer]]\naddress = '192.0.2.1:4420'\n{line}");
        NodeConfig::parse(&text).unwrap().peers[0].digests
    };
    assert_eq!(peer(""), DigestPolicy::Auto);
    assert_eq!(peer("digest = 'on'"), DigestPolicy::On);
    assert_eq!(peer("digest = 'off'"), DigestPolicy::Off);
}

#[test]
fn wrong_fields_are_named() {
    for (text, word) in [
        ("listen = 'here'", "listen"),
        ("listen = []", "listen"),
        ("listen = '127.0.0.1'\nmetrics = 'here'", "metrics"),
        ("listen = 5", "listen"),
        ("listen = ['127.0.0.1', '127.0.0.1:4420']", "listen"),
        ("listen = '127.0.0.1'\n[[drive]]\nbackend = 'mem:1'\nlabel = ''", "label"),
        ("listen = '127.0.0.1:1'\nspeed = 1", "speed"),
        ("listen = '127.0.0.1:1'\nblock_size = 1000", "block_size"),
        ("listen = '127.0.0.1:1'\ncores = 0", "cores"),
        ("listen = '127.0.0.1:1'\nconnections = 70000", "connections"),
        ("listen = '127.0.0.1:1'\nbusy_poll = '1s'", "busy_poll"),
        ("listen = '127.0.0.1:1'\nbusy_poll = '1'", "busy_poll"),
        ("listen = '127.0.0.1:1'\nnqn = 'x'", "nqn"),
        ("listen = '127.0.0.1:1'\n[[drive]]\nbackend = 'mem:x'", "drive 1"),
        ("listen = '127.0.0.1:1'\n[[peer]]\naddress = '192.0.2.1:1'\ndigest = 'yes'", "peer 1: digest"),
        ("listen = '127.0.0.1:1'\n[pacing]\nslowdown = '1'", "pacing: slowdown"),
        ("listen = '127.0.0.1:1'\n[pacing]\nrate = 'fast'", "pacing: rate"),
        ("listen = '127.0.0.1:1'\n[pacing]\npolicy = 'priced'", "pacing: policy"),
        ("listen = '127.0.0.1:1'\n[pacing]\nwindow = ['6-8']", "pacing: window"),
    ] {
        let why = NodeConfig::parse(text).unwrap_err();
        assert!(why.contains(word), "{text}: {why}");
    }
}

#[test]
fn a_made_name_is_the_same_again_and_another_for_other_drives() {
    let config = |drive: &str| {
        NodeConfig::parse(&format!("listen = '127.0.0.1:0'\n[[drive]]\nbackend = '{drive}'")).unwrap()
    };
    let made = |drive: &str, instance: u8| config(drive).nqn_or_made(&[instance; 16]);
    assert_eq!(made("mem:1MiB", 1), made("mem:1MiB", 1));
    assert_ne!(made("mem:1MiB", 1), made("mem:2MiB", 1));
    assert_ne!(made("mem:1MiB", 1), made("mem:1MiB", 2), "a clone of the machine");
}

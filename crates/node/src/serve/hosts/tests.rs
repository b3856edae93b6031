//! Entries of hosts and peers that are read, and those that are refused.

use super::*;
use crate::serve::config::NodeConfig;
use crate::serve::rights::Right;
use pumice_nvme::auth::hash::Hash;

/// An entry of the list.
pub(in crate::serve) fn host(number: usize, keys: KeyPaths) -> HostEntry {
    HostEntry {
        nqn: format!("nqn.2026-11.example:host{number}").parse().unwrap(),
        id: None,
        may: Rights::of(Right::Read),
        drives: OwnDrives::All,
        faces: Faces::default(),
        keys,
    }
}

fn read(text: &str) -> Result<NodeConfig, String> {
    NodeConfig::parse(text)
}

const LISTED: &str = "access = 'listed'\nlisten = '127.0.0.1:4420'\n";
const DRIVES: &str = "[[drive]]\nbackend = 'mem:1MiB'\nlabel = 'left'\n[[drive]]\nbackend = 'mem:1MiB'\n[[drive]]\nbackend = '/srv/c'\n";
const HOST: &str = "[[host]]\nnqn = 'nqn.2026-11.example:one'\n";

fn listed(fields: &str) -> Result<HostEntry, String> {
    read(&format!("{LISTED}{DRIVES}{HOST}{fields}")).map(|config| config.access.hosts()[0].clone())
}

#[test]
fn a_host_of_the_list_is_read() {
    let host = listed(
        "id = '00112233-4455-6677-8899-AABBCCDDEEFF'\nmay = ['write', 'scrub']\ndrives = ['left', 3]\n\
         key = ['/k/one', '/k/two']\ncontroller_key = '/k/three'\npsk = '/k/four'\n\
         hashes = ['SHA-384']\ngroups = ['none', 'ffdhe8192']\n",
    )
    .unwrap();
    let id: [u8; 16] = std::array::from_fn(|i| i as u8 * 0x11);
    assert_eq!(host.id, Some(id));
    assert_eq!(host.may, Rights::of(Right::Write).and_also(Rights::of(Right::Scrub)));
    assert_eq!(host.drives, OwnDrives::only([0, 2]));
    assert_eq!(host.keys.key, [PathBuf::from("/k/one"), PathBuf::from("/k/two")]);
    assert_eq!((host.keys.controller_key.len(), host.keys.psk.len()), (1, 1));
    assert_eq!(host.keys.policy.hashes(), [Hash::Sha384]);
    assert_eq!(host.keys.policy.groups().len(), 2);
    assert!(host.keys.asks_for_proof());
    let plain = listed("may = ['read']\nid = '00112233445566778899aabbccddeeff'\n").unwrap();
    assert_eq!((plain.id, plain.drives), (Some(id), OwnDrives::All));
    assert_eq!(plain.keys, KeyPaths::default());
}

#[test]
fn modes_are_words_and_rights_have_a_default_without_a_list() {
    let mode = |line: &str| read(&format!("listen = '127.0.0.1'\n{line}")).map(|config| config.access.mode());
    assert_eq!(mode(""), Ok(AccessMode::Open));
    assert_eq!(mode("access = 'anyone'"), Ok(AccessMode::Anyone));
    assert_eq!(mode("access = 'listed'"), Ok(AccessMode::Listed));
    assert!(mode("access = 'all'").unwrap_err().starts_with("access is \"all\""));
    let anyone = read(&format!("access = 'anyone'\nlisten = '127.0.0.1'\n{HOST}key = '/k'\n")).unwrap();
    assert_eq!(anyone.access.hosts()[0].may, Rights::ALL);
}

#[test]
fn what_makes_no_sense_is_named() {
    for (fields, why) in [
        ("", "host 1: may: it is needed"),
        ("may = []\n", "host 1: may: a host has one right"),
        ("may = ['admin']\n", "host 1: may: 'admin'"),
        ("may = ['read']\nid = '1'\n", "host 1: id: \"1\""),
        ("may = ['read']\nid = '0011-2233445566778899aabbccddeeff'\n", "host 1: id: "),
        ("may = ['read']\nid = '00000000000000000000000000000000'\n", "host 1: id: no host"),
        ("may = ['read']\ndrives = []\n", "host 1: drives: one at least"),
        ("may = ['read']\ndrives = [4]\n", "host 1: drives: there is no drive 4"),
        ("may = ['read']\ndrives = [0]\n", "host 1: drives: there is no drive 0"),
        ("may = ['read']\ndrives = ['right']\n", "host 1: drives: there is no drive \"right\""),
        ("may = ['read']\ndrives = [1, 'left']\n", "host 1: drives: drive \"left\" is given twice"),
        ("may = ['read']\nkey = []\n", "host 1: key: 0 paths"),
        ("may = ['read']\nkey = ['/1', '/2', '/3']\n", "host 1: key: 3 paths"),
        ("may = ['read']\nkey = ''\n", "host 1: key: a path is empty"),
        ("may = ['read']\nkey = ['/1', '/1']\n", "host 1: key: /1 is given twice"),
        ("may = ['read']\nkey = '/1'\npsk = '/1'\n", "host 1: psk: /1 is given twice"),
        ("may = ['read']\ncontroller_key = '/1'\n", "host 1: controller_key: it needs `key`"),
        ("may = ['read']\nhashes = ['SHA-256']\n", "host 1: hashes: it needs `key`"),
        ("may = ['read']\nkey = '/1'\nhashes = ['md5']\n", "host 1: hashes: 'md5'"),
        ("may = ['read']\nkey = '/1'\ngroups = []\n", "host 1: groups: at least one"),
        ("may = ['read']\nkey = '/1'\ngroups = ['none', 'none']\n", "host 1: groups: one is listed twice"),
        ("may = ['read']\nsecret = 'x'\n", "secret"),
    ] {
        let error = listed(fields).unwrap_err();
        assert!(error.contains(why), "{fields}: {error}");
    }
    let second = |fields: &str| {
        let text = format!("{LISTED}{HOST}may = ['read']\nid = '00112233445566778899aabbccddeeff'\n{fields}");
        read(&text).unwrap_err()
    };
    assert!(second(&format!("{HOST}may = ['read']\n")).contains("is given twice"));
    let pinned = "[[host]]\nnqn = 'nqn.2026-11.example:two'\nmay = ['read']\nid = '00112233445566778899aabbccddeeff'\n";
    assert_eq!(second(pinned), "host 2: id: another host has it");
    let peer = "[[peer]]\naddress = '192.0.2.1:4420'\n";
    assert!(second(peer).contains("peer 1: nqn: it is needed"));
    assert!(second(&format!("{peer}nqn = 'nqn.2026-11.example:one'\n")).contains("it is a host's too"));
}

#[test]
fn a_port_speaks_tls_or_does_not() {
    let text = |host: &str| {
        format!(
            "access = 'listed'\nlisten = [{{ address = '192.0.2.1', tls = 'required' }}, '127.0.0.1:1', \
             {{ address = '127.0.0.1:2', tls = 'off' }}]\n{HOST}may = ['read']\n{host}"
        )
    };
    let config = read(&text("psk = '/k'\n")).unwrap();
    assert_eq!(config.tls, [TlsUse::Required, TlsUse::Off, TlsUse::Off]);
    assert_eq!(config.listen.len(), 3);
    assert!(read(&text("")).unwrap_err().contains("needs a host or a peer with `psk`"));
    let error = read("listen = { address = '127.0.0.1', tls = 'maybe' }").unwrap_err();
    assert!(error.contains("listen: tls is \"maybe\""), "{error}");
}

#[test]
fn sets_of_drives() {
    let (all, none) = (OwnDrives::All, OwnDrives::none());
    let (low, high) = (OwnDrives::only([0, 5]), OwnDrives::only([5, 64, 200]));
    assert!(all.has(9999) && !none.has(0) && high.has(200) && !high.has(199) && !high.has(400));
    assert!(all.meets(&low) && low.meets(&high) && !none.meets(&all) && !low.meets(&OwnDrives::only([64])));
    assert!(all.has_all(&low) && !low.has_all(&all) && all.has_all(&all) && low.has_all(&none));
    assert!(
        !low.has_all(&high) && high.has_all(&OwnDrives::only([200])) && !low.has_all(&OwnDrives::only([200]))
    );
}

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

/// A folder with a key of 32 equal bytes for each number.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    for byte in 1..=3 {
        let path = folder.path().join(byte.to_string());
        let key = ChapKey::new(None, &[byte; 32]).unwrap();
        fs::write(&path, format!("{}\n", *key.to_text())).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    folder
}

fn parsed(text: &str) -> Result<Vec<Target>, String> {
    let folder = folder();
    parse(&text.replace('@', folder.path().to_str().unwrap()), None)
        .map_err(|why| why.replace(folder.path().to_str().unwrap(), "@"))
}

#[test]
fn the_entry_with_the_port_counts_first() {
    let targets = parsed(
        "[web]\nlisten = \"127.0.0.1:1\"\n\
         [[target]]\naddress = \"192.0.2.1\"\nkey = \"@/1\"\n\
         [[target]]\naddress = \"192.0.2.1:4421\"\nkey = \"@/2\"\ncontroller_key = [\"@/1\", \"@/3\"]\n\
         host = \"nqn.2026-11.example:host\"\nhashes = [\"SHA-512\"]\ngroups = [\"ffdhe8192\"]\n",
    )
    .unwrap();
    let host = |address: &str| find(&targets, address.parse().unwrap()).map(|target| target.host.is_some());
    assert_eq!(host("192.0.2.1:4421"), Some(true));
    assert_eq!(host("[::ffff:192.0.2.1]:4421"), Some(true));
    assert_eq!(host("192.0.2.1:4420"), Some(false));
    assert_eq!(host("192.0.2.2:4420"), None);
}

#[test]
fn faults_are_named() {
    let entry = |more: &str| format!("[[target]]\naddress = \"192.0.2.1\"\nkey = \"@/1\"\n{more}\n");
    for (text, why) in [
        (entry("psk = \"@/2\""), "unknown field `psk`"),
        (entry("controller_key = \"@/1\""), "target 1: controller_key: it has the same secret"),
        (entry("controller_key = \"@/4\""), "target 1: controller_key: @/4: "),
        (entry("hashes = [\"SHA-1\"]"), "target 1: hashes: "),
        (entry("groups = []"), "target 1: groups: "),
        (entry("host = \"host\""), "target 1: host: "),
        (entry(&entry("")), "target 2: address: it is given twice"),
        ("[[target]]\naddress = \"node1\"\nkey = \"@/1\"\n".to_owned(), "target 1: address: \"node1\""),
        ("[[target]]\naddress = \"192.0.2.1\"\n".to_owned(), "missing field `key`"),
    ] {
        let error = parsed(&text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let missing = Path::new("/nonexistent/pumice.toml");
    assert!(read(Some(missing), None).unwrap_err().to_string().contains("/nonexistent/pumice.toml"));
}

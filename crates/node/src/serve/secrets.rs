//! The keys of hosts and peers, read from their files: `docs/design/access.md`, *Files of keys*.

use super::hosts::{AccessConfig, KeyPaths};
use super::keyfile::{KeyFileError, read_key};
use pumice_nvme::auth::keys::KeyError;
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::keys::psk::ConfiguredPsk;
use pumice_nvme::auth::policy::Policy;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use zeroize::Zeroizing;

/// The keys between this node and another end: at most two of each kind, the current one first.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// The other end proves that it has one of these.
    pub host: Vec<ChapKey>,
    /// This node proves that it has one of these.
    pub controller: Vec<ChapKey>,
    /// Pre-shared keys of TLS.
    pub psk: Vec<ConfiguredPsk>,
    /// Hashes and groups.
    pub policy: Policy,
}

impl Keys {
    /// Returns whether every secret of `other` is one of these, kind by kind.
    #[must_use]
    pub fn has_all(&self, other: &Self) -> bool {
        let chap = |own: &[ChapKey], others: &[ChapKey]| {
            others.iter().all(|other| own.iter().any(|own| own.has_secret_of(other)))
        };
        chap(&self.host, &other.host)
            && chap(&self.controller, &other.controller)
            && other.psk.iter().all(|other| self.psk.iter().any(|own| own.has_secret_of(other)))
    }
}

/// The keys of a configuration: of each host and each peer, in the order of the entries.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    hosts: Vec<Keys>,
    peers: Vec<Keys>,
    mark: Option<Zeroizing<String>>,
}

/// Keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file is missing or not safe.
    #[error("{place}: {field}: {source}")]
    File {
        /// The entry, such as `host 2`.
        place: String,
        /// The field.
        field: &'static str,
        /// The cause.
        source: KeyFileError,
    },
    /// A file has no key.
    #[error("{place}: {field}: {}: {source}", path.display())]
    Key {
        /// The entry.
        place: String,
        /// The field.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KeyError,
    },
    /// Two fields have one secret: who has one of them could pass for the other.
    #[error("{place}: {field}: it has the same secret as {other}")]
    Same {
        /// The entry.
        place: String,
        /// The field.
        field: &'static str,
        /// The entry and field before it.
        other: String,
    },
    /// The secret of marks is too short.
    #[error("mark_secret: {}: it must have 16 bytes at least", path.display())]
    Mark {
        /// The file.
        path: PathBuf,
    },
}

/// Fewest bytes of the secret of marks.
const MARK: usize = 16;

impl Secrets {
    /// Reads the keys of all entries. `credentials` is the folder $CREDENTIALS_DIRECTORY.
    ///
    /// # Errors
    /// Where a file cannot be read or is not safe, has no key, or has the secret of another field.
    pub fn load(access: &AccessConfig, credentials: Option<&Path>) -> Result<Self, SecretsError> {
        let host = |(i, host): (usize, &super::hosts::HostEntry)| {
            keys(&format!("host {i}"), &host.keys, credentials)
        };
        let peer = |(i, peer): (usize, &super::hosts::PeerEntry)| {
            keys(&format!("peer {i}"), &peer.keys, credentials)
        };
        let loaded = Self {
            hosts: (1..).zip(access.hosts()).map(host).collect::<Result<_, _>>()?,
            peers: (1..).zip(access.peers()).map(peer).collect::<Result<_, _>>()?,
            mark: access.mark_secret().map(|path| mark(path, credentials)).transpose()?,
        };
        loaded.check()?;
        Ok(loaded)
    }

    /// The keys of host `index`, from 0.
    #[must_use]
    pub fn host(&self, index: usize) -> Option<&Keys> {
        self.hosts.get(index)
    }

    /// The keys of peer `index`, from 0.
    #[must_use]
    pub fn peer(&self, index: usize) -> Option<&Keys> {
        self.peers.get(index)
    }

    /// The secret of marks in Hosts Read.
    #[must_use]
    pub fn mark(&self) -> Option<&[u8]> {
        self.mark.as_ref().map(|text| text.as_bytes())
    }

    /// No secret is in two places: neither in two entries, nor in two fields of one.
    fn check(&self) -> Result<(), SecretsError> {
        let places = (1..).zip(&self.hosts).map(|(i, keys)| (format!("host {i}"), keys));
        let places = places.chain((1..).zip(&self.peers).map(|(i, keys)| (format!("peer {i}"), keys)));
        let mut chap: Vec<(String, &'static str, &ChapKey)> = Vec::new();
        let mut psk: Vec<(String, &ConfiguredPsk)> = Vec::new();
        for (place, keys) in places {
            let both = [("key", &keys.host), ("controller_key", &keys.controller)];
            for (field, key) in both.iter().flat_map(|(field, all)| all.iter().map(|key| (*field, key))) {
                if let Some((at, of, _)) = chap.iter().find(|(_, _, other)| other.has_secret_of(key)) {
                    return Err(SecretsError::Same { place, field, other: format!("{at}: {of}") });
                }
                chap.push((place.clone(), field, key));
            }
            for key in &keys.psk {
                if let Some((at, _)) = psk.iter().find(|(_, other)| other.has_secret_of(key)) {
                    return Err(SecretsError::Same { place, field: "psk", other: format!("{at}: psk") });
                }
                psk.push((place.clone(), key));
            }
        }
        Ok(())
    }
}

fn keys(place: &str, paths: &KeyPaths, credentials: Option<&Path>) -> Result<Keys, SecretsError> {
    fn all<T: FromStr<Err = KeyError>>(
        place: &str,
        field: &'static str,
        paths: &[PathBuf],
        credentials: Option<&Path>,
    ) -> Result<Vec<T>, SecretsError> {
        let one = |path: &PathBuf| {
            let text = read_key(path, credentials).map_err(|source| SecretsError::File {
                place: place.to_owned(),
                field,
                source,
            })?;
            text.parse().map_err(|source| SecretsError::Key {
                place: place.to_owned(),
                field,
                path: path.clone(),
                source,
            })
        };
        paths.iter().map(one).collect()
    }
    Ok(Keys {
        host: all(place, "key", &paths.key, credentials)?,
        controller: all(place, "controller_key", &paths.controller_key, credentials)?,
        psk: all(place, "psk", &paths.psk, credentials)?,
        policy: paths.policy.clone(),
    })
}

fn mark(path: &Path, credentials: Option<&Path>) -> Result<Zeroizing<String>, SecretsError> {
    let place = "the node".to_owned();
    let text = read_key(path, credentials).map_err(|source| SecretsError::File {
        place,
        field: "mark_secret",
        source,
    })?;
    match text.len() >= MARK {
        true => Ok(text),
        false => Err(SecretsError::Mark { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::hosts::AccessMode;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    /// Two hosts whose fields have keys of these bytes: key and controller key, in the clear, and a
    /// pre-shared key.
    fn load(bytes: [[u8; 3]; 2]) -> Result<Secrets, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let file = |name: String, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            path
        };
        let entry = |i: usize| {
            let [key, controller, psk] = bytes[i];
            let chap = |byte| ChapKey::new(None, &[byte; 32]).unwrap().to_text();
            let keys = KeyPaths {
                key: vec![file(format!("key{i}"), &chap(key))],
                controller_key: vec![file(format!("controller{i}"), &chap(controller))],
                psk: vec![file(format!("psk{i}"), &ConfiguredPsk::new(true, &[psk; 32]).unwrap().to_text())],
                policy: Policy::default(),
            };
            super::super::hosts::tests::host(i, keys)
        };
        let access = AccessConfig::new(AccessMode::Listed, vec![entry(0), entry(1)], vec![], None).unwrap();
        Secrets::load(&access, None).map_err(|error| error.to_string())
    }

    #[test]
    fn one_secret_is_not_in_two_places() {
        let loaded = load([[1, 2, 3], [4, 5, 6]]).unwrap();
        assert!(loaded.host(1).unwrap().host[0].has_secret_of(&ChapKey::new(None, &[4; 32]).unwrap()));
        assert!(load([[1, 2, 1], [4, 5, 4]]).is_ok(), "keys of two protocols are not compared");
        for (bytes, why) in [
            ([[1, 1, 3], [4, 5, 6]], "host 1: controller_key: it has the same secret as host 1: key"),
            ([[1, 2, 3], [1, 5, 6]], "host 2: key: it has the same secret as host 1: key"),
            ([[1, 2, 3], [2, 5, 6]], "host 2: key: it has the same secret as host 1: controller_key"),
            (
                [[1, 2, 3], [4, 2, 6]],
                "host 2: controller_key: it has the same secret as host 1: controller_key",
            ),
            ([[1, 2, 3], [4, 5, 3]], "host 2: psk: it has the same secret as host 1: psk"),
        ] {
            assert_eq!(load(bytes).unwrap_err(), why);
        }
    }

    #[test]
    fn a_removed_key_is_noticed() {
        let all = load([[1, 2, 3], [4, 5, 6]]).unwrap();
        let of = |index: usize| all.host(index).unwrap();
        assert!(of(0).has_all(of(0)) && of(0).has_all(&Keys::default()));
        assert!(!of(0).has_all(of(1)) && !Keys::default().has_all(of(0)));
    }
}

//! How devices and nodes are opened.

use clap::builder::{OsStringValueParser, TypedValueParser};
use pumice_initiator::DigestPolicy;
use pumice_raid::{Known, MemberRecord, Metadata, ProbeError, ReadAt, probe_at, probe_together};
use std::path::{Path, PathBuf};

/// How devices are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// For writing, and then exclusively.
    pub write: bool,
    /// Devices that are in use may be opened, for reading.
    pub allow_in_use: bool,
    /// Whether connections to nodes carry digests.
    pub digests: DigestPolicy,
    /// The metadata version whose superblocks count, if the operator names it.
    pub metadata: Option<Metadata>,
}

/// Takes the name of a folder, which need not exist, but must be nothing else.
pub(crate) fn folder() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name| {
        let path = PathBuf::from(name);
        if is_another(&path) { Err(NO_FOLDER) } else { Ok(path) }
    })
}

/// Why a path is not taken for a folder.
pub(crate) const NO_FOLDER: &str = "it is no folder";

/// Whether there is something that is no folder.
pub(crate) fn is_another(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_dir())
}

/// A metadata version by its name.
pub(crate) fn metadata(text: &str) -> Result<Metadata, String> {
    let found = Metadata::ALL.into_iter().find(|metadata| metadata.to_string() == text);
    found.ok_or_else(|| format!("'{text}': 0.90, 1.0, 1.1 or 1.2"))
}

/// Looks for the superblocks of devices that are said to be of one array; if the operator names
/// their version, at its place alone.
pub(crate) fn probe_named(
    devices: &[&dyn ReadAt],
    metadata: Option<Metadata>,
) -> Vec<Result<Option<MemberRecord>, ProbeError>> {
    match metadata {
        Some(metadata) => probe_at(devices, metadata),
        None => probe_together(devices, Known::default()),
    }
}

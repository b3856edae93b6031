//! Words of arguments that say how devices and nodes are opened.

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use pumice_raid::Metadata;
use pumice_service::failure::Failure;
use pumice_service::folder::default_folder;
use std::path::{Path, PathBuf};

/// Takes the name of a folder, which need not exist, but must be nothing else.
pub(crate) fn folder() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name| {
        let path = PathBuf::from(name);
        if is_another(&path) { Err(NO_FOLDER) } else { Ok(path) }
    })
}

/// The words for a path that is not taken for a folder.
pub(crate) const NO_FOLDER: &str = "it is no folder";

/// Returns whether there is something that is no folder.
pub(crate) fn is_another(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_dir())
}

/// A metadata version by its name.
pub(crate) fn metadata(text: &str) -> Result<Metadata, String> {
    let found = Metadata::ALL.into_iter().find(|metadata| metadata.to_string() == text);
    found.ok_or_else(|| format!("'{text}': 0.90, 1.0, 1.1 or 1.2"))
}

/// The folder of the sockets.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunDir {
    /// Folder of the sockets of served volumes [default: /run/pumice/volumes for root, else
    /// $XDG_RUNTIME_DIR/pumice/volumes]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    run_dir: Option<PathBuf>,
}

impl RunDir {
    /// The folder that is named, or the usual one.
    pub(crate) fn folder(&self) -> Result<PathBuf, Failure> {
        self.run_dir.clone().map_or_else(default_folder, Ok)
    }
}

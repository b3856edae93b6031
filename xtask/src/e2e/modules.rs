//! Kernel modules: which files a module needs, in the order in which they are to be loaded.

use crate::run::{Failed, output};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The module files of an unpacked kernel, by the module's name.
pub(crate) struct Modules(BTreeMap<String, PathBuf>);

impl Modules {
    /// Finds them below a folder.
    pub(crate) fn below(root: &Path) -> Result<Self, Failed> {
        let mut found = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries =
                fs::read_dir(&folder).map_err(|error| Failed(format!("{}: {error}", folder.display())))?;
            for entry in entries.flatten() {
                let path = entry.path();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else if let Some((stem, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
                    found.insert(plain(stem), path);
                }
            }
        }
        Ok(Self(found))
    }

    /// Adds to `order` a module and, before it, what it depends on: name and content. A name
    /// without a file is built into the kernel.
    pub(crate) fn closure(&self, name: &str, order: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failed> {
        let name = plain(name);
        if order.iter().any(|(there, _)| *there == name) {
            return Ok(());
        }
        let Some(path) = self.0.get(&name) else { return Ok(()) };
        let content = content(path)?;
        for other in depends(&content) {
            self.closure(&other, order)?;
        }
        order.push((name, content));
        Ok(())
    }
}

/// A module's name as the kernel compares it.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn content(path: &Path) -> Result<Vec<u8>, Failed> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => output(Command::new("xz").arg("-dc").arg(path)),
        Some("zst") => output(Command::new("zstd").arg("-dqc").arg(path)),
        _ => fs::read(path).map_err(|error| Failed(format!("{}: {error}", path.display()))),
    }
}

/// Modules that a module depends on, from its `.modinfo`: the string `depends=a,b`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let list = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(list).split(',').filter(|name| !name.is_empty()).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::depends;

    #[test]
    fn a_module_says_what_it_depends_on() {
        assert_eq!(
            depends(b"..\0license=x\0depends=nvme-core,nvme-fabrics\0name=y\0"),
            ["nvme_core", "nvme_fabrics"]
        );
        assert!(depends(b"..\0depends=\0name=y\0").is_empty());
        assert!(depends(b"nothing").is_empty());
    }
}

//! Linux as Debian ships it: fetched and unpacked, not installed.

use super::Missing;
use super::modules::Modules;
use crate::run::{Failed, output, say};
use crate::setup;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel that the harness knows: its name here, and the package that stands for its newest
/// build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    package: &'static str,
}

/// All of them.
pub(crate) const KERNELS: [Kernel; 2] = [
    Kernel { name: "6.1", package: "linux-image-cloud-amd64" },
    Kernel { name: "6.12", package: "linux-image-6.12-cloud-amd64" },
];

/// A kernel on this machine.
pub(crate) struct Unpacked {
    pub(crate) kernel: Kernel,
    pub(crate) image: PathBuf,
    pub(crate) modules: Modules,
}

impl Kernel {
    /// Downloads and unpacks the kernel into `folder`, unless it is there.
    pub(crate) fn fetch(self, folder: &Path) -> Result<Unpacked, Missing> {
        let root = folder.join(format!("linux-{}", self.name));
        let done = root.join("unpacked");
        if !done.exists() {
            self.unpack(&root)?;
            fs::write(&done, "").map_err(|error| Missing(format!("{}: {error}", done.display())))?;
        }
        let boot = root.join("boot");
        let image = fs::read_dir(&boot)
            .map_err(|error| Missing(format!("{}: {error}", boot.display())))?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.to_string_lossy().contains("/vmlinuz-"))
            .ok_or_else(|| Missing(format!("{}: no kernel in it", boot.display())))?;
        let mut modules = root.join("lib/modules");
        if !modules.exists() {
            modules = root.join("usr/lib/modules");
        }
        let modules = Modules::below(&modules).map_err(|Failed(why)| Missing(why))?;
        Ok(Unpacked { kernel: self, image, modules })
    }

    fn unpack(self, root: &Path) -> Result<(), Missing> {
        let package = match self.resolve() {
            // As root, perhaps the lists of packages were never fetched.
            Err(_) if setup::may_install() => {
                output(Command::new("apt-get").args(["update", "-qq"]))
                    .map_err(|Failed(why)| Missing(why))?;
                self.resolve()?
            }
            resolved => resolved?,
        };
        say(&format!("downloading {package}"));
        // What an interrupted run left.
        let _ = fs::remove_dir_all(root);
        fs::create_dir_all(root).map_err(|error| Missing(format!("{}: {error}", root.display())))?;
        output(Command::new("apt-get").args(["download", &package]).current_dir(root))
            .map_err(|Failed(why)| Missing(format!("{package} could not be downloaded: {why}")))?;
        let archive = fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|e| e == "deb"))
            .ok_or_else(|| Missing(format!("{package}: nothing was downloaded")))?;
        output(Command::new("dpkg").arg("-x").arg(&archive).arg(root)).map_err(|Failed(why)| Missing(why))?;
        fs::remove_file(&archive).map_err(|error| Missing(format!("{}: {error}", archive.display())))
    }

    /// The package with the kernel in it.
    fn resolve(self) -> Result<String, Missing> {
        let wanted = format!("linux-image-{}.", self.name);
        let text = output(Command::new("apt-cache").args(["depends", self.package]))
            .map_err(|Failed(why)| Missing(format!("Linux {}: {why}", self.name)))?;
        String::from_utf8_lossy(&text)
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .find(|package| package.starts_with(&wanted))
            .map(str::to_owned)
            .ok_or_else(|| Missing(format!("apt knows no kernel {} by the name {}", self.name, self.package)))
    }
}

//! Programs of this machine, with their shared libraries, for the guest.

use super::cpio::Archive;
use crate::run::{Failed, output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders in which programs are looked for.
const FOLDERS: [&str; 5] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"];

/// The path of a program, if it is here.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

/// Packs programs into `usr/sbin`, and their libraries where the loader looks for them; `there` are
/// the libraries that are packed already.
pub(crate) fn pack(archive: &mut Archive, names: &[&str], there: &mut Vec<String>) -> Result<(), Failed> {
    for name in names {
        let path = find(name).ok_or_else(|| Failed(format!("{name} is not on this machine")))?;
        archive.file(&format!("usr/sbin/{name}"), &read(&path)?);
        let listed = output(Command::new("ldd").arg(&path))?;
        for library in libraries(&String::from_utf8_lossy(&listed)) {
            if !there.contains(&library) {
                archive.file(library.trim_start_matches('/'), &read(Path::new(&library))?);
                there.push(library);
            }
        }
    }
    Ok(())
}

/// Packs a program that is at a path of its own, with its libraries.
pub(crate) fn pack_file(archive: &mut Archive, name: &str, path: &Path) -> Result<(), Failed> {
    archive.file(&format!("usr/sbin/{name}"), &read(path)?);
    let listed = output(Command::new("ldd").arg(path))?;
    for library in libraries(&String::from_utf8_lossy(&listed)) {
        archive.file(library.trim_start_matches('/'), &read(Path::new(&library))?);
    }
    Ok(())
}

/// Packs busybox, with a link for each of its programs.
pub(crate) fn pack_busybox(archive: &mut Archive) -> Result<(), Failed> {
    let path = find("busybox").ok_or_else(|| Failed("busybox is not on this machine".to_owned()))?;
    archive.file("bin/busybox", &read(&path)?);
    let list = output(Command::new(&path).arg("--list"))?;
    for name in String::from_utf8_lossy(&list).lines().filter(|name| *name != "busybox") {
        archive.link(&format!("bin/{name}"), "busybox");
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Failed> {
    fs::read(path).map_err(|error| Failed(format!("{}: {error}", path.display())))
}

/// The paths in what `ldd` prints: `name => /path (address)`, and the loader itself as `/path
/// (address)`.
fn libraries(text: &str) -> Vec<String> {
    let path = |line: &str| {
        let place = line.split_once("=> ").map_or(line, |(_, place)| place).trim();
        place.starts_with('/').then(|| place.split(' ').next().unwrap_or(place).to_owned())
    };
    text.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::libraries;

    #[test]
    fn what_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x7ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f1c)\n\t\
                    /lib64/ld-linux-x86-64.so.2 (0x7f1d)\n\tlibgone.so => not found\n";
        assert_eq!(libraries(text), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(libraries("\tnot a dynamic executable\n").is_empty());
    }
}

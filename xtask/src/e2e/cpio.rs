//! The archive that a kernel unpacks as its first file system: cpio, format "newc".

use std::collections::BTreeSet;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive in the making. Paths are relative to the root, with no slash before them.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// A folder, and those above it, once.
    pub(crate) fn folder(&mut self, path: &str) {
        if path.is_empty() || self.folders.contains(path) {
            return;
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.folders.insert(path.to_owned());
        self.entry(path, FOLDER, &[]);
    }

    /// A file that may be run.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.above(path);
        self.entry(path, PROGRAM, content);
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.above(path);
        self.entry(path, LINK, target.as_bytes());
    }

    /// The archive with its end. Archives may stand one after another.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn above(&mut self, path: &str) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let links = if mode == FOLDER { 2 } else { 1 };
        let size = u32::try_from(content.len()).expect("a file of an initrd is below 4 GiB");
        let name = u32::try_from(path.len() + 1).expect("a path is short");
        // inode, mode, uid, gid, links, time, size, device, device of a special file, length of the
        // name, sum
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn an_archive_has_folders_before_files_and_an_end() {
        let mut archive = Archive::default();
        archive.file("usr/bin/a", b"12345");
        archive.link("usr/bin/b", "a");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word}"));
        assert!(at("usr\0") < at("usr/bin\0") && at("usr/bin\0") < at("usr/bin/a\0"));
        assert!(at("usr/bin/b\0") < at("TRAILER!!!\0"));
        // magic, 13 fields of 8 digits, name, to a multiple of 4
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[110..114], b"usr\0");
        assert_eq!(text.matches("070701").count(), 5);
    }
}

//! The parts of `mdadm.conf` that say which arrays are left alone, by mdadm.conf(5).

use super::root::Root;

/// Places of the configuration.
const FILES: [&str; 2] = ["etc/mdadm.conf", "etc/mdadm/mdadm.conf"];
/// Folders of further parts.
const FOLDERS: [&str; 2] = ["etc/mdadm.conf.d", "etc/mdadm/mdadm.conf.d"];

/// The rules that keep mdadm from assembling arrays by itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ignored {
    /// No array is assembled by itself unless a line names it.
    all: bool,
    /// UUIDs of `ARRAY <ignore>`, in hexadecimal digits alone.
    uuids: Vec<String>,
}

impl Ignored {
    pub(super) fn read(root: &Root) -> Self {
        let mut out = Self::default();
        for file in FILES {
            out.take(&root.words(file));
        }
        for folder in FOLDERS {
            for name in root.names(folder).iter().filter(|name| name.ends_with(".conf")) {
                out.take(&root.words(&format!("{folder}/{name}")));
            }
        }
        out
    }

    /// Takes a text. A line that begins with a blank continues the one before.
    fn take(&mut self, text: &str) {
        let mut lines: Vec<String> = Vec::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            match lines.last_mut().filter(|_| line.starts_with([' ', '\t'])) {
                Some(last) => {
                    last.push(' ');
                    last.push_str(line);
                }
                None => lines.push(line.to_owned()),
            }
        }
        lines.iter().for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let keyword = words.next().unwrap_or_default().to_lowercase();
        // A keyword may be cut to three letters.
        let is = |whole: &str| keyword.len() >= 3 && whole.starts_with(&keyword);
        if is("auto") {
            // The first word that fits an array counts; another one than -all may let it in.
            self.all |= words.next().is_some_and(|word| word.eq_ignore_ascii_case("-all"));
        } else if is("array") {
            let words: Vec<&str> = words.collect();
            if words.iter().any(|word| word.eq_ignore_ascii_case("<ignore>")) {
                let uuid = |word: &&str| {
                    let (name, value) = word.split_once('=')?;
                    name.eq_ignore_ascii_case("uuid").then(|| digits(value))
                };
                self.uuids.extend(words.iter().filter_map(uuid));
            }
        }
    }

    /// Returns whether mdadm leaves an array alone.
    pub(super) fn leaves(&self, uuid: &str) -> bool {
        self.all || self.uuids.contains(&digits(uuid))
    }
}

/// The hexadecimal digits of a UUID, in any notation.
fn digits(uuid: &str) -> String {
    uuid.chars().filter(char::is_ascii_hexdigit).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(text: &str) -> Ignored {
        let mut out = Ignored::default();
        out.take(text);
        out
    }

    #[test]
    fn arrays_that_are_left_alone_are_known() {
        const UUID: &str = "4e1c0a8b8c7a4f0e9b1d2c3a5f6e7d80";
        for text in [
            "ARRAY <ignore> UUID=4e1c0a8b:8c7a4f0e:9b1d2c3a:5f6e7d80",
            "array <ignore>\n  metadata=1.2\n\tuuid=4E1C0A8B:8C7A4F0E:9B1D2C3A:5F6E7D80 # vault",
            "ARR <ignore> UUID=4e1c0a8b:8c7a4f0e:9b1d2c3a:5f6e7d80\nMAILADDR root",
            "AUTO -all",
        ] {
            assert!(ignored(text).leaves(UUID), "{text}");
        }
        for text in [
            "",
            "# ARRAY <ignore> UUID=4e1c0a8b:8c7a4f0e:9b1d2c3a:5f6e7d80",
            "ARRAY /dev/md0 UUID=4e1c0a8b:8c7a4f0e:9b1d2c3a:5f6e7d80",
            "ARRAY <ignore> UUID=4e1c0a8b:8c7a4f0e:9b1d2c3a:5f6e7d81",
            "AUTO +1.x -all",
            "AUTO +all",
            "AUTO homehost -all",
        ] {
            assert!(!ignored(text).leaves(UUID), "{text}");
        }
    }
}

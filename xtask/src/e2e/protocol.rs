//! Words of a guest to the host, over a serial line of its own: a line each, beginning with `::`.

use std::collections::BTreeMap;

use crate::run::Failed;

/// One thing said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// `::step NAME`: that much was done, and was right.
    Step(String),
    /// `::result KEY VALUE`: something measured.
    Value(String, String),
    /// `::mark NAME`: the guest is at this place. It may wait there for the host.
    Mark(String),
    /// `::fail WHY`: the script gave up.
    Fail(String),
    /// `::exit STATUS`: the script ended.
    Exit(u8),
}

/// Reads a line; `None` where it is not for the host.
pub(crate) fn parse(line: &str) -> Option<Word> {
    let rest = line.trim_end().strip_prefix("::")?;
    let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let rest = rest.trim();
    match verb {
        "step" => Some(Word::Step(rest.to_owned())),
        "mark" => Some(Word::Mark(rest.to_owned())),
        "fail" => Some(Word::Fail(rest.to_owned())),
        "exit" => rest.parse().ok().map(Word::Exit),
        "result" => {
            let (key, value) = rest.split_once(' ').unwrap_or((rest, ""));
            Some(Word::Value(key.to_owned(), value.trim().to_owned()))
        }
        _ => None,
    }
}

/// All reports of a guest.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) steps: Vec<String>,
    pub(crate) failure: Option<String>,
    pub(crate) exit: Option<u8>,
}

impl Report {
    /// A value.
    pub(crate) fn get(&self, key: &str) -> Result<&str, Failed> {
        let value = self.values.get(key).map(String::as_str);
        value.ok_or_else(|| Failed(format!("the guest did not report '{key}'")))
    }

    /// A value that is a number.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Failed> {
        let text = self.get(key)?;
        text.parse().map_err(|_| Failed(format!("the guest reported {key} as '{text}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Word, parse};

    #[test]
    fn lines_of_a_guest() {
        assert_eq!(parse("::step one queue\r\n"), Some(Word::Step("one queue".into())));
        assert_eq!(parse("::result sha 12 34"), Some(Word::Value("sha".into(), "12 34".into())));
        assert_eq!(parse("::result empty"), Some(Word::Value("empty".into(), String::new())));
        assert_eq!(parse("::mark load"), Some(Word::Mark("load".into())));
        assert_eq!(parse("::fail no drive"), Some(Word::Fail("no drive".into())));
        assert_eq!(parse("::exit 3"), Some(Word::Exit(3)));
        for other in ["", "::", "::exit", "::exit many", "[ 1.0] nvme", ": :step x", "::steps x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}

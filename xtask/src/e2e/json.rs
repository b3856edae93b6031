//! As much of JSON as reading `pumice scrub --json` takes.

use std::collections::BTreeMap;

/// A value.
#[derive(Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Reads a document; `None` where it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let value = value(&mut rest, 0)?;
        rest.trim_start().is_empty().then_some(value)
    }

    /// A field of an object.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.get(name),
            _ => None,
        }
    }

    /// A field that is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.field(name)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A field that is a whole number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.whole()
    }

    /// A whole number.
    pub(crate) fn whole(&self) -> Option<u64> {
        match self {
            Self::Number(number) if *number >= 0.0 && number.fract() == 0.0 => {
                format!("{number}").parse().ok()
            }
            _ => None,
        }
    }

    /// A field that is a list.
    pub(crate) fn list(&self, name: &str) -> Option<&[Self]> {
        match self.field(name)? {
            Self::List(values) => Some(values),
            _ => None,
        }
    }
}

/// Deepest nesting of values.
const DEPTH: u32 = 32;

fn value(rest: &mut &str, depth: u32) -> Option<Json> {
    if depth > DEPTH {
        return None;
    }
    *rest = rest.trim_start();
    for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))] {
        if let Some(after) = rest.strip_prefix(word) {
            *rest = after;
            return Some(value);
        }
    }
    match rest.chars().next()? {
        '"' => text(rest).map(Json::Text),
        '[' => {
            let mut list = Vec::new();
            items(rest, '[', ']', |rest| {
                list.push(value(rest, depth + 1)?);
                Some(())
            })?;
            Some(Json::List(list))
        }
        '{' => {
            let mut fields = BTreeMap::new();
            items(rest, '{', '}', |rest| {
                let name = text(rest)?;
                take(rest, ':')?;
                fields.insert(name, value(rest, depth + 1)?);
                Some(())
            })?;
            Some(Json::Object(fields))
        }
        _ => {
            let end = rest.find(|c: char| !"+-.eE0123456789".contains(c)).unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            *rest = after;
            number.parse().ok().map(Json::Number)
        }
    }
}

/// Items between two brackets, with commas between.
fn items(
    rest: &mut &str,
    open: char,
    close: char,
    mut item: impl FnMut(&mut &str) -> Option<()>,
) -> Option<()> {
    take(rest, open)?;
    if take(rest, close).is_some() {
        return Some(());
    }
    loop {
        item(rest)?;
        if take(rest, close).is_some() {
            return Some(());
        }
        take(rest, ',')?;
    }
}

fn take(rest: &mut &str, wanted: char) -> Option<()> {
    *rest = rest.trim_start().strip_prefix(wanted)?;
    Some(())
}

fn text(rest: &mut &str) -> Option<String> {
    take(rest, '"')?;
    let mut out = String::new();
    let mut chars = rest.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => {
                *rest = &rest[at + 1..];
                return Some(out);
            }
            (_, '\\') => match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'u' => {
                    let digits: String = (0..4).filter_map(|_| chars.next().map(|(_, c)| c)).collect();
                    out.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => out.push(other),
            },
            (_, c) => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn a_document_like_those_of_scrub() {
        let text = r#"{"result": "findings", "stripes": 734, "bound": 1.5e-3, "none": null,
            "findings": [{"stripe": 3, "device": "nvme://a/\"1\"", "repaired": false}, {}], "empty": []}"#;
        let json = Json::parse(text).expect("this is JSON");
        assert_eq!(json.text("result"), Some("findings"));
        assert_eq!(json.number("stripes"), Some(734));
        assert_eq!(json.number("bound"), None);
        assert_eq!(json.field("none"), Some(&Json::Null));
        let findings = json.list("findings").expect("there is a list");
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].text("device"), Some("nvme://a/\"1\""));
        assert_eq!(findings[0].field("repaired"), Some(&Json::Bool(false)));
        assert_eq!(json.list("empty").map(<[_]>::len), Some(0));
    }

    #[test]
    fn what_is_no_document() {
        for wrong in ["", "{", "[1,]", "{\"a\" 1}", "nul", "\"open", "1 2", "[1 2]", "{\"a\":}"] {
            assert_eq!(Json::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Json::parse(&"[".repeat(100_000)), None);
    }
}

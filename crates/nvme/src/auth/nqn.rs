//! NVMe qualified names.

use std::fmt;
use std::str::FromStr;

/// The name by which every discovery service goes.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// A qualified name: `nqn.` and more, at most 223 bytes of UTF-8. (NVMe Base, NVMe Qualified
/// Names.) It has no character that is not seen or that changes how others are shown, because names
/// stand in logs and on terminals.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nqn(String);

/// A text that is no qualified name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an NVMe qualified name: nqn. and 7 to 219 bytes more, all of them visible characters")]
pub struct NqnError(String);

impl Nqn {
    /// The discovery service's name.
    #[must_use]
    pub fn discovery() -> Self {
        Self(DISCOVERY_NQN.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Nqn {
    type Err = NqnError;

    fn from_str(text: &str) -> Result<Self, NqnError> {
        let good =
            text.starts_with("nqn.") && (11..=223).contains(&text.len()) && text.chars().all(is_visible);
        if good { Ok(Self(text.to_owned())) } else { Err(NqnError(text.to_owned())) }
    }
}

/// Returns whether a character is seen as itself. Refused are control characters, white space and
/// separators, format characters (Unicode general category Cf), variation selectors, blank letters,
/// and what is no character.
fn is_visible(c: char) -> bool {
    let hidden = matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{600}'..='\u{605}' | '\u{61C}' | '\u{6DD}' | '\u{70F}' | '\u{890}'..='\u{891}' | '\u{8E2}'
        | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{E000}'..='\u{F8FF}' | '\u{FDD0}'..='\u{FDEF}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFF}' | '\u{110BD}' | '\u{110CD}' | '\u{13430}'..='\u{1345F}' | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..);
    // The last two of every plane are no characters.
    !hidden && !c.is_control() && !c.is_whitespace() && u32::from(c) & 0xFFFE != 0xFFFE
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_visible_characters_only() {
        for good in
            ["nqn.2014-08.org.nvmexpress:uuid:1", "nqn.2026-11.example:größe-一", "nqn.2026-11.example:a_b!"]
        {
            assert!(good.parse::<Nqn>().is_ok(), "{good}");
        }
        // A space, a line, an escape, a right-to-left override, an isolate, zero width, a mark of
        // byte order, a tag, a separator.
        let hidden = [
            ' ',
            '\n',
            '\u{1B}',
            '\u{202E}',
            '\u{2066}',
            '\u{200B}',
            '\u{FEFF}',
            '\u{E0041}',
            '\u{2028}',
            '\u{85}',
        ];
        for c in hidden {
            let name = format!("nqn.2026-11.example:a{c}b");
            let error = name.parse::<Nqn>().unwrap_err().to_string();
            assert!(!error.contains(c) || c == ' ', "what is said of it shows it escaped: {error}");
        }
        assert!(format!("nqn.{}", "a".repeat(220)).parse::<Nqn>().is_err());
        assert!("nqm.2026-11.example:a".parse::<Nqn>().is_err());
    }
}

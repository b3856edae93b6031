//! Text of others, fit to be shown.

/// The text with every character escaped that a terminal obeys or does not show: names of arrays,
/// drives and nodes are chosen by others.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_shown(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

/// [`printable`], but for the ends of lines.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Returns whether a terminal shows a character as itself. It does not if the character is a
/// control character, changes the direction or the end of a line, or has no width: one name then
/// looks like another.
#[must_use]
pub fn is_shown(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_does_not_show_is_escaped() {
        assert_eq!(printable("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(printable("a\u{202e}cba"), "a\\u{202e}cba");
        assert_eq!(printable("data\u{200b}\u{2066}\u{feff}"), "data\\u{200b}\\u{2066}\\u{feff}");
        assert_eq!(printable("größe-日本 1"), "größe-日本 1");
        assert_eq!(printable_lines("a\r\nb\n"), "a\\r\nb\n");
    }
}

//! Fields of a line, without copying.

use super::Op;
use super::error::Wrong;

/// The trimmed fields of a line between separators.
pub(crate) fn split(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |&b| b == separator).map(<[u8]>::trim_ascii)
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn shown(text: &[u8]) -> String {
    let short = &text[..text.len().min(40)];
    String::from_utf8_lossy(short).chars().map(|c| if c.is_control() { '.' } else { c }).collect()
}

/// A field that must be there.
pub(crate) fn present<'a>(field: &'static str, text: Option<&'a [u8]>) -> Result<&'a [u8], Wrong> {
    text.filter(|t| !t.is_empty()).ok_or_else(|| Wrong::new(field, "is missing"))
}

/// A whole number.
pub(crate) fn whole(field: &'static str, text: Option<&[u8]>) -> Result<u64, Wrong> {
    let text = present(field, text)?;
    let mut value = 0_u64;
    // 19 digits always fit.
    if text.len() <= 19 && text.iter().all(u8::is_ascii_digit) {
        return Ok(text.iter().fold(0, |value, b| value * 10 + u64::from(b - b'0')));
    }
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Wrong::new(field, format!("'{}' is not a whole number", shown(text))));
        }
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit)))
            .ok_or_else(|| Wrong::new(field, format!("'{}' does not fit 64 bits", shown(text))))?;
    }
    Ok(value)
}

/// A decimal number of seconds, as nanoseconds; further digits are cut off.
pub(crate) fn seconds(field: &'static str, text: Option<&[u8]>) -> Result<u64, Wrong> {
    let text = present(field, text)?;
    let not = || Wrong::new(field, format!("'{}' is not a time in seconds", shown(text)));
    let (left, right) = match text.iter().position(|&b| b == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &[][..]),
    };
    let secs = whole(field, Some(left)).map_err(|_| not())?;
    let mut nanos = 0;
    for i in 0..9 {
        let digit = right.get(i).map_or(0, |b| b.wrapping_sub(b'0'));
        if digit > 9 {
            return Err(not());
        }
        nanos = nanos * 10 + u64::from(digit);
    }
    if right.iter().any(|b| !b.is_ascii_digit()) {
        return Err(not());
    }
    scaled(field, secs, 1_000_000_000)?.checked_add(nanos).ok_or_else(not)
}

/// A number in larger units, as nanoseconds or bytes.
pub(crate) fn scaled(field: &'static str, value: u64, unit: u64) -> Result<u64, Wrong> {
    value.checked_mul(unit).ok_or_else(|| Wrong::new(field, format!("{value} is too large")))
}

/// Read or write: in a word, by a letter with the flags that block traces add (`WS`, `RAM`), or as
/// a SCSI operation code in hexadecimal. `None` for anything else.
pub(crate) fn op(text: &[u8]) -> Option<Op> {
    match text {
        b"0x28" | b"28" | b"0x88" | b"0x08" => return Some(Op::Read),
        b"0x2a" | b"0x2A" | b"2a" | b"0x8a" | b"0x0a" => return Some(Op::Write),
        _ => {}
    }
    let (first, flags) = text.split_first()?;
    let is = |rest: &[u8]| flags.is_empty() || flags.eq_ignore_ascii_case(rest);
    let flagged = flags.iter().all(|b| matches!(b, b'A' | b'F' | b'M' | b'S'));
    match first {
        b'R' | b'r' if is(b"ead") || flagged => Some(Op::Read),
        b'W' | b'w' if is(b"rite") || flagged => Some(Op::Write),
        _ => None,
    }
}

/// Read or write, or a complaint.
pub(crate) fn needed_op(field: &'static str, text: Option<&[u8]>) -> Result<Op, Wrong> {
    let text = present(field, text)?;
    op(text).ok_or_else(|| Wrong::new(field, format!("'{}' is neither a read nor a write", shown(text))))
}

/// A length of at most 4 GiB.
pub(crate) fn length(field: &'static str, bytes: u64) -> Result<u64, Wrong> {
    if bytes > 1 << 32 {
        return Err(Wrong::new(field, format!("{bytes} bytes are more than 4 GiB")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_words_letters_with_flags_or_codes() {
        for read in ["R", "r", "Read", "READ", "RAM", "0x28"] {
            assert_eq!(op(read.as_bytes()), Some(Op::Read), "{read}");
        }
        for write in ["W", "write", "WS", "WFSM", "2a"] {
            assert_eq!(op(write.as_bytes()), Some(Op::Write), "{write}");
        }
        for other in ["", "T", "Wrtie", "Rubbish", "Reads", "Rea"] {
            assert_eq!(op(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn numbers_are_strict() {
        assert_eq!(whole("f", Some(b"18446744073709551615")).ok(), Some(u64::MAX));
        assert!(whole("f", Some(b"18446744073709551616")).is_err());
        assert!(whole("f", Some(b"-1")).is_err());
        assert!(whole("f", Some(b"")).is_err());
        assert_eq!(seconds("f", Some(b"12.5")).ok(), Some(12_500_000_000));
        assert_eq!(seconds("f", Some(b"0.0000000019")).ok(), Some(1));
        assert!(seconds("f", Some(b"1.2.3")).is_err());
        assert!(seconds("f", Some(b"nan")).is_err());
    }
}

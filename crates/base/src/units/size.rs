//! Sizes as text: `64KiB`, `4TB`, `4096`.

use std::fmt;

/// A text that is no size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseSizeError {
    text: String,
}

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a size: write a number with B, kB, KiB, MB, MiB, GB, GiB, TB or TiB",
            self.text
        )
    }
}

impl std::error::Error for ParseSizeError {}

/// Reads a size in bytes: a whole or decimal number and an optional unit.
///
/// `kB`, `MB`, `GB`, `TB`, `PB`, `EB` are powers of 1000; `KiB` … `EiB` and the bare letters `K` …
/// `E` are powers of 1024, as in mdadm.
///
/// # Errors
/// If the text is no number with a known unit, where the result is no whole number of bytes, or
/// where it does not fit 64 bits.
pub fn parse_size(text: &str) -> Result<u64, ParseSizeError> {
    let wrong = || ParseSizeError { text: text.to_owned() };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor: u128 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "p" | "pib" => 1 << 50,
        "eb" => 1_000_000_000_000_000_000,
        "e" | "eib" => 1 << 60,
        _ => return Err(wrong()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(wrong());
    }
    let digits = u32::try_from(fraction.len()).ok().filter(|d| *d <= 18).ok_or_else(wrong)?;
    let scale = 10_u128.pow(digits);
    let scaled: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let product = scaled.checked_mul(factor).ok_or_else(wrong)?;
    if product % scale != 0 {
        return Err(wrong());
    }
    u64::try_from(product / scale).map_err(|_| wrong())
}

/// A size in powers of 1024 (`KiB`, `MiB`, …), with at most two decimals.
#[must_use]
pub fn format_binary(bytes: u64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A size in powers of 1000 (`kB`, `MB`, …), with at most two decimals.
#[must_use]
pub fn format_decimal(bytes: u64) -> String {
    scaled(bytes, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

fn scaled(bytes: u64, base: f64, units: &[&str]) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    // 999.995 would print as 1000.00 of the smaller unit.
    while value >= base - 0.005 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let text = if unit == 0 { format!("{bytes}") } else { format!("{value:.2}") };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65536),
            ("64K", 65536),
            ("64 kib", 65536),
            ("4TB", 4_000_000_000_000),
            ("1.5MiB", 1_572_864),
            ("0.5kB", 500),
            ("8EiB", 1 << 63),
            ("18EB", 18_000_000_000_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_size() {
        for text in ["", "KiB", "-1", "1..5M", "1.", "0.3B", "12 parsecs", "20000PiB", "16EiB", "1e3", "0x10"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn writes_sizes_for_people() {
        assert_eq!(format_binary(0), "0 B");
        assert_eq!(format_binary(1023), "1023 B");
        assert_eq!(format_binary(65536), "64 KiB");
        assert_eq!(format_binary(1_572_864), "1.5 MiB");
        assert_eq!(format_decimal(96_000_000_000_000), "96 TB");
        assert_eq!(format_decimal(999_999), "1 MB");
    }
}

//! Durations as text, such as `10ms`.

use std::fmt;

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseDurationError(String);

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a duration: write a number with ns, us, ms, s, m or h", self.0)
    }
}

impl std::error::Error for ParseDurationError {}

/// A duration with its unit, such as `1ms` or `0.5s`, in nanoseconds; fractions of a nanosecond are
/// rounded.
///
/// # Errors
/// If it is no number, has no unit, is negative, or is past 2^63 nanoseconds.
pub fn parse_duration(text: &str) -> Result<u64, ParseDurationError> {
    let wrong = || ParseDurationError(text.to_owned());
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let unit = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 6e10,
        "h" => 3.6e12,
        "d" => 8.64e13,
        _ => return Err(wrong()),
    };
    let nanos = number.parse::<f64>().map_err(|_| wrong())? * unit;
    if nanos.is_finite() && nanos < 9.2e18 { Ok(nanos.round() as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_heeded_and_asked_for() {
        for (text, nanos) in [
            ("1ms", 1_000_000),
            ("0.5 s", 500_000_000),
            ("250us", 250_000),
            ("7ns", 7),
            ("90d", 7_776_000_000_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0ms", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(nanos), "{text}");
        }
        for text in ["", "1", "ms", "-1ms", "1.2.3s", "1 day", "99999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}

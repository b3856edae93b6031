//! Times of day in which background work may run.

use crate::Nanos;
use thiserror::Error;

const SECOND: Nanos = 1_000_000_000;
const DAY: Nanos = 86_400 * SECOND;
/// Windows at most.
const MOST: usize = 1024;

/// A window that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WindowError {
    /// More than 1024.
    #[error("at most 1024 windows a day")]
    TooMany,
    /// Past midnight, or empty.
    #[error("a window begins and ends within a day, in seconds from midnight, and is not empty")]
    Bounds,
}

/// Times of day; always by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Windows {
    /// `None` is always, and an empty list never.
    spans: Option<Vec<(Nanos, Nanos)>>,
    /// Time of day at time 0.
    offset: Nanos,
}

impl Windows {
    /// Windows of (from, to) in seconds from midnight, none of them meaning always; one that ends
    /// before it begins runs over midnight. `time_of_day` is the second of the day at the caller's
    /// time 0.
    ///
    /// # Errors
    /// If there are more than 1024, or one is empty or lies outside a day.
    pub fn daily(spans: &[(u32, u32)], time_of_day: u32) -> Result<Self, WindowError> {
        if spans.is_empty() {
            return Ok(Self::default());
        }
        if spans.len() > MOST {
            return Err(WindowError::TooMany);
        }
        if spans.iter().any(|&(from, to)| from == to || from >= 86_400 || to > 86_400) {
            return Err(WindowError::Bounds);
        }
        let spans = spans.iter().map(|&(from, to)| (u64::from(from) * SECOND, u64::from(to) * SECOND));
        Ok(Self { spans: Some(spans.collect()), offset: u64::from(time_of_day % 86_400) * SECOND })
    }

    /// No time of day at all.
    #[must_use]
    pub fn never() -> Self {
        Self { spans: Some(Vec::new()), offset: 0 }
    }

    /// Next time at which work may start: `now` if a window is open, the end of time if none ever
    /// is.
    #[must_use]
    pub fn open_at(&self, now: Nanos) -> Nanos {
        let Some(spans) = &self.spans else { return now };
        let day = now.wrapping_add(self.offset) % DAY;
        let wait = spans.iter().map(|&(from, to)| {
            let open = if from < to { (from..to).contains(&day) } else { day >= from || day < to };
            if open { 0 } else { (from + DAY - day) % DAY }
        });
        now.saturating_add(wait.min().unwrap_or(Nanos::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_open_and_close() -> Result<(), WindowError> {
        let night = Windows::daily(&[(22 * 3600, 6 * 3600), (12 * 3600, 13 * 3600)], 20 * 3600)?;
        let hour = 3600 * SECOND;
        assert_eq!(night.open_at(0), 2 * hour);
        assert_eq!(night.open_at(3 * hour), 3 * hour);
        assert_eq!(night.open_at(10 * hour), 16 * hour);
        assert_eq!(night.open_at(16 * hour + 5), 16 * hour + 5);
        assert_eq!(Windows::default().open_at(7), 7);
        assert_eq!(Windows::never().open_at(7), Nanos::MAX);
        assert_eq!(Windows::daily(&[(5, 5)], 0), Err(WindowError::Bounds));
        Ok(())
    }
}

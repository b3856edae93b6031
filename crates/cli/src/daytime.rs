//! The local time of day.

#![expect(unsafe_code, reason = "localtime_r is a foreign function")]

use pumice_base::units::format_date;
use pumice_offload::DAY;
use std::mem::MaybeUninit;
use std::time::SystemTime;

/// Seconds by which local time is now ahead of UTC.
fn ahead_of_utc() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    ahead_of_utc_at(since_1970.as_secs())
}

/// Seconds by which local time is ahead of UTC at a time in seconds since 1970.
fn ahead_of_utc_at(time: u64) -> i64 {
    let now: libc::time_t = time.cast_signed();
    let mut local = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid; the call writes one tm, or returns null and nothing is read.
    let done = unsafe { libc::localtime_r(&raw const now, local.as_mut_ptr()) };
    if done.is_null() {
        return 0;
    }
    // SAFETY: the call succeeded, so it filled the structure.
    unsafe { local.assume_init() }.tm_gmtoff
}

/// A time in seconds since 1970 as local date and time of day: `2026-11-26 03:14`.
pub(crate) fn local(time: u64) -> String {
    // Dates of the year 9999 and later are those of a broken clock.
    let time = time.min(253_402_300_799);
    let shifted = time.saturating_add_signed(ahead_of_utc_at(time));
    format_date(shifted).chars().take(16).collect()
}

/// Converts windows from local time to UTC by the present offset; a later change to or from summer
/// time is not followed.
pub(crate) fn to_utc(windows: &[(u32, u32)]) -> Vec<(u32, u32)> {
    shifted(windows, ahead_of_utc())
}

/// The opening of the next window, as local time of day and in seconds from now; `None` if there
/// are no windows, or one is open. Windows are in UTC.
pub(crate) fn next_opening(windows: &[(u32, u32)]) -> Option<(String, u32)> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = (since_1970.as_secs() % u64::from(DAY)) as u32;
    let wait = until_open(windows, now)?;
    let local = (i64::from(now + wait) + ahead_of_utc()).rem_euclid(i64::from(DAY));
    Some((format!("{:02}:{:02}", local / 3600, local / 60 % 60), wait))
}

/// Seconds from a second of the day until a window opens.
fn until_open(windows: &[(u32, u32)], now: u32) -> Option<u32> {
    let is_open = |(from, to): &(u32, u32)| match from < to {
        true => (*from..*to).contains(&now),
        false => now >= *from || now < *to,
    };
    if windows.iter().any(is_open) {
        return None;
    }
    windows.iter().map(|(from, _)| (from + DAY - now) % DAY).min()
}

fn shifted(windows: &[(u32, u32)], ahead: i64) -> Vec<(u32, u32)> {
    let day = i64::from(DAY);
    let shift = |second: u32| (i64::from(second) - ahead).rem_euclid(day) as u32;
    windows
        .iter()
        .map(|(from, to)| if *to - from.min(to) == DAY { (0, DAY) } else { (shift(*from), shift(*to)) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_window_is_known() {
        let hour = 3600;
        let windows = [(3 * hour, 4 * hour), (22 * hour, 2 * hour)];
        assert_eq!(until_open(&windows, 2 * hour), Some(hour));
        assert_eq!(until_open(&windows, 4 * hour), Some(18 * hour));
        for now in [3 * hour, 22 * hour, 0, 2 * hour - 1] {
            assert_eq!(until_open(&windows, now), None, "{now}");
        }
        assert_eq!(until_open(&[], 0), None);
        assert_eq!(until_open(&[(3 * hour, 4 * hour)], 18 * hour), Some(9 * hour));
    }

    #[test]
    fn windows_move_around_the_day() {
        let hour = 3600;
        assert_eq!(shifted(&[(22 * hour, 6 * hour)], 2 * i64::from(hour)), [(20 * hour, 4 * hour)]);
        assert_eq!(shifted(&[(hour, 3 * hour)], 2 * i64::from(hour)), [(23 * hour, hour)]);
        assert_eq!(shifted(&[(20 * hour, 22 * hour)], -5 * i64::from(hour)), [(hour, 3 * hour)]);
        assert_eq!(shifted(&[(0, DAY)], 3600), [(0, DAY)]);
    }
}

//! The local time of day.

#![expect(unsafe_code, reason = "localtime_r is a foreign function")]

use pumice_offload::DAY;
use std::mem::MaybeUninit;
use std::time::SystemTime;

/// Seconds by which local time is now ahead of UTC.
fn ahead_of_utc() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now: libc::time_t = since_1970.as_secs().cast_signed();
    let mut local = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid; the call writes one tm, or returns null and nothing is read.
    let done = unsafe { libc::localtime_r(&raw const now, local.as_mut_ptr()) };
    if done.is_null() {
        return 0;
    }
    // SAFETY: the call succeeded, so it filled the structure.
    unsafe { local.assume_init() }.tm_gmtoff
}

/// Converts windows from local time to UTC by the present offset; a later change to or from summer
/// time is not followed.
pub(crate) fn to_utc(windows: &[(u32, u32)]) -> Vec<(u32, u32)> {
    shifted(windows, ahead_of_utc())
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
    fn windows_move_around_the_day() {
        let hour = 3600;
        assert_eq!(shifted(&[(22 * hour, 6 * hour)], 2 * i64::from(hour)), [(20 * hour, 4 * hour)]);
        assert_eq!(shifted(&[(hour, 3 * hour)], 2 * i64::from(hour)), [(23 * hour, hour)]);
        assert_eq!(shifted(&[(20 * hour, 22 * hour)], -5 * i64::from(hour)), [(hour, 3 * hour)]);
        assert_eq!(shifted(&[(0, DAY)], 3600), [(0, DAY)]);
    }
}

//! Requests for a pace, and measurements of its effect, as bytes.

use super::{VERSION, WireError, put, wrong, zeros};
use crate::DriveId;
use crate::pacing::{MAX_WINDOWS, PaceFigures, PacePolicy, PaceRequest};

/// Bytes of a request for a pace.
pub const PACE_BYTES: usize = 96;
/// Bytes before the first drive of a page of figures.
pub const FIGURES_HEADER: usize = 8;
/// Bytes of a drive's figures.
pub const FIGURES_BYTES: usize = 128;
/// Drives of a page of figures.
pub const FIGURES_PER_PAGE: u32 = 32;

const WINDOWS: usize = 32;
/// The policy is left to the other fields.
const ANY: u8 = 0xFF;

/// The number of a policy. 1 and 2 were two more, which earlier versions sent.
const fn number_of(policy: PacePolicy) -> u8 {
    match policy {
        PacePolicy::Priced => 0,
        PacePolicy::BackToBack => 3,
    }
}

/// The bytes of a request.
#[must_use]
pub fn encode_pace(request: &PaceRequest) -> [u8; PACE_BYTES] {
    let mut out = [0; PACE_BYTES];
    out[0] = VERSION;
    out[1] = request.policy.map_or(ANY, number_of);
    out[2] = request.windows.len().min(MAX_WINDOWS) as u8;
    put(&mut out, 8, &request.slowdown_ns.unwrap_or(0).to_le_bytes());
    put(&mut out, 16, &request.rate.unwrap_or(0).to_le_bytes());
    for (i, (from, to)) in request.windows.iter().take(MAX_WINDOWS).enumerate() {
        put(&mut out, WINDOWS + 8 * i, &from.to_le_bytes());
        put(&mut out, WINDOWS + 8 * i + 4, &to.to_le_bytes());
    }
    out
}

/// Reads a request.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_pace(bytes: &[u8]) -> Result<PaceRequest, WireError> {
    let Ok(bytes) = <&[u8; PACE_BYTES]>::try_from(bytes) else {
        return wrong("pace", format!("{} bytes, not {PACE_BYTES}", bytes.len()));
    };
    if bytes[0] != VERSION {
        return wrong("version", bytes[0]);
    }
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let policy = match bytes[1] {
        ANY => None,
        number => match PacePolicy::ALL.into_iter().find(|policy| number_of(*policy) == number) {
            None => return wrong("policy", number),
            known => known,
        },
    };
    let count = usize::from(bytes[2]);
    if count > MAX_WINDOWS {
        return wrong("windows", count);
    }
    for reserved in [3..8, 24..WINDOWS, WINDOWS + 8 * count..PACE_BYTES] {
        zeros(bytes, reserved)?;
    }
    let windows = (0..count).map(|i| (u32_at(WINDOWS + 8 * i), u32_at(WINDOWS + 8 * i + 4))).collect();
    let given = |value: u64| (value != 0).then_some(value);
    let request = PaceRequest { policy, slowdown_ns: given(u64_at(8)), rate: given(u64_at(16)), windows };
    match request.validate() {
        _ if request.is_empty() => Ok(request),
        Ok(()) => Ok(request),
        Err((field, found)) => Err(WireError { field, found }),
    }
}

/// A page of the figures of a node's drives.
#[must_use]
pub fn encode_figures(figures: &[PaceFigures], page: u32) -> Vec<u8> {
    let first = (page as usize).saturating_mul(FIGURES_PER_PAGE as usize).min(figures.len());
    let part = &figures[first..figures.len().min(first + FIGURES_PER_PAGE as usize)];
    let mut out = Vec::with_capacity(FIGURES_HEADER + part.len() * FIGURES_BYTES);
    out.extend_from_slice(&(figures.len() as u32).to_le_bytes());
    out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    for of in part {
        let mut entry = [0; FIGURES_BYTES];
        put(&mut entry, 0, &of.drive.0.to_le_bytes());
        put(&mut entry, 4, &of.paced_with.0.to_le_bytes());
        let oldest = of.oldest_check_s.unwrap_or(u64::MAX);
        let numbers = [
            of.elapsed_ns,
            of.bytes,
            of.requests,
            of.foreground,
            of.collisions,
            of.clear,
            of.clear_mean_ns,
            of.met,
            of.met_mean_ns,
            of.slowdown_mean_ns.cast_unsigned(),
            oldest,
            of.closed_ns,
            of.owed_ns,
        ];
        for (i, number) in numbers.into_iter().enumerate() {
            put(&mut entry, 8 + 8 * i, &number.to_le_bytes());
        }
        out.extend_from_slice(&entry);
    }
    out
}

/// Reads a page: how many drives have figures, and those of the page.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_figures(bytes: &[u8]) -> Result<(u32, Vec<PaceFigures>), WireError> {
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let (Some(all), Some(count)) = (word(0), word(4)) else { return wrong("figures", "too short") };
    if count > FIGURES_PER_PAGE {
        return wrong("figures of the page", count);
    }
    let figures = |i: u32| {
        let at = FIGURES_HEADER + i as usize * FIGURES_BYTES;
        let entry = bytes
            .get(at..at + FIGURES_BYTES)
            .ok_or_else(|| WireError { field: "figures", found: "shorter than its drives".to_owned() })?;
        let number = |i: usize| u64::from_le_bytes(std::array::from_fn(|b| entry[8 + 8 * i + b]));
        Ok(PaceFigures {
            drive: DriveId(u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]])),
            paced_with: DriveId(u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]])),
            elapsed_ns: number(0),
            bytes: number(1),
            requests: number(2),
            foreground: number(3),
            collisions: number(4),
            clear: number(5),
            clear_mean_ns: number(6),
            met: number(7),
            met_mean_ns: number(8),
            slowdown_mean_ns: number(9).cast_signed(),
            oldest_check_s: Some(number(10)).filter(|seconds| *seconds != u64::MAX),
            closed_ns: number(11),
            owed_ns: number(12),
        })
    };
    Ok((all, (0..count).map(figures).collect::<Result<_, WireError>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back_and_senseless_ones_do_not() {
        let request = PaceRequest {
            policy: Some(PacePolicy::Priced),
            slowdown_ns: Some(1_000_000),
            rate: Some(50_000_000),
            windows: vec![(79_200, 21_600), (43_200, 46_800)],
        };
        let bytes = encode_pace(&request);
        assert_eq!(decode_pace(&bytes).unwrap(), request);
        assert_eq!(bytes[1], 0);
        let back_to_back = PaceRequest { policy: Some(PacePolicy::BackToBack), ..PaceRequest::default() };
        assert_eq!(encode_pace(&back_to_back)[1], 3);
        assert_eq!(decode_pace(&encode_pace(&back_to_back)).unwrap(), back_to_back);
        let nothing = PaceRequest::default();
        assert_eq!(decode_pace(&encode_pace(&nothing)).unwrap(), nothing);
        for len in 0..PACE_BYTES {
            assert!(decode_pace(&bytes[..len]).is_err());
        }
        for (at, value, field) in [
            (0, 9, "version"),
            (1, 1, "policy"),
            (1, 2, "policy"),
            (1, 4, "policy"),
            (2, 9, "windows"),
            (38, 0xFF, "window"),
            (7, 1, "a reserved byte"),
            (31, 1, "a reserved byte"),
            (48, 1, "a reserved byte"),
            (95, 1, "a reserved byte"),
        ] {
            let mut bad = bytes;
            bad[at] = value;
            assert_eq!(decode_pace(&bad).unwrap_err().field, field);
        }
    }

    #[test]
    fn figures_come_back_page_by_page() {
        let of = |i: u32| PaceFigures {
            drive: DriveId(i),
            paced_with: DriveId(i.div_ceil(2)),
            elapsed_ns: 1,
            bytes: 2,
            requests: 3,
            foreground: 4,
            collisions: 5,
            clear: 6,
            clear_mean_ns: 7,
            met: 8,
            met_mean_ns: 9,
            slowdown_mean_ns: -10,
            oldest_check_s: i.is_multiple_of(2).then_some(11),
            closed_ns: u64::MAX - u64::from(i),
            owed_ns: 12,
        };
        let all: Vec<PaceFigures> = (1..=40).map(of).collect();
        let (count, first) = decode_figures(&encode_figures(&all, 0)).unwrap();
        let (_, second) = decode_figures(&encode_figures(&all, 1)).unwrap();
        assert_eq!((count, [first, second].concat()), (40, all.clone()));
        let bytes = encode_figures(&all, 1);
        assert!(decode_figures(&bytes[..bytes.len() - 1]).is_err());
    }
}

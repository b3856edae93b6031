//! Results of parity commands as bytes.

use super::tags::{decode_report, encode_report};
use super::{Fields, VERSION, WireError, put, wrong};
use crate::{
    Activity, MAX_UNREADABLE, Mode, ParityCommand, ParityResult, RESULT_HEADER_BYTES, StripeBitmap, Unread,
    Unreadable, Writes,
};
use pumice_base::telemetry::Ledger;
use pumice_parity::fingerprint::PowerSums;

/// The bytes of a result.
#[must_use]
pub fn encode_result(result: &ParityResult) -> Vec<u8> {
    let mut out = vec![0; RESULT_HEADER_BYTES as usize];
    let sums = result.fingerprint.as_ref().map(PowerSums::to_bytes).unwrap_or_default();
    let unreadable = &result.unreadable[..result.unreadable.len().min(MAX_UNREADABLE)];
    out[0] = VERSION;
    out[1] = u8::from(result.range.is_some()) | u8::from(result.tags.is_some()) << 1;
    put(&mut out, 2, &(unreadable.len() as u16).to_le_bytes());
    put(&mut out, 4, &(sums.len() as u32).to_le_bytes());
    put(&mut out, 8, &result.nonzero.len().to_le_bytes());
    let (first, last) = result.range.unwrap_or_default();
    put(&mut out, 16, &first.to_le_bytes());
    put(&mut out, 20, &last.to_le_bytes());
    for (at, bytes) in [(24, result.moved.media_read), (32, result.moved.pcie), (40, result.moved.node_cpu)] {
        put(&mut out, at, &bytes.to_le_bytes());
    }
    if let Some(Activity { epoch, before, after }) = result.activity {
        let counters = [epoch, before.started, before.completed, after.started, after.completed];
        for (i, counter) in counters.into_iter().enumerate() {
            put(&mut out, 48 + 8 * i, &counter.to_le_bytes());
        }
    }
    out.extend_from_slice(&result.nonzero.to_bytes());
    out.extend_from_slice(&sums);
    for place in unreadable {
        out.extend_from_slice(&(place.source as u32).to_le_bytes());
        out.extend_from_slice(&place.start.to_le_bytes());
        out.extend_from_slice(&place.len.to_le_bytes());
        out.extend_from_slice(&[u8::from(place.why == Unread::NotAsked), 0, 0, 0]);
        out.extend_from_slice(&place.stripe.to_le_bytes());
    }
    if let Some(tags) = &result.tags {
        out.extend_from_slice(&encode_report(tags));
    }
    out
}

/// Reads the result of `command`.
///
/// # Errors
/// Names the field that makes no sense, or does not belong to the command.
pub fn decode_result(bytes: &[u8], command: &ParityCommand) -> Result<ParityResult, WireError> {
    let header = RESULT_HEADER_BYTES as usize;
    let f = Fields::new(bytes, "result", header)?;
    let (unreadable, sums_len, repetitions) = (usize::from(f.u16(2)), f.u32(4) as usize, f.u64(8));
    if repetitions != 0 && repetitions != command.count() {
        return wrong("repetitions", repetitions);
    }
    let bitmap_len = repetitions.div_ceil(8) as usize;
    let mut nonzero = StripeBitmap::from_bytes(repetitions, f.slice(header, bitmap_len)?);
    let sums_at = header + bitmap_len;
    let sums = f.slice(sums_at, sums_len)?;
    let fingerprint = match command.mode {
        Mode::Fingerprint { powers, .. } => {
            let sums = PowerSums::from_bytes(command.rule.rows(), usize::from(powers), sums)
                .map_err(|error| WireError { field: "power sums", found: error.to_string() })?;
            Some(sums)
        }
        _ if sums_len != 0 => return wrong("power sums", format!("{sums_len} bytes")),
        _ => None,
    };
    let places_at = sums_at + sums_len;
    f.slice(places_at, unreadable * 24)?;
    let mut places = Vec::with_capacity(unreadable);
    for at in (0..unreadable).map(|i| places_at + i * 24) {
        let place = Unreadable {
            source: f.u32(at) as usize,
            stripe: f.u64(at + 16),
            start: f.u32(at + 4),
            len: f.u32(at + 8),
            why: match bytes[at + 12] {
                0 => Unread::Refused,
                1 => Unread::NotAsked,
                other => return wrong("unreadable place", format!("kind {other}")),
            },
            reason: "unrecovered read error".to_owned(),
        };
        let inside = place.start.checked_add(place.len).is_some_and(|end| end <= command.chunk);
        if place.source >= command.sources.len() || !command.stripes.contains(&place.stripe) || !inside {
            return wrong("unreadable place", format!("{place:?}"));
        }
        places.push(place);
    }
    // There may be more of them than are told. The bits of their stripes mean nothing: so that none
    // is taken for good, all are looked at from the last one told on.
    if let Some(last) = places.get(MAX_UNREADABLE - 1) {
        (last.stripe - command.stripes.start..nonzero.len()).for_each(|bit| nonzero.set(bit));
    }
    let tags_at = places_at + unreadable * 24;
    let tags = (bytes[1] & 2 != 0).then(|| decode_report(&f, tags_at, command)).transpose()?;
    let range = (bytes[1] & 1 != 0).then(|| (f.u32(16), f.u32(20)));
    if let Some((first, last)) = range.filter(|(first, last)| first > last || *last >= command.window.len) {
        return wrong("range", format!("{first} to {last}"));
    }
    Ok(ParityResult {
        nonzero,
        range,
        fingerprint,
        unreadable: places,
        tags,
        activity: (f.u64(48) != 0).then(|| Activity {
            epoch: f.u64(48),
            before: Writes { started: f.u64(56), completed: f.u64(64) },
            after: Writes { started: f.u64(72), completed: f.u64(80) },
        }),
        moved: Ledger { media_read: f.u64(24), pcie: f.u64(32), node_cpu: f.u64(40), ..Ledger::default() },
    })
}

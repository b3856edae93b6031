//! The forecast: will an array be read in time (R9)?

use super::array::{Array, NightRecord, Shortfall};
use crate::time::{DAY, Wall};
use crate::window::{Calendar, Night};

/// Nights from which on their mean is taken, rather than what windows and budget offer.
const KNOWN: usize = 7;

/// Seconds of reading a night that an array can count on.
fn nightly(array: &Array, night: Night, calendar: &Calendar) -> f64 {
    let most = array.policy.nightly as u64;
    let had =
        |record: &NightRecord| if record.wanted { record.read } else { record.offered.max(record.read) };
    let past: Vec<(Night, u64)> = array
        .kept
        .nights
        .iter()
        .filter(|(of, _)| **of < night)
        .map(|(of, r)| (*of, had(r).min(most)))
        .collect();
    if past.len() >= KNOWN {
        // Nights without a record are nights in which the machine was off.
        let first = past.first().map_or(night, |(of, _)| *of);
        let nights = i64::from(night.0) - i64::from(first.0);
        return past.iter().map(|(_, seconds)| *seconds as f64).sum::<f64>() / nights.max(1) as f64;
    }
    let offered = (0..7).map(|day| {
        let span = calendar.span(Night(night.0.saturating_add(day)));
        calendar.open_seconds(&array.policy.windows, span).clamp(0, most as i64) as f64
    });
    offered.sum::<f64>() / 7.0
}

/// Returns a change that would do for an array whose cells will be late; `None` if they will not
/// be.
pub(super) fn shortfall(array: &Array, now: Wall, night: Night, calendar: &Calendar) -> Option<Shortfall> {
    let due = array.due(now)?;
    let begin = due.max(now);
    let had = nightly(array, night, calendar);
    let rate = array.rate().max(1) as f64;
    let seen = array.seen.as_ref()?;
    let per_stripe = seen.member_bytes as f64 / seen.stripes.max(1) as f64;
    let cells = &array.kept.cells;
    let point = array.policy.every.map(|every| super::grid::last_point(every, array.phase, begin))?;
    let ages = cells.ages().into_iter().enumerate().filter(|(_, age)| *age < point);
    let mut ages: Vec<(Wall, u64)> = ages.map(|(cell, age)| (age, cells.range(cell).len())).collect();
    ages.sort_unstable();
    let (mut stripes, mut worst_rate, mut worst_hours) = (0, 0.0_f64, 0.0_f64);
    for (at, (age, count)) in ages.iter().enumerate() {
        stripes += count;
        // Cells of one age end together.
        if ages.get(at + 1).is_some_and(|(next, _)| next == age) {
            continue;
        }
        // A cell that is late already has a day: what is over cannot be mended.
        let days = (age.plus(array.policy.late).since(begin) as f64 / DAY as f64).max(1.0);
        let bytes = stripes as f64 * per_stripe;
        worst_rate = worst_rate.max(bytes / (had * days).max(1.0));
        worst_hours = worst_hours.max(bytes / rate / days / 3600.0);
    }
    let short = worst_hours * 3600.0 > had;
    short.then_some(Shortfall { rate: worst_rate.ceil() as u64, hours: worst_hours, had: had / 3600.0 })
}

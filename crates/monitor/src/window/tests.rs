use super::*;
use crate::time::{DAY, HOUR};
use proptest::prelude::*;

const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

fn calendar(zone: &str) -> Calendar {
    Calendar::new(TimeZone::posix(zone).expect("a zone"))
}

fn window(text: &str) -> Window {
    text.parse().unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn windows_are_parsed_or_refused() {
    assert_eq!(window("22:00-06:00"), Window { days: 0x7f, from: 1320, to: 360 });
    assert_eq!(window("Sat 00:00-24:00"), Window { days: 0x20, from: 0, to: 1440 });
    assert_eq!(window("Sat-Mon 22:00-00:00"), Window { days: 0b110_0001, from: 1320, to: 1440 });
    assert_eq!(window("mon,Wed 01:30-02:00"), Window { days: 0b101, from: 90, to: 120 });
    for text in [
        "",
        "22:00",
        "22-06",
        "22:00-22:00",
        "24:00-06:00",
        "00:00-00:00",
        "25:00-26:00",
        "12:60-13:00",
        "Foo 22:00-06:00",
        "Sat22:00-06:00",
        "+1:00-02:00",
        "1:00-2:00",
        "Sat, 22:00-06:00 x",
        "00:00-24:01",
    ] {
        assert!(text.parse::<Window>().is_err(), "{text}");
    }
}

/// Seconds since 1970 of the days on which Berlin's clocks change in 2026, at 00:00 UTC.
const FORWARD: i64 = 1_774_742_400; // 2026-03-29
const BACK: i64 = 1_792_886_400; // 2026-10-25

#[test]
fn a_repeated_hour_counts_once_and_a_missing_one_not() {
    let calendar = calendar(BERLIN);
    let on = |text: &str, noon_before: i64| {
        let opens = calendar.next_open(&[window(text)], Wall(noon_before));
        let span = calendar.open(&[window(text)], opens?)?;
        Some((span.from.0, span.to.0))
    };
    // Back: 03:00 summer time (01:00 UTC) becomes 02:00.
    let hours = |from: i64, to: i64| Some((BACK + from * HOUR / 2, BACK + to * HOUR / 2));
    let before = BACK - 12 * HOUR;
    assert_eq!(on("22:00-06:00", before), hours(-8, 10), "nine hours");
    assert_eq!(on("02:00-03:00", before), hours(2, 4), "the second of both hours");
    assert_eq!(on("01:00-02:30", before), hours(-2, 1), "up to the first 02:30");
    assert_eq!(on("02:30-05:00", before), hours(3, 8), "from the second 02:30");
    assert_eq!(on("02:00-02:30", before), hours(0, 1), "both are the first");
    // Forward: 02:00 winter time (01:00 UTC) becomes 03:00.
    let hours = |from: i64, to: i64| Some((FORWARD + from * HOUR / 2, FORWARD + to * HOUR / 2));
    let before = FORWARD - 12 * HOUR;
    assert_eq!(on("22:00-06:00", before), hours(-6, 8), "seven hours");
    assert_eq!(on("02:30-05:00", before), hours(2, 6));
    assert_eq!(on("01:00-02:30", before), hours(0, 2));
    let next_day = hours(48, 50);
    assert_eq!(on("02:00-03:00", before), next_day, "not on that day");
}

proptest! {
    /// An oracle that knows only what a clock on the wall shows: in a window it shows a time of the
    /// window; away from changes of the clock, also the other way round.
    #[test]
    fn a_clock_on_the_wall_agrees(
        zone in prop::sample::select(vec![
            "UTC0", BERLIN, "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "<-04>4<-03>,M9.1.6/24,M4.1.6/24",
            "EET-2EEST,M4.5.5/0,M10.5.4/24",
        ]),
        at in 1_767_225_600..1_900_000_000_i64,
        days in 1..128_u8,
        from in 0..1440_u16,
        to in 1..1441_u16,
    ) {
        prop_assume!(from != to);
        let (calendar, windows) = (calendar(zone), [Window { days, from, to }]);
        let shows = |at: i64| {
            let local = calendar.local(Wall(at));
            let minute = local.hour() as u16 * 60 + local.minute() as u16;
            let day = local.weekday().to_monday_zero_offset() as u32;
            let on = |day: u32| days & (1 << (day % 7)) != 0;
            if from < to {
                on(day) && (from..to).contains(&minute)
            } else {
                on(day) && minute >= from || on(day + 6) && minute < to
            }
        };
        let open = calendar.open(&windows, Wall(at));
        prop_assert!(open.is_none() || shows(at));
        let offset = |at: i64| calendar.zone.to_offset(Timestamp::from_second(at).expect("a time"));
        if offset(at - 2 * DAY) == offset(at + 2 * DAY) {
            prop_assert_eq!(open.is_some(), shows(at));
        }
        if let Some(span) = open {
            prop_assert!(span.from.0 <= at && at < span.to.0);
            prop_assert!(shows(span.from.0) && shows(span.to.0 - 1));
        }
        if let Some(next) = calendar.next_open(&windows, Wall(at)) {
            prop_assert!(next.0 >= at && calendar.open(&windows, next).is_some());
            for step in 0..20 {
                let before = at + (next.0 - at) * step / 20;
                prop_assert!(before == next.0 || calendar.open(&windows, Wall(before)).is_none());
            }
        }
        let night = calendar.night(Wall(at));
        let span = calendar.span(night);
        prop_assert!(span.from.0 <= at && at < span.to.0);
        prop_assert!((23..=25).contains(&(span.to.since(span.from) / HOUR)));
    }
}

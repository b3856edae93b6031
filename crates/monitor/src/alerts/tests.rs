use super::*;
use crate::config::Config;
use crate::time::HOUR;
use std::collections::{BTreeMap, BTreeSet};

fn config() -> AlertsConfig {
    Config::parse("").expect("defaults").alerts
}

fn at(seconds: u64) -> Now {
    Now { wall: Wall(1_800_000_000 + seconds as i64), running: Running(seconds), synchronised: true }
}

fn key(kind: Kind, subject: &str) -> Key {
    Key::new(kind, subject)
}

/// Takes everything at once.
fn take_all(alerts: &mut Alerts, now: Now) -> Vec<Sending> {
    let mut all = Vec::new();
    loop {
        let sends = alerts.tick(now);
        if sends.is_empty() {
            return all;
        }
        for send in sends {
            alerts.sent(now, &send.channel, true, "");
            all.push(send);
        }
    }
}

fn mails(sends: &[Sending]) -> usize {
    sends.iter().filter(|send| send.channel == MAIL).count()
}

#[test]
fn five_thousand_findings_are_one_alert_and_one_mail() {
    let mut alerts = Alerts::new(&config(), &[], 7);
    let mut sent = Vec::new();
    for i in 0..5000 {
        alerts.fault(at(i / 100), &key(Kind::Damage, "md0"), &format!("{i} places"));
        sent.extend(take_all(&mut alerts, at(i / 100)));
    }
    assert_eq!(
        (mails(&sent), alerts.events().len(), alerts.open()[0].detail.as_str()),
        (1, 1, "4999 places")
    );
}

#[test]
fn an_alert_closes_after_ten_minutes_well() {
    let mut alerts = Alerts::new(&config(), &[], 7);
    let degraded = key(Kind::Degraded, "md0");
    alerts.fault(at(0), &degraded, "role 2 is missing");
    alerts.no_fault(at(100), &degraded);
    alerts.no_fault(at(600), &degraded);
    alerts.tick(at(699));
    assert_eq!(alerts.open().len(), 1);
    alerts.fault(at(699), &degraded, "again");
    alerts.no_fault(at(700), &degraded);
    alerts.tick(at(1299));
    assert_eq!(alerts.open().len(), 1);
    alerts.tick(at(1300));
    assert_eq!(alerts.open().len(), 0);
    let changes: Vec<Change> = alerts.events().iter().map(|event| event.change).collect();
    assert_eq!(changes, [Change::Opened, Change::Closed]);
}

/// A node that comes and goes for a day, at any period, with several alerts each time.
#[test]
fn a_day_of_flapping_is_thirty_mails_at_most() {
    let days = [(20, 60, 30), (60, 660, 30), (60, 700, 30), (300, 1200, 144), (1, 7200, 30), (30, 1000, 30)];
    for (down, period, most) in days {
        let mut alerts = Alerts::new(&config(), &[], 7);
        let kinds = [Kind::Degraded, Kind::IoErrors, Kind::DriveFailed];
        let (mut count, mut sent, mut hour) = (0, Vec::new(), Vec::new());
        for now in 0..86_400 {
            for kind in kinds {
                if now % period < down {
                    alerts.fault(at(now), &key(kind, "vault"), "no answer");
                } else {
                    alerts.no_fault(at(now), &key(kind, "vault"));
                }
            }
            let new = take_all(&mut alerts, at(now));
            hour.extend(std::iter::repeat_n(now, mails(&new)));
            count += mails(&new);
            sent.extend(new);
        }
        assert!(count <= most, "{down} of {period} s: {count} mails");
        assert!(hour.windows(7).all(|seven| seven[6] - seven[0] >= 3600), "six mails an hour");
        if period > 660 {
            let told: usize = sent.iter().map(|send| send.events.len() + send.more).sum();
            let now = at(86_400 + 2 * HOUR as u64);
            let rest: usize =
                take_all(&mut alerts, now).iter().map(|send| send.events.len() + send.more).sum();
            assert_eq!(told + rest, alerts.events().len(), "every event is in a mail");
        }
    }
}

#[test]
fn repeats_grow_and_end_with_an_acknowledgement() {
    let mut alerts = Alerts::new(&config(), &[], 7);
    let late = key(Kind::ScrubLate, "md0");
    alerts.fault(at(0), &late, "");
    let day = DAY as u64;
    let mut days = Vec::new();
    for hour in 0..40 * 24 {
        alerts.tick(at(hour * 3600));
        let repeats = alerts.events().iter().filter(|event| event.change == Change::Repeated).count();
        days.extend(std::iter::repeat_n(hour / 24, repeats));
    }
    assert_eq!(days, [1, 3, 7, 15, 23, 31, 39]);
    assert_eq!(alerts.acknowledge(at(40 * day), &late, "", "x"), Err(OrderError::NoReason));
    assert_eq!(alerts.acknowledge(at(40 * day), &late, "eve", "next week"), Ok(()));
    alerts.tick(at(100 * day));
    let events = alerts.events();
    assert_eq!((events.len(), events[0].change), (1, Change::Acknowledged));
    assert!(events[0].detail.contains("eve: next week"));
    assert!(alerts.open()[0].acknowledged);
}

#[test]
fn kinds_that_end_when_acknowledged_stay_silent_until_they_were_well() {
    let mut alerts = Alerts::new(&config(), &[], 7);
    let hot = key(Kind::Hot, "sda");
    alerts.fault(at(0), &hot, "61 C");
    assert_eq!(alerts.acknowledge(at(1), &hot, "eve", "summer"), Ok(()));
    alerts.fault(at(2), &hot, "62 C");
    assert_eq!(alerts.open(), []);
    assert_eq!(alerts.acknowledge(at(3), &hot, "eve", "summer"), Err(OrderError::NotOpen));
    alerts.no_fault(at(10), &hot);
    alerts.tick(at(610));
    alerts.fault(at(611), &hot, "63 C");
    let changes: Vec<Change> = alerts.events().iter().map(|event| event.change).collect();
    assert_eq!(changes, [Change::Opened, Change::Closed, Change::Opened]);
}

#[test]
fn quiet_holds_back_mails_but_not_events() {
    let mut alerts = Alerts::new(&config(), &["hook".to_owned()], 7);
    assert_eq!(alerts.quiet(at(0), "md0", 31 * DAY as u64), Err(OrderError::Quiet));
    assert_eq!(alerts.quiet(at(0), "md0", 7200), Ok(()));
    alerts.fault(at(10), &key(Kind::Degraded, "md0"), "");
    alerts.fault(at(10), &key(Kind::IoErrors, "md0"), "");
    alerts.no_fault(at(20), &key(Kind::IoErrors, "md0"));
    let early = [take_all(&mut alerts, at(10)), take_all(&mut alerts, at(3000))].concat();
    assert_eq!((mails(&early), early.len()), (0, 3));
    let late = take_all(&mut alerts, at(7200));
    assert_eq!(mails(&late), 1);
    let told: Vec<Kind> = late[0].events.iter().map(|event| event.key.kind()).collect();
    assert_eq!(told, [Kind::Degraded]);
}

#[test]
fn a_channel_that_fails_is_tried_again_and_told_through_the_others() {
    let mut alerts = Alerts::new(&config(), &["hook".to_owned()], 7);
    alerts.fault(at(0), &key(Kind::Held, "vault"), "");
    let (mut tries, mut mailed) = (Vec::new(), Vec::new());
    for now in 0..20_000 {
        for send in alerts.tick(at(now)) {
            let is_mail = send.channel == MAIL;
            alerts.sent(at(now), &send.channel, is_mail || now > 15_000, "exit 1");
            if is_mail {
                mailed.extend(send.events.iter().map(|event| (event.key.kind(), event.change)));
            } else {
                assert_eq!(send.events[0].key.kind(), Kind::Held, "not of its own failure");
                tries.push(now);
            }
        }
    }
    let waits: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600][..waits.len()]);
    assert!(tries.last().is_some_and(|last| *last > 15_000));
    assert!(mailed.contains(&(Kind::ChannelFailed, Change::Opened)));
    assert!(mailed.contains(&(Kind::ChannelFailed, Change::Closed)));
}

#[test]
fn the_word_that_all_is_well_comes_only_if_it_is() {
    let mut settings = config();
    settings.well = Some(7 * DAY);
    let mut alerts = Alerts::new(&settings, &[], 7);
    let mut told = Vec::new();
    for day in 0..40 {
        if day == 13 {
            alerts.fault(at(day * DAY as u64), &key(Kind::Held, "v"), "");
        }
        if day == 20 {
            alerts.no_fault(at(day * DAY as u64), &key(Kind::Held, "v"));
        }
        alerts.tick(at(day * DAY as u64));
        told.extend(alerts.events().iter().filter(|e| e.key.kind() == Kind::Well).map(|_| day));
    }
    assert_eq!(told, [7, 21, 28, 35]);
}

/// Random faults, channels and restarts from a seed: each event reaches each channel, with one id;
/// alerts open once and close only after ten minutes.
#[test]
fn every_event_arrives_at_least_once() {
    for seed in 0..300_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let programs = ["hook".to_owned()];
        let mut alerts = Alerts::new(&config(), &programs, seed);
        let mut got: BTreeMap<String, BTreeMap<EventId, Event>> = BTreeMap::new();
        let mut all: BTreeMap<EventId, Event> = BTreeMap::new();
        let mut under_way: Vec<Sending> = Vec::new();
        let mut opened: BTreeSet<Key> = BTreeSet::new();
        let mut faulty: BTreeMap<Key, u64> = BTreeMap::new();
        let (mut now, mut cut) = (0, false);
        for step in 0..600 {
            let calm = step > 500;
            now += if calm { 4000 } else { random(900) };
            let key = key(
                [Kind::Hot, Kind::Damage, Kind::Held][random(3) as usize],
                ["a", "b"][random(2) as usize],
            );
            match random(10) {
                0..4 if !calm => {
                    alerts.fault(at(now), &key, "there");
                    faulty.insert(key, now);
                }
                4..8 => alerts.no_fault(at(now), &key),
                8 if !calm => {
                    let text = serde_json::to_string(&alerts.store()).expect("text");
                    let stored = serde_json::from_str(&text).expect("a state");
                    all.extend(alerts.events().into_iter().map(|event| (event.id, event)));
                    alerts = Alerts::restore(&config(), &programs, at(now), stored).expect("alerts");
                    under_way.clear();
                }
                _ => {}
            }
            under_way.extend(alerts.tick(at(now)));
            for send in std::mem::take(&mut under_way) {
                cut |= send.more > 0;
                let taken = calm || random(3) > 0;
                // What was taken may also be lost on the way back.
                if taken && (calm || random(4) > 0) {
                    got.entry(send.channel.clone())
                        .or_default()
                        .extend(send.events.iter().map(|e| (e.id, e.clone())));
                }
                let told = taken
                    && send
                        .events
                        .iter()
                        .all(|e| got.get(&send.channel).is_some_and(|got| got.contains_key(&e.id)));
                alerts.sent(at(now), &send.channel, told, "failed");
            }
            for event in alerts.events() {
                match event.change {
                    Change::Opened => assert!(opened.insert(event.key.clone()), "opened twice"),
                    Change::Closed => {
                        assert!(opened.remove(&event.key), "closed, but not open");
                        let last = faulty.get(&event.key).copied().unwrap_or(0);
                        assert!(
                            event.key.kind() == Kind::ChannelFailed || now >= last + 600,
                            "closed too early"
                        );
                    }
                    _ => {}
                }
                let old = all.insert(event.id, event.clone());
                assert!(old.is_none(), "an id twice");
            }
        }
        // One event at a time goes to a program: the rest follows.
        for _ in 0..2000 {
            now += 60;
            for send in alerts.tick(at(now)) {
                cut |= send.more > 0;
                got.entry(send.channel.clone())
                    .or_default()
                    .extend(send.events.iter().map(|e| (e.id, e.clone())));
                alerts.sent(at(now), &send.channel, true, "");
            }
            all.extend(alerts.events().into_iter().map(|event| (event.id, event)));
        }
        for (id, event) in &all {
            for channel in [MAIL, "hook"] {
                // A long mail tells of the last ones by their number alone.
                if cut && channel == MAIL {
                    continue;
                }
                let own = event.key.kind() == Kind::ChannelFailed && event.key.subject() == channel;
                let arrived = got.get(channel).and_then(|got| got.get(id));
                assert!(own || arrived == Some(event), "seed {seed}: {event:?} never came by {channel}");
            }
        }
    }
}

#[test]
fn a_state_that_cannot_be_is_refused() {
    let alerts = Alerts::new(&config(), &[], 7);
    let text = serde_json::to_string(&alerts.store()).expect("text");
    let restore =
        |text: &str| Alerts::restore(&config(), &[], at(0), serde_json::from_str(text).expect("a state"));
    assert!(restore(&text).is_ok());
    let newer = text.replace("\"version\":1", "\"version\":9");
    assert_eq!(restore(&newer).err(), Some(StateError::Version(9)));
    let old = text.replace("\"age\":0", "\"age\":18446744073709551615");
    assert_eq!(restore(&old).err(), Some(StateError::Bounds("age, next")));
}

//! One event through every channel, without the monitor.

use super::mail::Mail;
use super::programs::programs;
use super::{Channel, ChannelFailure, Message};
use pumice_monitor::Wall;
use pumice_monitor::alerts::{Change, Event, EventId, Key, Kind, MAIL, Sending};
use pumice_monitor::config::AlertsConfig;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time that each channel has.
const TIME: Duration = Duration::from_secs(30);

/// A channel, and what became of the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The channel.
    pub channel: String,
    /// Nothing, or the reason why it was not taken.
    pub result: Result<(), ChannelFailure>,
}

/// The channels of a configuration, mail by `sendmail` first, then the programs; and what cannot be
/// a channel.
#[must_use]
pub fn channels(config: &AlertsConfig, sendmail: &Path) -> (Vec<Box<dyn Channel>>, Vec<Outcome>) {
    let mut out: Vec<Box<dyn Channel>> = Vec::new();
    let mut failed = Vec::new();
    if let Some(to) = &config.mail {
        match Mail::new(sendmail, to) {
            Ok(mail) => out.push(Box::new(mail)),
            Err(why) => failed.push(Outcome { channel: MAIL.to_owned(), result: Err(why) }),
        }
    }
    match programs(&config.exec) {
        Ok(all) => out.extend(all.into_iter().map(|program| Box::new(program) as Box<dyn Channel>)),
        Err(why) => failed.push(Outcome { channel: "exec".to_owned(), result: Err(why) }),
    }
    (out, failed)
}

/// An event that no monitor sends.
#[must_use]
pub fn event(kind: Kind, subject: &str, detail: &str) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The hasher of the standard library is keyed anew each time.
    let series = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), now);
    let at = Wall(i64::try_from(now.as_secs()).unwrap_or(0));
    let key = Key::new(kind, subject);
    Event { id: EventId { series, number: 1 }, at, change: Change::Told, key, detail: detail.to_owned() }
}

/// Sends an event through each channel, one after another, and tells `each` what became of it.
pub fn send(
    host: &str,
    event: &Event,
    (channels, failed): (Vec<Box<dyn Channel>>, Vec<Outcome>),
    each: &mut dyn FnMut(&Outcome),
) {
    for mut channel in channels {
        let name = channel.name().to_owned();
        let events = vec![event.clone()];
        let sending = Sending { channel: name.clone(), events, more: 0, digest: false, lost: 0 };
        let message = Message { host: host.to_owned(), sending };
        let result = channel.send(&message, Instant::now() + TIME);
        each(&Outcome { channel: name, result });
    }
    failed.iter().for_each(each);
}

//! Events that each channel has still to take.

use super::event::{Change, Event, Key, Kind};
use crate::time::{HOUR, MINUTE};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The name of the channel for mail.
pub const MAIL: &str = "mail";
/// Events that a channel keeps at most.
const MOST_PENDING: usize = 10_000;
/// Events that a mail lists at most.
const MOST_LISTED: usize = 40;
/// Mails in an hour at most.
const MAILS: usize = 6;
const AN_HOUR: u64 = HOUR as u64;

/// Something to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// Through which channel.
    pub channel: String,
    /// The events, the most severe first in a mail.
    pub events: Vec<Event>,
    /// Events that a mail does not list.
    pub more: usize,
    /// True if it is a digest.
    pub digest: bool,
    /// Events that the channel lost since its last success.
    pub lost: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Channel {
    pending: VecDeque<Event>,
    lost: u64,
    failures: u32,
    retry_at: u64,
    /// The numbers of the events that are being sent. After a restart they are sent again.
    #[serde(skip)]
    under_way: Option<BTreeSet<u64>>,
}

/// All channels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outbox {
    channels: BTreeMap<String, Channel>,
    /// Times of the mails of the last hour.
    mails: VecDeque<u64>,
    /// Time from which the next digest may be sent.
    digest_at: Option<u64>,
}

impl Outbox {
    pub(super) fn set_channels(&mut self, names: &[String]) {
        self.channels.retain(|name, _| names.contains(name));
        for name in names {
            self.channels.entry(name.clone()).or_default();
        }
    }

    /// Returns whether the stored lists are no longer than they may be.
    pub(super) fn is_bounded(&self) -> bool {
        self.channels.len() <= 1000
            && self.mails.len() <= MAILS
            && self.mails.iter().all(|sent| *sent <= 1 << 41)
            && self.channels.values().all(|channel| channel.pending.len() <= MOST_PENDING)
    }

    /// Keeps an event for each channel, but for the one whose failure it is about.
    pub(super) fn add(&mut self, event: &Event) {
        for (name, channel) in &mut self.channels {
            if event.key.kind() == Kind::ChannelFailed && event.key.subject() == name {
                continue;
            }
            if channel.pending.len() >= MOST_PENDING {
                channel.pending.pop_front();
                channel.lost = channel.lost.saturating_add(1);
            }
            channel.pending.push_back(event.clone());
        }
    }

    /// Takes the messages that are to be sent now.
    pub(super) fn take(&mut self, age: u64, quiet: &BTreeMap<String, u64>) -> Vec<Sending> {
        let mut sends = Vec::new();
        self.leave_digest(age, quiet);
        let mail_at = self.mail_at(age);
        let digest = self.digest_at.is_some();
        for (name, channel) in &mut self.channels {
            if channel.under_way.is_some() || age < channel.retry_at {
                continue;
            }
            let is_mail = name == MAIL;
            let mut events: Vec<Event> = if is_mail {
                channel.pending.iter().filter(|event| !is_quiet(event, quiet)).cloned().collect()
            } else {
                channel.pending.front().cloned().into_iter().collect()
            };
            if events.is_empty() {
                continue;
            }
            if is_mail && mail_at > age {
                // More than six in an hour: from now on digests.
                self.digest_at = self.digest_at.or(Some(mail_at));
                continue;
            }
            channel.under_way = Some(events.iter().map(|event| event.id.number).collect());
            events.sort_by_key(|event| (event.key.kind().severity(), event.id));
            let more = events.len().saturating_sub(MOST_LISTED);
            events.truncate(MOST_LISTED);
            let digest = is_mail && digest;
            sends.push(Sending { channel: name.clone(), events, more, digest, lost: channel.lost });
        }
        sends
    }

    /// Returns the time from which the next mail may be sent.
    fn mail_at(&self, age: u64) -> u64 {
        if let Some(digest) = self.digest_at {
            return digest;
        }
        let last_hour = self.mails.iter().filter(|sent| age < **sent + AN_HOUR).count();
        if last_hour < MAILS { age } else { self.mails.front().map_or(age, |first| first + AN_HOUR) }
    }

    /// Ends the time of digests, if an hour brought nothing to tell.
    fn leave_digest(&mut self, age: u64, quiet: &BTreeMap<String, u64>) {
        let mail = self.channels.get(MAIL);
        let idle = mail.is_none_or(|mail| mail.pending.iter().all(|event| is_quiet(event, quiet)));
        if idle && self.digest_at.is_some_and(|at| at <= age) {
            self.digest_at = None;
        }
    }

    /// Notes what came of a sending; `false` if none was under way.
    pub(super) fn sent(&mut self, name: &str, taken: bool, age: u64) -> bool {
        let Some(channel) = self.channels.get_mut(name) else { return false };
        let Some(numbers) = channel.under_way.take() else { return false };
        if !taken {
            let wait = (MINUTE as u64) << channel.failures.min(6);
            channel.failures = channel.failures.saturating_add(1);
            channel.retry_at = age + wait.min(AN_HOUR);
            return true;
        }
        channel.pending.retain(|event| !numbers.contains(&event.id.number));
        channel.failures = 0;
        channel.retry_at = 0;
        channel.lost = 0;
        if name == MAIL {
            self.mails.push_back(age);
            while self.mails.len() > MAILS {
                self.mails.pop_front();
            }
            if self.digest_at.is_some() {
                self.digest_at = Some(age + AN_HOUR);
            }
        }
        true
    }

    /// Drops mails of alerts of a subject that opened and closed while it was quiet (A8).
    pub(super) fn drop_over(&mut self, subject: &str) {
        let Some(mail) = self.channels.get_mut(MAIL) else { return };
        let mut opened: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
        let mut over: BTreeSet<u64> = BTreeSet::new();
        for event in mail.pending.iter().filter(|event| event.key.subject() == subject) {
            match event.change {
                Change::Opened => {
                    opened.insert(event.key.clone(), vec![event.id.number]);
                }
                Change::Closed => {
                    if let Some(numbers) = opened.remove(&event.key) {
                        over.extend(numbers.iter().chain([&event.id.number]));
                    }
                }
                _ => {
                    opened.entry(event.key.clone()).and_modify(|numbers| numbers.push(event.id.number));
                }
            }
        }
        let under_way = mail.under_way.clone().unwrap_or_default();
        mail.pending.retain(|event| !over.contains(&event.id.number) || under_way.contains(&event.id.number));
    }

    /// Returns the time from which something may next be sent.
    pub(super) fn wake(&self, age: u64, quiet: &BTreeMap<String, u64>) -> Option<u64> {
        let of = |(name, channel): (&String, &Channel)| {
            let pending = |event: &&Event| name != MAIL || !is_quiet(event, quiet);
            let waits = channel.under_way.is_none() && channel.pending.iter().any(|event| pending(&event));
            let limit = if name == MAIL { self.mail_at(age) } else { age };
            waits.then(|| limit.max(channel.retry_at))
        };
        self.channels.iter().filter_map(of).min()
    }
}

fn is_quiet(event: &Event, quiet: &BTreeMap<String, u64>) -> bool {
    quiet.contains_key(event.key.subject())
}

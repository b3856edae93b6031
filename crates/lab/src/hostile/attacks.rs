//! The classes of attack. Each is a number of attackers, and each attacker makes rounds at a rate
//! of its own.

mod commands;
mod connects;
mod cuts;
mod drips;
mod floods;
mod identity;
mod lockout;
mod long;
mod newcomer;
mod parity;
mod pdus;
mod silence;
mod transfers;
mod unread;

pub(crate) use unread::{reads as unread_reads, writes as unread_writes};

use crate::hostile::random::Random;
use crate::hostile::wire::{ANSWERED, Target, Who, is_late};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// State that every attacker has.
pub(crate) struct Attacker {
    pub(crate) target: Target,
    /// The number of the attacker in its class, from 0.
    pub(crate) number: u16,
    pub(crate) who: Who,
    pub(crate) random: Random,
    breaches: Arc<Mutex<Vec<String>>>,
    /// The node is told to end: it owes nothing to a host that comes.
    ending: Arc<AtomicBool>,
}

impl Attacker {
    /// Something was given that must not be.
    pub(crate) fn breach(&self, what: String) {
        let mut breaches = self.breaches.lock().unwrap_or_else(PoisonError::into_inner);
        if breaches.len() < 20 {
            breaches.push(what);
        }
    }
}

impl Attacker {
    /// Passes an answer on that the node owes. Reports a breach if the node neither answers nor
    /// ends the connection in time.
    ///
    /// # Errors
    /// Those of `done`.
    pub(crate) fn answered<T>(&self, what: &str, done: io::Result<T>) -> io::Result<T> {
        if done.as_ref().err().is_some_and(is_late) {
            self.breach(format!("{what}: nothing came within {} s", ANSWERED.as_secs()));
        }
        done
    }
}

/// An attack under way.
pub(crate) trait Attack {
    /// One round. An error ends what the attacker has, and it begins anew: that a node closes the
    /// connection of an attacker is what it should do.
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()>;
}

/// A class of attack.
#[derive(Clone, Copy)]
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Attackers; each is a host of its own.
    pub(crate) attackers: u16,
    /// Interval between the rounds of each of them.
    pub(crate) period: Duration,
    /// Hosts that each attacker says it is, about.
    pub(crate) hosts_each: u64,
    /// True if there are parity commands among what it sends.
    pub(crate) parity: bool,
    begin: fn(&mut Attacker) -> io::Result<Box<dyn Attack>>,
}

const fn class(
    name: &'static str,
    what: &'static str,
    attackers: u16,
    period_ms: u64,
    begin: fn(&mut Attacker) -> io::Result<Box<dyn Attack>>,
) -> Class {
    let period = Duration::from_millis(period_ms);
    Class { name, what, attackers, period, hosts_each: 1, parity: false, begin }
}

impl Class {
    /// The same, with parity commands.
    const fn with_parity(mut self) -> Self {
        self.parity = true;
        self
    }

    /// The same, as so many hosts each.
    const fn as_hosts(mut self, hosts: u64) -> Self {
        self.hosts_each = hosts;
        self
    }
}

/// All classes.
pub(crate) const CLASSES: [Class; 16] = [
    class("pdus", "PDUs of every type, length and flag, in every state of a connection", 4, 5, pdus::begin),
    class(
        "transfers",
        "data that were not asked for: ttag, cccid, offset, length, flags",
        4,
        10,
        transfers::begin,
    ),
    class(
        "connects",
        "wrong digests, too many commands, Connect with bent parameters",
        4,
        10,
        connects::begin,
    ),
    class("commands", "I/O and admin commands with fields at random", 4, 10, commands::begin),
    class("floods", "events, Abort, Keep Alive, one identifier for many commands", 4, 10, floods::begin),
    class("cuts", "FIN and RST at every byte of an admin and an I/O session", 4, 10, cuts::begin),
    class("churn", "connections that come and go, 1000 a second", 4, 4, silence::begin_churn),
    class("silence", "connections that say nothing, and idle queues", 4, 20, silence::begin_silent),
    class("drips", "PDUs that come a byte a second", 4, 1000, drips::begin),
    class("unread", "reads of which no answer is taken", 4, 200, unread::begin_reads),
    class("unsent", "writes whose data do not come", 4, 200, unread::begin_writes),
    class("parity", "parity commands with bent descriptors; results that nobody reads", 4, 10, parity::begin)
        .with_parity(),
    class("long", "parity commands without end, and the largest keys", 4, 500, long::begin_parity)
        .with_parity(),
    class("media", "Deallocate, Write Zeroes and Verify of whole drives", 4, 100, long::begin_media),
    class("identity", "what is another host's: its controller, its memory, its name", 4, 50, identity::begin)
        .as_hosts(3),
    class("lockout", "associations, holds and paces, to keep others out", 2, 100, lockout::begin)
        .with_parity()
        .as_hosts(30),
];

/// Attackers at work.
pub(crate) struct Attackers {
    stop: Arc<AtomicBool>,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Attackers {
    /// Starts the attackers of a class against a node.
    pub(crate) fn start(class: &Class, target: &Target, breaches: &Arc<Mutex<Vec<String>>>) -> Self {
        let (stop, ending) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let one = |number: u16| {
            let (class, stop) = (*class, Arc::clone(&stop));
            let attacker = Attacker {
                target: target.clone(),
                number,
                who: Who::new(number),
                random: Random::new(u64::from(number) + 1),
                breaches: Arc::clone(breaches),
                ending: Arc::clone(&ending),
            };
            std::thread::spawn(move || work(&class, attacker, &stop))
        };
        let threads = (0..class.attackers).map(one).collect();
        Self { stop, ending, threads }
    }

    /// Says that the node is about to be told to end.
    pub(crate) fn node_ends(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Ends them, and tells how many rounds each of them made.
    pub(crate) fn stop(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Release);
        self.threads.into_iter().map(|thread| thread.join().expect("an attacker does not panic")).collect()
    }
}

/// Makes rounds until told to stop, and tells how many.
fn work(class: &Class, mut attacker: Attacker, stop: &AtomicBool) -> u64 {
    let mut attack: Option<Box<dyn Attack>> = None;
    let mut rounds = 0;
    let mut next = Instant::now();
    while !stop.load(Ordering::Acquire) {
        if attack.is_none() {
            attack = (class.begin)(&mut attacker).ok();
        }
        if let Some(under_way) = &mut attack {
            rounds += 1;
            if under_way.round(&mut attacker).is_err() {
                attack = None;
            }
        }
        // What was missed is not made up for: the rate has a bound.
        next = (next + class.period).max(Instant::now());
        while !stop.load(Ordering::Acquire) && Instant::now() < next {
            std::thread::sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
        }
    }
    rounds
}

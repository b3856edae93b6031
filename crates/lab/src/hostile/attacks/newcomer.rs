//! A host that behaves well, and comes while a node is attacked.

use super::Attacker;
use crate::hostile::wire::{ANSWERED, vendor};
use pumice_nvme::pdu::Digests;
use pumice_offload::wire::{encode_command, opcode};
use pumice_offload::{DriveId, Mode, ParityCommand, Rule, Source, Window};
use pumice_remote::initiator::{ConnectOptions, Controller};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of a check that it asks for.
const CHECKED: u64 = 4 << 20;
/// Time for which it stays away.
const PAUSE: Duration = Duration::from_millis(400);

/// Comes again and again.
pub(super) struct Newcomer {
    next: Instant,
}

impl Newcomer {
    /// Comes for the first time after a while.
    pub(super) fn new() -> Self {
        Self { next: Instant::now() + PAUSE }
    }

    /// Comes if it is time, at the first of several attackers: that it is not served is a breach.
    pub(super) fn look(&mut self, attacker: &Attacker) {
        if attacker.number != 0 || Instant::now() < self.next {
            return;
        }
        if let Err(what) = come(attacker)
            && !attacker.ending.load(Ordering::Acquire)
        {
            attacker.breach(format!("a host that comes: {what}"));
        }
        self.next = Instant::now() + PAUSE;
    }
}

/// A host that behaves well comes from its own address, has a part of a drive checked, and goes.
fn come(attacker: &Attacker) -> Result<(), String> {
    let options = ConnectOptions {
        subsystem: attacker.target.nqn.parse().map_err(|_| "no name".to_owned())?,
        host: "nqn.2026-11.example:newcomer".parse().map_err(|_| "no name".to_owned())?,
        hostid: [0x70; 16],
        digests: Digests::default(),
        flow_control: true,
        deadline: ANSWERED,
    };
    let text = |error: pumice_remote::initiator::InitiatorError| error.to_string();
    let controller = Controller::connect(attacker.target.address.into(), options).map_err(text)?;
    let mut queue = controller.queue(1, 8).map_err(text)?;
    let chunk = 65_536;
    let command = ParityCommand {
        unpaced: false,
        sources: vec![Source::Media { drive: DriveId(2), base: 0 }],
        chunk,
        window: Window { start: 0, len: chunk },
        stripes: 0..CHECKED / u64::from(chunk),
        rule: Rule::sum(1),
        mode: Mode::Check,
    };
    let descriptor = encode_command(&command);
    let sqe = vendor(opcode::PARITY_EXECUTE, 0, 1, descriptor.len());
    let done = queue.execute(sqe, &descriptor, &mut []).map_err(text)?;
    if done.status.is_success() { Ok(()) } else { Err(done.status.to_string()) }
}

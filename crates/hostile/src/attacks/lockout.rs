//! What keeps others out: all the places there are, the hold, a pace that lets nothing through.

use super::{Attack, Attacker};
use crate::wire::{Session, Who, vendor};
use pumice_initiator::{ConnectOptions, Controller};
use pumice_nvme::pdu::Digests;
use pumice_offload::wire::{encode_command, encode_pace, opcode};
use pumice_offload::{DriveId, Mode, PaceRequest, ParityCommand, Rule, Source, Window};
use std::io;
use std::time::{Duration, Instant};

/// Associations that an attacker wants: two of them want more than there are.
const WANTED: u16 = 60;
/// Bytes of a check that a host that behaves well asks for.
const CHECKED: u64 = 4 << 20;
/// How long it waits for that.
const DEADLINE: Duration = Duration::from_secs(30);

struct Lockout {
    held: Vec<Session>,
    number: u16,
    _queue: Session,
    looked: Instant,
}

/// Takes the pace that is the slowest there is: a rate, and a time of day that is over.
pub(super) fn begin(attacker: &mut Attacker) -> io::Result<Box<dyn Attack>> {
    let (admin, mut queue) = Session::pair(&attacker.target, &attacker.who, 32)?;
    let slowest = PaceRequest { rate: Some(4096), windows: vec![(0, 1)], ..PaceRequest::default() };
    let bytes = encode_pace(&slowest);
    queue.run(vendor(opcode::PACE, 0, 0, bytes.len()), &bytes, 0)?;
    Ok(Box::new(Lockout { held: vec![admin], number: 0, _queue: queue, looked: Instant::now() }))
}

impl Attack for Lockout {
    fn round(&mut self, attacker: &mut Attacker) -> io::Result<()> {
        if self.held.len() < usize::from(WANTED) {
            self.number += 1;
            let who = Who::new(2000 + attacker.number * WANTED + self.number);
            // Without a keep alive timeout; refused once there are too many from this address.
            if let Ok((admin, _)) = Session::associate(&attacker.target, &who) {
                self.held.push(admin);
            }
        }
        let hold = self._queue.run(vendor(opcode::HOLD, 0, 1, 0), &[], 0)?;
        if hold.status.is_success() {
            attacker.breach("the hold on a node that others use".to_owned());
        }
        if attacker.number == 0 && self.looked.elapsed() > Duration::from_secs(2) {
            if let Err(what) = newcomer(attacker) {
                attacker.breach(format!("a host that comes: {what}"));
            }
            self.looked = Instant::now();
        }
        Ok(())
    }
}

/// A host that behaves well comes from its own address, has a part of a drive checked, and goes.
fn newcomer(attacker: &Attacker) -> Result<(), String> {
    let options = ConnectOptions {
        subsystem: attacker.target.nqn.parse().map_err(|_| "no name".to_owned())?,
        host: "nqn.2026-11.example:newcomer".parse().map_err(|_| "no name".to_owned())?,
        hostid: [0x70; 16],
        digests: Digests::default(),
        flow_control: true,
        deadline: DEADLINE,
    };
    let text = |error: pumice_initiator::InitiatorError| error.to_string();
    let controller = Controller::connect(attacker.target.address.into(), options).map_err(text)?;
    let mut queue = controller.queue(1, 8).map_err(text)?;
    let chunk = 65_536;
    let command = ParityCommand {
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

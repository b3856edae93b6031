//! Writes on their way from the host to the drives.

use super::*;

impl World {
    pub(super) fn send(&mut self, drive: usize, what: What, op: usize) {
        let write = self.writes.len();
        self.writes.push(Write { drive, what, op, life: self.host.life, epoch: 0, answered: false });
        let (percent, longest) = self.config.held;
        let data = matches!(what, What::Data { .. });
        let hold = if data && self.random.percent(percent) { self.random.below(longest) } else { 0 };
        self.after(hold + 50, hold + 2 * MS, Event::Arrive(write));
    }

    pub(super) fn arrive(&mut self, id: usize) {
        let write = self.writes[id];
        if write.life != self.host.life {
            return;
        }
        let k = self.node_of(write.drive);
        if self.nodes[k].path != Path::Up {
            self.nodes[k].waiting.push(id);
            return;
        }
        let now = self.now;
        let own = self.nodes[k].associations.iter_mut().filter(|a| a.alive);
        let Some(association) = own.last() else { return };
        association.heard = now;
        let serial = association.serial;
        self.writes[id].epoch = self.nodes[k].epoch;
        match write.what {
            What::Data { stripe, .. } => self.counters[write.drive][stripe / REGION].started += 1,
            What::Super(superblock) => {
                let Super { events, clean, at, .. } = superblock;
                let written = Written { array: ARRAY, events, clean: clean && !at };
                self.memories[write.drive].wrote(serial, Some(written));
            }
            _ => {}
        }
        let slow = if self.random.percent(2) { SLOWEST - 100 * MS } else { 5 * MS };
        self.after(20, slow, Event::Apply(id));
    }

    pub(super) fn apply(&mut self, id: usize) {
        let Write { drive, what, epoch, .. } = self.writes[id];
        let k = self.node_of(drive);
        if epoch != self.nodes[k].epoch {
            // It went with the node's program, and was sent again as another.
            return;
        }
        match what {
            What::Data { stripe, value } => {
                self.disk[stripe][drive] = value;
                self.counters[drive][stripe / REGION].completed += 1;
            }
            What::Super(superblock) => self.supers[drive] = superblock,
            What::Bit { region, set } => self.bits[drive][region] = set,
            What::Ppl { stripe, mark, set: true } => self.logs[drive][stripe] = mark,
            What::Ppl { stripe, mark, .. } if self.logs[drive][stripe] == mark => {
                self.logs[drive][stripe] = 0;
            }
            What::Ppl { .. } => {}
        }
        self.after(20, 2 * MS, Event::Answer(id));
    }

    pub(super) fn answer(&mut self, id: usize) {
        let write = self.writes[id];
        if write.life != self.host.life {
            return;
        }
        let k = self.node_of(write.drive);
        if self.nodes[k].epoch != write.epoch {
            return;
        }
        if self.nodes[k].path != Path::Up {
            // It is sent again when the path is back.
            self.nodes[k].waiting.push(id);
            return;
        }
        self.writes[id].answered = true;
        if write.op == usize::MAX {
            return;
        }
        self.ops[write.op].pending -= 1;
        if self.ops[write.op].pending == 0 {
            self.ended(write.op);
        }
    }

    /// Writes that a node had taken in and not answered when its program ended: the host sends them
    /// again as soon as it is connected anew.
    pub(super) fn unanswered(&mut self, k: usize) -> Vec<usize> {
        let Host { life, .. } = self.host;
        let epoch = self.nodes[k].epoch;
        let lost = |write: &&Write| write.life == life && write.epoch == epoch && !write.answered;
        let here = self.writes.iter().filter(|write| self.node_of(write.drive) == k).filter(lost);
        let again: Vec<Write> = here.map(|write| Write { epoch: 0, ..*write }).collect();
        let first = self.writes.len();
        self.writes.extend(again);
        (first..self.writes.len()).collect()
    }

    /// The drives that hold a role: two while it is being replaced.
    pub(super) fn holders(&self, role: usize) -> impl Iterator<Item = usize> + use<> {
        let copy = self.host.copying.is_some_and(|(copied, _)| copied == role);
        std::iter::once(self.host.drives[role]).chain(copy.then(|| self.free_drive()))
    }

    /// The drive that has no role.
    pub(super) fn free_drive(&self) -> usize {
        let drives = 0..=self.config.members;
        drives.into_iter().find(|drive| !self.host.drives.contains(drive)).expect("one drive more than roles")
    }

    pub(super) fn present(&self, member: usize) -> bool {
        self.host.faulty & (1 << member) == 0
    }

    pub(super) fn op(&mut self, kind: Kind) -> usize {
        self.ops.push(Op { kind, pending: 0, life: self.host.life });
        self.ops.len() - 1
    }

    pub(super) fn send_all(&mut self, op: usize, writes: &[(usize, What)]) {
        self.ops[op].pending = writes.len();
        for (drive, what) in writes {
            self.send(*drive, *what, op);
        }
        if writes.is_empty() {
            self.ended(op);
        }
    }

    pub(super) fn ended(&mut self, op: usize) {
        if self.ops[op].life != self.host.life {
            return;
        }
        match self.ops[op].kind.clone() {
            Kind::Super => self.host.busy = false,
            Kind::Bit { region, set } => {
                self.host.bit_busy[region] = false;
                self.host.bits[region] = if set { 2 } else { 0 };
            }
            Kind::Stripe { stripe, logged: true, writes, absorbs, ends } => {
                self.ops[op].kind =
                    Kind::Stripe { stripe, logged: false, writes: writes.clone(), absorbs, ends };
                self.send_data(op, stripe, &writes);
                return;
            }
            Kind::Stripe { stripe, absorbs, ends, .. } => self.stripe_ended(stripe, absorbs, ends),
        }
        self.pump();
    }

    pub(super) fn stripe_ended(&mut self, stripe: usize, absorbs: bool, ends: Ends) {
        self.host.locked[stripe] = false;
        self.host.writing[stripe / REGION] -= 1;
        self.host.active -= 1;
        self.host.last = self.now;
        if absorbs {
            self.damage[stripe] = 0;
        }
        if ends == Ends::Resync || absorbs && ends == Ends::Write {
            self.host.needs[stripe] = false;
        }
        if self.config.kept == Kept::Ppl {
            let parity = stripe % self.config.members;
            let mark = self.host.marks[stripe];
            self.send(self.host.drives[parity], What::Ppl { stripe, mark, set: false }, usize::MAX);
        }
        if let Some(mark) = self.journal.get(&stripe).map(|entry| entry.0) {
            self.after(MS, 3 * S, Event::LogMoves(stripe, mark));
        }
        if self.host.active == 0 {
            let life = self.host.life;
            self.after(SAFE_MODE, SAFE_MODE + MS, Event::SafeMode(life));
        }
    }

    pub(super) fn send_data(&mut self, op: usize, _: usize, writes: &[(usize, u64)]) {
        let Kind::Stripe { stripe, ends, .. } = self.ops[op].kind else { return };
        let copy = (ends == Ends::Copy).then(|| self.free_drive());
        let mut list: Vec<(usize, What)> = writes
            .iter()
            .filter(|(member, _)| self.present(*member))
            .flat_map(|(member, value)| {
                let holders = self.holders(*member).filter(|drive| copy.is_none_or(|copy| *drive == copy));
                holders.map(|drive| (drive, What::Data { stripe, value: *value }))
            })
            .collect();
        if self.random.percent(50) {
            list.reverse();
        }
        self.send_all(op, &list);
    }
}

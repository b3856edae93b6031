//! Writes on their way from the host to the drives.

use super::*;

impl World {
    pub(super) fn send(&mut self, member: usize, what: What, op: usize) {
        let write = self.writes.len();
        self.writes.push(Write { member, what, op, life: self.host.life });
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
        let k = self.node_of(write.member);
        if self.nodes[k].path != Path::Up {
            self.nodes[k].waiting.push(id);
            return;
        }
        let now = self.now;
        let own = self.nodes[k].associations.iter_mut().filter(|a| a.alive);
        let Some(association) = own.last() else { return };
        association.heard = now;
        let serial = association.serial;
        match write.what {
            What::Data { stripe, .. } => self.counters[write.member][stripe / REGION].started += 1,
            What::Super(superblock) => {
                let Super { events, clean, at, .. } = superblock;
                let written = Written { array: ARRAY, events, clean: clean && !at };
                self.memories[write.member].wrote(serial, Some(written));
            }
            _ => {}
        }
        let slow = if self.random.percent(2) { SLOWEST - 100 * MS } else { 5 * MS };
        self.after(20, slow, Event::Apply(id));
    }

    pub(super) fn apply(&mut self, id: usize) {
        let Write { member, what, .. } = self.writes[id];
        match what {
            What::Data { stripe, value } => {
                self.disk[stripe][member] = value;
                self.counters[member][stripe / REGION].completed += 1;
            }
            What::Super(superblock) => self.supers[member] = superblock,
            What::Bit { region, set } => self.bits[member][region] = set,
            What::Ppl { stripe, mark, set: true } => self.logs[member][stripe] = mark,
            What::Ppl { stripe, mark, .. } if self.logs[member][stripe] == mark => {
                self.logs[member][stripe] = 0;
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
        let k = self.node_of(write.member);
        if self.nodes[k].path != Path::Up {
            // It is sent again when the path is back.
            self.nodes[k].waiting.push(id);
            return;
        }
        if write.op == usize::MAX {
            return;
        }
        self.ops[write.op].pending -= 1;
        if self.ops[write.op].pending == 0 {
            self.ended(write.op);
        }
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
        for (member, what) in writes {
            self.send(*member, *what, op);
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
            self.send(parity, What::Ppl { stripe, mark, set: false }, usize::MAX);
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
        let Kind::Stripe { stripe, .. } = self.ops[op].kind else { return };
        let mut list: Vec<(usize, What)> = writes
            .iter()
            .filter(|(member, _)| self.present(*member))
            .map(|(member, value)| (*member, What::Data { stripe, value: *value }))
            .collect();
        if self.random.percent(50) {
            list.reverse();
        }
        self.send_all(op, &list);
    }
}

//! A model of md: assembly, writes, safe mode, bits, resync, changes of members.

use super::*;

impl World {
    pub(super) fn superblock(&self, member: usize) -> Super {
        let Host { events, clean, shape, faulty, checkpoint, .. } = self.host;
        let drive = |role| self.host.drives.get(role).copied().unwrap_or(usize::MAX);
        Super {
            events,
            clean: clean && !checkpoint,
            at: checkpoint,
            shape,
            faulty,
            valid: self.host.valid[member],
            drives: std::array::from_fn(drive),
        }
    }

    pub(super) fn update_superblocks(&mut self) {
        self.host.busy = true;
        self.host.may_go_back = false;
        let op = self.op(Kind::Super);
        let writes: Vec<(usize, What)> = (0..self.config.members)
            .filter(|member| self.present(*member))
            .flat_map(|member| {
                let superblock = What::Super(self.superblock(member));
                self.holders(member).map(move |drive| (drive, superblock))
            })
            .collect();
        self.send_all(op, &writes);
    }

    pub(super) fn assemble(&mut self) {
        let (kept, stripes, resyncing) = (self.config.kept, self.config.stripes, self.resyncing);
        let members = self.config.members;
        let newest = *self.supers.iter().max_by_key(|s| s.events).expect("members");
        let host = &mut self.host;
        host.assembled = true;
        host.events = newest.events;
        (host.shape, host.faulty, host.checkpoint) = (newest.shape, newest.faulty, false);
        (host.drives, host.copying) = (newest.drives[..members].to_vec(), None);
        host.replaced = false;
        for role in 0..members {
            let faulty = host.faulty & (1 << role) != 0;
            host.valid[role] = if faulty { 0 } else { self.supers[host.drives[role]].valid };
        }
        let lost = (0..members).find(|role| host.valid[*role] < stripes);
        if lost.is_some() && !newest.clean && kept != Kept::Journal {
            // md does not start an array that lacks a member and was cut off.
            host.assembled = false;
            return;
        }
        self.host.logical = self.contents();
        let host = &mut self.host;
        if let Some(role) = lost {
            for row in host.logical.iter_mut().skip(host.valid[role]) {
                row[role] = 0;
                row[role] = row.iter().fold(0, |sum, value| sum ^ value);
            }
        }
        host.needs.fill(false);
        let drives = host.drives.clone();
        let marked = |bits: &[Vec<bool>], at: usize| drives.iter().any(|drive| bits[*drive][at]);
        for region in 0..host.bits.len() {
            host.bits[region] = if marked(&self.bits, region) { 2 } else { 0 };
        }
        let mut replays = Vec::new();
        if kept == Kept::Journal {
            replays = self.journal.iter().map(|(stripe, entry)| (*stripe, entry.1.clone())).collect();
        } else if !newest.clean {
            let named: Vec<usize> = (0..stripes)
                .filter(|stripe| drives.iter().any(|drive| self.logs[*drive][*stripe] != 0))
                .collect();
            for stripe in 0..stripes {
                host.needs[stripe] = match kept {
                    Kept::Bitmap => marked(&self.bits, stripe / REGION),
                    // Replayed; or, where the log cannot be relied on, emptied and followed by a
                    // whole resync.
                    Kept::Ppl => named.is_empty() || resyncing || named.contains(&stripe),
                    _ => true,
                };
            }
            if kept == Kept::Ppl && self.random.percent(40) {
                self.host.needs.fill(true);
                self.resyncing = true;
                self.logs.iter_mut().for_each(|log| log.fill(0));
            }
        }
        self.resyncing |= kept == Kept::Ppl && !self.host.needs.contains(&false);
        for (stripe, writes) in replays {
            self.change_stripe(stripe, &writes, true, Ends::Write);
        }
        self.host.clean = newest.clean;
        self.host.read_only = !self.is_whole() && self.random.percent(self.config.read_only);
        let life = self.host.life;
        if !self.host.read_only {
            self.start();
        }
        let first = self.config.gap.max(MS);
        self.after(0, first, Event::Tick(life));
        if let Some(role) = lost {
            let event = match self.present(role) {
                true => Event::Recover(life, role, self.host.valid[role]),
                false => Event::ReAdd(life, role),
            };
            self.after(S, 10 * S, event);
        }
        if self.host.shape != 0 {
            self.after(S, 2 * S, Event::Scribble(life));
        }
        self.after(0, DAEMON, Event::Daemon(life));
        self.after(SAFE_MODE, SAFE_MODE + MS, Event::SafeMode(life));
    }

    /// Read and write from here on.
    pub(super) fn start(&mut self) {
        self.host.read_only = false;
        if !self.is_whole() {
            self.host.clean = false;
            self.host.events += 1;
            self.update_superblocks();
            let (life, step) = (self.host.life, self.config.resync);
            self.after(0, step, Event::Step(life));
        }
    }

    pub(super) fn tick(&mut self) {
        let life = self.host.life;
        if self.config.pauses && self.now >= self.host.paused_until && self.random.percent(2) {
            self.host.paused_until = self.now + self.random.within(S, 30 * S);
        }
        if self.host.wanting.len() < 16 && self.now >= self.host.paused_until {
            if self.host.read_only {
                self.start();
            }
            let stripe = self.random.index(self.config.written);
            let (data, _) = self.places(stripe);
            let value = self.random.next();
            // Two contents in turn, the same ones each time.
            let value =
                if self.config.toggle { value % 2 + 1000 * (stripe * 16 + data) as u64 } else { value };
            self.host.wanting.push((stripe, data, value));
            self.pump();
        }
        let gap = self.config.gap;
        self.after(gap / 2, gap * 3 / 2 + 2, Event::Tick(life));
    }

    pub(super) fn pump(&mut self) {
        if !self.host.assembled || self.host.busy || self.host.wanting.is_empty() {
            return;
        }
        if self.host.clean && self.config.kept != Kept::Journal {
            self.host.clean = false;
            self.host.events += 1;
            self.update_superblocks();
            self.host.may_go_back = self.host.faulty == 0 && !self.host.replaced;
            return;
        }
        for (stripe, data, value) in std::mem::take(&mut self.host.wanting) {
            let region = stripe / REGION;
            let marked = self.config.kept != Kept::Bitmap || self.host.bits[region] > 0;
            if self.host.locked[stripe] || self.host.bit_busy[region] || !marked {
                self.host.wanting.push((stripe, data, value));
                if !marked && !self.host.bit_busy[region] {
                    self.mark(region, true);
                }
                continue;
            }
            self.host.bits[region] = 2;
            self.write(stripe, data, value);
        }
    }

    pub(super) fn mark(&mut self, region: usize, set: bool) {
        self.host.bit_busy[region] = true;
        let op = self.op(Kind::Bit { region, set });
        let writes: Vec<(usize, What)> = (0..self.config.members)
            .filter(|member| self.present(*member))
            .flat_map(|member| self.holders(member).map(move |drive| (drive, What::Bit { region, set })))
            .collect();
        self.send_all(op, &writes);
    }

    pub(super) fn write(&mut self, stripe: usize, data: usize, value: u64) {
        let members = self.config.members;
        let parity = stripe % members;
        let good = |member: usize| self.host.valid[member] > stripe && self.present(member);
        let content = |m: usize| {
            if good(m) { self.disk[stripe][self.host.drives[m]] } else { self.host.logical[stripe][m] }
        };
        // A stripe that waits for a resync, or has lost a member, has its parity made anew.
        let anew = self.host.needs[stripe];
        let new = if anew {
            let others = (0..members).filter(|m| *m != data && *m != parity);
            others.fold(value, |sum, m| sum ^ content(m))
        } else {
            content(parity) ^ content(data) ^ value
        };
        (self.host.logical[stripe][data], self.host.logical[stripe][parity]) = (value, new);
        self.change_stripe(stripe, &[(data, value), (parity, new)], anew, Ends::Write);
    }

    pub(super) fn change_stripe(
        &mut self,
        stripe: usize,
        writes: &[(usize, u64)],
        absorbs: bool,
        ends: Ends,
    ) {
        self.host.locked[stripe] = true;
        self.host.writing[stripe / REGION] += 1;
        self.host.active += 1;
        let logged = self.config.kept == Kept::Ppl && !self.host.needs[stripe] && ends == Ends::Write;
        if self.config.kept == Kept::Journal && ends == Ends::Write {
            self.sequence += 1;
            self.journal.insert(stripe, (self.sequence, writes.to_vec()));
        }
        let parity = stripe % self.config.members;
        let op = self.op(Kind::Stripe { stripe, logged, writes: writes.to_vec(), absorbs, ends });
        if logged && self.present(parity) {
            self.sequence += 1;
            self.host.marks[stripe] = self.sequence;
            let drive = self.host.drives[parity];
            self.send_all(op, &[(drive, What::Ppl { stripe, mark: self.sequence, set: true })]);
        } else if logged {
            self.ended(op);
        } else {
            self.send_data(op, stripe, writes);
        }
    }

    pub(super) fn safe_mode(&mut self) {
        let host = &self.host;
        let idle = host.active == 0 && host.wanting.is_empty() && self.now >= host.last + SAFE_MODE;
        let settled = host.assembled && !host.busy && !host.read_only && self.is_whole();
        if idle && settled && !host.clean {
            self.host.clean = true;
            self.host.checkpoint = false;
            let back = self.host.may_go_back && !self.host.replaced && self.random.percent(50);
            self.host.events = if back { self.host.events - 1 } else { self.host.events + 1 };
            self.update_superblocks();
        } else if idle && !settled {
            let life = self.host.life;
            self.after(SAFE_MODE, 2 * SAFE_MODE, Event::SafeMode(life));
        }
    }

    pub(super) fn daemon(&mut self) {
        let life = self.host.life;
        if self.config.kept == Kept::Bitmap && self.host.faulty == 0 && !self.host.read_only {
            for region in 0..self.host.bits.len() {
                let stripes = region * REGION..((region + 1) * REGION).min(self.config.stripes);
                let waits = self.host.needs[stripes].contains(&true);
                let idle = self.host.writing[region] == 0 && !self.host.bit_busy[region] && !waits;
                match self.host.bits[region] {
                    2 if idle => self.host.bits[region] = 1,
                    1 if idle => self.mark(region, false),
                    _ => {}
                }
            }
        }
        self.after(DAEMON, DAEMON + 1, Event::Daemon(life));
    }

    pub(super) fn resync_step(&mut self) {
        let (life, step) = (self.host.life, self.config.resync);
        let next = (0..self.config.stripes).find(|stripe| self.host.needs[*stripe]);
        let Some(stripe) = next else {
            self.resyncing = false;
            self.host.last = self.now;
            self.after(SAFE_MODE, SAFE_MODE + MS, Event::SafeMode(life));
            return;
        };
        if !self.host.locked[stripe] {
            let parity = stripe % self.config.members;
            let others = (0..self.config.members).filter(|m| *m != parity);
            let row = &self.disk[stripe];
            let drives = &self.host.drives;
            let value = others.fold(0, |sum, m| sum ^ row[drives[m]]);
            let writes = if value == row[drives[parity]] { Vec::new() } else { vec![(parity, value)] };
            self.change_stripe(stripe, &writes, true, Ends::Resync);
        }
        if !self.host.busy && self.random.percent(5) {
            // A checkpoint; the next write takes it back.
            self.host.checkpoint = true;
            self.host.events += 1;
            self.update_superblocks();
            self.host.checkpoint = false;
        }
        self.after(step / 2, step * 3 / 2 + 1, Event::Step(life));
    }
}

//! Members that fail, return and are rebuilt, or are replaced; a reshape.

use super::*;

impl World {
    pub(super) fn change(&mut self) {
        let life = self.host.life;
        if !self.is_whole() || self.host.busy || !self.host.assembled {
            self.after(S, 2 * S, Event::Change(life));
            return;
        }
        self.host.events += 1;
        self.host.clean = false;
        if self.random.percent(25) {
            self.host.shape += 1;
            self.update_superblocks();
            self.after(S, 2 * S, Event::Scribble(life));
            return;
        }
        let member = self.random.index(self.config.members);
        if self.random.percent(40) {
            self.host.copying = Some((member, 0));
            self.update_superblocks();
            self.after(10 * MS, 100 * MS, Event::Replace(life, 0));
            return;
        }
        self.host.faulty |= 1 << member;
        self.host.valid[member] = 0;
        self.update_superblocks();
        self.after(S, 30 * S, Event::ReAdd(life, member));
    }

    pub(super) fn re_add(&mut self, member: usize) {
        let life = self.host.life;
        if self.host.busy || self.host.active > 0 {
            self.after(MS, 20 * MS, Event::ReAdd(life, member));
            return;
        }
        self.host.faulty = 0;
        self.host.events += 1;
        self.host.clean = false;
        self.update_superblocks();
        self.after(10 * MS, 100 * MS, Event::Recover(life, member, 0));
    }

    pub(super) fn recover(&mut self, member: usize, stripe: usize) {
        let (life, step) = (self.host.life, self.config.resync);
        if self.host.busy || stripe < self.config.stripes && self.host.locked[stripe] {
            self.after(MS, 20 * MS, Event::Recover(life, member, stripe));
            return;
        }
        // The stripe before must have been written: it is locked until then.
        if stripe > 0 && self.host.locked[stripe - 1] {
            self.after(MS, 20 * MS, Event::Recover(life, member, stripe));
            return;
        }
        if stripe == self.config.stripes || stripe > 0 && self.random.percent(30) {
            self.host.valid[member] = stripe;
            self.host.events += 1;
            self.update_superblocks();
        }
        if stripe == self.config.stripes {
            self.host.last = self.now;
            self.after(SAFE_MODE, SAFE_MODE + MS, Event::SafeMode(life));
            return;
        }
        let others = (0..self.config.members).filter(|m| *m != member);
        let value = others.fold(0, |sum, m| sum ^ self.disk[stripe][self.host.drives[m]]);
        self.host.logical[stripe][member] = value;
        self.change_stripe(stripe, &[(member, value)], true, Ends::Recovery);
        self.after(step / 2, step * 3 / 2 + 1, Event::Recover(life, member, stripe + 1));
    }

    /// A stripe of a member goes to the drive that replaces it; the member is written all the
    /// while.
    pub(super) fn replace(&mut self, stripe: usize) {
        let (life, step, stripes) = (self.host.life, self.config.resync, self.config.stripes);
        let Some((member, _)) = self.host.copying else { return };
        // The last one has been written, for stripes are locked until then.
        let before = stripe.checked_sub(1).is_some_and(|before| self.host.locked[before]);
        let under_way = stripe == stripes && self.config.kept == Kept::Ppl && self.host.active > 0;
        if self.host.busy || before || under_way || stripe < stripes && self.host.locked[stripe] {
            self.after(MS, 20 * MS, Event::Replace(life, stripe));
            return;
        }
        if stripe == stripes {
            // From here on the member is not written any more; the superblocks say so a little
            // later.
            let drive = self.free_drive();
            self.host.copying = None;
            self.host.drives[member] = drive;
            self.host.replaced = true;
            self.after(0, 30 * MS, Event::Replaced(life));
            return;
        }
        self.host.copying = Some((member, stripe + 1));
        let value = self.disk[stripe][self.host.drives[member]];
        self.change_stripe(stripe, &[(member, value)], false, Ends::Copy);
        self.after(step / 2, step * 3 / 2 + 1, Event::Replace(life, stripe + 1));
    }

    pub(super) fn replaced(&mut self) {
        let life = self.host.life;
        if self.host.busy {
            self.after(MS, 20 * MS, Event::Replaced(life));
            return;
        }
        self.host.replaced = false;
        self.host.events += 1;
        self.host.clean = false;
        self.update_superblocks();
        self.after(SAFE_MODE, SAFE_MODE + MS, Event::SafeMode(life));
    }

    /// A reshape puts other data where the pass expects the old.
    pub(super) fn scribble(&mut self) {
        let life = self.host.life;
        let stripe = self.random.index(self.config.stripes);
        if !self.host.busy && !self.host.locked[stripe] {
            let member = self.random.index(self.config.members);
            let value = self.random.next();
            self.change_stripe(stripe, &[(member, value)], false, Ends::Scribble);
        }
        self.after(S / 2, 2 * S, Event::Scribble(life));
    }
}

//! The host's machine: boots and crashes, associations and paths that begin and end.

use super::*;

impl World {
    pub(super) fn boot(&mut self) {
        for node in &mut self.nodes {
            self.serial += 1;
            let association = Association { serial: self.serial, heard: self.now, alive: true };
            node.associations.push(association);
            node.changes += 1;
            node.path = Path::Up;
        }
        let life = self.host.life;
        let slow = if life > 0 && self.random.percent(30) { 20 * S } else { 100 * MS };
        self.after(0, slow, Event::Assemble(life));
    }

    pub(super) fn crash(&mut self) {
        let host = &mut self.host;
        host.life += 1;
        (host.assembled, host.busy, host.active) = (false, false, 0);
        host.wanting.clear();
        host.locked.fill(false);
        host.bit_busy.fill(false);
        host.writing.fill(0);
        let noticed = self.random.percent(50);
        for k in 0..self.nodes.len() {
            self.touch(k);
            let node = &mut self.nodes[k];
            node.waiting.clear();
            node.path = Path::Down;
            let own: Vec<u64> = node.associations.iter().filter(|a| a.alive).map(|a| a.serial).collect();
            node.associations.iter_mut().for_each(|a| a.alive = false);
            for serial in own {
                if noticed {
                    self.expire(k, serial);
                } else {
                    self.after(5 * S, 15 * S, Event::Expire(k, serial));
                }
            }
        }
        if self.config.comes_back {
            self.after(SLOWEST, 20 * S, Event::Boot);
        }
    }

    pub(super) fn expire(&mut self, node: usize, serial: u64) {
        let node = &mut self.nodes[node];
        let before = node.associations.len();
        node.associations.retain(|a| a.serial != serial);
        node.changes += u64::from(node.associations.len() != before);
    }

    /// Notes the last keep alive that has come.
    pub(super) fn touch(&mut self, node: usize) {
        let beat = self.now - self.now % KEEP_ALIVE;
        let node = &mut self.nodes[node];
        if node.path == Path::Up {
            for association in node.associations.iter_mut().filter(|a| a.alive) {
                association.heard = association.heard.max(beat);
            }
        }
    }

    /// One path is lost, or all of them.
    pub(super) fn path_lost(&mut self) {
        let noticed = self.random.percent(60);
        if self.random.percent(25) {
            (0..self.nodes.len()).for_each(|k| self.lose_path(k, noticed));
        } else {
            let k = self.random.index(self.nodes.len());
            self.lose_path(k, noticed);
        }
    }

    fn lose_path(&mut self, k: usize, noticed: bool) {
        // Writes that one outage has delayed arrive before the next.
        if self.nodes[k].path != Path::Up || self.now < self.nodes[k].calm_from {
            return;
        }
        self.touch(k);
        self.nodes[k].path = if noticed { Path::Down } else { Path::Silent };
        if noticed {
            self.lose(k);
            self.after(SLOWEST, 20 * S, Event::PathBack(k, true));
        } else {
            // Long enough to be noticed, or over in less than half of the settle time.
            let long = self.random.percent(60);
            let time = if long { self.random.within(4 * S, 12 * S) } else { self.random.below(1400 * MS) };
            self.nodes[k].lost = time;
            self.at(self.now + time, Event::PathBack(k, false));
        }
    }

    pub(super) fn lose(&mut self, k: usize) {
        let own: Vec<u64> = self.nodes[k].associations.iter().filter(|a| a.alive).map(|a| a.serial).collect();
        own.into_iter().for_each(|serial| self.expire(k, serial));
    }

    pub(super) fn path_back(&mut self, k: usize, lost: bool) {
        if self.nodes[k].path == Path::Up
            || !self.nodes.iter().any(|n| n.associations.iter().any(|a| a.alive)) && !lost
        {
            return;
        }
        self.nodes[k].path = Path::Up;
        self.nodes[k].calm_from = self.now + 6 * S;
        if lost {
            self.serial += 1;
            let association = Association { serial: self.serial, heard: self.now, alive: true };
            self.nodes[k].associations.push(association);
            self.nodes[k].changes += 1;
        }
        // A network that was silent delivers what it lost within as long a time again, and within
        // the settle time.
        let late = if lost { 500 * MS } else { self.nodes[k].lost.min(2_800 * MS) };
        for write in std::mem::take(&mut self.nodes[k].waiting) {
            self.after(0, late, Event::Arrive(write));
        }
    }

    /// The node's program ends and is started anew: it knows nothing of before. Writes that it had
    /// taken in and not written are sent again.
    pub(super) fn restart(&mut self) {
        let k = self.random.index(self.nodes.len());
        if self.nodes[k].path != Path::Up || self.now < self.nodes[k].calm_from {
            return;
        }
        let again = self.unanswered(k);
        let node = &mut self.nodes[k];
        let owned = node.associations.iter().any(|a| a.alive);
        node.waiting.extend(again);
        node.epoch += 1000;
        (node.changes, node.visitors, node.observers) = (0, 0, 0);
        node.associations.clear();
        node.path = Path::Down;
        for drive in (0..=self.config.members).filter(|drive| self.node_of(*drive) == k).collect::<Vec<_>>() {
            self.counters[drive].fill(Writes::default());
            self.memories[drive] = Memory::default();
        }
        if owned {
            self.after(S, 10 * S, Event::PathBack(k, true));
        }
    }

    pub(super) fn visitor(&mut self, comes: bool, observes: bool) {
        let all = self.random.percent(70);
        for k in 0..self.nodes.len() {
            if comes && !all && k > 0 {
                continue;
            }
            let node = &mut self.nodes[k];
            let count = if observes { &mut node.observers } else { &mut node.visitors };
            match comes {
                true => *count += 1,
                false if *count == 0 => continue,
                false => *count -= 1,
            }
            node.changes += 1;
        }
        if comes {
            self.after(S, 20 * S, Event::Visitor(false, observes));
        }
    }
}

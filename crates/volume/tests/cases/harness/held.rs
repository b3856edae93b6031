//! Members that go while a volume is served, and come back.

use super::{Nodes, World};
use pumice_volume::Event;

impl World {
    /// Members cannot be reached any more. What was on its way to them is done, or is not; nobody
    /// hears of it. `power`: their drives lose what they had not flushed.
    pub(crate) fn lose_contact(&mut self, roles: &[usize], power: bool) {
        let on_their_way = std::mem::take(&mut self.outstanding);
        for action in &on_their_way {
            let is_theirs = action.command.role().is_some_and(|role| roles.contains(&role.index()));
            if is_theirs && self.random.chance(50) {
                self.carry_out(&action.command, power);
            }
        }
        self.outstanding = on_their_way;
        for role in roles {
            let disk = &mut self.disks[*role];
            if power {
                disk.crash(&mut self.random);
            }
            disk.up = false;
        }
    }

    /// Lets the volume find out that it is held; false if nothing was under way.
    pub(crate) fn run_to_hold(&mut self) -> bool {
        while !self.held && !self.outstanding.is_empty() {
            self.execute();
        }
        self.held
    }

    /// The members are back, and the volume is opened anew by the process that serves it. Returns
    /// whether something rested on the caches of drives.
    pub(crate) fn come_back(&mut self, interrupted: bool) -> bool {
        let rests = self.volume.take().is_some_and(|volume| volume.rests_on_caches());
        self.untold.clear();
        for action in std::mem::take(&mut self.outstanding) {
            // It is waited for, and its end means nothing any more.
            self.carry_out(&action.command, false);
        }
        self.forget_memory();
        self.disks.iter_mut().for_each(|disk| disk.up = true);
        if interrupted {
            self.begin().unwrap();
            let steps = self.random.next(60);
            self.run_recovery(steps);
            self.outstanding.clear();
            self.forget_memory();
        }
        self.start().unwrap();
        rests
    }

    fn forget_memory(&mut self) {
        self.buffers.clear();
        self.nodes.iter_mut().for_each(Nodes::crash);
    }

    /// Requests without an answer are asked again.
    pub(crate) fn ask_again(&mut self) {
        for (id, request) in self.model.waiting() {
            self.tell(Event::Request(id, request));
        }
    }
}

//! Events of a volume: requests, time, failures, and the power.

use super::disk::{Disk, Random};
use super::{BLOCK, DATA, Put, SUPERBLOCK, World};
use pumice_base::units::Role;
use pumice_raid::Metadata;
use pumice_raid::superblock::v1::V1;
use pumice_volume::choice::Preference;
use pumice_volume::{Action, Command, Event, Outcome, Request, RequestId};
use std::collections::BTreeSet;

impl World {
    /// Sends a request.
    pub(crate) fn submit(&mut self, request: Request) {
        self.ask(request);
    }

    /// The same, and its name.
    pub(crate) fn ask(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.model.submitted(id, request, &self.windows, &self.geometry);
        self.tell(Event::Request(id, request));
        id
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.prefer_any();
        if let Some(volume) = &mut self.volume {
            volume.handle_all(self.untold.drain(..));
            volume.handle(event);
        }
        self.effects();
    }

    /// The next operation goes any way, if it can go both.
    pub(super) fn prefer_any(&mut self) {
        let (Some(ways), Some(volume)) = (&mut self.ways_of_any, &mut self.volume) else { return };
        let all = [Preference::Near, Preference::Far, Preference::Faster];
        volume.prefer(all[ways.next(3) as usize]);
        // Some milliseconds an event, so that measured ways change.
        self.nanoseconds += ways.next(20_000_000);
        volume.pass_time(self.nanoseconds);
    }

    pub(crate) fn tick(&mut self) {
        self.clock += 5;
        self.event(Event::Tick(self.clock));
    }

    /// A request of any size and alignment.
    pub(crate) fn any_request(&mut self) {
        let bytes = self.geometry.array_bytes();
        let stripe = self.geometry.stripe_bytes();
        let sectors = |random: &mut Random, n: u64| random.next(n) * 512;
        let (offset, len) = match self.random.next(4) {
            0 => (sectors(&mut self.random, bytes / 512), 512 + sectors(&mut self.random, 8)),
            1 => (self.random.next(bytes / BLOCK) * BLOCK, BLOCK),
            2 => (self.random.next(bytes / BLOCK) * BLOCK, BLOCK * (1 + self.random.next(12))),
            _ => (self.random.next(bytes / stripe) * stripe, stripe * (1 + self.random.next(2))),
        };
        let len = len.min(bytes - offset);
        let request = match self.random.next(20) {
            0..3 => Request::Flush,
            3..6 => Request::Read { offset, len },
            kind => Request::Write { offset, len, fua: kind == 19 },
        };
        self.submit(request);
    }

    /// Requests and actions in any order.
    pub(crate) fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            if self.again || self.fenced {
                return;
            }
            let busy = self.model.under_way();
            if self.outstanding.is_empty() || (busy < 6 && self.random.chance(10)) {
                match self.random.chance(90) && busy < 12 {
                    true => self.any_request(),
                    false => self.tick(),
                }
            } else {
                self.execute();
            }
        }
    }

    /// This host takes every member.
    pub(crate) fn take_tokens(&mut self) {
        for disk in &mut self.disks {
            assert!(disk.guard.raise(self.token));
            assert_eq!(disk.guard.raised(), Some(self.token));
        }
    }

    /// Nobody has the array open any more, says its operator.
    pub(crate) fn release(&mut self) {
        for i in 0..self.disks.len() {
            let look = self.look(&self.disks[i]).unwrap();
            if let (Some(head), Some(region)) = (look.head, look.place.log) {
                let released = head.released_by_operator();
                self.disks[i].put(released.slot(region.heads()), &released.encode());
            }
        }
    }

    /// Lets everything that is under way come to its end.
    pub(crate) fn settle(&mut self) {
        let mut steps = 0;
        while !self.outstanding.is_empty() {
            self.execute();
            steps += 1;
            assert!(steps < 300_000, "it does not come to an end");
        }
    }

    /// The power of everything goes.
    pub(crate) fn crash(&mut self) {
        self.missed = self.missing();
        if let Some(volume) = self.volume.take() {
            let (near, far) = volume.ways();
            self.ways = (self.ways.0 + near, self.ways.1 + far);
        }
        self.untold.clear();
        for action in std::mem::take(&mut self.outstanding) {
            if self.random.chance(50) {
                self.carry_out(&action.command, true);
            }
        }
        for disk in &mut self.disks {
            disk.crash(&mut self.random);
            disk.up = true;
        }
        self.buffers.clear();
        if let Some(nodes) = &mut self.nodes {
            nodes.crash();
        }
        self.model.crashed();
    }

    /// Members that the volume misses, or missed when the power went; also if the superblocks do
    /// not say yet that one is rebuilt.
    pub(crate) fn missing(&self) -> Vec<Role> {
        let Some(volume) = &self.volume else { return self.missed.clone() };
        let rebuilding = volume.rebuilding().into_iter().map(|(role, ..)| role);
        rebuilding.chain(volume.missing()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Some of a recovery.
    pub(crate) fn run_recovery(&mut self, steps: u64) {
        for _ in 0..steps {
            if self.ready || self.again || self.outstanding.is_empty() {
                return;
            }
            match self.random.chance(10) {
                true => self.tick(),
                false => self.execute(),
            }
        }
    }

    /// Returns whether an action is under way of which `is` holds.
    pub(crate) fn waits_for(&self, is: impl Fn(&Command) -> bool) -> bool {
        self.outstanding.iter().any(|action| is(&action.command))
    }

    /// The number of actions under way of which `is` holds.
    pub(crate) fn under_way(&self, is: impl Fn(&Command) -> bool) -> usize {
        self.outstanding.iter().filter(|action| is(&action.command)).count()
    }

    /// Returns whether blocks are on their way to their places.
    pub(crate) fn stores_wait(&self) -> bool {
        self.waits_for(|command| matches!(command, Command::Write { .. } | Command::Store { .. }))
    }

    /// Carries out actions until an update writes the header of a bitmap, with the count that its
    /// superblocks will have; the member, unless that never comes.
    pub(crate) fn run_to_bitmap_header(&mut self) -> Option<Role> {
        loop {
            let newest = self.events().into_iter().max().unwrap();
            let header = |action: &Action| match &action.command {
                Command::Put { role, at, bytes } if *at == 2 * SUPERBLOCK && bytes.len() > 32 => {
                    let events = u64::from_le_bytes(bytes[24..32].try_into().unwrap());
                    (events > newest).then_some(*role)
                }
                _ => None,
            };
            if let Some(role) = self.outstanding.iter().find_map(header) {
                return Some(role);
            }
            if !self.step() {
                return None;
            }
        }
    }

    /// Carries out some of what is under way.
    pub(crate) fn run_some(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Carries out one action, if there is one.
    pub(crate) fn step(&mut self) -> bool {
        let some = !self.outstanding.is_empty();
        if some {
            self.execute();
        }
        some
    }

    /// The event counts of all superblocks.
    pub(crate) fn events(&self) -> Vec<u64> {
        let events =
            |disk: &Disk| V1::decode(&disk.now[SUPERBLOCK as usize..], Metadata::V1_2).unwrap().events;
        self.disks.iter().map(events).collect()
    }

    /// The next write of this kind on this member fails. Whether it is done all the same, `lands`
    /// says.
    pub(crate) fn fail_next(&mut self, role: Role, put: Put, lands: bool) {
        self.failing_puts.push((role, put, lands));
    }

    /// Returns whether every write that was to fail has failed.
    pub(crate) fn all_failed(&self) -> bool {
        self.failing_puts.is_empty()
    }

    /// Makes the block of a member unreadable, by its number in the data area.
    pub(crate) fn decay(&mut self, role: Role, block: u64) {
        self.disks[role.index()].decay(DATA + block * BLOCK);
    }

    /// Makes up to `count` blocks unreadable, no two of a row: not even after a crash that takes
    /// away what was written to one of them since.
    pub(crate) fn decay_some(&mut self, count: u64) {
        for _ in 0..count {
            let block = self.random.next(self.windows.count * self.windows.rows);
            let role = self.random.next(self.disks.len() as u64) as u16;
            let at = DATA + block * BLOCK;
            if self.disks.iter().all(|disk| !disk.is_worn(at)) {
                self.decay(Role(role), block);
            }
        }
    }

    /// Carries out one of the actions of which `is` holds. Returns whether there was one.
    pub(crate) fn execute_one(&mut self, is: impl Fn(&Command) -> bool) -> bool {
        let matching = (0..self.outstanding.len()).filter(|i| is(&self.outstanding[*i].command));
        let matching: Vec<usize> = matching.collect();
        if matching.is_empty() {
            return false;
        }
        let which = matching[self.random.next(matching.len() as u64) as usize];
        self.execute_at(which);
        true
    }

    /// Carries out everything up to the next superblocks, and `count` of those, one after another.
    /// Returns how many there were.
    pub(crate) fn run_superblocks(&mut self, count: u64) -> u64 {
        let is = |command: &Command| Put::of(command) == Some(Put::Superblock);
        for done in 0..=count {
            while !self.again && self.execute_one(|command| !is(command)) {}
            if done == count || self.again || !self.execute_one(is) {
                return done;
            }
        }
        count
    }

    /// The tables of roles in the superblocks of all members that are up.
    pub(crate) fn tables(&self) -> Vec<Vec<u16>> {
        let up = self.disks.iter().filter(|disk| disk.up && !disk.lost);
        let table = |disk: &Disk| V1::decode(&disk.now[SUPERBLOCK as usize..], Metadata::V1_2).unwrap();
        up.map(|disk| table(disk).dev_roles).collect()
    }

    /// A member with a block that is to be copied from its log.
    pub(crate) fn next_copy(&self) -> Option<Role> {
        let copy = |action: &Action| match action.command {
            Command::Copy { role, .. } => Some(role),
            _ => None,
        };
        self.outstanding.iter().find_map(copy)
    }

    /// The superblock that lies on a member.
    pub(crate) fn superblock(&self, role: Role) -> V1 {
        V1::decode(&self.disks[role.index()].now[SUPERBLOCK as usize..], Metadata::V1_2).unwrap()
    }

    /// Gives all superblocks this event count.
    pub(crate) fn set_events(&mut self, events: u64) {
        for disk in &mut self.disks {
            let mut sb = V1::decode(&disk.now[SUPERBLOCK as usize..], Metadata::V1_2).unwrap();
            sb.events = events;
            disk.put(SUPERBLOCK, &sb.encode());
        }
    }

    /// Changes the superblock that lies on a disk.
    pub(crate) fn patch(&mut self, disk: usize, change: impl FnOnce(&mut V1)) {
        let disk = &mut self.disks[disk];
        let mut sb = V1::decode(&disk.now[SUPERBLOCK as usize..], Metadata::V1_2).unwrap();
        change(&mut sb);
        disk.put(SUPERBLOCK, &sb.encode());
    }

    /// Takes the actions that the host has sent and that are still on their way.
    pub(crate) fn late_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.outstanding)
    }

    /// A command that arrives late from a host that has gone.
    pub(crate) fn late(&mut self, action: &Action) -> Outcome {
        if matches!(action.command, Command::Fold { .. }) {
            return Outcome::Done;
        }
        self.carry_out(&action.command, false)
    }

    /// Reads the whole volume and compares it with what the model allows; from then on it is what
    /// was read.
    pub(crate) fn verify(&mut self) {
        self.settle();
        assert_eq!(self.model.under_way(), 0, "requests that are never answered");
        let bytes = self.geometry.array_bytes();
        let mut unreadable = BTreeSet::new();
        for block in 0..bytes / BLOCK {
            self.submit(Request::Read { offset: block * BLOCK, len: BLOCK });
            self.settle();
            if self.model.last_failed() {
                unreadable.insert(block);
            }
        }
        let geometry = self.geometry;
        self.model.check_unreadable(&unreadable, self.may_be_unreadable, &geometry);
        self.model.adopt();
    }
}

//! Members that fail, cannot be reached, come back and are replaced.

use super::disk::Disk;
use super::{Nodes, SUPERBLOCK, World};
use pumice_base::units::Role;
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::{ROLE_FAULTY, ROLE_SPARE, V1};
use pumice_raid::{Metadata, Uuid};
use pumice_volume::log::{HEAD_BYTES, HEADS, Head, Region, SuperblockMark, highest_serial, newest_head};
use pumice_volume::{Event, Volume};

/// Returns whether a device is being rebuilt, by its superblock: the volume knows the end of it
/// first.
fn recovers(disk: &Disk) -> bool {
    let superblock = V1::decode(&disk.now[SUPERBLOCK as usize..], Metadata::V1_2);
    superblock.is_ok_and(|superblock| superblock.feature_map & Features::RECOVERY_OFFSET != 0)
}

impl World {
    /// The number of members that may be lost yet: beside those that are gone, or cannot be
    /// reached.
    pub(crate) fn may_lose(&self) -> usize {
        let survives = usize::from(self.geometry.raid_disks() - self.geometry.data_disks());
        let missing = self.missing();
        let failing = self.volume.as_ref().map_or_else(Vec::new, Volume::failing);
        let gone = (0..).zip(&self.disks).filter(|(role, disk)| {
            let role = Role(*role);
            disk.lost || !disk.up || missing.contains(&role) || failing.contains(&role) || recovers(disk)
        });
        survives.saturating_sub(gone.count())
    }

    /// Returns whether every role has a device in sync, by the superblocks as well.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing().is_empty() && !self.disks.iter().any(|disk| disk.lost || recovers(disk))
    }

    /// Something happens to a member: it is lost, or cannot be reached, or is back, or another
    /// device takes its role.
    pub(crate) fn change_member(&mut self) {
        let role = Role(self.random.next(self.disks.len() as u64) as u16);
        let (left, i) = (self.may_lose(), role.index());
        let Some(volume) = &self.volume else { return };
        let (missing, empty) = (volume.missing().contains(&role), volume.empty_roles().contains(&role));
        if empty {
            self.bring_back(role);
        } else if !self.disks[i].up {
            self.disks[i].up = true;
            self.event(Event::Returned(role));
        } else if missing {
            // It is being rebuilt. One whose failure is not on record yet is still needed.
            self.disks[i].lost |= recovers(&self.disks[i]) && self.random.chance(30);
        } else if left > 0 && self.random.chance(50) {
            self.disks[i].lost = true;
        } else if left > 0 || !self.disks.iter().any(|disk| disk.lost) {
            self.disks[i].up = false;
        }
    }

    /// A role that is empty gets the device back that had it, or another one.
    pub(crate) fn bring_back(&mut self, role: Role) {
        let disk = &self.disks[role.index()];
        match disk.lost || self.look(disk).is_none() {
            true => self.join(role),
            false => self.rejoin(role),
        }
    }

    /// A drive loses what it had not flushed, and goes on.
    pub(crate) fn forget_unflushed(&mut self, role: Role) {
        self.disks[role.index()].crash(&mut self.random);
    }

    /// The heads of a member's log cannot be read any more.
    pub(crate) fn spoil_heads(&mut self, role: Role) {
        let disk = &self.disks[role.index()];
        let Some(region) = self.look(disk).and_then(|look| look.place.log) else { return };
        let nothing = vec![0xEE; (HEADS * HEAD_BYTES) as usize];
        self.disks[role.index()].put(region.heads(), &nothing);
    }

    /// The header of the record that lies first in a member's log is damaged.
    pub(crate) fn spoil_first_record(&mut self, role: Role) {
        let disk = &self.disks[role.index()];
        let Some(region) = self.look(disk).and_then(|look| look.place.log) else { return };
        self.disks[role.index()].put(region.start, &[0xEE; 4096]);
    }

    /// The head of a log that is taken for an empty one of the generation that the others have.
    pub(super) fn made_up_head(&self, disk: &Disk, superblock: &V1, region: Region) -> Option<Head> {
        let array = Uuid(superblock.set_uuid);
        let role = Role(superblock.dev_roles[superblock.dev_number as usize]);
        let heads =
            (0..).zip(&self.disks).filter(|(_, disk)| disk.up && !disk.lost).filter_map(|(i, disk)| {
                let slots = disk.read(region.heads(), (HEADS * HEAD_BYTES) as usize);
                newest_head(slots, array, Role(i), region)
            });
        let newest = heads.max_by_key(|head| head.generation)?;
        let sum = disk.read(SUPERBLOCK + 216, 4).try_into().unwrap();
        let mark = SuperblockMark { events: superblock.events, sum: u32::from_le_bytes(sum) };
        Some(Head { serial: 0, role, released: 0, last: mark, next: mark, ..newest })
    }

    /// A new device for a role.
    pub(crate) fn join(&mut self, role: Role) {
        let mut content = vec![0; self.disks[role.index()].now.len()];
        // What it held before means nothing.
        content.iter_mut().step_by(97).for_each(|byte| *byte = 0xA5);
        self.join_with(role, &content);
    }

    /// A device that holds something is to take a role.
    pub(crate) fn join_with(&mut self, role: Role, content: &[u8]) {
        let missing = self.missing();
        let there = |(i, disk): &(u16, &Disk)| disk.up && !disk.lost && !missing.contains(&Role(*i));
        // Nobody asks for it while no member can be reached.
        let Some((_, like)) = (0..).zip(&self.disks).find(there) else { return };
        let mut superblock = V1::decode(&like.now[SUPERBLOCK as usize..], Metadata::V1_2).unwrap();
        let mut disk = Disk::new(like.now.len());
        self.next_device += 1;
        superblock.device_uuid = [self.next_device; 16];
        // The first that is free on the medium, which may be one superblock behind.
        let first = |entry| superblock.dev_roles.iter().position(|role| *role == entry);
        // Or no device can come any more: `Volume::numbers_left` tells who asks first.
        let Some(number) = first(ROLE_SPARE).or_else(|| first(ROLE_FAULTY)) else { return };
        superblock.dev_number = number as u32;
        assert!(disk.guard.raise(self.token) && disk.guard.raised().is_some());
        // The places are the same on all.
        let place = self.look(like).unwrap().place;
        disk.put(0, content);
        let heads = place.log.map_or(0, |log| log.heads());
        let serial = highest_serial(disk.read(heads, (HEADS * HEAD_BYTES) as usize));
        self.disks[role.index()] = disk;
        let nonce = self.random.next(u64::MAX);
        let node = self.nodes.as_ref().map(|_| Nodes::node_of(role)).filter(|_| !nonce.is_multiple_of(4));
        self.event(Event::Join {
            role,
            superblock: Box::new(superblock),
            place,
            nonce,
            serial,
            node,
            kept: None,
        });
    }

    /// A member that could not be reached is back and takes its role again. What its drive had not
    /// flushed when its node died is gone.
    pub(crate) fn rejoin(&mut self, role: Role) {
        let disk = &mut self.disks[role.index()];
        disk.crash(&mut self.random);
        disk.up = true;
        let look = self.look(&self.disks[role.index()]).unwrap();
        let heads = look.place.log.map_or(0, |log| log.heads());
        let slots = self.disks[role.index()].read(heads, (HEADS * HEAD_BYTES) as usize);
        let (serial, nonce) = (highest_serial(slots), self.random.next(u64::MAX));
        let node = self.nodes.as_ref().map(|_| Nodes::node_of(role));
        let (superblock, place, kept) = (Box::new(look.superblock), look.place, Some(look.bad));
        self.event(Event::Join { role, superblock, place, nonce, serial, node, kept });
    }
}

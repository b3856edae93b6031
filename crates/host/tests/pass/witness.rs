//! Drives with tags: parity and tags are two witnesses.

use crate::altered::Altered;
use crate::premises::AfterSome;
use crate::world::{Kind, RAID5, RAID6, UUID, World, options, pass};
use pumice_base::units::Role;
use pumice_blockdev::{BlockDevice, MemoryDevice};
use pumice_host::Method;
use pumice_host::finding::{Certainty, Doubt, Misdirected, Says, Strength, Verdict};
use pumice_host::pass::StopReason;
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::{Options, Outcome, run};
use pumice_host::state::StateFiles;
use pumice_host::stop::Stop;
use pumice_protect::guard::Guard;
use pumice_protect::origin::Origin;
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::{DeviceMedium, TaggedDevice};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod rotation;
mod undo;

const POLICIES: [RepairPolicy; 4] =
    [RepairPolicy::Strong, RepairPolicy::Likely, RepairPolicy::Parity, RepairPolicy::None];

/// An array whose drives have tags.
struct Protected {
    world: World,
    geometry: Geometry,
    tags: Vec<Arc<MemoryDevice>>,
    devices: Vec<Arc<TaggedDevice>>,
}

impl Protected {
    /// Written tags, of everything that the drives hold.
    fn written(kind: Kind, block: u32) -> Self {
        let protected = Self::unchecked(kind, block);
        for (raw, device) in protected.world.devices.iter().zip(&protected.devices) {
            device.write_at(0, &raw.content()).unwrap();
            device.flush().unwrap();
        }
        protected
    }

    /// No tags yet.
    fn unchecked(kind: Kind, block: u32) -> Self {
        Self::over(World::new(kind, 11), block)
    }

    fn over(world: World, block: u32) -> Self {
        let size = world.devices[0].size_bytes();
        let geometry = Geometry::new(size, block, 512, Guard::Crc32c, 256 << 10).unwrap();
        let make = |_| {
            let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
            TagFile::create(&medium(&tags), geometry, 5, "").unwrap();
            tags
        };
        let tags: Vec<_> = (0..world.devices.len()).map(make).collect();
        let mut out = Self { world, geometry, tags, devices: Vec::new() };
        out.open();
        out
    }

    /// Opens the tags anew.
    fn open(&mut self) {
        self.devices.clear();
        let pairs = self.world.devices.iter().zip(&self.tags);
        let open = |(drive, tags): (&Arc<_>, &_)| {
            let drive: Arc<dyn BlockDevice> = Arc::clone(drive) as _;
            Arc::new(TaggedDevice::open(drive, medium(tags), "").unwrap())
        };
        self.devices = pairs.map(open).collect();
    }

    fn adopt(&self) {
        for device in &self.devices {
            let blocks = self.geometry.blocks();
            for first in (0..blocks).step_by(1024) {
                device.adopt(first..blocks.min(first + 1024)).unwrap();
            }
        }
    }

    fn scrub(&self, options: &Options) -> Outcome {
        self.scrub_over(1, None, options)
    }

    fn scrub_over(&self, nodes: usize, state: Option<&StateFiles>, options: &Options) -> Outcome {
        let devices: Vec<Arc<dyn BlockDevice>> =
            self.devices.iter().map(|device| Arc::clone(device) as _).collect();
        let outcome = pass(&self.world.target_over(&devices, nodes, &[]), state, options);
        assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
        outcome
    }

    fn repair(&self, policy: RepairPolicy) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        self.scrub_over(1, Some(&state), &Options { repair: Some(policy), ..options(3) })
    }

    /// The number of a block, the same on every member.
    fn block(&self, stripe: u64, at: u64) -> u64 {
        self.world.place(stripe, at) / self.geometry.block_bytes() as u64
    }

    /// Writes through the tags.
    fn write(&self, role: Role, stripe: u64, at: u64, bytes: &[u8]) {
        let device = &self.devices[role.index()];
        device.write_at(self.world.place(stripe, at), bytes).unwrap();
        device.flush().unwrap();
    }

    fn content(&self, role: Role, stripe: u64, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.world.devices[role.index()].read_at(self.world.place(stripe, at), &mut bytes).unwrap();
        bytes
    }
}

fn medium(tags: &Arc<MemoryDevice>) -> SharedMedium {
    SharedMedium(Arc::new(DeviceMedium(Arc::clone(tags) as _)))
}

#[test]
fn one_damaged_member_is_proven_by_every_method_and_repaired() {
    for (kind, block) in [(RAID5, 512), (RAID6, 512), (RAID5, 4096), (RAID6, 4096)] {
        let protected = Protected::written(kind, block);
        let before = protected.world.contents();
        protected.world.damage(Role(2), 7, 5000, 300, 0x11);
        for (method, nodes) in Method::ALL.into_iter().flat_map(|method| [(method, 1), (method, 3)]) {
            let outcome = protected.scrub_over(nodes, None, &Options { method: Some(method), ..options(1) });
            let context = format!("{:?} {block} {method} {nodes}", kind.level);
            let [finding] = &outcome.findings[..] else { panic!("{context}: {:?}", outcome.findings) };
            assert_eq!((finding.stripe, finding.member), (7, Some(2)), "{context}");
            assert_eq!((finding.chunk_offset, finding.length), (5000, 300), "{context}");
            assert_eq!(finding.certainty, Certainty::Proven, "{context}");
            assert_eq!(finding.strength, Strength::Proven, "{context}");
            let witness = finding.witness.as_ref().unwrap();
            assert_eq!((witness.says, witness.origin.as_deref()), (Says::Convicts, Some("written")));
            assert_eq!((witness.guard_bits, witness.mistaken_one_in), (32, Some(1 << 32)));
            let fit = outcome.tags.unwrap();
            assert_eq!(fit[Origin::Adopted as usize], 0, "{context}");
            let size = u64::from(block);
            let all = u64::from(kind.disks) * kind.stripes * kind.chunk / size;
            let differ = 5300_u64.div_ceil(size) - 5000 / size;
            assert_eq!(fit.iter().sum::<u64>() + differ, all, "{context}");
        }
        let outcome = protected.repair(RepairPolicy::Strong);
        assert!(outcome.findings[0].repaired, "{:?}", outcome.findings[0]);
        assert_eq!(protected.world.contents(), before);
        assert!(protected.scrub(&options(4)).findings.is_empty());
        assert!(protected.devices.iter().all(|device| !device.is_stale()));
        assert!(protected.devices.iter().all(|device| device.refused_and_served() == (0, 0)));
    }
}

#[test]
fn two_damaged_members_of_a_stripe_are_both_brought_back() {
    let protected = Protected::written(RAID6, 512);
    let before = protected.world.contents();
    // In the same bytes; in bytes of the same block; in other blocks; and P with data.
    let map = protected.world.geometry.stripe(pumice_base::units::StripeIndex(9));
    for (stripe, a, at, b, other) in [
        (2, Role(0), 4096, Role(3), 4096),
        (5, Role(1), 8192, Role(4), 8192 + 1000),
        (8, Role(1), 0, Role(5), 12288),
        (9, map.p, 100, map.data[1], 90),
    ] {
        protected.world.damage(a, stripe, at, 200, 0x21);
        protected.world.damage(b, stripe, other, 150, 0x42);
    }
    let outcome = protected.scrub(&options(1));
    assert!(outcome.findings.iter().all(|f| f.certainty == Certainty::Proven), "{:?}", outcome.findings);
    let pair = outcome.findings.iter().find(|f| f.stripe == 2).unwrap();
    assert_eq!((pair.verdict, pair.members.as_slice()), (Verdict::Several, &[0, 3][..]));
    assert_eq!(pair.witness.as_ref().unwrap().mistaken_one_in, Some(u64::MAX));
    let outcome = protected.repair(RepairPolicy::Strong);
    assert!(outcome.findings.iter().all(|f| f.repaired), "{:?}", outcome.findings);
    assert_eq!(protected.world.contents(), before);
}

/// Tags of data that were never there, in whole pages; and pages that are lost.
#[test]
fn damaged_tags_alone_never_lead_to_a_write_of_data() {
    for kind in [RAID5, RAID6] {
        let mut protected = Protected::written(kind, 512);
        // Written through the node, and put back behind its back: only the tags are wrong.
        for (role, stripe, at) in [(Role(1), 3, 512), (Role(2), 3, 512), (Role(4), 11, 8192)] {
            let before = protected.content(role, stripe, at, 512);
            protected.write(role, stripe, at, &[0x5A; 512]);
            protected.world.devices[role.index()]
                .write_at(protected.world.place(stripe, at), &before)
                .unwrap();
            protected.world.devices[role.index()].flush().unwrap();
        }
        protected.devices.iter().for_each(|device| device.close().unwrap());
        protected.devices.clear();
        let block = protected.block(15, 0);
        let (page, _) = protected.geometry.place(block);
        protected.tags[3].write_at(protected.geometry.page_at(page) + 40, &[0x99; 3]).unwrap();
        protected.open();
        let before = protected.world.contents();
        let outcome = protected.scrub(&options(1));
        let of = |verdict| outcome.findings.iter().filter(move |f| f.verdict == verdict);
        let places: Vec<_> =
            of(Verdict::TagDamaged).map(|f| (f.stripe, f.chunk_offset, f.length, f.certainty)).collect();
        assert_eq!(places, [(3, 512, 512, Certainty::Likely), (11, 8192, 512, Certainty::Likely)]);
        assert_eq!(of(Verdict::TagDamaged).next().unwrap().members, [1, 2]);
        assert!(of(Verdict::TagLost).all(|f| f.member == Some(3)) && of(Verdict::TagLost).count() > 0);
        assert_eq!(outcome.findings.len(), 2 + of(Verdict::TagLost).count(), "{:?}", outcome.findings);
        for policy in POLICIES {
            let outcome = protected.repair(policy);
            assert!(outcome.findings.iter().all(|f| !f.repaired && f.left_alone.is_some()));
            assert_eq!(protected.world.contents(), before, "{policy}");
        }
    }
}

/// A damaged tag beside damaged data, on another member of the same bytes: the data are brought
/// back, the tag is named, and its data are not touched.
#[test]
fn a_damaged_tag_beside_damaged_data_is_told_apart() {
    for kind in [RAID5, RAID6] {
        let protected = Protected::written(kind, 512);
        let before = protected.world.contents();
        let good = protected.content(Role(1), 3, 512, 512);
        protected.write(Role(1), 3, 512, &[0x5A; 512]);
        let raw = &protected.world.devices[1];
        raw.write_at(protected.world.place(3, 512), &good).unwrap();
        raw.flush().unwrap();
        protected.world.damage(Role(4), 3, 600, 20, 0x7);
        let outcome = protected.repair(RepairPolicy::Strong);
        let damaged = outcome.findings.iter().find(|f| f.member == Some(4)).unwrap();
        assert!(damaged.repaired && damaged.certainty == Certainty::Proven, "{damaged:?}");
        let tag = outcome.findings.iter().find(|f| f.verdict == Verdict::TagDamaged).unwrap();
        assert_eq!((tag.member, tag.repaired), (Some(1), false));
        assert_eq!(protected.world.contents(), before);
    }
}

#[test]
fn adopted_tags_never_acquit_and_tags_that_came_with_the_data_do() {
    // Damaged before the tags were made: they fit, and say nothing.
    let world = World::new(RAID6, 11);
    let before = world.contents();
    world.damage(Role(2), 7, 5000, 300, 0x11);
    world.damage(Role(2), 7, 5100, 100, 0x36);
    world.damage(Role(2), 7, 5200, 50, 0x77);
    world.damage(Role(2), 7, 5250, 10, 0x3);
    let protected = Protected::over(world, 512);
    protected.adopt();
    let [finding] = &protected.scrub(&options(1)).findings[..] else { panic!("one finding") };
    assert_eq!((finding.member, finding.certainty, &finding.witness), (Some(2), Certainty::Likely, &None));
    assert_eq!(finding.strength, Strength::Strong, "{:?}", finding.doubts);
    assert!(protected.repair(RepairPolicy::Strong).findings[0].repaired);
    assert_eq!(protected.world.contents(), before);
    // The same bytes, lost together with their tags.
    let protected = Protected::written(RAID6, 512);
    let mut wrong = protected.content(Role(2), 7, 4608, 1024);
    wrong.iter_mut().enumerate().skip(400).take(300).for_each(|(i, byte)| *byte ^= i as u8 | 1);
    protected.write(Role(2), 7, 4608, &wrong);
    let damaged = protected.world.contents();
    let [finding] = &protected.scrub(&options(1)).findings[..] else { panic!("one finding") };
    assert_eq!((finding.member, finding.certainty), (Some(2), Certainty::Likely));
    assert_eq!((finding.strength, finding.doubts.as_slice()), (Strength::Weak, &[Doubt::Acquitted][..]));
    assert_eq!(finding.witness.as_ref().unwrap().says, Says::Acquits);
    assert!(!protected.repair(RepairPolicy::Strong).findings[0].repaired);
    assert_eq!(protected.world.contents(), damaged);
}

#[test]
fn a_pass_that_began_without_tags_is_not_resumed_with_them() {
    let protected = Protected::written(RAID6, 512);
    let folder = tempfile::tempdir().unwrap();
    let state = StateFiles::open(folder.path(), UUID).unwrap();
    let flag = Stop::new();
    let base = Options { batch: Some(4), ..options(1) };
    let bare = protected.world.target(1, &[]);
    let stopped = run(&bare, Some(&state), &base, &mut AfterSome(&flag), &flag).unwrap();
    assert_eq!(stopped.stopped, Some(StopReason::Interrupted));
    let outcome = protected.scrub_over(1, Some(&state), &Options { resume: true, batch: None, ..options(1) });
    let blocks = RAID6.chunk / 512 * u64::from(RAID6.disks) * RAID6.stripes;
    assert_eq!(outcome.tags.unwrap()[Origin::Written as usize], blocks, "every tag was compared");
}

#[test]
fn adopted_tags_convict_without_proof_and_vouched_ones_prove() {
    for vouch in [false, true] {
        let protected = Protected::unchecked(RAID5, 512);
        protected.world.damage(Role(0), 2, 0, 100, 0x31);
        protected.adopt();
        let outcome = protected.scrub(&Options { vouch, ..options(1) });
        let [finding] = &outcome.findings[..] else { panic!("{:?}", outcome.findings) };
        assert_eq!((finding.verdict, finding.stripe), (Verdict::Unlocated, 2), "adopted as it was");
        let chunks = RAID5.chunk / 512 * u64::from(RAID5.disks);
        assert_eq!(outcome.vouched, if vouch { chunks * (RAID5.stripes - 1) } else { 0 });
        let before = protected.world.contents();
        protected.world.damage(Role(1), 6, 512, 100, 0x31);
        let outcome = protected.scrub(&options(2));
        let finding = outcome.findings.iter().find(|f| f.stripe == 6).unwrap();
        let expected = match vouch {
            true => (Certainty::Proven, Strength::Proven, "vouched"),
            false => (Certainty::Likely, Strength::Strong, "adopted"),
        };
        let origin = finding.witness.as_ref().unwrap().origin.clone().unwrap();
        assert_eq!((finding.certainty, finding.strength, origin.as_str()), expected);
        assert_eq!(finding.member, Some(1));
        protected.repair(RepairPolicy::Strong);
        assert_eq!(protected.world.contents(), before, "and what could not be located stays");
        // Vouched tags stay so over a restart, and the stripe with damage was not vouched for.
        let of = protected.devices[0].judge(protected.block(2, 0)..protected.block(2, 0) + 1);
        assert_eq!(of.unwrap(), [pumice_protect::origin::Opinion::Fits(Origin::Adopted)]);
    }
}

#[test]
fn a_damaged_block_beside_a_lost_sector_comes_back_with_it() {
    let protected = Protected::written(RAID6, 512);
    let before = protected.world.contents();
    protected.world.damage(Role(2), 7, 5000, 300, 0x11);
    let lost = protected.world.place(7, 4608);
    protected.world.devices[4].lose(lost..lost + 512);
    let outcome = protected.repair(RepairPolicy::Strong);
    assert!(outcome.findings.iter().any(|f| f.member == Some(2) && f.repaired), "{:?}", outcome.findings);
    assert_eq!(protected.world.contents(), before);
    assert!(protected.scrub(&options(4)).findings.is_empty());
}

/// The last equation would make a lost block from bytes that their own tag calls wrong.
#[test]
fn lost_sectors_are_not_rebuilt_from_a_member_that_its_tag_calls_wrong() {
    let protected = Protected::written(RAID5, 512);
    let lost = protected.world.place(7, 4096);
    protected.world.devices[1].lose(lost..lost + 4096);
    protected.world.damage(Role(2), 7, 5000, 30, 0x11);
    let before = protected.world.contents();
    for policy in POLICIES {
        let outcome = protected.repair(policy);
        assert!(!outcome.findings.iter().any(|f| f.repaired), "{policy:?}: {:?}", outcome.findings);
        assert!(!outcome.findings.iter().any(|f| f.verdict == Verdict::TagDamaged), "{:?}", outcome.findings);
        assert_eq!(protected.world.contents(), before, "{policy:?}");
    }
    // Nothing is against the other members of another stripe: there it is rebuilt.
    let lost = protected.world.place(9, 4096);
    protected.world.devices[1].lose(lost..lost + 4096);
    let outcome = protected.repair(RepairPolicy::Strong);
    assert!(outcome.findings.iter().any(|f| f.stripe == 9 && f.repaired), "{:?}", outcome.findings);
}

/// The stripe has a sector that parity alone calls wrong, because its member has no tag there, and
/// another one that tags convict.
#[test]
fn parity_is_not_computed_from_data_that_tags_convict() {
    let protected = Protected::unchecked(RAID5, 512);
    for (role, device) in protected.devices.iter().enumerate() {
        let content = protected.world.devices[role].content();
        let hole = protected.world.place(7, 4096) as usize;
        for range in [0..hole, hole + 512..content.len()] {
            device.write_at(range.start as u64, &content[range]).unwrap();
        }
        device.flush().unwrap();
    }
    let good = protected.world.contents();
    protected.world.damage(Role(3), 7, 4096, 20, 0x21);
    protected.world.damage(Role(1), 7, 4096 + 2048, 30, 0x11);
    let outcome = protected.repair(RepairPolicy::Parity);
    let convicted = outcome.findings.iter().find(|f| f.member == Some(1)).unwrap();
    assert!(convicted.repaired && convicted.is_convicted(), "{:?}", outcome.findings);
    let place = protected.world.place(7, 4096 + 2048) as usize;
    let now = protected.world.contents();
    assert_eq!(now[1][place..place + 512], good[1][place..place + 512], "member 1 is as it was written");
    assert!(protected.scrub(&options(5)).findings.is_empty());
}

/// A drive with tags of 4096-byte blocks takes whole blocks, whatever its sectors are.
#[test]
fn bytes_that_read_well_are_repaired_on_drives_with_large_tag_blocks() {
    let world = World::new(RAID6, 11);
    let before = world.contents();
    // Damaged before the tags were made, so that parity alone finds it.
    for (start, len, by) in [(5000, 300, 0x11), (5100, 100, 0x36), (5200, 50, 0x77), (5250, 10, 0x3)] {
        world.damage(Role(2), 7, start, len, by);
    }
    let protected = Protected::over(world, 4096);
    protected.adopt();
    let outcome = protected.repair(RepairPolicy::Strong);
    assert!(outcome.findings[0].repaired, "{:?}", outcome.findings);
    assert_eq!(protected.world.contents(), before);
}

#[test]
fn a_batch_counts_once_if_the_connection_is_lost_while_it_vouches() {
    let protected = Protected::unchecked(RAID5, 512);
    protected.adopt();
    let devices = protected.devices.iter().map(|device| Arc::clone(device) as _).collect();
    let node = Altered { drops: AtomicBool::new(true), ..Altered::over(devices) };
    let target = protected.world.on(node, protected.world.array(&[]));
    let outcome = pass(&target, None, &Options { vouch: true, ..options(1) });
    assert_eq!((outcome.reconnections, &outcome.stopped), (1, &None));
    assert_eq!(outcome.stripes_checked, RAID5.stripes, "each once");
    assert!(outcome.is_complete());
    assert_eq!(outcome.vouched, RAID5.chunk / 512 * u64::from(RAID5.disks) * RAID5.stripes);
}

#[test]
fn a_lost_sector_that_comes_back_with_a_damaged_block_is_reported_repaired() {
    // One in the damaged block; and another beside it, which is rebuilt at the next look.
    for (places, dry) in [(&[4608][..], false), (&[4608], true), (&[4608, 6144], false)] {
        let protected = Protected::written(RAID6, 512);
        let before = protected.world.contents();
        protected.world.damage(Role(2), 7, 5000, 300, 0x11);
        for at in places {
            let lost = protected.world.place(7, *at);
            protected.world.devices[4].lose(lost..lost + 512);
        }
        let folder = tempfile::tempdir().unwrap();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let repair = Some(RepairPolicy::Strong);
        let outcome = protected.scrub_over(1, Some(&state), &Options { repair, dry_run: dry, ..options(3) });
        assert!(outcome.findings.iter().any(|f| f.verdict == Verdict::Unreadable));
        for finding in &outcome.findings {
            assert_eq!((finding.repaired, finding.would_repair), (!dry, dry), "{finding:?}");
            assert_eq!(finding.left_alone, None);
        }
        assert_eq!(protected.world.devices[4].lost_sectors().is_empty(), !dry);
        assert_eq!(protected.world.contents() == before, !dry);
    }
}

/// Bytes that no equation confirms, and that a tag speaks against, are no source for anything.
#[test]
fn nothing_is_computed_from_blocks_that_differ_from_their_tags() {
    for (kind, damaged, lost) in [(RAID5, &[2][..], &[4][..]), (RAID6, &[2], &[4, 5])] {
        let protected = Protected::written(kind, 512);
        damaged.iter().for_each(|role| protected.world.damage(Role(*role), 7, 5000, 300, 0x11));
        let place = protected.world.place(7, 5120);
        lost.iter().for_each(|role| protected.world.devices[*role as usize].lose(place..place + 512));
        let before = protected.world.contents();
        for policy in POLICIES {
            let outcome = protected.repair(policy);
            let unreadable: Vec<_> =
                outcome.findings.iter().filter(|f| f.verdict == Verdict::Unreadable).collect();
            assert!(!unreadable.is_empty());
            assert!(unreadable.iter().all(|f| !f.repaired && f.left_alone.is_some()), "{policy}");
            let still = |role: &u16| protected.world.devices[*role as usize].lost_sectors().len() == 1;
            assert!(lost.iter().all(still), "{:?} {policy}: rebuilt from damaged blocks", kind.level);
        }
        // The damage beside the lost sectors is proven and was restored. No other byte changed.
        let after = protected.world.contents();
        for (role, (before, after)) in before.iter().zip(&after).enumerate() {
            assert!(before == after || damaged.contains(&(role as u16)), "{:?} {role}", kind.level);
        }
    }
    // More damaged members than parity can bring back: parity is not made to fit them.
    for (kind, damaged) in [(RAID5, &[1, 2][..]), (RAID6, &[1, 2, 3])] {
        let protected = Protected::written(kind, 512);
        for role in damaged {
            protected.world.damage(Role(*role), 7, 4608, 300, 0x11 * *role as u8);
        }
        let before = protected.world.contents();
        for policy in POLICIES {
            let outcome = protected.repair(policy);
            assert_eq!(outcome.findings[0].verdict, Verdict::Ambiguous);
            assert!(outcome.findings.iter().all(|f| !f.repaired && f.left_alone.is_some()), "{policy}");
            assert_eq!(protected.world.contents(), before, "{:?} {policy}", kind.level);
        }
    }
}

#[test]
fn a_misdirected_write_is_named_with_the_place_where_it_belongs() {
    for (kind, block) in [(RAID5, 512), (RAID6, 4096)] {
        let protected = Protected::written(kind, block);
        let before = protected.world.contents();
        // A write of 8 KiB, meant for stripe 4, went to stripe 13 of the same drive.
        let (old, new) = (vec![0x33; 8192], protected.content(Role(1), 4, 4096, 8192));
        let raw = &protected.world.devices[1];
        raw.write_at(protected.world.place(13, 0), &new).unwrap();
        raw.write_at(protected.world.place(4, 4096), &old).unwrap();
        // And other damage, which is only that.
        protected.world.damage(Role(2), 8, 0, 700, 0x42);
        protected.world.damage(Role(1), 9, 0, 700, 0x42);
        for repair in [false, true] {
            let outcome =
                if repair { protected.repair(RepairPolicy::Strong) } else { protected.scrub(&options(1)) };
            assert_eq!(outcome.findings.len(), 4, "{:?}", outcome.findings);
            for finding in &outcome.findings {
                let expected = (finding.stripe == 13).then(|| Misdirected {
                    member: 1,
                    device_offset: protected.world.place(13, 0),
                    belongs_at: protected.world.place(4, 4096),
                });
                assert_eq!((finding.misdirected, finding.certainty), (expected, Certainty::Proven));
                assert_eq!(finding.repaired, repair);
            }
        }
        assert_eq!(protected.world.contents(), before);
    }
}

/// A parity pass over many damaged blocks refuses nothing, so it does not make the tags stale.
#[test]
fn many_damaged_blocks_do_not_make_the_tags_stale_in_a_scrub() {
    let protected = Protected::written(RAID5, 512);
    let before = protected.world.contents();
    for stripe in 0..20 {
        protected.world.damage(Role(3), stripe, 0, 8192, 0x42);
    }
    let outcome = protected.repair(RepairPolicy::Strong);
    assert_eq!(outcome.findings.len(), 20);
    assert!(outcome.findings.iter().all(|f| f.repaired), "{:?}", outcome.findings);
    assert_eq!(protected.world.contents(), before);
    assert!(!protected.devices[3].is_stale());
}

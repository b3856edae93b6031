//! Copies on drives with tags: which of them is wrong is proven, of two copies too.

use super::{CHUNK, DATA, Kind, Mirror, UUID, all, copies_of};
use crate::world::{options, pass};
use pumice_blockdev::{BlockDevice, MemoryDevice};
use pumice_host::Method;
use pumice_host::finding::{Certainty, Doubt, Finding, Says, Strength, Verdict};
use pumice_host::repair::RepairPolicy;
use pumice_host::scrub::{Options, Outcome};
use pumice_host::state::StateFiles;
use pumice_protect::guard::Guard;
use pumice_tags::file::{SharedMedium, TagFile};
use pumice_tags::geometry::Geometry;
use pumice_tags::{DeviceMedium, TaggedDevice};
use std::sync::Arc;

const POLICIES: [RepairPolicy; 4] =
    [RepairPolicy::Strong, RepairPolicy::Likely, RepairPolicy::Parity, RepairPolicy::None];

/// A mirror whose drives have written tags of everything that they hold.
struct Protected {
    mirror: Mirror,
    devices: Vec<Arc<TaggedDevice>>,
}

impl Protected {
    fn new(mirror: Mirror, block: u32) -> Self {
        let size = mirror.devices[0].size_bytes();
        let geometry = Geometry::new(size, block, 512, Guard::Crc32c, 256 << 10).unwrap();
        let protect = |drive: &Arc<_>| {
            let tags = Arc::new(MemoryDevice::new("tags", geometry.file_bytes()));
            let medium = SharedMedium(Arc::new(DeviceMedium(tags)));
            TagFile::create(&medium, geometry, 5, "").unwrap();
            let drive: Arc<dyn BlockDevice> = Arc::clone(drive) as _;
            let mut content = vec![0; size as usize];
            drive.read_at(0, &mut content).unwrap();
            let device = TaggedDevice::open(drive, medium, "").unwrap();
            device.write_at(0, &content).unwrap();
            device.flush().unwrap();
            Arc::new(device)
        };
        let devices = mirror.devices.iter().map(protect).collect();
        Self { mirror, devices }
    }

    fn pass(&self, nodes: usize, state: Option<&StateFiles>, options: &Options) -> Outcome {
        let devices: Vec<Arc<dyn BlockDevice>> = self.devices.iter().map(|d| Arc::clone(d) as _).collect();
        let outcome = pass(&self.mirror.target_over(&devices, nodes, &[]), state, options);
        assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
        outcome
    }

    fn scrub(&self) -> Vec<Finding> {
        self.pass(1, None, &options(3)).findings
    }

    fn repair(&self, policy: RepairPolicy) -> Vec<Finding> {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        self.pass(1, Some(&state), &Options { repair: Some(policy), ..options(3) }).findings
    }

    /// Writes a block of one copy of a unit through its tags.
    fn write(&self, unit: u64, copy: usize, at: u64, bytes: &[u8]) {
        let (role, place) = self.mirror.copies()[&unit][copy];
        let device = &self.devices[role as usize];
        device.write_at(DATA + place + at, bytes).unwrap();
        device.flush().unwrap();
    }

    /// Nothing is written under any policy.
    fn is_left_alone(&self, context: &str) {
        let before = self.mirror.contents();
        for policy in POLICIES {
            let findings = self.repair(policy);
            assert!(findings.iter().all(|f| !f.repaired && f.left_alone.is_some()), "{context} {policy}");
            assert!(self.mirror.contents() == before, "{context} {policy}: something was written");
        }
    }
}

fn of_two_copies() -> Vec<Mirror> {
    let kinds = [(Kind::Raid1, 2), (Kind::Near(2), 3), (Kind::Far(2), 4), (Kind::Offset(2), 3)];
    kinds.into_iter().map(|(kind, roles)| Mirror::new(kind, roles)).collect()
}

#[test]
fn a_copy_that_tags_prove_wrong_is_named_by_every_method_and_restored_in_every_layout() {
    for (mirror, block) in all().into_iter().zip([512, 4096].into_iter().cycle()) {
        let protected = Protected::new(mirror, block);
        let mirror = &protected.mirror;
        let before = mirror.contents();
        for (i, method) in Method::ALL.into_iter().enumerate() {
            let unit = 2 + i as u64;
            let copy = i % copies_of(mirror) as usize;
            let (role, place) = mirror.damage(unit, copy, 100, 60);
            let nodes = 1 + i % 3.min(mirror.roles as usize);
            let found = protected.pass(nodes, None, &Options { method: Some(method), ..options(3) });
            let context = format!("{:?} {} {block} {method}: {found:#?}", mirror.kind, mirror.roles);
            let [finding] = &found.findings[..] else { panic!("{context}") };
            assert_eq!((finding.verdict, finding.member), (Verdict::Copy, Some(role as u16)), "{context}");
            assert_eq!((finding.device_offset, finding.length), (Some(place), 60), "{context}");
            assert_eq!(
                (finding.certainty, finding.strength),
                (Certainty::Proven, Strength::Proven),
                "{context}"
            );
            assert_eq!(finding.witness.as_ref().unwrap().says, Says::Convicts, "{context}");
            let policy = POLICIES[i % 3];
            assert!(protected.repair(policy)[0].repaired, "{context} {policy}");
            assert!(mirror.contents() == before, "{context} {policy}");
            assert_eq!(protected.scrub(), []);
        }
    }
}

#[test]
fn two_copies_that_are_wrong_in_different_blocks_are_both_restored() {
    for mirror in of_two_copies() {
        let protected = Protected::new(mirror, 512);
        let mirror = &protected.mirror;
        let before = mirror.contents();
        let far = if mirror.kind == Kind::Raid1 { (6, 0) } else { (2, 2048) };
        let (one, _) = mirror.damage(2, 0, 100, 60);
        let (other, _) = mirror.damage(far.0, 1, far.1, 60);
        let findings = protected.repair(RepairPolicy::Strong);
        let mut named: Vec<_> = findings.iter().map(|f| (f.member.map(u64::from), f.repaired)).collect();
        named.sort_unstable();
        let mut expected = [(Some(one), true), (Some(other), true)];
        expected.sort_unstable();
        assert_eq!(named, expected, "{:?}", mirror.kind);
        assert!(mirror.contents() == before, "{:?}", mirror.kind);
    }
}

#[test]
fn two_copies_that_are_both_wrong_in_the_same_block_are_left_alone() {
    for mirror in of_two_copies() {
        let protected = Protected::new(mirror, 512);
        let mirror = &protected.mirror;
        mirror.damage(2, 0, 100, 60);
        mirror.damage(2, 1, 100, 60);
        let [finding] = &protected.scrub()[..] else { panic!("{:?}", mirror.kind) };
        assert_eq!((finding.verdict, finding.certainty), (Verdict::Ambiguous, Certainty::None));
        protected.is_left_alone(&format!("{:?}", mirror.kind));
    }
}

/// A write that reached one drive, with its tag, and not the other; or lost with its tag.
#[test]
fn copies_that_differ_and_fit_their_tags_are_left_alone() {
    for mirror in of_two_copies() {
        let protected = Protected::new(mirror, 512);
        protected.write(2, 1, 0, &[0x5A; 512]);
        let [finding] = &protected.scrub()[..] else { panic!("{:?}", protected.mirror.kind) };
        assert_eq!((finding.verdict, finding.member), (Verdict::CopiesDiffer, None));
        protected.is_left_alone(&format!("{:?}", protected.mirror.kind));
    }
    // One of three: the others outvote it, and its own tag acquits it.
    let protected = Protected::new(Mirror::new(Kind::Raid1, 3), 512);
    let bytes: Vec<u8> = (0..512).map(|i| (i * 7) as u8).collect();
    protected.write(2, 1, 0, &bytes);
    let [finding] = &protected.scrub()[..] else { panic!("one finding") };
    assert_eq!((finding.verdict, finding.member), (Verdict::Copy, Some(1)));
    assert_eq!((finding.strength, finding.doubts.as_slice()), (Strength::Weak, &[Doubt::Acquitted][..]));
    let before = protected.mirror.contents();
    assert!(!protected.repair(RepairPolicy::Strong)[0].repaired);
    assert!(protected.mirror.contents() == before);
}

#[test]
fn a_damaged_tag_of_a_copy_is_no_reason_to_write_data() {
    for mirror in of_two_copies() {
        let protected = Protected::new(mirror, 512);
        let (role, place) = protected.mirror.copies()[&2][0];
        let mut good = vec![0; 512];
        protected.mirror.devices[role as usize].read_at(DATA + place, &mut good).unwrap();
        protected.write(2, 0, 0, &[0x5A; 512]);
        protected.mirror.write(role, place, &good);
        let [finding] = &protected.scrub()[..] else { panic!("{:?}", protected.mirror.kind) };
        assert_eq!((finding.verdict, finding.member), (Verdict::TagDamaged, Some(role as u16)));
        protected.is_left_alone(&format!("{:?}", protected.mirror.kind));
    }
}

#[test]
fn a_lost_sector_comes_back_from_the_copy_that_fits_its_tag_and_from_no_other() {
    for (roles, restored) in [(2, false), (3, true)] {
        for kind in [Kind::Raid1, Kind::Near(roles)] {
            let protected = Protected::new(Mirror::new(kind, roles), 512);
            let mirror = &protected.mirror;
            let before = mirror.contents();
            let (role, place) = mirror.copies()[&2][0];
            mirror.damage(2, 1, 100, 60);
            let lost = DATA + place;
            assert!(mirror.kind == Kind::Raid1 || mirror.unit_bytes() == CHUNK);
            mirror.devices[role as usize].lose(lost..lost + 512);
            let findings = protected.repair(RepairPolicy::Strong);
            assert!(findings.iter().any(|f| f.verdict == Verdict::Unreadable), "{kind:?}: {findings:#?}");
            for finding in &findings {
                assert_eq!(finding.repaired, restored, "{kind:?} {roles}: {finding:#?}");
            }
            assert_eq!(mirror.devices[role as usize].lost_sectors().is_empty(), restored);
            assert_eq!(mirror.contents() == before, restored);
        }
    }
}

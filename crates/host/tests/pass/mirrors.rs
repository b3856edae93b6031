//! Arrays of copies. The model that fills them is written from md's description of near, far and
//! offset, and knows nothing of the layouts of the product: it says where each copy of a chunk
//! lies, one rule for each kind.

mod tags;

use crate::world::{noise, options, pass, patch};
use pumice_blockdev::{BlockDevice, FaultyDevice};
use pumice_host::Method;
use pumice_host::finding::{Strength, Verdict};
use pumice_host::repair::RepairPolicy;
use pumice_host::report::{ArrayResult, Report};
use pumice_host::scrub::{Options, Outcome};
use pumice_host::state::StateFiles;
use pumice_host::target::{Member, Target};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{DataNode, DriveId};
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::ROLE_FAULTY;
use pumice_raid::{AssemblyError, FormatSpec, InspectReport, MemberRecord, Metadata, Uuid, assemble, probe};
use std::collections::BTreeMap;
use std::sync::Arc;

const CHUNK: u64 = 8192;
const DATA: u64 = 1 << 20;
/// Place of a bitmap.
const BITMAP: u64 = 8192;
const BLOCK: u64 = 4096;
const UUID: Uuid = Uuid([9; 16]);

/// An array of copies, by md's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Raid1,
    Near(u64),
    Far(u64),
    Offset(u64),
    /// Near copies that far copies repeat.
    NearFar(u64, u64),
}

struct Mirror {
    kind: Kind,
    roles: u64,
    /// Bytes that a member gives.
    component: u64,
    devices: Vec<Arc<FaultyDevice>>,
}

impl Mirror {
    /// Sectors of a member: an odd number for RAID-1, which has no chunk.
    fn new(kind: Kind, roles: u64) -> Self {
        let component = match kind {
            Kind::Raid1 => 2 * 65536 + 7 * 512,
            _ => 12 * CHUNK,
        };
        let (level, layout) = match kind {
            Kind::Raid1 => (1, 0),
            Kind::Near(n) => (10, 0x100 | n),
            Kind::Far(f) => (10, f << 8 | 1),
            Kind::Offset(f) => (10, 1 << 16 | f << 8 | 1),
            Kind::NearFar(n, f) => (10, f << 8 | n),
        };
        // The writer makes arrays with parity; level, layout and sizes are put in afterwards.
        let format = FormatSpec {
            metadata: Metadata::V1_2,
            level: Level::Raid5,
            layout: Some(Layout::LeftSymmetric),
            chunk_bytes: CHUNK,
            component_bytes: None,
            device_bytes: vec![DATA + component.next_multiple_of(CHUNK); roles as usize],
            array_uuid: UUID,
            device_uuids: (0..roles).map(|i| Uuid([i as u8 + 1; 16])).collect(),
            name: "test:mirror".to_owned(),
            ctime: 1_700_000_000,
            bitmap: true,
            bad_block_log: true,
            data_offset: Some(DATA),
        };
        let format = format.format().unwrap();
        let devices: Vec<Arc<FaultyDevice>> = (0..roles as usize)
            .map(|i| {
                // What no chunk covers holds something else on every member.
                let mut next = noise(i as u64 + 77);
                let size = DATA + component.next_multiple_of(CHUNK);
                let mut content: Vec<u8> = (0..size).map(|_| next() as u8).collect();
                content[..DATA as usize].fill(0);
                for (offset, bytes) in &format.members[i].writes {
                    content[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
                }
                Arc::new(FaultyDevice::new(&format!("d{i}"), content, i as u64))
            })
            .collect();
        for device in &devices {
            patch(device, |s| {
                (s.level, s.layout, s.size) = (level, layout as u32, component / 512);
                s.chunk = if level == 1 { 0 } else { (CHUNK / 512) as u32 };
            });
        }
        let mirror = Self { kind, roles, component, devices };
        // A bitmap covers the sectors of a RAID-1's member, and of a RAID-10's array.
        let sectors = mirror.copies().len() as u64 * mirror.unit_bytes() / 512;
        mirror
            .devices
            .iter()
            .for_each(|device| device.write_at(BITMAP + 40, &sectors.to_le_bytes()).unwrap());
        for (unit, copies) in mirror.copies() {
            let mut next = noise(unit + 1);
            let bytes: Vec<u8> = (0..mirror.unit_bytes()).map(|_| next() as u8).collect();
            copies.iter().for_each(|(role, at)| mirror.write(*role, *at, &bytes));
        }
        mirror
    }

    /// Every chunk (of RAID-1 every sector) with the roles and bytes of its copies.
    fn copies(&self) -> BTreeMap<u64, Vec<(u64, u64)>> {
        let (r, rows) = (self.roles, self.component / CHUNK);
        let chunk = |c: u64| -> Vec<(u64, u64)> {
            let cells: Vec<(u64, u64)> = match self.kind {
                Kind::Raid1 => return (0..r).map(|role| (role, c * 512)).collect(),
                Kind::Near(n) => (0..n).map(|j| ((c * n + j) % r, (c * n + j) / r)).collect(),
                Kind::Far(f) => (0..f).map(|k| ((c + k) % r, c / r + k * (rows / f))).collect(),
                Kind::Offset(f) => (0..f).map(|k| ((c + k) % r, c / r * f + k)).collect(),
                Kind::NearFar(n, f) => (0..n)
                    .flat_map(|j| (0..f).map(move |k| (c * n + j, k)))
                    .map(|(p, k)| ((p + k * n) % r, p / r + k * (rows / f)))
                    .collect(),
            };
            cells.into_iter().map(|(role, row)| (role, row * CHUNK)).collect()
        };
        let count = match self.kind {
            Kind::Raid1 => self.component / 512,
            Kind::Near(n) => rows * r / n,
            Kind::Far(f) | Kind::Offset(f) => rows / f * r,
            Kind::NearFar(n, f) => rows / f * r / n,
        };
        (0..count).map(|c| (c, chunk(c))).collect()
    }

    fn unit_bytes(&self) -> u64 {
        if self.kind == Kind::Raid1 { 512 } else { CHUNK }
    }

    fn write(&self, role: u64, at: u64, bytes: &[u8]) {
        let device = &self.devices[role as usize];
        device.write_at(DATA + at, bytes).unwrap();
        device.flush().unwrap();
    }

    /// Other bytes, of many values, over a part of one copy of a unit.
    fn damage(&self, unit: u64, copy: usize, at: u64, len: usize) -> (u64, u64) {
        let (role, place) = self.copies()[&unit][copy];
        let mut next = noise(unit * 31 + copy as u64);
        let mut bytes = vec![0; len];
        self.devices[role as usize].read_at(DATA + place + at, &mut bytes).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= (next() as u8).max(1));
        self.write(role, place + at, &bytes);
        (role, DATA + place + at)
    }

    /// Contents of all copies of each block of 4096 bytes of the array, by address.
    fn blocks(&self) -> BTreeMap<u64, Vec<(u64, Vec<u8>)>> {
        let contents = self.contents();
        let mut out: BTreeMap<u64, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
        for (unit, copies) in self.copies() {
            for part in (0..self.unit_bytes()).step_by(BLOCK.min(self.unit_bytes()) as usize) {
                let address = unit * self.unit_bytes() + part;
                let copies_there = out.entry(address / BLOCK * BLOCK).or_default();
                for (role, place) in &copies {
                    let from = (DATA + place + part) as usize;
                    let bytes = &contents[*role as usize][from..][..BLOCK.min(self.unit_bytes()) as usize];
                    match copies_there.iter_mut().find(|(there, _)| there == role) {
                        Some((_, all)) => all.extend(bytes),
                        None => copies_there.push((*role, bytes.to_vec())),
                    }
                }
            }
        }
        out
    }

    /// Expected finding for each block whose copies are not all the same: the verdict, the member
    /// that it names, and the first and last byte that differ, as addresses of the array.
    fn expected(&self) -> BTreeMap<u64, (Verdict, Option<u16>, u64, u64)> {
        let mut out = BTreeMap::new();
        for (address, copies) in self.blocks() {
            let differs = |at: &usize| copies.iter().any(|(_, bytes)| bytes[*at] != copies[0].1[*at]);
            let bad: Vec<usize> = (0..copies[0].1.len()).filter(differs).collect();
            let (Some(first), Some(last)) = (bad.first(), bad.last()) else { continue };
            let alone = |i: &usize| {
                let others: Vec<&Vec<u8>> =
                    copies.iter().enumerate().filter(|(j, _)| j != i).map(|(_, (_, bytes))| bytes).collect();
                others.len() > 1 && others.iter().all(|bytes| *bytes == others[0])
            };
            let said = match (0..copies.len()).find(alone) {
                Some(i) => (Verdict::Copy, Some(copies[i].0 as u16)),
                None => (Verdict::CopiesDiffer, None),
            };
            out.insert(address, (said.0, said.1, address + *first as u64, address + *last as u64));
        }
        out
    }

    fn records(&self) -> Vec<(String, MemberRecord)> {
        let record = |d: &Arc<FaultyDevice>| (d.name().to_owned(), probe(&d.content()).unwrap().unwrap());
        self.devices.iter().map(record).collect()
    }

    fn target(&self, nodes: usize, without: &[u64]) -> Target {
        let devices: Vec<Arc<dyn BlockDevice>> = self.devices.iter().map(|d| Arc::clone(d) as _).collect();
        self.target_over(&devices, nodes, without)
    }

    /// The same, over other devices with the same content.
    fn target_over(&self, over: &[Arc<dyn BlockDevice>], nodes: usize, without: &[u64]) -> Target {
        let there = |role: &u64| !without.contains(role);
        let roles: Vec<u64> = (0..self.roles).filter(there).collect();
        let record = |role: &u64| {
            let device = &self.devices[*role as usize];
            (device.name().to_owned(), probe(&device.content()).unwrap().unwrap())
        };
        let array = assemble(roles.iter().map(record).collect()).unwrap();
        let peers = Peers::new();
        let mut members: Vec<Option<Member>> = (0..self.roles).map(|_| None).collect();
        for node in 0..nodes {
            let here: Vec<u64> = roles
                .iter()
                .copied()
                .filter(|role| *role as usize * nodes / self.roles as usize == node)
                .collect();
            let devices = here.iter().map(|role| Arc::clone(&over[*role as usize])).collect();
            let name = format!("n{node}");
            let options = NodeOptions { workers: 2, memory_bytes: 32 << 20, ..NodeOptions::default() };
            let local: Arc<dyn DataNode> = Arc::new(LocalNode::new(&name, devices, &peers, options));
            for (i, role) in here.iter().enumerate() {
                members[*role as usize] = Some(Member {
                    node: Arc::clone(&local),
                    node_name: name.clone(),
                    drive: DriveId(i as u32 + 1),
                    device: format!("d{role}"),
                    data_offset: DATA,
                    valid_stripes: array.members()[*role as usize]
                        .as_ref()
                        .unwrap()
                        .valid_stripes(array.geometry()),
                });
            }
        }
        Target::new(array, members)
    }

    fn scrub(&self, nodes: usize, method: Method) -> Outcome {
        pass(&self.target(nodes, &[]), None, &Options { method: Some(method), ..options(3) })
    }

    fn repair(&self, policy: RepairPolicy) -> (Outcome, Report) {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFiles::open(folder.path(), UUID).unwrap();
        let target = self.target(1, &[]);
        let outcome = pass(&target, Some(&state), &Options { repair: Some(policy), ..options(3) });
        let report = Report::new(&target, &outcome);
        (outcome, report)
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        self.devices.iter().map(|device| device.content()).collect()
    }
}

fn all() -> Vec<Mirror> {
    let raid1 = (2..5).map(|roles| Mirror::new(Kind::Raid1, roles));
    let kinds = [Kind::Near(2), Kind::Near(3), Kind::Far(2), Kind::Far(3), Kind::Offset(2), Kind::Offset(3)];
    let raid10 = kinds.into_iter().flat_map(|kind| (3..6).map(move |roles| Mirror::new(kind, roles)));
    let both = (4..7).map(|roles| Mirror::new(Kind::NearFar(2, 2), roles));
    raid1.chain(raid10).chain(both).collect()
}

fn copies_of(mirror: &Mirror) -> u64 {
    mirror.copies()[&0].len() as u64
}

#[test]
fn whole_copies_are_clean_in_every_layout_by_every_method() {
    for mirror in all() {
        for method in Method::ALL {
            for nodes in [1, 3] {
                let outcome = mirror.scrub(nodes.min(mirror.roles as usize), method);
                let context = format!("{:?} {} {method} {nodes}", mirror.kind, mirror.roles);
                assert_eq!(outcome.findings, [], "{context}");
                assert!(outcome.is_complete(), "{context}: {:?}", outcome.unfinished());
                assert_eq!(u64::from(outcome.equations.full), copies_of(&mirror) - 1, "{context}");
            }
        }
    }
}

#[test]
fn a_copy_that_differs_is_found_and_of_three_located_by_every_method() {
    for mirror in all() {
        let units = mirror.copies();
        let last = *units.keys().last().unwrap();
        for (i, method) in Method::ALL.into_iter().enumerate() {
            for unit in [i as u64, last / 2 + i as u64, last] {
                let before = mirror.contents();
                let copy = i % copies_of(&mirror) as usize;
                let (role, place) = mirror.damage(unit, copy, 100, 60);
                let outcome = mirror.scrub(1 + i % 3.min(mirror.roles as usize), method);
                let context = format!("{:?} {} {method} unit {unit} {outcome:#?}", mirror.kind, mirror.roles);
                assert_eq!(outcome.findings.len(), 1, "{context}");
                for finding in &outcome.findings {
                    let start = unit * mirror.unit_bytes();
                    assert_eq!(finding.array_offset, Some(start + 100), "{context}");
                    if copies_of(&mirror) == 2 {
                        assert_eq!(
                            (finding.verdict, finding.member),
                            (Verdict::CopiesDiffer, None),
                            "{context}"
                        );
                        let mut both: Vec<u64> = units[&unit].iter().map(|(role, _)| *role).collect();
                        both.sort_unstable();
                        assert_eq!(finding.members.iter().map(|m| u64::from(*m)).collect::<Vec<_>>(), both);
                    } else {
                        assert_eq!(finding.verdict, Verdict::Copy, "{context}");
                        assert_eq!(finding.member.map(u64::from), Some(role), "{context}");
                        assert_eq!(finding.device_offset, Some(place), "{context}");
                        assert_eq!(finding.strength, Strength::Strong, "{context}");
                        assert!(!finding.alternatives.is_empty(), "{context}");
                    }
                }
                // As it was, for the next.
                for (device, content) in mirror.devices.iter().zip(before) {
                    device.write_at(0, &content).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_copy_that_is_alone_against_two_is_repaired_and_two_are_never_touched() {
    for mirror in all() {
        let good = mirror.contents();
        mirror.damage(1, 1, 0, 300);
        let bad = mirror.contents();
        let (outcome, report) = mirror.repair(RepairPolicy::Strong);
        let context = format!("{:?} {}", mirror.kind, mirror.roles);
        assert_eq!((report.result, report.result.exit_code()), (ArrayResult::CopiesDiffer, 4), "{context}");
        if copies_of(&mirror) == 2 {
            assert!(mirror.contents() == bad, "{context}");
            assert!(outcome.findings[0].left_alone.as_ref().unwrap().contains("which copy is right"));
            // Not even the policies that accept less.
            for policy in [RepairPolicy::Likely, RepairPolicy::Parity] {
                mirror.repair(policy);
                assert!(mirror.contents() == bad, "{context} {policy}");
            }
        } else {
            assert!(outcome.findings[0].repaired, "{context} {outcome:#?}");
            assert!(mirror.contents() == good, "{context}");
        }
    }
}

/// md itself takes the first copy for the data, even if it is the lone bad one of three.
#[test]
fn policy_parity_takes_no_copy_for_the_data() {
    let mirror = Mirror::new(Kind::Near(3), 5);
    mirror.damage(2, 0, 0, 300);
    let bad = mirror.contents();
    let (outcome, _) = mirror.repair(RepairPolicy::Parity);
    assert!(mirror.contents() == bad);
    assert!(outcome.findings[0].left_alone.as_ref().unwrap().contains("no parity"), "{outcome:#?}");
}

#[test]
fn copies_that_agree_because_a_fill_went_over_them_are_weak_evidence() {
    let mirror = Mirror::new(Kind::Raid1, 3);
    for role in [0, 2] {
        mirror.write(role, 8192, &[0; 4096]);
    }
    let before = mirror.contents();
    let (outcome, _) = mirror.repair(RepairPolicy::Strong);
    let finding = &outcome.findings[0];
    assert_eq!((finding.verdict, finding.member, finding.strength), (Verdict::Copy, Some(1), Strength::Weak));
    assert!(finding.alternatives.iter().any(|a| a.members == [0, 2]), "{finding:#?}");
    assert!(mirror.contents() == before);
}

#[test]
fn sectors_that_a_member_refuses_are_rebuilt_from_the_other_copy() {
    for kind in [Kind::Raid1, Kind::Near(2), Kind::Far(2), Kind::Offset(2)] {
        let mirror = Mirror::new(kind, 4);
        let good = mirror.contents();
        let (role, at) = mirror.copies()[&3][1];
        mirror.devices[role as usize].lose(DATA + at..DATA + at + 512);
        let (outcome, report) = mirror.repair(RepairPolicy::Strong);
        assert!(
            outcome.findings.iter().all(|f| f.verdict == Verdict::Unreadable && f.repaired),
            "{outcome:#?}"
        );
        assert_eq!(report.result, ArrayResult::Findings, "what a drive refuses is damage");
        assert!(mirror.contents() == good);
    }
}

#[test]
fn chunks_with_one_copy_left_are_told_and_the_others_checked() {
    let mirror = Mirror::new(Kind::Near(2), 4);
    // Role 1 is gone: the pair (0, 1) has one copy, the pair (2, 3) both.
    for role in [0, 2, 3] {
        patch(&mirror.devices[role], |s| s.dev_roles[1] = ROLE_FAULTY);
    }
    let outcome = pass(&mirror.target(1, &[1]), None, &options(3));
    let skipped: Vec<(String, u64)> = outcome.skipped.iter().map(|(why, n)| (why.to_string(), *n)).collect();
    assert_eq!(skipped, [("one-copy".to_owned(), 12)]);
    assert_eq!((outcome.stripes_checked, outcome.is_complete()), (12, false));
    mirror.damage(1, 0, 0, 10);
    let outcome = pass(&mirror.target(2, &[1]), None, &options(3));
    assert_eq!(outcome.findings.len(), 1);
    // Without either of the other pair nothing is left.
    let records = [0, 2].map(|i| (format!("d{i}"), probe(&mirror.devices[i].content()).unwrap().unwrap()));
    for role in [0, 2] {
        patch(&mirror.devices[role], |s| s.dev_roles[3] = ROLE_FAULTY);
    }
    assert!(matches!(assemble(records.into()), Err(AssemblyError::Incomplete { .. })));
}

/// Random damage on random copies, by random methods: each block that differs is told once, with
/// the verdict that comparing the copies themselves gives.
#[test]
fn random_damage_is_found_and_named_as_the_copies_say() {
    let mut named = 0;
    for (i, mirror) in all().iter().enumerate() {
        let whole = mirror.contents();
        let units = mirror.copies().len() as u64;
        for round in 0..2 {
            let mut next = noise(i as u64 * 100 + round);
            // Some of them on several copies of one unit.
            let crowded = next() % units;
            for k in 0..1 + next() % 8 {
                let unit = if next().is_multiple_of(2) { crowded } else { next() % units };
                let copy = next() % copies_of(mirror);
                let start = next() % (mirror.unit_bytes() - 10);
                let len = 2 + next() % (mirror.unit_bytes() - start - 2).min(6000);
                let (role, place) = mirror.copies()[&unit][copy as usize];
                let mut bytes = noise(i as u64 + 1000 * round + 7 * k);
                let bytes: Vec<u8> = (0..len).map(|_| bytes() as u8).collect();
                mirror.write(role, place + start, &bytes);
            }
            let mut expected = mirror.expected();
            let method = Method::ALL[(next() % 4) as usize];
            let outcome = mirror.scrub(1 + (next() % mirror.roles.min(3)) as usize, method);
            for finding in &outcome.findings {
                let context =
                    format!("{:?} {} round {round} {method} {finding:#?}", mirror.kind, mirror.roles);
                let start = finding.array_offset.expect("copies have an address");
                let mut end = start;
                for block in (start / BLOCK * BLOCK..start + finding.length).step_by(BLOCK as usize) {
                    let Some((verdict, member, first, last)) = expected.remove(&block) else {
                        panic!("nothing is wrong in block {block}, or it was told twice: {context}")
                    };
                    assert_eq!((finding.verdict, finding.member), (verdict, member), "{context}");
                    assert!(block != start / BLOCK * BLOCK || first == start, "{context}");
                    named += u32::from(member.is_some());
                    end = last + 1;
                }
                assert_eq!(end, start + finding.length, "{context}");
            }
            assert!(
                expected.is_empty(),
                "{:?} {} {method} not told: {expected:?}",
                mirror.kind,
                mirror.roles
            );
            for (device, content) in mirror.devices.iter().zip(&whole) {
                device.write_at(0, content).unwrap();
            }
        }
    }
    assert!(named > 30, "{named} copies named");
}

/// Damage in the last bytes of a RAID-1, which are less than a block, is one finding and is
/// repaired.
#[test]
fn the_end_of_a_mirror_is_checked_and_repaired_once() {
    let mirror = Mirror::new(Kind::Raid1, 3);
    let good = mirror.contents();
    let last = mirror.component / 512 - 1;
    mirror.damage(last, 2, 0, 512);
    let (outcome, _) = mirror.repair(RepairPolicy::Strong);
    assert_eq!(outcome.findings.len(), 1, "{outcome:#?}");
    assert!(outcome.findings[0].repaired);
    assert!(mirror.contents() == good);
}

/// The bits of a RAID-10's bitmap stand for sectors of the array, and so for stripes of every band.
#[test]
fn a_dirty_region_is_left_out_in_every_band() {
    for kind in [Kind::Near(2), Kind::Far(2), Kind::Offset(2), Kind::NearFar(2, 2)] {
        let mirror = Mirror::new(kind, 5);
        // Regions of four chunks; the second one is dirty.
        for device in &mirror.devices {
            device.write_at(BITMAP + 52, &(4 * CHUNK as u32).to_le_bytes()).unwrap();
            device.write_at(BITMAP + 256, &[2]).unwrap();
            patch(device, |s| s.resync_offset = 0);
        }
        for unit in 0..mirror.copies().len() as u64 {
            mirror.damage(unit, 0, 0, 100);
        }
        let outcome = mirror.scrub(1, Method::Stripe);
        let skipped: Vec<(String, u64)> =
            outcome.skipped.iter().map(|(why, n)| (why.to_string(), *n)).collect();
        assert_eq!(skipped, [("dirty".to_owned(), 4)], "{kind:?}");
        let mut told: Vec<u64> = outcome.findings.iter().map(|f| f.array_offset.unwrap() / CHUNK).collect();
        told.sort_unstable();
        let expected: Vec<u64> =
            (0..mirror.copies().len() as u64).filter(|unit| !(4..8).contains(unit)).collect();
        assert_eq!(told, expected, "{kind:?}");
    }
}

/// A checkpoint of a resync counts sectors of the array at RAID-10: behind the end of a member it
/// may still be under way.
#[test]
fn a_resync_of_the_array_is_not_done_at_the_end_of_a_member() {
    let mirror = Mirror::new(Kind::Near(2), 4);
    let (member, array) = (mirror.component / 512, mirror.copies().len() as u64 * CHUNK / 512);
    assert!(member < array);
    for device in &mirror.devices {
        patch(device, |s| s.resync_offset = member);
    }
    let refused = assemble(mirror.records()).unwrap_err();
    assert!(
        matches!(refused, AssemblyError::Resyncing { at, size, .. }
        if (at.get(), size.get()) == (member, array)),
        "{refused}"
    );
    for device in &mirror.devices {
        patch(device, |s| s.resync_offset = array);
    }
    assert!(assemble(mirror.records()).is_ok());
}

/// A layout in which md overwrites itself is refused with its reason, by `inspect` too.
#[test]
fn a_layout_that_is_not_worked_with_is_named() {
    let mirror = Mirror::new(Kind::NearFar(2, 2), 5);
    for device in &mirror.devices {
        patch(device, |s| s.layout = 0x10202);
        patch(device, |s| s.feature_map &= !1);
    }
    let refused = assemble(mirror.records()).unwrap_err().to_string();
    assert!(refused.contains("near=2, offset=2 on 5 members") && refused.contains("multiple"), "{refused}");
    let set = mirror.records().into_iter().map(|(device, record)| (device, Ok(Some(record))));
    let report = InspectReport::new(set.collect()).unwrap();
    assert!(report.problems.contains(&refused), "{:?}", report.problems);
}

/// A member that is being rebuilt is not read, wherever it has come to.
#[test]
fn a_member_that_is_being_rebuilt_is_no_witness() {
    let mirror = Mirror::new(Kind::Raid1, 3);
    patch(&mirror.devices[1], |s| {
        s.feature_map |= 2;
        s.recovery_offset = 128;
    });
    mirror.damage(0, 1, 0, 100);
    mirror.damage(200, 1, 0, 100);
    let outcome = mirror.scrub(1, Method::Stripe);
    assert_eq!((outcome.findings.len(), outcome.equations.left), (0, 1));
    mirror.damage(200, 0, 0, 100);
    let outcome = mirror.scrub(1, Method::Stripe);
    let finding = &outcome.findings[0];
    assert_eq!((finding.verdict, finding.members.as_slice()), (Verdict::CopiesDiffer, &[0, 2][..]));
}

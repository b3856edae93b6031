//! The contents that a volume may hold: every content of each block since it was last known
//! durable.

use super::BLOCK;
use pumice_raid::geometry::Geometry;
use pumice_volume::rows::Windows;
use pumice_volume::{Request, RequestError, RequestId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const SECTORS: usize = 8;
type Content = [u64; SECTORS];

#[derive(Clone)]
struct Version {
    /// The sectors that it replaces.
    sectors: [Option<u64>; SECTORS],
    /// Its write failed: it was stored, or it was not.
    failed: bool,
    /// Part of a full stripe, which is not logged: its sectors may be old and new.
    full: bool,
    answered: bool,
    durable: bool,
    /// It could not be read after a crash, and that was allowed.
    lost: bool,
    /// A later one is durable: it cannot come back.
    past: bool,
}

impl Version {
    /// The content that a block is known to have.
    fn known(content: Content) -> Self {
        Self {
            sectors: content.map(Some),
            failed: false,
            full: false,
            answered: true,
            durable: true,
            lost: false,
            past: false,
        }
    }

    fn over(&self, mut content: Content) -> Content {
        for (sector, new) in content.iter_mut().zip(self.sectors) {
            *sector = new.unwrap_or(*sector);
        }
        content
    }
}

struct Asked {
    request: Request,
    /// Of a write: block and version. Of a read or flush: what is known to be there, by block.
    blocks: Vec<(u64, usize)>,
    first_tag: u64,
    bytes: Vec<u8>,
}

pub(crate) struct Model {
    blocks: Vec<Vec<Version>>,
    asked: BTreeMap<RequestId, Asked>,
    next_tag: u64,
    last_failed: bool,
    /// Writes and reads that failed since the last check.
    pub(crate) failures: u64,
    adopted: BTreeMap<u64, Content>,
    after_crash: bool,
    pub(crate) unreadable: u64,
    pub(crate) answers: u64,
    /// Nobody replayed the log: any block may be torn between sectors, as on every md array.
    pub(crate) no_replay: bool,
    /// Rows with unreadable blocks: their parity is bad, so they survive no further loss.
    weak: BTreeSet<u64>,
    /// Blocks of the host that flushes next: all, unless a history has several hosts.
    pub(crate) own: Range<u64>,
    /// Drives may lose their caches and go on, so a block may hold any of its contents since the
    /// last flush; and hosts say what became of writes and flushes.
    pub(crate) by_hosts: bool,
    /// The answers of the volume, for hosts: with the versions that it is about.
    pub(crate) done: Vec<(RequestId, bool, Versions)>,
    /// Of each block, the first version that the next flush of its host makes durable.
    since: Vec<usize>,
}

/// Blocks, each with one of its versions.
pub(crate) type Versions = Vec<(u64, usize)>;

impl Model {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            blocks: vec![vec![Version::known([0; SECTORS])]; (bytes / BLOCK) as usize],
            asked: BTreeMap::new(),
            next_tag: 1,
            last_failed: false,
            failures: 0,
            adopted: BTreeMap::new(),
            after_crash: false,
            unreadable: 0,
            answers: 0,
            no_replay: false,
            weak: BTreeSet::new(),
            own: 0..bytes / BLOCK,
            by_hosts: false,
            done: Vec::new(),
            since: vec![0; (bytes / BLOCK) as usize],
        }
    }

    pub(crate) fn under_way(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn last_failed(&self) -> bool {
        self.last_failed
    }

    pub(crate) fn submitted(
        &mut self,
        id: RequestId,
        request: Request,
        windows: &Windows,
        geometry: &Geometry,
    ) {
        let first_tag = self.next_tag;
        let mut blocks = Vec::new();
        let mut bytes = Vec::new();
        match request {
            Request::Write { offset, len, .. } => {
                self.next_tag += len / 512;
                let mut full = BTreeSet::new();
                for (_, touches) in windows.split(geometry, offset, len) {
                    let whole = touches.len() == usize::from(geometry.data_disks())
                        && touches.iter().all(|t| t.start == 0 && t.end == windows.bytes());
                    for touch in touches.iter().filter(|_| whole) {
                        let first = (offset + touch.from) / BLOCK;
                        full.extend(first..first + windows.rows);
                    }
                }
                for block in offset / BLOCK..(offset + len).div_ceil(BLOCK) {
                    let versions = &mut self.blocks[block as usize];
                    let sectors = std::array::from_fn(|i| {
                        let at = block * BLOCK + i as u64 * 512;
                        (offset..offset + len).contains(&at).then(|| first_tag + (at - offset) / 512)
                    });
                    let full = full.contains(&block);
                    let new = Version::known([0; SECTORS]);
                    versions.push(Version { sectors, full, answered: false, durable: false, ..new });
                    blocks.push((block, versions.len() - 1));
                }
            }
            Request::Read { offset, len } => {
                bytes = vec![0xEE; len as usize];
                let range = offset / BLOCK..(offset + len).div_ceil(BLOCK);
                blocks = range.map(|block| (block, self.answered_version(block))).collect();
            }
            Request::Flush => {
                let known = |block: &(u64, usize)| block.1 >= self.since[block.0 as usize];
                blocks = self.own.clone().map(|b| (b, self.answered_version(b))).filter(known).collect();
            }
        }
        self.asked.insert(id, Asked { request, blocks, first_tag, bytes });
    }

    fn answered_version(&self, block: u64) -> usize {
        self.blocks[block as usize].iter().rposition(|version| version.answered).unwrap()
    }

    /// Returns whether a request is under way.
    pub(crate) fn knows(&self, id: RequestId) -> bool {
        self.asked.contains_key(&id)
    }

    /// The bytes of a write.
    pub(crate) fn bytes(&self, id: RequestId, from: u64, len: u64) -> Vec<u8> {
        let first = self.asked[&id].first_tag + from / 512;
        (first..first + len / 512).flat_map(|tag| tag.to_le_bytes().repeat(64)).collect()
    }

    pub(crate) fn deliver(&mut self, id: RequestId, from: u64, bytes: &[u8]) {
        if let Some(asked) = self.asked.get_mut(&id) {
            asked.bytes[from as usize..from as usize + bytes.len()].copy_from_slice(bytes);
        }
    }

    pub(crate) fn answered(&mut self, id: RequestId, result: Result<(), RequestError>) {
        let asked = self.asked.remove(&id).unwrap();
        self.answers += 1;
        self.last_failed = result.is_err();
        if self.by_hosts && !matches!(asked.request, Request::Read { .. }) {
            return self.done.push((id, result.is_ok(), asked.blocks));
        }
        if result.is_err() {
            self.failures += 1;
            if let Request::Write { .. } = asked.request {
                for (block, version) in &asked.blocks {
                    self.blocks[*block as usize][*version].failed = true;
                }
            }
            return;
        }
        match asked.request {
            Request::Write { fua, .. } => {
                for (block, version) in &asked.blocks {
                    self.blocks[*block as usize][*version].answered = true;
                }
                if fua {
                    self.flushed(&asked.blocks);
                }
            }
            Request::Flush => self.flushed(&asked.blocks),
            Request::Read { offset, .. } => self.check_read(offset, &asked),
        }
    }

    /// These versions are durable: nothing older can come back.
    fn flushed(&mut self, blocks: &[(u64, usize)]) {
        for (block, version) in blocks {
            self.blocks[*block as usize][*version].durable = true;
            for old in &mut self.blocks[*block as usize][..*version] {
                old.past = true;
            }
        }
    }

    /// The contents that each version of a block can be. The sectors that it leaves alone are those
    /// of the versions before it, of which one that failed may not have been stored.
    fn contents(&self, block: u64) -> Vec<Vec<Content>> {
        let mut before = vec![[0; SECTORS]];
        let mut out = Vec::new();
        for version in &self.blocks[block as usize] {
            let mut new: Vec<Content> = before.iter().map(|content| version.over(*content)).collect();
            new.sort_unstable();
            new.dedup();
            out.push(new.clone());
            // A part of it may have failed already.
            if version.failed || !version.answered && !self.weak.is_empty() {
                new.extend(before);
            }
            before = new;
        }
        out
    }

    fn check_read(&mut self, offset: u64, asked: &Asked) {
        for (block, known) in &asked.blocks {
            let mut found: [Option<u64>; SECTORS] = [None; SECTORS];
            for (i, tag) in found.iter_mut().enumerate() {
                let at = block * BLOCK + i as u64 * 512;
                if at >= offset && at + 512 <= offset + asked.bytes.len() as u64 {
                    *tag = Some(tag_of(&asked.bytes[(at - offset) as usize..][..512], *block));
                }
            }
            // A read may have passed a write that was answered, and even flushed, before it.
            let contents = self.contents(*block);
            let after_crash = self.after_crash || self.by_hosts;
            let may_be = |(i, (version, _)): &(usize, (&Version, _))| match after_crash {
                true => !version.past,
                false => i >= known,
            };
            let versions = self.blocks[*block as usize].iter().zip(contents).enumerate();
            let versions: Vec<(&Version, Vec<Content>)> =
                versions.filter(may_be).map(|(_, version)| version).collect();
            let may: Vec<&Content> = versions.iter().flat_map(|(_, contents)| contents).collect();
            let fits = |content: &&Content| {
                found.iter().zip(*content).all(|(found, tag)| found.is_none_or(|found| found == *tag))
            };
            let mut ok = may.iter().any(fits);
            if !ok && after_crash && (self.no_replay || versions.iter().any(|(version, _)| version.full)) {
                ok = found.iter().enumerate().all(|(i, found)| {
                    found.is_none_or(|found| may.iter().any(|content| content[i] == found))
                });
            }
            assert!(ok, "block {block} is a third thing: {found:?}, not of {may:?}");
            if found.iter().all(Option::is_some) {
                self.adopted.insert(*block, found.map(Option::unwrap_or_default));
            }
        }
    }

    /// A host has its answer to a write.
    pub(crate) fn host_wrote(&mut self, blocks: &Versions, good: bool, durable: bool) {
        for (block, version) in blocks {
            let since = &mut self.since[*block as usize];
            // Also if it began before the host was told: it was not under that Flush.
            *since = if good { (*since).min(*version) } else { *since };
            let version = &mut self.blocks[*block as usize][*version];
            (version.answered, version.failed) = (good, !good);
        }
        if good && durable {
            self.flushed(blocks);
        }
    }

    /// A flush of a host was good.
    pub(crate) fn host_flushed(&mut self, blocks: &Versions) {
        self.flushed(blocks);
    }

    /// A flush of a host failed: what was written to these blocks before may be lost, and it knows.
    pub(crate) fn host_was_told(&mut self, blocks: Range<u64>) {
        for block in blocks {
            self.since[block as usize] = self.blocks[block as usize].len();
        }
    }

    /// Requests without an answer.
    pub(crate) fn waiting(&self) -> Vec<(RequestId, Request)> {
        self.asked.iter().map(|(id, asked)| (*id, asked.request)).collect()
    }

    /// A request is given up.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.asked.remove(&id);
    }

    pub(crate) fn crashed(&mut self) {
        self.asked.clear();
        self.after_crash = true;
        self.adopted.clear();
    }

    /// Unreadable blocks are allowed only if they were part of a full stripe that was not flushed.
    pub(crate) fn check_unreadable(
        &mut self,
        unreadable: &BTreeSet<u64>,
        allowed: bool,
        geometry: &Geometry,
    ) {
        let row = |block: u64| {
            let per_chunk = geometry.chunk_bytes() / BLOCK;
            block / (geometry.stripe_bytes() / BLOCK) * per_chunk + block % per_chunk
        };
        let weak = std::mem::take(&mut self.weak);
        for block in unreadable {
            let versions = &mut self.blocks[*block as usize];
            let full = versions.iter().any(|v| !v.past && (v.lost || v.full && !v.durable));
            let flags: Vec<_> =
                versions.iter().map(|v| (v.sectors, v.full, v.answered, v.durable, v.past, v.lost)).collect();
            assert!(
                allowed && (full || weak.contains(&row(*block))),
                "block {block} is unreadable: {flags:?}"
            );
            let unknown = Version::known([u64::MAX - 1; SECTORS]);
            *versions = vec![Version { durable: false, lost: true, ..unknown }];
        }
        self.weak = unreadable.iter().map(|block| row(*block)).collect();
        self.unreadable += unreadable.len() as u64;
    }

    /// Bytes that were read are those that are there.
    pub(crate) fn adopt(&mut self) {
        for (block, content) in std::mem::take(&mut self.adopted) {
            self.blocks[block as usize] = vec![Version::known(content)];
        }
        self.after_crash = false;
        self.no_replay = false;
    }

    /// Another writer makes a block new and durable.
    pub(crate) fn written_by_another(&mut self, offset: u64) -> Vec<u8> {
        let first = self.next_tag;
        self.next_tag += SECTORS as u64;
        let content: Content = std::array::from_fn(|i| first + i as u64);
        self.blocks[(offset / BLOCK) as usize] = vec![Version::known(content)];
        content.iter().flat_map(|tag| tag.to_le_bytes().repeat(64)).collect()
    }
}

fn tag_of(sector: &[u8], block: u64) -> u64 {
    let tag = u64::from_le_bytes(std::array::from_fn(|i| sector[i]));
    assert!(sector.chunks(8).all(|word| word == tag.to_le_bytes()), "block {block} holds a mixture");
    tag
}

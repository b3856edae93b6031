//! A drive, its tag file, and a plain model of it.

use super::*;
use crate::geometry::HEADER_SLOT;

impl Plain {
    /// A command writes the block with this tag, `None` if it is not known. If the drive may refuse
    /// it, nobody knows what the next command meets. Returns the version.
    pub(super) fn write(&mut self, bytes: &[u8], entry: Option<Entry>, may_fail: bool) -> usize {
        self.present = entry.clone().filter(|_| !may_fail);
        self.versions.push(bytes.to_vec());
        self.entries.push(entry);
        self.versions.len() - 1
    }

    /// A command adopts the block.
    pub(super) fn adopt(&mut self, geometry: &Geometry, block: u64) {
        if self.present == Some(Entry::UNKNOWN) {
            let newest = self.versions.last().expect("a first version");
            self.present = Some(adopted(geometry, block, newest));
        }
    }

    /// Returns whether a block with this version's bytes may differ from its tag.
    pub(super) fn may_differ(&self, geometry: &Geometry, version: usize) -> bool {
        if version == 0 {
            return !self.fits;
        }
        let guard = geometry.format().guard().of(&self.versions[version]);
        let fits = |entry: &Entry| !matches!(entry.judge(geometry, guard), Opinion::Differs(_));
        !self.entries[version].as_ref().is_some_and(fits)
    }

    /// Returns whether the block may differ from its tag while commands are under way.
    pub(super) fn is_odd(&self, geometry: &Geometry) -> bool {
        (self.acknowledged..self.versions.len()).any(|version| self.may_differ(geometry, version))
    }

    /// Returns whether a block with these bytes may have this tag after a cut.
    pub(super) fn explains(&self, geometry: &Geometry, block: u64, bytes: &[u8], entry: &Entry) -> bool {
        let same = |version: &usize| self.versions[*version] == bytes;
        (self.durable..self.versions.len()).filter(same).any(|version| {
            // What differs from its tag anyway may get that of a newer write.
            let newer =
                || self.entries[version + 1..].iter().any(|newer| newer.as_ref().is_none_or(|e| e == entry));
            if self.may_differ(geometry, version) && newer() {
                return true;
            }
            match &self.entries[version] {
                None if version > 0 => true,
                None => {
                    let guard = geometry.format().guard().of(bytes);
                    match entry.judge(geometry, guard) {
                        Opinion::Differs(_) => !self.fits,
                        Opinion::Unchecked => !self.tagged,
                        _ => true,
                    }
                }
                Some(expected) if *expected == Entry::UNKNOWN => {
                    entry == expected || *entry == adopted(geometry, block, bytes)
                }
                Some(expected) => entry == expected,
            }
        })
    }
}

impl World {
    pub(super) fn new(seed: u64, shape: Shape, rules: Rules<Rule>) -> Self {
        let mut random = Random(seed);
        let guard = Guard::ALL[random.below(3) as usize];
        let mut metadata = MetadataFormat::tuple(guard);
        if shape == Shape::LargeMetadata {
            let bytes = if guard == Guard::Crc16 && random.one_in(3) { 16 } else { 64 };
            let place = if random.one_in(2) { Place::First } else { Place::Last };
            let large = metadata.with_bytes(bytes, place);
            let bits = 16 + random.below(17) as u32;
            metadata = large.and_then(|large| large.with_storage_bits(bits)).expect("a format");
        }
        let block: u32 = if shape == Shape::Sectors { 512 } else { 4096 };
        let size = BLOCKS * u64::from(block);
        // Torn blocks are seldom enough where each round has them.
        let tears = !rules.keep(Rule::KeptSync);
        let changes_unit = shape != Shape::Sectors && random.one_in(2) && !tears;
        let unit = if changes_unit && random.one_in(2) { 4096 } else { 512 };
        let geometry = Geometry::new(size, block, unit, metadata, 64 << 10).expect("a drive");
        let content: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
        let drive = FaultyDevice::new("d", content.clone(), random.next());
        drive.set_atomic_unit(unit);
        let fails = random.one_in(3) || !rules.keep(Rule::SecondLook) || !rules.keep(Rule::RefusedIsOpen);
        let unwritable = fails.then(|| random.below(BLOCKS));
        if let Some(at) = unwritable.map(|at| at * u64::from(block)) {
            drive.refuse_writes(at..at + u64::from(block));
        }
        let store = FaultyStore::new(random.next());
        let mut file = vec![0; geometry.file_bytes() as usize];
        // Room for kept blocks, in which anything lies, as on a device.
        file.resize(geometry.with_data(unit < block || changes_unit).file_bytes() as usize, 0xEE);
        store.create("tags", &file).expect("an empty store");
        store.sync("tags").expect("it is new");
        store.sync_folder().expect("it is new");
        let medium = StoreMedium { store: store.clone(), power_goes: Arc::default() };
        TagFile::create(&medium, geometry, seed, "serial").expect("a new tag file");
        let model = content.chunks(block as usize).map(|bytes| Plain {
            versions: vec![bytes.to_vec()],
            entries: vec![None],
            present: Some(Entry::UNKNOWN),
            fits: true,
            acknowledged: 0,
            durable: 0,
            tagged: false,
        });
        let model = model.collect();
        let counts = Counts::default();
        let carried = geometry.carries_data();
        Self {
            geometry,
            random,
            drive,
            store,
            medium,
            unwritable,
            model,
            changes_unit,
            carried,
            rules,
            counts,
        }
    }

    /// Before the file is opened, something else may be said of the drive.
    pub(super) fn change_unit(&mut self) {
        if self.changes_unit && self.random.one_in(3) {
            // What it has was written under the word of before.
            let _ = self.drive.flush();
            self.drive.set_atomic_unit(if self.drive.atomic_unit() == 512 { 4096 } else { 512 });
        }
    }

    pub(super) fn open(&mut self) -> Checked<(TagFile, Log, Recovered, u64)> {
        let medium = SharedMedium(Arc::new(self.medium.clone()));
        let flushes = self.rules.keep(Rule::RecoveryFlush);
        let drive = Drive { inner: &self.drive, flushes };
        let rules = self.rules;
        TagFile::open_with(medium, &drive, "serial", 7, OnStale::Fail, |recovery| {
            recovery.rules = rules;
        })
        .map_err(|error| format!("open: {error}"))
    }

    pub(super) fn session(&mut self) -> Checked<Session<'_>> {
        // Sometimes the power goes again during recovery.
        while self.random.one_in(3) {
            self.store.cut_power_after(self.random.below(400));
            if self.random.one_in(2) {
                self.drive.cut_power_after(self.random.below(60));
            }
            let _ = self.open();
            self.counts.cut_recoveries += 1;
            self.store.crash();
            self.drive.crash();
        }
        let (file, mut log, recovered, last) = self.open()?;
        self.carried = self.geometry.carries_data();
        self.geometry = file.header().geometry;
        let wanted = self.drive.atomic_unit() < self.geometry.block_bytes() as u32;
        match (self.carried, self.geometry.carries_data()) {
            (false, true) => self.counts.to_data += 1,
            (true, false) => self.counts.from_data += 1,
            (_, is) => self.counts.unchanged += u64::from(is != wanted),
        }
        // As beside a drive whose medium takes larger units only.
        log.set_unit(512 << self.random.below(4));
        self.counts.rewritten += recovered.rewritten.len() as u64;
        self.counts.not_read += u64::from(!recovered.log_read);
        if !recovered.lost_pages.is_empty() {
            return Err(format!("pages {:?} are lost", recovered.lost_pages));
        }
        // One group, beside those in use.
        let cached = 8 + self.random.below(8) as usize;
        let mut machine = Machine::new(self.geometry, last, cached);
        machine.rules = self.rules;
        let (jobs, commands, read) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let (slow_checkpoints, slow_loads) = (self.random.one_in(4), self.random.one_in(4));
        let stepped = self.random.one_in(2);
        let world = self;
        Ok(Session {
            world,
            machine,
            log,
            file,
            jobs,
            commands,
            read,
            at_once: BTreeSet::new(),
            looks: BTreeSet::new(),
            next: 1,
            slow_checkpoints,
            slow_loads,
            stepped,
        })
    }

    /// Flips a bit in some blocks.
    pub(super) fn damage(&mut self, behind: &mut BTreeMap<u64, Behind>) {
        let size = self.geometry.block_bytes() as u64;
        for _ in 0..self.random.below(4) {
            let block = self.random.below(BLOCKS);
            let at = block * size + self.random.below(size);
            let byte = self.drive.peek(at, 1)[0] ^ 1 << self.random.below(8);
            if behind.contains_key(&block) || self.drive.write_at(at, &[byte]).is_err() {
                continue;
            }
            let bytes = self.drive.peek(block * size, size as usize);
            behind.insert(block, Behind { bytes, like_torn: true });
            self.counts.planted += u64::from(self.model[block as usize].tagged);
        }
    }

    /// Damages the slot of the header that counts, if the other is whole.
    pub(super) fn damage_slot(&mut self) -> Checked<()> {
        if !self.random.one_in(3) {
            return Ok(());
        }
        let text = |error: io::Error| error.to_string();
        let mut newest = (0, 0);
        let mut heads = [[0; 512]; 2];
        for (slot, head) in (0..).zip(&mut heads) {
            self.medium.read_at(slot * u64::from(HEADER_SLOT), head).map_err(text)?;
            let sequence = u64::from_le_bytes(std::array::from_fn(|i| head[8 + i]));
            newest = newest.max((sequence, slot));
        }
        // One that was damaged before is not written yet.
        if heads.iter().any(|head| !head.starts_with(b"PUMSLOT1")) {
            return Ok(());
        }
        self.medium.write_at(newest.1 * u64::from(HEADER_SLOT), b"X").map_err(text)?;
        self.medium.sync().map_err(text)?;
        self.counts.slots_damaged += 1;
        Ok(())
    }

    /// Somebody writes whole blocks to the drive, past the node: some of those that it was writing.
    pub(super) fn write_behind(&mut self, behind: &mut BTreeMap<u64, Behind>) {
        let (size, run) = (self.geometry.block_bytes(), self.geometry.run_bytes());
        for _ in 0..1 + self.random.below(3) {
            let block = self.random.below(10);
            let mut bytes: Vec<u8> = (0..size).map(|_| self.random.next() as u8).collect();
            let like_torn = self.random.one_in(2);
            if like_torn {
                let at = self.random.below(8) as usize * run;
                let newest = self.model[block as usize].versions.last().expect("a first version");
                bytes[at..at + run].copy_from_slice(&newest[at..at + run]);
            }
            if self.drive.write_at(block * size as u64, &bytes).is_ok() {
                behind.insert(block, Behind { bytes, like_torn });
                self.counts.behind += 1;
            }
        }
    }

    /// Blocks that were written behind the node's back are still there, or kept.
    fn check_behind(&mut self, behind: &BTreeMap<u64, Behind>) -> Checked<()> {
        let size = self.geometry.block_bytes();
        let medium = SharedMedium(Arc::new(self.medium.clone()));
        let text = |error: crate::file::TagError| error.to_string();
        let contents = TagFile::look_kept(medium.clone()).map_err(text)?;
        if !contents.damaged.is_empty() {
            return Err("a head of a kept block is damaged".to_owned());
        }
        for (block, Behind { bytes, like_torn }) in behind {
            if self.drive.peek(block * size as u64, size) == *bytes {
                continue;
            }
            if !like_torn {
                return Err(format!("block {block}: it is nothing of the log, and was written over"));
            }
            let mut is_kept = false;
            for kept in contents.kept.iter().filter(|kept| kept.block == *block) {
                let (_, there) = TagFile::read_kept(medium.clone(), kept.slot).map_err(text)?;
                is_kept |= there == *bytes;
            }
            if !is_kept {
                return Err(format!("block {block}: what came behind the node's back is lost"));
            }
            self.counts.only_kept += 1;
        }
        Ok(())
    }

    /// Returns whether a block that is no version was left so for a reason: it is torn, and there
    /// was no room to keep it, or it had no tag and only zeros arrived, or it had the tag of what
    /// it is now.
    fn is_left(&self, block: u64, content: &[u8], verdict: Opinion) -> bool {
        let run = self.geometry.run_bytes();
        let plain = &self.model[block as usize];
        let mut runs = content.chunks(run).enumerate();
        let of = |version: &Vec<u8>, at: usize| version[at * run..][..run].to_vec();
        let torn = runs.all(|(at, bytes)| plain.versions.iter().any(|version| of(version, at) == bytes));
        if !self.carried || !torn {
            return false;
        }
        match verdict {
            Opinion::Differs(_) => {
                let medium = SharedMedium(Arc::new(self.medium.clone()));
                TagFile::look_kept(medium).is_ok_and(|contents| contents.room() == 0)
            }
            Opinion::Unchecked => (plain.durable..plain.versions.len()).any(|version| {
                let untagged = match &plain.entries[version] {
                    None => version == 0 && !plain.tagged,
                    Some(entry) => *entry == Entry::UNKNOWN,
                };
                let mut runs = content.chunks(run).enumerate();
                untagged
                    && runs.all(|(at, bytes)| {
                        of(&plain.versions[version], at) == bytes || bytes.iter().all(|byte| *byte == 0)
                    })
            }),
            // It differed from its tag before. What is left is what the tag is of, by chance.
            Opinion::Fits(_) => {
                let mut versions = plain.durable..plain.versions.len();
                versions.any(|version| plain.may_differ(&self.geometry, version))
            }
            Opinion::Lost => false,
        }
    }

    /// After a cut and a recovery: each block against the model. Returns blocks that are no version
    /// any more, for a reason.
    pub(super) fn check(&mut self, behind: &BTreeMap<u64, Behind>) -> Checked<Vec<u64>> {
        self.check_behind(behind)?;
        let mut left = Vec::new();
        let (geometry, size) = (self.geometry, self.geometry.block_bytes());
        let medium = SharedMedium(Arc::new(self.medium.clone()));
        let header = TagFile::peek(&medium).map_err(|error| error.to_string())?;
        for block in 0..BLOCKS {
            let content = self.drive.peek(block * size as u64, size);
            let (number, place) = geometry.place(block);
            let mut sector = [0; 512];
            medium.read_at(geometry.page_at(number), &mut sector).map_err(|error| error.to_string())?;
            let page = Page::decode(&geometry, &sector, header.identity, number);
            if page == crate::page::Found::Lost {
                return Err(format!("page {number} is lost"));
            }
            let entry = page.page().entry(&geometry, place);
            let verdict = entry.judge(&geometry, geometry.format().guard().of(&content));
            let plain = &self.model[block as usize];
            let version = plain.versions.iter().rposition(|version| *version == content);
            match version {
                Some(version) if version < plain.durable => {
                    return Err(format!("block {block}: version {version} of {} is lost", plain.durable));
                }
                // Neither a mixture nor what was there before, as far as anybody can tell, and it
                // cannot be written again: it is refused.
                Some(0) if size > 512 && self.unwritable == Some(block) => {}
                Some(version) if !plain.explains(&geometry, block, &content, &entry) => {
                    return Err(format!("block {block}, version {version}: {verdict:?}, {entry:?}"));
                }
                Some(version) => {
                    self.counts.differed += u64::from(matches!(verdict, Opinion::Differs(_)));
                    self.counts.rolled_back += u64::from(version < plain.acknowledged);
                    self.counts.unacknowledged_kept += u64::from(version > plain.acknowledged);
                }
                None if !behind.contains_key(&block) && self.is_left(block, &content, verdict) => {
                    let differs = matches!(verdict, Opinion::Differs(_));
                    *if differs { &mut self.counts.not_kept } else { &mut self.counts.unseen } += 1;
                    left.push(block);
                }
                None if !behind.contains_key(&block) => {
                    return Err(format!("block {block} has no version that was written"));
                }
                None if plain.tagged && !matches!(verdict, Opinion::Differs(_)) => {
                    return Err(format!("block {block}: damage was missed, {verdict:?}"));
                }
                None => {}
            }
            let tagged = entry != Entry::UNKNOWN;
            let of_host = version.is_some_and(|version| version > 0) && entry.tag.tuple.application != 0;
            self.counts.host_tuples += u64::from(of_host);
            let plain = &mut self.model[block as usize];
            let (versions, entries) = (vec![content], vec![None]);
            let (present, fits) = (Some(entry), !matches!(verdict, Opinion::Differs(_)));
            *plain = Plain { versions, entries, present, fits, acknowledged: 0, durable: 0, tagged };
            if version.is_none() {
                // It goes on as it is, and is not looked at again before it is written.
                plain.tagged = false;
            }
        }
        Ok(left)
    }
}

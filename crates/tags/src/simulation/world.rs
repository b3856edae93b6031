//! A drive, its tag file, and what a plain model knows of it.

use super::*;

impl World {
    pub(super) fn new(seed: u64, block: u32, mutation: Option<Mutation>) -> Self {
        let mut random = Random(seed);
        let guard = Guard::ALL[random.below(3) as usize];
        let size = BLOCKS * u64::from(block);
        let geometry = Geometry::new(size, block, 512, guard, 64 << 10).expect("a drive");
        let content: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
        let drive = FaultyDevice::new("d", content.clone(), random.next());
        let fails =
            random.one_in(3) || matches!(mutation, Some(Mutation::NoSecondLook | Mutation::RefusedIsSettled));
        let unwritable = fails.then(|| random.below(BLOCKS));
        if let Some(at) = unwritable.map(|at| at * u64::from(block)) {
            drive.refuse_writes(at..at + u64::from(block));
        }
        let store = FaultyStore::new(random.next());
        store.create("tags", &vec![0; geometry.file_bytes() as usize]).expect("an empty store");
        store.sync("tags").expect("it is new");
        store.sync_folder().expect("it is new");
        let medium = StoreMedium { store: store.clone(), power_goes: Arc::default() };
        TagFile::create(&medium, geometry, seed, "serial").expect("a new tag file");
        let model = content.chunks(block as usize).map(|bytes| Plain {
            versions: vec![bytes.to_vec()],
            acknowledged: 0,
            durable: 0,
            tagged: false,
        });
        let model = model.collect();
        let counts = Counts::default();
        Self { geometry, random, drive, store, medium, unwritable, model, mutation, counts }
    }

    pub(super) fn open(&mut self) -> Checked<(TagFile, Log, Recovered, u64)> {
        let medium = SharedMedium(Arc::new(self.medium.clone()));
        let flushes = self.mutation != Some(Mutation::NoRecoveryFlush);
        let drive = Drive { inner: &self.drive, flushes };
        let mutation = self.mutation;
        TagFile::open_with(medium, &drive, "serial", |recovery| recovery.mutation = mutation)
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
        let (file, log, recovered, last) = self.open()?;
        self.counts.rewritten += recovered.rewritten.len() as u64;
        if !recovered.lost_pages.is_empty() {
            return Err(format!("pages {:?} are lost", recovered.lost_pages));
        }
        let cached = 3 + self.random.below(6) as usize;
        let mut machine = Machine::new(self.geometry, last, cached);
        machine.mutation = self.mutation;
        let (jobs, commands) = (Vec::new(), BTreeMap::new());
        let slow_checkpoints = self.random.one_in(4);
        Ok(Session { world: self, machine, log, file, jobs, commands, next: 1, slow_checkpoints })
    }

    /// After a cut and a recovery: each block against the model.
    pub(super) fn check(&mut self, damaged: &BTreeSet<u64>) -> Checked<()> {
        let (geometry, size) = (self.geometry, self.geometry.block_bytes());
        let medium = SharedMedium(Arc::new(self.medium.clone()));
        let header = TagFile::peek(&medium).map_err(|error| error.to_string())?;
        for block in 0..BLOCKS {
            let content = self.drive.peek(block * size as u64, size);
            let (number, place) = geometry.place(block);
            let mut sector = [0; 512];
            medium.read_at(geometry.page_at(number), &mut sector).map_err(|error| error.to_string())?;
            let page = crate::page::Page::decode(&geometry, &sector, header.identity, number);
            if page == crate::page::Found::Lost {
                return Err(format!("page {number} is lost"));
            }
            let tag = page.page().tag(&geometry, place);
            let verdict = tag.judge(geometry.format().guard().of(&content));
            let plain = &mut self.model[block as usize];
            let version = plain.versions.iter().rposition(|version| *version == content);
            match version {
                Some(version) if version < plain.durable => {
                    return Err(format!("block {block}: version {version} of {} is lost", plain.durable));
                }
                Some(version) if version > 0 && verdict != Opinion::Fits(Origin::Written) => {
                    return Err(format!("block {block}, version {version}: {verdict:?}"));
                }
                // Neither a mixture nor what was there before, as far as anybody can tell, and it
                // cannot be written again: it is refused.
                Some(0) if geometry.carries_data() && self.unwritable == Some(block) => {}
                Some(0) if matches!(verdict, Opinion::Differs(_)) => {
                    return Err(format!("block {block}, untouched: {verdict:?}"));
                }
                Some(0) if plain.tagged && verdict == Opinion::Unchecked => {
                    return Err(format!("block {block}: its tag is lost"));
                }
                Some(version) => {
                    self.counts.rolled_back += u64::from(version < plain.acknowledged);
                    self.counts.unacknowledged_kept += u64::from(version > plain.acknowledged);
                }
                None if !damaged.contains(&block) => {
                    return Err(format!("block {block} has no version that was written"));
                }
                None if plain.tagged && !matches!(verdict, Opinion::Differs(_)) => {
                    return Err(format!("block {block}: damage was missed, {verdict:?}"));
                }
                None => {}
            }
            let tagged = tag != Tag::UNKNOWN;
            *plain = Plain { versions: vec![content], acknowledged: 0, durable: 0, tagged };
            if version.is_none() {
                // It goes on as it is, and is not looked at again before it is written.
                plain.tagged = false;
            }
        }
        Ok(())
    }
}

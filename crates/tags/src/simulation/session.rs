//! One session of the machine, from a start to the next cut.

use super::put_back::PUT_BACK;
use super::*;
use crate::record::Record;
use pumice_base::durable::Run;

impl Session<'_> {
    pub(super) fn new_data(&mut self, blocks: &Range<u64>) -> Vec<u8> {
        let len = (blocks.end - blocks.start) as usize * self.world.geometry.block_bytes();
        let mut data: Vec<u8> = (0..len).map(|_| self.world.random.next() as u8).collect();
        if self.world.random.one_in(3) {
            // Many blocks are mostly zeros.
            for run in data.chunks_mut(512) {
                if self.world.random.one_in(2) {
                    run.fill(0);
                }
            }
        }
        // A host can make contents of one CRC-32C, and hopes that one is taken for another.
        let size = self.world.geometry.block_bytes();
        for block in data.chunks_mut(size) {
            if self.world.random.one_in(3) {
                let sum = self.world.random.below(2) as u32;
                block.copy_from_slice(&forge::with_sum(block, sum));
                self.world.counts.forged += 1;
            }
        }
        data
    }

    /// An operator gives every kept block up.
    pub(super) fn forget_kept(&self) -> Checked<()> {
        let medium = SharedMedium(Arc::new(self.world.medium.clone()));
        let contents = TagFile::look_kept(medium).map_err(|error| error.to_string())?;
        let mut kept = contents.kept.iter();
        kept.try_for_each(|kept| self.file.forget_kept(kept.slot)).map_err(|error| error.to_string())
    }

    /// Leaves no room for kept blocks.
    pub(super) fn fill_kept(&mut self) -> Checked<()> {
        loop {
            let bytes = self.new_data(&(0..1));
            match self.file.keep_replaced(BLOCKS - 1, &bytes, 3) {
                Ok(()) => {}
                Err(KeptError::Full) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn begin(&mut self, kind: u64) {
        let geometry = self.world.geometry;
        let count = 1 + self.world.random.below(geometry.max_record_blocks().min(6));
        // A few hot blocks, so that commands meet. Half of them are in the first group of pages.
        let hot = self.world.random.one_in(2);
        let border = geometry.blocks_of_page() * GROUP_PAGES;
        let random = &mut self.world.random;
        let first = if hot { border - 4 + random.below(8) } else { random.below(BLOCKS) };
        let blocks = first..(first + count).min(BLOCKS);
        let puts_back = kind < 4 && random.one_in(4);
        self.begin_at(if puts_back { PUT_BACK } else { kind }, blocks);
    }

    pub(super) fn begin_at(&mut self, kind: u64, blocks: Range<u64>) {
        let geometry = self.world.geometry;
        let id = self.next;
        self.next += 1;
        let range = blocks.start as usize..blocks.end as usize;
        match kind {
            PUT_BACK => self.put_back(id, blocks),
            0..=4 => {
                let zeros = kind == 4;
                let mut data = self.new_data(&blocks);
                if zeros {
                    data.fill(0);
                }
                let versions = self.write(&blocks, &data, |block, bytes| entry(&geometry, block, bytes));
                let change = if zeros {
                    Change::Zeros(blocks.end - blocks.start)
                } else {
                    change(&geometry, blocks.start, &data, self.world.rules)
                };
                self.commands.insert(id, (blocks.clone(), Kind::Write { data, versions }));
                self.machine.begin(id, blocks, Request::Write(change.into()));
            }
            5..=6 => {
                let acknowledged = self.world.model[range].iter().map(|plain| plain.acknowledged).collect();
                let tags = kind == 6;
                self.commands.insert(id, (blocks.clone(), Kind::Read { acknowledged, tags }));
                let request = match self.world.random.below(3) {
                    _ if tags => Request::ReadMetadata,
                    0 => Request::Read,
                    1 => Request::Sweep,
                    _ => Request::Judge { sweeps: self.world.random.one_in(2) },
                };
                if !tags && self.world.random.one_in(3) && self.machine.can_look(&blocks) {
                    // Beside every write.
                    self.jobs.push(Job::new(Action::Read(id)));
                    self.looks.insert(id);
                } else if self.world.random.one_in(2) && self.machine.begin_now(id, blocks.clone(), &request)
                {
                    // As if the machine had asked for it; its outcome comes back at once.
                    self.jobs.push(Job::new(Action::Read(id)));
                    self.at_once.insert(id);
                } else {
                    self.machine.begin(id, blocks, request);
                }
            }
            7 => {
                for (block, plain) in blocks.clone().zip(&mut self.world.model[range]) {
                    plain.adopt(&geometry, block);
                }
                self.commands.insert(id, (blocks.clone(), Kind::Adopt));
                self.machine.begin(id, blocks, Request::Adopt);
            }
            8 => {
                let acknowledged = self.world.model.iter().map(|plain| plain.acknowledged).collect();
                self.commands.insert(id, (0..0, Kind::Flush { acknowledged }));
                self.machine.begin_flush(id);
            }
            _ => self.machine.begin_checkpoint(),
        }
    }

    pub(super) fn collect(&mut self) -> Checked<()> {
        loop {
            let actions = self.machine.take_actions();
            if actions.is_empty() {
                return Ok(());
            }
            for action in actions {
                if let Action::Done { id, outcome } = action {
                    self.done(id, &outcome)?;
                } else {
                    self.jobs.push(Job::new(action));
                }
            }
        }
    }

    fn done(&mut self, id: u64, outcome: &Outcome) -> Checked<()> {
        let (blocks, kind) = self.commands.remove(&id).expect("a command of this session");
        let range = blocks.start as usize..blocks.end as usize;
        match (kind, outcome) {
            (Kind::Write { versions, .. }, Outcome::Done) => {
                for (plain, version) in self.world.model[range].iter_mut().zip(versions) {
                    plain.acknowledged = plain.acknowledged.max(version);
                }
            }
            (Kind::Write { .. }, Outcome::DriveFailed) => self.world.counts.failed_writes += 1,
            (Kind::Flush { acknowledged }, Outcome::Done) => {
                for (plain, version) in self.world.model.iter_mut().zip(acknowledged) {
                    plain.durable = plain.durable.max(version);
                }
            }
            (Kind::Read { .. }, Outcome::Read(judged)) | (Kind::Adopt, Outcome::Adopted(judged, _)) => {
                for (block, judged) in blocks.zip(judged) {
                    let excused = self.is_excused(block);
                    if matches!(judged.opinion, Opinion::Differs(_)) && !excused {
                        return Err(format!("block {block} is refused though nothing is wrong"));
                    }
                }
            }
            (Kind::Read { .. }, Outcome::Checked(judgement)) => {
                let size = self.world.geometry.block_bytes();
                let count: u64 = judgement.fit.iter().sum();
                let mut faulty = 0;
                for fault in &judgement.faulty {
                    faulty += (fault.len / size) as u64;
                    for at in (fault.at..fault.at + fault.len).step_by(size) {
                        let block = blocks.start + (at / size) as u64;
                        let excused = self.is_excused(block);
                        if matches!(fault.fault, TagFault::Differs(_)) && !excused {
                            return Err(format!("block {block} is refused though nothing is wrong"));
                        }
                    }
                }
                if count + faulty != blocks.end - blocks.start {
                    return Err(format!("blocks {blocks:?}: {count} fit and {faulty} do not"));
                }
            }
            (Kind::Read { tags: true, .. }, Outcome::Metadata(found)) => {
                let geometry = self.world.geometry;
                let read = self.read.remove(&id).expect("it was read");
                let found = found.chunks_exact(geometry.format().metadata_bytes());
                for ((block, bytes), found) in read.iter().zip(found) {
                    let plain = &self.world.model[*block as usize];
                    let same = |version: &usize| plain.versions[*version] == *bytes;
                    let mut versions = (0..plain.versions.len()).filter(same);
                    let is = |entry: &Option<Entry>| match entry {
                        Some(entry) if *entry != Entry::UNKNOWN => found == metadata(&geometry, entry),
                        // What lay there before may have been adopted, or have no tag.
                        _ => true,
                    };
                    // What differs from its tag anyway gets that of a write which the drive
                    // refuses.
                    let may_have = |version: usize| {
                        let newer = &plain.entries[version + 1..];
                        is(&plain.entries[version])
                            || plain.may_differ(&geometry, version) && newer.iter().any(is)
                    };
                    if !versions.any(may_have) && self.world.unwritable != Some(*block) {
                        return Err(format!("block {block} was read with the tag of another version"));
                    }
                    let entry = entry(&geometry, *block, bytes);
                    let is_first = plain.versions[0] == *bytes;
                    let of_host = !is_first && entry.tag.tuple.application != 0;
                    self.world.counts.read_tuples += u64::from(of_host);
                }
            }
            (_, outcome) => return Err(format!("command {id}: {outcome:?}")),
        }
        Ok(())
    }

    /// Returns whether a block may be refused: the drive does not take writes of it, or it was
    /// written with a tag that it does not fit.
    fn is_excused(&self, block: u64) -> bool {
        let geometry = &self.world.geometry;
        geometry.block_bytes() > 512 && self.world.unwritable == Some(block)
            || self.world.model[block as usize].is_odd(geometry)
    }

    /// The writes of a commit.
    fn prepare(
        &mut self,
        records: &[Record],
        numbers: &mut Vec<u64>,
        full: &mut bool,
        low: &mut bool,
    ) -> Vec<(u64, Vec<u8>)> {
        let (appended, runs) = self.log.prepare(records);
        (*numbers, *full, *low) = (appended.numbers, appended.full, appended.low);
        let bytes = |run: &Run| {
            let mut bytes = vec![0; run.len];
            self.log.fill(run, records, &mut bytes);
            (run.at, bytes)
        };
        runs.iter().map(bytes).collect()
    }

    /// One step of a job. Returns it unless it has ended.
    fn step(&mut self, mut job: Job) -> Checked<Option<Job>> {
        let rules = self.world.rules;
        let size = self.world.geometry.block_bytes();
        let text = |error: &dyn std::fmt::Display| error.to_string();
        job.phase += 1;
        match (&job.action, job.phase) {
            (Action::Load { groups, .. }, 1) => {
                job.loaded = self.file.load_groups(groups).map_err(|error| text(&error))?;
            }
            (Action::Load { id, .. }, _) => {
                let loaded = std::mem::take(&mut job.loaded);
                for group in &loaded {
                    let now = self.file.load_groups(&[group.number]).map_err(|error| text(&error))?;
                    self.world.counts.newer += u64::from(now[0] != *group);
                }
                self.machine.loaded(*id, loaded);
                return Ok(None);
            }
            (Action::Commit(records), 1) if self.stepped => {
                job.runs = self.prepare(records, &mut job.numbers, &mut job.full, &mut job.low);
                self.world.counts.full += u64::from(job.full);
                if job.runs.len() == 2 && self.world.random.one_in(2) {
                    job.runs.swap(0, 1);
                    self.world.counts.swapped += 1;
                }
            }
            (Action::Commit(_), _) if !job.runs.is_empty() => {
                job.phase = 1;
                let (at, bytes) = job.runs.remove(0);
                self.world.medium.write_at(at, &bytes).map_err(|error| text(&error))?;
            }
            (Action::Commit(records), 1) => {
                let appended = self.log.append(records).map_err(|error| text(&error))?;
                (job.numbers, job.full, job.low) = (appended.numbers, appended.full, appended.low);
                self.world.counts.full += u64::from(job.full);
            }
            (Action::Commit(_), 2) => {
                if self.stepped {
                    if rules.keep(Rule::LogSync) {
                        self.world.medium.sync().map_err(|error| text(&error))?;
                    }
                    self.log.synced();
                } else if rules.keep(Rule::LogSync) {
                    self.log.sync().map_err(|error| text(&error))?;
                }
            }
            (Action::Commit(_), _) => {
                self.machine.committed(&job.numbers, job.full, job.low);
                return Ok(None);
            }
            (Action::Write(id), 1) => {
                let (blocks, Kind::Write { data, .. }) = &self.commands[id] else { panic!("a write") };
                job.done = self.world.drive.write_at(blocks.start * size as u64, data).is_ok();
            }
            (Action::Write(id), _) => {
                let done = job.done || !rules.keep(Rule::SecondLook);
                self.machine.data_written(*id, done);
                return Ok(None);
            }
            (Action::Read(id), 1) => {
                let (blocks, kind) = &self.commands[id];
                let mut bytes = vec![0; (blocks.end - blocks.start) as usize * size];
                self.world.drive.read_at(blocks.start * size as u64, &mut bytes).map_err(|e| text(&e))?;
                if let Kind::Read { acknowledged, .. } = kind {
                    let plain = &self.world.model[blocks.start as usize..blocks.end as usize];
                    for ((plain, least), found) in plain.iter().zip(acknowledged).zip(bytes.chunks(size)) {
                        let version = plain.versions.iter().rposition(|version| version == found);
                        if version.is_none_or(|version| version < *least) {
                            return Err("a read saw an older version than one acknowledged".to_owned());
                        }
                    }
                }
                job.read = Some(bytes);
            }
            (Action::Read(id), _) => {
                let guard = self.world.geometry.format().guard();
                let bytes = job.read.expect("it was read");
                if let (blocks, Kind::Read { tags: true, .. }) = &self.commands[id] {
                    // For when its tags come.
                    let blocks = blocks.clone().zip(bytes.chunks(size).map(<[u8]>::to_vec));
                    self.read.insert(*id, blocks.collect());
                }
                let guards: Vec<u64> = bytes.chunks(size).map(|block| guard.of(block)).collect();
                if self.looks.remove(id) {
                    let blocks = self.commands[id].0.clone();
                    match self.machine.look(&blocks, &guards) {
                        Some(judgement) => self.done(*id, &Outcome::Checked(judgement))?,
                        None => {
                            self.world.counts.looked_again += 1;
                            self.machine.begin(*id, blocks, Request::Sweep);
                        }
                    }
                } else if self.at_once.remove(id) {
                    let outcome = self.machine.read_now(*id, Some(&guards));
                    self.done(*id, &outcome)?;
                } else {
                    self.machine.data_read(*id, Some(&guards));
                }
                return Ok(None);
            }
            (Action::SeeAgain(id), _) => {
                let (blocks, _) = &self.commands[id];
                let seen: Vec<_> =
                    blocks.clone().map(|b| Some(self.world.drive.peek(b * size as u64, size))).collect();
                self.machine.seen_again(*id, &seen);
                return Ok(None);
            }
            (Action::Flush(id), 1) => {
                if id.is_some() || rules.keep(Rule::FlushFirst) {
                    self.world.drive.flush().map_err(|error| text(&error))?;
                }
            }
            (Action::Flush(id), _) => {
                self.machine.flushed(*id, true);
                return Ok(None);
            }
            (Action::Store(pages), 1) => self.file.store(pages).map_err(|error| text(&error))?,
            (Action::Store(_), 2) => {
                if rules.keep(Rule::PageSync) {
                    self.file.sync().map_err(|error| text(&error))?;
                }
            }
            (Action::Store(_), _) => {
                self.machine.stored();
                return Ok(None);
            }
            (Action::Release(upto), _) => {
                let done = self.log.release(*upto).map_err(|error| text(&error))?;
                self.world.counts.checkpoints += u64::from(done);
                self.machine.released(done);
                return Ok(None);
            }
            (Action::Done { .. }, _) => unreachable!("it was taken out"),
        }
        Ok(Some(job))
    }

    /// Does so many steps, each of them any that can be done.
    pub(super) fn run(&mut self, steps: u64) -> Checked<()> {
        for _ in 0..steps {
            self.collect()?;
            let of_checkpoint =
                |job: &Job| matches!(job.action, Action::Flush(None) | Action::Store(_) | Action::Release(_));
            let only_checkpoint = self.slow_checkpoints && self.jobs.iter().all(of_checkpoint);
            let begins = self.commands.len() < DEPTH
                && (self.world.random.one_in(4) || (only_checkpoint && !self.world.random.one_in(128)));
            if self.jobs.is_empty() || begins {
                let kinds = if self.world.random.one_in(8) { 10 } else { 8 };
                let kind = self.world.random.below(kinds);
                self.begin(kind);
                continue;
            }
            let at = self.world.random.below(self.jobs.len() as u64) as usize;
            if self.slow_checkpoints && of_checkpoint(&self.jobs[at]) && !only_checkpoint {
                continue;
            }
            // Much can happen between a read and its end.
            let is_read = matches!(self.jobs[at], Job { action: Action::Load { .. }, phase: 1, .. });
            if self.slow_loads && is_read && !self.world.random.one_in(64) {
                continue;
            }
            let job = self.jobs.swap_remove(at);
            let again = self.step(job)?;
            self.jobs.extend(again);
        }
        Ok(())
    }

    /// Ends what is under way, and begins nothing.
    pub(super) fn settle(&mut self) -> Checked<()> {
        self.collect()?;
        while !self.jobs.is_empty() {
            let at = self.world.random.below(self.jobs.len() as u64) as usize;
            let job = self.jobs.swap_remove(at);
            let again = self.step(job)?;
            self.jobs.extend(again);
            self.collect()?;
        }
        if let Some(id) = self.commands.keys().next() {
            return Err(format!("command {id} never ends"));
        }
        Ok(())
    }

    /// All comes to its end and the file is closed, unless the power goes during that:
    /// whether it may.
    pub(super) fn close(mut self) -> Checked<bool> {
        self.settle()?;
        while !self.machine.is_at_rest() {
            self.machine.begin_checkpoint();
            self.settle()?;
        }
        self.machine.close();
        let cut = self.world.random.one_in(3);
        if cut {
            self.world.store.cut_power_after(self.world.random.below(12));
        }
        if self.file.close(&mut self.log).is_ok() {
            self.world.counts.closed += 1;
        }
        Ok(cut)
    }

    /// The power goes, or the process: of each write under way, some.
    pub(super) fn cut(mut self, kill: bool) {
        for job in std::mem::take(&mut self.jobs) {
            if job.phase > 0 || self.world.random.one_in(2) {
                continue;
            }
            match &job.action {
                Action::Write(id) => {
                    let (blocks, Kind::Write { data, .. }) = &self.commands[id] else { panic!("a write") };
                    let at = blocks.start * self.world.geometry.block_bytes() as u64;
                    let _ = self.world.drive.write_at(at, data);
                }
                Action::Commit(records) if self.stepped => {
                    for (at, bytes) in self.prepare(records, &mut Vec::new(), &mut false, &mut false) {
                        if self.world.random.one_in(2) {
                            let _ = self.world.medium.write_at(at, &bytes);
                        }
                    }
                }
                Action::Commit(records) => drop(self.log.append(records)),
                Action::Store(pages) => drop(self.file.store(pages)),
                Action::Release(upto) if !kill => {
                    // Between the marker and its sync.
                    self.world.medium.power_goes.store(true, Ordering::Relaxed);
                    let _ = self.log.release(*upto);
                }
                _ => {}
            }
        }
    }
}

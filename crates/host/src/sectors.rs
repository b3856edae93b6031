//! Reads a block of a stripe as exactly as its media allow: sector by sector if a member fails.

use crate::error::HostError;
use crate::stripes::{Stripes, Tags, read_tagged};
use crate::target::{Target, View};
use pumice_base::units::Role;
use pumice_offload::{ErrorKind, Unread};
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::gf;
use pumice_protect::origin::{Judged, Opinion};
use pumice_raid::diagnosis::Gap;
use std::ops::Range;
use std::time::Instant;

/// Missing sectors of one member, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) role: Role,
    /// Within the block.
    pub(crate) range: Range<u32>,
    pub(crate) why: Unread,
}

/// One block of a stripe: the contents of every member, and the missing sectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// First byte within the chunk.
    pub(crate) start: u32,
    /// Bytes.
    pub(crate) len: u32,
    /// By role; `None` for a member that the view does not have. Missing sectors are zeros.
    pub(crate) chunks: Vec<Option<Vec<u8>>>,
    /// The results of their tags, by role; `None` without tags. Missing sectors have no result.
    pub(crate) tags: Vec<Option<Tags>>,
    /// In the order of roles and places.
    pub(crate) missing: Vec<Missing>,
}

/// Sectors of a block that lack the same members (R6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Within the block.
    pub(crate) range: Range<u32>,
    /// The members that lack it, in order.
    pub(crate) roles: Vec<Role>,
}

impl Run {
    /// The same as columns of a check matrix.
    pub(crate) fn columns(&self) -> Vec<usize> {
        self.roles.iter().map(|role| role.index()).collect()
    }

    pub(crate) fn bytes(&self) -> Range<usize> {
        self.range.start as usize..self.range.end as usize
    }
}

impl Block {
    /// Reads `len` bytes from `start` of every member's chunk of a stripe, within one block. Failed
    /// reads are repeated sector by sector, while the member's error time lasts.
    ///
    /// # Errors
    /// If a node or a drive fails as a whole.
    pub(crate) fn read(
        target: &Target,
        view: &View,
        reader: &mut Stripes<'_>,
        stripe: u64,
        start: u32,
        len: u32,
    ) -> Result<Self, HostError> {
        let window = reader.read(stripe, start, len)?;
        let mut chunks = vec![None; target.roles()];
        let mut tags = vec![None; target.roles()];
        for ((role, bytes), said) in view.roles().zip(&window.chunks).zip(window.tags) {
            chunks[role.index()] = Some(bytes.to_vec());
            tags[role.index()] = said;
        }
        let failed: Vec<Role> = window.holes.iter().map(|(role, _)| *role).collect();
        let mut block = Self { start, len, chunks, tags, missing: Vec::new() };
        for role in failed {
            block.ask_again(target, stripe, role)?;
        }
        block.missing.sort_by_key(|missing| (missing.role, missing.range.start));
        Ok(block)
    }

    fn ask_again(&mut self, target: &Target, stripe: u64, role: Role) -> Result<(), HostError> {
        let member = target.member(role).expect("the view has it");
        let sector = u64::from(target.sector_bytes(role)?);
        let place = target.place(role, stripe, self.start);
        let errors = target.error_account();
        let format = target.tag_format(role)?;
        let mut said: Vec<Judged> = Vec::new();
        let chunk = self.chunks[role.index()].as_mut().expect("the view has it");
        chunk.fill(0);
        let mut at = 0;
        while at < self.len {
            let offset = place + u64::from(at);
            let to_border = sector - offset % sector;
            let end = (u64::from(at) + to_border).min(u64::from(self.len)) as u32;
            let bytes = &mut chunk[at as usize..end as usize];
            let why = if errors.is_spent(role) {
                Some(Unread::NotAsked)
            } else {
                let began = Instant::now();
                let read = match format {
                    Some(format) => read_tagged(&*member.node, member.drive, format, offset, bytes),
                    None => member.node.read(member.drive, offset, bytes).map(|()| None),
                };
                match read {
                    Ok(tags) => {
                        said.extend(tags.into_iter().flat_map(|tags| tags.judged));
                        None
                    }
                    Err(error) if error.kind() == ErrorKind::Media => {
                        errors.refused(role, began.elapsed());
                        bytes.fill(0);
                        Some(Unread::Refused)
                    }
                    Err(error) => return Err(error.into()),
                }
            };
            if why.is_some() {
                // Whole blocks: a sector of a drive with tags is one.
                said.push(Judged { opinion: Opinion::Unchecked, guard: 0 });
            }
            match (why, self.missing.last_mut()) {
                (None, _) => {}
                (Some(why), Some(last)) if last.role == role && last.range.end == at && last.why == why => {
                    last.range.end = end;
                }
                (Some(why), _) => self.missing.push(Missing { role, range: at..end, why }),
            }
            at = end;
        }
        if let Some(format) = format {
            let whole = said.len() * format.block_bytes as usize == self.len as usize;
            self.tags[role.index()] = whole.then_some(Tags { format, judged: said });
        }
        Ok(())
    }

    /// Approximate bytes read: those of a gathered read over all members.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.len) * self.chunks.iter().flatten().count() as u64
    }

    /// Returns whether a sector was not asked for (R3).
    pub(crate) fn is_not_asked(&self) -> bool {
        self.missing.iter().any(|missing| missing.why == Unread::NotAsked)
    }

    /// The places of one kind, in the chunk, and the members that they are on.
    pub(crate) fn gaps(&self, why: Unread) -> (Vec<Role>, Vec<Gap>) {
        let of_kind = self.missing.iter().filter(|missing| missing.why == why);
        let gaps: Vec<Gap> = of_kind
            .map(|missing| Gap {
                role: missing.role,
                start: self.start + missing.range.start,
                len: missing.range.end - missing.range.start,
            })
            .collect();
        let mut roles: Vec<Role> = gaps.iter().map(|gap| gap.role).collect();
        roles.dedup();
        (roles, gaps)
    }

    /// The block cut where the set of missing members changes.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut cuts: Vec<u32> = self.missing.iter().flat_map(|m| [m.range.start, m.range.end]).collect();
        cuts.extend([0, self.len]);
        cuts.sort_unstable();
        cuts.dedup();
        let run = |pair: &[u32]| {
            let over = self.missing.iter().filter(|m| m.range.start < pair[1] && pair[0] < m.range.end);
            Run { range: pair[0]..pair[1], roles: over.map(|missing| missing.role).collect() }
        };
        cuts.windows(2).map(run).collect()
    }

    /// The rows of `check` over a run; missing members must have no part in them.
    pub(crate) fn syndromes(&self, check: &CheckMatrix, run: &Run) -> Vec<Vec<u8>> {
        (0..check.rows())
            .map(|row| {
                let mut sum = vec![0; run.bytes().len()];
                for (column, chunk) in self.chunks.iter().enumerate() {
                    if let Some(chunk) = chunk {
                        gf::add_scaled(&mut sum, &chunk[run.bytes()], check.get(row, column));
                    }
                }
                sum
            })
            .collect()
    }

    /// The contents of the members over a run, by role; `None` for members that lack it.
    pub(crate) fn contents(&self, run: &Run) -> Vec<Option<&[u8]>> {
        (0..self.chunks.len())
            .map(|index| {
                let chunk = self.chunks[index].as_ref()?;
                let lacks = run.roles.iter().any(|role| role.index() == index);
                (!lacks).then(|| &chunk[run.bytes()])
            })
            .collect()
    }

    /// The contents of `members` over a run that make every equation hold, with the other members
    /// unchanged. `None` if the equations do not determine them.
    pub(crate) fn rebuild(&self, check: &CheckMatrix, columns: &[usize], run: &Run) -> Option<Vec<Vec<u8>>> {
        let recovery = check.recover(columns)?;
        let rebuilt = |row: &Vec<u8>| {
            let mut sum = vec![0; run.bytes().len()];
            for (survivor, coefficient) in recovery.survivors.iter().zip(row) {
                gf::add_scaled(&mut sum, &self.chunks[*survivor].as_ref()?[run.bytes()], *coefficient);
            }
            Some(sum)
        };
        recovery.coefficients.iter().map(rebuilt).collect()
    }

    /// Returns whether every equation that remains over a run holds there.
    pub(crate) fn holds(&self, check: &CheckMatrix, run: &Run) -> bool {
        let remaining = check.eliminate(&run.columns());
        self.syndromes(&remaining, run).iter().all(|row| row.iter().all(|byte| *byte == 0))
    }
}

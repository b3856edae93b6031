//! An array as a scrub sees it: the node and drive of each member, and the equations of each
//! stripe.

use crate::error::HostError;
use crate::locks::{Purpose, StripeLock, StripeLocks};
use crate::media_errors::{ErrorAccount, ErrorLimit};
use crate::stop::Stop;
use pumice_base::units::Role;
use pumice_offload::{
    DataNode, DriveId, Mode, NodeError, PaceFigures, ParityCommand, Rule, Source, TagFormat, Window,
};
use pumice_parity::array_layout::{ArrayLayout, Redundancy};
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::class_plan::ClassPlan;
use pumice_raid::Array;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A member that is present.
#[derive(Clone)]
pub struct Member {
    /// The node that has its drive.
    pub node: Arc<dyn DataNode>,
    /// That node's name.
    pub node_name: String,
    /// The drive.
    pub drive: DriveId,
    /// The operator's name of the device.
    pub device: String,
    /// Start of the array's data on it, in bytes.
    pub data_offset: u64,
    /// Stripes from 0 of which its content can be relied on: all, unless it is being rebuilt.
    pub valid_stripes: u64,
}

/// The device that holds an array's write journal.
#[derive(Clone)]
pub struct JournalDrive {
    /// The node that has it.
    pub node: Arc<dyn DataNode>,
    /// The drive.
    pub drive: DriveId,
}

/// An array with its members on their nodes.
pub struct Target {
    /// The array in md: state, members, waiting records.
    array: Array,
    /// Layout of the array on its members. Everything but md's own matters uses this.
    layout: ArrayLayout,
    members: Vec<Option<Member>>,
    journal: Option<JournalDrive>,
    errors: ErrorAccount,
    /// Locks on stripes, if somebody writes the array meanwhile.
    locks: Option<Arc<dyn StripeLocks>>,
    /// The tags of each member's drive, once they were asked for.
    tags: Vec<OnceLock<Option<TagFormat>>>,
}

/// The members of a view that one node has.
pub(crate) struct Share {
    pub(crate) node: Arc<dyn DataNode>,
    pub(crate) node_name: String,
    pub(crate) roles: Vec<Role>,
    pub(crate) sources: Vec<Source>,
    /// The tags of each source's drive, if it has some.
    pub(crate) tags: Vec<Option<TagFormat>>,
    pub(crate) rule: Rule,
    /// The drive whose local memory the node uses for interims.
    pub(crate) memory_drive: DriveId,
}

/// A range of stripes with the same members present.
pub(crate) struct View {
    pub(crate) shares: Vec<Share>,
    /// The remaining equations, by class of stripe; columns are roles.
    pub(crate) classes: Vec<CheckMatrix>,
    /// The first stripe of the layout's band. Nodes count stripes from there: a source's base is
    /// the place of this one's chunk.
    first: u64,
    /// Bytes from one stripe's chunk to the next one's.
    pitch: u64,
    /// The stripes are locked while they are looked at, and users wait: commands keep no pace.
    claimed: bool,
    /// Bytes of local memory of the first share's drive.
    pub(crate) memory_bytes: u64,
    /// Bytes of local memory of the share's drive that has least of it: what each may hold of its
    /// own.
    pub(crate) own_bytes: u64,
}

impl View {
    /// Parity rows that remain.
    pub(crate) fn rows(&self) -> usize {
        self.classes[0].rows()
    }

    /// Returns whether a member's drive has tags.
    pub(crate) fn has_tags(&self) -> bool {
        self.shares.iter().any(|share| share.tags.iter().any(Option::is_some))
    }

    /// Bytes from one stripe's chunk to the next one's.
    pub(crate) fn pitch(&self) -> u64 {
        self.pitch
    }

    /// The class of a stripe.
    pub(crate) fn class(&self, stripe: u64) -> usize {
        (self.repetition(stripe) % self.classes.len() as u64) as usize
    }

    /// The remaining equations of a stripe.
    pub(crate) fn check_matrix(&self, stripe: u64) -> &CheckMatrix {
        &self.classes[self.class(stripe)]
    }

    /// The number by which a node knows a stripe: its repetition of the sources.
    pub(crate) fn repetition(&self, stripe: u64) -> u64 {
        stripe - self.first
    }

    /// The stripe of a node's repetition.
    pub(crate) fn stripe(&self, repetition: u64) -> u64 {
        self.first + repetition
    }

    /// A command over a window of the chunks that a share's members have of `stripes`.
    ///
    /// # Panics
    /// Never: two chunks of a gigabyte are within 32 bits, and no layout has a larger pitch.
    pub(crate) fn command(
        &self,
        share: &Share,
        stripes: Range<u64>,
        window: Window,
        mode: Mode,
    ) -> ParityCommand {
        ParityCommand {
            unpaced: self.claimed,
            sources: share.sources.clone(),
            chunk: u32::try_from(self.pitch).expect("a layout bounds its pitch"),
            window,
            stripes: self.repetition(stripes.start)..self.repetition(stripes.end),
            rule: share.rule.clone(),
            mode,
        }
    }

    /// Members present.
    pub(crate) fn present(&self) -> usize {
        self.shares.iter().map(|share| share.roles.len()).sum()
    }

    /// The roles present, in the order in which [`Stripes`] delivers their chunks.
    pub(crate) fn roles(&self) -> impl Iterator<Item = Role> + '_ {
        self.shares.iter().flat_map(|share| share.roles.iter().copied())
    }

    /// Plans by which a host folds each class, sources in the order of [`roles`](Self::roles).
    pub(crate) fn plans(&self) -> Vec<ClassPlan> {
        let columns: Vec<usize> = self.roles().map(Role::index).collect();
        let rule = Rule::for_columns(&self.classes, &columns).expect("a view has rows and members");
        (0..self.classes.len()).map(|class| ClassPlan::new(rule.rows(), &rule.columns(class))).collect()
    }

    /// Columns of the whole code that weights must not be blind to.
    pub(crate) fn guard(&self) -> &[Vec<u8>] {
        self.shares[0].rule.guard()
    }
}

impl Target {
    /// An array and its members by role; `None` if a role is missing.
    ///
    /// # Panics
    /// If there are not as many members as roles.
    #[must_use]
    pub fn new(array: Array, members: Vec<Option<Member>>) -> Self {
        let layout = array.layout();
        assert_eq!(members.len(), layout.columns(), "one entry a role");
        let tags = vec![OnceLock::new(); members.len()];
        let errors = ErrorAccount::default();
        Self { array, layout, members, journal: None, errors, locks: None, tags }
    }

    /// The same, with the device of its write journal: without it, nothing of an array that has one
    /// can be settled while others write.
    #[must_use]
    pub fn with_journal(self, journal: Option<JournalDrive>) -> Self {
        Self { journal, ..self }
    }

    /// The same, of an array that is written meanwhile; its writer gives these locks.
    ///
    /// Nothing else is used of the members' nodes that the writer may use as well: no local memory,
    /// no pace, and neither is a lost connection made anew.
    #[must_use]
    pub fn with_locks(self, locks: Arc<dyn StripeLocks>) -> Self {
        Self { locks: Some(locks), ..self }
    }

    /// Returns whether somebody writes the array meanwhile, and locks stripes.
    pub(crate) const fn is_locked(&self) -> bool {
        self.locks.is_some()
    }

    /// Locks stripes, none of which lies across a border, if somebody writes the array meanwhile.
    ///
    /// # Errors
    /// If there is no lock, or a member lacks what was written there.
    pub(crate) fn lock(
        &self,
        stripes: Range<u64>,
        purpose: Purpose,
        stop: &Stop,
    ) -> Result<Option<StripeLock>, HostError> {
        let Some(locks) = &self.locks else { return Ok(None) };
        let first = stripes.start;
        let lock = locks.lock(stripes, purpose, stop)?;
        let lacks = |(role, member): &(Role, &Member)| first < member.valid_stripes && !lock.has(*role);
        match self.members().find(lacks) {
            Some((role, _)) => Err(HostError::MemberLeft(role)),
            None => Ok(Some(lock)),
        }
    }

    /// The same, with another limit on what refused reads may cost.
    #[must_use]
    pub fn with_error_limit(self, limit: ErrorLimit) -> Self {
        Self { errors: ErrorAccount::new(limit), ..self }
    }

    /// Members that belong to the array by its superblocks, and were not given to this run.
    pub(crate) fn merely_unnamed(&self) -> &[Role] {
        self.array.not_named()
    }

    /// Cost of refused reads so far, by member.
    pub(crate) fn error_account(&self) -> &ErrorAccount {
        &self.errors
    }

    /// Roles of the array, whether or not their members are present.
    pub(crate) fn roles(&self) -> usize {
        self.members.len()
    }

    /// Bytes of a sector of a member's drive: the smallest unit that it reads and writes.
    ///
    /// # Panics
    /// If the member is missing.
    pub(crate) fn sector_bytes(&self, role: Role) -> Result<u32, HostError> {
        let member = self.member(role).expect("the member is present");
        let drives = member.node.describe()?.drives;
        Ok(drives.iter().find(|drive| drive.id == member.drive).map_or(512, |drive| drive.block_bytes))
    }

    /// The tags of a member's drive, if it has some.
    ///
    /// # Panics
    /// If the member is missing.
    pub(crate) fn tag_format(&self, role: Role) -> Result<Option<TagFormat>, NodeError> {
        let known = &self.tags[role.index()];
        if let Some(format) = known.get() {
            return Ok(*format);
        }
        let member = self.member(role).expect("the member is present");
        let tagged = member.node.tagged();
        let format = tagged.map_or(Ok(None), |drives| drives.tag_format(member.drive))?;
        Ok(*known.get_or_init(|| format))
    }

    /// The device of its write journal, where there is one.
    pub(crate) fn journal(&self) -> Option<&JournalDrive> {
        self.journal.as_ref()
    }

    /// The array.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Layout of its stripes on its members.
    #[must_use]
    pub const fn layout(&self) -> &ArrayLayout {
        &self.layout
    }

    /// Bytes of a chunk of a stripe.
    ///
    /// # Panics
    /// If there is no such stripe.
    #[must_use]
    pub fn chunk(&self, stripe: u64) -> u32 {
        self.layout.band(stripe).chunk_bytes
    }

    /// The member in a role.
    #[must_use]
    pub fn member(&self, role: Role) -> Option<&Member> {
        self.members.get(role.index())?.as_ref()
    }

    /// Every member present.
    pub fn members(&self) -> impl Iterator<Item = (Role, &Member)> {
        self.members.iter().enumerate().filter_map(|(i, m)| Some((Role(i as u16), m.as_ref()?)))
    }

    /// The nodes of the members, each once.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<dyn DataNode>> {
        let mut seen: Vec<&str> = Vec::new();
        self.members().filter_map(move |(_, member)| {
            let new = !seen.contains(&member.node_name.as_str());
            seen.push(&member.node_name);
            new.then_some(&member.node)
        })
    }

    /// Measurements of the nodes of their pace on the members' drives.
    ///
    /// # Errors
    /// If a node does not answer.
    pub fn pace_figures(&self) -> Result<Vec<(Role, PaceFigures)>, HostError> {
        let mut out = Vec::new();
        for node in self.nodes() {
            for figures in node.pace_figures()? {
                let at = |(_, member): &(Role, &Member)| {
                    Arc::ptr_eq(&member.node, node) && member.drive == figures.drive
                };
                out.extend(self.members().find(at).map(|(role, _)| (role, figures)));
            }
        }
        out.sort_by_key(|(role, _)| *role);
        Ok(out)
    }

    /// The byte offset on its device of byte `start` of a member's chunk.
    ///
    /// # Panics
    /// If the member is missing, or has no chunk in that stripe.
    #[must_use]
    pub fn place(&self, role: Role, stripe: u64, start: u32) -> u64 {
        let member = self.member(role).expect("the member is present");
        let chunk = self.layout.place(stripe, role.index()).expect("the member has a chunk in that stripe");
        member.data_offset + chunk + u64::from(start)
    }

    /// Kind of the redundant columns of a stripe.
    pub(crate) fn redundancy(&self, stripe: u64) -> &Redundancy {
        self.layout.class(stripe).redundancy()
    }

    /// The stripes at which the set of usable members or the rule of placement changes, in order;
    /// the first is 0.
    pub(crate) fn borders(&self) -> Vec<u64> {
        let mut borders: Vec<u64> = self.members().map(|(_, m)| m.valid_stripes).collect();
        borders.retain(|border| *border < self.layout.stripes());
        borders.extend(self.layout.bands().iter().map(|band| band.stripes.start));
        borders.push(0);
        borders.sort_unstable();
        borders.dedup();
        borders
    }

    /// The members that can be read in a stripe, and the roles with a chunk there that cannot.
    fn usable(&self, stripe: u64) -> (Vec<(Role, &Member)>, Vec<usize>) {
        let starts = &self.layout.band(stripe).starts;
        let has_chunk = |role: usize| starts[role].is_some();
        let present: Vec<(Role, &Member)> = self
            .members()
            .filter(|(role, member)| has_chunk(role.index()) && stripe < member.valid_stripes)
            .collect();
        let missing = (0..self.members.len())
            .filter(|role| has_chunk(*role) && !present.iter().any(|(there, _)| there.index() == *role))
            .collect();
        (present, missing)
    }

    /// Equations of a stripe with all members, and with those that can be read.
    pub(crate) fn equations(&self, stripe: u64) -> (usize, usize) {
        let check = self.layout.class(stripe).check();
        (check.rows(), check.eliminate(&self.usable(stripe).1).rows())
    }

    /// The view of a stripe: members present, grouped by node, and the equations that remain
    /// without the others.
    ///
    /// # Errors
    /// If nothing can be checked with the members present.
    pub(crate) fn view(&self, stripe: u64) -> Result<View, HostError> {
        let (present, missing) = self.usable(stripe);
        let band = self.layout.band(stripe);
        let classes: Vec<CheckMatrix> =
            band.classes.iter().map(|class| class.check().eliminate(&missing)).collect();
        if classes.iter().any(|class| class.rows() == 0) {
            return Err(HostError::TooFewMembers { stripe, missing: missing.len() });
        }
        let mut by_node: BTreeMap<&str, Vec<(Role, &Member)>> = BTreeMap::new();
        let mut order: Vec<&str> = Vec::new();
        for (role, member) in present {
            let name = member.node_name.as_str();
            if !order.contains(&name) {
                order.push(name);
            }
            by_node.entry(name).or_default().push((role, member));
        }
        let shares: Vec<Share> = order
            .iter()
            .map(|name| self.share(&by_node[name], &classes, &band.starts))
            .collect::<Result<_, _>>()?;
        let mut memory = Vec::with_capacity(shares.len());
        for share in &shares {
            let drives = share.node.describe()?.drives;
            let drive = drives.iter().find(|d| d.id == share.memory_drive && !self.is_locked());
            memory.push(drive.map_or(0, |d| d.memory_bytes));
        }
        let own_bytes = memory.iter().copied().min().unwrap_or(0);
        Ok(View {
            shares,
            classes,
            first: band.stripes.start,
            pitch: band.pitch,
            claimed: self.is_locked(),
            memory_bytes: memory[0],
            own_bytes,
        })
    }

    fn share(
        &self,
        members: &[(Role, &Member)],
        classes: &[CheckMatrix],
        starts: &[Option<u64>],
    ) -> Result<Share, HostError> {
        let roles: Vec<Role> = members.iter().map(|(role, _)| *role).collect();
        let columns: Vec<usize> = roles.iter().map(|role| role.index()).collect();
        let rule = Rule::for_columns(classes, &columns)
            .map_err(|error| NodeError::invalid("rule", error.to_string()))?;
        let first = members[0].1;
        let source = |(role, member): &(Role, &Member)| {
            let start = starts[role.index()].expect("a usable member has a chunk");
            Source::Media { drive: member.drive, base: member.data_offset + start }
        };
        Ok(Share {
            node: Arc::clone(&first.node),
            node_name: first.node_name.clone(),
            sources: members.iter().map(source).collect(),
            tags: roles.iter().map(|role| self.tag_format(*role)).collect::<Result<_, _>>()?,
            roles,
            rule,
            memory_drive: first.drive,
        })
    }
}

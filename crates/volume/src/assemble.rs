//! The state of the members when a volume begins, and its consequences.
//!
//! `docs/reference/on-disk/stripe-log.md`, *Replay*, has the steps.

use crate::intent::next_bit;
use crate::log::{Head, LoggedBlocks, LoggedMember, Replay, Sums, SuperblockMark, replay};
use crate::member::{MemberPlace, mark};
use crate::older::are_older;
use crate::refusal::EVENTS_LEFT;
pub use crate::refusal::Refusal;
use crate::rows::{RoleSet, RowLayout, Windows};
use pumice_base::units::{Role, Rules};
use pumice_raid::bitmap::Bitmap;
use pumice_raid::superblock::features::Features;
use pumice_raid::superblock::v1::{RESYNC_DONE, V1};
use std::collections::BTreeSet;

/// The contents of one device that was read.
#[derive(Debug, Clone)]
pub struct MemberLook {
    /// Its superblock.
    pub superblock: V1,
    /// Places of superblock, bitmap, logs and data on it.
    pub place: MemberPlace,
    /// The head of its stripe log.
    pub head: Option<Head>,
    /// The records that its head's generation and nonce vouch for.
    pub records: Vec<LoggedBlocks>,
    /// Its bitmap.
    pub bitmap: Option<Bitmap>,
    /// Its bitmap's bytes: whole sectors, header included.
    pub bitmap_bytes: Vec<u8>,
    /// Blocks of its data area in its bad-block log.
    pub bad: BTreeSet<u64>,
}

/// The findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Something else ran the array since the log was written.
    pub discarded: bool,
    /// Writes that were never durable.
    pub dropped: u64,
    /// Blocks that are copied from the log.
    pub applied: u64,
    /// Windows whose parity is computed from data.
    pub resynced: u64,
    /// Members that are failed because they cannot be reached, or their log cannot be read, or they
    /// are older than the others.
    pub failed: Vec<Role>,
    /// Those of them that are older: they lack what the others say was on all.
    pub older: Vec<Role>,
}

/// A rule of the writer. Tests leave one out and see data lost, so that each is known to be needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A window has one write at a time.
    OneWrite,
    /// Nothing is in place before every record is durable.
    RecordsFirst,
    /// The horizon is durable on every member in sync.
    HorizonEverywhere,
    /// A flush waits for older writes, or the horizon does not cover what it flushed.
    FlushWaits,
    /// Superblocks say that a member failed before anything goes on without it.
    FailureFirst,
    /// The horizon is raised only after the superblocks say which members did not flush.
    FailureBeforeHorizon,
    /// After a failure a write goes on only with what is left of its members.
    LogAgain,
    /// New blocks that the nodes have made stay as they are made: a write that may be in place in
    /// part is not planned again.
    KeepMade,
    /// A write that was logged and failed stays in its window until replay would not take it.
    FailedIsVoid,
    /// The log has room for every write that may have to be logged again.
    RoomForAgain,
    /// Recovery begins a new generation of the log.
    NewGeneration,
    /// Full stripes are logged with their blocks while a data member is missing.
    BlocksWhileDegraded,
    /// Replay applies no record over a full stripe that was logged after it.
    FullStripesSupersede,
    /// A full stripe is logged with its blocks where one of them was listed as bad, until the list
    /// without it is durable.
    MendedHasBlocks,
    /// Heads announce superblocks.
    HeadsFirst,
    /// Parity of full stripes is computed anew after a crash.
    ParityOfTorn,
    /// Bits are durable before a write.
    BitsFirst,
    /// The superblocks are dirty before a write.
    DirtyFirst,
    /// A device that comes back is restored wherever a bit is set.
    MissedHasBits,
    /// A claim is granted when it has the locks of its windows.
    ClaimsWait,
    /// The room of records is used again only when the horizon that covers them is durable.
    RoomAfterHorizon,
    /// Superblocks say which members cannot be reached before anything is replayed.
    AwayFirst,
    /// A block whose record is damaged is unknown until it is computed.
    ErasedIsUnknown,
    /// The horizon covers every record there is when a device joins.
    HorizonBeforeJoin,
    /// Blocks that are listed as bad are not read by a stretch.
    StretchAvoidsBad,
    /// Blocks that a stretch has read of a member that fails meanwhile do not count.
    StretchEnds,
    /// A stretch reads no member that has only some of its windows.
    StretchAllOrNone,
    /// The superblock of a member that is rebuilt is written before those of the others.
    RebuiltFirst,
    /// Superblocks name no window as restored that is not flushed.
    RestoredIsFlushed,
    /// Recovery writes the bits of all members together on each.
    BitsOfAll,
    /// A member that is back gets the bits that it may have missed.
    BitsOfReturned,
    /// Blocks that a medium did not give are asked for again before they are written.
    AsksAgain,
}

/// Windows that something else than our log left dirty. They are not listed: there may be very
/// many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dirty {
    None,
    /// Those with a bit in the bitmap, whose regions have so many bytes.
    Bits(u64),
    All,
}

impl Dirty {
    /// The number of its windows.
    fn windows(self, layout: &dyn RowLayout, bitmap: &[u8]) -> u64 {
        match self {
            Self::None => 0,
            Self::Bits(region) => dirty_windows(layout, bitmap, region),
            Self::All => Windows::new(layout).count,
        }
    }
}

/// The state with which a volume begins.
#[derive(Debug)]
pub struct Assembly {
    pub(crate) members: Vec<Option<MemberLook>>,
    /// dev_numbers to be called faulty before anything else.
    pub(crate) fail: Vec<u32>,
    /// The newest superblock: its counts, state and table are the array's.
    pub(crate) newest: V1,
    pub(crate) generation: u64,
    pub(crate) log_nonce: u64,
    pub(crate) log_sums: Sums,
    pub(crate) nonce: u64,
    /// The horizon of the old generation.
    pub(crate) old_released: u64,
    pub(crate) replay: Replay,
    /// Windows whose parity is computed from data, beside those of the replay.
    pub(crate) dirty: Dirty,
    pub(crate) use_log: bool,
    /// The log that was found is of the array as it is.
    pub(crate) ours: bool,
    pub(crate) bitmap: Vec<u8>,
    pub(crate) rules: Rules<Rule>,
    pub(crate) writer: u128,
    /// The findings.
    pub report: Report,
}

impl Assembly {
    /// Leaves a rule out, in a test: data will be lost.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn under(mut self, rules: Rules<Rule>) -> Self {
        self.rules = rules;
        if !rules.keep(Rule::FullStripesSupersede) && self.ours {
            self.replay = crate::log::judged(&logs(&self.members, self.generation), false);
        }
        self
    }
}

/// Judges what was read, for a writer: any number that others do not use, or 0 for one that leaves
/// no mark and is refused by every other's. `nonce` is random.
///
/// # Errors
/// If the array cannot be written as it is.
pub fn assemble(
    layout: &dyn RowLayout,
    looks: Vec<MemberLook>,
    use_log: bool,
    writer: u128,
    nonce: u64,
) -> Result<Assembly, Refusal> {
    let newest = looks.iter().max_by_key(|look| look.superblock.events).ok_or(Refusal::None)?;
    let sb = newest.superblock.clone();
    check(layout, &looks, &sb, use_log)?;
    let (mut members, behind) = by_role(layout, looks, &sb);
    not_apart(&members, &sb)?;
    let clean = sb.resync_offset == RESYNC_DONE;
    let (ours, any_head) = heed_log(&mut members, &sb, use_log, writer)?;
    let mut report = Report { discarded: any_head && !ours, ..Report::default() };
    let older = strike_older(&mut members, ours, sb.events);
    report.older = behind.into_iter().chain(older).filter(|role| members[role.index()].is_none()).collect();
    let fail = strike_unreadable(layout, &mut members, &sb, ours, &mut report);
    let missing = missing_of(&members);
    if !layout.corrects(&missing) {
        return Err(Refusal::TooFew { missing: missing.len() as u16, survives: layout.survives() });
    }
    if use_log {
        has_places(&members)?;
    }

    let head = members.iter().flatten().filter_map(|look| look.head).max_by_key(|head| head.generation);
    let generation = head.map_or(0, |head| head.generation);
    let mut found = Replay::default();
    let (mut old_released, mut dirty) = (0, Dirty::None);
    if ours {
        let logs = logs(&members, generation);
        found = replay(&logs);
        old_released = logs.iter().map(|log| log.released).max().unwrap_or(0);
    } else if !clean {
        if !missing.is_empty() {
            return Err(Refusal::DirtyDegraded);
        }
        dirty = dirty_of(&members);
    }
    // What a member has missed that is older has no bit, perhaps: those were cleared with it.
    let bitmap = bits(&members, !report.older.is_empty());
    report.dropped = found.dropped;
    report.applied = found.apply.len() as u64;
    report.resynced = found.torn.len() as u64 + dirty.windows(layout, &bitmap);
    Ok(Assembly {
        members,
        fail,
        newest: sb,
        generation,
        log_nonce: head.map_or(0, |head| head.nonce),
        log_sums: head.map_or(Sums::Keyed, |head| head.sums),
        nonce,
        old_released,
        replay: found,
        dirty,
        use_log,
        ours,
        bitmap,
        rules: Rules::all(),
        writer,
        report,
    })
}

/// The devices by their roles, and roles of devices that are behind. The newest table says who is a
/// member. One event behind is an update that was cut short.
fn by_role(layout: &dyn RowLayout, looks: Vec<MemberLook>, sb: &V1) -> (Vec<Option<MemberLook>>, Vec<Role>) {
    let mut members: Vec<Option<MemberLook>> = (0..layout.members()).map(|_| None).collect();
    let mut behind = Vec::new();
    for look in looks {
        let role = sb.dev_roles.get(look.superblock.dev_number as usize).copied().unwrap_or(u16::MAX);
        let current = sb.events - look.superblock.events <= 1;
        match members.get_mut(usize::from(role)) {
            Some(slot) if current => *slot = Some(look),
            Some(_) => behind.push(Role(role)),
            None => {}
        }
    }
    (members, behind)
}

/// Returns whether the log that was found is of the array as it is, and whether there is any. Of an
/// array that is opened without its log, heads count for nothing from now on.
fn heed_log(
    members: &mut [Option<MemberLook>],
    sb: &V1,
    use_log: bool,
    writer: u128,
) -> Result<(bool, bool), Refusal> {
    let (ours, any_head) = whose(members, sb.events);
    if ours {
        // What Linux ran since is not held by whoever ran it before.
        not_held(members, writer)?;
    }
    if use_log {
        return Ok((ours, any_head));
    }
    let clean = sb.resync_offset == RESYNC_DONE;
    let first = members.iter().position(|look| look.as_ref().is_some_and(|look| look.head.is_some()));
    if let (true, false, Some(first)) = (ours, clean, first) {
        // There are at most as many members as roles.
        return Err(Refusal::LogWaits { role: Role(first as u16) });
    }
    members.iter_mut().flatten().for_each(|look| look.head = None);
    Ok((false, false))
}

/// Takes out members that lack what was durable on all. Returns their roles.
fn strike_older(members: &mut [Option<MemberLook>], ours: bool, events: u64) -> BTreeSet<Role> {
    let heads = (0..).map(Role).zip(&*members).filter_map(|(role, look)| {
        let look = look.as_ref()?;
        Some((role, look.head?, &look.records[..]))
    });
    let heads: Vec<_> = heads.filter(|_| ours).collect();
    let older = are_older(&heads, events);
    older.iter().for_each(|role| members[role.index()] = None);
    older
}

/// Takes out members whose log cannot be read. Returns the numbers of those and of all others that
/// are not there.
fn strike_unreadable(
    layout: &dyn RowLayout,
    members: &mut [Option<MemberLook>],
    sb: &V1,
    ours: bool,
    report: &mut Report,
) -> Vec<u32> {
    let number_of = |role: u16| sb.dev_roles.iter().position(|r| *r == role);
    let mut fail = Vec::new();
    for role in 0..layout.members() {
        let slot = &mut members[usize::from(role)];
        let readable = slot.as_ref().is_some_and(|look| !ours || look.head.is_some());
        if let (false, Some(number)) = (readable, number_of(role)) {
            *slot = None;
            // A position in a table of at most 1920.
            fail.push(number as u32);
            report.failed.push(Role(role));
        }
    }
    fail
}

/// Members that are not there, or are being rebuilt.
fn missing_of(members: &[Option<MemberLook>]) -> RoleSet {
    let rebuilding = |look: &MemberLook| look.superblock.feature_map & Features::RECOVERY_OFFSET != 0;
    let is_missing = |look: &Option<MemberLook>| look.as_ref().is_none_or(rebuilding);
    (0..).map(Role).zip(members).filter(|(_, look)| is_missing(look)).map(|(role, _)| role).collect()
}

/// Refuses members without a place for the stripe log, or for bad blocks.
fn has_places(members: &[Option<MemberLook>]) -> Result<(), Refusal> {
    for (role, look) in (0..).map(Role).zip(members) {
        let Some(place) = look.as_ref().map(|look| look.place) else { continue };
        if place.log.is_none() {
            return Err(Refusal::NoLog(role));
        }
        if place.bad_blocks.is_none() {
            return Err(Refusal::NoBadBlockLog(role));
        }
    }
    Ok(())
}

fn check(layout: &dyn RowLayout, looks: &[MemberLook], sb: &V1, use_log: bool) -> Result<(), Refusal> {
    if looks.iter().any(|look| look.superblock.set_uuid != sb.set_uuid) {
        return Err(Refusal::TwoArrays);
    }
    let known = Features::BITMAP | Features::RECOVERY_OFFSET | Features::BAD_BLOCKS;
    for look in looks {
        let map = Features(look.superblock.feature_map);
        let strange = Features(map.0 & !known);
        if strange != Features(0) {
            return Err(Refusal::Feature { number: look.superblock.dev_number, map, strange });
        }
    }
    if sb.raid_disks != u32::from(layout.members()) {
        return Err(Refusal::RaidDisks { found: sb.raid_disks, layout: layout.members() });
    }
    if sb.events > u64::MAX - EVENTS_LEFT {
        return Err(Refusal::Events(sb.events));
    }
    if use_log && layout.members() > crate::log::Record::most_members() {
        return Err(Refusal::TooMany(layout.members()));
    }
    Ok(())
}

/// Returns whether the newest superblocks are those that the heads know, and whether there is any
/// head of a log that had begun.
fn whose(members: &[Option<MemberLook>], events: u64) -> (bool, bool) {
    let newest = members.iter().flatten().filter(|look| look.superblock.events == events);
    let heads: Vec<(Head, bool)> =
        newest.filter_map(|look| look.head.map(|head| (head, head.knows(mark(&look.superblock))))).collect();
    let ours = !heads.is_empty() && heads.iter().all(|(_, ours)| *ours);
    (ours, heads.iter().any(|(head, ours)| *ours || head.last != SuperblockMark::NONE))
}

/// Refuses drives that were run apart from each other. Numbers tell most of them: by the newest
/// table they have failed. But their number may have been given to another device since, and their
/// count may be near. A member that is in sync was one by every superblock of the last two counts.
fn not_apart(members: &[Option<MemberLook>], newest: &V1) -> Result<(), Refusal> {
    let here = || members.iter().flatten().map(|look| &look.superblock);
    let in_sync = |sb: &&V1| sb.feature_map & Features::RECOVERY_OFFSET == 0;
    for own in here() {
        let differs = |of: &&V1| {
            let role = |table: &[u16]| table.get(of.dev_number as usize).copied();
            role(&own.dev_roles) != role(&newest.dev_roles)
        };
        if let Some(other) = here().filter(in_sync).find(differs) {
            return Err(Refusal::Apart { number: own.dev_number, other: other.dev_number });
        }
    }
    Ok(())
}

/// Refuses an array that another writer has.
fn not_held(members: &[Option<MemberLook>], writer: u128) -> Result<(), Refusal> {
    for (role, look) in (0..).map(Role).zip(members) {
        let other = look.as_ref().and_then(|look| look.head).map_or(0, |head| head.writer);
        if other != 0 && other != writer {
            return Err(Refusal::Held { role, writer: other });
        }
    }
    Ok(())
}

fn logs(members: &[Option<MemberLook>], generation: u64) -> Vec<LoggedMember> {
    let mut out = Vec::new();
    for (role, look) in (0..).zip(members) {
        let Some(look) = look else { continue };
        let of_it = look.head.filter(|head| head.generation == generation);
        out.push(LoggedMember {
            role: Role(role),
            released: of_it.map_or(0, |head| head.released),
            records: if of_it.is_some() { look.records.clone() } else { Vec::new() },
        });
    }
    out
}

/// The windows that are dirty: those of regions with a bit, or all if the bitmap does not say.
fn dirty_of(members: &[Option<MemberLook>]) -> Dirty {
    let region = |look: &MemberLook| {
        let bitmap = look.bitmap.as_ref().filter(|bitmap| bitmap.overridden().is_none())?;
        Some(bitmap.header().chunk_bytes)
    };
    let regions = members.iter().flatten().map(region);
    let regions: Option<BTreeSet<u32>> = regions.collect();
    match regions.as_ref().and_then(|regions| regions.first()) {
        // The bits of members are put together, so they have to mean the same.
        Some(region) if regions.as_ref().is_some_and(|regions| regions.len() == 1) => {
            Dirty::Bits(u64::from(*region))
        }
        _ => Dirty::All,
    }
}

/// The number of windows in regions whose bit is set.
fn dirty_windows(layout: &dyn RowLayout, bitmap: &[u8], region: u64) -> u64 {
    let windows = Windows::new(layout);
    let regions = (windows.count * windows.bytes()).div_ceil(region);
    let (mut sum, mut end, mut from) = (0, 0, 0);
    while let Some(bit) = next_bit(bitmap, from, regions) {
        let upto = ((bit + 1) * region).div_ceil(windows.bytes()).min(windows.count);
        sum += upto - (bit * region / windows.bytes()).max(end).min(upto);
        (end, from) = (upto, bit + 1);
    }
    sum
}

/// The bits of all members together, with the newest header. All bits, if those of any member do
/// not count: the counts that are written next would make them count again. Or if `all` says so.
fn bits(members: &[Option<MemberLook>], all: bool) -> Vec<u8> {
    let newest = members.iter().flatten().max_by_key(|look| look.superblock.events);
    let mut out = newest.map_or_else(Vec::new, |look| look.bitmap_bytes.clone());
    for look in members.iter().flatten() {
        let header = pumice_raid::bitmap::HEADER_BYTES;
        for (sum, byte) in out.iter_mut().zip(&look.bitmap_bytes).skip(header) {
            *sum |= byte;
        }
    }
    let mut bitmaps = members.iter().flatten().filter_map(|look| look.bitmap.as_ref());
    if all || bitmaps.any(|bitmap| bitmap.overridden().is_some()) {
        out.iter_mut().skip(pumice_raid::bitmap::HEADER_BYTES).for_each(|byte| *byte = 0xFF);
    }
    out
}

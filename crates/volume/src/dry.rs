//! A volume without drives: what it would do for requests, command by command.
//!
//! Every command is taken for done at once. So the commands of a request are those of a volume on
//! which nothing fails and nothing else is under way.

use crate::action::{Action, Command, Effect, Event, Outcome, Request, RequestId};
use crate::assemble::{MemberLook, assemble};
use crate::member::MemberPlace;
use crate::near::NearNodes;
use crate::rows::BLOCK;
use crate::volume::Volume;
use pumice_base::units::Role;
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};
use pumice_raid::superblock::v1::{ROLE_SPARE, V1};
use pumice_raid::writer::FormatError;
use pumice_raid::{FormatSpec, Metadata, ReadAt, Uuid, probe};
use std::io;

/// The start of the data: a member's superblock, bitmap, bad-block log and stripe log lie before.
const DATA: u64 = 17 << 20;
const SUPERBLOCK: u64 = 4096;

/// The volume of a dry run.
#[derive(Debug, Clone)]
pub struct DrySpec {
    /// The level.
    pub level: Level,
    /// The layout; `None` for RAID-4.
    pub layout: Option<Layout>,
    /// Members, parities included.
    pub members: u16,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Stripes.
    pub stripes: u64,
    /// With the stripe log.
    pub log: bool,
    /// Nodes that make parity, if any do.
    pub nodes: Option<NearNodes>,
}

/// Reasons why there is no such volume.
#[derive(Debug, thiserror::Error)]
pub enum DryError {
    /// A field makes no sense.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It cannot be written.
    #[error("such a volume cannot be written: {0}")]
    Refused(String),
}

/// The contents of a member: a few structures, and zeros.
struct Sparse {
    len: u64,
    writes: Vec<(u64, Vec<u8>)>,
}

impl ReadAt for Sparse {
    fn size_bytes(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        buf.fill(0);
        for (at, bytes) in &self.writes {
            let (start, end) = (offset.max(*at), (offset + buf.len() as u64).min(at + bytes.len() as u64));
            if start < end {
                let part = &bytes[(start - at) as usize..(end - at) as usize];
                buf[(start - offset) as usize..(end - offset) as usize].copy_from_slice(part);
            }
        }
        Ok(())
    }
}

/// A volume whose commands are noted and not carried out.
pub struct DryRun {
    volume: Volume,
    geometry: Geometry,
    place: MemberPlace,
    model: V1,
    nodes: Option<NearNodes>,
    next_request: u64,
    /// Commands for it fail.
    lost: Option<Role>,
}

impl DryRun {
    /// A new volume, ready for requests and already dirty: the first write finds nothing to do but
    /// its own.
    ///
    /// # Errors
    /// If there is no such volume.
    pub fn new(spec: &DrySpec) -> Result<Self, DryError> {
        let refused = |what: &dyn std::fmt::Display| DryError::Refused(what.to_string());
        let bytes = DATA + spec.stripes * spec.chunk_bytes;
        let format = FormatSpec {
            metadata: Metadata::V1_2,
            level: spec.level,
            layout: spec.layout,
            chunk_bytes: spec.chunk_bytes,
            component_bytes: None,
            device_bytes: vec![bytes; usize::from(spec.members)],
            array_uuid: Uuid([1; 16]),
            device_uuids: (0..spec.members)
                .map(|i| {
                    let mut uuid = [2; 16];
                    uuid[..2].copy_from_slice(&i.to_le_bytes());
                    Uuid(uuid)
                })
                .collect(),
            name: String::new(),
            ctime: 1,
            bitmap: true,
            bad_block_log: true,
            data_offset: Some(DATA),
        };
        let format = format.format()?;
        let mut looks = Vec::new();
        for member in format.members {
            let device = Sparse { len: bytes, writes: member.writes };
            let mut bytes = vec![0; 4096];
            device.read_exact_at(SUPERBLOCK, &mut bytes).map_err(|error| refused(&error))?;
            let superblock = V1::decode(&bytes, Metadata::V1_2).map_err(|error| refused(&error))?;
            let record = probe(&device).map_err(|error| refused(&error))?;
            let record = record.ok_or_else(|| refused(&"no superblock"))?;
            let place = MemberPlace::of(&record.superblock, spec.log).map_err(|error| refused(&error))?;
            let area = place.bitmap.ok_or_else(|| refused(&"no bitmap"))?;
            let mut bitmap_bytes = vec![0; area.len as usize];
            device.read_exact_at(area.start, &mut bitmap_bytes).map_err(|error| refused(&error))?;
            let bad = Default::default();
            looks.push(MemberLook {
                superblock,
                place,
                head: None,
                records: Vec::new(),
                bitmap: record.bitmap,
                bitmap_bytes,
                bad,
            });
        }
        let first = looks.first().ok_or_else(|| refused(&"no member"))?;
        let (place, model) = (first.place, first.superblock.clone());
        let assembly = assemble(&format.geometry, looks, spec.log, 1, 1).map_err(|error| refused(&error))?;
        let mut volume = Volume::new(Box::new(format.geometry), assembly, 1);
        if let Some(nodes) = &spec.nodes {
            volume.use_near(nodes.clone());
        }
        let (geometry, nodes) = (format.geometry, spec.nodes.clone());
        let mut dry = Self { volume, geometry, place, model, nodes, next_request: 0, lost: None };
        dry.work();
        // Dirty, with every bit.
        for stripe in 0..geometry.stripes() {
            dry.request(Request::Write { offset: stripe * geometry.stripe_bytes(), len: BLOCK, fua: false });
        }
        dry.request(Request::Flush);
        Ok(dry)
    }

    /// The layout of its chunks.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The commands of a request.
    pub fn request(&mut self, request: Request) -> Vec<Command> {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.volume.handle(Event::Request(id, request));
        self.work()
    }

    /// Loses a member. What this takes is done, and no part of what follows.
    pub fn lose(&mut self, role: Role) {
        self.lost = Some(role);
        self.request(Request::Flush);
    }

    /// The commands that restore a member that was lost.
    pub fn rebuild(&mut self, role: Role) -> Vec<Command> {
        self.lost = None;
        let mut superblock = self.model.clone();
        let number = superblock.dev_roles.iter().position(|role| *role == ROLE_SPARE);
        // A table of at most 1920.
        superblock.dev_number = number.unwrap_or(0) as u32;
        superblock.device_uuid = [3; 16];
        let node = self.nodes.as_ref().and_then(|near| near.nodes.get(role.index()).copied().flatten());
        let (superblock, place) = (Box::new(superblock), self.place);
        let join = Event::Join { role, superblock, place, nonce: 2, serial: 0, node, kept: None };
        self.volume.handle(join);
        self.work()
    }

    /// Returns whether nothing is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.volume.missing().is_empty()
    }

    /// Takes all commands for done until none comes any more.
    fn work(&mut self) -> Vec<Command> {
        let mut all = Vec::new();
        loop {
            let effects = self.volume.effects();
            if effects.is_empty() {
                return all;
            }
            for effect in effects {
                let Effect::Issue(Action { id, command }) = effect else { continue };
                let fails = self.lost.is_some() && command.role() == self.lost;
                all.push(command);
                let outcome = if fails { Outcome::Failed } else { Outcome::Done };
                self.volume.handle(Event::Done(id, outcome));
            }
        }
    }
}

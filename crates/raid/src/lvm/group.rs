//! A volume group, as its text describes it: read once, into types that fit together.
//!
//! `docs/reference/on-disk/lvm.md` lists the fields and the rules.

mod fields;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pumice_base::units::SECTOR;

use crate::lvm::id::Id;
use crate::lvm::text::{Entry, Section, Value};
use fields::Fields;
use segment::Names;

pub use fields::FieldError;
pub use segment::{Area, Integrity, MAX_IMAGES, Mapping, Raid, Segment};

/// The largest extent that is read, in sectors.
const MAX_EXTENT: u64 = 1 << 32;
/// Most volumes above a volume that are named.
const MAX_ABOVE: usize = 64;
/// Words in a group's status that change nothing for a reader.
const GROUP_STATUS: [&str; 5] = ["RESIZEABLE", "READ", "WRITE", "EXPORTED", "PARTIAL"];

/// The id, name and age of a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The group's id.
    pub id: Id,
    /// The group's name.
    pub name: String,
    /// Counts the changes of the group.
    pub seqno: u64,
}

/// A physical volume of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Physical {
    /// Its name inside the text.
    pub name: String,
    /// Its id.
    pub id: Id,
    /// True if the text calls it missing. If its device is there, it has come back and is stale.
    pub missing: bool,
    /// Sector of its first extent.
    pub start_sector: u64,
    /// Its extents.
    pub extents: u64,
}

/// A logical volume, visible or part of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logical {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: Id,
    /// Words of state that a reader must know.
    pub status: Vec<String>,
    /// Words of state that a reader may pass over.
    pub flags: Vec<String>,
    /// Its segments, in order, without gaps; at least one.
    pub segments: Vec<Segment>,
}

impl Logical {
    /// Extents.
    #[must_use]
    pub fn extents(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.start + last.extents)
    }

    /// Returns whether `status` has a word.
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        self.status.iter().any(|found| found == word)
    }

    /// The RAID segment, of a RAID volume.
    #[must_use]
    pub fn raid(&self) -> Option<&Raid> {
        self.segments.iter().find_map(|segment| match &segment.mapping {
            Mapping::Raid(raid) => Some(raid),
            _ => None,
        })
    }
}

/// A volume group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Id, name and age.
    pub identity: Identity,
    /// Sectors of an extent.
    pub extent_sectors: u64,
    /// The word by which the group says that other hosts may use it at the same time.
    pub shared: Option<String>,
    /// A word of its status that is not known.
    pub unknown_status: Option<String>,
    /// Its physical volumes, in the order of their names.
    pub physical: Vec<Physical>,
    /// Its logical volumes, in the order of their names.
    pub logical: Vec<Logical>,
    /// By logical volume: those that use it directly.
    users: Vec<Vec<usize>>,
}

/// The section of the group.
fn section(file: &Section) -> Result<(&str, &Section), FieldError> {
    let top = Fields::new(file, "");
    let mut sections = file.sections();
    match (sections.next(), sections.next()) {
        (Some(found), None) => Ok(found),
        (None, _) => Err(top.error("section", "missing", "the volume group")),
        (Some((first, _)), Some((second, _))) => {
            Err(top.error("section", format_args!("{first} and {second}"), "one, the volume group"))
        }
    }
}

impl Identity {
    /// Reads the identity of a text whose other parts may have an unknown form.
    ///
    /// # Errors
    /// Names the field.
    pub fn of(file: &Section) -> Result<Self, FieldError> {
        let (name, group) = section(file)?;
        let fields = Fields::new(group, format_args!("{name}: "));
        Ok(Self { id: fields.id()?, name: name.to_owned(), seqno: fields.integer("seqno")? })
    }
}

impl Group {
    /// Reads the group of a text.
    ///
    /// # Errors
    /// Names the field, and the sections that lead to it.
    pub fn of(file: &Section) -> Result<Self, FieldError> {
        let version = Fields::new(file, "").integer("version")?;
        if version != 1 {
            return Err(Fields::new(file, "").error("version", version, 1));
        }
        let (name, group) = section(file)?;
        let fields = Fields::new(group, format_args!("{name}: "));
        let identity = Identity::of(file)?;
        let status = fields.words("status")?;
        let lock = fields.string("lock_type")?.filter(|kind| *kind != "none");
        let shared = status.iter().find(|word| matches!(word.as_str(), "CLUSTERED" | "SHARED"));
        let shared = shared.cloned().or_else(|| lock.map(|kind| format!("lock_type {kind}")));
        let known = |word: &&String| {
            GROUP_STATUS.contains(&word.as_str()) || matches!(word.as_str(), "CLUSTERED" | "SHARED")
        };
        let unknown_status = status.iter().find(|word| !known(word)).cloned();
        let extent_sectors = fields.within("extent_size", 1, MAX_EXTENT)?;
        let none = Section::default();
        let physical = fields.section("physical_volumes")?.unwrap_or(&none);
        let physical =
            volumes(&fields, physical, |fields, name| Physical::read(fields, name, extent_sectors))?;
        let logical = fields.section("logical_volumes")?.unwrap_or(&none);
        let logical_names: BTreeMap<&str, usize> =
            logical.sections().enumerate().map(|(i, (name, _))| (name, i)).collect();
        let physical_names: BTreeMap<&str, usize> =
            physical.iter().enumerate().map(|(i, pv)| (pv.name.as_str(), i)).collect();
        let names = Names { physical: &physical_names, logical: &logical_names };
        let logical =
            volumes(&fields, logical, |fields, name| Logical::read(fields, name, &names, extent_sectors))?;
        let users = users(&logical);
        let group = Self { identity, extent_sectors, shared, unknown_status, physical, logical, users };
        group.verify(&fields)?;
        Ok(group)
    }

    /// The rules between sections.
    fn verify(&self, fields: &Fields<'_>) -> Result<(), FieldError> {
        let mut ids = BTreeSet::new();
        let physical = self.physical.iter().map(|pv| (&pv.name, pv.id));
        let logical = self.logical.iter().map(|lv| (&lv.name, lv.id));
        for (name, id) in physical.chain(logical) {
            if !ids.insert(id) {
                return Err(fields.error(&format!("id of {name}"), id, "its own"));
            }
        }
        let mut used: BTreeMap<usize, &str> = BTreeMap::new();
        let mut runs: Vec<Vec<(u64, u64, &str)>> = vec![Vec::new(); self.physical.len()];
        for lv in &self.logical {
            for segment in &lv.segments {
                match &segment.mapping {
                    Mapping::Raid(raid) => {
                        for part in raid.images.iter().flat_map(|(meta, image)| [*meta, *image]) {
                            if let Some(other) = used.insert(part, &lv.name) {
                                let name = &self.logical[part].name;
                                let found = format!("part of {other} and {}", lv.name);
                                return Err(fields.error(name, found, "part of one RAID volume, once"));
                            }
                        }
                    }
                    Mapping::Striped { areas, chunk_sectors } => {
                        let extents = segment.extents / areas.len() as u64;
                        let sectors = extents * self.extent_sectors;
                        if areas.len() > 1 && !sectors.is_multiple_of(*chunk_sectors) {
                            let allowed = format_args!("a divisor of {sectors}, its areas").to_string();
                            let field = format!("stripe_size of {}", lv.name);
                            return Err(fields.error(&field, chunk_sectors, allowed));
                        }
                        for area in areas {
                            if let Area::Physical { pv, extent } = area {
                                runs[*pv].push((*extent, extents, &lv.name));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        for (pv, runs) in self.physical.iter().zip(&mut runs) {
            runs.sort_unstable();
            let mut free = (0, "");
            for (start, extents, name) in runs {
                if *start < free.0 {
                    let found = format!("of {} and {name}", free.1);
                    return Err(fields.error(&format!("extent {start} of {}", pv.name), found, "of one"));
                }
                let end = start.checked_add(*extents).filter(|end| *end <= pv.extents);
                let Some(end) = end else {
                    let found = format!("{start} + {extents}");
                    let allowed = format!("at most {}, the extents of {}", pv.extents, pv.name);
                    return Err(fields.error(&format!("end of a segment of {name}"), found, allowed));
                };
                free = (end, name);
            }
        }
        Ok(())
    }

    /// The index of a logical volume.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.logical.iter().position(|lv| lv.name == name)
    }

    /// Bytes of an extent.
    #[must_use]
    pub const fn extent_bytes(&self) -> u64 {
        self.extent_sectors * SECTOR
    }

    /// The logical volumes that use a volume, directly or through others, nearest first; at most
    /// 64 of them.
    #[must_use]
    pub fn above(&self, volume: usize) -> Vec<usize> {
        let mut found = vec![volume];
        let mut next = 0;
        while let Some(of) = found.get(next).copied() {
            next += 1;
            for user in self.users.get(of).into_iter().flatten() {
                if found.len() <= MAX_ABOVE && !found.contains(user) {
                    found.push(*user);
                }
            }
        }
        found.split_off(1)
    }
}

/// By logical volume: those that use it directly.
fn users(logical: &[Logical]) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); logical.len()];
    for (user, lv) in logical.iter().enumerate() {
        for segment in &lv.segments {
            let used: Vec<usize> = match &segment.mapping {
                Mapping::Striped { areas, .. } => {
                    let logical = |area: &Area| match area {
                        Area::Logical { lv, .. } => Some(*lv),
                        Area::Physical { .. } => None,
                    };
                    areas.iter().filter_map(logical).collect()
                }
                Mapping::Integrity(integrity) => vec![integrity.origin],
                Mapping::Raid(raid) => raid.images.iter().map(|(_, image)| *image).collect(),
                Mapping::Other { names } => names.clone(),
                Mapping::Nothing => vec![],
            };
            used.into_iter().for_each(|used: usize| out[used].push(user));
        }
    }
    out
}

impl Physical {
    fn read(fields: &Fields<'_>, name: &str, extent_sectors: u64) -> Result<Self, FieldError> {
        let start_sector = fields.integer("pe_start")?;
        let extents = fields.integer("pe_count")?;
        let bytes = extents
            .checked_mul(extent_sectors)
            .and_then(|sectors| sectors.checked_add(start_sector)?.checked_mul(SECTOR));
        if bytes.is_none() {
            return Err(fields.error("pe_count", extents, "such that bytes fit 64 bits"));
        }
        let missing = fields.words("flags")?.iter().any(|flag| flag == "MISSING");
        Ok(Self { name: name.to_owned(), id: fields.id()?, missing, start_sector, extents })
    }
}

impl Logical {
    fn read(
        fields: &Fields<'_>,
        name: &str,
        names: &Names<'_>,
        extent_sectors: u64,
    ) -> Result<Self, FieldError> {
        // Each segment is a section, so the count of items bounds them.
        let count = fields.within("segment_count", 1, u64::MAX)?;
        let mut segments = Vec::new();
        let mut end = 0;
        for number in 1..=count {
            let key = format!("segment{number}");
            let section = fields.section(&key)?.ok_or_else(|| fields.error(&key, "missing", "a section"))?;
            let inner = fields.inner(section, &key);
            let segment = Segment::read(&inner, names)?;
            if segment.start != end {
                return Err(inner.error("start_extent", segment.start, end));
            }
            let next = segment.start.checked_add(segment.extents);
            let bytes = next.and_then(|next| next.checked_mul(extent_sectors)?.checked_mul(SECTOR));
            let (Some(next), Some(_)) = (next, bytes) else {
                return Err(inner.error("extent_count", segment.extents, "such that bytes fit 64 bits"));
            };
            end = next;
            segments.push(segment);
        }
        let (status, flags) = (fields.words("status")?, fields.words("flags")?);
        Ok(Self { name: name.to_owned(), id: fields.id()?, status, flags, segments })
    }
}

/// Reads each section of a list of volumes.
fn volumes<T>(
    fields: &Fields<'_>,
    list: &Section,
    read: impl Fn(&Fields<'_>, &str) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let one = |(name, entry): (&str, &Entry)| match entry {
        Entry::Section(section) => read(&fields.inner(section, name), name),
        Entry::Value(value) => {
            let found = if matches!(value, Value::List(_)) { "a list" } else { "a value" };
            Err(fields.error(name, found, "a section"))
        }
    };
    list.entries().map(one).collect()
}

//! md as an array format.

use std::collections::BTreeMap;

use pumice_base::units::Role;

use crate::assembly::{AssemblyError, assemble};
use crate::format::{
    ArrayFormat, Asked, Found, FoundArray, MemberPlace, Placed, Seen, Surveyed, Unfit, choose,
};
use crate::inspect::InspectReport;
use crate::probe::{Known, MemberRecord, ProbeError, probe_at, probe_together};
use crate::read_at::ReadAt;
use crate::uuid::Uuid;

/// The format of md: superblocks 0.90, 1.0, 1.1 and 1.2. What its probe finds is a
/// [`MemberRecord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Md;

/// The error of a probe, and advice for a member that has been cut short.
fn words(error: &ProbeError) -> String {
    let advice = match error {
        ProbeError::Invalid(invalid) if invalid.field == "data_size" => {
            "; to check the others, leave it out and give --degraded"
        }
        _ => "",
    };
    format!("{error}{advice}")
}

/// A device with md's record of it, and its index.
type Member<'d> = (usize, &'d str, &'d MemberRecord);

/// The devices with a record, by array.
fn groups<'d>(devices: &[Seen<'d>]) -> BTreeMap<Uuid, Vec<Member<'d>>> {
    let mut arrays: BTreeMap<Uuid, Vec<Member<'d>>> = BTreeMap::new();
    for (index, device) in devices.iter().enumerate() {
        if let Some(record) = device.found.get::<MemberRecord>() {
            arrays.entry(record.superblock.array_uuid).or_default().push((index, device.name, record));
        }
    }
    arrays
}

impl From<AssemblyError> for Unfit {
    fn from(error: AssemblyError) -> Self {
        Self { may_pass: error.may_pass(), why: error.to_string() }
    }
}

impl ArrayFormat for Md {
    fn name(&self) -> &'static str {
        "md"
    }

    fn structure(&self) -> &'static str {
        "md superblock"
    }

    fn probe(&self, devices: &[&dyn ReadAt], asked: Asked) -> Vec<Result<Option<Found>, String>> {
        let found = match asked.metadata {
            Some(metadata) => probe_at(devices, metadata),
            None => probe_together(devices, Known::default()),
        };
        let one = |found: Result<Option<MemberRecord>, ProbeError>| match found {
            Ok(record) => Ok(record.map(Found::new)),
            Err(error) => Err(words(&error)),
        };
        found.into_iter().map(one).collect()
    }

    fn survey(&self, devices: &[Seen<'_>]) -> Surveyed {
        let mut out = Surveyed::default();
        for members in groups(devices).into_values() {
            let set = members.iter().map(|(_, name, record)| {
                let record: MemberRecord = (*record).clone();
                ((*name).to_owned(), Ok(Some(record)))
            });
            match InspectReport::new(set.collect()) {
                Ok(report) => out
                    .arrays
                    .push(FoundArray { devices: members.iter().map(|(index, ..)| *index).collect(), report }),
                Err(none) => out.problems.extend(none.problems),
            }
        }
        out
    }

    fn assemble(&self, devices: &[Seen<'_>], which: Option<&str>) -> Result<Placed, Unfit> {
        let arrays = groups(devices);
        let members: Vec<Member<'_>> = match which {
            None => {
                let mut all: Vec<_> = arrays.into_values().flatten().collect();
                all.sort_by_key(|(index, ..)| *index);
                all
            }
            Some(_) => {
                let name = |members: &Vec<Member<'_>>| members[0].2.superblock.name.clone();
                let names: Vec<_> = arrays.iter().map(|(uuid, members)| (name(members), *uuid)).collect();
                let one = choose(&names, which)?;
                arrays.into_values().nth(one).unwrap_or_default()
            }
        };
        let array = assemble(
            members.iter().map(|(_, name, record)| ((*name).to_owned(), (*record).clone())).collect(),
        )?;
        let index =
            |device: &str| members.iter().find(|(_, name, _)| *name == device).map(|(index, ..)| *index);
        let roles = (0..array.geometry().raid_disks()).map(Role);
        let places =
            roles.map(|role| array.member(role).and_then(|m| index(&m.device)).map(MemberPlace::Device));
        Ok(Placed { places: places.collect(), array, fixed: None })
    }
}

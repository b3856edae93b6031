//! Contents that the members of one array hold in addition to its superblocks, seen together.

use std::fmt;

use pumice_base::units::{Role, StripeIndex};

use super::{ContentKind, Signature};
use crate::geometry::Geometry;
use crate::metadata::Metadata;
use crate::superblock::Superblock;

/// The reason why devices with superblocks of one array may not be its members any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strangers {
    /// The format of the superblocks.
    pub metadata: Metadata,
    /// A device.
    pub device: String,
    /// The content.
    pub found: Signature,
    /// Another device, with another of the same kind; `None` if the first is enough.
    pub other: Option<(String, Signature)>,
}

impl fmt::Display for Strangers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metadata, device, found, other } = self;
        write!(f, "{device} holds {found}")?;
        match other {
            Some((device, found)) => write!(f, ", and {device} {found}: an array holds one")?,
            None => f.write_str(" where its array has other data")?,
        }
        write!(
            f,
            "; so the devices may have been put to another use after they were members; \
             with --metadata {metadata} they are taken as members"
        )
    }
}

/// Looks for formats on members that cannot be what the array holds. A member is its role, its
/// name, its superblock and the formats on it.
///
/// Where the data of the array begin at the start of the device (0.90 and usually 1.0), a member
/// shows what the array holds there. A table, a volume or a file system of the array is one, with
/// one id; and a partition table stands at the start of the array. `geometry`: of an array with
/// parity, whose parity shows what the data happen to add up to. In other formats there is nothing
/// to compare.
pub fn strangers<'m>(
    members: impl Iterator<Item = (Role, &'m str, &'m Superblock, &'m [Signature])>,
    geometry: Option<&Geometry>,
) -> Option<Strangers> {
    let mut seen: Vec<(&str, &Signature)> = Vec::new();
    for (role, device, superblock, foreign) in members {
        let at_end = matches!(superblock.metadata, Metadata::V0_90 | Metadata::V1_0);
        if !at_end || superblock.data_offset.get() != 0 {
            continue;
        }
        // The array's byte that the device begins with; `None` for parity.
        let begins = match geometry {
            Some(geometry) => geometry.array_offset(StripeIndex(0), role, 0),
            None => Some(0),
        };
        let Some(begins) = begins else { continue };
        let report = |found: &Signature, other: Option<(&str, &Signature)>| Strangers {
            metadata: superblock.metadata,
            device: device.to_owned(),
            found: found.clone(),
            other: other.map(|(device, found)| (device.to_owned(), found.clone())),
        };
        for found in foreign {
            if begins > 0 && matches!(found.kind, ContentKind::Dos | ContentKind::Gpt) {
                return Some(report(found, None));
            }
            let differs = |(_, other): &&(&str, &Signature)| other.kind == found.kind && other.id != found.id;
            if let Some(other) = seen.iter().find(differs) {
                return Some(report(found, Some(*other)));
            }
            seen.push((device, found));
        }
    }
    None
}

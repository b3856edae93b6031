//! LVM's label, and the header of its physical volume.
//!
//! Layout: read off volumes that LVM 2.03 made.

use std::iter::from_fn;

use super::disk::Disk;
use super::{ContentKind, Signature};
use crate::bytes::{array, u32_at, u64_at};

/// The label stands in one of the first four sectors.
const SECTORS: usize = 4;
const SECTOR: usize = 512;
/// The most areas that a header's list is read for.
const AREAS: usize = 16;

pub(super) fn find(disk: &Disk<'_>) -> Option<Signature> {
    let head = disk.head();
    let label = (0..SECTORS)
        .map(|i| &head[i * SECTOR..(i + 1) * SECTOR])
        .find(|sector| sector.starts_with(b"LABELONE") && sector[24..].starts_with(b"LVM2 001"))?;
    let at = u32_at(label, 20) as usize;
    let header = label.get(at..)?;
    if header.len() < 40 {
        return None;
    }
    let id: [u8; 32] = array(header, 0);
    if !id.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let id = String::from_utf8_lossy(&id);
    // Groups of 6, 4, 4, 4, 4, 4 and 6 characters.
    let ends = [0, 6, 10, 14, 18, 22, 26, 32];
    let id = ends.windows(2).map(|part| &id[part[0]..part[1]]).collect::<Vec<_>>().join("-");
    let mut found = Signature::new(ContentKind::Lvm, Some(id), Some(u64_at(header, 32)));
    found.name = group(disk, header);
    Some(found)
}

/// The name of the volume group, if a metadata area of the volume has its text.
fn group(disk: &Disk<'_>, header: &[u8]) -> Option<String> {
    let mut at = 40;
    let mut area = || {
        let (offset, len) = (u64_at(header, at), u64_at(header, at + 8));
        at += 16;
        (at <= header.len() && offset != 0).then_some((offset, len))
    };
    // First the areas of data, up to an empty one, then those of metadata.
    from_fn(&mut area).take(AREAS).count();
    let areas: Vec<(u64, u64)> = from_fn(&mut area).take(AREAS).collect();
    areas.into_iter().find_map(|(start, len)| {
        let mda = disk.read(start, SECTOR);
        if !mda[4..].starts_with(b" LVM2 x[5A%r0N*>") {
            return None;
        }
        let text = u64_at(&mda, 40);
        let text = disk.read(start.saturating_add(text.min(len)), SECTOR);
        let name: String = text
            .iter()
            .map(|byte| char::from(*byte))
            .take_while(|c| c.is_ascii_alphanumeric() || "+_.-".contains(*c))
            .collect();
        (!name.is_empty() && text[name.len()..].starts_with(b" {")).then_some(name)
    })
}

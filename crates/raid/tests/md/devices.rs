//! Devices that exist only where something was written on them.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use pumice_raid::layout::{Layout, Level};
use pumice_raid::{FormatSpec, MemberRecord, Metadata, ReadAt, Uuid, probe};

const PAGE: u64 = 4096;

/// A device of zeros with some pages written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sparse {
    pub(crate) size: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Sparse {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, pages: BTreeMap::new() }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, within, range) in pages(offset, bytes.len()) {
            let page = self.pages.entry(page).or_insert_with(|| vec![0; PAGE as usize]);
            page[within..within + range.len()].copy_from_slice(&bytes[range]);
        }
    }
}

impl ReadAt for Sparse {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, range) in pages(offset, buf.len()) {
            match self.pages.get(&page) {
                Some(page) => buf[range.clone()].copy_from_slice(&page[within..within + range.len()]),
                None => buf[range].fill(0),
            }
        }
        Ok(())
    }
}

/// The pages of `len` bytes at `offset`: the number of each, the place in it, and the bytes' range.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE) as usize;
        let part = (len - done).min(PAGE as usize - within);
        done += part;
        (part > 0).then_some((at / PAGE, within, done - part..done))
    })
}

/// Members of an array, from a text as in `data/states`.
pub(crate) fn parse(text: &str) -> Vec<Sparse> {
    let mut members: Vec<Sparse> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "member" {
            members.push(Sparse::new(words[1].parse().unwrap()));
            continue;
        }
        let at = u64::from_str_radix(words[0], 16).unwrap();
        let bytes: Vec<u8> =
            (0..16).map(|i| u8::from_str_radix(&words[2][2 * i..2 * i + 2], 16).unwrap()).collect();
        members.last_mut().unwrap().write(at, &bytes.repeat(words[1].parse().unwrap()));
    }
    members
}

/// A specification to vary: four or more members of 64 MiB.
pub(crate) fn spec(metadata: Metadata, level: Level, disks: usize) -> FormatSpec {
    FormatSpec {
        metadata,
        level,
        layout: (level != Level::Raid4).then_some(Layout::LeftSymmetric),
        chunk_bytes: 64 << 10,
        component_bytes: None,
        device_bytes: vec![64 << 20; disks],
        array_uuid: Uuid([0xA0; 16]),
        device_uuids: (0..disks)
            .map(|i| Uuid(std::array::from_fn(|b| (i >> (b % 2 * 8)) as u8 ^ b as u8)))
            .collect(),
        name: "host:vol".to_owned(),
        ctime: 1_700_000_000,
        bitmap: false,
        bad_block_log: true,
        data_offset: None,
    }
}

/// The devices of a new array.
pub(crate) fn make(spec: &FormatSpec) -> Vec<Sparse> {
    let format = spec.format().unwrap();
    let devices = format.members.iter().zip(&spec.device_bytes).map(|(member, size)| {
        let mut device = Sparse::new(*size);
        for (offset, bytes) in &member.writes {
            device.write(*offset, bytes);
        }
        device
    });
    devices.collect()
}

/// Records of the devices, as a probe finds them, named m0, m1, …
pub(crate) fn records(devices: &[Sparse]) -> Vec<(String, MemberRecord)> {
    let probed = devices.iter().map(|device| probe(device).unwrap().expect("a superblock"));
    probed.enumerate().map(|(i, record)| (format!("m{i}"), record)).collect()
}

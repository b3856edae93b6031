//! Physical volumes of our own making: a label, a metadata area, a text, and the superblocks of one
//! RAID volume, all of them as `docs/reference/on-disk/lvm.md` has them.

use std::fmt::Write;

use pumice_raid::lvm::kind::RaidKind;
use pumice_raid::lvm::{Assembled, Candidate, Device, RaidVolume, Refusal, Survey, survey};

/// Sectors of an extent.
pub(crate) const EXTENT: u64 = 128;
/// Extents of data of an image.
pub(crate) const DATA: u64 = 8;
/// Sectors in front of the first extent.
const START: u64 = 256;
/// Extents of a physical volume.
const EXTENTS: u64 = 20;
/// The metadata area.
const AREA: (usize, usize) = (4096, 65536);

/// The checksum of LVM, bit by bit.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xF597_A6CF, |mut register: u32, byte| {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = if register & 1 == 1 { register >> 1 ^ 0xEDB8_8320 } else { register >> 1 };
        }
        register
    })
}

/// An id for a number.
pub(crate) fn id(kind: char, number: usize) -> String {
    let text = format!("{kind}{number:031}");
    let ends = [0, 6, 10, 14, 18, 22, 26, 32];
    ends.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect::<Vec<_>>().join("-")
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A group with one RAID volume `r` on as many physical volumes as it has images: image i on PV i,
/// with its rmeta in front.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) images: usize,
    /// The text of each physical volume, and its devices.
    pub(crate) texts: Vec<String>,
    pub(crate) devices: Vec<Vec<u8>>,
}

impl Made {
    pub(crate) fn new(kind: &'static str, images: usize) -> Self {
        let text = text(kind, images, 5);
        let devices = (0..images).map(|role| device(role, &raid(kind, images, role))).collect();
        let mut made = Self { images, texts: vec![text; images], devices };
        made.seal();
        made
    }

    /// Writes the texts into the metadata areas.
    pub(crate) fn seal(&mut self) {
        for (device, text) in self.devices.iter_mut().zip(&self.texts) {
            let mut bytes = text.clone().into_bytes();
            bytes.push(0);
            put(device, AREA.0 + 512, &bytes);
            let mut header = [0; 512];
            put(&mut header, 4, b"\x20LVM2\x20x[5A%r0N*>");
            put(&mut header, 20, &1_u32.to_le_bytes());
            for (at, word) in [(24, AREA.0 as u64), (32, AREA.1 as u64), (40, 512), (48, bytes.len() as u64)]
            {
                put(&mut header, at, &word.to_le_bytes());
            }
            put(&mut header, 56, &crc(&bytes).to_le_bytes());
            let sum = crc(&header[4..]);
            put(&mut header, 0, &sum.to_le_bytes());
            put(device, AREA.0, &header);
        }
    }

    /// Replaces words in the texts of some physical volumes.
    pub(crate) fn edit(mut self, pvs: impl IntoIterator<Item = usize>, from: &str, to: &str) -> Self {
        for pv in pvs {
            assert!(self.texts[pv].contains(from), "{from} in {}", self.texts[pv]);
            self.texts[pv] = self.texts[pv].replace(from, to);
        }
        self.seal();
        self
    }

    /// Replaces words in all texts.
    pub(crate) fn everywhere(self, from: &str, to: &str) -> Self {
        let images = self.images;
        self.edit(0..images, from, to)
    }

    /// Changes bytes of the rmeta of some images.
    pub(crate) fn poke(mut self, roles: impl IntoIterator<Item = usize>, at: usize, value: &[u8]) -> Self {
        for role in roles {
            put(&mut self.devices[role], START as usize * 512 + at, value);
        }
        self
    }

    pub(crate) fn look(&self) -> Survey {
        look(&self.devices)
    }

    /// The RAID volume, or why it is not read.
    pub(crate) fn volume(&self) -> Result<RaidVolume, Refusal> {
        let mut survey = self.look();
        let group = survey.groups.pop().expect("a group").state.expect("a good group");
        let Assembled { volumes, .. } = group;
        let [Candidate { volume, .. }] = <[Candidate; 1]>::try_from(volumes).unwrap();
        volume
    }

    /// The words of the refusal.
    pub(crate) fn refusal(&self) -> String {
        self.volume().expect_err("a refusal").to_string()
    }

    /// The words with which the group is refused.
    pub(crate) fn group_problem(&self) -> String {
        let mut survey = self.look();
        survey.groups.pop().expect("a group").state.expect_err("a problem").to_string()
    }
}

pub(crate) fn look(devices: &[Vec<u8>]) -> Survey {
    let names: Vec<String> = (0..devices.len()).map(|i| format!("d{i}")).collect();
    let devices: Vec<Device<'_>> =
        names.iter().zip(devices).map(|(name, bytes)| Device { name, bytes }).collect();
    survey(&devices)
}

fn device(number: usize, rmeta: &[u8]) -> Vec<u8> {
    let mut out = vec![0; ((START + EXTENTS * EXTENT) * 512) as usize];
    let size = out.len() as u64;
    let label = &mut out[512..1024];
    put(label, 0, b"LABELONE");
    put(label, 8, &1_u64.to_le_bytes());
    put(label, 20, &32_u32.to_le_bytes());
    put(label, 24, b"LVM2 001");
    put(label, 32, id('P', number).replace('-', "").as_bytes());
    let words = [size, START * 512, 0, 0, 0, AREA.0 as u64, AREA.1 as u64, 0, 0, 1 << 32 | 2];
    for (i, word) in words.into_iter().enumerate() {
        put(label, 64 + 8 * i, &u64::to_le_bytes(word));
    }
    let sum = crc(&label[20..]);
    put(label, 16, &sum.to_le_bytes());
    put(&mut out, START as usize * 512, rmeta);
    out
}

/// Extents of the volume.
fn extents(kind: &str, images: usize) -> u64 {
    let (times, by) = RaidKind::from_name(kind).unwrap().data_images(images as u16, 2).unwrap();
    DATA * times / by
}

/// An rmeta: the superblock, and a bitmap with all bits clear.
fn raid(kind: &str, images: usize, role: usize) -> Vec<u8> {
    let kind_of = RaidKind::from_name(kind).unwrap();
    let mut out = vec![0; 8192];
    put(&mut out, 0, b"DmRd");
    let chunk = if kind == "raid1" { 0 } else { 32 };
    let (level, layout) = (kind_of.level().number() as u32, kind_of.layout_number(2));
    let words = [1, images as u32, role as u32, 28, 0, 0, 0, !0, !0, !0, !0, level, layout, chunk];
    let more = [0, !0, !0, level, layout, chunk, 0];
    for (i, word) in words.into_iter().chain(more).enumerate() {
        put(&mut out, 4 + 4 * i, &u32::to_le_bytes(word));
    }
    let covered = if kind == "raid10" { extents(kind, images) } else { DATA } * EXTENT;
    put(&mut out, 4096, b"bitm\x04");
    put(&mut out, 4096 + 24, &28_u64.to_le_bytes());
    put(&mut out, 4096 + 40, &covered.to_le_bytes());
    put(&mut out, 4096 + 52, &(64_u32 * 512).to_le_bytes());
    out
}

/// The text of a group.
pub(crate) fn text(kind: &str, images: usize, seqno: u64) -> String {
    let mut out = format!(
        "vg0 {{\nid = \"{}\"\nseqno = {seqno}\nstatus = [\"RESIZEABLE\", \"READ\", \"WRITE\"]\nflags = []\n\
         extent_size = {EXTENT}\nphysical_volumes {{\n",
        id('G', 0)
    );
    for i in 0..images {
        write!(
            out,
            "pv{i} {{\nid = \"{}\"\nstatus = [\"ALLOCATABLE\"]\nflags = [] # {i}\ndev_size = 4096\n\
             pe_start = {START}\npe_count = {EXTENTS}\n}}\n",
            id('P', i)
        )
        .unwrap();
    }
    out.push_str("}\nlogical_volumes {\n");
    let stripe = if kind == "raid1" { "" } else { "stripe_size = 32\n" };
    let raids: Vec<String> = (0..images).map(|i| format!("\"r_rmeta_{i}\", \"r_rimage_{i}\"")).collect();
    let raid = format!(
        "type = \"{kind}\"\ndevice_count = {images}\nregion_size = 64\n{stripe}raids = [{}]\n",
        raids.join(", ")
    );
    volume(&mut out, "r", 1000, "\"READ\", \"WRITE\", \"VISIBLE\"", extents(kind, images), &raid);
    for i in 0..images {
        let at =
            |extent: u64| format!("type = \"striped\"\nstripe_count = 1\nstripes = [\"pv{i}\", {extent}]\n");
        volume(&mut out, &format!("r_rmeta_{i}"), 2000 + i, "\"READ\", \"WRITE\"", 1, &at(0));
        volume(&mut out, &format!("r_rimage_{i}"), 3000 + i, "\"READ\", \"WRITE\"", DATA, &at(1));
    }
    out.push_str("}\n}\n# made\ncontents = \"Text Format Volume Group\"\nversion = 1\n");
    out
}

fn volume(out: &mut String, name: &str, number: usize, status: &str, extents: u64, segment: &str) {
    write!(
        out,
        "{name} {{\nid = \"{}\"\nstatus = [{status}]\nflags = []\nsegment_count = 1\nsegment1 {{\n\
         start_extent = 0\nextent_count = {extents}\n{segment}}}\n}}\n",
        id('L', number)
    )
    .unwrap();
}

//! The content and the consistency of a RAID volume, by its arrangement.

use pumice_parity::array_layout::{ArrayLayout, StripeClass};
use pumice_parity::gf;
use pumice_raid::ReadAt;
use pumice_raid::lvm::pieces::Mapped;
use pumice_raid::lvm::volume::ImageState;
use pumice_raid::lvm::{Assembled, Device, RaidVolume};
use sha2::{Digest, Sha256};

pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A RAID volume with the data of its images.
pub(crate) struct Array {
    layout: ArrayLayout,
    bytes: u64,
    /// By role; `None` of an absent image.
    images: Vec<Option<Vec<u8>>>,
    /// By role: bytes from the start that are good.
    good: Vec<u64>,
}

impl Array {
    pub(crate) fn read(volume: &RaidVolume, group: &Assembled, devices: &[Device<'_>]) -> Self {
        let devices = group.devices(devices);
        let whole = volume.image_sectors.get() * 512;
        let image = |image: &pumice_raid::lvm::volume::Image| {
            let mut bytes = vec![0; whole as usize];
            let mapped = Mapped::new(&image.data.pieces, &devices);
            let read = mapped.read_exact_at(volume.data_offset.get() * 512, &mut bytes);
            (!matches!(image.state, ImageState::Absent(_))).then(|| {
                read.unwrap();
                bytes
            })
        };
        let good = |image: &pumice_raid::lvm::volume::Image| match image.state {
            ImageState::InSync => whole,
            ImageState::Recovering(sectors) => sectors.get() * 512,
            ImageState::Absent(_) => 0,
        };
        Self {
            layout: volume.arrangement.array_layout(),
            bytes: volume.arrangement.array_bytes(),
            images: volume.images.iter().map(image).collect(),
            good: volume.images.iter().map(good).collect(),
        }
    }

    /// The chunk of each role in a stripe: `None` of one without a part; an error of one that is
    /// not good there, or among `lost`.
    fn chunks(&self, stripe: u64, lost: &[usize]) -> Vec<Option<Result<Vec<u8>, ()>>> {
        let chunk = self.layout.band(stripe).chunk_bytes as usize;
        let one = |role: usize| {
            let start = self.layout.place(stripe, role)? as usize;
            let there = !lost.contains(&role) && (start + chunk) as u64 <= self.good[role];
            let bytes = self.images[role].as_ref().filter(|_| there);
            Some(bytes.map(|bytes| bytes[start..start + chunk].to_vec()).ok_or(()))
        };
        (0..self.layout.columns()).map(one).collect()
    }

    /// The content without the images of `lost`, by what redundancy gives; `None` if it does not.
    pub(crate) fn content(&self, lost: &[usize]) -> Option<Vec<u8>> {
        let mut out = vec![0xAA; self.bytes as usize];
        for stripe in 0..self.layout.stripes() {
            let mut chunks = self.chunks(stripe, lost);
            recover(self.layout.class(stripe), &mut chunks)?;
            for (role, chunk) in chunks.iter().enumerate() {
                if let (Some(Ok(chunk)), Some(at)) = (chunk, self.layout.array_offset(stripe, role, 0)) {
                    out[at as usize..][..chunk.len()].copy_from_slice(chunk);
                }
            }
        }
        Some(out)
    }

    /// The stripes whose equations do not hold, of those that have any with the images that are
    /// good; and how many were checked.
    pub(crate) fn inconsistent(&self) -> (Vec<u64>, u64) {
        let mut checked = 0;
        let mut bad = Vec::new();
        for stripe in 0..self.layout.stripes() {
            let chunks = self.chunks(stripe, &[]);
            let absent: Vec<usize> =
                (0..chunks.len()).filter(|role| chunks[*role] == Some(Err(()))).collect();
            let check = self.layout.class(stripe).check().eliminate(&absent);
            checked += u64::from(check.rows() > 0);
            let holds = |row: usize| {
                let mut sum = vec![0; self.layout.band(stripe).chunk_bytes as usize];
                for (role, chunk) in chunks.iter().enumerate() {
                    if let Some(Ok(chunk)) = chunk {
                        add(&mut sum, chunk, check.get(row, role));
                    }
                }
                sum.iter().all(|byte| *byte == 0)
            };
            if !(0..check.rows()).all(holds) {
                bad.push(stripe);
            }
        }
        (bad, checked)
    }
}

/// Fills in what is not there.
fn recover(class: &StripeClass, chunks: &mut [Option<Result<Vec<u8>, ()>>]) -> Option<()> {
    let lost: Vec<usize> = (0..chunks.len()).filter(|role| chunks[*role] == Some(Err(()))).collect();
    let recovery = class.check().recover(&lost)?;
    for (role, coefficients) in lost.iter().zip(&recovery.coefficients) {
        let mut sum = Vec::new();
        for (survivor, coefficient) in recovery.survivors.iter().zip(coefficients) {
            let Some(Ok(chunk)) = &chunks[*survivor] else { panic!("a survivor is there") };
            sum.resize(chunk.len(), 0);
            add(&mut sum, chunk, *coefficient);
        }
        chunks[*role] = Some(Ok(sum));
    }
    Some(())
}

fn add(sum: &mut [u8], bytes: &[u8], coefficient: u8) {
    let table: Vec<u8> = (0..=255).map(|byte| gf::mul(coefficient, byte)).collect();
    sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= table[usize::from(*byte)]);
}

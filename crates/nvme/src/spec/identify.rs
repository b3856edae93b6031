//! Identify data: 4096 bytes each. Offsets as in NVMe Base (controller) and the NVM command set
//! (namespace).

use super::{ana, command};
use crate::bytes::{put, put_padded, u16_at, u32_at, u64_at};
use pumice_protect::block_format::BlockFormat;
use pumice_protect::format::{Place, Type};
use pumice_protect::guard::Guard;

/// Bytes of every Identify answer.
pub const LEN: usize = 4096;

/// Kinds of structures that Identify asks for.
pub mod cns {
    /// A namespace.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Namespaces above an nsid.
    pub const NAMESPACE_LIST: u8 = 0x02;
    /// The identifiers of a namespace.
    pub const NAMESPACE_IDS: u8 = 0x03;
    /// A namespace, what the command set adds.
    pub const NAMESPACE_OF_SET: u8 = 0x05;
    /// The controller, what the command set adds.
    pub const CONTROLLER_OF_SET: u8 = 0x06;
    /// Namespaces of a command set above an nsid.
    pub const NAMESPACE_LIST_OF_SET: u8 = 0x07;
    /// A namespace, what no command set owns.
    pub const NAMESPACE_INDEPENDENT: u8 = 0x08;
    /// Combinations of command sets.
    pub const COMMAND_SETS: u8 = 0x1C;
}

/// The most data that one command moves, as a power of two of 4096 bytes: 1 MiB.
pub const MDTS: u8 = 8;

/// Fields of Identify Controller that differ between controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Serial number, at most 20 bytes.
    pub serial: String,
    /// Model, at most 40 bytes.
    pub model: String,
    /// Firmware revision, at most 8 bytes.
    pub firmware: String,
    /// Controller id.
    pub cntlid: u16,
    /// True if it is the discovery service's.
    pub discovery: bool,
    /// True if the subsystem is reached by several ports.
    pub several_ports: bool,
    /// The largest nsid.
    pub namespaces: u32,
    /// True if a namespace has an extended format (ELBAS): a guard of more than 16 bits, or a
    /// storage tag.
    pub extended_formats: bool,
    /// Entries of a queue.
    pub queue_depth: u16,
    /// Bytes of data in a capsule of an I/O queue.
    pub capsule_data: u32,
    /// The subsystem.
    pub subnqn: String,
}

/// Bits of ONCS that are features, not commands: Save and Select of features, and Timestamp.
const ONCS_FEATURES: u16 = 1 << 4 | 1 << 6;
/// Most ranges of a Dataset Management command that is to be carried out whole.
pub const DMRL: u8 = 8;
/// Blocks of each of those, at most: as many as Write Zeroes has.
pub const DMRSL: u32 = 65_536;
/// Outstanding AER commands, less one.
pub const AERL: u8 = 3;
/// Outstanding Abort commands, less one.
pub const ACL: u8 = 3;
/// Entries of the error log, less one.
pub const ELPE: u8 = 63;
/// Granularity of the keep-alive timer in units of 100 ms.
pub const KAS: u16 = 10;
/// Event: namespaces changed.
pub const OAES_NAMESPACES: u32 = 1 << 8;
/// Event: the state of a group of namespaces changed.
pub const OAES_ANA: u32 = 1 << 11;
/// Events that an I/O controller reports.
pub const OAES: u32 = OAES_NAMESPACES | OAES_ANA;
/// Most seconds that a group may take to change its state.
const ANATT: u8 = 10;
/// The states that are reported: optimized and non-optimized. That a namespace stays in its group
/// (bit 6) is true and not said: nvme-cli before 2.10 leaves no room for the namespaces in the log
/// page then (nvme-cli pull request 2377).
const ANACAP: u8 = 1 | 1 << 1;
/// The bit of CTRATT for extended formats.
const ELBAS: u32 = 15;
/// Degrees (kelvin) from which on a controller calls itself warm: the default of the temperature
/// threshold.
pub const WCTEMP: u16 = 343;
/// Event: the discovery log changed.
pub const OAES_DISCOVERY: u32 = 1 << 31;

impl Controller {
    /// The 4096 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut d = vec![0; LEN];
        put_padded(&mut d, 4, 20, &self.serial);
        put_padded(&mut d, 24, 40, &self.model);
        put_padded(&mut d, 64, 8, &self.firmware);
        d[72] = 6;
        // Several controllers in the subsystem, which report how well namespaces are reached.
        d[76] = if self.discovery { 0 } else { u8::from(self.several_ports) | 1 << 1 | 1 << 3 };
        d[77] = MDTS;
        put(&mut d, 78, &self.cntlid.to_le_bytes());
        put(&mut d, 80, &super::property::VERSION.to_le_bytes());
        let oaes = if self.discovery { OAES_DISCOVERY } else { OAES };
        put(&mut d, 92, &oaes.to_le_bytes());
        // 128-bit host identifiers.
        put(&mut d, 96, &(1 | u32::from(self.extended_formats) << ELBAS).to_le_bytes());
        d[111] = if self.discovery { 2 } else { 1 };
        d[258] = ACL;
        d[259] = AERL;
        // One firmware slot, read-only.
        d[260] = 1 << 1 | 1;
        // Offsets in log pages; and the effects log, which the discovery service has not.
        d[261] = 1 << 2 | if self.discovery { 0 } else { 1 << 1 };
        d[262] = ELPE;
        put(&mut d, 266, &WCTEMP.to_le_bytes());
        put(&mut d, 268, &(WCTEMP + 10).to_le_bytes());
        put(&mut d, 320, &KAS.to_le_bytes());
        put(&mut d, 514, &self.queue_depth.to_le_bytes());
        // SGLs with any alignment, offsets in the capsule, transport data blocks.
        put(&mut d, 536, &(1_u32 | 1 << 20 | 1 << 21).to_le_bytes());
        put(&mut d, 768, self.subnqn.as_bytes());
        put(&mut d, 1792, &((64 + self.capsule_data) / 16).to_le_bytes());
        put(&mut d, 1796, &1_u32.to_le_bytes());
        // One SGL descriptor a command.
        d[1803] = 1;
        // Disconnect of I/O queues.
        put(&mut d, 1804, &1_u16.to_le_bytes());
        if self.discovery {
            d[1806] = 1;
        } else {
            d[342] = ANATT;
            d[343] = ANACAP;
            // The largest group, and how many there are.
            put(&mut d, 344, &ana::GROUP.to_le_bytes());
            put(&mut d, 348, &ana::GROUP.to_le_bytes());
            d[512] = 0x66;
            d[513] = 0x44;
            put(&mut d, 516, &self.namespaces.to_le_bytes());
            put(&mut d, 540, &self.namespaces.to_le_bytes());
            put(&mut d, 520, &(command::oncs() | ONCS_FEATURES).to_le_bytes());
            // A volatile write cache; Flush of all namespaces is supported.
            d[525] = 1 | 3 << 1;
        }
        d
    }

    /// The 4096 bytes of CNS 06: limits of single commands. Only deallocation has some: for a
    /// medium that gives no room back zeros are written, and hosts give a command 30 seconds.
    #[must_use]
    pub fn limits() -> Vec<u8> {
        let mut d = vec![0; LEN];
        d[3] = DMRL;
        put(&mut d, 4, &DMRSL.to_le_bytes());
        put(&mut d, 8, &(u64::from(DMRL) * u64::from(DMRSL)).to_le_bytes());
        d
    }

    /// Reads what a host needs of an answer.
    #[must_use]
    pub fn decode(d: &[u8]) -> Self {
        let padded = |at: usize, len: usize| {
            String::from_utf8_lossy(&d[at..at + len]).trim_end_matches([' ', '\0']).to_owned()
        };
        let name = &d[768..1024];
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        Self {
            serial: padded(4, 20),
            model: padded(24, 40),
            firmware: padded(64, 8),
            cntlid: u16_at(d, 78),
            discovery: d[111] == 2,
            several_ports: d[76] & 1 != 0,
            namespaces: u32_at(d, 516),
            extended_formats: u32_at(d, 96) >> ELBAS & 1 == 1,
            queue_depth: u16_at(d, 514),
            // Data elsewhere than right behind the command (ICDOFF) are not sent in capsules.
            capsule_data: match u16_at(d, 1800) {
                0 => u32_at(d, 1792).saturating_mul(16).saturating_sub(64),
                _ => 0,
            },
            subnqn: String::from_utf8_lossy(&name[..end]).into_owned(),
        }
    }
}

/// A namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Blocks.
    pub blocks: u64,
    /// The format of its blocks. Metadata are interleaved with the data (extended LBAs).
    pub format: BlockFormat,
    /// Globally unique identifier; the same over restarts.
    pub nguid: [u8; 16],
    /// UUID; the same over restarts.
    pub uuid: [u8; 16],
    /// True if writes are refused.
    pub read_only: bool,
    /// Blocks that are best written at a time: 1 where the medium has no preference.
    pub write_grain: u16,
    /// Blocks that are best deallocated at a time, beginning at a multiple of as many.
    pub deallocate_grain: u16,
}

impl Namespace {
    /// The 4096 bytes of CNS 00, of a namespace whose blocks are all in use.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.encode_with_use(self.blocks)
    }

    /// The same, with so many blocks in use (NUSE).
    #[must_use]
    pub fn encode_with_use(&self, used: u64) -> Vec<u8> {
        let mut d = vec![0; LEN];
        for (at, blocks) in [(0, self.blocks), (8, self.blocks), (16, used.min(self.blocks))] {
            put(&mut d, at, &blocks.to_le_bytes());
        }
        if self.write_grain > 1 || self.deallocate_grain > 1 {
            // The preferences are there: NPWG, NPWA, NPDG, NPDA, NOWS, each less one.
            d[24] = 1 << 4;
            let (write, deallocate) = (self.write_grain.max(1) - 1, self.deallocate_grain.max(1) - 1);
            for (at, value) in [(64, write), (66, write), (68, deallocate), (70, deallocate), (72, write)] {
                put(&mut d, at, &value.to_le_bytes());
            }
        }
        // Deallocated blocks read as zeros, and Write Zeroes may deallocate.
        d[33] = 1 | 1 << 3;
        // Shared: several controllers reach it.
        d[30] = 1;
        let bytes = u128::from(self.blocks) << self.format.shift();
        put(&mut d, 48, &bytes.to_le_bytes());
        put(&mut d, 92, &ana::GROUP.to_le_bytes());
        d[99] = u8::from(self.read_only);
        put(&mut d, 104, &self.nguid);
        d[128 + 2] = self.format.shift();
        if let Some(format) = self.format.protection() {
            let (kind, first) = (kind_number(format.kind()), format.place() == Place::First);
            // Extended LBAs: in use, and the only possibility.
            d[26] = 1 << 4;
            d[27] = 1;
            d[28] = 1 << (kind - 1) | if first { 1 << 3 } else { 1 << 4 };
            d[29] = kind | u8::from(first) << 3;
            // The guard of a deallocated block is that of zeros.
            d[33] |= 1 << 4;
            put(&mut d, 128, &(format.metadata_bytes() as u16).to_le_bytes());
        }
        d
    }

    /// Returns whether only CNS 05 describes its format completely.
    #[must_use]
    pub fn has_extended_format(&self) -> bool {
        self.format
            .protection()
            .is_some_and(|format| format.guard() != Guard::Crc16 || format.storage_bits() != 0)
    }

    /// The 4096 bytes of CNS 05: what the NVM command set adds.
    #[must_use]
    pub fn of_set(&self) -> Vec<u8> {
        let mut d = vec![0; LEN];
        if let Some(format) = self.format.protection() {
            let guard = match format.guard() {
                Guard::Crc16 => 0,
                Guard::Crc32c => 1,
                Guard::Crc64 => 2,
            };
            put(&mut d, 0, &format.storage_mask().to_le_bytes());
            // Reads can check storage tags; and guards of 16 bits can have one, of which any bits
            // are compared.
            let of_16_bits = format.guard() == Guard::Crc16 && format.storage_bits() != 0;
            d[8] = u8::from(format.storage_bits() != 0) << 2 | u8::from(of_16_bits);
            put(&mut d, 12, &(format.storage_bits() | guard << 7).to_le_bytes());
        }
        d
    }

    /// Reads what a host needs of CNS 00; the UUID is not in it. `None` if the block size makes
    /// no sense, or blocks have metadata.
    #[must_use]
    pub fn decode(d: &[u8]) -> Option<Self> {
        // More than 16 formats have two more bits.
        let format = usize::from(d[26] & 0xF | (d[26] >> 1 & 0x30));
        let (metadata, lbads) = (u16_at(d, 128 + 4 * format), d[128 + 4 * format + 2]);
        let data = 1_u32.checked_shl(lbads.into()).filter(|_| metadata == 0)?;
        Some(Self {
            blocks: u64_at(d, 0),
            format: BlockFormat::plain(data).ok()?,
            nguid: std::array::from_fn(|i| d[104 + i]),
            uuid: [0; 16],
            read_only: d[99] & 1 != 0,
            write_grain: if d[24] & 1 << 4 == 0 { 1 } else { u16_at(d, 64).saturating_add(1) },
            deallocate_grain: if d[24] & 1 << 4 == 0 { 1 } else { u16_at(d, 68).saturating_add(1) },
        })
    }

    /// The 4096 bytes of CNS 03: NGUID, UUID and command set.
    #[must_use]
    pub fn ids(&self) -> Vec<u8> {
        let mut d = vec![0; LEN];
        d[..2].copy_from_slice(&[2, 16]);
        put(&mut d, 4, &self.nguid);
        d[20..22].copy_from_slice(&[3, 16]);
        put(&mut d, 24, &self.uuid);
        d[40..42].copy_from_slice(&[4, 1]);
        d
    }

    /// The 4096 bytes of CNS 08.
    #[must_use]
    pub fn independent(&self) -> Vec<u8> {
        let mut d = vec![0; LEN];
        d[1] = 1;
        put(&mut d, 4, &ana::GROUP.to_le_bytes());
        d[8] = u8::from(self.read_only);
        // Ready.
        d[14] = 1;
        d
    }
}

/// The 4096 bytes of CNS 1C: combinations of command sets, 8 bytes each, of which there is one with
/// the NVM command set alone.
pub(crate) fn command_sets() -> Vec<u8> {
    let mut d = vec![0; LEN];
    d[0] = 1;
    d
}

/// The number of a type of protection information in DPS.
const fn kind_number(kind: Type) -> u8 {
    match kind {
        Type::One => 1,
        Type::Two => 2,
        Type::Three => 3,
    }
}

/// The list of these namespaces, at most the first 1024 of them.
#[must_use]
pub fn namespace_list(nsids: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut d = vec![0; LEN];
    for (field, nsid) in d.chunks_exact_mut(4).zip(nsids) {
        field.copy_from_slice(&nsid.to_le_bytes());
    }
    d
}

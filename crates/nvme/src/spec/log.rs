//! Log pages.

use crate::bytes::{put, put_padded};

/// Log identifiers.
pub mod lid {
    /// List of the log pages that are supported.
    pub const SUPPORTED: u8 = 0x00;
    /// Errors.
    pub const ERRORS: u8 = 0x01;
    /// Health.
    pub const HEALTH: u8 = 0x02;
    /// Firmware slots.
    pub const FIRMWARE: u8 = 0x03;
    /// Namespaces that changed.
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    /// Commands and their effects.
    pub const EFFECTS: u8 = 0x05;
    /// Asymmetric namespace access.
    pub const ANA: u8 = 0x0C;
    /// Discovery.
    pub const DISCOVERY: u8 = 0x70;
}

/// An entry of the error log. (NVMe Base, Error Information Log Entry, 64 bytes.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErrorEntry {
    /// Counts errors from 1 over the life of the controller.
    pub count: u64,
    /// The queue.
    pub sqid: u16,
    /// The command.
    pub cid: u16,
    /// The status word.
    pub status_word: u16,
    /// First block, where the command has one; else 0.
    pub lba: u64,
    /// Namespace.
    pub nsid: u32,
}

impl ErrorEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 64;

    /// Its bytes; the transport is TCP (3).
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        put(&mut bytes, 0, &self.count.to_le_bytes());
        put(&mut bytes, 8, &self.sqid.to_le_bytes());
        put(&mut bytes, 10, &self.cid.to_le_bytes());
        put(&mut bytes, 12, &self.status_word.to_le_bytes());
        put(&mut bytes, 14, &u16::MAX.to_le_bytes());
        put(&mut bytes, 16, &self.lba.to_le_bytes());
        put(&mut bytes, 24, &self.nsid.to_le_bytes());
        bytes[29] = 3;
        bytes
    }
}

/// Health page of a controller without a thermometer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Critical warnings, a bit each: spare, temperature, reliability, read-only, backup.
    pub warnings: u8,
    /// The temperature in kelvin.
    pub temperature: u16,
    /// Bytes of blocks read by hosts, of commands that succeeded.
    pub bytes_read: u64,
    /// Bytes of blocks written by hosts, of commands that succeeded.
    pub bytes_written: u64,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Seconds since the subsystem started.
    pub seconds: u64,
    /// Places that the media did not give back.
    pub media_errors: u64,
    /// Entries of the error log, ever.
    pub error_entries: u64,
}

impl Health {
    /// The 512 bytes of the page. Units of data are 1000 x 512 bytes, rounded up.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; 512];
        page[0] = self.warnings;
        put(&mut page, 1, &self.temperature.to_le_bytes());
        // No spare is used up.
        page[3] = 100;
        page[4] = 10;
        let unit = |bytes: u64| bytes.div_ceil(512_000);
        for (at, value) in [
            (32, unit(self.bytes_read)),
            (48, unit(self.bytes_written)),
            (64, self.reads),
            (80, self.writes),
            (112, 1),
            (128, self.seconds / 3600),
            (160, self.media_errors),
            (176, self.error_entries),
        ] {
            put(&mut page, at, &value.to_le_bytes());
        }
        page
    }
}

/// A record of the discovery log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryEntry {
    /// 2 an NVM subsystem, 3 the discovery subsystem itself.
    pub subtype: u8,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// The port that it belongs to.
    pub portid: u16,
    /// Entries of an admin queue, at most: 32 or more.
    pub asqsz: u16,
    /// The service, such as "4420".
    pub trsvcid: String,
    /// The subsystem.
    pub subnqn: String,
    /// The address.
    pub traddr: String,
}

impl DiscoveryEntry {
    /// Bytes of a record, and of the header of the log.
    pub const LEN: usize = 1024;
    /// Subtype: an NVM subsystem.
    pub const NVM: u8 = 2;
    /// Subtype: the discovery subsystem that is being read.
    pub const CURRENT_DISCOVERY: u8 = 3;

    fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        // TCP; nothing said of a secure channel; flow control may be turned off.
        bytes[..4].copy_from_slice(&[3, if self.ipv6 { 2 } else { 1 }, self.subtype, 1 << 2]);
        put(&mut bytes, 4, &self.portid.to_le_bytes());
        put(&mut bytes, 6, &u16::MAX.to_le_bytes());
        put(&mut bytes, 8, &self.asqsz.max(32).to_le_bytes());
        if self.subtype == Self::CURRENT_DISCOVERY {
            // EPCSD: the connection may stay, and is told of changes.
            bytes[10] = 1 << 1;
        }
        put_padded(&mut bytes, 32, 32, &self.trsvcid);
        put(&mut bytes, 256, &self.subnqn.as_bytes()[..self.subnqn.len().min(223)]);
        put_padded(&mut bytes, 512, 256, &self.traddr);
        bytes
    }

    /// Reads one record; `None` if it is not of TCP or its texts are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let padded = |field: &[u8]| {
            let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
            std::str::from_utf8(&field[..end]).ok().map(|text| text.trim_end().to_owned())
        };
        if bytes.len() < Self::LEN || bytes[0] != 3 {
            return None;
        }
        Some(Self {
            subtype: bytes[2],
            ipv6: bytes[1] == 2,
            portid: crate::bytes::u16_at(bytes, 4),
            asqsz: crate::bytes::u16_at(bytes, 8),
            trsvcid: padded(&bytes[32..64])?,
            subnqn: padded(&bytes[256..512])?,
            traddr: padded(&bytes[512..768])?,
        })
    }

    /// The whole log: header and records.
    #[must_use]
    pub fn log(generation: u64, entries: &[Self]) -> Vec<u8> {
        let mut page = vec![0; Self::LEN];
        put(&mut page, 0, &generation.to_le_bytes());
        put(&mut page, 8, &(entries.len() as u64).to_le_bytes());
        for entry in entries {
            page.extend_from_slice(&entry.encode());
        }
        page
    }
}

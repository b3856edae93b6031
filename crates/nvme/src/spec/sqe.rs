//! Submission and completion queue entries.

use super::Status;
use crate::bytes::{put, u16_at, u32_at, u64_at};

/// A command: 64 bytes.
///
/// | off | size | field |
/// |---|---|---|
/// | 0 | 1 | opcode |
/// | 1 | 1 | bits 0-1 fused, 6-7 PSDT (01 on fabrics) |
/// | 2 | 2 | command id |
/// | 4 | 4 | nsid |
/// | 8 | 8 | cdw2, cdw3 |
/// | 16 | 8 | metadata pointer |
/// | 24 | 16 | SGL descriptor |
/// | 40 | 24 | cdw10 to cdw15 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sqe(pub [u8; 64]);

const _: () = assert!(size_of::<Sqe>() == 64 && size_of::<Cqe>() == 16);

impl Sqe {
    /// A command with an opcode and a namespace; PSDT says that data are described by an SGL.
    #[must_use]
    pub fn new(opcode: u8, nsid: u32) -> Self {
        let mut bytes = [0; 64];
        bytes[0] = opcode;
        bytes[1] = 0x40;
        put(&mut bytes, 4, &nsid.to_le_bytes());
        Self(bytes)
    }

    /// Its opcode.
    #[must_use]
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// Fused operation and PSDT bits.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.0[1]
    }

    /// Returns whether it is not one of a fused pair, and its data are described by an SGL (PSDT 01
    /// or 10).
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.0[1] & 0b11 == 0 && matches!(self.0[1] >> 6, 0b01 | 0b10)
    }

    /// Its id.
    #[must_use]
    pub fn cid(&self) -> u16 {
        u16_at(&self.0, 2)
    }

    /// Gives it an id.
    pub fn set_cid(&mut self, cid: u16) {
        put(&mut self.0, 2, &cid.to_le_bytes());
    }

    /// Its namespace.
    #[must_use]
    pub fn nsid(&self) -> u32 {
        u32_at(&self.0, 4)
    }

    /// Place of its data.
    #[must_use]
    pub fn sgl(&self) -> Sgl {
        Sgl { offset: u64_at(&self.0, 24), len: u32_at(&self.0, 32), kind: self.0[39] }
    }

    /// Says where its data are.
    pub fn set_sgl(&mut self, sgl: Sgl) {
        put(&mut self.0, 24, &sgl.offset.to_le_bytes());
        put(&mut self.0, 32, &sgl.len.to_le_bytes());
        self.0[39] = sgl.kind;
    }

    /// Command dword `n`.
    ///
    /// # Panics
    /// If `n` is not below 16.
    #[must_use]
    pub fn dword(&self, n: usize) -> u32 {
        u32_at(&self.0, n * 4)
    }

    /// Sets command dword `n`.
    ///
    /// # Panics
    /// If `n` is not below 16.
    pub fn set_dword(&mut self, n: usize, value: u32) {
        put(&mut self.0, n * 4, &value.to_le_bytes());
    }

    /// The first block of a read or write.
    #[must_use]
    pub fn slba(&self) -> u64 {
        u64_at(&self.0, 40)
    }

    /// Blocks of a read or write: 1 to 65536.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        u32::from(u16_at(&self.0, 48)) + 1
    }

    /// Says which blocks.
    ///
    /// # Panics
    /// If `blocks` is not 1 to 65536.
    pub fn set_blocks(&mut self, slba: u64, blocks: u32) {
        let nlb = u16::try_from(blocks - 1).expect("1 to 65536 blocks");
        put(&mut self.0, 40, &slba.to_le_bytes());
        put(&mut self.0, 48, &nlb.to_le_bytes());
    }

    /// The control bits of a read or write: [`Self::FUA`], [`Self::DEAC`] and those of protection
    /// information.
    #[must_use]
    pub fn control(&self) -> u16 {
        u16_at(&self.0, 50)
    }

    /// Sets the control bits of a read or write.
    pub fn set_control(&mut self, control: u16) {
        put(&mut self.0, 50, &control.to_le_bytes());
    }

    /// Control: durable before it completes.
    pub const FUA: u16 = 1 << 14;
    /// Control of Write Zeroes: the blocks may be deallocated.
    pub const DEAC: u16 = 1 << 9;
}

/// A data description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sgl {
    /// Byte offset in the capsule, for [`Sgl::IN_CAPSULE`].
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// Descriptor type in bits 4-7, subtype in bits 0-3.
    pub kind: u8,
}

impl Sgl {
    /// Data block, offset: the data are in the capsule.
    pub const IN_CAPSULE: u8 = 0x01;
    /// Transport data block: the data travel in data PDUs.
    pub const TRANSPORT: u8 = 0x5A;

    /// Data in the capsule.
    #[must_use]
    pub const fn in_capsule(len: u32) -> Self {
        Self { offset: 0, len, kind: Self::IN_CAPSULE }
    }

    /// Data in data PDUs.
    #[must_use]
    pub const fn transport(len: u32) -> Self {
        Self { offset: 0, len, kind: Self::TRANSPORT }
    }
}

/// A completion: 16 bytes.
///
/// | off | size | field |
/// |---|---|---|
/// | 0 | 4 | dw0 |
/// | 4 | 4 | dw1 |
/// | 8 | 2 | sqhd |
/// | 10 | 2 | sqid, 0 on fabrics |
/// | 12 | 2 | command id |
/// | 14 | 2 | status, shifted left by one |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cqe {
    /// Result of the command.
    pub result: u64,
    /// Head of the submission queue: commands up to it have been taken; 0xFFFF without flow
    /// control.
    pub sqhd: u16,
    /// The command.
    pub cid: u16,
    /// Status of the command.
    pub status: Status,
}

impl Cqe {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        put(&mut bytes, 0, &self.result.to_le_bytes());
        put(&mut bytes, 8, &self.sqhd.to_le_bytes());
        put(&mut bytes, 12, &self.cid.to_le_bytes());
        put(&mut bytes, 14, &self.status.word().to_le_bytes());
        bytes
    }

    /// Reads 16 bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            result: u64_at(bytes, 0),
            sqhd: u16_at(bytes, 8),
            cid: u16_at(bytes, 12),
            status: Status::of_word(u16_at(bytes, 14)),
        }
    }
}

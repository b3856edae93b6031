//! Initialize Connection request and response: the first PDU of each side.

use super::{COMMON, CommonHeader, Digests, Fatal, Kind, Violation};
use crate::bytes::{put, u16_at, u32_at};

/// Bytes of either.
const LEN: usize = 128;

/// Request of a host.
///
/// | off | size | field |
/// |---|---|---|
/// | 8 | 2 | pfv, 0 |
/// | 10 | 1 | hpda, in dwords less one, at most 31 |
/// | 11 | 1 | bit 0 header digest, bit 1 data digest |
/// | 12 | 4 | maxr2t, less one |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcReq {
    /// Alignment of data that the host wants, in dwords less one: 0 to 31.
    pub hpda: u8,
    /// The digests that it asks for.
    pub digests: Digests,
    /// Outstanding R2Ts a command that it takes, less one.
    pub maxr2t: u32,
}

fn digest_bits(digests: Digests) -> u8 {
    u8::from(digests.header) | u8::from(digests.data) << 1
}

fn digests_of(bits: u8) -> Digests {
    Digests { header: bits & 1 != 0, data: bits & 2 != 0 }
}

fn empty(kind: Kind) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    CommonHeader { kind, flags: 0, hlen: LEN as u8, pdo: 0, plen: LEN as u32 }.encode(&mut bytes);
    bytes
}

impl IcReq {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = empty(Kind::IcReq);
        bytes[COMMON + 2] = self.hpda;
        bytes[COMMON + 3] = digest_bits(self.digests);
        put(&mut bytes, COMMON + 4, &self.maxr2t.to_le_bytes());
        bytes
    }

    /// Reads a framed PDU.
    ///
    /// # Errors
    /// If the format version is not 0, or hpda is more than 31.
    pub fn decode(header: &[u8]) -> Result<Self, Violation> {
        let invalid = |at, what| Err(Violation::new(Fatal::InvalidHeaderField, at, header, what));
        if u16_at(header, COMMON) != 0 {
            return invalid(8, "ICReq: pfv is not 0");
        }
        let hpda = header[COMMON + 2];
        if hpda > 31 {
            return invalid(10, "ICReq: hpda is more than 31");
        }
        Ok(Self { hpda, digests: digests_of(header[COMMON + 3]), maxr2t: u32_at(header, COMMON + 4) })
    }
}

/// Answer of a controller.
///
/// | off | size | field |
/// |---|---|---|
/// | 8 | 2 | pfv, 0 |
/// | 10 | 1 | cpda, in dwords less one, at most 31 |
/// | 11 | 1 | digests accepted |
/// | 12 | 4 | maxh2cdata in bytes: at least 4096, a multiple of 4 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcResp {
    /// Alignment of data that the controller wants. Linux insists on 0.
    pub cpda: u8,
    /// The digests of the connection.
    pub digests: Digests,
    /// Most bytes of data in one H2CData PDU.
    pub maxh2cdata: u32,
}

impl IcResp {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = empty(Kind::IcResp);
        bytes[COMMON + 2] = self.cpda;
        bytes[COMMON + 3] = digest_bits(self.digests);
        put(&mut bytes, COMMON + 4, &self.maxh2cdata.to_le_bytes());
        bytes
    }

    /// Reads a framed PDU.
    ///
    /// # Errors
    /// If the format version is not 0, cpda is more than 31, or maxh2cdata is less than 4096 or
    /// no multiple of 4.
    pub fn decode(header: &[u8]) -> Result<Self, Violation> {
        let invalid = |at, what| Err(Violation::new(Fatal::InvalidHeaderField, at, header, what));
        if u16_at(header, COMMON) != 0 {
            return invalid(8, "ICResp: pfv is not 0");
        }
        let cpda = header[COMMON + 2];
        if cpda > 31 {
            return invalid(10, "ICResp: cpda is more than 31");
        }
        let maxh2cdata = u32_at(header, COMMON + 4);
        if maxh2cdata < 4096 || !maxh2cdata.is_multiple_of(4) {
            return invalid(12, "ICResp: maxh2cdata is no multiple of 4 from 4096 on");
        }
        Ok(Self { cpda, digests: digests_of(header[COMMON + 3]), maxh2cdata })
    }
}

//! From a stream of bytes to PDUs: lengths are judged before anything is waited for or kept.

use super::{
    COMMON, CommonHeader, DDGSTF, DIGEST, Digests, Fatal, HDGSTF, Kind, LAST, MAX_HEADER, SUCCESS, Violation,
};
use crate::bytes::u32_at;
use pumice_protect::digest;

/// Bytes that may follow the header of a term request.
const MAX_TERM_DATA: usize = 128;

/// Facts that the receiving end knows when a PDU arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// True if this end is the controller: PDUs come from a host.
    pub controller: bool,
    /// The digests of the connection.
    pub digests: Digests,
    /// Most bytes of data in a capsule.
    pub max_capsule_data: u32,
    /// Most bytes of data in a data PDU.
    pub max_data: u32,
}

/// A whole PDU in the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its common header.
    pub common: CommonHeader,
    /// The whole header, `hlen` bytes.
    pub header: &'a [u8],
    /// Its data; empty if there is none.
    pub data: &'a [u8],
    /// True if the data are what their digest says. True where there is no digest.
    pub data_good: bool,
    /// Bytes of the PDU.
    pub len: usize,
}

impl Framing {
    fn max_data_of(&self, kind: Kind) -> u32 {
        match kind {
            Kind::CapsuleCmd => self.max_capsule_data,
            _ => self.max_data,
        }
    }

    /// Judges, of the first eight bytes, what says how long the header is and whether a digest
    /// follows it.
    fn judge_header(&self, bytes: &[u8]) -> Result<CommonHeader, Violation> {
        let invalid = |at, what| Err(Violation::new(Fatal::InvalidHeaderField, at, bytes, what));
        let Some(common) = CommonHeader::decode(bytes) else { return invalid(0, "unknown PDU type") };
        let kind = common.kind;
        if kind.is_from_host() != self.controller {
            return invalid(0, "a PDU type of the other direction");
        }
        if usize::from(common.hlen) != kind.header_len() {
            return invalid(2, "hlen is not the length of this header");
        }
        let digest = self.digests_of(kind).header_len();
        if digest > 0 && common.flags & HDGSTF == 0 {
            return invalid(1, "flags that the connection did not agree on");
        }
        if digest > 0 && (common.plen as usize) < kind.header_len() + digest {
            return invalid(4, "plen leaves no room for the digest of the header");
        }
        Ok(common)
    }

    /// The digests that a PDU of this kind has.
    fn digests_of(&self, kind: Kind) -> Digests {
        if kind.has_digests() { self.digests } else { Digests::default() }
    }

    /// Judges the rest of the first eight bytes: after the digest of the header, if there is one,
    /// so that a header that was changed on its way is told from a peer that breaks the protocol.
    fn judge(&self, common: CommonHeader, bytes: &[u8]) -> Result<(), Violation> {
        let invalid = |at, what| Err(Violation::new(Fatal::InvalidHeaderField, at, bytes, what));
        let kind = common.kind;
        let digests = self.digests_of(kind);
        let bare = kind.header_len() + digests.header_len();
        let plen = common.plen as usize;
        match kind {
            Kind::H2cTermReq | Kind::C2hTermReq => {
                if plen < bare || plen > bare + MAX_TERM_DATA {
                    return invalid(4, "plen of a term request");
                }
            }
            _ if !kind.may_carry_data() || plen == bare => {
                if plen != bare {
                    return invalid(4, "plen is not the length of this PDU");
                }
                if matches!(kind, Kind::H2cData | Kind::C2hData) {
                    return invalid(4, "a data PDU without data");
                }
            }
            _ => {
                let pdo = usize::from(common.pdo);
                if pdo < bare || !pdo.is_multiple_of(4) || pdo > MAX_HEADER {
                    return invalid(3, "pdo is not where data may begin");
                }
                let Some(data) = plen.checked_sub(pdo + digests.data_len()).filter(|data| *data > 0) else {
                    return invalid(4, "plen leaves no room for data");
                };
                if data > self.max_data_of(kind) as usize {
                    return Err(match kind {
                        Kind::CapsuleCmd => Violation::new(
                            Fatal::InvalidHeaderField,
                            4,
                            bytes,
                            "more data in a capsule than allowed",
                        ),
                        _ => {
                            Violation::new(Fatal::LimitExceeded, 0, bytes, "more data in a PDU than allowed")
                        }
                    });
                }
            }
        }
        self.judge_flags(common, bytes, digests, plen > bare)
    }

    fn judge_flags(
        &self,
        common: CommonHeader,
        bytes: &[u8],
        digests: Digests,
        with_data: bool,
    ) -> Result<(), Violation> {
        let with_data = with_data && common.kind.may_carry_data();
        let allowed = match common.kind {
            Kind::H2cData => LAST,
            Kind::C2hData => LAST | SUCCESS,
            _ => 0,
        };
        let expected = digests.flags(with_data);
        // A capsule without data may carry the flag of a data digest that is not there; Linux does
        // so.
        let ignored = if with_data { 0 } else { DDGSTF };
        if common.flags & (HDGSTF | DDGSTF) & !ignored != expected & !ignored
            || common.flags & !(allowed | HDGSTF | DDGSTF) != 0
        {
            let what = "flags that the connection did not agree on";
            return Err(Violation::new(Fatal::InvalidHeaderField, 1, bytes, what));
        }
        Ok(())
    }
}

/// The PDU that begins at the start of `bytes`: `None` while it has not come whole. Says how many
/// bytes it needs in `needed`.
///
/// # Errors
/// The violation that ends the connection: a header that makes no sense, or does not fit its
/// digest.
pub fn frame<'a>(
    bytes: &'a [u8],
    framing: &Framing,
    needed: &mut usize,
) -> Result<Option<Frame<'a>>, Violation> {
    if bytes.len() < COMMON {
        *needed = COMMON;
        return Ok(None);
    }
    let common = framing.judge_header(bytes)?;
    let kind = common.kind;
    let digests = framing.digests_of(kind);
    let (hlen, len) = (usize::from(common.hlen), common.plen as usize);
    if digests.header {
        if bytes.len() < hlen + DIGEST {
            *needed = hlen + DIGEST;
            return Ok(None);
        }
        let found = u32_at(bytes, hlen);
        if found != digest::crc32c(&bytes[..hlen]) {
            return Err(Violation::new(Fatal::HeaderDigest, found, &bytes[..hlen], "header digest"));
        }
    }
    framing.judge(common, bytes)?;
    *needed = len;
    if bytes.len() < len {
        return Ok(None);
    }
    let header = &bytes[..hlen];
    let bare = hlen + digests.header_len();
    let (mut data, mut data_good): (&[u8], bool) = (&[], true);
    if kind.may_carry_data() && len > bare {
        let end = len - digests.data_len();
        data = &bytes[usize::from(common.pdo)..end];
        data_good = !digests.data || u32_at(bytes, end) == digest::crc32c(data);
    }
    Ok(Some(Frame { common, header, data, data_good, len }))
}

//! The hosts of a node as bytes.

use super::{WireError, wrong};
use crate::{AssociatedHost, Hosts};

/// Bytes before the first host.
pub const HOSTS_HEADER: usize = 32;
/// Bytes of a host.
pub const HOST_BYTES: usize = 48;
/// Hosts that are told, at most: as many associations as a node takes.
pub const MAX_HOSTS: usize = 64;
/// Flags of a host: it has promised to write nothing.
const OBSERVER: u32 = 1;

/// The bytes of a node's hosts.
#[must_use]
pub fn encode_hosts(hosts: &Hosts) -> Vec<u8> {
    let told = &hosts.hosts[..hosts.hosts.len().min(MAX_HOSTS)];
    let mut out = Vec::with_capacity(HOSTS_HEADER + told.len() * HOST_BYTES);
    out.extend_from_slice(&hosts.epoch.to_le_bytes());
    out.extend_from_slice(&hosts.changes.to_le_bytes());
    out.extend_from_slice(&(told.len() as u32).to_le_bytes());
    out.resize(HOSTS_HEADER, 0);
    for host in told {
        out.extend_from_slice(&host.mark);
        out.extend_from_slice(&host.silent_ms.to_le_bytes());
        out.extend_from_slice(&(u32::from(host.observer) * OBSERVER).to_le_bytes());
        out.extend_from_slice(&[0; 8]);
    }
    out
}

/// Reads a node's hosts.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_hosts(bytes: &[u8]) -> Result<Hosts, WireError> {
    let field = |at: usize, len: usize| {
        bytes
            .get(at..at + len)
            .ok_or_else(|| WireError { field: "hosts", found: format!("{} bytes, too short", bytes.len()) })
    };
    let u32_at = |at| field(at, 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let u64_at = |at| field(at, 8).map(|b| u64::from_le_bytes(std::array::from_fn(|i| b[i])));
    let count = u32_at(16)? as usize;
    if count > MAX_HOSTS {
        return wrong("hosts", count);
    }
    let host = |i: usize| {
        let at = HOSTS_HEADER + i * HOST_BYTES;
        let mark = field(at, HOST_BYTES)?;
        let flags = u32_at(at + 36)?;
        if flags & !OBSERVER != 0 {
            return wrong("flags of a host", flags);
        }
        Ok(AssociatedHost {
            mark: std::array::from_fn(|i| mark[i]),
            silent_ms: u32_at(at + 32)?,
            observer: flags & OBSERVER != 0,
        })
    };
    let hosts = (0..count).map(host).collect::<Result<_, WireError>>()?;
    Ok(Hosts { epoch: u64_at(0)?, changes: u64_at(8)?, hosts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_back_and_short_bytes_do_not() {
        let host = |id| AssociatedHost { mark: [id; 32], silent_ms: 1200, observer: id == 2 };
        let hosts = Hosts { epoch: 9, changes: 4, hosts: vec![host(1), host(2)] };
        let bytes = encode_hosts(&hosts);
        assert_eq!(bytes.len(), 32 + 2 * 48);
        assert_eq!(decode_hosts(&bytes).unwrap(), hosts);
        for len in 0..bytes.len() {
            assert!(decode_hosts(&bytes[..len]).is_err(), "{len}");
        }
        let mut flags = bytes.clone();
        flags[32 + 36] = 2;
        assert_eq!(decode_hosts(&flags).unwrap_err().field, "flags of a host");
        let mut many = bytes;
        many[16..20].copy_from_slice(&65_u32.to_le_bytes());
        assert_eq!(decode_hosts(&many).unwrap_err().field, "hosts");
    }
}

//! The hosts of a node as bytes.

use super::{WireError, wrong};
use crate::{AssociatedHost, Hosts};

/// Bytes before the first host.
pub const HOSTS_HEADER: usize = 32;
/// Bytes of a host.
pub const HOST_BYTES: usize = 256;
/// Hosts that are told, at most: as many associations as a node takes.
pub const MAX_HOSTS: usize = 64;
/// Bytes of a name: the longest NQN is 223.
const NAME: usize = 224;

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
        let name = &host.nqn.as_bytes()[..host.nqn.len().min(NAME)];
        let begin = out.len();
        out.extend_from_slice(&host.id);
        out.extend_from_slice(&host.silent_ms.to_le_bytes());
        out.extend_from_slice(&(name.len() as u32).to_le_bytes());
        out.resize(begin + 32, 0);
        out.extend_from_slice(name);
        out.resize(begin + HOST_BYTES, 0);
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
        let id = field(at, 16)?;
        let len = u32_at(at + 20)? as usize;
        if len > NAME {
            return wrong("bytes of a host's name", len);
        }
        let Ok(nqn) = std::str::from_utf8(field(at + 32, len)?) else { return wrong("host", "no UTF-8") };
        Ok(AssociatedHost {
            nqn: nqn.to_owned(),
            id: std::array::from_fn(|i| id[i]),
            silent_ms: u32_at(at + 16)?,
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
        let host = |nqn: &str, id| AssociatedHost { nqn: nqn.to_owned(), id: [id; 16], silent_ms: 1200 };
        let hosts = Hosts { epoch: 9, changes: 4, hosts: vec![host("nqn.a", 1), host(&"n".repeat(223), 2)] };
        let bytes = encode_hosts(&hosts);
        assert_eq!(bytes.len(), 32 + 2 * 256);
        assert_eq!(decode_hosts(&bytes).unwrap(), hosts);
        for len in 0..HOSTS_HEADER + 32 {
            assert!(decode_hosts(&bytes[..len]).is_err(), "{len}");
        }
        let mut many = bytes;
        many[16..20].copy_from_slice(&65_u32.to_le_bytes());
        assert_eq!(decode_hosts(&many).unwrap_err().field, "hosts");
    }
}

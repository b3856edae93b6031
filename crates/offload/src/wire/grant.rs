//! Grants of local memory as bytes.

use super::{WireError, wrong, zeros};
use crate::Grant;

/// Bytes of the data of Memory Grant.
pub const GRANT_BYTES: usize = 32;

/// The data of Memory Grant: the bytes that may be written, 0 to take the grant back.
#[must_use]
pub fn encode_grant(grant: &Grant, len: u64) -> [u8; GRANT_BYTES] {
    let mut out = [0; GRANT_BYTES];
    out[..8].copy_from_slice(&len.to_le_bytes());
    out[16..].copy_from_slice(&grant.0);
    out
}

/// Reads the data of Memory Grant.
///
/// # Errors
/// Names the field that makes no sense.
pub fn decode_grant(bytes: &[u8]) -> Result<(Grant, u64), WireError> {
    if bytes.len() != GRANT_BYTES {
        return wrong("grant", format!("{} bytes, not {GRANT_BYTES}", bytes.len()));
    }
    zeros(bytes, 8..16)?;
    let grant = Grant(std::array::from_fn(|i| bytes[16 + i]));
    if grant == Grant::NONE {
        return wrong("grant", "zero, which anybody could guess");
    }
    Ok((grant, u64::from_le_bytes(std::array::from_fn(|i| bytes[i]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_come_back_and_senseless_ones_do_not() {
        let bytes = encode_grant(&Grant([7; 16]), 4096);
        assert_eq!(decode_grant(&bytes), Ok((Grant([7; 16]), 4096)));
        assert_eq!(decode_grant(&bytes[..31]).unwrap_err().field, "grant");
        assert_eq!(decode_grant(&encode_grant(&Grant::NONE, 1)).unwrap_err().field, "grant");
        let mut reserved = bytes;
        reserved[9] = 1;
        assert_eq!(decode_grant(&reserved).unwrap_err().field, "a reserved byte");
    }
}

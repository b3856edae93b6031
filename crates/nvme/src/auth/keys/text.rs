//! Common parts of the two text forms: `prefix:hh:base64(secret ‖ crc):`.

use crate::auth::secret::Secret;
use base64ct::{Base64, Encoding as _};
use std::fmt::Write as _;
use zeroize::Zeroizing;

/// Bytes of the longest secret, and of its checksum.
const MAX_SECRET: usize = 64;
const CRC: usize = 4;

/// A text or a secret that is no key. No message shows a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text does not begin as this kind of key does, or does not end with a colon.
    #[error("form: such a key is {0}:hh:base64: and nothing else")]
    Form(&'static str),
    /// The digits after the prefix are not known.
    #[error("hh: the digits after the prefix are {0}")]
    Transform(&'static str),
    /// The middle is not Base64.
    #[error("base64: the secret is not Base64 with padding")]
    Base64,
    /// The secret has another length than keys of this kind.
    #[error("secret: its length is not {0} bytes")]
    Length(&'static str),
    /// The checksum does not fit: the text was changed or mistyped.
    #[error("crc: the checksum does not fit; the text was changed or mistyped")]
    Checksum,
}

/// One of the two text forms.
pub(super) struct Form {
    /// First characters of a text.
    pub(super) prefix: &'static str,
    /// The known numbers of hh are 0 to this, and how a message says it.
    pub(super) transforms: (u8, &'static str),
    /// The lengths of secrets, and how a message says them.
    pub(super) lengths: (&'static [usize], &'static str),
}

impl Form {
    /// Takes a text apart: the number in hh, and the secret, whose checksum fits.
    pub(super) fn parse(&self, text: &str) -> Result<(u8, Secret), KeyError> {
        let body = text.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix(':'));
        let body = body.and_then(|rest| rest.strip_suffix(':')).ok_or(KeyError::Form(self.prefix))?;
        let (digits, base64) = body.split_once(':').ok_or(KeyError::Form(self.prefix))?;
        let transform = match digits.as_bytes() {
            [b'0', digit @ b'0'..=b'9'] if digit - b'0' <= self.transforms.0 => digit - b'0',
            _ => return Err(KeyError::Transform(self.transforms.1)),
        };
        let mut buffer = Zeroizing::new([0; MAX_SECRET + CRC]);
        let bytes = Base64::decode(base64, buffer.as_mut()).map_err(|error| match error {
            base64ct::Error::InvalidLength => KeyError::Length(self.lengths.1),
            base64ct::Error::InvalidEncoding => KeyError::Base64,
        })?;
        let (secret, crc) = bytes.split_last_chunk::<CRC>().ok_or(KeyError::Length(self.lengths.1))?;
        let secret = self.secret(secret)?;
        if crc32fast::hash(secret.expose()) != u32::from_le_bytes(*crc) {
            return Err(KeyError::Checksum);
        }
        Ok((transform, secret))
    }

    /// A secret of an allowed length.
    pub(super) fn secret(&self, bytes: &[u8]) -> Result<Secret, KeyError> {
        let allowed = self.lengths.0.contains(&bytes.len());
        if allowed { Ok(Secret::new(bytes)) } else { Err(KeyError::Length(self.lengths.1)) }
    }

    /// The text of a key.
    pub(super) fn print(&self, transform: u8, secret: &Secret) -> Zeroizing<String> {
        let length = secret.expose().len();
        let mut bytes = Zeroizing::new([0; MAX_SECRET + CRC]);
        bytes[..length].copy_from_slice(secret.expose());
        bytes[length..][..CRC].copy_from_slice(&crc32fast::hash(secret.expose()).to_le_bytes());
        let base64 = Zeroizing::new(Base64::encode_string(&bytes[..length + CRC]));
        // The full length at once: a string that grows leaves copies behind.
        let mut text = Zeroizing::new(String::with_capacity(self.prefix.len() + base64.len() + 5));
        write!(text, "{}:{transform:02}:{}:", self.prefix, base64.as_str())
            .expect("writing to a string does not fail");
        text
    }
}

//! Numbers that nobody can guess.

use pumice_raid::Uuid;

/// 64 bits that nobody can guess: the standard library's hasher is keyed by the system.
pub(crate) fn random() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::time::Instant::now())
}

/// A UUID of version 4.
pub(crate) fn random_uuid() -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random().to_le_bytes());
    bytes[8..].copy_from_slice(&random().to_le_bytes());
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Uuid(bytes)
}

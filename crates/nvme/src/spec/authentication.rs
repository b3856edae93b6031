//! The commands that carry messages of authentication.
//! `docs/reference/wire-format/authentication.md` has their fields.

use super::Sqe;
use super::opcode::{FABRICS, fabrics};
use crate::bytes::u32_at;

/// Bytes 41 to 43: the two numbers of the protocol, and of the security protocol.
const PROTOCOL: [u8; 3] = [1, 1, 0xE9];

/// Bytes of the message of Authentication Send, or of the room of Authentication Receive.
/// Nothing if the command is for another protocol.
#[must_use]
pub fn length(sqe: &Sqe) -> Option<u32> {
    (sqe.0[41..44] == PROTOCOL).then(|| u32_at(&sqe.0, 44))
}

/// Authentication Send of a message with so many bytes.
#[must_use]
pub fn send(length: u32) -> Sqe {
    command(fabrics::AUTHENTICATION_SEND, length)
}

/// Authentication Receive with room for so many bytes.
#[must_use]
pub fn receive(room: u32) -> Sqe {
    command(fabrics::AUTHENTICATION_RECEIVE, room)
}

fn command(kind: u8, length: u32) -> Sqe {
    let mut sqe = Sqe::new(FABRICS, 0);
    sqe.0[4] = kind;
    sqe.0[41..44].copy_from_slice(&PROTOCOL);
    sqe.set_dword(11, length);
    sqe
}

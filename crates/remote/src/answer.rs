//! Interprets a node's answers.

use crate::initiator::{InitiatorError, Outcome};
use pumice_nvme::spec::Status;
use pumice_offload::wire;
use pumice_offload::{ErrorKind, NodeError};

/// Text of an error of a node that lets no more hosts in for now.
const KEPT_OUT: &str = "Connect: controller busy";

/// Returns whether a node refused a host only for now: another one holds it, it has too many hosts,
/// or writes of an earlier process of this host are still under way.
#[must_use]
pub fn is_kept_out(error: &NodeError) -> bool {
    error.kind() == ErrorKind::Unreachable && error.to_string().contains(KEPT_OUT)
}

pub(crate) fn unreachable(error: &InitiatorError) -> NodeError {
    const BUSY: u16 = Status::CONNECT_BUSY.code();
    let text = match error {
        // An I/O command would mean something else by the number.
        InitiatorError::Refused { what: "Connect", status, address } if status.code() == BUSY => format!(
            "{address}: {KEPT_OUT} ({BUSY:#05x}): another host holds the node, as a volume does while it is served and a scrub with --repair until it ends, or the limit of hosts is reached",
        ),
        error => error.to_string(),
    };
    NodeError::new(ErrorKind::Unreachable, text)
}

/// The outcome of a command with `expected` bytes of data: its data arrived completely, or it
/// failed. A success with fewer bytes would leave earlier contents in the buffer.
pub(crate) fn whole(node: &str, what: &str, outcome: &Outcome, expected: usize) -> Result<(), NodeError> {
    if !outcome.status.is_success() {
        return Err(refused(node, what, outcome.status, ""));
    }
    if outcome.received as usize != expected {
        let came = format!("{node}: {what}: only {} of {expected} bytes arrived", outcome.received);
        return Err(NodeError::new(ErrorKind::Unreachable, came));
    }
    Ok(())
}

/// The error of a failed command: the node, the command, the status by name, and the node's
/// explanation if it gave one.
pub(crate) fn refused(node: &str, what: &str, status: Status, explanation: &str) -> NodeError {
    const READ_ERROR: u16 = Status::READ_ERROR.code();
    const WRITE_FAULT: u16 = Status::WRITE_FAULT.code();
    const INTERNAL: u16 = Status::INTERNAL.code();
    const WRITE_PROTECTED: u16 = Status::WRITE_PROTECTED.code();
    let name = match status.code() {
        wire::STATUS_PEER => format!("peer unreachable ({:#05x})", wire::STATUS_PEER),
        wire::STATUS_IN_USE => format!("in use ({:#05x})", wire::STATUS_IN_USE),
        wire::STATUS_NO_MEMORY => format!("no memory ({:#05x})", wire::STATUS_NO_MEMORY),
        wire::STATUS_OTHER_BYTES => format!("other bytes ({:#05x})", wire::STATUS_OTHER_BYTES),
        _ => status.to_string(),
    };
    let separator = if explanation.is_empty() { "" } else { ": " };
    let text = format!("{node}: {what}: {name}{separator}{explanation}");
    let kind = match status.code() {
        READ_ERROR | WRITE_FAULT => ErrorKind::Media,
        INTERNAL => ErrorKind::Drive,
        WRITE_PROTECTED => ErrorKind::ReadOnly,
        wire::STATUS_IN_USE | wire::STATUS_NO_MEMORY => ErrorKind::Busy,
        wire::STATUS_PEER => ErrorKind::Unreachable,
        _ => ErrorKind::InvalidField("command"),
    };
    NodeError::new(kind, text)
}

/// The outcome of a command whose result is kept: the command ended with `status`, and reading the
/// result, if there is one, with `read`. A failed command is reported with its own status, even if
/// its explanation cannot be read.
pub(crate) fn kept_result(
    node: &str,
    what: &str,
    status: Status,
    read: Result<Option<Outcome>, InitiatorError>,
    bytes: Vec<u8>,
) -> Result<Vec<u8>, NodeError> {
    let read_name = wire::opcode::name(wire::opcode::RESULT_READ);
    let result = match read {
        Ok(None) => Ok(bytes),
        Ok(Some(read)) if !read.status.is_success() => {
            Err(refused(node, &format!("{what}: {read_name}"), read.status, ""))
        }
        Ok(Some(read)) if read.received as usize != bytes.len() => {
            let came =
                format!("{node}: {what}: {read_name}: {} of {} bytes came", read.received, bytes.len());
            Err(NodeError::new(ErrorKind::Unreachable, came))
        }
        Ok(Some(_)) => Ok(bytes),
        Err(error) => {
            Err(NodeError::new(ErrorKind::Unreachable, format!("{node}: {what}: {read_name}: {error}")))
        }
    };
    if status.is_success() {
        return result;
    }
    Err(refused(node, what, status, &String::from_utf8_lossy(&result.unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "192.0.2.1:4420";

    fn came(status: Status, received: u32) -> Result<Option<Outcome>, InitiatorError> {
        Ok(Some(Outcome { status, result: 0, received }))
    }

    fn gone() -> Result<Option<Outcome>, InitiatorError> {
        Err(InitiatorError::Deadline { address: NODE.parse().unwrap(), seconds: 30 })
    }

    #[test]
    fn a_command_that_failed_is_told_by_its_own_status() {
        let failed = |read, text: &str| {
            let bytes = text.as_bytes().to_vec();
            kept_result(NODE, "Transfer", Status(wire::STATUS_PEER), read, bytes).unwrap_err()
        };
        let own = format!("{NODE}: Transfer: peer unreachable (0x7c0)");
        for read in [came(Status::SEQUENCE, 0), came(Status::SUCCESS, 2), gone()] {
            let error = failed(read, "why");
            assert!(error.to_string().contains(&own), "{error}");
            assert_eq!(error.kind(), ErrorKind::Unreachable);
        }
        let explained = failed(came(Status::SUCCESS, 11), "not a peer!").to_string();
        assert!(explained.contains(&format!("{own}: not a peer!")), "{explained}");
        let silent = kept_result(NODE, "Parity Execute", Status::INVALID_FIELD, Ok(None), Vec::new());
        let silent = silent.unwrap_err().to_string();
        assert!(silent.contains(&format!("{NODE}: Parity Execute: invalid field (0x002)")), "{silent}");
    }

    #[test]
    fn a_result_that_does_not_come_is_told_by_the_status_of_its_reading() {
        let lost = |read| kept_result(NODE, "Parity Execute", Status::SUCCESS, read, vec![0; 96]);
        assert_eq!(lost(came(Status::SUCCESS, 96)).unwrap().len(), 96);
        let cases = [
            (
                came(Status::SEQUENCE.dnr(), 0),
                "192.0.2.1:4420: Parity Execute: Result Read: command sequence error (0x00c)",
            ),
            (came(Status::SUCCESS, 95), "192.0.2.1:4420: Parity Execute: Result Read: 95 of 96 bytes"),
            (gone(), "Parity Execute: Result Read: 192.0.2.1:4420: no answer"),
        ];
        for (read, words) in cases {
            let error = lost(read).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

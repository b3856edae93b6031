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

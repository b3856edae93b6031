//! A host reads a discovery log: many records, and one that changes under its hands.

use pumice_nvme::host::{DiscoveryError, DiscoveryReader, LogPart};
use pumice_nvme::spec::log::DiscoveryEntry;

fn log(generation: u64, records: u16) -> Vec<u8> {
    let record = |i: u16| DiscoveryEntry {
        subtype: DiscoveryEntry::NVM,
        ipv6: false,
        portid: i,
        asqsz: 128,
        trsvcid: "4420".to_owned(),
        subnqn: format!("nqn.2026-11.example:{generation}.{i}"),
        traddr: "192.0.2.1".to_owned(),
    };
    DiscoveryEntry::log(generation, &(0..records).map(record).collect::<Vec<_>>())
}

/// Reads until it is done; `log` is what there is at the n-th read.
fn read(mut log: impl FnMut(usize) -> Vec<u8>) -> (Result<Vec<DiscoveryEntry>, DiscoveryError>, usize) {
    let mut reader = DiscoveryReader::default();
    for n in 0.. {
        let LogPart { offset, len } = reader.wanted();
        let page = log(n);
        let mut part = page.get(offset as usize..).unwrap_or_default().to_vec();
        part.resize(len as usize, 0);
        match reader.take(&part) {
            Ok(None) => {}
            Ok(Some(entries)) => return (Ok(entries), n + 1),
            Err(error) => return (Err(error), n + 1),
        }
    }
    unreachable!("it ends or fails")
}

#[test]
fn a_log_that_stands_still_is_read_once() {
    for (records, reads) in [(0, 2), (1, 3), (64, 3), (65, 4), (1024, 18)] {
        let (entries, n) = read(|_| log(3, records));
        let entries = entries.unwrap();
        assert_eq!((entries.len(), n), (usize::from(records), reads));
        assert!(entries.iter().zip(0..).all(|(entry, i)| entry.portid == i));
    }
}

#[test]
fn a_log_that_changes_is_read_again() {
    // It changes at any of the reads: longer, shorter, or the same but for its generation.
    for (before, after) in [(70, 90), (90, 3), (5, 5), (4, 0), (0, 4)] {
        for change in 1..5 {
            let (entries, n) = read(|n| if n < change { log(1, before) } else { log(2, after) });
            let entries = entries.unwrap();
            let old = n <= change;
            assert_eq!(entries.len(), usize::from(if old { before } else { after }));
            let name = if old { "nqn.2026-11.example:1." } else { "nqn.2026-11.example:2." };
            assert!(entries.iter().all(|entry| entry.subnqn.starts_with(name)), "of one generation");
        }
    }
    let (entries, n) = read(|n| log(n as u64, 2));
    assert_eq!((entries, n), (Err(DiscoveryError::Restless), 17));
}

#[test]
fn logs_that_are_not_believed() {
    let mut many = log(1, 1);
    many[8..16].copy_from_slice(&1025_u64.to_le_bytes());
    assert_eq!(read(|_| many.clone()).0, Err(DiscoveryError::TooMany(1025)));
    many[8..16].fill(0xFF);
    assert_eq!(read(|_| many.clone()).0, Err(DiscoveryError::TooMany(u64::MAX)));
    let mut format = log(1, 1);
    format[16] = 1;
    assert_eq!(read(|_| format.clone()).0, Err(DiscoveryError::Format(1)));
    assert_eq!(DiscoveryReader::default().take(&[0; 1023]), Err(DiscoveryError::Short));
    // Records of another transport are not listed.
    let mut other = log(1, 3);
    other[2048] = 1;
    assert_eq!(read(|_| other.clone()).0.unwrap().len(), 2);
}

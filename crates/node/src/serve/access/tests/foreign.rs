//! Drives of other hosts, at a real server: they do not exist.

use super::denied::{enabled, queue, serve_config};
use super::*;
use crate::serve::config::NodeConfig;
use pumice_nvme::spec::connect::DYNAMIC;
use pumice_nvme::spec::opcode::{admin, io};
use pumice_offload::{DriveId, MemoryAddress, Mode, ParityCommand, Rule, Source, Window};
use pumice_remote::initiator::Queue;

const ONE: &str = "nqn.2026-11.example:one";
const TWO: &str = "nqn.2026-11.example:second";

/// Three drives: one host has the first and the third, another the second.
const CONFIG: &str = "access = 'listed'\nlisten = '127.0.0.1:0'\n[[drive]]\nbackend = 'mem:1MiB'\n[[drive]]\n\
     backend = 'mem:1MiB'\n[[drive]]\nbackend = 'mem:1MiB'\n[[host]]\nnqn = 'nqn.2026-11.example:one'\n\
     may = ['serve']\ndrives = [1, 3]\n[[host]]\nnqn = 'nqn.2026-11.example:second'\nmay = ['read']\ndrives = [2]\n";

fn status(queue: &mut Queue, sqe: Sqe, data: &[u8], room: usize) -> Status {
    queue.execute(sqe, data, &mut vec![0; room]).unwrap().status
}

fn blocks(code: u8, nsid: u32) -> Sqe {
    let mut sqe = Sqe::new(code, nsid);
    sqe.set_blocks(0, 1);
    sqe
}

/// A descriptor of one source, and what it writes.
fn parity(source: Source, into: Option<u32>) -> Vec<u8> {
    let command = ParityCommand {
        sources: vec![source],
        chunk: 4096,
        window: Window { start: 0, len: 4096 },
        stripes: 0..1,
        rule: Rule::sum(1),
        mode: into.map_or(Mode::Check, |drive| Mode::Generate { into: address(drive) }),
        unpaced: false,
    };
    wire::encode_command(&command)
}

fn address(drive: u32) -> MemoryAddress {
    MemoryAddress { drive: DriveId(drive), offset: 0 }
}

/// For every drive number, the statuses over it: own ones, another host's, one that does not exist.
#[test]
fn a_drive_of_another_host_is_one_that_does_not_exist() {
    let config = NodeConfig::parse(CONFIG).unwrap();
    let server = serve_config(&config.access, 3);
    let (_admin, mut queue) = enabled(&server, ONE).unwrap();
    for (nsid, nvm, vendor) in [
        (1, Status::SUCCESS, true),
        (2, Status::INVALID_FIELD.dnr(), false),
        (3, Status::SUCCESS, true),
        (4, Status::INVALID_NAMESPACE.dnr(), false),
        (9, Status::INVALID_NAMESPACE.dnr(), false),
    ] {
        assert_eq!(status(&mut queue, blocks(io::READ, nsid), &[], 512), nvm, "read {nsid}");
        assert_eq!(status(&mut queue, blocks(io::WRITE, nsid), &[7; 512], 0), nvm, "write {nsid}");
        let refused = |status: Status| status == Status::INVALID_FIELD.dnr();
        let mut lease = Sqe::new(opcode::MEMORY_LEASE, nsid);
        lease.set_dword(12, 4096);
        assert_eq!(refused(status(&mut queue, lease, &[], 0)), !vendor, "lease {nsid}");
        for descriptor in [
            parity(Source::Media { drive: DriveId(nsid), base: 0 }, None),
            parity(Source::Media { drive: DriveId(1), base: 0 }, Some(nsid)),
            parity(Source::Memory { address: address(nsid) }, None),
        ] {
            let mut execute = Sqe::new(opcode::PARITY_EXECUTE, 0);
            execute.set_dword(10, 1);
            execute.set_dword(12, descriptor.len() as u32);
            assert_eq!(refused(status(&mut queue, execute, &descriptor, 0)), !vendor, "parity {nsid}");
        }
    }
}

/// Lists and descriptions of two hosts, and of a stranger.
#[test]
fn a_host_is_shown_its_own_drives_and_a_stranger_nothing() {
    let config = NodeConfig::parse(CONFIG).unwrap();
    let server = serve_config(&config.access, 3);
    for (host, own) in [(ONE, vec![1, 3]), (TWO, vec![2])] {
        let (mut admin, mut queue) = enabled(&server, host).unwrap();
        let mut list = Sqe::new(admin::IDENTIFY, 0);
        list.0[40] = 2;
        let mut page = vec![1; 4096];
        assert!(admin.execute(list, &[], &mut page).unwrap().status.is_success());
        let word = |at: usize| u32::from_le_bytes(page[4 * at..4 * at + 4].try_into().unwrap());
        assert_eq!((0..=own.len()).map(word).collect::<Vec<_>>(), [&own[..], &[0]].concat());
        let mut describe = Sqe::new(opcode::DESCRIBE, 0);
        let mut page = vec![0; 4096];
        describe.set_dword(12, page.len() as u32);
        let done = queue.execute(describe, &[], &mut page).unwrap();
        page.truncate(done.received as usize);
        let (all, drives) = wire::decode_drives(&page, 0).unwrap();
        assert_eq!(all as usize, own.len());
        assert_eq!(drives.iter().map(|drive| drive.id.0).collect::<Vec<_>>(), own);
    }
    assert!(queue(&server, "nqn.2026-11.example:stranger", 0, DYNAMIC).is_err());
}

//! A flash drive that a node serves: work of its own in idle time, with a pace and without; FUA and
//! Flush; a file that fails.

use crate::world::{PATIENCE, command, connect, host, run, serve, serve_paced};
use pumice_blockdev::BlockDevice;
use pumice_flash::device::FlashDrive;
use pumice_node::serve::{Backend, BackendError, Drive};
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::opcode::io;
use pumice_offload::PaceRequest;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn flash(path: &Path) -> Arc<FlashDrive> {
    let spec = format!("{},capacity=4MiB,dedup=offline", path.display()).parse().unwrap();
    Arc::new(pumice_flash::device::open(&spec, "flash").unwrap().0)
}

fn drive(flash: &Arc<FlashDrive>) -> Drive {
    Drive::with_device(Arc::clone(flash) as Arc<dyn BlockDevice>, 4096, "flash").unwrap()
}

#[test]
fn duplicates_are_merged_when_hosts_leave_the_drive_alone() {
    for paced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let flash = flash(&folder.path().join("flash"));
        let server = if paced {
            serve_paced(vec![drive(&flash)], PaceRequest { rate: Some(100 << 20), ..PaceRequest::default() })
        } else {
            serve(vec![drive(&flash)])
        };
        let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
        for page in 0..200_u64 {
            let status = run(&mut queue, command(io::WRITE, 1, page, 1), &[page as u8 % 10 + 1; 4096]);
            assert!(status.is_success());
        }
        let until = Instant::now() + PATIENCE;
        while flash.census().live != 10 {
            assert!(Instant::now() < until, "paced {paced}: {:?}", flash.census());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        for page in 0..200_u64 {
            let mut bytes = [0; 4096];
            let outcome = queue.execute(command(io::READ, 1, page, 1), &[], &mut bytes).unwrap();
            assert!(outcome.status.is_success());
            assert_eq!(bytes, [page as u8 % 10 + 1; 4096]);
        }
    }
}

#[test]
fn what_a_host_was_told_to_be_durable_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("flash"), folder.path().join("copy"));
    let served = flash(&path);
    let server = serve(vec![drive(&served)]);
    let (_controller, mut queue) = connect(&server, host(&server, 3), 8);
    // What is in the file, without what is in memory.
    let now = || {
        std::fs::copy(&path, &copy).unwrap();
        let found = flash(&copy);
        let page = |page: u64| {
            let mut bytes = [0; 4096];
            found.read_at(page * 4096, &mut bytes).unwrap();
            bytes[0]
        };
        [page(0), page(1)]
    };
    assert!(run(&mut queue, command(io::WRITE, 1, 0, 1), &[1; 4096]).is_success());
    let mut fua = command(io::WRITE, 1, 1, 1);
    fua.0[50..52].copy_from_slice(&Sqe::FUA.to_le_bytes());
    assert!(run(&mut queue, fua, &[2; 4096]).is_success());
    assert_eq!(now()[1], 2);
    assert!(run(&mut queue, command(io::WRITE, 1, 0, 1), &[3; 4096]).is_success());
    assert!(run(&mut queue, Sqe::new(io::FLUSH, 1), &[]).is_success());
    assert_eq!(now(), [3, 2]);
}

#[test]
fn the_file_of_a_flash_drive_is_no_plain_drive_unless_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    let open = |text: &str| {
        let backend: Backend = text.parse().unwrap();
        Drive::open_tagged(&backend, None, 4096, "nqn", 1, None).map(drop)
    };
    let [plain, flash, said] = ["", "flash:", "plain:"].map(|kind| format!("{kind}{}", path.display()));
    open(&format!("{flash},capacity=4MiB")).unwrap();
    let before = std::fs::read(&path).unwrap();
    let why = open(&plain).unwrap_err().to_string();
    assert!(why.contains(&flash) && why.contains(&said), "{why}");
    // Also if its start is lost.
    let mut lost = before.clone();
    lost[..8192].fill(0);
    std::fs::write(&path, &lost).unwrap();
    assert!(matches!(open(&plain), Err(BackendError::IsFlash(_))));
    assert!(std::fs::read(&path).unwrap() == lost, "nothing was written");
    open(&said).unwrap();
    std::fs::write(&path, &before).unwrap();
    open(&flash).unwrap();
}

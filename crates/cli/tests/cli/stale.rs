//! Tags that do not fit their drive: nothing is written, and the drive is not served.

use crate::network::Node;
use crate::protect::{contains, protect, run};
use crate::small_array::{Made, RAID5, pumice};
use pumice_nvme::spec::{Sqe, Status, opcode};
use pumice_remote::initiator::Controller;
use std::path::{Path, PathBuf};

const BLOCKS: usize = 2048;

/// Another program changes each block of a drive in part.
fn write_behind(image: &Path) {
    let mut content = std::fs::read(image).unwrap();
    content.chunks_mut(512).for_each(|block| block[100] ^= 0x55);
    std::fs::write(image, content).unwrap();
}

fn source(folder: &Path, name: &str, options: &str) -> PathBuf {
    let base = folder.join(name);
    format!("{0},pi=16{options},tags={0}.tags", base.display()).into()
}

fn read(node: &Node, nsid: u32) -> Status {
    let controller = Controller::connect(node.address, node.options()).unwrap();
    let mut queue = controller.queue(1, 16).unwrap();
    let mut sqe = Sqe::new(opcode::io::READ, nsid);
    sqe.set_blocks(0, 1);
    queue.execute(sqe, &[], &mut [0; 512]).unwrap().status
}

#[test]
fn tags_of_another_drive_are_removed_by_force_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (image, tags) = (folder.join("image"), folder.join("tags"));
    std::fs::write(&image, vec![7; BLOCKS * 512]).unwrap();
    contains(protect(folder, &[]), 0, "2048 blocks adopted");
    write_behind(&image);
    let (content, left) = (std::fs::read(&image).unwrap(), std::fs::read(&tags).unwrap());
    contains(protect(folder, &["--status"]), 0, "  stale: ");
    contains(protect(folder, &[]), 2, "nothing was written");
    contains(protect(folder, &["--off"]), 2, "another drive");
    assert!(std::fs::read(&image).unwrap() == content && std::fs::read(&tags).unwrap() == left);
    contains(protect(folder, &["--believe"]), 1, "2048 differ");
    contains(protect(folder, &["--off", "--force"]), 0, "removed");
    assert!(std::fs::read(&image).unwrap() == content && !tags.exists());
}

#[test]
fn a_drive_whose_tags_are_stale_is_not_served_and_the_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [stale, good] = ["stale", "good"].map(|name| source(folder, name, ""));
    for name in ["stale", "good"] {
        std::fs::write(folder.join(name), vec![7; BLOCKS * 512]).unwrap();
    }
    assert!(pumice().arg("protect").args([&stale, &good]).output().unwrap().status.success());
    write_behind(&folder.join("stale"));
    let left = std::fs::read(folder.join("stale.tags")).unwrap();
    {
        let mut node = Node::start(&["--listen", "127.0.0.1:0"], &[stale.clone(), good.clone()]);
        assert!(!read(&node, 1).is_success() && read(&node, 2).is_success());
        // It is not held: an operator can see to it meanwhile.
        assert!(pumice().args(["protect", "--status"]).arg(&stale).output().unwrap().status.success());
        // As after any drive that failed.
        assert_eq!(node.stop(), Some(3));
    }
    assert!(std::fs::read(folder.join("stale.tags")).unwrap() == left, "nothing was written");
    for (options, is_read) in [(",on-stale=refuse", false), (",on-stale=serve", true)] {
        let node =
            Node::start(&["--listen", "127.0.0.1:0"], &[source(folder, "stale", options), good.clone()]);
        assert_eq!((read(&node, 1).is_success(), read(&node, 2).is_success()), (is_read, true), "{options}");
    }
    // The same if no other drive is there.
    let node = Node::start(&["--listen", "127.0.0.1:0"], std::slice::from_ref(&stale));
    assert!(!read(&node, 1).is_success());
}

#[test]
fn a_scrub_that_repairs_nothing_writes_nothing_to_tags() {
    let array = Made::new(RAID5);
    let tagged =
        |member: &PathBuf| -> PathBuf { format!("{0},pi=16,tags={0}.tags", member.display()).into() };
    let names: Vec<PathBuf> = array.members.iter().map(tagged).collect();
    assert!(pumice().arg("protect").args(&names).output().unwrap().status.success());
    let files = || -> Vec<Vec<u8>> {
        let tags = array.members.iter().map(|member| format!("{}.tags", member.display()));
        tags.map(|tags| std::fs::read(tags).unwrap()).collect()
    };
    let before = files();
    let state = tempfile::tempdir().unwrap();
    let output = pumice().arg("scrub").arg("--state-dir").arg(state.path()).args(&names).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(files() == before, "a tag file was written");
}

#[test]
fn kept_blocks_are_of_the_block_size_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("image"), vec![7; BLOCKS * 512]).unwrap();
    contains(protect(folder, &["--block-size", "4096"]), 0, "256 blocks adopted");
    contains(run(folder, &["kept", "list"], &["--block-size", "4096"]), 0, "0 kept blocks");
    contains(run(folder, &["kept", "list"], &[]), 0, "0 kept blocks");
    contains(run(folder, &["kept", "list"], &["--block-size", "512"]), 2, "block size");
}

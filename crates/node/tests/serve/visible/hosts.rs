//! The faces of each host.

use super::*;
use crate::world::{run, serve};
use pumice_node::serve::Backend;
use pumice_nvme::spec::identify::{Controller as Identified, Namespace, cns};

fn identify(controller: &mut Controller, cns: u8, nsid: u32) -> Result<Vec<u8>, Status> {
    let mut sqe = Sqe::new(admin::IDENTIFY, nsid);
    sqe.0[40] = cns;
    receive(controller.admin(), sqe, 4096)
}

/// The namespaces of a host.
fn list(controller: &mut Controller) -> Vec<u32> {
    let page = identify(controller, cns::NAMESPACE_LIST, 0).unwrap();
    let nsids = page.chunks_exact(4).map(|nsid| u32::from_le_bytes(nsid.try_into().unwrap()));
    nsids.take_while(|nsid| *nsid != 0).collect()
}

fn nguid(page: &[u8]) -> [u8; 16] {
    page[104..120].try_into().unwrap()
}

/// Two drives with tags, and one without between them.
fn three() -> Vec<Drive> {
    let small = plain(512, 8, Guard::Crc16, 1);
    let large = plain(4096, 16, Guard::Crc64, 2);
    vec![
        drive(&small, "1MiB"),
        Drive::open(&Backend::Memory(1 << 20), 512, "node", 2).unwrap(),
        drive(&large, "2MiB"),
    ]
}

#[test]
fn each_host_has_the_faces_that_it_was_given_and_others_the_hidden_ones() {
    let hosts = faces(&[("both", &["hidden", "visible"]), ("visible", &["visible"])]);
    let server = serve_faces(three(), hosts);
    for (name, nsids) in [
        ("both", &[1, 2, 3, 4, 6][..]),
        // The second drive has one face: everybody has it.
        ("visible", &[2, 4, 6]),
        ("stranger", &[1, 2, 3]),
    ] {
        let (mut controller, mut queue) = connect(&server, named(&server, name), 8);
        assert_eq!(list(&mut controller), nsids, "{name}");
        let largest = *nsids.last().unwrap();
        let page = identify(&mut controller, cns::CONTROLLER, 0).unwrap();
        let identified = Identified::decode(&page);
        assert_eq!(identified.namespaces, largest, "{name}");
        // A guard of 64 bits is a format that CNS 05 describes.
        assert_eq!(identified.extended_formats, nsids.contains(&6), "{name}");
        // Format NVM is not there: neither in the effects nor as a command.
        assert_eq!(page[256] & 1 << 1, 0, "OACS");
        assert_eq!(send(controller.admin(), Sqe::new(0x80, 4), &[]), Status::INVALID_OPCODE.dnr());
        for nsid in 1..=7 {
            let expected = match nsid {
                nsid if nsids.contains(&nsid) => Status::SUCCESS,
                nsid if nsid < largest => Status::INVALID_FIELD.dnr(),
                _ => Status::INVALID_NAMESPACE.dnr(),
            };
            let mut sqe = Sqe::new(io::VERIFY, nsid);
            sqe.set_blocks(0, 1);
            assert_eq!(run(&mut queue, sqe, &[]), expected, "{name}: {nsid}");
            let page = identify(&mut controller, cns::NAMESPACE, nsid);
            match page {
                Err(status) => assert!(nsid > largest && status == expected, "{name}: {nsid}"),
                Ok(page) => assert_eq!(page.iter().any(|byte| *byte != 0), expected.is_success()),
            }
        }
    }
}

#[test]
fn both_faces_are_the_same_blocks_under_identifiers_of_their_own() {
    let hosts = || faces(&[("both", &["hidden", "visible"])]);
    let server = serve_faces(three(), hosts());
    let (mut controller, _queue) = connect(&server, named(&server, "both"), 8);
    let mut pages = |nsid| identify(&mut controller, cns::NAMESPACE, nsid).unwrap();
    let (hidden, visible) = (pages(1), pages(4));
    assert_eq!(hidden[..24], visible[..24], "NSZE, NCAP, NUSE");
    assert_ne!(nguid(&hidden), nguid(&visible));
    assert_eq!(Namespace::decode(&visible), None, "whoever knows no metadata makes nothing of it");
    assert_eq!((&visible[25..30], &visible[128..131]), (&[0, 1 << 4, 1, 1 << 4 | 1, 1][..], &[8, 0, 9][..]));
    let large = pages(6);
    assert_eq!((&large[25..30], &large[128..131]), (&[0, 1 << 4, 1, 1 << 4 | 2, 2][..], &[16, 0, 12][..]));
    let of_set = identify(&mut controller, cns::NAMESPACE_OF_SET, 6).unwrap();
    assert_eq!(of_set[8..16], [0, 0, 0, 0, 0, 1, 0, 0], "ELBAF0: a guard of 64 bits, no storage tag");
    // The hidden face is what it is where nobody has another.
    let alone = serve(three());
    let (mut other, _queue) = connect(&alone, named(&alone, "both"), 8);
    for nsid in 1..=3 {
        for cns in [cns::NAMESPACE, cns::NAMESPACE_IDS] {
            let with = identify(&mut controller, cns, nsid).unwrap();
            assert_eq!(identify(&mut other, cns, nsid).unwrap(), with, "{nsid}");
        }
    }
    // The same again after a restart.
    let again = serve_faces(three(), hosts());
    let (mut third, _queue) = connect(&again, named(&again, "both"), 8);
    assert_eq!(nguid(&identify(&mut third, cns::NAMESPACE, 4).unwrap()), nguid(&visible));
}

/// Guards of 32 and 64 bits are for blocks of 4096 bytes.
#[test]
fn small_blocks_with_large_guards_have_no_visible_face() {
    for guard in [Guard::Crc32c, Guard::Crc64] {
        let (_server, mut controller, _queue) = serve_both(drive(&plain(512, 16, guard, 1), "1MiB"));
        assert_eq!(list(&mut controller), [1]);
    }
}

//! Identify data, log pages and Connect data: every byte that is not zero.

use crate::pair::{HostQueue, admin};
use crate::replay::{identify, log};
use crate::world::{NQN, PLAIN, World};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::ana::{AnaGroup, AnaLog};
use pumice_nvme::spec::connect::{DATA_LEN, Data, Fields};
use pumice_nvme::spec::feature::Timestamp;
use pumice_nvme::spec::identify::{Controller, Namespace, namespace_list};
use pumice_nvme::spec::log::{DiscoveryEntry, ErrorEntry, Health};
use pumice_nvme::spec::{Cqe, Sgl, Sqe, Status, effects};
use pumice_protect::block_format::BlockFormat;

/// Asserts that a page holds these bytes at these places, and zeros everywhere else.
#[track_caller]
fn holds(page: &[u8], len: usize, fields: &[(usize, &[u8])]) {
    let mut expected = vec![0; len];
    for (at, bytes) in fields {
        expected[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    assert_eq!(page.len(), len);
    for at in 0..len {
        assert_eq!(page[at], expected[at], "byte {at}");
    }
}

fn up(world: &mut World) -> (HostQueue, u16) {
    admin(world, PLAIN, true, &[1 << 20])
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    field[..text.len()].copy_from_slice(text.as_bytes());
    field
}

#[test]
fn identify_controller() {
    let mut world = World::new(Limits::default());
    let (mut queue, cntlid) = up(&mut world);
    let page = queue.read(&mut world, identify(1, 0), 4096).unwrap();
    holds(
        &page,
        4096,
        &[
            (4, &padded::<20>("SN1")),
            (24, &padded::<40>("Pumice")),
            (64, &padded::<8>("1")),
            // rab; cmic: several controllers, ANA; mdts: 1 MiB.
            (72, &[6]),
            (76, &[0x0A, 8]),
            (78, &cntlid.to_le_bytes()),
            (80, &[0, 4, 1, 0]),
            // oaes: namespaces, ANA; ctratt: 128-bit host id; cntrltype: I/O.
            (92, &[0, 9, 0, 0]),
            (96, &[1]),
            (111, &[1]),
            // acl, aerl, frmw, lpa, elpe.
            (258, &[3, 3, 3, 6, 63]),
            (266, &343_u16.to_le_bytes()),
            (268, &353_u16.to_le_bytes()),
            // kas; anatt, anacap, anagrpmax, nanagrpid.
            (320, &[10]),
            (342, &[10, 3, 1, 0, 0, 0, 1, 0, 0, 0]),
            // sqes, cqes, maxcmd, nn, oncs.
            (512, &[0x66, 0x44, 128, 0, 2, 0, 0, 0, 0xDF, 0]),
            // vwc; sgls; mnan.
            (525, &[7]),
            (536, &[1, 0, 0x30, 0, 2, 0, 0, 0]),
            (768, NQN.as_bytes()),
            // ioccsz: 64 bytes and 68 KiB; iorcsz; msdbd, ofcs.
            (1792, &[4, 17, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0]),
        ],
    );
}

#[test]
fn data_that_belong_elsewhere_in_a_capsule_are_not_sent_there() {
    let mut world = World::new(Limits::default());
    let (mut queue, _) = up(&mut world);
    let mut page = queue.read(&mut world, identify(1, 0), 4096).unwrap();
    assert_eq!(Controller::decode(&page).capsule_data, 68 << 10);
    page[1800] = 1;
    assert_eq!(Controller::decode(&page).capsule_data, 0, "ICDOFF");
}

#[test]
fn identify_namespace() {
    let mut world = World::new(Limits::default());
    let (mut queue, _) = up(&mut world);
    let mut read = |cns, nsid| queue.read(&mut world, identify(cns, nsid), 4096);
    let blocks = 4096_u64.to_le_bytes();
    let common: [(usize, &[u8]); 7] = [
        (0, &blocks),
        (8, &blocks),
        (16, &blocks),
        // nmic: shared; dlfeat: zeros, Write Zeroes deallocates.
        (30, &[1, 0, 0, 9]),
        (48, &[0, 0, 0x20]),
        (92, &[1]),
        (130, &[9]),
    ];
    holds(&read(0, 2).unwrap(), 4096, &[&common[..], &[(104, &[2; 16])]].concat());
    holds(
        &read(3, 2).unwrap(),
        4096,
        &[(0, &[2, 16]), (4, &[2; 16]), (20, &[3, 16]), (24, &[18; 16]), (40, &[4, 1])],
    );
    // The NVM command set adds no protection information, and limits of deallocation alone: DMRL,
    // DMRSL, DMSL.
    holds(&read(5, 2).unwrap(), 4096, &[]);
    holds(&read(6, 0).unwrap(), 4096, &[(3, &[8]), (6, &[1]), (10, &[8])]);
    // nmic; anagrpid; nstat: ready.
    holds(&read(8, 2).unwrap(), 4096, &[(1, &[1]), (4, &[1]), (14, &[1])]);
    holds(&read(2, 0).unwrap(), 4096, &[(0, &[1, 0, 0, 0, 2])]);
    holds(&read(2, 1).unwrap(), 4096, &[(0, &[2])]);
    holds(&read(2, 2).unwrap(), 4096, &[]);
    holds(&read(7, 1).unwrap(), 4096, &[(0, &[2])]);
    // One combination of command sets: the NVM command set.
    holds(&read(0x1C, 0).unwrap(), 4096, &[(0, &[1])]);
    for cns in [0, 3, 5, 8] {
        for nsid in [0, 3, u32::MAX] {
            assert_eq!(read(cns, nsid), Err(Status::INVALID_NAMESPACE.dnr()), "CNS {cns:#04x}, {nsid:#x}");
        }
    }
    for cns in [2, 7] {
        assert_eq!(read(cns, 0xFFFF_FFFE), Err(Status::INVALID_NAMESPACE.dnr()));
    }
    for cns in (0..=255).filter(|cns| ![0, 1, 2, 3, 5, 6, 7, 8, 0x1C].contains(cns)) {
        assert_eq!(read(cns, 1), Err(Status::INVALID_FIELD.dnr()), "CNS {cns:#04x}");
    }
    // Other command sets.
    for cns in [5, 6, 7] {
        let mut sqe = identify(cns, 1);
        sqe.0[47] = 2;
        assert_eq!(queue.read(&mut world, sqe, 4096), Err(Status::INVALID_FIELD.dnr()));
    }
    let read_only = Namespace {
        blocks: 1,
        format: BlockFormat::plain(4096).unwrap(),
        nguid: [0; 16],
        uuid: [0; 16],
        read_only: true,
        write_grain: 1,
        deallocate_grain: 1,
    };
    assert_eq!((read_only.encode()[99], read_only.independent()[8], read_only.encode()[130]), (1, 1, 12));
    assert_eq!(Namespace::decode(&read_only.encode()), Some(read_only));
    // Blocks with metadata have another length on the wire; a 17th format has its number in two
    // places.
    let mut page = read_only.encode();
    page[128] = 8;
    assert_eq!(Namespace::decode(&page), None);
    (page[25], page[26], page[128 + 64 + 2]) = (16, 1 << 5, 9);
    assert_eq!(Namespace::decode(&page), Some(Namespace { format: BlockFormat::SMALLEST, ..read_only }));
    // What a medium prefers: each field less one, and the bit that says that they are there.
    let grains = Namespace { write_grain: 8, deallocate_grain: 0x1234, ..read_only };
    let page = grains.encode();
    assert_eq!((page[24], &page[64..74]), (1 << 4, &[7, 0, 7, 0, 0x33, 0x12, 0x33, 0x12, 7, 0][..]));
    assert_eq!(Namespace::decode(&page), Some(grains));
    assert_eq!((read_only.encode()[24], &read_only.encode()[64..74]), (0, &[0; 10][..]));
    // 1024 of many, the last of them as well.
    let list = namespace_list(6..=2000);
    assert_eq!((&list[..4], &list[4092..]), (&[6, 0, 0, 0][..], &1029_u32.to_le_bytes()[..]));
    holds(&namespace_list([2000]), 4096, &[(0, &2000_u32.to_le_bytes())]);
}

#[test]
fn log_pages() {
    let mut world = World::new(Limits::default());
    let (mut queue, _) = up(&mut world);
    let mut read = |id, len: u32| queue.read(&mut world, log(id, len, 0), len).unwrap();
    let known: Vec<(usize, &[u8])> =
        [0, 1, 2, 3, 4, 5, 0x0C].iter().map(|id| (id * 4, &[1, 0, 0, 0][..])).collect();
    holds(&read(0, 1024), 1024, &known);
    holds(&read(1, 4096), 4096, &[]);
    // 298 K; spare; one power cycle.
    holds(&read(2, 512), 512, &[(1, &[42, 1, 100, 10]), (112, &[1])]);
    holds(&read(3, 512), 512, &[(0, &[1]), (8, b"1       ")]);
    holds(&read(4, 4096), 4096, &[]);
    holds(
        &read(0x0C, 56),
        56,
        &[(0, &[1]), (8, &[1]), (16, &[1, 0, 0, 0, 2]), (24, &[1]), (32, &[1]), (48, &[1, 0, 0, 0, 2])],
    );
    let admin = [0x02, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x18, 0x7F].map(|code| (code * 4, &[1_u8][..]));
    let reads = [0x00, 0x02, 0x05, 0x0C, 0x7F].map(|code| (1024 + code * 4, &[1_u8][..]));
    let writes = [0x01, 0x04, 0x08, 0x09].map(|code| (1024 + code * 4, &[3_u8][..]));
    let all = [&admin[..], &reads, &writes].concat();
    holds(&read(5, 4096), 4096, &all);
    let vendor = [(0x85, 1), (0x9A, 0x0001_0003)];
    let own: [(usize, &[u8]); 2] = [(1024 + 0x85 * 4, &[1]), (1024 + 0x9A * 4, &[3, 0, 1, 0])];
    holds(&effects::encode(&vendor), effects::LEN, &[&all[..], &own].concat());
}

#[test]
fn entries_of_logs() {
    let entry = ErrorEntry { count: 0x0102, sqid: 3, cid: 0x0405, status_word: 0x8504, lba: 6, nsid: 7 };
    holds(
        &entry.encode(),
        64,
        &[
            (0, &[2, 1]),
            (8, &[3]),
            (10, &[5, 4]),
            (12, &[4, 0x85]),
            // Where in the command is not said.
            (14, &[0xFF, 0xFF]),
            (16, &[6]),
            (24, &[7]),
            (29, &[3]),
        ],
    );
    let health = Health {
        warnings: 2,
        temperature: 0x0123,
        bytes_read: 512_001,
        bytes_written: 1,
        reads: 3,
        writes: 4,
        seconds: 7200,
        media_errors: 5,
        error_entries: 6,
    };
    holds(
        &health.encode(),
        512,
        &[
            (0, &[2, 0x23, 1, 100, 10]),
            (32, &[2]),
            (48, &[1]),
            (64, &[3]),
            (80, &[4]),
            (112, &[1]),
            (128, &[2]),
            (160, &[5]),
            (176, &[6]),
        ],
    );
    let group =
        |group, namespaces: &[u32]| AnaGroup { group, changes: 9, state: 2, namespaces: namespaces.to_vec() };
    let ana = AnaLog { changes: 9, groups: vec![group(1, &[3, 9]), group(2, &[])] };
    let bytes = ana.encode();
    holds(
        &bytes,
        16 + 40 + 32,
        &[
            (0, &[9]),
            (8, &[2]),
            (16, &[1, 0, 0, 0, 2, 0, 0, 0, 9]),
            (32, &[2]),
            (48, &[3, 0, 0, 0, 9]),
            (56, &[2, 0, 0, 0, 0, 0, 0, 0, 9]),
            (72, &[2]),
        ],
    );
    assert_eq!(AnaLog::decode(&bytes), Some(ana));
    for len in 0..bytes.len() {
        assert_eq!(AnaLog::decode(&bytes[..len]), None, "{len}");
    }
    let mut endless = bytes;
    endless[20..24].fill(0xFF);
    assert_eq!(AnaLog::decode(&endless), None);
    let time = Timestamp { ms: 0x0605_0403_0201, from_host: true, stopped: true };
    assert_eq!(time.encode(), [1, 2, 3, 4, 5, 6, 3, 0]);
    assert_eq!(Timestamp::decode(&time.encode()), time);
}

fn record(i: u16) -> DiscoveryEntry {
    DiscoveryEntry {
        subtype: DiscoveryEntry::NVM,
        ipv6: i % 2 == 1,
        portid: i,
        asqsz: 128,
        trsvcid: "4420".to_owned(),
        subnqn: format!("nqn.2026-11.example:{i}"),
        traddr: if i % 2 == 1 { "2001:db8::1".to_owned() } else { "192.0.2.1".to_owned() },
    }
}

#[test]
fn discovery_records() {
    let page = DiscoveryEntry::log(0x0102, &[record(0x0300)]);
    holds(
        &page,
        2048,
        &[
            (0, &[2, 1]),
            (8, &[1]),
            // TCP, IPv4, NVM subsystem, flow control may be off; any controller; 128 entries of the
            // admin queue.
            (1024, &[3, 1, 2, 4, 0, 3, 0xFF, 0xFF, 128]),
            (1024 + 32, &padded::<32>("4420")),
            (1024 + 256, b"nqn.2026-11.example:768"),
            (1024 + 512, &padded::<256>("192.0.2.1")),
        ],
    );
    let many: Vec<DiscoveryEntry> = (0..600).map(record).collect();
    let page = DiscoveryEntry::log(7, &many);
    assert_eq!((page.len(), &page[8..12]), (601 * 1024, &[0x58, 2, 0, 0][..]));
    let read: Vec<DiscoveryEntry> =
        page[1024..].chunks(1024).map(|bytes| DiscoveryEntry::decode(bytes).unwrap()).collect();
    assert_eq!(read, many);
    // Other transports, texts that are none, and half a record.
    let bytes = &page[1024..2048];
    assert_eq!(DiscoveryEntry::decode(&bytes[..1023]), None);
    for (at, value) in [(0, 1), (256, 0xFF), (512, 0xC0), (32, 0x80)] {
        let mut changed = bytes.to_vec();
        changed[at] = value;
        assert_eq!(DiscoveryEntry::decode(&changed), None, "byte {at}");
    }
}

#[test]
fn commands_and_completions() {
    let mut bytes = [0; 64];
    bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
    let sqe = Sqe(bytes);
    assert_eq!((sqe.opcode(), sqe.flags(), sqe.cid(), sqe.nsid()), (0, 1, 0x0302, 0x0706_0504));
    assert_eq!(sqe.sgl(), Sgl { offset: 0x1F1E_1D1C_1B1A_1918, len: 0x2322_2120, kind: 39 });
    assert_eq!((sqe.dword(2), sqe.dword(15)), (0x0B0A_0908, 0x3F3E_3D3C));
    assert_eq!((sqe.slba(), sqe.blocks(), sqe.control()), (0x2F2E_2D2C_2B2A_2928, 0x3131, 0x3332));
    let fields = Fields::decode(&sqe);
    assert_eq!((fields.recfmt, fields.qid, fields.sqsize), (0x2928, 0x2B2A, 0x2D2C));
    assert_eq!((fields.cattr, fields.kato_ms), (0x2E, 0x3332_3130));
    let mut same = Sqe::new(0, 0x0706_0504);
    same.set_cid(0x0302);
    same.set_sgl(sqe.sgl());
    same.set_blocks(sqe.slba(), sqe.blocks());
    fields.encode(&mut same);
    assert_eq!((&same.0[..1], &same.0[2..8], &same.0[24..36]), (&bytes[..1], &bytes[2..8], &bytes[24..36]));
    assert_eq!((same.0[39], &same.0[40..47], &same.0[48..50]), (39, &bytes[40..47], &bytes[48..50]));
    let cqe = Cqe { result: 0x0807_0605_0403_0201, sqhd: 0x0A09, cid: 0x0E0D, status: Status(0x0707) };
    assert_eq!(cqe.encode(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 13, 14, 14, 14]);
    assert_eq!(Cqe::decode(&cqe.encode()), cqe);
    let data = Data {
        hostid: std::array::from_fn(|i| i as u8),
        cntlid: 0x1110,
        subnqn: "nqn.s".to_owned(),
        hostnqn: "nqn.h".to_owned(),
    };
    let id: Vec<u8> = (0..18).collect();
    let mut expected: Vec<(usize, &[u8])> = vec![(256, b"nqn.s"), (512, b"nqn.h")];
    expected.push((0, &id[..16]));
    expected.push((16, &[0x10, 0x11]));
    holds(&data.encode(), DATA_LEN, &expected);
}

#[test]
fn changed_namespaces_until_they_are_read() {
    let mut world = World::new(Limits::default());
    let (mut queue, _) = up(&mut world);
    let mut namespace = world.shared.0.borrow().namespaces()[0];
    namespace.blocks = 77;
    world.shared.0.borrow_mut().change_namespace(2, namespace);
    world.shared.0.borrow_mut().change_namespace(1, namespace);
    let mut retained = log(4, 4096, 0);
    retained.0[41] = 1 << 7;
    for _ in 0..2 {
        holds(&queue.read(&mut world, retained, 4096).unwrap(), 4096, &[(0, &[1, 0, 0, 0, 2])]);
    }
    holds(&queue.read(&mut world, log(4, 4096, 0), 4096).unwrap(), 4096, &[(0, &[1, 0, 0, 0, 2])]);
    holds(&queue.read(&mut world, log(4, 4096, 0), 4096).unwrap(), 4096, &[]);
    for nsid in [1, 2] {
        assert_eq!(queue.read(&mut world, identify(0, nsid), 4096).unwrap()[..8], 77_u64.to_le_bytes());
    }
}

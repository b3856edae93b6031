//! The model keeps the contract of flash, and its faults are reproducible.

use pumice_flash::chip::{BlockId, Faults, Geometry, MemoryNand, Nand, NandError, Ppn, Timing};

type Bytes = MemoryNand<Vec<u8>, Vec<u8>>;

fn nand(channels: u32) -> Bytes {
    let geometry = Geometry { blocks: 4, pages_per_block: 4, channels, page_bytes: 16, oob_bytes: 128 };
    MemoryNand::new(geometry, Timing { read: 10, program: 100, erase: 1_000 })
}

fn put(nand: &mut Bytes, page: u32, byte: u8) -> Result<u64, NandError> {
    nand.program(Ppn(page), 0, &vec![byte; 16], &vec![byte; 128])
}

#[test]
fn pages_are_programmed_in_order_and_once_after_an_erase() {
    let mut nand = nand(1);
    assert_eq!(put(&mut nand, 1, 1), Err(NandError::Order(Ppn(1))));
    put(&mut nand, 0, 1).unwrap();
    assert_eq!(put(&mut nand, 0, 2), Err(NandError::Order(Ppn(0))));
    put(&mut nand, 1, 2).unwrap();
    assert_eq!(nand.read(Ppn(1), 0).unwrap().data.unwrap(), vec![2; 16]);
    nand.erase(BlockId(0), 0).unwrap();
    assert_eq!(nand.read(Ppn(1), 0), Err(NandError::Erased(Ppn(1))));
    put(&mut nand, 0, 3).unwrap();
    assert_eq!((nand.erases(BlockId(0)), nand.erases(BlockId(1))), (1, 0));
    assert_eq!(put(&mut nand, 16, 0), Err(NandError::OutOfRange(Ppn(16))));
}

#[test]
fn channels_work_side_by_side_and_an_erase_waits_for_all() {
    let mut one = nand(1);
    assert_eq!((0..3).map(|p| put(&mut one, p, 0).unwrap()).collect::<Vec<_>>(), [100, 200, 300]);
    let mut two = nand(2);
    assert_eq!((0..3).map(|p| put(&mut two, p, 0).unwrap()).collect::<Vec<_>>(), [100, 100, 200]);
    assert_eq!(two.erase(BlockId(1), 0).unwrap(), 1_200);
    assert_eq!(two.read(Ppn(0), 5_000).unwrap().done, 5_010);
}

#[test]
fn a_cut_leaves_synced_pages_alone_and_plays_every_outcome_on_the_others() {
    let mut seen = [0; 4];
    for seed in 0..400 {
        let mut nand = nand(1);
        nand.set_faults(Some(Faults { cuts: true, ..Faults::from_seed(seed) }));
        put(&mut nand, 0, 1).unwrap();
        nand.sync().unwrap();
        put(&mut nand, 1, 2).unwrap();
        nand.faults_mut().unwrap().cut_after = Some(0);
        assert_eq!(put(&mut nand, 2, 3), Err(NandError::PowerLost));
        assert_eq!(nand.read(Ppn(0), 0), Err(NandError::PowerLost));
        nand.power_cycle(seed);
        assert_eq!(nand.read(Ppn(0), 0).unwrap().data.unwrap(), vec![1; 16]);
        match nand.read(Ppn(1), 0) {
            Ok(read) if read.data == Some(vec![2; 16]) => seen[0] += 1,
            Ok(_) => seen[1] += 1,
            Err(NandError::Erased(_)) => seen[2] += 1,
            Err(_) => seen[3] += 1,
        }
    }
    assert!(seen.iter().take(3).all(|&n| n > 10), "kept, torn, lost: {seen:?}");
}

#[test]
fn an_erase_that_is_not_synced_may_leave_old_pages() {
    let mut old = 0;
    for seed in 0..100 {
        let mut nand = nand(1);
        nand.set_faults(Some(Faults { cuts: true, ..Faults::from_seed(seed) }));
        put(&mut nand, 0, 1).unwrap();
        nand.sync().unwrap();
        nand.erase(BlockId(0), 0).unwrap();
        nand.power_cycle(seed);
        old += u32::from(nand.read(Ppn(0), 0).is_ok());
    }
    assert!((20..100).contains(&old), "{old}");
}

#[test]
fn failures_come_as_often_as_told_and_equal_seeds_give_equal_ones() {
    let play = |seed| {
        let mut nand = nand(1);
        let faults = Faults { program_odds: 4, erase_odds: 4, ..Faults::from_seed(seed) };
        nand.set_faults(Some(faults));
        (0..400)
            .map(|i| {
                let erased = nand.erase(BlockId(i % 4), 0).is_ok();
                let programmed = erased && put(&mut nand, i % 4 * 4, 1).is_ok();
                assert_eq!(programmed, erased && nand.read(Ppn(i % 4 * 4), 0).is_ok());
                programmed
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(play(3), play(3));
    let good = play(3).into_iter().filter(|&g| g).count();
    assert!((170..290).contains(&good), "9 in 16 of 400: {good}");
}

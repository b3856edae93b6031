//! Half of the members, and members that are older than the others.

use crate::world::{World, stop, wait_for};
use pumice_base::units::Role;
use pumice_blockdev::BlockDevice;
use pumice_executor::Consistency;
use pumice_raid::layout::{Layout, Level};
use std::collections::BTreeSet;
use std::sync::Arc;

fn world() -> World {
    let shape = (Level::Raid6, Some(Layout::LeftSymmetric), 4);
    let mut world = World::new(1, shape, 16384, 4, Consistency::Log);
    world.options.majority = true;
    world
}

fn roles(of: &[u16]) -> BTreeSet<Role> {
    of.iter().copied().map(Role).collect()
}

/// Two of four are no majority: another host could have the others. Only who names the others, all
/// of them and no more, opens it.
#[test]
fn half_of_the_members_are_opened_by_who_names_the_others() {
    let mut world = world();
    let volume = world.open();
    volume.device().write_at(0, &[5; 65536]).unwrap();
    [1, 3].into_iter().for_each(|role| volume.control().fail(Role(role)).unwrap());
    wait_for("the failures", || volume.status().unwrap().missing == [Role(1), Role(3)]);
    stop(volume);
    let why = world.try_open(&[0, 2]).unwrap_err().to_string();
    assert!(why.contains("2 of 4 members are here") && why.ends_with("--without 1,3"), "{why}");
    for (named, words) in [
        (&[1][..], "also missing: 3"),
        (&[1, 2, 3], "not missing: 2"),
        (&[0, 1], "not missing: 0; also missing: 3"),
        (&[1, 3, 9], "not missing: 9"),
    ] {
        world.options.without = roles(named);
        let why = world.try_open(&[0, 2]).unwrap_err().to_string();
        assert!(why.ends_with(words), "{why}");
    }
    world.options.without = roles(&[1, 3]);
    let volume = world.try_open(&[0, 2]).unwrap();
    let mut read = [0; 65536];
    volume.device().read_at(0, &mut read).unwrap();
    assert!(read == [5; 65536]);
    stop(volume);
}

/// A copy of a drive that was made before it was written and flushed.
#[test]
fn an_old_copy_of_a_member_is_called_older() {
    let mut world = world();
    let volume = world.open();
    volume.device().write_at(0, &[1; 4096]).unwrap();
    volume.device().flush().unwrap();
    let copy = world.disks[2].content();
    volume.device().write_at(0, &[2; 65536]).unwrap();
    volume.device().flush().unwrap();
    stop(volume);
    let drive = world.replace(Role(2));
    drop(drive);
    world.disks[2].write_at(0, &copy).unwrap();
    world.disks[2].flush().unwrap();
    let all = [0, 1, 2, 3];
    let before: Vec<Vec<u8>> = world.disks.iter().map(|disk| disk.content()).collect();
    let why = world.try_open(&all).unwrap_err().to_string();
    assert!(why.starts_with("role 2: older than the other members"), "{why}");
    assert!(world.disks.iter().zip(before).all(|(disk, before)| disk.content() == before), "{why}");
    world.options.degraded = true;
    let volume = world.try_open(&all).unwrap();
    assert_eq!(volume.status().unwrap().missing, [Role(2)]);
    volume.control().add(crate::world::member(&Arc::clone(&world.disks[2])), true).unwrap();
    wait_for("the rebuild", || volume.status().unwrap().missing.is_empty());
    let mut read = [0; 65536];
    volume.device().read_at(0, &mut read).unwrap();
    assert!(read == [2; 65536]);
    stop(volume);
    assert_eq!(world.torn(), [] as [u64; 0]);
}

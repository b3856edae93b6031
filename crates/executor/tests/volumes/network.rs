//! A volume over drives of nodes behind sockets.

use crate::world::{Random, World, served, spec, stop, wait_for};
use pumice_base::units::Role;
use pumice_blockdev::BlockDevice;
use pumice_executor::{Consistency, ControlError, MemberDrive, OpenOptions, create, open};
use pumice_node::serve::{Backend, Drive, Server};
use pumice_offload::{DataNode, DriveId};
use pumice_raid::layout::{Layout, Level};
use pumice_remote::initiator::DigestPolicy;
use pumice_remote::{Dial, RemoteNode};
use std::sync::Arc;
use std::time::Duration;

fn node(number: usize, block: u32) -> Server {
    let name = format!("nqn.2026-11.example:node{number}");
    let drive = |i| Drive::open(&Backend::Memory(8 << 20), block, &name, i).unwrap();
    served(&name, vec![drive(1), drive(2)], "127.0.0.1:0".parse().unwrap())
}

fn connect(server: &Server) -> Arc<dyn DataNode> {
    let dial = Dial {
        address: server.address(),
        nqn: None,
        host: "nqn.2026-11.example:host".parse().unwrap(),
        hostid: [7; 16],
        digests: DigestPolicy::Off,
        deadline: Duration::from_secs(20),
        silent: pumice_remote::log_silence,
    };
    Arc::new(RemoteNode::connect(dial).unwrap())
}

fn members(nodes: &[Arc<dyn DataNode>]) -> Vec<MemberDrive> {
    let drives = nodes.iter().enumerate().flat_map(|(i, node)| {
        [1, 2].map(|id| MemberDrive::new(format!("node{i}/{id}"), Arc::clone(node), DriveId(id)).unwrap())
    });
    drives.collect()
}

/// Blocks of 4096 bytes: superblocks and bits are smaller.
#[test]
fn a_volume_over_three_nodes_survives_a_node_and_restarts() {
    for block in [512, 4096] {
        let mut servers: Vec<Option<Server>> = (0..3).map(|i| Some(node(i, block))).collect();
        let nodes: Vec<_> = servers.iter().flatten().map(connect).collect();
        let made = spec(Level::Raid6, Some(Layout::LeftSymmetric), 65536);
        create(&members(&nodes), &made, |_, _| {}).unwrap();
        let options = OpenOptions { tick: Duration::from_millis(50), ..OpenOptions::default() };
        let volume = open(&members(&nodes), &options).unwrap();
        let device = volume.device();
        assert_eq!(device.logical_block(), block);
        let mut model = vec![0; device.size_bytes() as usize];
        Random(1).fill(&mut model);
        device.write_at(0, &model).unwrap();
        model[100_000..300_000].fill(3);
        device.write_at(100_000, &model[100_000..300_000]).unwrap();
        device.flush().unwrap();
        servers[2].take().unwrap().stop().unwrap();
        let mut read = vec![0; model.len()];
        device.read_at(0, &mut read).unwrap();
        assert!(read == model);
        model[200_000..400_000].fill(4);
        device.write_at(200_000, &model[200_000..400_000]).unwrap();
        wait_for("the failure", || volume.status().unwrap().missing == [Role(4), Role(5)]);
        stop(volume);
        let volume = open(&members(&nodes)[..4], &options).unwrap();
        volume.device().read_at(0, &mut read).unwrap();
        assert!(read == model);
        stop(volume);
    }
}

/// The users of a volume know its logical block, and it must be the same at the next start.
#[test]
fn a_drive_with_larger_blocks_is_refused() {
    let world = World::new(1, (Level::Raid5, Some(Layout::LeftSymmetric), 3), 16384, 4, Consistency::Log);
    let server = node(0, 4096);
    let larger = members(&[connect(&server)]).remove(0);
    let volume = world.open();
    assert_eq!(volume.facts().block, 512);
    let control = volume.control();
    let refused = |done: Result<Role, ControlError>| {
        let why = done.unwrap_err().to_string();
        assert!(
            why.contains("node0/1: its logical block is 4096 bytes, and that of the volume 512"),
            "{why}"
        );
    };
    refused(control.replace(Role(1), larger.clone(), false));
    assert_eq!(volume.status().unwrap().missing, []);
    control.fail(Role(1)).unwrap();
    wait_for("the failure", || volume.status().unwrap().missing == [Role(1)]);
    for force in [false, true] {
        refused(control.add(larger.clone(), force));
    }
    stop(volume);
}

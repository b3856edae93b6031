use super::*;
use pumice_blockdev::MemoryDevice;
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::DriveId;
use std::sync::mpsc::channel;

/// A write of what several actions need is the end of all of them, well or not.
#[test]
fn what_is_written_together_ends_together() {
    let drives = vec![Arc::new(MemoryDevice::new("m", 1 << 20)) as Arc<dyn pumice_blockdev::BlockDevice>];
    let options = NodeOptions { memory_bytes: 0, ..NodeOptions::default() };
    let node: Arc<dyn DataNode> = Arc::new(LocalNode::new("here", drives, &Peers::new(), options));
    let drive = MemberDrive::new("m", Arc::clone(&node), DriveId(1)).unwrap();
    let (own, inbox) = channel();
    let (mut carrier, role) = (Carrier::new(8, own), Role(0));
    carrier.attach(role, drive).unwrap();
    let bytes = SharedBuffer::copy_of(&[7; 8192]);
    for (at, expected) in [(4096, Outcome::Done), ((1 << 20) - 4096, Outcome::Failed)] {
        carrier.write_together((1..4).map(ActionId).collect(), role, at, bytes.clone());
        carrier.hand_over();
        assert!(matches!(inbox.try_recv(), Ok(Message::Ended)) && inbox.try_recv().is_err());
        let (mut ended, mut all) = (Vec::new(), Vec::new());
        carrier.take_ended(&mut ended);
        ended.drain(..).for_each(|completion| carrier.ended(completion, &mut all));
        let mut done: Vec<ActionId> = Vec::new();
        for came in all {
            assert!(matches!(came, Came::Done(action, outcome)
                if outcome == expected && { done.push(action); true }));
        }
        done.sort_unstable();
        assert_eq!(done, [1, 2, 3].map(ActionId));
        assert!(carrier.is_idle());
    }
    let mut read = [0; 8192];
    node.read(DriveId(1), 4096, &mut read).unwrap();
    assert!(read == bytes[..] && carrier.errors.len() == 1);
}

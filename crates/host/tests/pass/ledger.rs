//! The planner and the counters are equal to the byte.

use crate::world::{Kind, RAID5, RAID6, World};
use pumice_host::Method;
use pumice_host::plan::{Batches, PassShape, actual};
use pumice_raid::layout::{Layout, Level};

#[test]
fn planner_and_counters_agree_to_the_byte() {
    let wide = Kind { disks: 24, chunk: 4096, stripes: 19, ..RAID6 };
    let fixed = Kind { layout: Some(Layout::ParityLast), disks: 7, chunk: 65536, stripes: 11, ..RAID6 };
    let raid4 = Kind { level: Level::Raid4, layout: None, disks: 4, ..RAID6 };
    for kind in [RAID5, RAID6, wide, fixed, raid4] {
        let world = World::new(kind, 1);
        for nodes in [1, 2, 3] {
            for method in Method::ALL {
                for accumulators in [1_u8, 3] {
                    let mut options = crate::world::options(1);
                    options.method = Some(method);
                    options.accumulators = Some(accumulators);
                    let outcome = crate::world::pass(&world.target(nodes, &[]), None, &options);
                    assert!(outcome.findings.is_empty());
                    let n = usize::from(kind.disks);
                    let members = |node| (0..n).filter(|r| r * nodes / n == node).count() as u64;
                    let shape = PassShape {
                        members_of_node: (0..nodes).map(members).collect(),
                        rows: if kind.level == Level::Raid6 { 2 } else { 1 },
                        chunk: kind.chunk,
                        batches: Batches::of_run(kind.stripes, 8),
                        accumulators: u64::from(accumulators),
                        powers: 8,
                    };
                    assert_eq!(outcome.ledger, actual(method, &shape), "{kind:?} {nodes} nodes {method}");
                }
            }
        }
    }
}

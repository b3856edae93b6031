use super::*;
use pumice_blockdev::MemoryDevice;
use pumice_offload::{Rule, Window};
use pumice_parity::seed::Seed;

fn node() -> LocalNode {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 64 << 20));
    let options = NodeOptions { workers: 3, ..NodeOptions::default() };
    LocalNode::new("n", vec![device], &Peers::new(), options)
}

/// However many commands there are: each has a thread that reads, and more only while all have
/// few.
#[test]
fn threads_that_read_are_bounded_over_all_commands() {
    let node = node();
    let first = node.borrow_workers(100).unwrap();
    assert_eq!((first.workers.len(), node.readers()), (6, (6, 6)));
    let others: Vec<Lent<'_>> = (0..10).map(|_| node.borrow_workers(3).unwrap()).collect();
    assert!(others.iter().all(|lent| lent.workers.len() == 1));
    assert_eq!(node.readers(), (16, 6));
    drop((first, others));
    assert_eq!(node.readers().0, 0);
    assert_eq!(locked(&node.workers).idle.len(), 6, "and no more of them are kept");
}

/// A command whose sums are long has fewer threads: 64 MiB of sums together, or those of one
/// thread.
#[test]
fn the_sums_of_a_commands_threads_are_bounded() {
    let node = node();
    for (len, threads) in [(4 << 10, 2048), (1 << 20, 8), (4 << 20, 2), (32 << 20, 0)] {
        let command = ParityCommand {
            sources: vec![Source::Media { drive: DriveId(1), base: 0 }],
            chunk: len,
            window: Window { start: 0, len },
            stripes: 0..1,
            rule: Rule::new(1, 1, vec![1], vec![vec![1]]).unwrap(),
            mode: Mode::Accumulate {
                into: MemoryAddress { drive: DriveId(1), offset: 0 },
                seed: Seed::from_number(1),
                accumulators: 8,
            },
        };
        let fold = Fold::new(&command, node.options.kernels, &*node.memory).unwrap();
        let sources = node.media_sources(&command).unwrap();
        let job = MediaJob::new(&command, &node.drives, sources, fold, ERROR_TIME, &|| true);
        assert_eq!(job.workers_that_fit(), threads, "{len}");
    }
}

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
            unpaced: false,
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

/// The hours of the node are far away: a command that holds no locks waits until it is given up,
/// and one whose stripes users wait for is read at once. What it read counts against the rate.
#[test]
fn an_unpaced_command_is_read_at_once_and_counts() {
    let node = node();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let later = ((now + 7200) % 86_400) as u32;
    let pace = PaceRequest {
        windows: vec![(later, (later + 3600) % 86_400)],
        rate: Some(1 << 20),
        ..PaceRequest::default()
    };
    node.pacing().configure(pace).unwrap();
    let command = |unpaced| ParityCommand {
        unpaced,
        sources: vec![Source::Media { drive: DriveId(1), base: 0 }],
        chunk: 1 << 20,
        window: Window { start: 0, len: 1 << 20 },
        stripes: 0..8,
        rule: Rule::new(1, 1, vec![1], vec![vec![1]]).unwrap(),
        mode: Mode::Check,
    };
    let before = node.pace_figures().unwrap()[0];
    assert!(before.closed_ns > 7_000_000_000_000 && before.owed_ns == 0, "{before:?}");
    std::thread::scope(|scope| {
        let paced = scope.spawn(|| node.parity(&command(false)));
        node.parity(&command(true)).unwrap();
        let after = node.pace_figures().unwrap()[0];
        assert_eq!(after.bytes, 8 << 20);
        // A megabyte was saved up.
        assert!(after.owed_ns > 6_000_000_000, "{after:?}");
        assert!(!paced.is_finished());
        node.give_up();
        assert!(paced.join().unwrap().is_err());
    });
    let never = PaceRequest {
        windows: vec![((later + 7200) % 86_400, (later + 7260) % 86_400)],
        ..PaceRequest::default()
    };
    assert!(node.pace(&never).is_err(), "it would wait for ever");
    node.pace(&PaceRequest { rate: Some(1 << 20), ..PaceRequest::default() }).unwrap();
}

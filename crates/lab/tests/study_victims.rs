//! Policies of garbage collection against a plain model: whatever is written, trimmed, merged and
//! collected, each logical page reads its own content.

use pumice_flash::chip::{Geometry, MemoryNand, Random, Timing};
use pumice_flash::ftl::{Config, ContentId, Ftl, NoJournal, Scheme, Tag};
use pumice_lab::study::flash::VictimPolicy;

const LOGICAL: u32 = 150;
const BLOCKS: u32 = 32;
const PAGES_PER_BLOCK: u32 = 8;

#[test]
fn every_victim_policy_reads_what_was_written() {
    let policies = [
        VictimPolicy::Greedy,
        VictimPolicy::GreedyRandom,
        VictimPolicy::Fifo,
        VictimPolicy::CostBenefit,
        VictimPolicy::Choices(1),
        VictimPolicy::Choices(5),
    ];
    let geometry = Geometry {
        blocks: BLOCKS,
        pages_per_block: PAGES_PER_BLOCK,
        channels: 2,
        page_bytes: 256,
        oob_bytes: 128,
    };
    for (seed, policy) in (100..).zip(policies) {
        let nand = MemoryNand::<ContentId, Tag>::new(geometry, Timing::DISKSIM);
        let victim = policy.build(BLOCKS, PAGES_PER_BLOCK, 1);
        let config = Config::new(LOGICAL, Scheme::Lives);
        let mut drive = Ftl::format_choosing(nand, NoJournal, config, victim).unwrap();
        let (mut random, mut model) = (Random::new(seed), vec![None; LOGICAL as usize]);
        for operation in 0..4_000 {
            let lpn = random.below(u64::from(LOGICAL)) as u32;
            match random.below(20) {
                0 => {
                    drive.trim(lpn, 1).unwrap();
                    model[lpn as usize] = None;
                }
                1 => {
                    drive.idle(0, 50_000_000).unwrap();
                }
                _ => {
                    let number = random.below(60);
                    let content = ContentId { strong: number, weak: number as u32 % 40 };
                    drive.write(lpn, &content, 0).unwrap();
                    model[lpn as usize] = Some(content);
                }
            }
            if operation % 500 == 0 {
                for (lpn, content) in (0..).zip(&model) {
                    assert_eq!(drive.read(lpn, 0).unwrap().0, *content, "{policy}, {operation}, {lpn}");
                }
                assert_eq!(drive.contradictions(), Vec::<String>::new());
            }
        }
        assert!(drive.stats().copies > 0, "{policy}: garbage was collected");
    }
}

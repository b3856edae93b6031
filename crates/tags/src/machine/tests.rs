//! The machine, step by step.

use super::*;
use pumice_protect::guard::Guard;

/// Commands that were on their way to the queue when the tag file failed are told so too.
#[test]
fn a_write_whose_pages_come_after_the_tag_file_has_failed_ends() {
    let geometry = Geometry::new(1 << 20, 512, 512, Guard::Crc16, 64 << 10).expect("a drive");
    let mut machine = Machine::new(geometry, 0, 100);
    machine.begin(1, 0..1, Request::Write(Change::Zeros(1)));
    // It waits for the first one's blocks.
    machine.begin(2, 0..1, Request::Write(Change::Zeros(1)));
    let [Action::Load { id: 1, pages }] = &machine.take_actions()[..] else { panic!("one is loaded") };
    let pages = pages.iter().map(|page| (*page, Found::Fresh)).collect();
    machine.tags_failed();
    machine.loaded(1, pages);
    let ended: Vec<u64> = machine
        .take_actions()
        .into_iter()
        .filter_map(|action| match action {
            Action::Done { id, outcome: Outcome::TagsFailed } => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [1, 2]);
}

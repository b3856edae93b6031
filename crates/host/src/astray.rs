//! Misdirected writes among the findings of a pass: rule R25 of `docs/design/repair.md`.

use crate::finding::{Finding, Misdirected};
use pumice_protect::misdirected::{Differing, misdirected};
use std::collections::BTreeMap;

/// Bits of the sums of wrong blocks.
const BITS: u32 = 64;

/// Marks findings with misdirected blocks: blocks whose contents belong at another place of the
/// same drive, which is also damaged.
pub(crate) fn apply(findings: &mut [Finding]) {
    let mut by_member: BTreeMap<(u16, u32), Vec<Differing>> = BTreeMap::new();
    for wrong in findings.iter().flat_map(|finding| &finding.wrong_blocks) {
        let place = wrong.device_offset / u64::from(wrong.length);
        let differing = Differing { place, found: wrong.found, wanted: wrong.wanted };
        by_member.entry((wrong.member, wrong.length)).or_default().push(differing);
    }
    let of_member = by_member.into_iter().map(|(key, blocks)| (key, misdirected(&blocks, BITS)));
    let runs: BTreeMap<(u16, u32), _> = of_member.collect();
    for finding in findings {
        finding.misdirected = finding.wrong_blocks.iter().find_map(|wrong| {
            let size = u64::from(wrong.length);
            let place = wrong.device_offset / size;
            let mut runs = runs.get(&(wrong.member, wrong.length))?.iter();
            let run = runs.find(|run| (run.place..run.place + run.blocks).contains(&place))?;
            Some(Misdirected {
                member: wrong.member,
                device_offset: place * size,
                belongs_at: (run.belongs + (place - run.place)) * size,
            })
        });
    }
}

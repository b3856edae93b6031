//! Drives that share disks.

use std::collections::BTreeSet;

/// Groups of drives that share disks, directly or through others: for each drive the number of its
/// group, and the disks of each group.
pub(super) fn groups(disks: &[BTreeSet<String>]) -> (Vec<usize>, Vec<BTreeSet<String>>) {
    let mut of: Vec<usize> = (0..disks.len()).collect();
    for (i, mine) in disks.iter().enumerate() {
        for (j, theirs) in disks[..i].iter().enumerate() {
            if !mine.is_disjoint(theirs) {
                let (from, to) = (of[i].max(of[j]), of[i].min(of[j]));
                of[..=i].iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
        }
    }
    let heads: Vec<usize> = (0..of.len()).filter(|i| of[*i] == *i).collect();
    let number = |group: usize| heads.binary_search(&group).expect("a group begins with its first drive");
    let mut all = vec![BTreeSet::new(); heads.len()];
    for (disks, group) in disks.iter().zip(&of) {
        all[number(*group)].extend(disks.iter().cloned());
    }
    (of.into_iter().map(number).collect(), all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(disks: &[&str]) -> BTreeSet<String> {
        disks.iter().map(|disk| (*disk).to_owned()).collect()
    }

    #[test]
    fn drives_that_share_disks_have_one_pacer() {
        let disks = [on(&["a"]), on(&[]), on(&["b"]), on(&["a", "c"]), on(&["c", "b"]), on(&[]), on(&["d"])];
        let (of, all) = groups(&disks);
        assert_eq!(of, [0, 1, 0, 0, 0, 2, 3]);
        assert_eq!(all, [on(&["a", "b", "c"]), on(&[]), on(&[]), on(&["d"])]);
    }
}

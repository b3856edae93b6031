//! Locks on ranges of blocks, granted in the order of requests.

use std::ops::Range;

/// The commands that hold or want blocks, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    blocks: Range<u64>,
    exclusive: bool,
    granted: bool,
}

impl Locks {
    /// Requests blocks; returns whether they are granted at once. Others may share them unless
    /// `exclusive`.
    pub(crate) fn ask(&mut self, id: u64, blocks: Range<u64>, exclusive: bool) -> bool {
        self.entries.push(Entry { id, blocks, exclusive, granted: false });
        self.grant(self.entries.len() - 1)
    }

    /// Requests blocks to share with others. If they are not granted at once, nothing is requested.
    pub(crate) fn ask_now(&mut self, id: u64, blocks: Range<u64>) -> bool {
        let granted = self.ask(id, blocks, false);
        if !granted {
            self.entries.pop();
        }
        granted
    }

    /// Releases the blocks of a command. Returns the commands that are granted theirs as a result,
    /// in order of arrival.
    pub(crate) fn give_back(&mut self, id: u64) -> Vec<u64> {
        let at = self.entries.iter().position(|entry| entry.id == id && entry.granted);
        self.entries.remove(at.expect("T1: a command gives its blocks back once, and only if it has them"));
        let mut granted = Vec::new();
        for at in 0..self.entries.len() {
            if !self.entries[at].granted && self.grant(at) {
                granted.push(self.entries[at].id);
            }
        }
        granted
    }

    /// Returns whether a command has its blocks, and shares them with no other.
    pub(crate) fn has_alone(&self, id: u64) -> bool {
        self.entries.iter().any(|entry| entry.id == id && entry.granted && entry.exclusive)
    }

    /// Grants an entry if no earlier entry, holding or waiting, conflicts with it.
    fn grant(&mut self, at: usize) -> bool {
        let (before, rest) = self.entries.split_at_mut(at);
        let entry = &mut rest[0];
        entry.granted = before.iter().all(|other| {
            let apart = other.blocks.end <= entry.blocks.start || entry.blocks.end <= other.blocks.start;
            apart || !(other.exclusive || entry.exclusive)
        });
        entry.granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_nobody_overtakes_a_waiting_writer() {
        let mut locks = Locks::default();
        assert!(locks.ask(1, 0..10, false));
        assert!(locks.ask(2, 5..6, false));
        assert!(!locks.ask(3, 5..8, true));
        assert!(!locks.ask(4, 7..9, false), "the writer came first");
        assert!(locks.ask(5, 8..9, false) && locks.ask(6, 20..30, true));
        assert_eq!(locks.give_back(2), []);
        assert_eq!(locks.give_back(1), [3]);
        assert!(!locks.ask_now(7, 25..26) && locks.ask_now(8, 30..31));
        assert_eq!(locks.give_back(3), [4]);
    }
}

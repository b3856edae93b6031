//! Writes of bytes that come back: their blocks keep the tags that they have.

use super::{Machine, Request};
use crate::record::Change;
use crate::rules::Rule;

impl Machine {
    /// The blocks of a command are locked, and their pages in memory: it becomes a write with the
    /// tags that are there.
    pub(super) fn restore(&mut self, id: u64) {
        let command = &self.commands[&id];
        let Request::Restore(change) = &command.request else { panic!("a write of bytes that come back") };
        let change = self.with_present_tags(command.blocks.start, change);
        self.commands.get_mut(&id).expect("it is under way").request = Request::Write(change.into());
        self.go(id);
    }

    /// The change that a test has instead: the tags are taken at once, if the pages are here.
    pub(super) fn with_early_tags(&self, blocks: &std::ops::Range<u64>, request: Request) -> Request {
        let here = || self.geometry.groups_of(blocks).all(|group| self.cache.has(group));
        match request {
            Request::Restore(change) if !self.rules.keep(Rule::TagsInTurn) && here() => {
                Request::Write(self.with_present_tags(blocks.start, &change).into())
            }
            request => request,
        }
    }

    /// A change, with the tags and the other metadata that its blocks have.
    fn with_present_tags(&self, first: u64, change: &Change) -> Change {
        let Change::Tags { sums, data, .. } = change else { panic!("bytes, not zeros") };
        let (mut tags, mut others) = (Vec::with_capacity(sums.len()), Vec::new());
        for block in first..first + sums.len() as u64 {
            let (page, place) = self.geometry.place(block);
            let mut entry = self.cache.page(page).entry(&self.geometry, place);
            tags.push(entry.tag);
            entry.others.resize(self.geometry.other_bytes(), 0);
            others.append(&mut entry.others);
        }
        if others.iter().all(|byte| *byte == 0) {
            others.clear();
        }
        Change::Tags { tags, others, sums: sums.clone(), data: data.clone() }
    }
}

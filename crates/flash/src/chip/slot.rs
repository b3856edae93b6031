//! Present and earlier contents of pages.

use crate::chip::Ppn;
use std::collections::BTreeMap;

/// Content of a page.
#[derive(Debug, Clone)]
pub(crate) enum Slot<P, O> {
    Erased,
    Holds(P, O),
    Unreadable,
}

/// Contents of pages since the last sync, oldest first.
#[derive(Debug, Clone)]
pub(crate) struct History<P, O>(BTreeMap<u32, Vec<Slot<P, O>>>);

impl<P, O> Default for History<P, O> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P, O> History<P, O> {
    pub(crate) fn add(&mut self, page: Ppn, was: Slot<P, O>) {
        self.0.entry(page.0).or_default().push(was);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Page by page.
    pub(crate) fn into_pages(self) -> BTreeMap<u32, Vec<Slot<P, O>>> {
        self.0
    }
}

//! Pages in the tag file that say the same as those in memory.

use super::Machine;
use crate::geometry::GROUP_PAGES;
use crate::rules::Rule;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Machine {
    /// Grows whenever a tag may have changed. If it is the same before and after a read, so were
    /// the tags. It may be read beside the machine.
    #[must_use]
    pub fn tag_version(&self) -> Arc<AtomicU64> {
        self.cache.version()
    }

    /// The [version](Self::tag_version) of which the tag file has all tags of some groups; `None`
    /// if some page is not home, or was lost once: more is known of that than its sector says.
    #[must_use]
    pub fn tag_version_at_home(&self, groups: Range<u64>) -> Option<u64> {
        let pages = groups.start * GROUP_PAGES..groups.end * GROUP_PAGES;
        let is_home = self.cache.is_home(groups) && self.lost.range(pages).next().is_none();
        let is_home = is_home || !self.rules.keep(Rule::ViewsOfHome);
        is_home.then(|| self.cache.version().load(Ordering::Acquire))
    }
}

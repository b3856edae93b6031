//! The index of fingerprints: chains of physical pages, without a list of their LPNs.

use crate::chip::Ppn;
use crate::ftl::table::{NONE, Table};

/// Finds pages by the first 64 bits of a fingerprint. Its size is fixed by the number of pages.
#[derive(Debug)]
pub(super) struct Index {
    heads: Table,
    next: Vec<u32>,
    keys: Vec<u64>,
    inside: Vec<bool>,
}

impl Index {
    pub(super) fn new(pages: u32) -> Self {
        let n = pages as usize;
        Self {
            heads: Table::new(pages.next_power_of_two()),
            // Read for pages inside alone.
            next: vec![0; n],
            keys: vec![0; n],
            inside: vec![false; n],
        }
    }

    fn head(&self, key: u64) -> u32 {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as u32 & (self.heads.len() as u32 - 1)
    }

    pub(super) fn insert(&mut self, page: Ppn, key: u64) {
        self.remove(page);
        let (head, p) = (self.head(key), page.0 as usize);
        (self.keys[p], self.inside[p]) = (key, true);
        self.next[p] = self.heads.replace(head, page.0);
    }

    pub(super) fn remove(&mut self, page: Ppn) {
        let p = page.0 as usize;
        if !std::mem::take(&mut self.inside[p]) {
            return;
        }
        let head = self.head(self.keys[p]);
        let mut at = self.heads.get(head);
        if at == page.0 {
            self.heads.set(head, self.next[p]);
            return;
        }
        while self.next[at as usize] != page.0 {
            at = self.next[at as usize];
        }
        self.next[at as usize] = self.next[p];
    }

    /// Brings the entries that a removal of a page changes into the processor's cache.
    pub(super) fn prefetch(&self, page: Ppn) -> u32 {
        if !self.inside[page.0 as usize] {
            return 0;
        }
        let first = self.heads.get(self.head(self.keys[page.0 as usize]));
        if first == page.0 { first } else { self.next[first as usize] }
    }

    /// Brings the entries that a search for a key reads into the processor's cache.
    pub(super) fn prefetch_key(&self, key: u64) -> u64 {
        let first = self.heads.get(self.head(key)) as usize;
        self.keys.get(first).map_or(0, |other| other ^ u64::from(self.next[first]))
    }

    pub(super) fn moved(&mut self, from: Ppn, to: Ppn) {
        if self.inside[from.0 as usize] {
            let key = self.keys[from.0 as usize];
            self.remove(from);
            self.insert(to, key);
        }
    }

    pub(super) fn find(&self, key: u64) -> impl Iterator<Item = Ppn> + '_ {
        let step = |at: &u32| (*at != NONE).then(|| self.next[*at as usize]);
        let chain = std::iter::successors(Some(self.heads.get(self.head(key))), step);
        let real = chain.take_while(|at| *at != NONE);
        real.filter(move |at| self.keys[*at as usize] == key).map(Ppn)
    }

    pub(super) fn bytes(&self) -> u64 {
        17 * self.keys.len() as u64
    }
}

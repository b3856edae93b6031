//! The many-to-one map from logical to physical pages.

use crate::chip::Ppn;
use crate::ftl::table::{NONE, Table};

/// Marks the number of an object where a page number could stand.
const OBJECT: u32 = 1 << 31;

/// To whom a physical page belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// One logical page.
    Lpn(u32),
    /// A shared object, by its number.
    Object(u32),
}

/// A content that several logical pages share, or shared once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) ppn: u32,
    pub(crate) refs: u32,
    pub(crate) birth: u64,
}

/// The map. Pages that are not shared need no object.
#[derive(Debug)]
pub struct Map {
    to: Table,
    owner: Table,
    objects: Vec<Object>,
    vacant: Vec<u32>,
    mapped: u32,
}

impl Map {
    /// A map of unmapped logical pages. Both numbers are below 2^31.
    pub(crate) fn new(logical: u32, physical: u32) -> Self {
        Self {
            to: Table::new(logical),
            owner: Table::new(physical),
            objects: Vec::new(),
            vacant: Vec::new(),
            mapped: 0,
        }
    }

    /// Logical pages.
    #[must_use]
    pub fn logical(&self) -> u32 {
        self.to.len() as u32
    }

    /// Logical pages that hold something.
    #[must_use]
    pub fn mapped(&self) -> u32 {
        self.mapped
    }

    /// The place of a logical page.
    #[must_use]
    pub fn lookup(&self, lpn: u32) -> Option<Ppn> {
        match self.to.get(lpn) {
            NONE => None,
            entry if entry & OBJECT != 0 => Some(Ppn(self.objects[(entry & !OBJECT) as usize].ppn)),
            entry => Some(Ppn(entry)),
        }
    }

    /// The birth of the object that a logical page shares, if it does.
    #[must_use]
    pub fn shared_birth(&self, lpn: u32) -> Option<u64> {
        let entry = self.to.get(lpn);
        let shared = entry != NONE && entry & OBJECT != 0;
        shared.then(|| self.objects[(entry & !OBJECT) as usize].birth)
    }

    /// Brings the entries that a move of a page changes into the processor's cache.
    pub(crate) fn prefetch(&self, page: Ppn) -> u32 {
        match self.owner(page) {
            None => 0,
            Some(Owner::Lpn(lpn)) => self.to.get(lpn),
            Some(Owner::Object(object)) => self.objects[object as usize].ppn,
        }
    }

    /// To whom a physical page belongs; `None` if it holds nothing live.
    #[must_use]
    pub fn owner(&self, page: Ppn) -> Option<Owner> {
        match self.owner.get(page.0) {
            NONE => None,
            owner if owner & OBJECT != 0 => Some(Owner::Object(owner & !OBJECT)),
            lpn => Some(Owner::Lpn(lpn)),
        }
    }

    /// Objects in use.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.objects.len() - self.vacant.len()
    }

    pub(crate) fn object(&self, number: u32) -> Object {
        self.objects[number as usize]
    }

    /// Unmaps a logical page; the physical page that died by that, if one did.
    pub(crate) fn unmap(&mut self, lpn: u32) -> Option<Ppn> {
        let entry = self.to.get(lpn);
        if entry == NONE {
            return None;
        }
        self.to.set(lpn, NONE);
        self.mapped -= 1;
        let page = if entry & OBJECT == 0 {
            assert!(
                self.owner.get(entry) == lpn,
                "F2: the page of a logical page belongs to it alone: {lpn}"
            );
            entry
        } else {
            let number = entry & !OBJECT;
            let object = &mut self.objects[number as usize];
            assert!(object.refs > 0, "F3: a shared content counts the logical pages that have it: {lpn}");
            object.refs -= 1;
            if object.refs > 0 {
                return None;
            }
            self.vacant.push(number);
            object.ppn
        };
        self.owner.set(page, NONE);
        Some(Ppn(page))
    }

    /// Maps a logical page to a page of its own; the physical page that died by that, if one did.
    pub(crate) fn point(&mut self, lpn: u32, page: Ppn) -> Option<Ppn> {
        assert!(self.owner.get(page.0) == NONE, "F1: a physical page has one owner: {page}");
        let died = self.unmap(lpn);
        self.mapped += 1;
        self.to.set(lpn, page.0);
        self.owner.set(page.0, lpn);
        died
    }

    /// Maps a logical page to the content of `page`, born at `birth`; the physical page that died
    /// by that.
    pub(crate) fn share(&mut self, lpn: u32, page: Ppn, birth: u64) -> Option<Ppn> {
        let number = match self.owner(page) {
            Some(Owner::Object(number)) => number,
            Some(Owner::Lpn(other)) => {
                let number = self.new_object(Object { ppn: page.0, refs: 1, birth });
                self.to.set(other, OBJECT | number);
                number
            }
            None => self.new_object(Object { ppn: page.0, refs: 0, birth }),
        };
        self.objects[number as usize].refs += 1;
        let died = self.unmap(lpn);
        self.mapped += 1;
        self.to.set(lpn, OBJECT | number);
        died
    }

    fn new_object(&mut self, object: Object) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.objects.push(Object { refs: 0, ..object });
            self.objects.len() as u32 - 1
        });
        let refs = self.objects[number as usize].refs;
        assert!(refs == 0, "F3: the number of a shared content is given again when no logical page has it");
        self.objects[number as usize] = object;
        self.owner.set(object.ppn, OBJECT | number);
        number
    }

    /// A live page moved: one update, however many share it.
    pub(crate) fn moved(&mut self, from: Ppn, to: Ppn) {
        let owner = self.owner.replace(from.0, NONE);
        assert!(owner != NONE, "F4: a page that is moved is live: {from}");
        assert!(self.owner.get(to.0) == NONE, "F1: a physical page has one owner: {to}");
        self.owner.set(to.0, owner);
        if owner & OBJECT == 0 {
            self.to.set(owner, to.0);
        } else {
            self.objects[(owner & !OBJECT) as usize].ppn = to.0;
        }
    }

    /// The entry of a logical page as a checkpoint has it, with objects numbered by `renumber`.
    pub(crate) fn entry(&self, lpn: u32, renumber: &[u32]) -> u32 {
        match self.to.get(lpn) {
            NONE => NONE,
            entry if entry & OBJECT != 0 => OBJECT | renumber[(entry & !OBJECT) as usize],
            entry => entry,
        }
    }

    /// The physical pages of the objects in use.
    pub(crate) fn shared_pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.objects.iter().filter(|object| object.refs > 0).map(|object| object.ppn)
    }

    /// Objects in use without their gaps, and the new number of each.
    pub(crate) fn compact(&self) -> (Vec<Object>, Vec<u32>) {
        let mut renumber = vec![NONE; self.objects.len()];
        let mut kept = Vec::with_capacity(self.objects());
        for (number, object) in self.objects.iter().enumerate() {
            if object.refs > 0 {
                renumber[number] = kept.len() as u32;
                kept.push(*object);
            }
        }
        (kept, renumber)
    }
}

/// An entry of the table of logical pages, taken apart.
pub(crate) fn entry_of(entry: u32) -> Option<Result<Ppn, u32>> {
    match entry {
        NONE => None,
        object if object & OBJECT != 0 => Some(Err(object & !OBJECT)),
        page => Some(Ok(Ppn(page))),
    }
}

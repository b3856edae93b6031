//! Locally repairable codes: groups with a parity each, and parities over all data.
//!
//! Generators 2 and 3 of `docs/design/codes.md`. The page lists the coefficients and derives the
//! sets of losses that any code of such a shape can correct: with e_g losses in group g and e_0
//! among the globals that belong to no group, those with
//! `e_0 + sum over g of max(0, e_g - 1) <= globals`. The codes here correct all of them.
//!
//! # References
//! C. Huang et al., *Erasure coding in Windows Azure Storage*, USENIX ATC 2012 (groups of data, the
//! globals of two rows); P. Gopalan et al., *Explicit maximally recoverable codes with locality*,
//! IEEE Trans. Inf. Theory 60(9), 2014; D. S. Papailiopoulos, A. G. Dimakis, *Locally repairable
//! codes*, ISIT 2012 (locality of all symbols).

use super::{Code, cauchy};
use crate::check_matrix::CheckMatrix;
use crate::gf;

/// Members that a group repairs from its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// All: each group has a global parity as a member.
    All,
    /// Data and local parities. Globals belong to no group.
    Data,
}

/// The shape of a locally repairable code that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LrcShape {
    data: u8,
    groups: u8,
    globals: u8,
    locality: Locality,
}

impl LrcShape {
    /// All shapes that are offered. Of those with the same counts the default comes first.
    pub const OFFERED: [Self; 5] = [
        Self::of(6, 2, 2, Locality::Data),
        Self::of(12, 2, 2, Locality::All),
        Self::of(12, 2, 2, Locality::Data),
        Self::of(9, 3, 3, Locality::Data),
        Self::of(10, 2, 4, Locality::Data),
    ];

    const fn of(data: u8, groups: u8, globals: u8, locality: Locality) -> Self {
        Self { data, groups, globals, locality }
    }

    /// The shape with these counts, and with this locality or else the default; `None` if it is not
    /// offered.
    #[must_use]
    pub fn find(data: u8, groups: u8, globals: u8, locality: Option<Locality>) -> Option<Self> {
        Self::OFFERED.into_iter().find(|shape| {
            (shape.data, shape.groups, shape.globals) == (data, groups, globals)
                && locality.is_none_or(|locality| locality == shape.locality)
        })
    }

    /// Data members.
    #[must_use]
    pub const fn data(&self) -> u8 {
        self.data
    }

    /// Groups, and local parities.
    #[must_use]
    pub const fn groups(&self) -> u8 {
        self.groups
    }

    /// Global parities.
    #[must_use]
    pub const fn globals(&self) -> u8 {
        self.globals
    }

    /// Members that a group repairs.
    #[must_use]
    pub const fn locality(&self) -> Locality {
        self.locality
    }

    /// Returns whether a name without a locality means this shape.
    #[must_use]
    pub fn is_default(&self) -> bool {
        Self::find(self.data, self.groups, self.globals, None) == Some(*self)
    }

    /// The group of a column of the code, counted from 0; `None` for a global that belongs to none,
    /// and if there is no such column.
    ///
    /// Columns are data, local parities, globals.
    #[must_use]
    pub fn group_of(&self, column: usize) -> Option<usize> {
        let (data, groups) = (usize::from(self.data), usize::from(self.groups));
        match column {
            c if c < data => Some(c / (data / groups)),
            c if c < data + groups => Some(c - data),
            c if c < data + groups + usize::from(self.globals) && self.locality == Locality::All => {
                Some(c - data - groups)
            }
            _ => None,
        }
    }

    /// The exponent of each data column in the globals.
    fn exponents(&self) -> Vec<usize> {
        match (self.data, self.groups, self.globals, self.locality) {
            (12, 2, 2, Locality::All) => vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 20],
            (10, 2, 4, Locality::Data) => vec![0, 1, 2, 3, 4, 5, 19, 51, 96, 166],
            (data, ..) => (0..usize::from(data)).collect(),
        }
    }

    /// Each global as a sum of data.
    fn global_rows(&self) -> Vec<Vec<u8>> {
        let exponents = self.exponents();
        let powers = |by: usize| exponents.iter().map(|e| gf::exp(by * e)).collect();
        if self.globals == 2 {
            return vec![powers(1), powers(2)];
        }
        let row = |row: usize| {
            exponents
                .iter()
                .map(move |e| cauchy::coefficient(row, *e).expect("no pole among these exponents"))
        };
        (1..=usize::from(self.globals)).map(|i| row(i).collect()).collect()
    }
}

impl Code {
    /// A locally repairable code: data, the local parities, the global ones.
    ///
    /// # Panics
    /// Never: the shapes that there are have been tried.
    #[must_use]
    pub fn lrc(shape: LrcShape) -> Self {
        let (data, groups) = (usize::from(shape.data), usize::from(shape.groups));
        let columns = data + groups + usize::from(shape.globals);
        let local = |group: usize| (0..columns).map(move |c| u8::from(shape.group_of(c) == Some(group)));
        let mut equations: Vec<u8> = (0..groups).flat_map(local).collect();
        for (i, row) in shape.global_rows().into_iter().enumerate() {
            equations.extend(row);
            equations.extend((data..columns).map(|column| u8::from(column == data + groups + i)));
        }
        let rows = columns - data;
        let check = CheckMatrix::new(rows, columns, &equations).expect("rows of one length");
        let code = Self::of_equations(check, data).expect("parities follow from data");
        code.with_any(usize::from(shape.globals) + 1)
    }
}

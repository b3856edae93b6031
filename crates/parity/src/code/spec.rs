//! The names of the codes that arrays are offered. `docs/design/codes.md` lists them.

use super::{Code, CodeError, Locality, LrcShape, in_range};
use crate::matrix::MAX_ROWS;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The most members of an array with one of these codes.
pub const MAX_MEMBERS: usize = 32;

/// A code that arrays are offered: `rs:K,M` or `lrc:K,L,R`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeSpec(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Rs { data: u8, parities: u8 },
    Lrc(LrcShape),
}

/// A text that names no code.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseCodeError {
    /// It has another form.
    #[error("a code is rs:K,M, such as rs:10,4, or lrc:K,L,R, such as lrc:12,2,2")]
    Form,
    /// A number is out of its range.
    #[error(transparent)]
    Count(#[from] CodeError),
    /// No such local code is offered.
    #[error("local codes are {}", offered())]
    NotOffered,
}

fn offered() -> String {
    let names = LrcShape::OFFERED.map(|shape| CodeSpec(Kind::Lrc(shape)).to_string());
    names.join("; ")
}

impl CodeSpec {
    /// Reed-Solomon with `data` data members and `parities` parities.
    ///
    /// # Errors
    /// If parities are not 1 to 8, data members fewer than parities, or both together more than
    /// [`MAX_MEMBERS`].
    pub fn rs(data: usize, parities: usize) -> Result<Self, ParseCodeError> {
        in_range("M", parities, 1, MAX_ROWS)?;
        // No more parities than data: a majority of the members leaves the others too few.
        in_range("K", data, parities, MAX_MEMBERS - parities)?;
        // Both are at most 32.
        Ok(Self(Kind::Rs { data: data as u8, parities: parities as u8 }))
    }

    /// The locally repairable code of a shape.
    #[must_use]
    pub const fn lrc(shape: LrcShape) -> Self {
        Self(Kind::Lrc(shape))
    }

    /// Its shape, if it is a locally repairable code.
    #[must_use]
    pub const fn shape(&self) -> Option<LrcShape> {
        match self.0 {
            Kind::Rs { .. } => None,
            Kind::Lrc(shape) => Some(shape),
        }
    }

    /// Data members.
    #[must_use]
    pub fn data(&self) -> usize {
        match self.0 {
            Kind::Rs { data, .. } => usize::from(data),
            Kind::Lrc(shape) => usize::from(shape.data()),
        }
    }

    /// Parities, local ones included.
    #[must_use]
    pub fn parities(&self) -> usize {
        match self.0 {
            Kind::Rs { parities, .. } => usize::from(parities),
            Kind::Lrc(shape) => usize::from(shape.groups() + shape.globals()),
        }
    }

    /// All members.
    #[must_use]
    pub fn members(&self) -> usize {
        self.data() + self.parities()
    }

    /// The number of members that may be lost, whichever they are.
    #[must_use]
    pub fn corrects_any(&self) -> usize {
        match self.0 {
            Kind::Rs { parities, .. } => usize::from(parities),
            Kind::Lrc(shape) => usize::from(shape.globals()) + 1,
        }
    }

    /// The number of its generator, 1 to 3.
    #[must_use]
    pub fn generator(&self) -> u8 {
        match self.0 {
            Kind::Rs { .. } => 1,
            Kind::Lrc(shape) if shape.locality() == Locality::Data => 2,
            Kind::Lrc(_) => 3,
        }
    }

    /// The code.
    ///
    /// # Panics
    /// Never: the counts were compared with their limits.
    #[must_use]
    pub fn code(&self) -> Code {
        match self.0 {
            Kind::Rs { data, parities } => Code::reed_solomon(usize::from(data), usize::from(parities))
                .expect("counts within the generator's limits"),
            Kind::Lrc(shape) => Code::lrc(shape),
        }
    }
}

impl fmt::Display for CodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Rs { data, parities } => write!(f, "rs:{data},{parities}"),
            Kind::Lrc(shape) => {
                write!(f, "lrc:{},{},{}", shape.data(), shape.groups(), shape.globals())?;
                match shape.locality() {
                    _ if shape.is_default() => Ok(()),
                    Locality::All => f.write_str(",all"),
                    Locality::Data => f.write_str(",data"),
                }
            }
        }
    }
}

impl FromStr for CodeSpec {
    type Err = ParseCodeError;

    fn from_str(text: &str) -> Result<Self, ParseCodeError> {
        let (kind, rest) = text.split_once(':').ok_or(ParseCodeError::Form)?;
        let words: Vec<&str> = rest.split(',').collect();
        let number = |word: &str| -> Result<u8, ParseCodeError> {
            // `parse` would take a sign.
            let is_plain = word.bytes().all(|byte| byte.is_ascii_digit());
            word.parse().ok().filter(|_| is_plain).ok_or(ParseCodeError::Form)
        };
        match (kind, words.as_slice()) {
            ("rs", [data, parities]) => Self::rs(number(data)?.into(), number(parities)?.into()),
            ("lrc", [data, groups, globals, locality @ ..]) => {
                let locality = match locality {
                    [] => None,
                    ["all"] => Some(Locality::All),
                    ["data"] => Some(Locality::Data),
                    _ => return Err(ParseCodeError::Form),
                };
                let shape = LrcShape::find(number(data)?, number(groups)?, number(globals)?, locality);
                shape.map(Self::lrc).ok_or(ParseCodeError::NotOffered)
            }
            _ => Err(ParseCodeError::Form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        let names =
            ["rs:4,3", "rs:10,4", "rs:24,8", "lrc:6,2,2", "lrc:12,2,2", "lrc:12,2,2,data", "lrc:9,3,3"];
        for name in names {
            assert_eq!(name.parse::<CodeSpec>().unwrap().to_string(), name);
        }
        let long = |text: &str| text.parse::<CodeSpec>().unwrap().to_string();
        assert_eq!(long("lrc:12,2,2,all"), "lrc:12,2,2");
        assert_eq!(long("lrc:9,3,3,data"), "lrc:9,3,3");
    }

    #[test]
    fn wrong_names_are_told_why() {
        let text = |text: &str| text.parse::<CodeSpec>().unwrap_err().to_string();
        assert_eq!(text("rs:4,9"), "M is 9: it must be 1 to 8");
        assert_eq!(text("rs:3,4"), "K is 3: it must be 4 to 28");
        assert_eq!(text("rs:29,4"), "K is 29: it must be 4 to 28");
        let local = "local codes are lrc:6,2,2; lrc:12,2,2; lrc:12,2,2,data; lrc:9,3,3; lrc:10,2,4";
        assert_eq!(text("lrc:12,2,4"), local);
        assert_eq!(text("lrc:6,2,2,all"), local);
        for form in
            ["", "rs", "rs:", "rs:4", "rs:4,2,1", "rs:+4,2", "rs:4, 2", "rs:300,2", "lrc:6,2", "lrc:6,2,2,x"]
        {
            assert_eq!(form.parse::<CodeSpec>(), Err(ParseCodeError::Form), "{form}");
        }
    }

    #[test]
    fn counts_are_those_of_the_code() {
        let specs = (1..=8).map(|m| CodeSpec::rs(MAX_MEMBERS - m, m).unwrap());
        for spec in specs.chain(LrcShape::OFFERED.map(CodeSpec::lrc)) {
            let code = spec.code();
            assert_eq!((spec.data(), spec.parities()), (code.data(), code.parities()), "{spec}");
            assert_eq!(spec.members(), code.check().columns());
            assert!(spec.members() <= MAX_MEMBERS && spec.data() >= spec.parities(), "{spec}");
        }
    }
}

//! The kinds of damage, and their names.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kind of damage of a finding. `Consistent` means that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// One data block explains every inconsistent byte.
    Member,
    /// Only the parity of this row disagrees: row 0 is P, row 1 is Q.
    Parity(u8),
    /// One copy differs from all others, which agree.
    Copy,
    /// Copies differ, and nothing shows which is right.
    CopiesDiffer,
    /// A known set of several members explains every inconsistent byte.
    Several,
    /// The stripe is inconsistent; a single parity row cannot show which member is damaged.
    Unlocated,
    /// The stripe is inconsistent and no single explanation fits.
    Ambiguous,
    /// The stripe could not be settled: it may be written.
    Busy,
    /// The medium refuses some of the bytes.
    Unreadable,
    /// The member was not asked for some of the bytes: its error time is spent.
    NotAsked,
    /// The tags of these members differ from data that parity confirms.
    TagDamaged,
    /// The page of tags is lost.
    TagLost,
}

/// The names of parity rows in JSON, and as text. A code has at most 8.
const PARITY: [(&str, &str); 8] = [
    ("parity_p", "P damaged"),
    ("parity_q", "Q damaged"),
    ("parity_2", "parity 2 damaged"),
    ("parity_3", "parity 3 damaged"),
    ("parity_4", "parity 4 damaged"),
    ("parity_5", "parity 5 damaged"),
    ("parity_6", "parity 6 damaged"),
    ("parity_7", "parity 7 damaged"),
];

impl Verdict {
    /// Only P disagrees.
    pub const P: Self = Self::Parity(0);
    /// Only Q disagrees.
    pub const Q: Self = Self::Parity(1);
    /// Verdicts that are not of a parity row.
    const OTHERS: [Self; 11] = [
        Self::Member,
        Self::Copy,
        Self::CopiesDiffer,
        Self::Several,
        Self::Unlocated,
        Self::Ambiguous,
        Self::Busy,
        Self::Unreadable,
        Self::NotAsked,
        Self::TagDamaged,
        Self::TagLost,
    ];

    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Member => ("member", "data damaged"),
            // A matrix has at most 8 rows.
            Self::Parity(row) => PARITY[(row % 8) as usize],
            Self::Copy => ("copy", "one copy differs from the others"),
            Self::CopiesDiffer => ("copies_differ", "copies differ"),
            Self::Several => ("several", "several members damaged"),
            Self::Unlocated => ("unlocated", "inconsistent, member unknown"),
            Self::Ambiguous => ("ambiguous", "inconsistent, ambiguous"),
            Self::Busy => ("busy", "busy"),
            Self::Unreadable => ("unreadable", "unreadable"),
            Self::NotAsked => ("not_asked", "not asked for"),
            Self::TagDamaged => ("tag_damaged", "tag damaged, data good"),
            Self::TagLost => ("tag_lost", "tags lost, data unchecked"),
        }
    }

    /// Returns whether it leaves open which members are damaged.
    #[must_use]
    pub const fn leaves_members_open(self) -> bool {
        matches!(self, Self::Unlocated | Self::Ambiguous | Self::Busy)
    }

    /// Returns whether it concerns copies of a mirror that differ, which alone is not damage.
    #[must_use]
    pub const fn is_of_copies(self) -> bool {
        matches!(self, Self::Copy | Self::CopiesDiffer)
    }

    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.texts().0
    }

    /// The words of a report.
    #[must_use]
    pub const fn words(self) -> &'static str {
        self.texts().1
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Verdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let parities = (0..PARITY.len() as u8).map(Self::Parity);
        let known = Self::OTHERS.into_iter().chain(parities).find(|verdict| verdict.name() == name);
        known.ok_or_else(|| serde::de::Error::custom(format!("'{name}' is not a verdict")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_verdicts_go_both_ways() {
        for verdict in Verdict::OTHERS.into_iter().chain((0..8).map(Verdict::Parity)) {
            let json = serde_json::to_string(&verdict).unwrap();
            assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
        }
        assert_eq!(serde_json::to_string(&[Verdict::P, Verdict::Q]).unwrap(), r#"["parity_p","parity_q"]"#);
        assert!(serde_json::from_str::<Verdict>("\"parity_8\"").is_err());
    }
}

//! The rights of a host: `docs/design/access.md`.

/// A right of a host. Each includes others: see [`Rights::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To read its drives, and to learn about them.
    Read,
    /// To write its drives.
    Write,
    /// To scrub: parity, local memory, paces.
    Scrub,
    /// To put blocks and tags back, and to keep other hosts away meanwhile.
    Repair,
    /// To serve a volume: parity that nodes make and store themselves.
    Serve,
}

impl Right {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Scrub, Self::Repair, Self::Serve];

    /// Its word in `may`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Scrub => "scrub",
            Self::Repair => "repair",
            Self::Serve => "serve",
        }
    }

    /// The bits of this right and of those that it includes.
    const fn bits(self) -> u8 {
        let own = 1 << self as u8;
        match self {
            Self::Read => own,
            Self::Write | Self::Scrub => own | Self::Read.bits(),
            Self::Repair => own | Self::Write.bits() | Self::Scrub.bits(),
            Self::Serve => own | Self::Repair.bits(),
        }
    }
}

/// A set of rights, with all that they include.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// No right.
    pub const NONE: Self = Self(0);
    /// Every right.
    pub const ALL: Self = Self::of(Right::Serve);

    /// This right, and those that it includes: `write` and `scrub` include `read`, `repair` both of
    /// them, `serve` all.
    #[must_use]
    pub const fn of(right: Right) -> Self {
        Self(right.bits())
    }

    /// The rights of either.
    #[must_use]
    pub const fn and_also(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The rights that both have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether it has a right.
    #[must_use]
    pub const fn has(self, right: Right) -> bool {
        self.0 & 1 << right as u8 != 0
    }

    /// Returns whether it has all of others.
    #[must_use]
    pub const fn has_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Parses a list of the words `read`, `write`, `scrub`, `repair` and `serve`.
    ///
    /// # Errors
    /// If the list is empty, or a word is unknown or repeated.
    pub fn parse<T: AsRef<str>>(words: &[T]) -> Result<Self, String> {
        let mut rights = Self::NONE;
        for (i, word) in words.iter().map(AsRef::as_ref).enumerate() {
            let right = Right::ALL.into_iter().find(|right| right.word() == word);
            let right =
                right.ok_or_else(|| format!("'{word}' is not read, write, scrub, repair or serve"))?;
            if words[..i].iter().any(|before| before.as_ref() == word) {
                return Err(format!("'{word}' is given twice"));
            }
            rights = rights.and_also(Self::of(right));
        }
        if rights == Self::NONE {
            return Err("a host has one right at least".to_owned());
        }
        Ok(rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_include_others() {
        let has = |right: Right| Right::ALL.map(|other| Rights::of(right).has(other));
        assert_eq!(has(Right::Read), [true, false, false, false, false]);
        assert_eq!(has(Right::Write), [true, true, false, false, false]);
        assert_eq!(has(Right::Scrub), [true, false, true, false, false]);
        assert_eq!(has(Right::Repair), [true, true, true, true, false]);
        assert_eq!(has(Right::Serve), [true; 5]);
        assert_eq!(Rights::ALL, Rights::of(Right::Serve));
        assert!(!Rights::of(Right::Write).has_all(Rights::of(Right::Scrub)));
    }

    #[test]
    fn words_are_rights() {
        let both = Rights::of(Right::Write).and_also(Rights::of(Right::Scrub));
        assert_eq!(Rights::parse(&["write", "scrub"]), Ok(both));
        assert!(both.has(Right::Read) && !both.has(Right::Repair));
        assert_eq!(Rights::parse(&["serve"]), Ok(Rights::ALL));
        for (words, why) in [
            (&[][..], "one right at least"),
            (&["Read"], "'Read' is not"),
            (&["read", "write", "read"], "'read' is given twice"),
        ] {
            let error = Rights::parse(words).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
    }
}

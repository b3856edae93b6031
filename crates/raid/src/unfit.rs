//! The reason why devices make no array.

/// The reason why devices make no array that can be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unfit {
    /// The reason, with the device and the field.
    pub why: String,
    /// True if the cause may be that somebody writes the structures now, one after another.
    pub may_pass: bool,
}

impl Unfit {
    /// A reason that stays.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), may_pass: false }
    }
}

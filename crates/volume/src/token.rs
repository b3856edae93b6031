//! The writer's token: which of two writers a member obeys.
//!
//! `docs/design/volume-writers.md`, *Writer's token*. This is the rule that a member's node
//! follows, and the rule by which a writer knows that it holds the array.

use crate::rows::{RoleSet, RowLayout};
use pumice_base::units::Role;

/// A claim to write. Higher ones win; the host breaks ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token {
    /// Chosen above every number that was seen.
    pub number: u64,
    /// The host that holds it.
    pub host: u128,
}

/// The token that a member keeps, durably, for one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Guard {
    highest: Token,
    /// Commands that write and are under way.
    under_way: u64,
    /// A token that is to be the highest when nothing is under way.
    raising: Option<Token>,
}

impl Guard {
    /// Returns whether a command that writes under `token` may begin. If so it is under way until
    /// [`end`](Self::end).
    pub fn begin(&mut self, token: Token) -> bool {
        let allowed = token == self.highest && self.raising.is_none();
        self.under_way += u64::from(allowed);
        allowed
    }

    /// A command that was under way is over.
    pub fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// A writer asks for the member. `false`: the member has a token that is as high or higher.
    pub fn raise(&mut self, token: Token) -> bool {
        let above = token > self.highest && self.raising.is_none_or(|raising| token > raising);
        if above {
            self.raising = Some(token);
        }
        above
    }

    /// The token to be made durable and answered now: nothing under a lower one is under way any
    /// more.
    pub fn raised(&mut self) -> Option<Token> {
        if self.under_way > 0 {
            return None;
        }
        let token = self.raising.take()?;
        self.highest = token;
        Some(token)
    }

    /// The highest token.
    #[must_use]
    pub const fn highest(&self) -> Token {
        self.highest
    }
}

/// Returns whether `held` members of `members` are more than half.
#[must_use]
pub const fn is_majority(held: u16, members: u16) -> bool {
    held as u32 * 2 > members as u32
}

/// Returns whether a writer whose token the members `held` have holds the array: they are a
/// majority, and the blocks of the others follow from theirs.
#[must_use]
pub fn holds(layout: &dyn RowLayout, held: &RoleSet) -> bool {
    let others: RoleSet = (0..layout.members()).map(Role).filter(|role| !held.contains(role)).collect();
    let here = layout.members() - others.len() as u16;
    is_majority(here, layout.members()) && layout.corrects(&others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn token(number: u64, host: u128) -> Token {
        Token { number, host }
    }

    #[test]
    fn raising_waits_for_what_is_under_way_and_shuts_out_lower_ones() {
        let mut guard = Guard::default();
        assert!(guard.raise(token(1, 7)));
        assert_eq!(guard.raised(), Some(token(1, 7)));
        assert!(guard.begin(token(1, 7)));
        assert!(guard.raise(token(1, 8)), "the host breaks the tie");
        assert!(!guard.begin(token(1, 7)), "nothing new while it waits");
        assert!(!guard.raise(token(1, 7)));
        assert_eq!(guard.raised(), None);
        guard.end();
        assert_eq!(guard.raised(), Some(token(1, 8)));
        assert!(!guard.begin(token(1, 7)) && guard.begin(token(1, 8)));
        assert_eq!(guard.highest(), token(1, 8));
    }
}

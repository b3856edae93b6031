//! Rules of a state machine, one of which a test may leave out.
//!
//! A test that leaves a rule out, and sees data lost or an assertion fail, shows that the rule is
//! needed. That takes the feature `mutants`. `cargo xtask tidy` sees to it that only
//! dev-dependencies enable it, and that only tests call what it adds. Without the feature nothing
//! can be left out: a [`Rules`] has no bytes, and [`keep`](Rules::keep) is `true` when the code is
//! compiled.

use std::marker::PhantomData;

/// The rules that a state machine keeps: all rules of an enumeration `R`, but for one that a test
/// may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules<R> {
    #[cfg(feature = "mutants")]
    left_out: Option<(R, Asserts)>,
    rules: PhantomData<R>,
}

/// Assertions of a state machine that leaves a rule out.
#[cfg(feature = "mutants")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asserts {
    Checked,
    Silent,
}

impl<R> Default for Rules<R> {
    fn default() -> Self {
        Self::all()
    }
}

impl<R> Rules<R> {
    /// All rules.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            #[cfg(feature = "mutants")]
            left_out: None,
            rules: PhantomData,
        }
    }

    /// Returns whether assertions are to be checked. They are, but in a test that leaves a rule out
    /// to see what is lost without it.
    #[must_use]
    #[cfg_attr(not(feature = "mutants"), expect(clippy::unused_self, reason = "all rules are kept"))]
    pub const fn are_asserted(&self) -> bool {
        #[cfg(feature = "mutants")]
        if let Some((_, Asserts::Silent)) = self.left_out {
            return false;
        }
        true
    }
}

impl<R: Copy + PartialEq> Rules<R> {
    /// Returns whether a rule is kept.
    #[cfg(not(feature = "mutants"))]
    #[must_use]
    #[expect(clippy::unused_self, reason = "all rules are kept")]
    pub const fn keep(&self, _: R) -> bool {
        true
    }

    /// Returns whether a rule is kept: each is, but for one that a test leaves out.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn keep(&self, rule: R) -> bool {
        self.left_out.is_none_or(|(left_out, _)| left_out != rule)
    }

    /// All rules but one. Assertions are checked: the test expects one of them to fail.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub const fn without(rule: R) -> Self {
        Self { left_out: Some((rule, Asserts::Checked)), rules: PhantomData }
    }

    /// All rules but one. Assertions are not checked: the test expects data to be lost.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub const fn silently_without(rule: R) -> Self {
        Self { left_out: Some((rule, Asserts::Silent)), rules: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Rule {
        One,
        Two,
    }

    #[test]
    fn all_rules_are_kept_and_asserted() {
        let rules = Rules::all();
        assert!(rules.keep(Rule::One) && rules.keep(Rule::Two) && rules.are_asserted());
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn one_rule_can_be_left_out() {
        let (loud, silent) = (Rules::without(Rule::One), Rules::silently_without(Rule::One));
        assert!(!loud.keep(Rule::One) && loud.keep(Rule::Two) && loud.are_asserted());
        assert!(!silent.keep(Rule::One) && silent.keep(Rule::Two) && !silent.are_asserted());
    }
}

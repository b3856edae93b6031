//! Assertions of rules fail when a rule is left out: each names the rule that is broken.

use super::{Rule, Rules, Shape, round};
use std::panic::catch_unwind;

#[test]
fn assertions_name_the_rule_that_is_broken() {
    for (rule, name) in
        [(Rule::LogFirst, "T5"), (Rule::Locks, "T6"), (Rule::RefusedIsOpen, "T8"), (Rule::CopyFirst, "T13")]
    {
        // A round that ends with lost data before an assertion fails is passed over.
        let panic = |seed| catch_unwind(|| drop(round(seed, Shape::Sectors, Rules::without(rule)))).err();
        let panic = (0..300).find_map(panic).unwrap_or_else(|| panic!("{rule:?}: nothing fails"));
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_default();
        println!("{rule:?}: {text}");
        assert!(text.starts_with(&format!("{name}: ")), "{rule:?} left out, {name} expected: {text}");
    }
}

//! Separation of the product's sources from tests.

use super::Tree;
use super::lexer::test_modules;
use super::paths::{crate_of, module_of};
use std::collections::BTreeSet;

/// The sources in `src` folders that are no tests: neither in a folder or file `tests`, nor a
/// module that is declared under `#[cfg(test)]`, nor below such a module.
pub(crate) fn production(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let mut tests: BTreeSet<(&str, Vec<String>)> = BTreeSet::new();
    for (path, text) in tree {
        if let (Some(of), Some(at)) = (crate_of(path), module_of(path)) {
            tests.extend(test_modules(text).into_iter().map(|name| {
                let mut module = at.clone();
                module.push(name);
                (of, module)
            }));
        }
    }
    tree.iter().map(|(path, text)| (path.as_str(), text.as_str())).filter(move |(path, _)| {
        let (Some(of), Some(at)) = (crate_of(path), module_of(path)) else { return false };
        path.ends_with(".rs") && !(1..=at.len()).any(|len| tests.contains(&(of, at[..len].to_vec())))
    })
}

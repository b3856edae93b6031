//! Rules that are asserted have a row in a page, and the switch that leaves rules out is for tests.

use super::Verdict;
use super::paths::crate_of;
use super::{Tree, text};
use std::collections::BTreeMap;

/// Functions that only tests may call: they leave a rule out.
const SWITCHES: [&str; 3] = ["Rules::without", "Rules::silently_without", ".under(Rules"];
/// The feature behind which these are.
const FEATURE: &str = "mutants";

/// Checks the repository.
pub(super) fn check(tree: &Tree, verdict: &mut Verdict) {
    let rows = rows(tree);
    for (path, source) in tree {
        if path.ends_with("Cargo.toml") {
            manifest(path, source, verdict);
        }
        let is_product = crate_of(path).is_some() && path.starts_with("crates/") && path.contains("/src/");
        if !is_product || !path.ends_with(".rs") || text::is_test(path) {
            continue;
        }
        for (at, line) in (1..).zip(source.lines()) {
            for number in numbers(line) {
                match rows.get(&number).map(Vec::as_slice) {
                    None => {
                        verdict
                            .wrong(format!("{path}:{at}: no page has a row '| {number} |' with this rule"));
                    }
                    Some([_]) => {}
                    Some(pages) => {
                        verdict.wrong(format!(
                            "{path}:{at}: rule {number} has several rows: {}",
                            pages.join(", ")
                        ));
                    }
                }
            }
        }
        if !path.starts_with("crates/units/") && !is_simulation(path) {
            switches(path, source, verdict);
        }
    }
}

/// Returns whether a module is compiled for tests alone, by the name of its folder.
fn is_simulation(path: &str) -> bool {
    path.contains("/simulation/") || path.ends_with("/simulation.rs")
}

/// The numbers of rules in rows of pages, with the pages.
fn rows(tree: &Tree) -> BTreeMap<String, Vec<&str>> {
    let mut rows: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, page) in tree.iter().filter(|(path, _)| path.starts_with("docs/") && path.ends_with(".md")) {
        for line in page.lines().filter_map(|line| line.strip_prefix("| ")) {
            let number = line.split(' ').next().unwrap_or_default();
            if is_number(number) && line.contains('`') {
                rows.entry(number.to_owned()).or_default().push(path);
            }
        }
    }
    rows
}

/// Returns whether a word is the number of a rule: a capital letter, and digits.
fn is_number(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_uppercase())
        && word.len() > 1
        && bytes.all(|byte| byte.is_ascii_digit())
}

/// The numbers with which strings of a line begin: `"V12: …"`.
fn numbers(line: &str) -> impl Iterator<Item = String> {
    let strings = line.split('"').skip(1);
    strings
        .filter_map(|string| string.split_once(": "))
        .map(|(number, _)| number.to_owned())
        .filter(|n| is_number(n))
}

/// The feature is named by itself and by dev-dependencies alone.
fn manifest(path: &str, source: &str, verdict: &mut Verdict) {
    let mut table = "";
    for (at, line) in (1..).zip(source.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']);
        }
        let is_own = table == "features" && line.starts_with(FEATURE);
        if line.contains(FEATURE) && !is_own && !table.starts_with("dev-dependencies") {
            verdict.wrong(format!("{path}:{at}: '{FEATURE}' is for dev-dependencies: data are lost with it"));
        }
    }
}

/// No code of the product leaves a rule out.
fn switches(path: &str, source: &str, verdict: &mut Verdict) {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    for (at, line) in (1..).zip(product.lines()) {
        if SWITCHES.iter().any(|switch| line.contains(switch)) {
            verdict.wrong(format!("{path}:{at}: only tests leave rules out"));
        }
    }
}

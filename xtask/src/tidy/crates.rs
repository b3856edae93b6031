//! The floors of crates.

use super::rules::Rules;
use super::{Tree, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Checks what each crate depends on. What its tests depend on is not looked at.
pub(super) fn check(tree: &Tree, rules: &Rules, verdict: &mut Verdict) {
    let mut floors: BTreeMap<&str, usize> = BTreeMap::new();
    for (floor, crates) in rules.floors.iter().enumerate() {
        for name in crates {
            if floors.insert(name, floor).is_some() {
                verdict.wrong(format!("{}: floors: '{name}' is listed twice", super::RULES));
            }
            if !tree.contains_key(&format!("crates/{name}/Cargo.toml")) {
                verdict.wrong(format!("{}: floors: there is no crate '{name}'", super::RULES));
            }
        }
    }
    for (path, text) in tree {
        let name = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"));
        let Some(name) = name else { continue };
        let Some(floor) = floors.get(name) else {
            verdict.wrong(format!("{path}: '{name}' is on no floor of {}", super::RULES));
            continue;
        };
        for dependency in dependencies(text) {
            match floors.get(dependency.as_str()) {
                Some(below) if below < floor => {}
                Some(_) => verdict.wrong(format!("{path}: '{name}' is not above '{dependency}'")),
                None => verdict.wrong(format!("{path}: '{dependency}' is on no floor")),
            }
        }
    }
}

/// The crates of this repository that a manifest depends on.
fn dependencies(manifest: &str) -> Vec<String> {
    let table: toml::Table = manifest.parse().unwrap_or_default();
    let names =
        ["dependencies", "build-dependencies"].into_iter().filter_map(|key| table.get(key)?.as_table());
    names
        .flat_map(|table| table.keys())
        .filter_map(|name| match name.as_str() {
            // The package of the program is called after it.
            "pumice" => Some("cli".to_owned()),
            name => name.strip_prefix("pumice-").map(str::to_owned),
        })
        .collect()
}

/// The page with the map of the crates: a table with the columns *crate*, *contents*, *uses*.
const MAP: &str = "ARCHITECTURE.md";

/// Checks that the map says what each crate depends on. Words in brackets are remarks, and "all
/// ..." is not looked at.
pub(super) fn map(tree: &Tree, verdict: &mut Verdict) {
    let Some(page) = tree.get(MAP) else { return };
    let mut rows: BTreeMap<&str, &str> = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", name, _, uses, ""] = cells[..]
            && let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'))
        {
            rows.insert(name, uses);
        }
    }
    for (path, text) in tree {
        let name = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"));
        let Some(name) = name else { continue };
        let Some(uses) = rows.get(name) else {
            verdict.wrong(format!("{MAP}: the table of crates has no '{name}'"));
            continue;
        };
        let without_remarks: String =
            uses.split('(').map(|part| part.rsplit(')').next().unwrap_or(part)).collect();
        let told: BTreeSet<&str> = without_remarks
            .split(|c: char| !c.is_ascii_lowercase())
            .filter(|word| !word.is_empty())
            .collect();
        let known = dependencies(text);
        let real: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        if !uses.starts_with("all ") && told != real {
            verdict.wrong(format!("{MAP}: '{name}' uses {real:?}, and the table says {told:?}"));
        }
    }
}

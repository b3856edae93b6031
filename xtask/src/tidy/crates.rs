//! The floors of crates.

use super::rules::Rules;
use super::{Tree, Verdict};
use std::collections::BTreeMap;

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
pub(super) fn dependencies(manifest: &str) -> Vec<String> {
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

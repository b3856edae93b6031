//! The table of crates in ARCHITECTURE.md.

use super::crates::dependencies;
use super::rules::Rules;
use super::{RULES, Tree, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The page with the table of crates: its columns are *crate*, *contents*, *uses*.
const MAP: &str = "ARCHITECTURE.md";

/// Rows of the table, in their order: a crate and the cell *uses*.
fn rows(page: &str) -> Vec<(&str, &str)> {
    let cells = page.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<&str>>());
    cells
        .filter_map(|cells| match cells[..] {
            ["", name, _, uses, ""] => Some((name.strip_prefix('`')?.strip_suffix('`')?, uses)),
            _ => None,
        })
        // Tables of files follow.
        .filter(|(name, _)| !name.contains(['/', '.', ' ']))
        .collect()
}

/// Checks that the table has the crates of the floors, the lowest floor first, and says what each
/// depends on. Words in brackets are remarks, and "all ..." is not looked at.
pub(super) fn check(tree: &Tree, rules: &Rules, verdict: &mut Verdict) {
    let Some(page) = tree.get(MAP) else { return };
    let rows = rows(page);
    let listed: BTreeMap<&str, &str> = rows.iter().copied().collect();
    if listed.len() != rows.len() {
        verdict.wrong(format!("{MAP}: the table of crates has a crate twice"));
    }
    order(&rows, rules, verdict);
    for (path, text) in tree {
        let name = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"));
        let Some(name) = name else { continue };
        let Some(uses) = listed.get(name) else {
            verdict.wrong(format!("{MAP}: the table of crates has no '{name}'"));
            continue;
        };
        let without_remarks: String =
            uses.split('(').map(|part| part.rsplit(')').next().unwrap_or(part)).collect();
        let named: BTreeSet<&str> = without_remarks
            .split(|c: char| !c.is_ascii_lowercase())
            .filter(|word| !word.is_empty())
            .collect();
        let known = dependencies(text);
        let real: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        if !uses.starts_with("all ") && named != real {
            verdict.wrong(format!("{MAP}: '{name}' uses {real:?}, and the table says {named:?}"));
        }
    }
}

/// Checks that the rows go up the floors. The row of `xtask`, which is on no floor, is free.
fn order(rows: &[(&str, &str)], rules: &Rules, verdict: &mut Verdict) {
    let mut highest = (0, "");
    for (name, _) in rows.iter().filter(|(name, _)| *name != "xtask") {
        let Some(floor) = floor_of(name, rules) else {
            verdict.wrong(format!("{MAP}: '{name}' is on no floor of {RULES}"));
            continue;
        };
        if floor < highest.0 {
            let above = highest.1;
            verdict.wrong(format!(
                "{MAP}: '{name}' is below '{above}' in the floors, and after it in the table"
            ));
        } else {
            highest = (floor, name);
        }
    }
}

fn floor_of(name: &str, rules: &Rules) -> Option<usize> {
    rules.floors.iter().position(|floor| floor.iter().any(|one| one == name))
}

/// The floors, the lowest first: a line each, with its crates in the order of the table.
pub(super) fn floors(tree: &Tree, rules: &Rules) -> String {
    let rows = tree.get(MAP).map(|page| rows(page)).unwrap_or_default();
    let mut out = String::new();
    for number in 0..rules.floors.len() {
        let crates: Vec<&str> =
            rows.iter().map(|(name, _)| *name).filter(|name| floor_of(name, rules) == Some(number)).collect();
        let _ = writeln!(out, "{number}: {}", crates.join(" "));
    }
    out
}

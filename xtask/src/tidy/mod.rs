//! Rules of the house that no linter knows. `xtask/tidy.toml` lists them.

mod asserted;
mod crates;
mod functions;
mod lexer;
mod lines;
mod map;
mod modules;
mod pages;
mod paths;
mod purity;
mod questions;
mod rules;
mod sources;
mod text;

pub(crate) use lines::lines;

use crate::run::Failed;
use rules::Rules;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// File of the rules.
const RULES: &str = "xtask/tidy.toml";
/// Files and folders that are read, from the root of the repository.
const ROOTS: [&str; 8] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "crates", "docs", "fuzz", "xtask"];

/// The files of the repository that the rules are about: their paths from its root, and their text.
type Tree = BTreeMap<String, String>;

/// Breaches of the rules, and the exceptions that were needed.
#[derive(Debug, Default)]
struct Verdict {
    wrong: Vec<String>,
    /// Entries of the lists of exceptions that are still true.
    used: BTreeSet<(&'static str, String)>,
}

impl Verdict {
    fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// Reports `what`, unless the list `list` excepts `entry`.
    fn unless(&mut self, list: &'static str, excepted: &BTreeSet<String>, entry: &str, what: String) {
        if excepted.contains(entry) {
            self.used.insert((list, entry.to_owned()));
        } else {
            self.wrong.push(what);
        }
    }

    /// Reports the exceptions that nothing needs any more: the lists only shrink.
    fn stale(&mut self, list: &'static str, excepted: &BTreeSet<String>) {
        for entry in excepted {
            if !self.used.contains(&(list, entry.clone())) {
                let what = "nothing needs this exception any more: remove it";
                self.wrong.push(format!("{RULES}: {list}: '{entry}': {what}"));
            }
        }
    }
}

/// Checks the repository. With `--print`, prints the floors and their crates instead.
pub(crate) fn tidy(rest: &[String]) -> Result<(), Failed> {
    let print = match rest {
        [] => false,
        [option] if option == "--print" => true,
        _ => return Err(Failed("usage: cargo xtask tidy [--print]".to_owned())),
    };
    let text = fs::read_to_string(RULES)
        .map_err(|error| Failed(format!("{RULES}: {error}; run it at the root of the repository")))?;
    let rules = Rules::parse(&text).map_err(|error| Failed(format!("{RULES}: {error}")))?;
    let mut tree = Tree::new();
    for root in ROOTS {
        read(Path::new(root), &mut tree).map_err(|error| Failed(format!("{root}: {error}")))?;
    }
    if print {
        print!("{}", map::floors(&tree, &rules));
        return Ok(());
    }
    let wrong = check(&tree, &rules);
    if wrong.is_empty() { Ok(()) } else { Err(Failed(format!("\n{}", wrong.join("\n")))) }
}

fn read(path: &Path, tree: &mut Tree) -> std::io::Result<()> {
    if path.is_dir() {
        if path.ends_with("target") {
            return Ok(());
        }
        for entry in fs::read_dir(path)? {
            read(&entry?.path(), tree)?;
        }
    } else if path.extension().is_some_and(|e| e == "rs" || e == "md") || path.ends_with("Cargo.toml") {
        tree.insert(path.to_string_lossy().into_owned(), fs::read_to_string(path)?);
    }
    Ok(())
}

/// Checks a tree: a line for each breach.
fn check(tree: &Tree, rules: &Rules) -> Vec<String> {
    let mut verdict = Verdict::default();
    crates::check(tree, rules, &mut verdict);
    asserted::check(tree, &mut verdict);
    map::check(tree, rules, &mut verdict);
    modules::check(tree, rules, &mut verdict);
    functions::check(tree, rules, &mut verdict);
    purity::listed(tree, rules, &mut verdict);
    for (path, text) in tree {
        text::check(path, text, rules, &mut verdict);
        purity::check(path, text, rules, &mut verdict);
        questions::check(path, text, rules, &mut verdict);
        pages::check(path, text, tree, &mut verdict);
    }
    verdict.stale("long", &rules.long);
    verdict.stale("wide", &rules.wide);
    verdict.stale("upward", &rules.upward);
    verdict.stale("circles", &rules.circles);
    verdict.stale("long_functions", &rules.long_functions);
    verdict.stale("questions", &rules.questions);
    verdict.wrong
}

#[cfg(test)]
mod tests;

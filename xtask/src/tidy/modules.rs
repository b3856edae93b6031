//! The order of modules inside crates.

use super::paths::{crate_of, imports, module_of, named};
use super::rules::Rules;
use super::{RULES, Tree, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// A file of a crate, as a module.
struct Module<'t> {
    path: &'t str,
    text: &'t str,
    at: Vec<String>,
}

/// The modules that lie side by side in a folder, and who imports whom.
#[derive(Debug, Default)]
struct Folder {
    modules: BTreeSet<String>,
    /// From, to, and a file that imports.
    imports: BTreeMap<(String, String), String>,
}

/// Checks every folder of modules: by its list if it has one, else that no two modules import one
/// another, directly or by others.
pub(super) fn check(tree: &Tree, rules: &Rules, verdict: &mut Verdict) {
    let folders = folders(tree);
    for (name, folder) in &folders {
        match rules.modules.get(name) {
            Some(order) => listed(name, folder, order, rules, verdict),
            None => free(name, folder, rules, verdict),
        }
    }
    for name in rules.modules.keys().filter(|name| !folders.contains_key(*name)) {
        verdict.wrong(format!("{RULES}: modules: there is no folder '{name}'"));
    }
}

/// A folder whose modules are listed in their order.
fn listed(name: &str, folder: &Folder, order: &[String], rules: &Rules, verdict: &mut Verdict) {
    let place: BTreeMap<&str, usize> = order.iter().enumerate().map(|(i, m)| (m.as_str(), i)).collect();
    if place.len() != order.len() {
        verdict.wrong(format!("{RULES}: modules: '{name}' lists a module twice"));
    }
    for module in order.iter().filter(|module| !folder.modules.contains(*module)) {
        verdict.wrong(format!("{RULES}: modules: '{name}' has no module '{module}'"));
    }
    for module in folder.modules.iter().filter(|module| !place.contains_key(module.as_str())) {
        verdict.wrong(format!("{RULES}: modules: '{name}' does not list the module '{module}'"));
    }
    for ((from, to), path) in &folder.imports {
        let (Some(above), Some(below)) = (place.get(from.as_str()), place.get(to.as_str())) else { continue };
        if below >= above {
            let entry = format!("{name}: {from} -> {to}");
            let what = format!("{path}: '{from}' imports '{to}', which is above it in '{name}'");
            verdict.unless("upward", &rules.upward, &entry, what);
        }
    }
}

/// A folder without a list.
fn free(name: &str, folder: &Folder, rules: &Rules, verdict: &mut Verdict) {
    let reach = |from: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut left = vec![from];
        while let Some(at) = left.pop() {
            for (_, to) in folder.imports.keys().filter(|(one, _)| one == at) {
                if seen.insert(to) {
                    left.push(to);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        folder.modules.iter().map(|m| (m.as_str(), reach(m))).collect();
    for (one, there) in &reach {
        for other in there.iter().filter(|other| *one < **other && reach[**other].contains(one)) {
            let entry = format!("{name}: {one}, {other}");
            let what = format!("{name}: '{one}' and '{other}' import one another, directly or by others");
            verdict.unless("circles", &rules.circles, &entry, what);
        }
    }
}

/// Every folder of modules, by its name: the crate, and the path from its root.
fn folders(tree: &Tree) -> BTreeMap<String, Folder> {
    let mut crates: BTreeMap<&str, Vec<Module<'_>>> = BTreeMap::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".rs")) {
        if let (Some(of), Some(at)) = (crate_of(path), module_of(path)) {
            crates.entry(of).or_default().push(Module { path, text, at });
        }
    }
    let mut out = BTreeMap::new();
    for (of, modules) in crates {
        let all: BTreeSet<&[String]> = modules.iter().map(|module| module.at.as_slice()).collect();
        let roots: BTreeSet<&[String]> =
            all.iter().filter(|at| !at.is_empty()).map(|at| &at[..at.len() - 1]).collect();
        let paths: Vec<(&Module<'_>, Vec<Vec<String>>)> =
            modules.iter().map(|module| (module, named(&module.at, module.text))).collect();
        for root in roots {
            let name = [&[of.to_owned()], root].concat().join("/");
            out.insert(name, folder(root, &all, &paths));
        }
    }
    out
}

fn folder(root: &[String], all: &BTreeSet<&[String]>, paths: &[(&Module<'_>, Vec<Vec<String>>)]) -> Folder {
    let depth = root.len();
    let below = |path: &[String]| path.len() > depth && path.starts_with(root);
    let modules: BTreeSet<String> = all.iter().filter(|at| below(at)).map(|at| at[depth].clone()).collect();
    let mut folder = Folder { modules, imports: BTreeMap::new() };
    // Names that the folder's own file takes from its modules: who imports a name from that file
    // imports the module.
    let mut brought: BTreeMap<String, String> = BTreeMap::new();
    for (module, _) in paths.iter().filter(|(module, _)| module.at == root) {
        for mut path in imports(module.text) {
            if path.first().is_some_and(|step| step == "self") {
                path.remove(0);
            }
            if let (Some(first), Some(last)) = (path.first(), path.last())
                && folder.modules.contains(first)
            {
                brought.insert(last.clone(), first.clone());
            }
        }
    }
    for (module, named) in paths.iter().filter(|(module, _)| below(&module.at)) {
        for path in named.iter().filter(|path| below(path)) {
            let from = &module.at[depth];
            let first = &path[depth];
            let to = if folder.modules.contains(first) { Some(first) } else { brought.get(first) };
            if let Some(to) = to.filter(|to| *to != from) {
                let edge = (from.clone(), to.clone());
                folder.imports.entry(edge).or_insert_with(|| module.path.to_owned());
            }
        }
    }
    folder
}

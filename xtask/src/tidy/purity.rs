//! Parts of the world that a crate may use: clocks, threads, files, `unsafe`.

use super::rules::Rules;
use super::{RULES, Tree, Verdict};
use std::collections::BTreeSet;

const IMPURE: [&str; 4] = ["std::time::Instant", "SystemTime", "std::thread", "std::fs"];

/// Checks one file.
pub(super) fn check(path: &str, text: &str, rules: &Rules, verdict: &mut Verdict) {
    let Some(of) = module_in(path) else { return };
    let is_in = |list: &BTreeSet<String>| list.iter().any(|module| is_within(&of, module));
    let is_pure = is_in(&rules.pure) && !is_in(&rules.impure);
    let is_unsafe = is_in(&rules.may_be_unsafe);
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    for (number, line) in code {
        let at = number + 1;
        if is_pure && IMPURE.iter().any(|word| line.contains(word)) {
            verdict.wrong(format!("{path}:{at}: '{of}' is pure; time and files come in as arguments"));
        }
        if !is_unsafe && line.contains("unsafe ") {
            verdict.wrong(format!("{path}:{at}: 'unsafe' is for the crates listed in may_be_unsafe"));
        }
        if line.contains("#[allow(") {
            verdict.wrong(format!("{path}:{at}: #[expect(lint, reason = \"…\")] instead of allow"));
        }
    }
}

/// Checks that each crate and module on the lists is there.
pub(super) fn listed(tree: &Tree, rules: &Rules, verdict: &mut Verdict) {
    for module in rules.pure.iter().chain(&rules.impure).chain(&rules.may_be_unsafe) {
        let is_crate = tree.contains_key(&format!("crates/{module}/Cargo.toml"));
        if !is_crate && !tree.keys().any(|path| module_in(path).is_some_and(|of| is_within(&of, module))) {
            verdict.wrong(format!("{RULES}: there is no crate or module '{module}'"));
        }
    }
}

/// The crate of a file, and its module in it: `base/units` for `crates/base/src/units.rs`.
fn module_in(path: &str) -> Option<String> {
    let (of, inside) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    Some(if matches!(inside, "lib" | "main") { of.to_owned() } else { format!("{of}/{inside}") })
}

/// True if a module is another, or one below it.
fn is_within(module: &str, other: &str) -> bool {
    module.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

//! Lengths of functions.

use super::lexer::functions;
use super::rules::Rules;
use super::{Tree, Verdict, sources};

/// Checks the production functions of all crates.
pub(super) fn check(tree: &Tree, rules: &Rules, verdict: &mut Verdict) {
    for (path, text) in sources::production(tree) {
        for function in functions(text).into_iter().filter(|f| f.lines > rules.max_function_lines) {
            let entry = format!("{path}: {}", function.name);
            let (line, lines, max) = (function.line, function.lines, rules.max_function_lines);
            let what = format!(
                "{path}:{line}: function '{}' has {lines} lines; past {max} it must be cut into steps",
                function.name
            );
            verdict.unless("long_functions", &rules.long_functions, &entry, what);
        }
    }
}

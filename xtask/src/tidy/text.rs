//! Lengths of files, and columns of prose and comments.

use super::Verdict;
use super::rules::Rules;

/// Returns whether a file holds nothing but tests.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/benches/")
}

/// Checks one file.
pub(super) fn check(path: &str, text: &str, rules: &Rules, verdict: &mut Verdict) {
    let lines = text.lines().count();
    if path.ends_with(".rs") {
        let max = if is_test(path) { rules.max_test_lines } else { rules.max_lines };
        if lines > max {
            let what = format!("{path}: {lines} lines; past {max} it must be split");
            verdict.unless("long", &rules.long, path, what);
        }
    }
    let wide = if path.ends_with(".rs") {
        first_wide(comments(text), rules.max_columns)
    } else if path.ends_with(".md") {
        first_wide(prose(text), rules.max_columns)
    } else {
        None
    };
    if let Some((line, columns)) = wide {
        let max = rules.max_columns;
        let what = format!("{path}:{line}: {columns} columns; prose and comments are wrapped at {max}");
        verdict.unless("wide", &rules.wide, path, what);
    }
}

fn first_wide<'t>(lines: impl Iterator<Item = (usize, &'t str)>, max: usize) -> Option<(usize, usize)> {
    lines.map(|(number, line)| (number + 1, line.chars().count())).find(|(_, columns)| *columns > max)
}

/// The lines of a source that are comments and nothing else, but for tables and code in them.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            code = false;
            return false;
        };
        let start = comment.trim_start_matches(['/', '!', ' ']);
        if start.starts_with("```") {
            code = !code;
            return false;
        }
        !code && !start.starts_with('|')
    })
}

/// The lines of a page that can be wrapped: no tables, no code, no link that fills a line.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let start = line.trim_start();
        if start.starts_with("```") {
            code = !code;
            return false;
        }
        !code && !start.starts_with('|') && start.trim_start_matches(['*', '-', ' ']).contains(' ')
    })
}

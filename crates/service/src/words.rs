//! Words that texts have in common.

/// A number and its noun: `1 stripe`, `2 stripes`.
#[must_use]
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

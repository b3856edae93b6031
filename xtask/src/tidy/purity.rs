//! Parts of the world that a crate may use: clocks, threads, files, `unsafe`.

use super::Verdict;
use super::paths::crate_of;
use super::rules::Rules;

const IMPURE: [&str; 4] = ["std::time::Instant", "SystemTime", "std::thread", "std::fs"];

/// Checks one file.
pub(super) fn check(path: &str, text: &str, rules: &Rules, verdict: &mut Verdict) {
    let Some(of) = crate_of(path)
        .filter(|_| path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs"))
    else {
        return;
    };
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    for (number, line) in code {
        let at = number + 1;
        if rules.pure.contains(of) && IMPURE.iter().any(|word| line.contains(word)) {
            verdict.wrong(format!("{path}:{at}: '{of}' is pure; time and files come in as arguments"));
        }
        if !rules.may_be_unsafe.contains(of) && line.contains("unsafe ") {
            verdict.wrong(format!("{path}:{at}: 'unsafe' is for the crates listed in may_be_unsafe"));
        }
        if line.contains("#[allow(") {
            verdict.wrong(format!("{path}:{at}: #[expect(lint, reason = \"…\")] instead of allow"));
        }
    }
}

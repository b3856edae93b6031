//! First words of doc comments: a thing or an action, no question.

use super::Verdict;
use super::rules::Rules;

/// Words that ask, or that put a clause in place of a noun.
const QUESTIONS: [&str; 16] = [
    "What",
    "Whatever",
    "Who",
    "Whom",
    "Whose",
    "Whoever",
    "Which",
    "Whichever",
    "When",
    "Whenever",
    "Where",
    "Wherever",
    "Why",
    "How",
    "Whether",
    "If",
];
/// Pairs of words that do the same.
const PAIRS: [[&str; 2]; 4] = [["That", "which"], ["That", "what"], ["Those", "who"], ["Those", "that"]];

/// Checks the doc comments of one file. An exception is a file or a folder.
pub(super) fn check(path: &str, text: &str, rules: &Rules, verdict: &mut Verdict) {
    if !path.ends_with(".rs") {
        return;
    }
    let exception = rules.questions.iter().find(|entry| {
        path.strip_prefix(entry.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    for (line, first) in first_lines(text) {
        let mut words = first.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let (Some(one), two) = (words.next(), words.next()) else { continue };
        if QUESTIONS.contains(&one) || two.is_some_and(|two| PAIRS.contains(&[one, two])) {
            let what =
                format!("{path}:{line}: a doc comment begins with a thing or an action, not with '{one}'");
            let entry = exception.map_or(path, String::as_str);
            verdict.unless("questions", &rules.questions, entry, what);
        }
    }
}

/// The first line of each doc comment, without its mark.
fn first_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut before = "";
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim_start();
        let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark)).unwrap_or("");
        let is_first = !mark.is_empty() && mark != before && !line.starts_with("////");
        before = mark;
        is_first.then(|| (number + 1, line[mark.len()..].trim_start()))
    })
}

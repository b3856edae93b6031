//! Files, folders and functions that pages name in code spans.
//!
//! A span that begins with a folder of the repository and is a source or a folder of sources must
//! exist. With a colon behind a source it names an item of it: `crates/x/src/y.rs:function`.

use super::lexer::{Token, all};
use super::{Tree, Verdict};

/// Folders whose sources are in the tree.
const FOLDERS: [&str; 3] = ["crates/", "xtask/", "fuzz/"];
/// Keywords before the name of an item.
const ITEMS: [&str; 10] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"];

/// Checks one page.
pub(super) fn check(path: &str, text: &str, tree: &Tree, verdict: &mut Verdict) {
    if !path.ends_with(".md") {
        return;
    }
    for (line, span) in spans(text) {
        if !FOLDERS.iter().any(|folder| span.starts_with(folder)) || span.contains([' ', '*', '{', '<']) {
            continue;
        }
        let (file, item) = match span.split_once(".rs:") {
            Some((stem, item)) => (format!("{stem}.rs"), Some(item)),
            None => (span.to_owned(), None),
        };
        let Some(source) = tree.get(&file) else {
            // Of other folders the tree has a part only.
            let folder = format!("{}/", file.trim_end_matches('/'));
            let is_source = file.ends_with(".rs") || folder.contains("/src/");
            if is_source && !tree.keys().any(|path| path.starts_with(&folder)) {
                verdict.wrong(format!("{path}:{line}: there is no '{file}'"));
            }
            continue;
        };
        if let Some(item) = item.filter(|item| !defines(source, item)) {
            verdict.wrong(format!("{path}:{line}: '{file}' has no item '{item}'"));
        }
    }
}

/// The code spans of a page that lie within one line, outside code blocks.
fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    let prose = text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    prose.flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |span| (number + 1, span)))
}

/// Returns whether a source defines an item: `name`, or `Type::name`, whose last name counts.
fn defines(source: &str, item: &str) -> bool {
    let name = item.trim_end_matches("()").rsplit("::").next().unwrap_or(item);
    let tokens = all(source);
    tokens.windows(3).any(|three| {
        let word = |at: usize| match &three[at].token {
            Token::Word(word) => word.as_str(),
            _ => "",
        };
        ITEMS.contains(&word(0))
            && (word(1) == name || (three[1].token == Token::Sign('!') && word(2) == name))
    })
}

//! The paths of modules that a source names: `crate::…`, `super::…` and `self::…`, in imports and
//! elsewhere.

use super::lexer::{Token, tokens};

/// The crate that a file belongs to.
pub(super) fn crate_of(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    match parts.next()? {
        "crates" => parts.next(),
        "xtask" => Some("xtask"),
        _ => None,
    }
}

/// The module that a file of a crate is, from the crate's root: empty for the root itself. `None`
/// for a file that is no module of the product.
pub(super) fn module_of(path: &str) -> Option<Vec<String>> {
    let (_, inside) = path.split_once("/src/")?;
    let mut parts: Vec<String> = inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if parts[0] == "bin" || parts.iter().any(|part| part == "tests") {
        return None;
    }
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    Some(parts)
}

/// The paths that a module names, from the crate's root.
pub(super) fn named(module: &[String], text: &str) -> Vec<Vec<String>> {
    let tokens = tokens(text);
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let starts = matches!(&tokens[at], Token::Word(w) if w == "crate" || w == "super" || w == "self");
        let follows = at > 0 && tokens[at - 1] == Token::Step;
        if starts && !follows && tokens.get(at + 1) == Some(&Token::Step) {
            at = tree(&tokens, at, &Vec::new(), &mut |path| out.extend(absolute(module, path)));
        } else {
            at += 1;
        }
    }
    out
}

/// The imports of the file that a folder of modules belongs to: their paths, as written.
pub(super) fn imports(text: &str) -> Vec<Vec<String>> {
    let tokens = tokens(text);
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_use = matches!(&tokens[at], Token::Word(w) if w == "use");
        at = if is_use { tree(&tokens, at + 1, &Vec::new(), &mut |path| out.push(path)) } else { at + 1 };
    }
    out
}

/// Walks a tree of paths, and returns where it ends.
fn tree(tokens: &[Token], mut at: usize, before: &[String], each: &mut impl FnMut(Vec<String>)) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens.get(at) {
            Some(Token::Word(word)) => {
                path.push(word.clone());
                at += 1;
            }
            Some(Token::Sign('*')) => {
                path.push("*".to_owned());
                at += 1;
            }
            Some(Token::Sign('{')) => {
                at += 1;
                while at < tokens.len() && tokens[at] != Token::Sign('}') {
                    if tokens[at] == Token::Sign(',') {
                        at += 1;
                    } else {
                        let next = tree(tokens, at, &path, each);
                        at = next.max(at + 1);
                    }
                }
                return at + 1;
            }
            _ => break,
        }
        if tokens.get(at) != Some(&Token::Step) {
            break;
        }
        at += 1;
        // A turbofish ends a path.
        if tokens.get(at) == Some(&Token::Sign('<')) {
            break;
        }
    }
    // `use a::b as c`
    if matches!(tokens.get(at), Some(Token::Word(w)) if w == "as") {
        at += 2;
    }
    if path.len() > before.len() {
        each(path);
    }
    at
}

/// A path from the crate's root, if it begins with `crate`, `super` or `self`.
fn absolute(module: &[String], path: Vec<String>) -> Option<Vec<String>> {
    let mut here = module.to_vec();
    let mut steps = path.into_iter().peekable();
    if steps.peek().map(String::as_str) == Some("crate") {
        steps.next();
        return Some(steps.collect());
    }
    let mut relative = false;
    while let Some(step) = steps.next_if(|step| step == "super" || step == "self") {
        relative = true;
        if step == "super" {
            here.pop()?;
        }
    }
    here.extend(steps);
    relative.then_some(here)
}

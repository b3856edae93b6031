//! The paths of modules that a source names: `crate::…`, `super::…` and `self::…`, in imports and
//! elsewhere.

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

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Step,
    Sign(char),
}

/// The words and signs of a source, without comments, strings, characters, and items for tests.
fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let byte = bytes[at];
        if rest.starts_with(b"//") {
            at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        } else if rest.starts_with(b"/*") {
            at += text[at..].find("*/").map_or(rest.len(), |end| end + 2);
        } else if byte == b'"' {
            at += 1 + string_end(&bytes[at + 1..]);
        } else if (byte == b'r' || rest.starts_with(b"br")) && raw_string(rest).is_some() {
            at += raw_string(rest).unwrap_or(1);
        } else if byte == b'\'' {
            at += character(rest);
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            out.push(Token::Word(text[at..at + len].to_owned()));
            at += len;
        } else if rest.starts_with(b"::") {
            out.push(Token::Step);
            at += 2;
        } else {
            if byte.is_ascii_punctuation() {
                out.push(Token::Sign(byte.into()));
            }
            at += 1;
        }
    }
    without_tests(&out)
}

/// Bytes to the end of a string, its last quotation mark among them.
fn string_end(rest: &[u8]) -> usize {
    let mut at = 0;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Bytes of a raw string, if this is one.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let start = rest.iter().position(|b| *b == b'r')? + 1;
    let hashes = rest[start..].iter().take_while(|b| **b == b'#').count();
    if rest.get(start + hashes) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let body = start + hashes + 1;
    let found = rest[body..].windows(end.len()).position(|window| window == end);
    Some(found.map_or(rest.len(), |found| body + found + end.len()))
}

/// Bytes of a character, or of the mark of a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest[3..].iter().position(|b| *b == b'\'').map_or(rest.len(), |end| end + 4);
    }
    let len = std::str::from_utf8(&rest[1..rest.len().min(5)])
        .map_or_else(|error| error.valid_up_to(), str::len)
        .max(1);
    let first = std::str::from_utf8(&rest[1..1 + len]).ok().and_then(|s| s.chars().next());
    let len = first.map_or(1, char::len_utf8);
    if rest.get(1 + len) == Some(&b'\'') { len + 2 } else { 1 }
}

/// Drops what follows `#[cfg(test)]`: an item, to its semicolon or the end of its body.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let word = |word: &str| Token::Word(word.to_owned());
    let mark = [
        Token::Sign('#'),
        Token::Sign('['),
        word("cfg"),
        Token::Sign('('),
        word("test"),
        Token::Sign(')'),
        Token::Sign(']'),
    ];
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].starts_with(&mark) {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at += mark.len();
        at = item_end(tokens, at);
    }
    out
}

/// Where the item ends that begins at `at`: behind its body, its semicolon or its comma.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < tokens.len() {
        match tokens[at] {
            Token::Sign('{' | '(' | '[') => depth += 1,
            // What it is in ends.
            Token::Sign('}' | ')' | ']') if depth == 0 => return at,
            Token::Sign(sign @ ('}' | ')' | ']')) => {
                depth -= 1;
                if depth == 0 && sign == '}' {
                    return at + 1;
                }
            }
            Token::Sign(';' | ',') if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
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

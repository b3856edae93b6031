//! Words and signs of a source. One small lexer, which knows strings, raw strings, characters,
//! lifetimes and comments; enough to find paths, bodies of functions and lines of code.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// One piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `::`
    Step,
    Sign(char),
    /// A string, a character, the mark of a lifetime or a number.
    Literal,
}

/// A token and the lines it lies on, counted from 1.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) lines: RangeInclusive<usize>,
}

/// The words and signs of a source, without comments, literals, and items for tests.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let placed = product(text).into_iter().map(|placed| placed.token);
    placed.filter(|token| *token != Token::Literal).collect()
}

/// The tokens of a source, without comments and items for tests.
pub(super) fn product(text: &str) -> Vec<Placed> {
    without_tests(all(text))
}

/// The tokens of a source with its tests, without comments.
pub(super) fn all(text: &str) -> Vec<Placed> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let (token, len) = next(text, at);
        let last = line + bytes[at..(at + len).min(bytes.len())].iter().filter(|b| **b == b'\n').count();
        out.extend(token.map(|token| Placed { token, lines: line..=last }));
        (at, line) = (at + len, last);
    }
    out
}

/// The token that begins at `at`, if it is neither a space nor a comment, and its bytes.
fn next(text: &str, at: usize) -> (Option<Token>, usize) {
    let rest = &text.as_bytes()[at..];
    let word = |rest: &[u8]| rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            (None, rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()))
        }
        b'/' if rest.starts_with(b"/*") => {
            (None, rest.windows(2).position(|end| end == b"*/").map_or(rest.len(), |end| end + 2))
        }
        b'"' => (Some(Token::Literal), 1 + string_end(&rest[1..])),
        b'\'' => (Some(Token::Literal), character(rest)),
        b'0'..=b'9' => (Some(Token::Literal), word(rest)),
        byte if byte.is_ascii_alphabetic() || byte == b'_' => {
            if let Some(len) = raw_string(rest) {
                return (Some(Token::Literal), len);
            }
            let len = word(rest);
            (Some(Token::Word(text[at..at + len].to_owned())), len)
        }
        b':' if rest.starts_with(b"::") => (Some(Token::Step), 2),
        byte if byte.is_ascii_punctuation() => (Some(Token::Sign(byte.into())), 1),
        _ => (None, 1),
    }
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
    let start = if rest.starts_with(b"br") { 2 } else { usize::from(rest.starts_with(b"r")) };
    let hashes = rest[start..].iter().take_while(|b| **b == b'#').count();
    if start == 0 || rest.get(start + hashes) != Some(&b'"') {
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
        let end = rest.iter().skip(3).position(|b| *b == b'\'');
        return end.map_or(rest.len(), |end| end + 4);
    }
    let len = std::str::from_utf8(&rest[1..rest.len().min(5)])
        .map_or_else(|error| error.valid_up_to(), str::len)
        .max(1);
    let first = std::str::from_utf8(&rest[1..(1 + len).min(rest.len())]).ok();
    let len = first.and_then(|s| s.chars().next()).map_or(1, char::len_utf8);
    if rest.get(1 + len) == Some(&b'\'') { len + 2 } else { 1 }
}

/// Returns whether `#[cfg(test)]` begins at `at`: seven tokens.
fn is_mark(tokens: &[Placed], at: usize) -> bool {
    let words = ["#", "[", "cfg", "(", "test", ")", "]"];
    let is = |token: &Token, text: &str| match token {
        Token::Word(word) => word == text,
        Token::Sign(sign) => text == sign.to_string(),
        _ => false,
    };
    tokens[at..].len() >= words.len() && words.iter().zip(&tokens[at..]).all(|(text, t)| is(&t.token, text))
}

/// Tokens of the mark of an item for tests.
const MARK: usize = 7;

/// Drops each `#[cfg(test)]` with its item: to the semicolon or the end of the body.
fn without_tests(tokens: Vec<Placed>) -> Vec<Placed> {
    let mut dropped = vec![false; tokens.len()];
    let mut at = 0;
    while at < tokens.len() {
        if is_mark(&tokens, at) {
            let end = item_end(&tokens, at + MARK);
            dropped[at..end].fill(true);
            at = end;
        } else {
            at += 1;
        }
    }
    tokens.into_iter().zip(dropped).filter(|(_, dropped)| !dropped).map(|(token, _)| token).collect()
}

/// End of the item that begins at `at`: behind its body or its semicolon, or, for a field or a
/// variant, its comma.
fn item_end(tokens: &[Placed], mut at: usize) -> usize {
    let mut fields = true;
    let mut depth = 0_usize;
    while at < tokens.len() {
        match tokens[at].token {
            Token::Sign('{' | '(' | '[') => depth += 1,
            // The item that contains it ends.
            Token::Sign('}' | ')' | ']') if depth == 0 => return at,
            Token::Sign(sign @ ('}' | ')' | ']')) => {
                depth -= 1;
                if depth == 0 && sign == '}' {
                    return at + 1;
                }
            }
            Token::Sign(';') if depth == 0 => return at + 1,
            Token::Sign(',') if depth == 0 && fields => return at + 1,
            // Commas behind these words stand between generics or bounds.
            Token::Word(ref word) if ["fn", "struct", "enum", "impl", "trait"].contains(&word.as_str()) => {
                fields = false;
            }
            _ => {}
        }
        at += 1;
    }
    at
}

/// Names of the modules in files of their own that a source declares for tests only.
pub(super) fn test_modules(text: &str) -> Vec<String> {
    let tokens = all(text);
    let marks = (0..tokens.len()).filter(|at| is_mark(&tokens, *at));
    let named = marks.filter_map(|at| {
        let item = &tokens[at + MARK..item_end(&tokens, at + MARK)];
        let item: Vec<&Token> = item.iter().map(|placed| &placed.token).collect();
        match item[..] {
            [.., Token::Word(module), Token::Word(name), Token::Sign(';')] if module == "mod" => {
                Some(name.clone())
            }
            _ => None,
        }
    });
    named.collect()
}

/// Lines of code of a source: lines with a token that belongs to no item for tests.
pub(super) fn code_lines(text: &str) -> usize {
    product(text).into_iter().flat_map(|placed| placed.lines).collect::<BTreeSet<usize>>().len()
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The line of its `fn`.
    pub(super) line: usize,
    /// Lines from its `fn` to its closing brace.
    pub(super) lines: usize,
}

/// The functions of a source that have a body, nested ones too, without those of tests.
pub(super) fn functions(text: &str) -> Vec<Function> {
    let tokens = product(text);
    let mut out = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        if let [Placed { token: Token::Word(keyword), lines }, Placed { token: Token::Word(name), .. }] = pair
            && keyword == "fn"
        {
            let end = item_end(&tokens, at);
            // A declaration in a trait ends with a semicolon.
            if tokens[end - 1].token == Token::Sign('}') {
                let line = *lines.start();
                let lines = tokens[end - 1].lines.end() + 1 - line;
                out.push(Function { name: name.clone(), line, lines });
            }
        }
    }
    out
}

//! Each rule fails when it is broken, and holds when it is not.

use super::*;

const RULES_OF_TESTS: &str = r#"
max_lines = 5
max_test_lines = 8
max_columns = 40
floors = [["low", "pure"], ["high"]]
pure = ["pure"]
may_be_unsafe = ["low"]
[modules]
high = ["below", "above"]
"#;

/// The smallest tree that keeps every rule.
fn good() -> Tree {
    tree(&[
        ("crates/low/Cargo.toml", "[dependencies]\nthiserror = \"2\"\n"),
        ("crates/pure/Cargo.toml", ""),
        ("crates/high/Cargo.toml", "[dependencies]\npumice-low.workspace = true\n"),
        ("crates/high/src/lib.rs", "mod above;\nmod below;\npub use above::Above;\npub use below::Below;\n"),
        ("crates/high/src/above.rs", "use crate::Below;\npub struct Above(Below);\n"),
        ("crates/high/src/below.rs", "pub struct Below;\n"),
        ("docs/page.md", "A line.\n"),
    ])
}

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// What is wrong with the good tree when these files are added to it, or replaced.
fn with(files: &[(&str, &str)]) -> Vec<String> {
    under("", files)
}

/// The same, with lines before the rules' tables.
fn under(exceptions: &str, files: &[(&str, &str)]) -> Vec<String> {
    let rules = Rules::parse(&format!("{exceptions}\n{RULES_OF_TESTS}")).unwrap();
    let mut all = good();
    all.extend(tree(files));
    check(&all, &rules)
}

/// One thing is wrong, and these words are in it.
fn one(wrong: &[String], words: &[&str]) {
    assert_eq!(wrong.len(), 1, "{wrong:#?}");
    assert!(words.iter().all(|word| wrong[0].contains(word)), "{wrong:#?}");
}

#[test]
fn a_good_tree_has_nothing_wrong() {
    assert_eq!(with(&[]), Vec::<String>::new());
}

#[test]
fn the_rules_of_this_repository_can_be_read() {
    Rules::parse(include_str!("../../tidy.toml")).unwrap();
    assert!(Rules::parse("max_lines = 5\nunknown = 1").is_err());
}

#[test]
fn a_crate_depends_on_lower_floors_only() {
    let up = ("crates/low/Cargo.toml", "[dependencies]\npumice-high.workspace = true\n");
    one(&with(&[up]), &["'low' is not above 'high'"]);
    let beside = ("crates/low/Cargo.toml", "[dependencies]\npumice-pure.workspace = true\n");
    one(&with(&[beside]), &["'low' is not above 'pure'"]);
    let by_path = ("crates/low/Cargo.toml", "[dependencies.pumice-high]\npath = \"../high\"\n");
    one(&with(&[by_path]), &["'low' is not above 'high'"]);
    let for_tests = ("crates/low/Cargo.toml", "[dev-dependencies]\npumice-high.workspace = true\n");
    assert!(with(&[for_tests]).is_empty());
    // The package of the program is not called after its folder.
    let program = ("crates/high/Cargo.toml", "[dependencies]\npumice = { path = \"../cli\" }\n");
    one(&with(&[program]), &["'cli' is on no floor"]);
    one(&with(&[("crates/new/Cargo.toml", "")]), &["'new' is on no floor"]);
}

#[test]
fn the_map_of_the_crates_says_what_they_use() {
    let page = |high: &str| format!("| `low` | a | – |\n| `pure` | b. Pure | – |\n| `high` | c | {high} |\n");
    for good in ["low (its types)", "all above"] {
        assert_eq!(with(&[("ARCHITECTURE.md", &page(good))]), Vec::<String>::new());
    }
    for bad in ["–", "low, pure"] {
        one(&with(&[("ARCHITECTURE.md", &page(bad))]), &["'high' uses"]);
    }
    let short = page("low").replace("| `pure`", "| pure");
    one(&with(&[("ARCHITECTURE.md", &short)]), &["has no 'pure'"]);
}

#[test]
fn a_module_imports_lower_ones_only() {
    for import in [
        "use crate::above::Above;\n",
        "use crate::Above;\n",
        "use super::above;\n",
        "use super::{above::Above as A};\n",
        "fn f() { crate::above::f::<u8>() }\n",
        "use crate::{\n    above::{self, Above},\n};\n",
    ] {
        let wrong = with(&[("crates/high/src/below.rs", import)]);
        one(&wrong, &["below.rs", "'below' imports 'above'", "'high'"]);
        let deep = ("crates/high/src/below/deep.rs", "use crate::above::Above;\n");
        one(&with(&[deep]), &["deep.rs", "'below' imports 'above'"]);
    }
}

#[test]
fn comments_strings_and_tests_import_nothing() {
    for text in [
        "// use crate::above::Above;\n",
        "/* use crate::above::Above; */\n",
        "const A: &str = \"crate::above::A\";\n",
        "const A: &str = r#\"\" crate::above::A\"#;\n",
        "const A: char = '\"'; // crate::above\n",
        "#[cfg(test)]\nmod tests {\n    use crate::above::Above;\n}\n",
        "#[cfg(test)]\nuse crate::above::Above;\n",
        "struct S {\n    #[cfg(test)]\n    a: crate::above::A\n}\n",
        "use other_crate::above::Above;\n",
    ] {
        assert_eq!(with(&[("crates/high/src/below.rs", text)]), Vec::<String>::new(), "{text}");
    }
    // What follows them does.
    for text in [
        "struct S {\n    #[cfg(test)]\n    a: u8,\n    b: crate::above::A }\n",
        "const A: &str = \"\\\"\"; use crate::above::A;\n",
        "fn f<'a>(a: &'a str) { crate::above::f(a) }\n",
        "const A: char = '\\''; use crate::above::A;\n",
        "#[cfg(test)]\nmod tests;\nuse crate::above::A;\n",
    ] {
        one(&with(&[("crates/high/src/below.rs", text)]), &["'below' imports 'above'"]);
    }
}

#[test]
fn the_list_of_modules_is_whole() {
    one(&with(&[("crates/high/src/new.rs", "")]), &["'high' does not list the module 'new'"]);
    let mut all = good();
    all.remove("crates/high/src/below.rs");
    let rules = Rules::parse(RULES_OF_TESTS).unwrap();
    one(&check(&all, &rules), &["'high' has no module 'below'"]);
}

#[test]
fn modules_without_a_list_have_no_circle() {
    let circle = [
        ("crates/low/src/a.rs", "use crate::b::B;\n"),
        ("crates/low/src/b.rs", "use crate::c::C;\n"),
        ("crates/low/src/c.rs", "use super::a::A;\n"),
    ];
    let wrong = with(&circle);
    assert_eq!(wrong.len(), 3, "{wrong:#?}");
    assert!(wrong.iter().all(|what| what.contains("import one another")));
    assert!(with(&circle[..2]).is_empty());
}

#[test]
fn a_production_file_is_short_and_tests_may_be_longer() {
    let lines = "x\n".repeat(6);
    one(&with(&[("crates/low/src/a.rs", &lines)]), &["a.rs: 6 lines", "past 5"]);
    one(&with(&[("fuzz/a.rs", &lines)]), &["fuzz/a.rs: 6 lines"]);
    assert!(with(&[("crates/low/tests/a.rs", &lines)]).is_empty());
    assert!(with(&[("crates/low/src/a/tests.rs", &lines)]).is_empty());
    one(&with(&[("crates/low/tests/a.rs", &"x\n".repeat(9))]), &["9 lines", "past 8"]);
}

#[test]
fn prose_and_comments_are_wrapped() {
    let words = "word ".repeat(9);
    let comment = format!("    /// {words}\n");
    one(&with(&[("crates/low/src/a.rs", &comment)]), &["a.rs:1: 53 columns", "at 40"]);
    one(&with(&[("docs/page.md", &format!("\n{words}\n"))]), &["page.md:2: 45 columns"]);
    let free = format!("| {words} |\n```\n{words}\n```\n{}\n", "l".repeat(60));
    assert!(with(&[("docs/page.md", &free)]).is_empty());
    assert!(with(&[("crates/low/src/a.rs", &format!("let a = \"{words}\";\n"))]).is_empty());
    // 40 columns are more bytes than that.
    assert!(with(&[("docs/page.md", &"é ".repeat(20))]).is_empty());
}

#[test]
fn exceptions_are_heeded_and_go_when_nothing_needs_them() {
    let long = ("crates/low/src/a.rs", &*"x\n".repeat(6));
    assert!(under("long = [\"crates/low/src/a.rs\"]", &[long]).is_empty());
    let up = ("crates/high/src/below.rs", "use crate::above::Above;\n");
    assert!(under("upward = [\"high: below -> above\"]", &[up]).is_empty());
    let wide = ("docs/page.md", &*"word ".repeat(9));
    assert!(under("wide = [\"docs/page.md\"]", &[wide]).is_empty());
    let circle =
        [("crates/low/src/a.rs", "use crate::b::B;\n"), ("crates/low/src/b.rs", "use crate::a::A;\n")];
    assert!(under("circles = [\"low: a, b\"]", &circle).is_empty());
    for list in ["long", "upward", "wide", "circles"] {
        one(&under(&format!("{list} = [\"gone\"]"), &[]), &[list, "'gone'", "remove it"]);
    }
}

#[test]
fn pure_crates_take_no_time_and_unsafe_has_its_place() {
    one(&with(&[("crates/pure/src/lib.rs", "use std::time::Instant;\n")]), &["'pure' is pure"]);
    assert!(with(&[("crates/low/src/lib.rs", "use std::time::Instant;\n")]).is_empty());
    let unsafe_code = format!("{} {{}}\n", "unsafe");
    one(&with(&[("crates/pure/src/lib.rs", &unsafe_code)]), &["may_be_unsafe"]);
    assert!(with(&[("crates/low/src/lib.rs", &unsafe_code)]).is_empty());
    let allow = format!("#[{}(dead_code)]\n", "allow");
    one(&with(&[("crates/low/src/lib.rs", &allow)]), &["#[expect"]);
}

#[test]
fn a_rule_that_is_asserted_has_one_row_in_a_page() {
    let source = "fn f(x: u8) {\n    assert!(x > 0, \"V12: x: it rises\");\n}\n";
    let source = ("crates/low/src/lib.rs", source);
    one(&with(&[source]), &["crates/low/src/lib.rs:2", "'| V12 |'"]);
    // Beside a table of something else.
    one(&with(&[source, ("docs/rules.md", "| V1 | x | `f` |\n| V12 | x |\n")]), &["'| V12 |'"]);
    let page = ("docs/rules.md", "| V12 | x rises | `lib.rs` |\n");
    assert!(with(&[source, page]).is_empty());
    one(
        &with(&[source, page, ("docs/z.md", "| V12 | y | `lib.rs` |\n")]),
        &["V12", "docs/rules.md", "docs/z.md"],
    );
    let other = ("crates/low/src/lib.rs", "const F: &str = \"v12: x\"; const G: &str = \"V: x\";\n");
    assert!(with(&[other]).is_empty());
}

#[test]
fn rules_are_left_out_by_tests_alone() {
    let feature = "[features]\nmutants = [\"pumice-low/mutants\"] # see 'mutants'\n";
    let manifest = |more: &str| format!("{feature}\n{more}");
    let high = "crates/high/Cargo.toml";
    let tests = "[dev-dependencies]\npumice-low = { workspace = true, features = [\"mutants\"] }\n";
    let product = "[dependencies]\npumice-low = { workspace = true, features = [\"mutants\"] }\n";
    assert!(with(&[(high, &manifest(tests))]).is_empty());
    one(&with(&[(high, &manifest(product))]), &["crates/high/Cargo.toml:5", "dev-dependencies"]);
    one(&with(&[(high, "[features]\ndefault = [\"mutants\"]\n")]), &["dev-dependencies"]);
    let leaves = "fn f() { Rules::without(Rule::One); }\n";
    one(&with(&[("crates/low/src/lib.rs", leaves)]), &["only tests"]);
    let inside = format!("#[cfg(test)]\nmod tests {{\n{leaves}}}\n");
    assert!(with(&[("crates/low/src/lib.rs", &inside), ("crates/low/tests/a.rs", leaves)]).is_empty());
}

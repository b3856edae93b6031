//! Each rule fails when it is broken, and holds when it is not.

use super::*;

const RULES_OF_TESTS: &str = r#"
max_lines = 5
max_test_lines = 8
max_columns = 40
max_function_lines = 3
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

/// Breaches in the good tree when these files are added to it, or replaced.
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

/// Asserts that one thing is wrong, and that these words are in it.
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
    for list in ["long", "upward", "wide", "circles", "long_functions", "questions"] {
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
fn a_module_can_be_pure_or_not() {
    let rules = RULES_OF_TESTS
        .replace("pure = [\"pure\"]", "pure = [\"pure\", \"low/sums\"]\nimpure = [\"low/sums/files\"]");
    let rules = Rules::parse(&rules).unwrap();
    let clock = "use std::time::Instant;\n";
    let wrong = |paths: &[&str]| {
        let mut all = good();
        all.extend(paths.iter().map(|path| ((*path).to_owned(), clock.to_owned())));
        check(&all, &rules)
    };
    let files = "crates/low/src/sums/files.rs";
    assert!(wrong(&["crates/low/src/sum.rs", files]).iter().all(|line| line.contains("'low/sums'")));
    one(&wrong(&["crates/low/src/sums.rs", files]), &["'low/sums' is pure"]);
    one(&wrong(&["crates/low/src/sums/one.rs", files]), &["'low/sums/one' is pure"]);
    one(&wrong(&["crates/low/src/sums/one.rs"])[..1], &["no crate or module 'low/sums/files'"]);
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

#[test]
fn the_table_of_crates_goes_up_the_floors() {
    let page = |rows: [&str; 3]| format!("| crate | contents | uses |\n{}\n", rows.join("\n"));
    let [low, pure, high] = ["| `low` | a | – |", "| `pure` | b | – |", "| `high` | c | low |"];
    for good in [[low, pure, high], [pure, low, high]] {
        assert_eq!(with(&[("ARCHITECTURE.md", &page(good))]), Vec::<String>::new());
    }
    let late = page([pure, high, low]);
    one(&with(&[("ARCHITECTURE.md", &late)]), &["'low' is below 'high'"]);
    let unknown = page([low, pure, high]) + "| `other` | d | – |\n| `xtask` | e | – |\n";
    one(&with(&[("ARCHITECTURE.md", &unknown)]), &["'other' is on no floor"]);
    let twice = page([low, pure, high]) + high;
    one(&with(&[("ARCHITECTURE.md", &twice)]), &["has a crate twice"]);
    // The list is in the table's order.
    let rules = Rules::parse(RULES_OF_TESTS).unwrap();
    let printed = map::floors(&tree(&[("ARCHITECTURE.md", &page([pure, low, high]))]), &rules);
    assert_eq!(printed, "0: pure low\n1: high\n");
}

#[test]
fn a_production_function_is_short() {
    let body = "{\n\n\n}\n";
    for text in [
        format!("fn long() {body}"),
        format!("pub const fn long<A, B>(a: [u8; 4], b: B) -> [A; 2] where A: Copy, B: Copy {body}"),
        "fn long<'a>(c: char) { let _ = (c == '}', c == '\\'', \"}\", r#\"\"}\"#, b'}'); // }\n/* } */\n\n}\n"
            .to_owned(),
    ] {
        one(&with(&[("crates/low/src/a.rs", &text)]), &["a.rs:1: function 'long' has 4 lines; past 3"]);
    }
    let inner = ("crates/low/src/a.rs", "fn f() { let a = '{';\nfn g<'a>() {\n\n}}\n");
    one(&with(&[inner]), &["function 'f' has 4 lines"]);
    let except = "long_functions = [\"crates/low/src/a.rs: long\"]";
    assert!(under(except, &[("crates/low/src/a.rs", &format!("fn long() {body}"))]).is_empty());
    // Declarations, short functions side by side, and tests.
    for free in [
        "trait T {\n    fn f(\n        &self,\n    );\n}\n",
        "fn f() {\n}\nfn g() {\n}\n",
        "type F = fn(u8);\n\n\n\n",
        "#[cfg(test)]\nfn f<A, B>() {\n\n\n}\n",
        "#[cfg(test)]\nmod t { fn f() {\n\n\n}}\n",
    ] {
        assert_eq!(with(&[("crates/low/src/a.rs", free)]), Vec::<String>::new(), "{free}");
    }
    let long = format!("fn long() {body}");
    for tests in ["crates/low/tests/a.rs", "crates/low/src/a/tests.rs", "crates/low/src/tests/a.rs"] {
        assert!(with(&[(tests, &long)]).is_empty());
    }
}

#[test]
fn a_module_for_tests_alone_is_no_production() {
    let long = "fn long() {\n\n\n}\n";
    let declared = |mark| format!("{mark}mod a;\nmod b;\n");
    let [a, deep] = ["crates/low/src/a.rs", "crates/low/src/a/deep.rs"];
    for path in [a, deep] {
        let files = |root: String| with(&[("crates/low/src/lib.rs", &root), (path, long)]);
        assert!(files(declared("#[cfg(test)]\npub(crate) ")).is_empty());
        one(&files(declared("")), &["function 'long'"]);
    }
}

#[test]
fn a_doc_comment_begins_with_a_thing_or_an_action() {
    let path = "crates/low/src/a.rs";
    for bad in ["/// What it is.", "    //! Whether so.", "/// A.\nfn f();\n/// Those who ask.", "/// How"] {
        one(&with(&[(path, bad)]), &["a.rs:", "a doc comment begins"]);
    }
    for good in [
        "/// Returns what it is.",
        "/// A thing.\n/// What it is.",
        "// What it is.",
        "//// What it is.",
        "/// Whatnot.",
        "/// Those are.",
        "let a = \"/// What\";",
    ] {
        assert_eq!(with(&[(path, good)]), Vec::<String>::new(), "{good}");
    }
    let bad = (path, "/// What it is.\nfn f();\n/// Where it is.");
    assert_eq!(with(&[bad]).len(), 2);
    for entry in [path, "crates/low", "crates/low/src"] {
        assert!(under(&format!("questions = [\"{entry}\"]"), &[bad]).is_empty());
    }
    assert_eq!(under("questions = [\"crates/lo\"]", &[bad]).len(), 3);
}

#[test]
fn pages_name_sources_and_items_that_exist() {
    let page = |text: &str| with(&[("docs/page.md", text), ("crates/low/src/a.rs", "fn f() {}\n")]);
    for good in [
        "`crates/low/src/a.rs`",
        "`crates/low/src/`",
        "`crates/low/src/a.rs:f`",
        "`crates/high/src/above.rs:Above`",
        "`crates/low/src/a.rs:T::f()`",
        "`crates/low/data/x.bin`",
        "`crates/*/src/lib.rs`",
        "```\n`crates/low/src/b.rs`\n```",
    ] {
        assert_eq!(page(good), Vec::<String>::new(), "{good}");
    }
    one(&page("`crates/low/src/b.rs`"), &["page.md:1: there is no 'crates/low/src/b.rs'"]);
    one(&page("\n`crates/low/src/b`"), &["page.md:2: there is no 'crates/low/src/b'"]);
    one(&page("a `b`, `crates/low/src/a.rs:g`"), &["'crates/low/src/a.rs' has no item 'g'"]);
    one(&page("`crates/low/src/a.rs:7`"), &["has no item '7'"]);
    one(&page("`crates/low/src/b.rs:f`"), &["there is no"]);
}

#[test]
fn lines_of_code_are_those_of_the_program_without_comments_and_tests() {
    let code = "//! Doc.\nfn f() { // why\n    let a = \"x\n\ny\";\n}\n/* a\nb */\n\n#[cfg(test)]\nmod tests {}\n1\n";
    let files = [
        ("crates/cli/Cargo.toml", "[dependencies]\npumice-low.workspace = true\n"),
        ("crates/cli/src/main.rs", "fn main() {\n}\n"),
        ("crates/low/src/lib.rs", code),
        ("crates/low/tests/a.rs", "fn f() {}\n"),
        ("crates/high/src/lib.rs", "fn f() {}\n"),
    ];
    let mut all = good();
    all.extend(tree(&files));
    let counted = lines::count(&all);
    let expected = [("cli".to_owned(), 2), ("low".to_owned(), 6)];
    assert_eq!(counted.into_iter().collect::<Vec<_>>(), expected);
}

//! `docs/design/pairs.md` knows every command and every option: each is used by a feature that is
//! put in one room with all others, or the page says why it is not.

use crate::Pumice;
use clap::{Command, CommandFactory};
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../docs/design/pairs.md");
/// Options that only change what is printed.
const OF_OUTPUT: [&str; 4] = ["help", "version", "json", "quiet"];

/// The cells of the rows of a table, by the heading above it.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the page has this section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The words in backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Commands that do something without a subcommand, and their long options.
fn leaves(command: &Command, path: &str, out: &mut BTreeMap<String, Vec<String>>) {
    let subs: Vec<&Command> = command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
    if subs.is_empty() || command.is_subcommand_negates_reqs_set() {
        let longs = command.get_arguments().filter_map(|argument| argument.get_long());
        let longs = longs.filter(|long| !OF_OUTPUT.contains(long)).map(|long| format!("--{long}"));
        out.insert(path.to_owned(), longs.collect());
    }
    for sub in subs {
        leaves(sub, format!("{path} {}", sub.get_name()).trim(), out);
    }
}

/// Words that the page lacks, or has without a command or option of that name.
fn gaps(mut program: Command) -> Vec<String> {
    let mut commands = BTreeMap::new();
    // Options of a command become those of its subcommands.
    program.build();
    leaves(&program, "", &mut commands);
    let features: Vec<&str> = rows("The features").iter().flat_map(|row| quoted(row[0])).collect();
    let mut known: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
    for row in rows("Commands and options") {
        known.insert(quoted(row[0])[0], (row[1], quoted(row[2])));
    }
    let of = |command: &str| {
        let family = command.split(' ').next().unwrap_or_default();
        known
            .get(command)
            .map(|of| (of, true))
            .or_else(|| known.get(&*format!("{family} *")).map(|of| (of, false)))
    };
    let mut gaps = Vec::new();
    for (command, options) in &commands {
        let Some(((_, listed), is_own)) = of(command) else {
            gaps.push(format!("`{command}` has no row"));
            continue;
        };
        let missing = options.iter().filter(|option| is_own && !listed.contains(&option.as_str()));
        gaps.extend(missing.map(|option| format!("`{command}`: `{option}` is not in its row")));
    }
    for (command, (by, listed)) in &known {
        let family = command.strip_suffix(" *");
        let is_there = match family {
            Some(family) => commands.keys().any(|key| key.starts_with(family)),
            None => commands.contains_key(*command),
        };
        if !is_there {
            gaps.push(format!("`{command}` is no command"));
        }
        let options = commands.get(*command);
        let stale = listed.iter().filter(|option| {
            option.starts_with("--") && options.is_some_and(|options| !options.iter().any(|o| o == *option))
        });
        gaps.extend(stale.map(|option| format!("`{command}` has no option `{option}`")));
        if !by.starts_with("none: ") {
            let strange = quoted(by).into_iter().filter(|name| !features.contains(name));
            gaps.extend(strange.map(|name| format!("`{command}`: `{name}` is no feature")));
            if quoted(by).is_empty() {
                gaps.push(format!("`{command}`: no feature, and no reason why"));
            }
        }
    }
    gaps
}

#[test]
fn every_command_and_option_is_in_the_table_of_pairs() {
    assert_eq!(gaps(Pumice::command()), [""; 0], "docs/design/pairs.md, Commands and options");
}

#[test]
fn a_command_or_an_option_that_is_new_is_missed() {
    let new = Pumice::command().subcommand(Command::new("polish"));
    assert_eq!(gaps(new), ["`polish` has no row"]);
    let option = clap::Arg::new("gently").long("gently");
    let new = Pumice::command().mut_subcommand("protect", |protect| protect.arg(option));
    assert_eq!(gaps(new), ["`protect`: `--gently` is not in its row"]);
}

//! The exit codes in the help of every command.
//!
//! Commands whose codes need more words have them beside their arguments; the others get theirs
//! here, so that none is without. `docs/reference/exit-codes.md` has the meanings.

use clap::Command;

/// Beginning of the line.
const BEGIN: &str = "Exit codes: ";
const USUAL: &str = "0 done, 2 could not run.";
/// Commands that remove what they made if a signal ends them.
const LEAVES: &str = "0 done, 2 could not run, 3 ended by a signal.";

/// Adds exit codes to the help of all commands that have none.
pub(crate) fn in_help(command: Command) -> Command {
    let name = command.get_name().to_owned();
    under(command, &name)
}

fn under(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in &names {
        command = command.mut_subcommand(name, |sub| under(sub, &format!("{path} {name}")));
    }
    let texts = [command.get_after_help(), command.get_after_long_help(), command.get_long_about()];
    let texts: Vec<String> = texts.into_iter().flatten().map(ToString::to_string).collect();
    if !names.is_empty() || texts.iter().any(|text| text.contains(BEGIN)) {
        return command;
    }
    let line = format!("{BEGIN}{}", codes(path));
    match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(format!("{text}\n\n{line}")),
        None => command.after_help(line),
    }
}

/// The codes of a command that does not say them itself.
fn codes(path: &str) -> &'static str {
    match path.split(' ').skip(1).collect::<Vec<_>>()[..] {
        ["bench"] | ["bench", _] | ["demo"] | ["flash", "format"] => LEAVES,
        ["repairs", "undo"] => "0 done, 1 some repairs could not be undone (each is named), 2 could not run.",
        ["volume", "stop"] => "0 stopped and clean, 2 could not run, or the volume could not be left clean.",
        _ => USUAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn leaves(command: &mut Command, path: &str, out: &mut Vec<(String, String)>) {
        let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        if names.is_empty() {
            out.push((path.to_owned(), command.render_long_help().to_string()));
            out.push((path.to_owned(), command.render_help().to_string()));
        }
        for name in names {
            let sub = command.find_subcommand_mut(&name).expect("it has that name");
            leaves(sub, &format!("{path} {name}"), out);
        }
    }

    #[test]
    fn every_command_says_its_exit_codes_once() {
        let mut all = Vec::new();
        leaves(&mut in_help(crate::Pumice::command()), "pumice", &mut all);
        assert!(all.len() > 60, "{} texts", all.len());
        for (path, help) in all {
            assert_eq!(help.matches(BEGIN).count(), 1, "{path}: {help}");
        }
    }

    fn texts(command: &Command, out: &mut Vec<String>) {
        let own = [command.get_after_help(), command.get_after_long_help(), command.get_long_about()];
        out.extend(own.into_iter().flatten().map(ToString::to_string));
        command.get_subcommands().for_each(|sub| texts(sub, out));
    }

    /// A line break within a sentence stays where it is on every terminal.
    #[test]
    fn exit_codes_are_not_broken_by_hand() {
        let mut all = Vec::new();
        texts(&in_help(crate::Pumice::command()), &mut all);
        let codes = |text: &String| {
            let (_, rest) = text.split_once(BEGIN)?;
            Some(rest.split("\n\n").next().unwrap_or_default().trim_end().to_owned())
        };
        let codes: Vec<String> = all.iter().filter_map(codes).collect();
        assert!(codes.len() > 30, "{}", codes.len());
        for text in codes {
            assert!(!text.contains('\n'), "{text:?}");
        }
    }
}

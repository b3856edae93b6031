//! Words on standard error.

use pumice_base::units::printable_lines;
use std::io::{self, Write};

/// Writes a message for the operator: the name of the program, the words and a newline, in one
/// piece, so that nothing of another process comes between them. If standard error cannot be
/// written (it is closed or full), nobody reads it, and the command goes on: `eprintln!` would end
/// it with a panic. Names and words of others are part of messages: what a terminal would obey is
/// escaped.
pub fn say(words: &str) {
    line(&format!("pumice: {words}"));
}

/// The same without the name of the program.
pub fn line(words: &str) {
    // Nobody reads what cannot be written.
    let _ = io::stderr().lock().write_all(format!("{}\n", printable_lines(words)).as_bytes());
}

//! The program under test.

use std::process::Command;

pub(crate) fn pumice() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pumice-lab"))
}

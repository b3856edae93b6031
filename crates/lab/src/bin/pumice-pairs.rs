//! Pairs of features at work; run by `cargo xtask pairs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pumice_lab::pairs::main()
}

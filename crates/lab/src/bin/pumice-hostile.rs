//! Attackers of a node; run by `cargo xtask hostile`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pumice_lab::hostile::main()
}

//! The program `pumice`; the library has all of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    pumice::main()
}

//! The program `pumice-lab`: studies in virtual time, benchmarks, and scrubs over pretended nodes.
//! It is not installed; an operator needs none of it.

mod bench;
mod plan;
mod scrub;
mod sim;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Studies and benchmarks of Pumice.
///
/// Exit codes: 0 done, 2 could not run or could not write its report, 3 ended by a signal; those of
/// `scrub` are those of `pumice scrub`.
#[derive(Debug, Parser)]
#[command(name = "pumice-lab", version, arg_required_else_help = true)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the speed of parts of Pumice
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Replay foreground traces in virtual time, and compare scrub policies and request sizes
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Compute how many bytes a scrub would move over each link, also as the industry brief counts
    Plan(plan::PlanArgs),
    /// Scrub an array as `pumice scrub` does, its members spread over pretended nodes
    Scrub(Box<scrub::SpreadArgs>),
}

fn main() -> ExitCode {
    // Benchmarks start nodes: this program again, with the arguments of `pumice node`.
    if std::env::args_os().nth(1).is_some_and(|word| word == "node") {
        return pumice::main();
    }
    pumice::run(|Lab { command }| match command {
        Command::Bench(command) => bench::run(&command),
        Command::Sim(command) => sim::run(&command),
        Command::Plan(args) => plan::run(&args),
        Command::Scrub(args) => scrub::run(*args),
    })
}

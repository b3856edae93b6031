//! `pumice-lab scrub`: a scrub whose members are spread over pretended nodes.

use clap::Args;
use pumice::devices::{Placement, Spread};
use pumice::scrub;
use pumice_service::failure::Failure;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Checks an md array as `pumice scrub` does, over nodes of this process.
#[derive(Debug, Args)]
pub(crate) struct SpreadArgs {
    #[command(flatten)]
    scrub: scrub::ScrubArgs,
    /// Treat the members as if they were on N data nodes, in contiguous runs of roles
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["node", "heal", "drives"],
        value_parser = clap::value_parser!(u16).range(1..),
        help_heading = STUDY
    )]
    nodes: Option<u16>,
    /// Members that share a data node; once for each node
    #[arg(
        long,
        value_name = "NAME=DEV,DEV",
        conflicts_with_all = ["heal", "drives"],
        value_parser = parse_node,
        help_heading = STUDY
    )]
    node: Vec<(String, Vec<PathBuf>)>,
    /// Independent accumulators, 1 to 8, for `aggregate`, and for `stripe` over several nodes: with
    /// T of them, the chance to miss damage is raised to the power T [default: 1]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u8).range(1..=8), help_heading = STUDY)]
    accumulators: Option<u8>,
}

const STUDY: &str = "Study";

/// Runs the command.
pub(crate) fn run(args: SpreadArgs) -> Result<ExitCode, Failure> {
    let SpreadArgs { mut scrub, nodes, node, accumulators } = args;
    scrub.study = scrub::Study { placement: placement(nodes, node), accumulators };
    pumice::scrub(&scrub)
}

/// The members that share a node.
fn placement(nodes: Option<u16>, node: Vec<(String, Vec<PathBuf>)>) -> Placement {
    match nodes {
        // One node for the devices of this machine; drives of nodes stay on their own nodes.
        Some(1) => Placement::One,
        Some(nodes) => Placement::Runs(usize::from(nodes)),
        None if node.is_empty() => Placement::One,
        None => Placement::By(Arc::new(Named(node))),
    }
}

fn parse_node(text: &str) -> Result<(String, Vec<PathBuf>), String> {
    let wrong = || format!("'{text}' does not name a node: write NAME=DEVICE,DEVICE");
    let (name, devices) = text.split_once('=').ok_or_else(wrong)?;
    let devices: Vec<PathBuf> = devices.split(',').filter(|d| !d.is_empty()).map(PathBuf::from).collect();
    if name.is_empty() || devices.is_empty() { Err(wrong()) } else { Ok((name.to_owned(), devices)) }
}

/// Nodes by name, each with its devices.
#[derive(Debug)]
struct Named(Vec<(String, Vec<PathBuf>)>);

impl Spread for Named {
    fn groups(&self, devices: &[Option<&str>]) -> Result<Vec<(String, Vec<usize>)>, Failure> {
        let mut out: Vec<(String, Vec<usize>)> = Vec::new();
        let mut left: Vec<usize> = (0..devices.len()).filter(|role| devices[*role].is_some()).collect();
        for (name, paths) in &self.0 {
            if out.iter().any(|(taken, _)| taken == name) {
                return Err(Failure::new(format!("--node {name}: the name is given twice")));
            }
            let mut on_node = Vec::new();
            for path in paths {
                let text = path.display().to_string();
                let at =
                    left.iter().position(|role| devices[*role] == Some(text.as_str())).ok_or_else(|| {
                        Failure::new(format!(
                            "--node {name}: {text} is not a member, or is already on another node"
                        ))
                    })?;
                on_node.push(left.remove(at));
            }
            on_node.sort_unstable();
            out.push((name.clone(), on_node));
        }
        if let Some(role) = left.first() {
            let path = devices[*role].unwrap_or("");
            return Err(Failure::new(format!("--node: {path} is on no node")));
        }
        Ok(out)
    }
}

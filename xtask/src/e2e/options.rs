//! Options of `cargo xtask e2e`.

use super::kernel::{KERNELS, Kernel};
use crate::run::Failed;
use std::path::PathBuf;

const USAGE: &str = "usage: cargo xtask e2e [--full] [--kernel 6.1|6.12] [--repeat N] [--minutes M] \
                     [--damages D] [--only SCENARIO] [--binary PUMICE]";

/// The arguments, read.
pub(crate) struct Options {
    /// Everything, not the short form.
    pub(crate) full: bool,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) repeat: u32,
    /// Of load on a running array, where the form is full.
    pub(crate) minutes: u32,
    /// Planted during that time, one after another.
    pub(crate) damages: u32,
    /// One scenario, by name.
    pub(crate) only: Option<String>,
    /// Another program than the one that is built.
    pub(crate) binary: Option<PathBuf>,
}

impl Options {
    /// Reads them.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, Failed> {
        let mut options = Self {
            full: false,
            kernels: KERNELS.to_vec(),
            repeat: 1,
            minutes: 2,
            damages: 4,
            only: None,
            binary: None,
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            if name == "--full" {
                options.full = true;
                continue;
            }
            let value = rest.next().ok_or_else(|| Failed(USAGE.to_owned()))?;
            let number = || value.parse().ok().filter(|n| *n > 0).ok_or_else(|| Failed(USAGE.to_owned()));
            match name.as_str() {
                "--kernel" => options.kernels.retain(|kernel| kernel.name == value),
                "--repeat" => options.repeat = number()?,
                "--minutes" => options.minutes = number()?,
                "--damages" => options.damages = number()?,
                "--only" => options.only = Some(value.clone()),
                "--binary" => options.binary = Some(PathBuf::from(value)),
                _ => return Err(Failed(USAGE.to_owned())),
            }
        }
        if options.kernels.is_empty() {
            return Err(Failed(USAGE.to_owned()));
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(text: &str) -> Option<Options> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words).ok()
    }

    #[test]
    fn arguments() {
        let plain = parse("").expect("no arguments are fine");
        assert!(!plain.full && plain.kernels.len() == 2 && plain.repeat == 1);
        let one = parse("--full --kernel 6.1 --repeat 3 --minutes 10 --damages 20").expect("these exist");
        assert!(
            one.full && one.kernels.len() == 1 && one.repeat == 3 && one.minutes == 10 && one.damages == 20
        );
        for wrong in ["--kernel", "--kernel 5.0", "--repeat 0", "--repeat x", "--fast 1", "full"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}

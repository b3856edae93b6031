//! Log lines as systemd's journal reads them from standard error: each begins with its priority.

use super::Lines;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Returns whether standard error is a stream of the journal: `JOURNAL_STREAM` has its device and
/// inode (systemd.exec(5)).
pub(super) fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stream) = std::io::stderr().as_fd().try_clone_to_owned() else { return false };
    File::from(stream).metadata().is_ok_and(|found| is_stream(&named, found.dev(), found.ino()))
}

/// Returns whether the variable names this file.
fn is_stream(named: &str, device: u64, inode: u64) -> bool {
    named
        .split_once(':')
        .is_some_and(|(dev, ino)| dev.parse::<u64>() == Ok(device) && ino.parse::<u64>() == Ok(inode))
}

/// The priority of a level, as the journal reads it (sd-daemon(3)).
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Lines with the priority of their level.
pub(super) struct Prefixed(pub(super) Lines);

impl<'w> MakeWriter<'w> for Prefixed {
    type Writer = Lines;

    fn make_writer(&'w self) -> Lines {
        self.0.clone()
    }

    fn make_writer_for(&'w self, meta: &Metadata<'_>) -> Lines {
        self.0.of_priority(priority(*meta.level()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_stream_that_is_named_is_the_journal() {
        assert!(is_stream("8:12345", 8, 12345));
        for named in ["8:12346", "9:12345", "8", "8:", ":12345", "8:12345:1", "a:b", ""] {
            assert!(!is_stream(named, 8, 12345), "{named}");
        }
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG];
        assert_eq!(levels.map(priority), ["<3>", "<4>", "<6>", "<7>"]);
    }
}

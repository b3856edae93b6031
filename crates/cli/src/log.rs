//! The log of a node, on standard error.

mod journal;
mod lines;

pub(crate) use self::lines::Lines;

use clap::ValueEnum;
use journal::{Prefixed, is_journal};
use pumice_service::api::{Severity, Told};
use std::io;
use std::panic::PanicHookInfo;
use tracing::{error, info, warn};
use tracing_subscriber::filter::LevelFilter;

/// The least severe level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level, message, fields.
    Text,
    /// One JSON object per line.
    Json,
}

/// Sends the log and panic messages of this program to standard error from now on. Other messages
/// take the same way, by [`Lines::say`], so that no caller waits for standard error or fails
/// because of it.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn begin(level: LogLevel, format: LogFormat) -> io::Result<Lines> {
    let filter = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let in_journal = is_journal();
    let lines = Lines::to(io::stderr(), format == LogFormat::Json)?.with_priorities(in_journal);
    let all = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_target(false)
        // Reporting it on standard error could panic.
        .log_internal_errors(false)
        .with_writer(Prefixed(lines.clone()));
    // An error means that a logger is already set.
    let _ = match (format, in_journal) {
        (LogFormat::Text, false) => all.with_ansi(false).try_init(),
        // The journal has the time.
        (LogFormat::Text, true) => all.with_ansi(false).without_time().with_level(false).try_init(),
        (LogFormat::Json, _) => all.json().flatten_event(true).try_init(),
    };
    if level != LogLevel::Off {
        std::panic::set_hook(Box::new(panicked));
    }
    Ok(lines)
}

/// Logs an event of a volume.
pub(crate) fn event(told: &Told) {
    let Told { id, severity, text, event, .. } = told;
    let event = event.name();
    match severity {
        Severity::Critical => error!(event, id, "{text}"),
        Severity::Warning => warn!(event, id, "{text}"),
        Severity::Info => info!(event, id, "{text}"),
    }
}

/// The standard library's hook would block a panicking core on standard error.
fn panicked(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let why = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("?");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    error!(thread = thread.name().unwrap_or("?"), place, why, "panicked");
}

//! The log of a node, on standard error.

mod lines;

pub(crate) use self::lines::Lines;

use clap::ValueEnum;
use std::io;
use std::panic::PanicHookInfo;
use tracing::error;
use tracing_subscriber::filter::LevelFilter;

/// Which lines go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level, message, fields.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends what this program logs to standard error from now on, and so what it says of panics. What
/// else it says there goes the same way, by [`Lines::say`]: whoever logs never waits for standard
/// error, and does not fail if that does.
///
/// # Errors
/// If the system has no thread for it.
pub(crate) fn begin(level: LogLevel, format: LogFormat) -> io::Result<Lines> {
    let filter = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = Lines::to(io::stderr())?;
    let out = lines.clone();
    let all = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_target(false)
        // It would say so on standard error, and panic if it cannot.
        .log_internal_errors(false)
        .with_writer(move || out.clone());
    // An error says that another one logs already.
    let _ = match format {
        LogFormat::Text => all.with_ansi(false).try_init(),
        LogFormat::Json => all.json().flatten_event(true).try_init(),
    };
    if level != LogLevel::Off {
        std::panic::set_hook(Box::new(panicked));
    }
    Ok(lines)
}

/// The standard library's hook waits for standard error, and with it a core that panics.
fn panicked(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let why = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("?");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    error!(thread = thread.name().unwrap_or("?"), place, why, "panicked");
}
